/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c - paced ops (schedule/pacer.h), exceptions from credit, and urgency.
 *
 * A gradient begins while credit > 0 and returns its credit when it is over; the others are held,
 * most urgent first, then oldest. Ops in flight yield to more urgent frames at every link
 * (transport/frame_queue.h), so an op that is more urgent than all of them is never held: credit
 * limits the ops begun beside it, not its own speed.
 *
 *  (1) Each rank decides by its own credit. A rank that waits for a peer has sent it a frame of the
 *      op (data, GRANT or WANT: exec.tells), and a rank begins an op for which it receives such a
 *      frame, with or without credit: an op that has begun on one rank begins on every rank it
 *      waits for. One deadlock is left, through the users: planned ops begin before all ranks have
 *      submitted them, and a user may wait for a held op before it submits the one that has the
 *      credit. So if no op ends for a while, one more op begins without credit.
 *  (2) Ops of the pacer are HELD, or were held and are DISPUTED now: these keep waiting.
 *  (3) Without is_paced nothing is held, and this costs a comparison.
 *  (4) A short gradient precedes long ones. It needs hardly any bandwidth, but several hops: in
 *      strict order each hop would wait for all more urgent data, and at its own turn it would
 *      still have all hops before it. At most one chunk of bytes precedes so at a time, which
 *      bounds the delay of urgent ops.
 *  (5) Ops for an outside engine are never held, because that would change the order of launches,
 *      which all ranks must share; engine.c delays their launch instead, in that order. */
#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"

static tt_op *op_of(tt_paced *paced)
{
    return TT_CONTAINER_OF(paced, tt_op, paced);
}

static void *take(void *user, size_t bytes)
{
    return tt_platform_allocate(user, bytes);
}

static void give(void *user, void *memory, size_t bytes)
{
    tt_platform_release(user, memory, bytes);
}

void tt_pace_init(tt_control *control)
{
    const tt_control_config *config = &control->config;
    const tt_allocator allocator = {.allocate = take, .release = give, .user = control->platform};
    tt_pacer_init(&control->pace.pacer, config->is_fifo, &allocator);
    tt_pacer_set_credit(&control->pace.pacer, config->is_paced ? config->credit_bytes : 0);
}

void tt_pace_fini(tt_control *control)
{
    TT_ASSERT(!tt_pacer_has_waiting(&control->pace.pacer) && control->pace.top_count == 0);
    tt_pacer_fini(&control->pace.pacer);
}

/* Scheduled ops: exchanges of data that no caller needs at once. */
static bool is_gradient(const tt_op *op)
{
    return op->space != &tt_space_pair && op->request->collective != TT_BARRIER &&
           op->set->size > 1 && op->request->urgency < TT_URGENCY_ACTIVATION / 2;
}

/* As they are sent. */
static uint64_t bytes_of(const tt_op *op)
{
    const tt_request *request = op->request;
    if ((op->recipe->traits & TRAIT_CODED) != 0) {
        return tt_codec_wire_bytes(request->program->codec, request->count);
    }
    return request->count * tt_dtype_bytes(request->dtype);
}

/* The clock was read at its submission, or just now. */
static void charge(tt_op *op)
{
    TT_DEBUG_ASSERT(op->phase != OP_FREE);
    if (is_gradient(op) && (op->recipe->traits & TRAIT_BRIEF) == 0 && op->weight > 0) {
        tt_pacer_charge(&op->control->pace.pacer, &op->paced, bytes_of(op), op->begun_ns);
    }
}

/* Is it more urgent than everything in flight? */
static bool passes(const tt_op *op)
{
    const tt_control *control = op->control;
    return !control->config.is_fifo && op->request->urgency > control->flow.urgency_top;
}

int32_t tt_pace_urgency(tt_op *op)
{
    const tt_request *request = op->request;
    const uint64_t bytes = bytes_of(op);
    bool is_short = op->paced.short_bytes > 0;
    if (!is_short && is_gradient(op) && !op->control->config.is_fifo &&
        bytes <= tt_short_bytes(request->segment_bytes)) {
        is_short = tt_pacer_pass_short(&op->control->pace.pacer, &op->paced, bytes,
                                       request->segment_bytes);
    }
    return request->urgency + (is_short ? TT_URGENCY_SHORT : 0);
}

void tt_pace_run(tt_op *op)
{
    tt_control *control = op->control;
    const int32_t urgency = op->request->urgency;
    op->is_running = true;
    if (urgency > control->flow.urgency_top) {
        control->flow.urgency_top = urgency;
        control->pace.top_count = 0;
    }
    TT_DEBUG_ASSERT(urgency <= control->flow.urgency_top);
    control->pace.top_count += urgency == control->flow.urgency_top ? 1 : 0;
}

