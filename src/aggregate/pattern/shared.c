/* SPDX-License-Identifier: Apache-2.0
 *
 * shared.c - all-reduce in shared memory: rank r sums slice r of all ranks' buffers in registers,
 * in rank order, and stores it to all of them. Every byte is read once and written once, the
 * bound for an in-place sum on one host; halves are rounded once.
 *
 * All ranks first exchange where their buffers are (facts), which is also the first barrier. If all
 * are in the arena, there is one lane: sum, then a barrier. Otherwise lanes of one staging slot
 * each: copy in, barrier, sum over slots, barrier, copy out; ranks whose buffers are shared skip
 * the copies. A rank's own slice is summed from and to its buffers and never staged: the parts
 * before and after it are copied, in a round each. Before the facts are known the plan is the
 * staged one.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

static bool shared_fits(const tt_problem *problem)
{
    const tt_topology *topology = problem->topology;
    return problem->collective == TT_ALLREDUCE && problem->size > 1 && topology != NULL &&
           topology->host_count == 1 && topology->has_views;
}

static void shared_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(shared_fits(problem));
    const bool is_staged = problem->facts == NULL || !tt_all_shared(problem);
    const uint64_t slot_bytes = problem->segment_bytes;
    const uint64_t lane_bytes = is_staged ? slot_bytes : (problem->bytes > 0 ? problem->bytes : 1);
    *plan_out = (tt_plan){
        .lane_count = lanes_for(problem->bytes, lane_bytes),
        .lane_bytes = lane_bytes,
        .round_count = is_staged ? 7 : 2,
        .fan = problem->size,
        .partner_max = problem->size,
        .sends_alike = true,
        .slot_bytes = is_staged ? slot_bytes : 0,
    };
}

static void sum_move(tt_span own, tt_move *move_out)
{
    move_out->bytes = own.bytes;
    move_out->kind = TT_MOVE_WORK;
    move_out->work = TT_WORK_VIEWS;
    move_out->offset = own.first;
    move_out->target = spot_at(TT_OUTPUT, 0);
}

enum { IN_BEFORE, IN_AFTER, IN_READY, SUM, OUT_READY, OUT_BEFORE, OUT_AFTER };

/* Copies and the sum: one piece of work in a round. */
static bool work_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane, uint32_t phase,
                      tt_move *move_out)
{
    const uint64_t chunk_bytes = lane_length(problem->bytes, plan->lane_bytes, lane);
    const tt_span own = tt_line_slice(chunk_bytes, problem->size, problem->self);
    TT_ASSERT(own.first + own.bytes <= chunk_bytes);
    if (phase == SUM) {
        sum_move(own, move_out);
        return true;
    }
    const bool is_before = phase == IN_BEFORE || phase == OUT_BEFORE;
    const uint64_t skipped = is_before ? 0 : own.first + own.bytes;
    move_out->bytes = is_before ? own.first : chunk_bytes - skipped;
    const bool is_in = phase == IN_BEFORE || phase == IN_AFTER;
    const bool is_staged = tt_staging_move(problem, plan, lane, is_in, move_out);
    move_out->source = spot_plus(move_out->source, skipped);
    move_out->target = spot_plus(move_out->target, skipped);
    return is_staged;
}

static bool shared_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                        tt_move *move_out)
{
    const uint32_t phase = plan->slot_bytes > 0 ? at.round : at.round + SUM;
    TT_ASSERT(at.round < plan->round_count);
    if (phase == IN_READY || phase == OUT_READY) {
        return tt_notify_move(problem, at.index, move_out);
    }
    return at.index == 0 && work_move(problem, plan, at.lane, phase, move_out);
}

const tt_algorithm tt_algorithm_shared = {
    .name = "shared",
    .needs_facts = true,
    .is_by_rank = true,
    .fits = shared_fits,
    .plan = shared_plan,
    .move = shared_move,
};
