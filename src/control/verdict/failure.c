/* SPDX-License-Identifier: Apache-2.0
 *
 * failure.c - effects of a rank that is gone.
 *
 * A rank that is down breaks every set it belongs to: pending ops fail, later ones too, and
 * ABORT reports it to all ranks, because another rank may have no link of its own to it. A rank
 * that left in order fails only calls that need it, now or later. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/any.h"
#include "control/engine.h"
#include "control/named/name.h"

bool tt_failure_allows(tt_op *op)
{
    TT_ASSERT(op->set->broken < 0);
    for (uint32_t member = 0; member < op->size; member++) {
        const uint32_t rank = op->members[member];
        if (rank != op->control->world.rank && op->control->peers[rank].is_gone &&
            tt_exec_needs(&op->exec, member)) {
            tt_agree_object(op, op->set->broken, op->set->broken_text);
            return false;
        }
    }
    return true;
}

/* Does this op have to end because `rank` is gone? */
static bool is_hit(const tt_op *op, uint32_t rank, tt_status status)
{
    if (op->phase == OP_FREE || op->phase == OP_STOPPING) {
        return false;
    }
    if (op->set->member_of[rank] == UINT32_MAX) {
        return status == TT_ERR_PEER_DOWN && op->is_at_engine && op->set->engine_is_stuck;
    }
    if (status == TT_ERR_PEER_DOWN) {
        return true; /* also sends between others: the set is broken */
    }
    const bool is_pair = op->space == &tt_space_pair;
    const uint32_t member = is_pair ? 1 - op->self : op->set->member_of[rank];
    TT_ASSERT(status == TT_ERR_PEER_LEFT);
    if (op->members[member] != rank) {
        return false; /* a message of another pair */
    }
    const bool has_failed = op->exec.status < 0 && op->exec.culprit == member; /* a send to it */
    return op->phase == OP_RUNNING && (tt_exec_needs(&op->exec, member) || has_failed);
}

static void hit_ops(tt_control *control, uint32_t rank, tt_status status, const char *text)
{
    TT_ASSERT(control->peers[rank].is_gone);
    for (uint32_t i = 0; i < control->op_count; i++) {
        tt_op *op = control->ops[i];
        if (!is_hit(op, rank, status)) {
            continue;
        }
        if (status == TT_ERR_PEER_LEFT) {
            tt_agree_object(op, status, text); /* others need this rank, if not that one */
        } else {
            tt_op_fail(op, status, text);
        }
    }
}

/* Named calls are still negotiated: their ops fail when they begin on this rank, like unnamed ones,
 * and so on all ranks. */
void tt_failure_memory(tt_control *control, uint32_t set_id)
{
    tt_set *set = tt_set_find(control, set_id);
    tt_text text = {0};
    tt_text_add(&text, "rank %u is out of memory", control->world.rank);
    if (set == NULL || set->broken < 0) {
        return;
    }
    set->broken = TT_ERR_NO_MEMORY;
    memcpy(set->broken_text, text.bytes, sizeof(set->broken_text));
    for (uint32_t i = 0; i < control->op_count; i++) {
        if (control->ops[i]->phase != OP_FREE && control->ops[i]->set == set) {
            tt_agree_object(control->ops[i], TT_ERR_NO_MEMORY, text.bytes);
        }
    }
}

/* Send ABORT to all, also to the rank itself: if it lives, it must learn that it is excluded. */
static void pass_on(tt_control *control, uint32_t rank, const char *why)
{
    const tt_head head = {.kind = TT_FRAME_ABORT, .epoch = control->world.epoch, .argument = rank};
    for (uint32_t peer = 0; peer < control->world.size; peer++) {
        if (peer != control->world.rank && (peer == rank || !control->peers[peer].is_gone)) {
            tt_outgoing_send(control, peer, head, why, strlen(why));
        }
    }
}

void tt_control_give_up(tt_control *control, const char *why)
{
    tt_text text = {0};
    tt_text_add(&text, "%s", why);
    control->has_given_up = true;
    pass_on(control, control->world.rank, text.bytes);
}

/* Agreements of a rank that left may still be in flight through others: tickets get some time. */
static void break_names(tt_control *control, tt_set *set, tt_status status)
{
    TT_ASSERT(set->broken < 0);
    if (status == TT_ERR_PEER_DOWN || TT_PLANT(LEAVING_ENDS_TICKETS)) {
        tt_host_shut(control, set, status, set->broken_text);
    } else if (set->shut_ns == UINT64_MAX) {
        set->shut_ns = tt_now(control->platform) + LEFT_GRACE_NS;
        tt_control_watch(control);
    }
}

