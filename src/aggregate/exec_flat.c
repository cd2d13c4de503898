/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_flat.c - an executor: each member sends one short frame to all others; then their sum is
 * taken, or each is stored at its place, or nothing is done (a barrier).
 *
 * It runs small sums, places of buffers, lengths, the byte before a launch, short gathers and
 * barriers: one eager frame, 2 to 64 members. Its state is one bit per member and direction.
 *  (1) Members that share this host's memory get one post, if each has credit for it; else each
 *      gets a frame of its own. A member without credit is sent WANT; its bit stays until a grant
 *      or credit arrives. So an op that is held back needs no other signal: DATA or WANT reaches
 *      it.
 *  (2) The sum is taken when all frames have arrived and no link borrows the input, which may be
 *      the output; in rank order, and directly from the last frame's buffer if no other is missing.
 */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/base.h"
#include "base/plant.h"

static uint64_t others_of(const tt_exec *exec)
{
    const tt_problem *problem = &exec->stage->problem;
    TT_DEBUG_ASSERT(problem->self < problem->size);
    TT_DEBUG_ASSERT(problem->size >= 2 && problem->size <= 64);
    const uint64_t all = UINT64_MAX >> (64 - problem->size);
    return all & ~(UINT64_C(1) << problem->self);
}

/* Where the frame of `member` is kept. */
TT_INLINE uint8_t *place_of(const tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    uint8_t *first = exec->stage->fold != NULL ? exec->scratch : exec->output;
    return first + (uint64_t)member * exec->stage->plan.frame_bytes;
}

/* ---- sending ---- */

TT_INLINE tt_send send_of(const tt_exec *exec, const tt_head *head)
{
    return (tt_send){
        .urgency = exec->urgency,
        .age = exec->age,
        .token = exec->token,
        .payload = head->payload_bytes > 0 ? exec->input : NULL,
        .head = head,
    };
}

TT_INLINE tt_head head_of(const tt_exec *exec, uint8_t flags)
{
    tt_head head = exec->identity;
    head.flags |= flags;
    head.payload_bytes = exec->stage->plan.frame_bytes;
    return head;
}

/* One frame for all; false: nothing was sent. */
static bool post(tt_exec *exec)
{
    TT_DEBUG_ASSERT(!exec->is_running || exec->unsent == others_of(exec));
    tt_platform *platform = exec->flow->platform;
    const uint32_t size = exec->stage->problem.size, self = exec->stage->problem.self;
    if (!exec->is_host_wide ||
        !(size == 2 ? tt_flow_take(exec->flow, exec->members[1 - self])
                    : tt_flow_take_all(exec->flow, exec->members, size, self))) {
        return false;
    }
    const tt_head head = head_of(exec, TT_FLAG_EAGER);
    tt_send send = send_of(exec, &head);
    send.peer = TT_PEER_HOST;
    send.token = TT_TOKEN_NONE;
    if (platform->ops->send(platform, &send) != TT_OK) {
        tt_flow_return_all(exec->flow, exec->members, size, self);
        return false;
    }
    return true;
}

static void send_to(tt_exec *exec, uint32_t member, uint8_t flags)
{
    TT_DEBUG_ASSERT((exec->unsent >> member & 1) != 0);
    tt_platform *platform = exec->flow->platform;
    const tt_head head = head_of(exec, flags);
    tt_send send = send_of(exec, &head);
    send.peer = exec->members[member];
    exec->unsent &= ~(UINT64_C(1) << member);
    const tt_status status = platform->ops->send(platform, &send);
    if (status < 0) {
        tt_exec_fail(exec, status, member);
    }
    exec->borrowed += status == TT_IN_PROGRESS ? 1 : 0;
}

/* Send frames that have credit, to the next member first, so that not all ranks send to the same
 * one. */
static void send_credited(tt_exec *exec)
{
    const uint32_t size = exec->stage->problem.size, self = exec->stage->problem.self;
    for (uint32_t i = 1; i < size && exec->status == TT_OK; i++) {
        const uint32_t member = self + i < size ? self + i : self + i - size;
        const uint64_t bit = UINT64_C(1) << member;
        if ((exec->unsent & bit) == 0) {
            continue;
        }
        if (tt_flow_take(exec->flow, exec->members[member])) {
            send_to(exec, member, TT_FLAG_EAGER);
        } else if ((exec->wanting & bit) == 0) {
            exec->wanting |= bit;
            tt_exec_signal(exec, TT_FRAME_WANT, member, 0);
        }
    }
    TT_DEBUG_ASSERT((exec->unsent & ~others_of(exec)) == 0);
    exec->is_blocked = exec->unsent != 0;
}

/* ---- the end ---- */

