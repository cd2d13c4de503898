/* SPDX-License-Identifier: Apache-2.0
 *
 * moves_work.c - what the local work of a round costs: how often its bytes are copied or added. */
#include "sim/moves_internal.h"

/* Members that a move over views reads or writes: those of the rank's host. */
static uint32_t neighbours(const tt_problem *problem)
{
    const tt_topology *topology = problem->topology;
    if (topology == NULL) {
        return problem->size;
    }
    const uint32_t host = topology->host_of[problem->self];
    TT_ASSERT(host < topology->host_count);
    return topology->host_first[host + 1] - topology->host_first[host];
}

/* Is the data where it must be? */
static bool is_in_place(const tt_problem *problem, const tt_move *move)
{
    const tt_spot a = move->source, b = move->target;
    const bool is_one = a.buffer == b.buffer ||
                        (problem->is_in_place && a.buffer == TT_INPUT && b.buffer == TT_OUTPUT);
    return is_one && a.offset == b.offset;
}

static tt_walk_cost copies(uint32_t times)
{
    return (tt_walk_cost){.work = TT_FABRIC_COPY, .times = times};
}

static tt_walk_cost additions(uint32_t times)
{
    return (tt_walk_cost){.work = TT_FABRIC_REDUCE, .times = times};
}

/* Of so many vectors; of one it is a copy. */
static tt_walk_cost sum_of(const tt_problem *problem, const tt_move *move, uint32_t count)
{
    TT_ASSERT(count > 0);
    return count > 1 ? additions(count - 1) : copies(is_in_place(problem, move) ? 0 : 1);
}

tt_walk_cost tt_walk_cost_of(const tt_problem *problem, const tt_move *move)
{
    TT_ASSERT(move->kind == TT_MOVE_WORK);
    switch (move->work) {
    case TT_WORK_FINISH:
        if (problem->postscale != 1.0 || problem->redop == TT_AVERAGE) {
            return additions(1);
        }
        return copies(is_in_place(problem, move) ? 0 : 1);
    case TT_WORK_COPY:
        return copies(is_in_place(problem, move) ? 0 : 1);
    case TT_WORK_SUM:
        return sum_of(problem, move, problem->size);
    case TT_WORK_VIEWS:
    case TT_WORK_FOLD:
        return sum_of(problem, move, neighbours(problem));
    case TT_WORK_SPREAD:
    case TT_WORK_CAST:
        return copies(neighbours(problem));
    case TT_WORK_PRODUCTS:
    case TT_WORK_ADD:
    case TT_WORK_BLEND:
        return additions(1);
    default: /* codes are refused before */
        return copies(1);
    }
}
