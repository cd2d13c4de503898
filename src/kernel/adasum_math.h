/* SPDX-License-Identifier: Apache-2.0
 *
 * adasum_math.h - the arithmetic of Adasum (Maleki et al. 2020): a sum of two gradients that does
 * not count twice what they have in common.
 *
 *     a (1 - ab / 2aa) + b (1 - ab / 2bb)
 *
 * Products are summed in f64, in an order that depends on the call's length alone, so that every
 * instruction set and compiler gives the same bits. A vector shorter than TT_ADASUM_TINY (squared)
 * gets the factor 1: zeros change nothing.
 *
 * Layer:   kernel.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_KERNEL_ADASUM_MATH_H
#define TUTTI_KERNEL_ADASUM_MATH_H

#include <stddef.h>

#include "kernel/dtype.h"

#define TT_ADASUM_TINY 1.4916681462400413e-154 /* the root of the smallest normal f64 */

typedef struct tt_products {
    double ab, aa, bb;
} tt_products;

/* Two vectors, the lower rank's first. */
typedef struct tt_vectors {
    const void *a, *b;
} tt_vectors;

/* Add the products of a[0..count) and b[0..count) to `products`. Floats only. */
void tt_adasum_products(tt_dtype dtype, tt_vectors pair, size_t count, tt_products *products);

/* The products of the two halves of a vector, first + second. */
tt_products tt_adasum_add(const tt_products *first, const tt_products *second);

/* target = a and b blended as above; computed in f64 (f16 and bf16: to f32, then) and rounded. The
 * target may be a or b. */
void tt_adasum_blend(tt_dtype dtype, void *target, tt_vectors pair, size_t count,
                     const tt_products *products);

#endif
