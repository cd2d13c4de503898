/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_quick.c - small all-reduces that repeat, without asking the algorithm for every move.
 *
 * A flat plan says all there is to know of its two rounds. If the one frame of the first can be
 * posted for everybody, or every link has copied its own, nothing is left but to wait for the
 * others' and to add. The lane is kept as exec.c would keep it, so that whoever looks at it (a peer
 * that is gone, a call that is cancelled, a frame that makes no sense) sees the state of an exec
 * like any other; and where a link has only borrowed its frame, exec.c goes on from there. */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/plant.h"
#include "base/reduce.h"

enum { MEMBERS_MAX = 64 }; /* one word of bits */

/* One frame for all, who share memory. */
static bool post(const tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    const tt_send send = {
        .peer = TT_PEER_HOST,
        .urgency = exec->urgency,
        .age = exec->age,
        .token = TT_TOKEN_NONE,
        .payload = exec->problem.bytes > 0 ? exec->input : NULL,
        .head = &exec->posted,
    };
    return platform->ops->send(platform, &send) == TT_OK;
}

/* A frame for each; what was only borrowed stays open. */
static void send_each(tt_exec *exec, tt_lane *lane)
{
    tt_platform *platform = exec->flow->platform;
    const uint32_t size = exec->problem.size, self = exec->problem.self;
    tt_send send = {
        .urgency = exec->urgency,
        .age = exec->age,
        .token = exec->token,
        .payload = exec->problem.bytes > 0 ? exec->input : NULL,
        .head = &exec->posted,
    };
    for (uint32_t i = 1; i < size; i++) {
        const uint32_t member = self + i < size ? self + i : self + i - size;
        send.peer = exec->members[member];
        const tt_status status = platform->ops->send(platform, &send);
        if (status < 0) {
            tt_exec_fail(exec, status, member);
            return;
        }
        lane->sends_open += status == TT_OK ? 0 : 1;
    }
}

static bool take_credit(const tt_exec *exec)
{
    const uint32_t size = exec->problem.size, self = exec->problem.self;
    return size == 2 ? tt_flow_take(exec->flow, exec->members[1 - self])
                     : tt_flow_take_all(exec->flow, exec->members, size, self);
}

/* Say it first: what is left to do is done while it is on its way. */
bool tt_exec_quick_start(tt_exec *exec)
{
    const uint32_t size = exec->problem.size, self = exec->problem.self;
    if (!exec->is_eager || exec->plan.lane_count > 1 || size < 2 || size > MEMBERS_MAX ||
        exec->flow->note_count > 0 || (!exec->is_host_wide && exec->tells) || !take_credit(exec)) {
        return false;
    }
    exec->posted = exec->identity;
    exec->posted.flags |= TT_FLAG_EAGER;
    exec->posted.payload_bytes = (uint32_t)exec->problem.bytes;
    if (exec->is_host_wide && !post(exec)) {
        tt_flow_return_all(exec->flow, exec->members, size, self);
        return false;
    }
    tt_lane *lane = &exec->lanes[0];
    tt_exec_lane_reset(exec, lane, 0);
    lane->is_entered = lane->is_reduced = lane->is_worked = true;
    lane->sends_open = lane->sends_waiting = 0;
    lane->arrivals_open = size - 1;
    lane->work_done = 0;
    lane->issued[0] = UINT64_MAX;
    exec->lanes_opened = 1;
    if (!exec->is_host_wide) {
        send_each(exec, lane);
    }
    exec->is_quick = lane->sends_open == 0 && exec->status == TT_OK;
    if (exec->flow->parked_count > 0) {
        tt_exec_replay_parked(exec);
    }
    return true;
}

bool tt_exec_repeat(tt_exec *exec)
{
    TT_ASSERT(!exec->is_running);
    if (!exec->is_planned || !exec->plan.is_flat || exec->tells) {
        return false;
    }
    exec->status = TT_OK;
    exec->is_blocked = exec->has_work = exec->is_opening = exec->is_quick = false;
    exec->is_again = false;
    exec->lanes_opened = exec->lanes_done = 0;
    exec->partner_count = 0;
    exec->is_running = true;
    const bool is_begun = tt_exec_quick_start(exec); /* and perhaps over: the others' were here */
    exec->is_running = exec->is_running && is_begun;
    return is_begun;
}

/* All are here: `last` at `payload`, the others in scratch. */
static void sum(tt_exec *exec, const tt_lane *lane, uint32_t last, const void *payload)
{
    const tt_problem *problem = &exec->problem;
    for (uint32_t i = 0; problem->size > 2 && i < problem->size; i++) {
        exec->pointers[i] = lane->scratch + (uint64_t)i * exec->plan.frame_bytes;
    }
    exec->pointers[last] = payload;
    exec->pointers[problem->self] = exec->input;
    void *const targets[1] = {exec->output};
    const tt_fold fold = {.targets = targets,
                          .target_count = 1,
                          .sources = exec->pointers,
                          .source_count = problem->size,
                          .count = exec->fold_count};
    exec->fold(&fold);
    if (exec->divisor > 1 || problem->postscale != 1.0) {
        tt_exec_finish(exec, exec->output, problem->bytes);
    }
}

bool tt_exec_quick_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload)
{
    tt_lane *lane = &exec->lanes[0];
    const uint32_t bytes = head->payload_bytes;
    if (member >= exec->problem.size || member == exec->problem.self ||
        (payload == NULL && bytes > 0)) {
        return false;
    }
    const uint64_t bit = UINT64_C(1) << member;
    if ((lane->received[0] & bit) != 0) {
        return false;
    }
    tt_flow_consumed(exec->flow, exec->members[member]);
    lane->received[0] |= bit;
    TT_ASSERT(lane->arrivals_open > 0);
    if (--lane->arrivals_open > (TT_PLANT(QUICK_ONE_TOO_EARLY) ? 1 : 0)) {
        if (bytes > 0) {
            memcpy(lane->scratch + (uint64_t)member * exec->plan.frame_bytes, payload, bytes);
        }
        return true;
    }
    if (bytes > 0) {
        sum(exec, lane, member, payload);
    }
    exec->flow->platform->ops->spend(exec->flow->platform, TT_SPEND_REDUCE, bytes);
    exec->is_quick = false;
    lane->is_entered = false;
    lane->round = exec->plan.round_count;
    tt_exec_lane_close(exec, lane);
    return true;
}
