/* SPDX-License-Identifier: Apache-2.0
 *
 * doubling.c - recursive doubling: all-reduce of short vectors in ceil(log2 P) exchanges, and the
 * dissemination barrier.
 *
 * With P not a power of two, the first 2 r ranks fold in pairs before (even into odd) and unfold
 * after, where r = P - 2^floor(log2 P). Both partners combine the lower rank's value first, so
 * that all ranks hold the same bits.
 *
 * Rounds: 0 copy input, 1 fold, 2 .. 1 + k exchange, 2 + k unfold, 3 + k finish.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

enum { ROUND_COPY = 0, ROUND_FOLD = 1, ROUND_EXCHANGE = 2 };

static bool doubling_fits(const tt_problem *problem)
{
    return problem->collective == TT_ALLREDUCE || problem->collective == TT_BARRIER;
}

static void doubling_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(doubling_fits(problem));
    if (problem->collective == TT_BARRIER) {
        const uint32_t rounds = log2_ceil(problem->size);
        *plan_out = (tt_plan){.lane_count = 1,
                              .lane_bytes = 1,
                              .round_count = rounds > 0 ? rounds : 1,
                              .fan = 1,
                              .partner_max = 2 * rounds + 1};
        return;
    }
    const uint32_t exchanges = log2_floor(problem->size);
    const uint64_t segment = problem->segment_bytes;
    const uint64_t frame_bytes = problem->bytes < segment ? problem->bytes : segment;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(problem->bytes, segment),
        .lane_bytes = segment,
        .round_count = exchanges + 4,
        .fan = 1,
        .partner_max = exchanges + 1,
        .frame_bytes = (uint32_t)frame_bytes,
        .scratch_bytes = frame_bytes * (exchanges + 1),
    };
}

static bool barrier_move(const tt_problem *problem, tt_cursor at, tt_move *move_out)
{
    if (problem->size == 1 || at.index > 1) {
        return false;
    }
    const uint32_t distance = UINT32_C(1) << at.round;
    TT_ASSERT(distance < problem->size); /* else a rank is its own partner, or one comes twice */
    const uint32_t back = problem->size - distance % problem->size;
    move_out->kind = at.index == 0 ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = (problem->self + (at.index == 0 ? distance : back)) % problem->size;
    move_out->bytes = 0;
    move_out->source = move_out->target = spot_at(TT_SCRATCH, 0);
    return true;
}

static bool exchange_move(const tt_problem *problem, uint32_t turn, tt_cursor at, tt_move *move_out)
{
    const uint32_t rest = problem->size - (UINT32_C(1) << log2_floor(problem->size));
    if (at.index > 1 || (problem->self < 2 * rest && problem->self % 2 == 0)) {
        return false;
    }
    const uint32_t rank = problem->self < 2 * rest ? problem->self / 2 : problem->self - rest;
    const uint32_t partner = rank ^ (UINT32_C(1) << turn);
    TT_ASSERT(partner + rest < problem->size); /* one of the 2^k that are left after the fold */
    move_out->kind = at.index == 0 ? TT_MOVE_SEND : TT_MOVE_REDUCE;
    move_out->peer = partner < rest ? 2 * partner + 1 : partner + rest;
    return true;
}

static bool doubling_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                          tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    if (problem->collective == TT_BARRIER) {
        return barrier_move(problem, at, move_out);
    }
    const uint64_t first = at.lane * plan->lane_bytes;
    const uint32_t last = plan->round_count - 1;
    move_out->bytes = lane_length(problem->bytes, plan->lane_bytes, at.lane);
    move_out->source = move_out->target = spot_at(TT_OUTPUT, first);
    move_out->slot = 0;
    if (at.round == ROUND_COPY || at.round == last) {
        move_out->kind = TT_MOVE_WORK;
        move_out->work = at.round == last ? TT_WORK_FINISH : TT_WORK_COPY;
        if (at.round == ROUND_COPY) {
            move_out->source = spot_at(TT_INPUT, first);
        }
        return at.index == 0;
    }
    if (at.round == ROUND_FOLD || at.round == last - 1) {
        return at.index == 0 && tt_fold_move(problem, at.round != ROUND_FOLD, move_out);
    }
    const uint32_t turn = at.round - ROUND_EXCHANGE;
    move_out->slot = (uint64_t)(turn + 1) * plan->frame_bytes;
    TT_ASSERT(move_out->slot + move_out->bytes <= plan->scratch_bytes);
    return exchange_move(problem, turn, at, move_out);
}

const tt_algorithm tt_algorithm_doubling = {
    .name = "doubling",
    .needs_facts = false,
    .fits = doubling_fits,
    .plan = doubling_plan,
    .move = doubling_move,
};