/* Sum of all frames; that of `last` is at `payload` (NULL: at its place). */
TT_INLINE void sum(tt_exec *exec, uint32_t last, const void *payload)
{
    const tt_stage *stage = exec->stage;
    TT_DEBUG_ASSERT(exec->laid_out == stage);
    for (uint32_t i = 0; (stage->problem.size > 2 || payload == NULL) && i < stage->problem.size;
         i++) {
        exec->pointers[i] = place_of(exec, i);
    }
    if (payload != NULL) {
        exec->pointers[last] = payload;
    }
    exec->pointers[stage->problem.self] = exec->input;
    if (TT_PLANT(SUM_ORDER_BY_RANK) && stage->problem.self % 2 == 1) {
        const void *first = exec->pointers[0];
        exec->pointers[0] = exec->pointers[1];
        exec->pointers[1] = first;
    }
    void *const targets[1] = {exec->output};
    const tt_fold fold = {.targets = targets,
                          .target_count = 1,
                          .sources = exec->pointers,
                          .source_count = stage->problem.size,
                          .count = stage->fold_count};
    stage->fold(&fold);
    if (exec->divisor > 1 || stage->problem.postscale != 1.0) {
        tt_exec_finish(exec, exec->output, stage->problem.bytes);
    }
}

TT_INLINE bool is_complete(const tt_exec *exec)
{
    return (exec->unsent | exec->unreceived) == 0 && exec->borrowed == 0 && exec->status == TT_OK;
}

static void complete(tt_exec *exec, uint32_t last, const void *payload)
{
    TT_DEBUG_ASSERT(exec->is_running && is_complete(exec));
    tt_platform *platform = exec->flow->platform;
    const tt_collective collective = exec->stage->problem.collective;
    if (exec->stage->fold != NULL && !tt_exec_is_phantom(exec, payload)) {
        sum(exec, last, payload);
    }
    if (collective != TT_ALLGATHER) {
        platform->ops->spend(platform, TT_SPEND_REDUCE, exec->stage->problem.bytes,
                             exec->stage->problem.size - 1);
    }
    exec->is_running = false;
}

/* ---- the table ---- */

/* A sum needs room for the frames and for pointers to them. */
static tt_status lay_out(tt_exec *exec)
{
    const tt_stage *stage = exec->stage;
    TT_DEBUG_ASSERT(!exec->is_running);
    const size_t pointers = tt_round_up(stage->problem.size * sizeof(void *), 64);
    TT_ASSERT(stage->fold != NULL);
    TT_TRY(tt_exec_reserve(exec, pointers + stage->plan.scratch_bytes, 0));
    exec->pointers = exec->workspace;
    exec->scratch = (uint8_t *)exec->workspace + pointers;
    exec->laid_out = stage;
    return TT_OK;
}

/* This rank's part of a gather. */
static void keep_own(tt_exec *exec)
{
    const tt_stage *stage = exec->stage;
    TT_DEBUG_ASSERT(exec->is_running);
    const uint32_t bytes = stage->plan.frame_bytes;
    if (stage->problem.collective != TT_ALLGATHER || bytes == 0) {
        return;
    }
    uint8_t *own = place_of(exec, stage->problem.self);
    if (own != exec->input && !tt_exec_is_phantom(exec, NULL)) {
        memcpy(own, exec->input, bytes);
    }
    if (stage->kind == TT_STAGE_EXCHANGE) {
        exec->flow->platform->ops->spend(exec->flow->platform, TT_SPEND_COPY, bytes,
                                         own != exec->input ? 1 : 0);
    }
}

/* Notes and parked frames of this stage. */
static void take_early(tt_exec *exec)
{
    uint32_t member;
    tt_head head;
    while (exec->flow->note_count > 0 && tt_exec_take_note(exec, &member, &head)) {
        if (head.kind == TT_FRAME_WANT) {
            tt_exec_signal(exec, TT_FRAME_GRANT, member, 1);
        } else if (head.argument > 0 && (exec->unsent >> member & 1) != 0) {
            send_to(exec, member, 0);
        }
    }
    if (exec->flow->parked_count > 0) {
        tt_exec_replay_parked(exec);
    }
}

static tt_status flat_start(tt_exec *exec)
{
    TT_ASSERT(exec->stage->plan.is_flat && exec->stage->problem.size >= 2);
    if (exec->laid_out != exec->stage && exec->stage->fold != NULL) {
        TT_TRY(lay_out(exec)); /* else the layout may be the next stage's */
    }
    tt_exec_reset(exec);
    exec->borrowed = 0;
    exec->wanting = 0;
    exec->unsent = exec->unreceived = others_of(exec);
    exec->lanes_opened = 1;
    exec->is_running = true;
    if (exec->is_posted || post(exec)) {
        exec->unsent = 0;
    } else {
        send_credited(exec);
    }
    exec->is_posted = false;
    keep_own(exec);
    if (exec->flow->note_count > 0 || exec->flow->parked_count > 0) {
        take_early(exec);
    }
    return TT_OK;
}

