/* SPDX-License-Identifier: Apache-2.0
 *
 * coding.c - slices of owners and pieces of lanes; see coding.h. */
#include "aggregate/coding.h"

#include "aggregate/pattern/pattern.h"
#include "base/assert.h"
#include "base/base.h"

/* Blocks of an all-reduce's vector. */
static uint64_t block_count(const tt_problem *problem)
{
    TT_ASSERT(problem->collective == TT_ALLREDUCE);
    const uint64_t elements = problem->bytes / problem->element_bytes;
    return elements / problem->codec->block + (elements % problem->codec->block != 0);
}

/* Parts of a reducescatter begin anywhere: their draws are numbered as if each began at the next
 * block but one, so that no two elements share a number. */
static tt_owned part_slice(const tt_problem *problem, uint32_t member)
{
    const uint64_t block = problem->codec->block;
    const uint64_t first = tt_part_offset(problem, member) / problem->element_bytes;
    TT_ASSERT(tt_part_offset(problem, member) % problem->element_bytes == 0);
    return (tt_owned){.first = first,
                      .count = tt_part_bytes(problem, member) / problem->element_bytes,
                      .draw = tt_round_up(first, block) + member * block};
}

tt_owned tt_owned_slice(const tt_problem *problem, uint32_t member)
{
    TT_ASSERT(problem->codec != NULL && member < problem->size);
    if (problem->collective == TT_REDUCESCATTER) {
        return part_slice(problem, member);
    }
    const uint64_t block = problem->codec->block;
    const uint64_t elements = problem->bytes / problem->element_bytes;
    const tt_span blocks = tt_slice(block_count(problem), 1, problem->size, member);
    const uint64_t first = tt_min_u64(blocks.first * block, elements);
    const uint64_t end = tt_min_u64((blocks.first + blocks.bytes) * block, elements);
    return (tt_owned){.first = first, .count = end - first, .draw = blocks.first * block};
}

tt_owned tt_owned_piece(const tt_problem *problem, const tt_plan *plan, uint64_t lane,
                        uint32_t member)
{
    tt_owned piece = tt_owned_slice(problem, member);
    const uint64_t length = plan->lane_bytes / problem->element_bytes;
    TT_DEBUG_ASSERT(length % problem->codec->block == 0);
    const uint64_t before = tt_min_u64(lane * length, piece.count);
    piece.first += before;
    piece.draw += lane * length;
    piece.count = tt_min_u64(piece.count - before, length);
    return piece;
}

uint64_t tt_owned_longest(const tt_problem *problem)
{
    TT_ASSERT(problem->codec != NULL);
    if (problem->collective == TT_REDUCESCATTER) {
        return tt_part_bytes_max(problem) / problem->element_bytes;
    }
    return tt_owned_slice(problem, 0).count; /* the first ones take one more block */
}
