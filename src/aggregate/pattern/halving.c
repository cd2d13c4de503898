/* SPDX-License-Identifier: Apache-2.0
 *
 * halving.c - recursive halving and doubling (Rabenseifner 2004): all-reduce of middle sizes.
 *
 * Partners at distance 1, 2, 4 ... exchange halves of the range they are still responsible for and
 * add; then the same way back, storing. 2 log2 P exchanges, 2 (P - 1) / P of the bytes. Folding for
 * P not a power of two as in doubling.c.
 *
 * Rounds: 0 copy, 1 fold, k halvings, finish, k doublings, unfold.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

enum { ROUND_COPY = 0, ROUND_FOLD = 1, ROUND_HALVE = 2, LANE_SEGMENTS = 2 };

static bool halving_fits(const tt_problem *problem)
{
    return problem->collective == TT_ALLREDUCE && problem->size > 1;
}

static void halving_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(halving_fits(problem));
    const uint32_t exchanges = log2_floor(problem->size);
    const uint64_t lane_bytes = (uint64_t)problem->segment_bytes * LANE_SEGMENTS;
    const uint64_t frame_bytes = problem->bytes < lane_bytes ? problem->bytes : lane_bytes;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(problem->bytes, lane_bytes),
        .lane_bytes = lane_bytes,
        .round_count = 2 * exchanges + 4,
        .fan = 1,
        .partner_max = exchanges + 1,
        .frame_bytes = (uint32_t)frame_bytes,
        /* one slot for the fold, and slots of 1/2, 1/4 ... which fit into one more; the halves
         * of odd element counts may be an element longer */
        .scratch_bytes = 2 * frame_bytes + (uint64_t)problem->element_bytes * exchanges,
    };
}

/* The range of `bytes` that `rank` (of 2^k) is responsible for after `turns` halvings. */
static tt_span range_after(const tt_problem *problem, uint32_t rank, uint32_t turns, uint64_t bytes)
{
    tt_span range = {.first = 0, .bytes = bytes};
    for (uint32_t turn = 0; turn < turns; turn++) {
        const tt_span half = tt_slice(range.bytes, problem->element_bytes, 2, (rank >> turn) & 1);
        range.first += half.first;
        range.bytes = half.bytes;
    }
    TT_ASSERT(range.first + range.bytes <= bytes);
    return range;
}

/* Where arrivals of halving `turn` wait. */
static uint64_t slot_of(const tt_problem *problem, const tt_plan *plan, uint32_t turn)
{
    uint64_t slot = plan->frame_bytes;
    uint64_t elements = plan->frame_bytes / problem->element_bytes;
    for (uint32_t i = 0; i < turn; i++) {
        elements = (elements + 1) / 2;
        slot += elements * problem->element_bytes;
    }
    return slot;
}

/* Exchange of turn `turn`: send the partner's half and reduce (or store) the own one. */
static void exchange_move(const tt_problem *problem, uint32_t turn, bool is_halving,
                          tt_move *move_out, bool is_send)
{
    const uint32_t rest = problem->size - (UINT32_C(1) << log2_floor(problem->size));
    const uint32_t rank = problem->self < 2 * rest ? problem->self / 2 : problem->self - rest;
    const uint32_t partner = rank ^ (UINT32_C(1) << turn);
    TT_ASSERT(partner + rest < problem->size); /* one of the 2^k that are left after the fold */
    const uint32_t owner = is_send == is_halving ? partner : rank;
    const tt_span range = range_after(problem, owner, turn + 1, move_out->bytes);
    move_out->peer = partner < rest ? 2 * partner + 1 : partner + rest;
    move_out->source = spot_plus(move_out->source, range.first);
    move_out->target = spot_plus(move_out->target, range.first);
    move_out->bytes = range.bytes;
    if (is_send) {
        move_out->kind = TT_MOVE_SEND;
    } else {
        move_out->kind = is_halving ? TT_MOVE_REDUCE : TT_MOVE_STORE;
    }
}

static bool work_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                      tt_move *move_out)
{
    const uint64_t lane_first = at.lane * plan->lane_bytes;
    move_out->kind = TT_MOVE_WORK;
    if (at.round == ROUND_COPY) {
        move_out->work = TT_WORK_COPY;
        move_out->source = spot_at(TT_INPUT, lane_first);
        return at.index == 0;
    }
    const uint32_t exchanges = log2_floor(problem->size);
    const uint32_t rest = problem->size - (UINT32_C(1) << exchanges);
    const uint32_t rank = problem->self < 2 * rest ? problem->self / 2 : problem->self - rest;
    if (problem->self < 2 * rest && problem->self % 2 == 0) {
        return false;
    }
    const tt_span range = range_after(problem, rank, exchanges, move_out->bytes);
    move_out->work = TT_WORK_FINISH;
    move_out->bytes = range.bytes;
    move_out->source = move_out->target = spot_at(TT_OUTPUT, lane_first + range.first);
    return at.index == 0;
}

static bool halving_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                         tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    const uint32_t exchanges = log2_floor(problem->size);
    const uint32_t rest = problem->size - (UINT32_C(1) << exchanges);
    const uint32_t round_finish = ROUND_HALVE + exchanges;
    const uint32_t round_unfold = plan->round_count - 1;
    move_out->bytes = lane_length(problem->bytes, plan->lane_bytes, at.lane);
    move_out->source = move_out->target = spot_at(TT_OUTPUT, at.lane * plan->lane_bytes);
    if (at.round == ROUND_COPY || at.round == round_finish) {
        return work_move(problem, plan, at, move_out);
    }
    if (at.round == ROUND_FOLD || at.round == round_unfold) {
        move_out->slot = 0;
        return at.index == 0 && tt_fold_move(problem, at.round == round_unfold, move_out);
    }
    if (at.index > 1 || (problem->self < 2 * rest && problem->self % 2 == 0)) {
        return false;
    }
    const bool is_halving = at.round < round_finish;
    const uint32_t turn =
        is_halving ? at.round - ROUND_HALVE : exchanges - 1 - (at.round - round_finish - 1);
    move_out->slot = slot_of(problem, plan, turn);
    exchange_move(problem, turn, is_halving, move_out, at.index == 0);
    TT_ASSERT(move_out->slot + move_out->bytes <= plan->scratch_bytes);
    return true;
}

const tt_algorithm tt_algorithm_halving = {
    .name = "halving",
    .needs_facts = false,
    .fits = halving_fits,
    .plan = halving_plan,
    .move = halving_move,
};