void tt_exec_post(tt_exec *exec)
{
    TT_ASSERT(!exec->is_running && exec->laid_out == exec->stage);
    TT_ASSERT(exec->stage->executor == &tt_executor_flat);
    exec->is_posted = post(exec);
}

/* One more frame has arrived. */
TT_INLINE void received(tt_exec *exec, uint32_t member, const void *payload)
{
    const uint64_t bit = UINT64_C(1) << member;
    TT_DEBUG_ASSERT((exec->unreceived & bit) != 0);
    const uint32_t bytes = exec->stage->plan.frame_bytes;
    exec->unreceived &= ~bit;
    if (TT_PLANT(FLAT_SUM_TOO_EARLY) && exec->stage->fold != NULL &&
        (exec->unreceived & (exec->unreceived - 1)) == 0) {
        exec->unreceived = 0;
    }
    if (TT_PLANT(FLAT_PLACE_TOO_EARLY) && exec->stage->kind == TT_STAGE_PLACES &&
        (exec->unreceived & (exec->unreceived - 1)) == 0) {
        exec->unreceived = 0;
    }
    const bool is_last = is_complete(exec);
    if (payload != NULL && bytes > 0 && !(is_last && exec->stage->fold != NULL) &&
        !tt_exec_is_phantom(exec, payload)) {
        memcpy(place_of(exec, member), payload, bytes);
        payload = NULL;
    }
    if (is_last) {
        complete(exec, member, payload);
    }
}

static void *flat_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload)
{
    const uint32_t peer = exec->members[member];
    TT_ASSERT(member < exec->stage->problem.size && member != exec->stage->problem.self);
    if ((head->flags & TT_FLAG_EAGER) != 0) {
        tt_flow_consumed(exec->flow, peer);
    }
    if ((head->lane | head->round) != 0 || head->payload_bytes != exec->stage->plan.frame_bytes) {
        tt_exec_fail(exec, TT_ERR_BAD_WIRE, member);
        exec->flow->frames_dropped++;
        return NULL;
    }
    if ((exec->unreceived >> member & 1) == 0) {
        exec->flow->frames_dropped++; /* a duplicate must not be taken twice */
        return NULL;
    }
    if (payload == NULL && head->payload_bytes > 0) {
        exec->flow->peers[peer].arriving = exec;
        return place_of(exec, member);
    }
    received(exec, member, payload);
    return NULL;
}

static void flat_payload(tt_exec *exec, uint32_t member, const tt_head *head)
{
    TT_DEBUG_ASSERT(head->payload_bytes == exec->stage->plan.frame_bytes);
    (void)head;
    received(exec, member, NULL);
}

static void complete_late(tt_exec *exec)
{
    if (exec->is_running && is_complete(exec)) {
        complete(exec, 0, NULL);
    }
}

static void flat_granted(tt_exec *exec, uint32_t member, uint64_t lanes)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    if (lanes > 0 && (exec->unsent >> member & 1) != 0) {
        send_to(exec, member, 0);
        complete_late(exec);
    }
}

static void flat_wanted(tt_exec *exec, uint32_t member)
{
    tt_exec_signal(exec, TT_FRAME_GRANT, member, 1);
}

static void flat_sent(tt_exec *exec, uint32_t lane_slot)
{
    TT_ASSERT(lane_slot == 0 && exec->borrowed > 0);
    exec->borrowed--;
    complete_late(exec);
}

static void flat_retry(tt_exec *exec)
{
    TT_DEBUG_ASSERT(exec->is_blocked);
    send_credited(exec);
    complete_late(exec);
}

static bool flat_step(tt_exec *exec)
{
    TT_DEBUG_ASSERT(exec->is_running);
    exec->has_work = false;
    return false;
}

static bool flat_needs(const tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    return ((exec->unsent | exec->unreceived) >> member & 1) != 0;
}

static bool flat_is_untouched(const tt_exec *exec)
{
    const uint64_t others = others_of(exec);
    TT_DEBUG_ASSERT(((exec->unsent | exec->unreceived) & ~others) == 0);
    return exec->unsent == others && exec->unreceived == others;
}

static void flat_stop(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    const tt_problem *problem = &exec->stage->problem;
    for (uint32_t i = 0; exec->borrowed > 0 && i < problem->size; i++) {
        if (i != problem->self && !TT_PLANT(PAYLOAD_KEPT_AFTER_END)) {
            platform->ops->recall(platform, exec->members[i], exec->token);
        }
    }
    exec->borrowed = 0;
}

const tt_executor tt_executor_flat = {
    .name = "flat",
    .start = flat_start,
    .frame = flat_frame,
    .payload = flat_payload,
    .granted = flat_granted,
    .wanted = flat_wanted,
    .sent = flat_sent,
    .retry = flat_retry,
    .step = flat_step,
    .needs = flat_needs,
    .is_untouched = flat_is_untouched,
    .stop = flat_stop,
};
