/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_internal.h - one table of reduction kernels per instruction set.
 *
 * reduce.c picks a table, checks arguments and cuts work into blocks; the kernels themselves are
 * the same source, reduce_kernel.h, compiled once per reduce_<isa>.c.
 *
 * Layer:   kernel, private to reduce*.c and its test.
 * Threads: tables are const and shared.
 */
#ifndef TUTTI_KERNEL_REDUCE_INTERNAL_H
#define TUTTI_KERNEL_REDUCE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/dtype.h"
#include "kernel/reduce.h"

/* The members of tt_reduce_isa. */
typedef void tt_scale_fn(void *target, const void *source, size_t count, double factor);
typedef void tt_divide_fn(void *target, size_t count, uint64_t divisor);

/* Only the slots tt_redop_allowed refuses, AVERAGE (which folds as SUM) and ADASUM are empty. */
typedef struct tt_reduce_isa {
    const char *name;
    tt_fold_fn *fold[TT_DTYPE_COUNT][TT_REDOP_COUNT];
    tt_scale_fn *scale[TT_DTYPE_COUNT];
    tt_divide_fn *divide[TT_DTYPE_COUNT];
} tt_reduce_isa;

extern const tt_reduce_isa tt_reduce_plain;
extern const tt_reduce_isa tt_reduce_avx2;   /* x86-64 only */
extern const tt_reduce_isa tt_reduce_avx512; /* x86-64 only */

/* The index-th table this processor can run, best first, or NULL past the end. */
const tt_reduce_isa *tt_reduce_isa_at(size_t index);

/* tt_reduce_fold on a given table; two sources or more. */
void tt_reduce_isa_many(const tt_reduce_isa *isa, tt_dtype dtype, tt_redop redop,
                        const tt_fold *fold);

#endif
