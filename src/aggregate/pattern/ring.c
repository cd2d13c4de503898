/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - neighbours pass slices around: all-reduce, reduce-scatter, all-gather.
 *
 * Each rank sends to the next and receives from the one before. An all-reduce is P - 1 rounds of
 * reduce-scatter, then P - 1 of all-gather: 2 (P - 1) / P of the vector goes over each link, the
 * lower bound (Patarasuk and Yuan 2009). Lanes overlap, so that links stay busy: each has a segment
 * of every slice, and slices are parts of the whole vector, so that the order in which an element
 * is summed depends on its place alone and not on the length of segments.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

enum { LINE_SLICE_BYTES_MIN = 4096 }; /* slices at least this long begin on cache lines */

uint32_t tt_ring_round_count(uint32_t count)
{
    TT_ASSERT(count > 0);
    return 2 * (count - 1) + 1;
}

static tt_span slice_of(const tt_ring *ring, uint32_t index)
{
    const bool is_long = ring->bytes >= (uint64_t)ring->count * LINE_SLICE_BYTES_MIN;
    return is_long ? tt_line_slice(ring->bytes, ring->count, index)
                   : tt_slice(ring->bytes, ring->element_bytes, ring->count, index);
}

/* The lane's piece of slice number position + shift, modulo the ring. */
static uint64_t ring_slice(const tt_ring *ring, uint32_t shift, uint64_t *bytes_out)
{
    const tt_span span =
        slice_of(ring, (uint32_t)(((uint64_t)ring->position + shift) % ring->count));
    TT_ASSERT(span.first + span.bytes <= ring->bytes);
    *bytes_out = lane_length(span.bytes, ring->piece_bytes, ring->lane);
    return *bytes_out > 0 ? span.first + ring->lane * ring->piece_bytes : span.first;
}

static void ring_send(const tt_ring *ring, uint32_t shift, tt_spot base, tt_move *move_out)
{
    const uint64_t offset = ring_slice(ring, shift, &move_out->bytes);
    move_out->kind = TT_MOVE_SEND;
    move_out->peer = (ring->position + 1) % ring->count;
    move_out->source = spot_plus(base, offset);
}

static void ring_receive(const tt_ring *ring, uint32_t shift, tt_move_kind kind, tt_move *move_out)
{
    const uint64_t offset = ring_slice(ring, shift, &move_out->bytes);
    move_out->kind = kind;
    move_out->peer = (ring->position + ring->count - 1) % ring->count;
    move_out->source = spot_plus(ring->source, offset);
    move_out->target = spot_plus(ring->target, offset);
    move_out->slot = ring->slot;
}

bool tt_ring_move(const tt_ring *ring, uint32_t round, uint32_t index, tt_move *move_out)
{
    const uint32_t count = ring->count;
    TT_ASSERT(ring->position < count);
    TT_ASSERT(round < tt_ring_round_count(count));
    if (round == count - 1) { /* the own slice is complete: finish it before it is sent on */
        const uint64_t offset = ring_slice(ring, 1, &move_out->bytes);
        move_out->kind = TT_MOVE_WORK;
        move_out->work = TT_WORK_FINISH;
        move_out->source = spot_plus(count == 1 ? ring->source : ring->target, offset);
        move_out->target = spot_plus(ring->target, offset);
        return index == 0;
    }
    if (index > 1) {
        return false;
    }
    if (round < count - 1) {
        if (index == 0) {
            ring_send(ring, count - round, round == 0 ? ring->source : ring->target, move_out);
        } else {
            ring_receive(ring, 2 * count - round - 1, TT_MOVE_REDUCE, move_out);
        }
        return true;
    }
    const uint32_t turn = round - count;
    if (index == 0) {
        ring_send(ring, 1 + count - turn, ring->target, move_out);
    } else {
        ring_receive(ring, count - turn, TT_MOVE_STORE, move_out);
    }
    return true;
}

static bool ring_fits(const tt_problem *problem)
{
    return problem->collective == TT_ALLREDUCE || problem->collective == TT_ALLGATHER ||
           problem->collective == TT_REDUCESCATTER;
}

/* The longest slice is one of the first, or the last one, which has the remainder of a line. */
static uint64_t slice_bytes_max(const tt_problem *problem)
{
    const tt_ring ring = {
        .count = problem->size, .element_bytes = problem->element_bytes, .bytes = problem->bytes};
    const uint64_t first = slice_of(&ring, 0).bytes, last = slice_of(&ring, ring.count - 1).bytes;
    TT_ASSERT((first > last ? first : last) * ring.count >= ring.bytes); /* nothing is left out */
    return first > last ? first : last;
}

