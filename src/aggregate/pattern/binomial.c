/* SPDX-License-Identifier: Apache-2.0
 *
 * binomial.c - trees of depth ceil(log2 P): reduce to a root, broadcast from it, or both.
 *
 * Ranks are renumbered so that the root is 0. In turn t a rank whose lowest set bit is t sends its
 * sum to the rank without that bit; a broadcast runs the same turns backwards. Long vectors are cut
 * into lanes, so that all levels work at once.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

static bool binomial_fits(const tt_problem *problem)
{
    return problem->collective == TT_REDUCE || problem->collective == TT_BROADCAST ||
           problem->collective == TT_ALLREDUCE;
}

static void binomial_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(binomial_fits(problem));
    const uint32_t depth = log2_ceil(problem->size);
    const uint64_t segment = problem->segment_bytes;
    const uint64_t frame_bytes = problem->bytes < segment ? problem->bytes : segment;
    const bool is_broadcast = problem->collective == TT_BROADCAST;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(problem->bytes, segment),
        .lane_bytes = segment,
        .fan = 1,
        .partner_max = depth + 1,
        .frame_bytes = (uint32_t)frame_bytes,
        /* the partial sum, and one arrival slot per turn */
        .scratch_bytes = is_broadcast ? 0 : frame_bytes * (depth + 1),
    };
    switch (problem->collective) {
    case TT_REDUCE:
        plan_out->round_count = depth + 2; /* copy, turns, finish */
        break;
    case TT_BROADCAST:
        plan_out->round_count = depth + 1; /* copy, turns */
        break;
    default:
        plan_out->round_count = 2 * depth + 2;
        break;
    }
}

/* This rank's number when the root is 0, and back. */
static uint32_t number_of(const tt_problem *problem)
{
    TT_ASSERT(problem->root < problem->size);
    return (problem->self + problem->size - problem->root) % problem->size;
}

static uint32_t member_of(const tt_problem *problem, uint32_t number)
{
    TT_ASSERT(number < problem->size);
    return (number + problem->root) % problem->size;
}

/* Turn t of the reduction: send, receive, or nothing. */
static bool up_move(const tt_problem *problem, uint32_t turn, tt_cursor at, tt_move *move_out)
{
    const uint32_t number = number_of(problem);
    TT_ASSERT(turn < log2_ceil(problem->size));
    const uint32_t bit = UINT32_C(1) << turn;
    if (at.index > 0 || number % bit != 0) {
        return false;
    }
    if ((number & bit) != 0) {
        move_out->kind = TT_MOVE_SEND;
        move_out->peer = member_of(problem, number - bit);
        return true;
    }
    if ((uint64_t)number + bit >= problem->size) {
        return false;
    }
    move_out->kind = TT_MOVE_REDUCE;
    move_out->peer = member_of(problem, number + bit);
    return true;
}

/* Turn t of the broadcast, the highest first: the mirror image of the reduction. */
static bool down_move(const tt_problem *problem, uint32_t turn, tt_cursor at, tt_move *move_out)
{
    if (!up_move(problem, turn, at, move_out)) {
        return false;
    }
    TT_ASSERT(move_out->peer != problem->self);
    move_out->kind = move_out->kind == TT_MOVE_SEND ? TT_MOVE_STORE : TT_MOVE_SEND;
    return true;
}

static bool work_move(tt_work work, tt_cursor at, tt_spot source, tt_spot target, tt_move *move_out)
{
    move_out->kind = TT_MOVE_WORK;
    move_out->work = work;
    move_out->source = source;
    move_out->target = target;
    return at.index == 0;
}

static bool broadcast_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                           tt_move *move_out)
{
    const tt_spot output = spot_at(TT_OUTPUT, at.lane * plan->lane_bytes);
    move_out->source = move_out->target = output;
    if (at.round == 0) {
        return problem->self == problem->root &&
               work_move(TT_WORK_COPY, at, spot_at(TT_INPUT, output.offset), output, move_out);
    }
    return down_move(problem, log2_ceil(problem->size) - at.round, at, move_out);
}

static bool binomial_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                          tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    const uint32_t depth = log2_ceil(problem->size);
    const tt_spot output = spot_at(TT_OUTPUT, at.lane * plan->lane_bytes);
    const bool is_allreduce = problem->collective == TT_ALLREDUCE;
    const tt_spot sum = is_allreduce ? output : spot_at(TT_SCRATCH, 0);
    move_out->bytes = lane_length(problem->bytes, plan->lane_bytes, at.lane);
    if (problem->collective == TT_BROADCAST) {
        return broadcast_move(problem, plan, at, move_out);
    }
    move_out->source = move_out->target = sum;
    if (at.round == 0) {
        return work_move(TT_WORK_COPY, at, spot_at(TT_INPUT, output.offset), sum, move_out);
    }
    if (at.round <= depth) {
        move_out->slot = (uint64_t)at.round * plan->frame_bytes;
        TT_ASSERT(move_out->slot + move_out->bytes <= plan->scratch_bytes);
        return up_move(problem, at.round - 1, at, move_out);
    }
    if (at.round == depth + 1) {
        return problem->self == problem->root &&
               work_move(TT_WORK_FINISH, at, sum, output, move_out);
    }
    return down_move(problem, 2 * depth + 1 - at.round, at, move_out);
}

const tt_algorithm tt_algorithm_binomial = {
    .name = "binomial",
    .needs_facts = false,
    .fits = binomial_fits,
    .plan = binomial_plan,
    .move = binomial_move,
};
