/* SPDX-License-Identifier: Apache-2.0
 *
 * rails.c - coded all-reduce of hosts with several members: exact sums in shared memory, and coded
 * data between hosts only.
 *
 * Owners are the first rail_count members of every host. Slices are of the whole vector and begin
 * at multiples of the codec's block, those of one rail side by side (coding.h); lane l carries
 * piece l of every slice. Member l of a host sums the pieces of rail l over its host's buffers in
 * f32, on the stack of the thread that codes them, and stores results to all buffers of its host.
 * In between it exchanges them with the other members l as in owner.c. An element is coded at most
 * twice, on any number of hosts and ranks. Rounds:
 *
 *   0 work  copy in
 *   1 send  barrier of the host
 *   2 work  sum and encode the other owners' pieces of this rail
 *   3 send  them to their owners
 *   4 work  merge: add what arrived and the host's own part, in the order of hosts; encode the
 *           result and decode it again, to all buffers of the host
 *   5 send  the coded result to the other hosts
 *   6 work  decode their results, to all buffers of the host
 *   7 send  barrier of the host
 *   8 work  copy out
 *
 * Ranks whose buffers lie in the arena skip the copies. Members without a rail have only the copies
 * and the barriers.
 */
#include "aggregate/coding.h"
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"
#include "base/base.h"

enum {
    ROUND_IN,
    ROUND_IN_READY,
    ROUND_ENCODE,
    ROUND_GIVE,
    ROUND_MERGE,
    ROUND_SPREAD,
    ROUND_DECODE,
    ROUND_OUT_READY,
    ROUND_OUT,
    ROUND_COUNT
};

static bool rails_fits(const tt_problem *problem)
{
    return tt_coding_has_rails(problem);
}

static void rails_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(rails_fits(problem));
    tt_coded_plan(problem, tt_rail_segment(problem), plan_out);
    plan_out->round_count = ROUND_COUNT;
    plan_out->slot_bytes = tt_owner_count(problem) * plan_out->lane_bytes;
}

static bool stage_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                       tt_move *move_out)
{
    const bool is_in = at.round == ROUND_IN;
    TT_ASSERT(is_in || at.round == ROUND_OUT);
    tt_coded_work_move(problem, plan, at.lane, TT_WORK_STAGE, move_out);
    move_out->source = spot_at(is_in ? TT_INPUT : TT_SLOT, 0);
    move_out->target = spot_at(is_in ? TT_SLOT : TT_OUTPUT, 0);
    return at.index == 0 && problem->facts[problem->self].is_shared == 0;
}

static bool rails_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                       tt_move *move_out)
{
    static const tt_work works[] = {[ROUND_ENCODE] = TT_WORK_ENCODE,
                                    [ROUND_MERGE] = TT_WORK_MERGE,
                                    [ROUND_DECODE] = TT_WORK_DECODE};
    const tt_topology *topology = problem->topology;
    TT_ASSERT(at.round < plan->round_count);
    if (at.round == ROUND_IN || at.round == ROUND_OUT) {
        return stage_move(problem, plan, at, move_out);
    }
    if (at.round == ROUND_IN_READY || at.round == ROUND_OUT_READY) {
        return tt_host_notify_move(problem, at.index, move_out);
    }
    if (topology->local_of[problem->self] >= topology->rail_count) {
        return false;
    }
    if (at.round == ROUND_GIVE || at.round == ROUND_SPREAD) {
        return tt_coded_exchange_move(problem, plan, at, at.round == ROUND_SPREAD, move_out);
    }
    tt_coded_work_move(problem, plan, at.lane, works[at.round], move_out);
    return at.index == 0;
}

const tt_algorithm tt_algorithm_rails = {
    .name = "rails",
    .needs_facts = true,
    .is_by_rank = false,
    .fits = rails_fits,
    .plan = rails_plan,
    .move = rails_move,
};
