/* SPDX-License-Identifier: Apache-2.0
 *
 * owner.c - coded all-reduce and reducescatter: rank r owns slice r; all ranks send it there coded,
 * r adds them in rank order and (for an all-reduce) sends the result to all, coded once more.
 *
 * As in direct.c, but slices are of the whole vector and begin at multiples of the codec's block
 * (coding.h); lane l carries piece l of every slice. Five rounds:
 *
 *   0 work  encode the others' pieces of the input
 *   1 send  them to their owners
 *   2 work  add the pieces that arrived and the own one, which was never coded; encode the result,
 *           and decode it again, so that the owner has the bits that all others get
 *   3 send  the coded result to all others
 *   4 work  decode their results
 *
 * With estimates (EF21) a stamp precedes the pieces in round 1.
 * A reducescatter ends after round 2, with the sum itself. A single rank has round 2 alone.
 */
#include "aggregate/coding.h"
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

typedef enum phase { PHASE_ENCODE, PHASE_GIVE, PHASE_MERGE, PHASE_SPREAD, PHASE_DECODE } phase;

static bool owner_fits(const tt_problem *problem)
{
    return tt_coding_fits(problem) && !tt_coding_has_rails(problem);
}

static uint32_t round_count(const tt_problem *problem)
{
    if (problem->size == 1) {
        return 1;
    }
    return problem->collective == TT_ALLREDUCE ? PHASE_DECODE + 1 : PHASE_MERGE + 1;
}

static void owner_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(owner_fits(problem));
    tt_coded_plan(problem, problem->segment_bytes, plan_out);
    plan_out->round_count = round_count(problem);
}

static bool owner_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                       tt_move *move_out)
{
    static const tt_work works[] = {[PHASE_ENCODE] = TT_WORK_ENCODE,
                                    [PHASE_MERGE] = TT_WORK_MERGE,
                                    [PHASE_DECODE] = TT_WORK_DECODE};
    TT_ASSERT(at.round < plan->round_count);
    const phase where = problem->size == 1 ? PHASE_MERGE : (phase)at.round;
    if (where == PHASE_GIVE || where == PHASE_SPREAD) {
        return tt_coded_exchange_move(problem, plan, at, where == PHASE_SPREAD, move_out);
    }
    if (at.index > 0) {
        return false;
    }
    tt_coded_work_move(problem, plan, at.lane, works[where], move_out);
    return true;
}

const tt_algorithm tt_algorithm_owner = {
    .name = "owner",
    .needs_facts = false,
    .is_by_rank = true,
    .fits = owner_fits,
    .plan = owner_plan,
    .move = owner_move,
};
