/* SPDX-License-Identifier: Apache-2.0
 *
 * scratch.h - memory that is released all at once, and a stable sort.
 *
 * Planning needs a dozen arrays with the same lifetime: take them all, then check once whether an
 * allocation failed.
 *
 * Layer:   model; may include base/.
 * Threads: one at a time per scratch.
 * Memory:  from the allocator it was given; tt_scratch_fini returns everything.
 */
#ifndef TUTTI_MODEL_SCRATCH_H
#define TUTTI_MODEL_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"

typedef struct tt_scratch_block tt_scratch_block;

typedef struct tt_scratch {
    const tt_allocator *allocator;
    tt_scratch_block *blocks;
    bool is_out; /* an allocation has failed */
} tt_scratch;

void tt_scratch_init(tt_scratch *scratch, const tt_allocator *allocator);
void tt_scratch_fini(tt_scratch *scratch);

/* Zeroed; NULL, and is_out from then on, if an allocation fails. A count of 0 is one element. */
void *tt_scratch_take(tt_scratch *scratch, size_t count, size_t elem_bytes);

/* TT_ERR_NO_MEMORY if any allocation has failed. */
tt_status tt_scratch_status(const tt_scratch *scratch);

/* Whether index `a` must come before `b`: a strict weak order. */
typedef bool tt_sort_before_fn(const void *user, uint32_t a, uint32_t b);

/* Stable; O(n log n). `spare` has room for as many. */
void tt_sort_indices(uint32_t *indices, uint32_t *spare, size_t count, tt_sort_before_fn *before,
                     const void *user);

#endif
