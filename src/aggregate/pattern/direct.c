/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.c - rank r owns slice r: all ranks send it there, r adds them in rank order, and (for an
 * all-reduce) sends the result to all. Two phases for any number of ranks; the same bytes as a
 * ring; halves are rounded once.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

static bool direct_fits(const tt_problem *problem)
{
    return problem->collective == TT_ALLREDUCE || problem->collective == TT_REDUCESCATTER;
}

static void direct_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(direct_fits(problem));
    const bool is_allreduce = problem->collective == TT_ALLREDUCE;
    const uint64_t segment = problem->segment_bytes;
    const uint64_t bytes = is_allreduce ? problem->bytes : tt_part_bytes_max(problem);
    const uint64_t lane_bytes = is_allreduce ? segment * problem->size : segment;
    const uint64_t elements = bytes / problem->element_bytes;
    const uint64_t slice_max =
        is_allreduce ? (elements + problem->size - 1) / problem->size * problem->element_bytes
                     : bytes;
    const uint64_t frame_bytes = slice_max < segment ? slice_max : segment;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(bytes, lane_bytes),
        .lane_bytes = lane_bytes,
        .round_count = is_allreduce ? 3 : 2,
        .fan = problem->size,
        .partner_max = problem->size,
        .frame_bytes = (uint32_t)frame_bytes,
        .scratch_bytes = frame_bytes * problem->size,
    };
}

/* The part of the slice of `owner` that this lane covers. */
static uint64_t owned(const tt_problem *problem, const tt_plan *plan, uint64_t lane, uint32_t owner,
                      uint64_t *bytes_out)
{
    if (problem->collective == TT_REDUCESCATTER) {
        *bytes_out = lane_length(tt_part_bytes(problem, owner), plan->lane_bytes, lane);
        return tt_part_offset(problem, owner) + lane * plan->lane_bytes;
    }
    const tt_span span = tt_slice(lane_length(problem->bytes, plan->lane_bytes, lane),
                                  problem->element_bytes, problem->size, owner);
    *bytes_out = span.bytes;
    TT_ASSERT(span.bytes <= plan->frame_bytes); /* it fits into its slot in scratch */
    return lane * plan->lane_bytes + span.first;
}

static bool direct_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                        tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    const uint32_t self = problem->self, size = problem->size, others = size - 1;
    uint64_t own_bytes;
    const uint64_t own = owned(problem, plan, at.lane, self, &own_bytes);
    if (at.round == 1) {
        const bool is_scatter = problem->collective == TT_REDUCESCATTER;
        move_out->kind = TT_MOVE_WORK;
        move_out->work = TT_WORK_SUM;
        move_out->bytes = own_bytes;
        move_out->source = spot_at(TT_INPUT, own);
        move_out->target = spot_at(TT_OUTPUT, is_scatter ? at.lane * plan->lane_bytes : own);
        move_out->slot = plan->frame_bytes;
        return at.index == 0;
    }
    if (at.index >= 2 * others) {
        return false;
    }
    const bool is_send = at.index < others;
    const uint32_t peer = (self + 1 + at.index % others) % size;
    uint64_t peer_bytes;
    const uint64_t peer_offset = owned(problem, plan, at.lane, peer, &peer_bytes);
    const bool is_first = at.round == 0;
    move_out->kind = is_send ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = peer;
    move_out->bytes = is_send == is_first ? peer_bytes : own_bytes;
    move_out->source = is_first ? spot_at(TT_INPUT, peer_offset) : spot_at(TT_OUTPUT, own);
    move_out->target = is_first ? spot_at(TT_SCRATCH, (uint64_t)peer * plan->frame_bytes)
                                : spot_at(TT_OUTPUT, peer_offset);
    return true;
}

const tt_algorithm tt_algorithm_direct = {
    .name = "direct",
    .needs_facts = false,
    .is_by_rank = true,
    .fits = direct_fits,
    .plan = direct_plan,
    .move = direct_move,
};
