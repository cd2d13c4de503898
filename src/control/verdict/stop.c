/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.c - a failed op ends when no peer of this host touches its buffers any more. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/engine.h"
#include "control/named/name.h"

/* Peers of this host may still write into this op's buffers: STOP requests a reply when they have
 * ended. */
static void ask_to_stop(tt_op *op)
{
    const tt_topology *topology = &op->set->topology;
    const tt_head head = tt_op_identity(op, TT_FRAME_STOP);
    TT_ASSERT(op->phase == OP_STOPPING);
    TT_ASSERT(op->request->status < 0);
    TT_ASSERT(op->members == op->set->members); /* the bits number members of the set */
    op->stops_open = 0;
    for (uint32_t member = 0; member < op->set->size; member++) {
        const uint32_t rank = op->set->members[member];
        if (member != op->set->self && !op->control->peers[rank].is_ended &&
            topology->host_of[member] == topology->host_of[op->set->self]) {
            op->stops_open++;
        } else {
            op->room->stopped[member / 64] |= UINT64_C(1) << member % 64;
        }
    }
    tt_text why = {0}; /* the text for the peers */
    const bool is_leaving = op->request->status == TT_ERR_SHUT_DOWN;
    const tt_status status = is_leaving ? TT_ERR_PEER_LEFT : op->request->status;
    if (is_leaving) {
        tt_text_add(&why, "rank %u has left the job", op->control->world.rank);
    } else {
        tt_text_add(&why, "%s", op->request->error);
    }
    for (uint32_t member = 0; member < op->set->size; member++) {
        if ((op->room->stopped[member / 64] >> member % 64 & 1) == 0) {
            tt_head stop = head;
            stop.argument = (uint64_t)(int64_t)status;
            tt_outgoing_send(op->control, op->set->members[member], stop, why.bytes, why.length);
        }
    }
}

void tt_op_stopped(tt_op *op, uint32_t member)
{
    TT_ASSERT(member < op->set->size);
    if (op->phase != OP_STOPPING || (op->room->stopped[member / 64] >> member % 64 & 1) != 0) {
        return;
    }
    op->room->stopped[member / 64] |= UINT64_C(1) << member % 64;
    TT_ASSERT(op->stops_open > 0);
    if (--op->stops_open == 0) {
        tt_op_end(op, op->request->status);
    }
}

static void abandon(tt_op *op)
{
    TT_ASSERT(op->stops_open > 0);
    tt_text text = {0};
    tt_text_add(&text, "a call has failed; its memory is not reused, because no reply came from");
    for (uint32_t member = 0; member < op->set->size; member++) {
        if ((op->room->stopped[member / 64] >> member % 64 & 1) == 0) {
            tt_text_add(&text, " rank %u", op->set->members[member]);
        }
    }
    tt_control_report(op->control, LEVEL_WARN, &text);
    tt_exec_forsake_slots(&op->exec);
    op->request->has_strays = true;
    tt_op_end(op, op->request->status);
}

void tt_op_patrol_stops(tt_control *control)
{
    const uint64_t now = tt_now(control->platform);
    const uint64_t patience_ns = control->config.stop_ns;
    for (uint32_t i = 0; patience_ns > 0 && i < control->op_count; i++) {
        tt_op *op = control->ops[i];
        if (op->phase == OP_STOPPING && tt_elapsed_ns(now, op->troubled_ns) >= patience_ns) {
            abandon(op);
        }
    }
}

void tt_op_fail(tt_op *op, tt_status status, const char *text)
{
    if (op->phase == OP_FREE || op->phase == OP_STOPPING) {
        return;
    }
    TT_ASSERT(status < 0);
    const bool is_shared = op->has_views;
    tt_request *request = op->request;
    tt_text error = {0};
    tt_text_add(&error, "%s", text);
    memcpy(request->error, error.bytes, sizeof(request->error));
    request->status = status;
    if (op->phase == OP_RUNNING) {
        tt_exec_stop(&op->exec);
    }
    if (op->phase == OP_HELD) { /* the end of another part of its group frees credit for it */
        tt_pace_withdraw(op);
        tt_op_set_phase(op, OP_DISPUTED);
    }
    tt_engine_failed(op);
    if (is_shared && !TT_PLANT(STORES_NOT_AWAITED)) {
        tt_op_set_phase(op, OP_STOPPING);
        op->troubled_ns = tt_now(op->control->platform);
        ask_to_stop(op);
    }
    if (op->planned != NULL) { /* before another part of its group gets a verdict */
        tt_planned_fail_parts(op, status, request->error);
    }
    if (op->phase != OP_STOPPING || op->stops_open == 0) {
        tt_op_end(op, status);
    }
}