/* The op does not run any more. */
static void rest(tt_op *op)
{
    tt_control *control = op->control;
    if (!op->is_running) {
        return;
    }
    op->is_running = false;
    TT_DEBUG_ASSERT(op->request->urgency <= control->flow.urgency_top);
    TT_DEBUG_ASSERT(op->request->urgency < control->flow.urgency_top ||
                    control->pace.top_count > 0);
    if (op->request->urgency < control->flow.urgency_top || --control->pace.top_count > 0) {
        return;
    }
    control->flow.urgency_top = INT32_MIN;
    for (uint32_t i = 0; control->pending > 1 && i < control->op_count; i++) {
        if (control->ops[i]->is_running) {
            tt_pace_run(control->ops[i]);
        }
    }
}

static bool is_held_back(const tt_op *op)
{
    const tt_control *control = op->control;
    if (!tt_pacer_is_short_of_credit(&control->pace.pacer) || !is_gradient(op) ||
        (op->recipe->traits & (TRAIT_ENGINE | TRAIT_BRIEF)) != 0) {
        return false;
    }
    const tt_head key = tt_op_arriving_key(op);
    return !passes(op) && !tt_flow_knows(&control->flow, &key, op->peer);
}

bool tt_pace_hold(tt_op *op)
{
    TT_DEBUG_ASSERT(!op->is_running);
    tt_control *control = op->control;
    tt_pacer *pacer = &control->pace.pacer;
    if (!is_held_back(op) ||
        !tt_pacer_hold(pacer, &op->paced, op->request->urgency, tt_now(control->platform))) {
        charge(op);
        return false;
    }
    tt_op_set_phase(op, OP_HELD);
    if (pacer->waiting.count == 1) {
        tt_control_due(control, tt_pacer_due_ns(pacer));
    }
    return true;
}

static void begin(tt_op *op)
{
    TT_ASSERT(op->phase == OP_HELD || op->phase == OP_DISPUTED);
    tt_pacer_moved(&op->control->pace.pacer, tt_now(op->control->platform));
    charge(op);
    tt_op_begin_now(op);
}

void tt_pace_patrol(tt_control *control)
{
    tt_pacer *pacer = &control->pace.pacer;
    if (!tt_pacer_has_waiting(pacer)) {
        return;
    }
    tt_paced *next = tt_pacer_next_overdue(pacer, tt_now(control->platform));
    if (next != NULL) {
        control->counters.demanded++;
        begin(op_of(next));
    }
    if (tt_pacer_has_waiting(pacer)) {
        tt_control_due(control, tt_pacer_due_ns(pacer));
    }
}

void tt_pace_demand(tt_op *op)
{
    TT_ASSERT(op->phase == OP_HELD);
    tt_pacer_withdraw(&op->control->pace.pacer, &op->paced);
    op->control->counters.demanded++;
    begin(op);
}

void tt_pace_withdraw(tt_op *op)
{
    tt_pacer_withdraw(&op->control->pace.pacer, &op->paced);
}

void tt_pace_over(tt_op *op)
{
    tt_pacer *pacer = &op->control->pace.pacer;
    const bool had_credit = op->paced.charge_bytes > 0;
    rest(op);
    TT_DEBUG_ASSERT(!op->is_running);
    tt_pacer_over(pacer, &op->paced, op->begun_ns); /* also read at its end, if it succeeded */
    if (had_credit && tt_pacer_has_waiting(pacer)) {
        tt_pacer_moved(pacer, tt_now(op->control->platform));
    }
}

void tt_pace_pump(tt_control *control)
{
    tt_paced *next;
    if (control->pace.is_pumping) {
        return; /* the outermost call continues, so that the stack does not grow */
    }
    control->pace.is_pumping = true;
    while ((next = tt_pacer_next(&control->pace.pacer)) != NULL) {
        begin(op_of(next));
    }
    control->pace.is_pumping = false;
}

void tt_control_set_credit(tt_control *control, uint64_t credit_bytes)
{
    control->config.credit_bytes = credit_bytes;
    tt_pacer_set_credit(&control->pace.pacer, control->config.is_paced ? credit_bytes : 0);
    if (control->shut_down == TT_OK) {
        tt_pace_pump(control);
    }
}

void tt_control_set_fuse(tt_control *control, uint64_t fuse_bytes)
{
    control->fuse_bytes = fuse_bytes;
}

void tt_control_set_segment(tt_control *control, uint32_t segment_bytes)
{
    TT_ASSERT(segment_bytes % 64 == 0 && segment_bytes > 0);
    TT_ASSERT(segment_bytes <= TT_PAYLOAD_BYTES_MAX / 2);
    control->config.segment_bytes = segment_bytes;
}
