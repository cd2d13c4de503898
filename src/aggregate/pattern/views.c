/* SPDX-License-Identifier: Apache-2.0
 *
 * views.c - collectives of one host other than the all-reduce: every rank takes what it needs
 * straight from the others' inputs, one copy or one sum, and then says that it has. A reduce is
 * summed by all, slice by slice, into the root's output.
 *
 * Everyone first tells where its buffers lie (facts), which is also the first barrier. Whoever only
 * takes may keep its output anywhere. If an input that others need does not lie in the arena, or
 * the output of a reduce does not, frames carry the data instead, as if this algorithm were not
 * there.
 *
 * Rounds: one per peer where parts are taken, starting with the next rank so that not all read
 * from one; else a single one. Then a barrier: an input is its owner's again when all have read.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"

static bool views_fits(const tt_problem *problem)
{
    const tt_topology *topology = problem->topology;
    switch (problem->collective) {
    case TT_REDUCE:
    case TT_BROADCAST:
    case TT_ALLGATHER:
    case TT_GATHER:
    case TT_SCATTER:
    case TT_REDUCESCATTER:
    case TT_ALLTOALL:
        return problem->size > 1 && !problem->is_uneven && topology != NULL &&
               topology->host_count == 1 && topology->has_views;
    default:
        return false;
    }
}

/* Every rank takes one part from every other. */
static bool is_by_peer(const tt_problem *problem)
{
    return problem->collective == TT_ALLGATHER || problem->collective == TT_GATHER ||
           problem->collective == TT_ALLTOALL;
}

static void views_plan(const tt_problem *problem, tt_plan *plan_out)
{
    if (problem->facts != NULL && !tt_all_shared(problem)) {
        tt_algorithm_framed(problem)->plan(problem, plan_out);
        return;
    }
    *plan_out = (tt_plan){
        .lane_count = 1,
        .lane_bytes = problem->bytes > 0 ? problem->bytes : 1,
        .round_count = (is_by_peer(problem) ? problem->size : 1) + 1,
        .fan = problem->size,
        .partner_max = problem->size,
    };
}

/* What this rank takes from `peer`, if anything: where it lies there, and where it belongs. */
static bool take_move(const tt_problem *problem, uint32_t peer, tt_move *move_out)
{
    const bool is_root = problem->self == problem->root;
    const bool is_split = problem->collective == TT_SCATTER || problem->collective == TT_ALLTOALL;
    const bool is_joined = is_by_peer(problem);
    move_out->kind = TT_MOVE_WORK;
    move_out->work = peer == problem->self ? TT_WORK_COPY : TT_WORK_PULL;
    move_out->peer = peer;
    move_out->bytes = problem->bytes;
    move_out->source = spot_at(TT_INPUT, is_split ? problem->self * problem->bytes : 0);
    move_out->target = spot_at(TT_OUTPUT, is_joined ? peer * problem->bytes : 0);
    return problem->collective != TT_GATHER || is_root;
}

/* A rank's own part of a reducescatter, its slice of a reduce. */
static void sum_move(const tt_problem *problem, tt_move *move_out)
{
    const bool is_reduce = problem->collective == TT_REDUCE;
    const tt_span slice = tt_line_slice(problem->bytes, problem->size, problem->self);
    const uint64_t first = is_reduce ? slice.first : problem->self * problem->bytes;
    move_out->kind = TT_MOVE_WORK;
    move_out->work = TT_WORK_FOLD;
    move_out->peer = is_reduce ? problem->root : problem->self;
    move_out->bytes = is_reduce ? slice.bytes : problem->bytes;
    move_out->source = spot_at(TT_INPUT, first);
    move_out->target = spot_at(TT_OUTPUT, is_reduce ? first : 0);
}

static bool views_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                       tt_move *move_out)
{
    if (!tt_all_shared(problem)) {
        return tt_algorithm_framed(problem)->move(problem, plan, at, move_out);
    }
    if (at.round + 1 == plan->round_count) {
        return tt_notify_move(problem, at.index, move_out);
    }
    if (at.index > 0) {
        return false;
    }
    switch (problem->collective) {
    case TT_REDUCE:
    case TT_REDUCESCATTER:
        sum_move(problem, move_out);
        return true;
    case TT_BROADCAST:
    case TT_SCATTER:
        return take_move(problem, problem->root, move_out);
    default:
        return take_move(problem, (problem->self + 1 + at.round) % problem->size, move_out);
    }
}

const tt_algorithm tt_algorithm_views = {
    .name = "views",
    .needs_facts = true,
    .fits = views_fits,
    .plan = views_plan,
    .move = views_move,
};