static void ring_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(ring_fits(problem));
    const uint64_t segment = problem->segment_bytes;
    *plan_out = (tt_plan){
        .fan = 1, .partner_max = 2, .frame_bytes = problem->segment_bytes, .reduce_early = true};
    if (problem->collective == TT_ALLREDUCE) {
        plan_out->lane_bytes = segment; /* of each slice */
        plan_out->lane_count = lanes_for(slice_bytes_max(problem), segment);
        plan_out->round_count = tt_ring_round_count(problem->size);
        plan_out->scratch_bytes = segment;
    } else {
        const uint64_t part_bytes_max = tt_part_bytes_max(problem);
        plan_out->lane_bytes = segment;
        plan_out->lane_count = lanes_for(part_bytes_max, segment);
        plan_out->round_count = problem->size;
        /* reduce-scatter: one slot per part, and one for arrivals */
        plan_out->scratch_bytes =
            problem->collective == TT_REDUCESCATTER ? segment * (problem->size + 1) : 0;
    }
    if (plan_out->lane_count == 1) {
        const uint64_t bytes = problem->collective == TT_ALLREDUCE ? slice_bytes_max(problem)
                                                                   : tt_part_bytes_max(problem);
        plan_out->frame_bytes = (uint32_t)(bytes < segment ? bytes : segment);
    }
}

static bool allreduce_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                           tt_move *move_out)
{
    const tt_ring ring = {.position = problem->self,
                          .count = problem->size,
                          .element_bytes = problem->element_bytes,
                          .bytes = problem->bytes,
                          .piece_bytes = plan->lane_bytes,
                          .lane = at.lane,
                          .source = spot_at(TT_INPUT, 0),
                          .target = spot_at(TT_OUTPUT, 0),
                          .slot = 0};
    return tt_ring_move(&ring, at.round, at.index, move_out);
}

/* Offset, in a vector of all parts, of the piece of part `index` that lane covers. */
static uint64_t piece(const tt_problem *problem, const tt_plan *plan, uint64_t lane, uint32_t index,
                      uint64_t *bytes_out)
{
    *bytes_out = lane_length(tt_part_bytes(problem, index), plan->lane_bytes, lane);
    return tt_part_offset(problem, index) + lane * plan->lane_bytes;
}

/* Round 0 puts the own part in place; round r sends on the part of round r - 1. */
static bool allgather_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                           tt_move *move_out)
{
    TT_ASSERT(at.round < problem->size);
    const uint32_t size = problem->size, self = problem->self;
    const uint64_t own_first = at.lane * plan->lane_bytes;
    if (at.round == 0) {
        const uint64_t offset = piece(problem, plan, at.lane, self, &move_out->bytes);
        move_out->kind = TT_MOVE_WORK;
        move_out->work = TT_WORK_COPY;
        move_out->source = spot_at(TT_INPUT, own_first);
        move_out->target = spot_at(TT_OUTPUT, offset);
        return at.index == 0;
    }
    const uint32_t turn = at.round - 1;
    const uint32_t part = (self + size - turn - (at.index == 0 ? 0 : 1)) % size;
    const uint64_t offset = piece(problem, plan, at.lane, part, &move_out->bytes);
    move_out->kind = at.index == 0 ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = (self + (at.index == 0 ? 1 : size - 1)) % size;
    move_out->source = move_out->target = spot_at(TT_OUTPUT, offset);
    return at.index < 2;
}

/* Part p starts at rank p + 1 and ends, complete, at rank p. */
static bool reducescatter_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                               tt_move *move_out)
{
    TT_ASSERT(at.round < problem->size);
    const uint32_t size = problem->size, self = problem->self;
    const uint64_t lane_first = at.lane * plan->lane_bytes;
    if (at.round == size - 1) {
        (void)piece(problem, plan, at.lane, self, &move_out->bytes);
        move_out->kind = TT_MOVE_WORK;
        move_out->work = TT_WORK_FINISH;
        move_out->source = size == 1 ? spot_at(TT_INPUT, lane_first)
                                     : spot_at(TT_SCRATCH, plan->lane_bytes * (1 + self));
        move_out->target = spot_at(TT_OUTPUT, lane_first);
        return at.index == 0;
    }
    const uint32_t part = (self + 2 * size - at.round - (at.index == 0 ? 1 : 2)) % size;
    const uint64_t offset = piece(problem, plan, at.lane, part, &move_out->bytes);
    const tt_spot held = spot_at(TT_SCRATCH, plan->lane_bytes * (1 + part));
    TT_ASSERT(held.offset + move_out->bytes <= plan->scratch_bytes);
    move_out->peer = (self + (at.index == 0 ? 1 : size - 1)) % size;
    if (at.index == 0) {
        move_out->kind = TT_MOVE_SEND;
        move_out->source = at.round == 0 ? spot_at(TT_INPUT, offset) : held;
    } else {
        move_out->kind = TT_MOVE_REDUCE;
        move_out->source = spot_at(TT_INPUT, offset);
        move_out->target = held;
        move_out->slot = 0;
    }
    return at.index < 2;
}

static bool ring_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                      tt_move *move_out)
{
    switch (problem->collective) {
    case TT_ALLREDUCE:
        return allreduce_move(problem, plan, at, move_out);
    case TT_ALLGATHER:
        return allgather_move(problem, plan, at, move_out);
    default:
        return reducescatter_move(problem, plan, at, move_out);
    }
}

const tt_algorithm tt_algorithm_ring = {
    .name = "ring",
    .needs_facts = false,
    .fits = ring_fits,
    .plan = ring_plan,
    .move = ring_move,
};
