/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern.c - moves that several algorithms share. */
#include "aggregate/pattern/pattern.h"

#include "base/assert.h"

bool tt_fold_move(const tt_problem *problem, bool is_unfold, tt_move *move_out)
{
    const uint32_t rest = problem->size - (UINT32_C(1) << log2_floor(problem->size));
    if (problem->self >= 2 * rest) {
        return false;
    }
    const bool is_even = problem->self % 2 == 0;
    move_out->peer = is_even ? problem->self + 1 : problem->self - 1;
    TT_ASSERT(move_out->peer < problem->size);
    if (is_even != is_unfold) {
        move_out->kind = TT_MOVE_SEND;
    } else {
        move_out->kind = is_unfold ? TT_MOVE_STORE : TT_MOVE_REDUCE;
    }
    return true;
}

bool tt_all_shared(const tt_problem *problem)
{
    for (uint32_t i = 0; i < problem->size; i++) {
        if (problem->facts[i].is_shared == 0) {
            return false;
        }
    }
    return true;
}

bool tt_notify_move(const tt_problem *problem, uint32_t index, tt_move *move_out)
{
    const uint32_t others = problem->size - 1;
    TT_ASSERT(others > 0);
    move_out->kind = index < others ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = (problem->self + 1 + index % others) % problem->size;
    move_out->bytes = 0;
    move_out->source = move_out->target = spot_at(TT_SCRATCH, 0);
    return index < 2 * others;
}

tt_span tt_line_slice(uint64_t bytes, uint32_t count, uint32_t index)
{
    enum { LINE_BYTES = 64 };
    const uint64_t whole = bytes / LINE_BYTES * LINE_BYTES;
    tt_span span = tt_slice(whole, LINE_BYTES, count, index);
    span.bytes += index == count - 1 ? bytes - whole : 0;
    return span;
}

bool tt_staging_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane, bool is_in,
                     tt_move *move_out)
{
    const uint64_t first = lane * plan->lane_bytes;
    TT_ASSERT(plan->lane_bytes <= plan->slot_bytes); /* the chunk fits into the slot */
    move_out->kind = TT_MOVE_WORK;
    move_out->work = TT_WORK_COPY;
    move_out->source = is_in ? spot_at(TT_INPUT, first) : spot_at(TT_SLOT, 0);
    move_out->target = is_in ? spot_at(TT_SLOT, 0) : spot_at(TT_OUTPUT, first);
    return problem->facts[problem->self].is_shared == 0;
}

uint32_t tt_rail_segment(const tt_problem *problem)
{
    enum { RAIL_SEGMENT_BYTES_MIN = 32 * 1024 }; /* below, the cost per frame dominates */
    TT_ASSERT(problem->topology->rail_count > 0);
    const uint32_t shared = problem->segment_bytes / problem->topology->rail_count;
    const uint32_t least = problem->segment_bytes < RAIL_SEGMENT_BYTES_MIN ? problem->segment_bytes
                                                                           : RAIL_SEGMENT_BYTES_MIN;
    return (shared > least ? shared : least) / 64 * 64;
}

bool tt_host_notify_move(const tt_problem *problem, uint32_t index, tt_move *move_out)
{
    const tt_topology *topology = problem->topology;
    const uint32_t host = topology->host_of[problem->self];
    const uint32_t first = topology->host_first[host];
    const uint32_t count = topology->host_first[host + 1] - first;
    const uint32_t others = count - 1;
    if (index >= 2 * others) {
        return false;
    }
    const uint32_t local = (topology->local_of[problem->self] + 1 + index % others) % count;
    move_out->kind = index < others ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = topology->host_members[first + local];
    TT_ASSERT(move_out->peer != problem->self);
    move_out->bytes = 0;
    move_out->source = move_out->target = spot_at(TT_SCRATCH, 0);
    return true;
}
