/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce.h - the arithmetic of collectives: fold arrays together, scale, divide, fill.
 *
 * The same bits everywhere: operands are combined strictly in the order given, nothing is
 * reassociated or fused, and a NaN result is always the canonical quiet NaN. So every
 * instruction set, compiler and architecture gives the same answer (signed zeros included).
 *
 * Arithmetic: integers wrap. f16 and bf16 compute in f32 and round once, at the end. NaN wins in
 * min and max; among equals (-0 and +0) the earlier operand wins. Bool: any nonzero byte is true,
 * sum, max and or are OR, product, min and and are AND; results are 0 or 1. AVERAGE folds as SUM;
 * tt_divide finishes it.
 *
 * Pointers need no alignment. A target may be exactly one of the sources, never overlap one in
 * part. The pair of type and operator must satisfy tt_redop_allowed.
 *
 * Layer:   kernel.
 * Threads: pure; no state, the instruction set is looked up per call (a load and a test).
 * Memory:  some KiB of stack.
 */
#ifndef TUTTI_KERNEL_REDUCE_H
#define TUTTI_KERNEL_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/dtype.h"

/* target[i] = a[i] op b[i] */
void tt_reduce(tt_dtype dtype, tt_redop redop, void *target, const void *a, const void *b,
               size_t count);

/* targets[t][i] = ((sources[0][i] op sources[1][i]) op sources[2][i]) ..., for every t. At least
 * one source; a single one is copied. All memory is read and written once. */
typedef struct tt_fold {
    void *const *targets;
    size_t target_count;
    const void *const *sources;
    size_t source_count;
    size_t count; /* elements */
    bool is_far;  /* other cores have just written all sources but one: prefetch them */
    size_t near;  /* that one */
} tt_fold;

void tt_reduce_fold(tt_dtype dtype, tt_redop redop, const tt_fold *fold);

/* The function that tt_reduce_fold calls for two sources or more, for callers that fold the same
 * kind often. NULL: there is none (tt_redop_allowed, tt_redop_is_elementwise). */
typedef void tt_fold_fn(const tt_fold *fold);
tt_fold_fn *tt_reduce_find(tt_dtype dtype, tt_redop redop);

/* The same as tt_reduce_fold, for sources that are in a near cache or were written long ago. */
void tt_reduce_many(tt_dtype dtype, tt_redop redop, void *const targets[], size_t target_count,
                    const void *const sources[], size_t source_count, size_t count);

/* target[i] = source[i] * factor; target and source may be the same. f64 multiplies in f64, other
 * floats in f32 by the factor rounded to f32. Integers multiply in f64, truncate toward zero and
 * saturate (NaN gives 0). Bool: false if the factor is 0. A factor of 1 copies. */
void tt_scale(tt_dtype dtype, void *target, const void *source, size_t count, double factor);

/* target[i] /= divisor, which is not 0: true division for floats (in f32; f64 in f64), toward zero
 * for integers. Bool is left as it is. */
void tt_divide(tt_dtype dtype, void *target, size_t count, uint64_t divisor);

/* Fill with the identity element: 0, 1, the largest, the smallest, all ones. A float sum gets +0,
 * so that the array is also plain zeros; -0 + identity is therefore +0. */
void tt_fill_identity(tt_dtype dtype, tt_redop redop, void *target, size_t count);

#endif