/* Exclude `rank`; `text` has the reason. */
static void count_out(tt_control *control, uint32_t rank, tt_status status, const tt_text *text)
{
    tt_peer_state *state = &control->peers[rank];
    TT_ASSERT(rank != control->world.rank);
    TT_ASSERT(status == TT_ERR_PEER_DOWN || status == TT_ERR_PEER_LEFT);
    TT_ASSERT(!state->is_gone || state->status == TT_ERR_PEER_LEFT); /* down is final */
    state->is_gone = true;
    state->status = status;
    if (control->flow.peers[rank].arriving != NULL) { /* its link lives: a frame arrives */
        control->platform->ops->discard(control->platform, rank);
        control->flow.peers[rank].arriving = NULL;
    }
    for (tt_set *set = control->sets; set != NULL; set = set->next) {
        const bool is_whole = set->broken != TT_ERR_PEER_DOWN && !control->is_starved;
        if (set->member_of[rank] != UINT32_MAX && is_whole) {
            if (set->broken != TT_ERR_NO_MEMORY || status == TT_ERR_PEER_DOWN) {
                set->broken = status;
                memcpy(set->broken_text, text->bytes, sizeof(set->broken_text));
            }
            break_names(control, set, status);
        }
    }
}

static void report_down(tt_control *control, uint32_t rank, const tt_text *text)
{
    if (control->listener.peer_down != NULL) {
        control->listener.peer_down(control->listener.owner, rank, text->bytes);
    } else {
        tt_control_report(control, LEVEL_ERROR, text);
    }
}

static void lose(tt_control *control, uint32_t rank, tt_status status, const char *why)
{
    const tt_peer_state *state = &control->peers[rank];
    TT_ASSERT(!state->is_gone || state->status < 0);
    if (rank == control->world.rank || (state->is_gone && state->status == TT_ERR_PEER_DOWN)) {
        return;
    }
    tt_text text = {0};
    if (status == TT_ERR_PEER_LEFT) {
        if (state->is_gone) {
            return;
        }
        tt_text_add(&text, "rank %u has left the job", rank);
    } else {
        tt_text_add(&text, "rank %u is down: ", rank);
        tt_text_add_words(&text, why, TT_ERROR_BYTES / 2);
    }
    count_out(control, rank, status, &text);
    if (status == TT_ERR_PEER_DOWN) {
        pass_on(control, rank, why);
        report_down(control, rank, &text);
        tt_engine_peer_down(control, rank, &text);
    }
    hit_ops(control, rank, status, text.bytes);
    if (control->any_waiting > 0) {
        tt_any_left(control, rank);
    }
}

/* An excluded rank may live: it could be stopped, and later store to a call that has failed. Such
 * calls wait for its own STOPPED, or for the end of the link to it. */
void tt_failure_peer(tt_control *control, uint32_t rank, tt_status status, const char *why)
{
    TT_ASSERT(rank < control->world.size);
    lose(control, rank, status, why);
    const bool stores = !control->peers[rank].is_ended || TT_PLANT(ABORT_WAITS_FOR_DEAD);
    for (uint32_t i = 0; i < control->op_count && !stores; i++) {
        tt_op *op = control->ops[i];
        if (op->phase == OP_STOPPING && op->set->member_of[rank] != UINT32_MAX) {
            tt_op_stopped(op, op->set->member_of[rank]);
        }
    }
}

/* The ABORT of `peer` may reach the others later than the goodbye of this rank, which would then
 * have left in order: this rank sends them one of its own. */
void tt_failure_excluded(tt_control *control, uint32_t peer, const char *why)
{
    if (control->peers[peer].is_gone) {
        return;
    }
    tt_text text = {0};
    tt_text_add(&text, "rank %u was excluded by rank %u", control->world.rank, peer);
    count_out(control, peer, TT_ERR_PEER_DOWN, &text);
    if (!control->has_given_up) {
        pass_on(control, control->world.rank, why);
    }
    tt_control_report(control, control->has_given_up ? LEVEL_INFO : LEVEL_ERROR, &text);
    tt_engine_peer_down(control, peer, &text);
    hit_ops(control, peer, TT_ERR_PEER_DOWN, text.bytes);
}

void tt_failure_stop_frame(tt_control *control, uint32_t peer, const tt_head *head,
                           const char *text)
{
    TT_ASSERT(head->kind == TT_FRAME_STOP || head->kind == TT_FRAME_STOPPED);
    tt_op *op = tt_op_find(control, peer, head);
    if (head->kind == TT_FRAME_STOPPED) {
        const uint32_t member = op != NULL ? op->set->member_of[peer] : UINT32_MAX;
        if (member != UINT32_MAX) {
            tt_op_stopped(op, member);
        }
        return;
    }
    tt_head reply = *head;
    reply.kind = TT_FRAME_STOPPED;
    reply.payload_bytes = 0;
    const int64_t status = (int64_t)head->argument;
    const bool is_good = status < 0 && status > -64;
    /* An op that is held would begin with the next frame, and has the sender's places then. */
    const bool may_store =
        op != NULL && ((op->phase == OP_RUNNING && !tt_op_is_launched(op)) || op->phase == OP_HELD);
    if (may_store && is_good) {
        tt_op_fail(op, (tt_status)status, text);
    } else if (op == NULL && is_good) {
        const tt_failure failure = {.status = (tt_status)status, .text = text};
        tt_agree_keep_early(control, peer, head, &failure);
    }
    tt_flow_control(&control->flow, peer, &reply); /* this rank stores no more */
}
