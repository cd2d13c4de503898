/* SPDX-License-Identifier: Apache-2.0
 *
 * views.c - collectives of one host other than the all-reduce; each byte is copied once, by a rank
 * that takes part:
 *
 *   broadcast all ranks copy, slice by slice, from the root's input to all outputs allgather every
 *   rank copies its input to all outputs; gather: to the root's scatter every rank takes its part
 *   from the root's input alltoall every rank copies its parts to all outputs, the next rank's
 *   first, so that not all write to one; an input just computed is still in its rank's cache
 *   reducescatter every rank sums its part of all inputs reduce all ranks sum, slice by slice, to
 *   the root's output
 *
 * All ranks first exchange where their buffers are (facts), which is also the first barrier; a
 * second one ends the call. Buffers that only their owner reads or writes may be anywhere. If a
 * buffer that others need is not in the arena, frames carry the data, as if this algorithm did not
 * exist.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

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

static void views_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(views_fits(problem));
    if (problem->facts != NULL && !tt_all_shared(problem)) {
        tt_algorithm_framed(problem)->plan(problem, plan_out);
        return;
    }
    *plan_out = (tt_plan){
        .lane_count = 1,
        .lane_bytes = problem->bytes > 0 ? problem->bytes : 1,
        .round_count = (problem->collective == TT_ALLTOALL ? problem->size : 1) + 1,
        .fan = problem->size,
        .partner_max = problem->size,
        .sends_alike = true,
    };
}

/* Slice by slice: every rank works on its own slice. */
static void slice_move(const tt_problem *problem, tt_work work, tt_move *move_out)
{
    const tt_span slice = tt_line_slice(problem->bytes, problem->size, problem->self);
    move_out->work = work;
    move_out->peer = problem->root;
    move_out->bytes = slice.bytes;
    move_out->source = spot_at(TT_INPUT, slice.first);
    move_out->target = spot_at(TT_OUTPUT, slice.first);
}

static void part_move(const tt_problem *problem, tt_work work, uint32_t peer, tt_move *move_out)
{
    const uint64_t own = problem->self * problem->bytes, theirs = peer * problem->bytes;
    TT_ASSERT(peer < problem->size);
    const bool gives = problem->collective == TT_ALLGATHER || problem->collective == TT_GATHER;
    const bool is_alltoall = problem->collective == TT_ALLTOALL;
    move_out->work = work;
    move_out->peer = peer;
    move_out->bytes = problem->bytes;
    move_out->source = spot_at(TT_INPUT, gives ? 0 : is_alltoall ? theirs : own);
    move_out->target = spot_at(TT_OUTPUT, gives || is_alltoall ? own : 0);
}

static void work_move(const tt_problem *problem, uint32_t round, tt_move *move_out)
{
    TT_ASSERT(problem->part_offsets == NULL); /* parts are alike */
    move_out->kind = TT_MOVE_WORK;
    switch (problem->collective) {
    case TT_BROADCAST:
        slice_move(problem, TT_WORK_CAST, move_out);
        break;
    case TT_REDUCE:
        slice_move(problem, TT_WORK_FOLD, move_out);
        break;
    case TT_ALLGATHER:
        part_move(problem, TT_WORK_CAST, problem->self, move_out);
        break;
    case TT_GATHER:
        part_move(problem, TT_WORK_PUSH, problem->root, move_out);
        break;
    case TT_SCATTER:
        part_move(problem, TT_WORK_PULL, problem->root, move_out);
        break;
    case TT_REDUCESCATTER:
        part_move(problem, TT_WORK_FOLD, problem->self, move_out);
        break;
    default:
        part_move(problem, TT_WORK_PUSH, (problem->self + 1 + round) % problem->size, move_out);
        break;
    }
}

static bool views_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                       tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    if (!tt_all_shared(problem)) {
        return tt_algorithm_framed(problem)->move(problem, plan, at, move_out);
    }
    if (at.round + 1 == plan->round_count) {
        return tt_notify_move(problem, at.index, move_out);
    }
    work_move(problem, at.round, move_out);
    return at.index == 0;
}

const tt_algorithm tt_algorithm_views = {
    .name = "views",
    .needs_facts = true,
    .fits = views_fits,
    .plan = views_plan,
    .move = views_move,
};
