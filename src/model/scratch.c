/* SPDX-License-Identifier: Apache-2.0
 *
 * scratch.c - blocks in a list; a merge sort from the bottom up. */
#include "model/scratch.h"

#include <string.h>

#include "base/base.h"

struct tt_scratch_block {
    tt_scratch_block *next;
    size_t bytes; /* with this head */
    max_align_t data[];
};

void tt_scratch_init(tt_scratch *scratch, const tt_allocator *allocator)
{
    *scratch = (tt_scratch){.allocator = allocator};
}

void tt_scratch_fini(tt_scratch *scratch)
{
    while (scratch->blocks != NULL) {
        tt_scratch_block *block = scratch->blocks;
        scratch->blocks = block->next;
        tt_release(scratch->allocator, block, block->bytes, 1);
    }
}

void *tt_scratch_take(tt_scratch *scratch, size_t count, size_t elem_bytes)
{
    const size_t data_count = count == 0 ? 1 : count;
    if (data_count > (SIZE_MAX - sizeof(tt_scratch_block)) / elem_bytes) {
        scratch->is_out = true;
        return NULL;
    }
    const size_t bytes = sizeof(tt_scratch_block) + data_count * elem_bytes;
    tt_scratch_block *block = tt_allocate(scratch->allocator, bytes, 1);
    if (block == NULL) {
        scratch->is_out = true;
        return NULL;
    }
    block->next = scratch->blocks;
    block->bytes = bytes;
    scratch->blocks = block;
    return block->data;
}

tt_status tt_scratch_status(const tt_scratch *scratch)
{
    return scratch->is_out ? TT_ERR_NO_MEMORY : TT_OK;
}

void tt_sort_indices(uint32_t *indices, uint32_t *spare, size_t count, tt_sort_before_fn *before,
                     const void *user)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            const size_t middle = tt_min_u64(start + width, count);
            const size_t end = tt_min_u64(start + 2 * width, count);
            size_t left = start;
            size_t right = middle;
            for (size_t i = start; i < end; i++) {
                const bool takes_right =
                    left == middle || (right < end && before(user, indices[right], indices[left]));
                spare[i] = takes_right ? indices[right++] : indices[left++];
            }
        }
        memcpy(indices, spare, count * sizeof(indices[0]));
    }
}
