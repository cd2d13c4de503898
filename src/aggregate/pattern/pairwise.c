/* SPDX-License-Identifier: Apache-2.0
 *
 * pairwise.c - every part is sent directly from its owner to its reader: all-gather, gather,
 * scatter, all-to-all, send and receive. One round; parts may differ in length.
 *
 * The first lane carries a frame for every pair that has one, even an empty one, so that
 * zero-length calls still synchronise; later lanes skip parts that have ended.
 *
 * Send and receive are problems of size 2: number 0 sends, number 1 receives.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"

static bool pairwise_fits(const tt_problem *problem)
{
    switch (problem->collective) {
    case TT_ALLGATHER:
    case TT_GATHER:
    case TT_SCATTER:
    case TT_ALLTOALL:
    case TT_SEND:
    case TT_RECEIVE:
        return true;
    default:
        return false;
    }
}

static uint64_t output_part_offset(const tt_problem *problem, uint32_t index)
{
    TT_ASSERT(index < problem->size);
    return problem->output_offsets != NULL ? problem->output_offsets[index]
                                           : index * problem->bytes;
}

static uint64_t output_part_bytes(const tt_problem *problem, uint32_t index)
{
    TT_ASSERT(index < problem->size);
    if (problem->output_offsets == NULL) {
        return problem->bytes;
    }
    TT_ASSERT(problem->output_offsets[index] <= problem->output_offsets[index + 1]);
    return problem->output_offsets[index + 1] - problem->output_offsets[index];
}

static void pairwise_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(pairwise_fits(problem));
    const uint64_t segment = problem->segment_bytes;
    uint64_t bytes_max = tt_part_bytes_max(problem);
    for (uint32_t i = 0; problem->output_offsets != NULL && i < problem->size; i++) {
        const uint64_t bytes = output_part_bytes(problem, i);
        bytes_max = bytes > bytes_max ? bytes : bytes_max;
    }
    /* Lengths that only some ranks know must not decide between eager and granted frames. */
    const bool is_private = problem->part_offsets != NULL && problem->collective != TT_ALLGATHER &&
                            problem->collective != TT_GATHER;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(bytes_max, segment),
        .lane_bytes = segment,
        .round_count = 1,
        .fan = problem->size,
        .partner_max = problem->size,
        .sends_alike = problem->collective == TT_ALLGATHER,
        .is_flat = problem->collective == TT_ALLGATHER && problem->part_offsets == NULL,
        .frame_bytes = (uint32_t)(bytes_max < segment && !is_private ? bytes_max : segment),
    };
}

/* Does `from` send a part to `to` in this collective? */
static bool has_edge(const tt_problem *problem, uint32_t from, uint32_t to)
{
    switch (problem->collective) {
    case TT_GATHER:
        return to == problem->root;
    case TT_SCATTER:
        return from == problem->root;
    case TT_SEND:
    case TT_RECEIVE:
        TT_ASSERT(problem->size == 2);
        return from == 0;
    default:
        return true;
    }
}

/* Offset in the input of the part for `peer`. */
static uint64_t outgoing(const tt_problem *problem, uint32_t peer, uint64_t *bytes_out)
{
    switch (problem->collective) {
    case TT_SCATTER:
    case TT_ALLTOALL:
        *bytes_out = tt_part_bytes(problem, peer);
        return tt_part_offset(problem, peer);
    default:
        *bytes_out = tt_part_bytes(problem, problem->self);
        return 0;
    }
}

/* Offset in the output of the part from `peer`. */
static uint64_t incoming(const tt_problem *problem, uint32_t peer, uint64_t *bytes_out)
{
    switch (problem->collective) {
    case TT_ALLTOALL:
        *bytes_out = output_part_bytes(problem, peer);
        return output_part_offset(problem, peer);
    case TT_ALLGATHER:
    case TT_GATHER:
        *bytes_out = tt_part_bytes(problem, peer);
        return tt_part_offset(problem, peer);
    default:
        *bytes_out = tt_part_bytes(problem, problem->self);
        return 0;
    }
}

static void own_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane,
                     tt_move *move_out)
{
    uint64_t bytes;
    const uint64_t skip = lane * plan->lane_bytes;
    move_out->kind = TT_MOVE_NONE;
    if (problem->collective == TT_SEND || problem->collective == TT_RECEIVE ||
        !has_edge(problem, problem->self, problem->self)) {
        return;
    }
    move_out->kind = TT_MOVE_WORK;
    move_out->work = TT_WORK_COPY;
    move_out->source = spot_at(TT_INPUT, outgoing(problem, problem->self, &bytes) + skip);
    move_out->target = spot_at(TT_OUTPUT, incoming(problem, problem->self, &bytes) + skip);
    move_out->bytes = lane_length(bytes, plan->lane_bytes, lane);
}

static bool pairwise_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                          tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    const uint32_t self = problem->self, size = problem->size, others = size - 1;
    const uint64_t skip = at.lane * plan->lane_bytes;
    if (at.index == 0) {
        own_move(problem, plan, at.lane, move_out);
        return true;
    }
    if (at.index > 2 * others) {
        return false;
    }
    const bool is_send = at.index <= others;
    const uint32_t distance = 1 + (at.index - 1) % others;
    const uint32_t peer = (self + (is_send ? distance : size - distance)) % size;
    uint64_t bytes;
    move_out->peer = peer;
    move_out->kind = is_send ? TT_MOVE_SEND : TT_MOVE_STORE;
    if (!has_edge(problem, is_send ? self : peer, is_send ? peer : self)) {
        move_out->kind = TT_MOVE_NONE;
        return true;
    }
    const uint64_t offset =
        is_send ? outgoing(problem, peer, &bytes) : incoming(problem, peer, &bytes);
    move_out->bytes = lane_length(bytes, plan->lane_bytes, at.lane);
    move_out->source = spot_at(TT_INPUT, offset + skip);
    move_out->target = spot_at(TT_OUTPUT, offset + skip);
    if (move_out->bytes == 0 && at.lane > 0) {
        move_out->kind = TT_MOVE_NONE;
    }
    return true;
}

const tt_algorithm tt_algorithm_pairwise = {
    .name = "pairwise",
    .needs_facts = false,
    .fits = pairwise_fits,
    .plan = pairwise_plan,
    .move = pairwise_move,
};
