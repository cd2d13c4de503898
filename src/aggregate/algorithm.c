/* SPDX-License-Identifier: Apache-2.0
 *
 * algorithm.c - parts, slices and names that every algorithm shares. */
#include "aggregate/algorithm.h"

#include "aggregate/pattern/pattern.h"
#include "base/assert.h"

static const char *const collective_names[TT_COLLECTIVE_COUNT] = {
    [TT_ALLREDUCE] = "allreduce", [TT_REDUCE] = "reduce",
    [TT_BROADCAST] = "broadcast", [TT_ALLGATHER] = "allgather",
    [TT_GATHER] = "gather",       [TT_SCATTER] = "scatter",
    [TT_ALLTOALL] = "alltoall",   [TT_REDUCESCATTER] = "reducescatter",
    [TT_SEND] = "send",           [TT_RECEIVE] = "receive",
    [TT_BARRIER] = "barrier",
};

const char *tt_collective_name(tt_collective collective)
{
    return (uint32_t)collective < TT_COLLECTIVE_COUNT ? collective_names[collective] : "invalid";
}

uint64_t tt_part_offset(const tt_problem *problem, uint32_t index)
{
    TT_ASSERT(index <= problem->size);
    return problem->part_offsets != NULL ? problem->part_offsets[index] : index * problem->bytes;
}

uint64_t tt_part_bytes(const tt_problem *problem, uint32_t index)
{
    TT_ASSERT(index < problem->size);
    if (problem->part_offsets == NULL) {
        return problem->bytes;
    }
    TT_ASSERT(problem->part_offsets[index] <= problem->part_offsets[index + 1]);
    return problem->part_offsets[index + 1] - problem->part_offsets[index];
}

uint64_t tt_part_bytes_max(const tt_problem *problem)
{
    if (problem->part_offsets == NULL) {
        return problem->bytes;
    }
    uint64_t bytes_max = 0;
    for (uint32_t i = 0; i < problem->size; i++) {
        const uint64_t bytes = tt_part_bytes(problem, i);
        bytes_max = bytes > bytes_max ? bytes : bytes_max;
    }
    return bytes_max;
}

tt_span tt_slice(uint64_t bytes, uint32_t element_bytes, uint32_t count, uint32_t index)
{
    TT_ASSERT(index < count);
    TT_ASSERT(bytes % element_bytes == 0);
    const uint64_t elements = bytes / element_bytes;
    const uint64_t each = elements / count;
    const uint64_t longer = elements % count; /* the first ones take one more */
    const uint64_t first = index * each + (index < longer ? index : longer);
    return (tt_span){.first = first * element_bytes,
                     .bytes = (each + (index < longer ? 1 : 0)) * element_bytes};
}
