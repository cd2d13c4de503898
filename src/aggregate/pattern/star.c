/* SPDX-License-Identifier: Apache-2.0
 *
 * star.c - all-reduce of small vectors, and barriers, through member 0: all send to it, it adds in
 * rank order and sends the sum to all.
 *
 * One hop more than flat, but 2 (P - 1) frames instead of P (P - 1). Where several ranks share a
 * core, the total work of all ranks decides, not the number of hops.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

static bool star_fits(const tt_problem *problem)
{
    return (problem->collective == TT_ALLREDUCE || problem->collective == TT_BARRIER) &&
           problem->size > 1;
}

static void star_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(star_fits(problem));
    const uint64_t lane_bytes = problem->segment_bytes;
    const uint64_t frame_bytes = problem->bytes < lane_bytes ? problem->bytes : lane_bytes;
    const bool is_center = problem->self == 0;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(problem->bytes, lane_bytes),
        .lane_bytes = lane_bytes,
        .round_count = 3,
        .fan = problem->size,
        .partner_max = is_center ? problem->size : 1,
        .sends_alike = is_center,
        .frame_bytes = (uint32_t)frame_bytes,
        .scratch_bytes = is_center ? frame_bytes * problem->size : 0,
    };
}

/* Moves of the center: store arrivals in slots, sum them, send the sum to all. */
static bool center_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                        tt_move *move_out)
{
    move_out->peer = at.index + 1;
    switch (at.round) {
    case 0:
        move_out->kind = TT_MOVE_STORE;
        move_out->target = spot_at(TT_SCRATCH, (uint64_t)move_out->peer * plan->frame_bytes);
        break;
    case 1:
        move_out->kind = TT_MOVE_WORK;
        move_out->work = TT_WORK_SUM;
        move_out->slot = plan->frame_bytes;
        return at.index == 0;
    default:
        move_out->kind = TT_MOVE_SEND;
        move_out->source = move_out->target;
        break;
    }
    return move_out->peer < problem->size;
}

static bool star_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                      tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    const uint64_t first = at.lane * plan->lane_bytes;
    move_out->bytes = lane_length(problem->bytes, plan->lane_bytes, at.lane);
    move_out->source = spot_at(TT_INPUT, first);
    move_out->target = spot_at(TT_OUTPUT, first);
    if (problem->self == 0) {
        return center_move(problem, plan, at, move_out);
    }
    move_out->peer = 0;
    move_out->kind = at.round == 0 ? TT_MOVE_SEND : TT_MOVE_STORE;
    return at.index == 0 && at.round != 1;
}

const tt_algorithm tt_algorithm_star = {
    .name = "star",
    .needs_facts = false,
    .is_by_rank = true,
    .fits = star_fits,
    .plan = star_plan,
    .move = star_move,
};
