/* SPDX-License-Identifier: Apache-2.0
 *
 * coding.c - rails, slices of owners and pieces of lanes; see coding.h. */
#include "aggregate/coding.h"

#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "aggregate/summed_stages.h"
#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"

bool tt_coding_fits(const tt_problem *problem)
{
    const bool is_sum = problem->redop == TT_SUM || problem->redop == TT_AVERAGE;
    const bool is_float =
        problem->dtype == TT_F32 || problem->dtype == TT_F16 || problem->dtype == TT_BF16;
    return problem->codec != NULL && is_sum && is_float &&
           (problem->collective == TT_ALLREDUCE || problem->collective == TT_REDUCESCATTER);
}

bool tt_coding_has_rails(const tt_problem *problem)
{
    return tt_coding_fits(problem) && !problem->codec->is_everywhere && !tt_summed_fits(problem) &&
           tt_algorithm_hierarchical.fits(problem);
}

uint64_t tt_coding_owned(const tt_problem *problem)
{
    TT_ASSERT(tt_coding_fits(problem));
    const bool is_sent_on = problem->collective == TT_ALLREDUCE && !tt_summed_fits(problem);
    return is_sent_on ? tt_owned_slice(problem, problem->self).count : 0;
}

uint64_t tt_coding_estimated(const tt_problem *problem)
{
    TT_ASSERT(tt_coding_fits(problem));
    return problem->codec->is_tracked ? tt_owned_slice(problem, problem->self).count : 0;
}

uint64_t tt_given_bytes(const tt_problem *problem, uint64_t count)
{
    const bool is_stamped = problem->codec->is_tracked && count > 0;
    return tt_codec_wire_bytes(problem->codec, count) + (is_stamped ? TT_STAMP_BYTES : 0);
}

/* ---- rails and owners ---- */

uint32_t tt_rail_size(const tt_problem *problem)
{
    return tt_coding_has_rails(problem) ? problem->topology->host_count : problem->size;
}

uint32_t tt_rail_position(const tt_problem *problem)
{
    return tt_coding_has_rails(problem) ? problem->topology->host_of[problem->self] : problem->self;
}

uint32_t tt_rail_member(const tt_problem *problem, uint32_t position)
{
    const tt_topology *topology = problem->topology;
    TT_ASSERT(position < tt_rail_size(problem));
    if (!tt_coding_has_rails(problem)) {
        return position;
    }
    TT_ASSERT(topology->local_of[problem->self] < topology->rail_count);
    return topology
        ->host_members[topology->host_first[position] + topology->local_of[problem->self]];
}

uint32_t tt_owner_count(const tt_problem *problem)
{
    return tt_coding_has_rails(problem)
               ? problem->topology->rail_count * problem->topology->host_count
               : problem->size;
}

uint32_t tt_owner_number(const tt_problem *problem, uint32_t member)
{
    const tt_topology *topology = problem->topology;
    TT_ASSERT(member < problem->size);
    if (!tt_coding_has_rails(problem)) {
        return member;
    }
    return topology->local_of[member] * topology->host_count + topology->host_of[member];
}

uint32_t tt_owner_member(const tt_problem *problem, uint32_t number)
{
    const tt_topology *topology = problem->topology;
    TT_ASSERT(number < tt_owner_count(problem));
    if (!tt_coding_has_rails(problem)) {
        return number;
    }
    const uint32_t rail = number / topology->host_count, host = number % topology->host_count;
    return topology->host_members[topology->host_first[host] + rail];
}

/* ---- slices and pieces ---- */

/* Elements between two places where a slice of an all-reduce may begin. */
static uint64_t owner_block(const tt_problem *problem)
{
    TT_ASSERT(problem->owner_block % problem->codec->block == 0);
    return problem->owner_block > 0 && !TT_PLANT(OWNERS_OF_CURRENT_CODEC) ? problem->owner_block
                                                                          : problem->codec->block;
}

/* Blocks of owners of an all-reduce's vector. */
static uint64_t block_count(const tt_problem *problem)
{
    TT_ASSERT(problem->collective == TT_ALLREDUCE);
    const uint64_t elements = problem->bytes / problem->element_bytes;
    const uint64_t block = owner_block(problem);
    return elements / block + (elements % block != 0);
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
    const uint64_t block = owner_block(problem);
    const uint64_t elements = problem->bytes / problem->element_bytes;
    const uint32_t number = tt_owner_number(problem, member), count = tt_owner_count(problem);
    if (number >= count) {
        return (tt_owned){0};
    }
    const tt_span blocks = tt_slice(block_count(problem), 1, count, number);
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
    const uint32_t first = tt_owner_member(problem, 0);
    return tt_owned_slice(problem, first).count; /* the first ones take one more block */
}

uint64_t tt_owned_longest_piece(const tt_problem *problem, const tt_plan *plan, uint64_t lane)
{
    const uint64_t bytes = tt_owned_longest(problem) * problem->element_bytes;
    return lane_length(bytes, plan->lane_bytes, lane) / problem->element_bytes;
}
