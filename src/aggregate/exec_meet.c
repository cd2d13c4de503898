/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_meet.c - calls in shared memory that repeat: places are told again, nothing is laid out.
 *
 * Where all buffers lie in the arena, plan and workspace do not depend on where. An exec that has
 * ended so can tell its next places in one frame for all and take theirs in without becoming
 * another exec in between: stage 0 of the op, and on the wire no other than the one that exec.c
 * runs. While it meets, no lane is open, and what was laid out stays for the stage that follows. */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "aggregate/pattern/pattern.h"
#include "base/assert.h"
#include "base/plant.h"

enum { MEMBERS_MAX = 64 }; /* one word of bits */

bool tt_exec_can_meet(const tt_exec *exec)
{
    const tt_problem *problem = &exec->problem;
    return problem->facts != NULL && problem->size > 1 && problem->size <= MEMBERS_MAX &&
           exec->algorithm->needs_facts && exec->is_host_wide && exec->plan.sends_alike &&
           exec->is_eager && sizeof(tt_fact) <= exec->flow->eager_bytes_max &&
           tt_all_shared(problem);
}

bool tt_exec_meet(tt_exec *exec, tt_fact *facts)
{
    tt_flow *flow = exec->flow;
    const uint32_t size = exec->problem.size, self = exec->problem.self;
    TT_ASSERT(!exec->is_running);
    TT_ASSERT(facts == exec->problem.facts);
    if (flow->note_count > 0 || !tt_flow_take_all(flow, exec->members, size, self)) {
        return false;
    }
    tt_head head = exec->identity;
    head.flags |= TT_FLAG_EAGER;
    head.payload_bytes = sizeof(tt_fact);
    const tt_send send = {
        .peer = TT_PEER_HOST,
        .urgency = exec->urgency,
        .age = exec->age,
        .token = TT_TOKEN_NONE,
        .payload = &facts[self],
        .head = &head,
    };
    if (flow->platform->ops->send(flow->platform, &send) != TT_OK) {
        tt_flow_return_all(flow, exec->members, size, self);
        return false;
    }
    exec->status = TT_OK;
    exec->is_blocked = exec->has_work = exec->is_opening = exec->is_quick = false;
    exec->lanes_opened = 1; /* the one that the others' places come in */
    exec->lanes_done = 0;
    exec->partner_count = 0;
    exec->facts = facts;
    exec->unmet = (size == MEMBERS_MAX ? 0 : UINT64_C(1) << size) - 1;
    exec->unmet &= ~(UINT64_C(1) << self);
    exec->is_running = exec->is_meeting = exec->is_laid_out = true;
    if (flow->parked_count > 0) {
        tt_exec_replay_parked(exec);
    }
    return true;
}

bool tt_exec_meet_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload)
{
    TT_ASSERT(exec->is_meeting);
    const uint64_t bit = UINT64_C(1) << member;
    if (head->lane != 0 || head->round != 0 || head->payload_bytes != sizeof(tt_fact) ||
        payload == NULL) {
        return false;
    }
    if ((head->flags & TT_FLAG_EAGER) != 0) {
        tt_flow_consumed(exec->flow, exec->members[member]);
    }
    if ((exec->unmet & bit) == 0) {
        exec->flow->frames_dropped++; /* it came twice */
        return true;
    }
    memcpy(&exec->facts[member], payload, sizeof(tt_fact));
    exec->unmet &= ~bit;
    if (exec->unmet == 0 ||
        (TT_PLANT(MEET_ONE_TOO_EARLY) && (exec->unmet & (exec->unmet - 1)) == 0)) {
        exec->is_running = exec->is_meeting = false;
    }
    return true;
}

bool tt_exec_part_frame(tt_exec *exec, uint32_t member, const tt_head *head)
{
    tt_lane *lane = &exec->lanes[0];
    const uint32_t last = exec->plan.round_count - 1;
    const uint64_t bit = (uint64_t)last * exec->plan.fan + member;
    TT_ASSERT(exec->is_again);
    if (!lane->is_open || head->lane != 0 || head->round != last || head->payload_bytes != 0 ||
        member == exec->problem.self || tt_bit_get(lane->received, bit)) {
        return false;
    }
    if ((head->flags & TT_FLAG_EAGER) != 0) {
        tt_flow_consumed(exec->flow, exec->members[member]);
    }
    lane->received[bit / 64] |= UINT64_C(1) << bit % 64;
    if (lane->is_entered && lane->round == last) {
        TT_ASSERT(lane->arrivals_open > 0);
        lane->arrivals_open--;
        if (lane->arrivals_open == 0 && lane->sends_open == 0 && exec->status == TT_OK) {
            lane->is_entered = false;
            lane->round++;
            tt_exec_lane_close(exec, lane);
        }
    }
    return true;
}
