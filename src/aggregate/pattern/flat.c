/* SPDX-License-Identifier: Apache-2.0
 *
 * flat.c - every rank sends its vector to all others: all-reduce of small vectors, and barriers, in
 * one phase.
 *
 * Every rank adds all inputs in rank order, so the bits agree without a second phase, and halves
 * are rounded once.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

static bool flat_fits(const tt_problem *problem)
{
    return problem->collective == TT_ALLREDUCE || problem->collective == TT_BARRIER;
}

static void flat_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(flat_fits(problem));
    const uint64_t lane_bytes = problem->segment_bytes;
    const uint64_t frame_bytes = problem->bytes < lane_bytes ? problem->bytes : lane_bytes;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(problem->bytes, lane_bytes),
        .lane_bytes = lane_bytes,
        .round_count = 2,
        .fan = problem->size,
        .partner_max = problem->size,
        .sends_alike = true,
        .is_flat = true,
        .frame_bytes = (uint32_t)frame_bytes,
        .scratch_bytes = frame_bytes * problem->size,
    };
}

static bool flat_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                      tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    const uint32_t others = problem->size - 1;
    const uint64_t first = at.lane * plan->lane_bytes;
    move_out->bytes = lane_length(problem->bytes, plan->lane_bytes, at.lane);
    move_out->source = spot_at(TT_INPUT, first);
    if (at.round == 1) {
        move_out->kind = TT_MOVE_WORK;
        move_out->work = TT_WORK_SUM;
        move_out->target = spot_at(TT_OUTPUT, first);
        move_out->slot = plan->frame_bytes;
        return at.index == 0;
    }
    const bool is_send = at.index < others;
    const uint32_t peer = problem->self + 1 + (is_send ? at.index : at.index - others);
    move_out->kind = is_send ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = peer < problem->size ? peer : peer - problem->size;
    move_out->target = spot_at(TT_SCRATCH, (uint64_t)move_out->peer * plan->frame_bytes);
    return at.index < 2 * others;
}

const tt_algorithm tt_algorithm_flat = {
    .name = "flat",
    .needs_facts = false,
    .is_by_rank = true,
    .fits = flat_fits,
    .plan = flat_plan,
    .move = flat_move,
};
