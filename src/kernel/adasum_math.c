/* SPDX-License-Identifier: Apache-2.0
 *
 * adasum_math.c - see adasum_math.h. A block is widened to f64 first, so that one loop serves
 * every type. */
#include "kernel/adasum_math.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/half.h"

enum { BLOCK = 512, PARTIALS = 8 };

static void widen(tt_dtype dtype, double *target, const void *source, size_t count)
{
    float single;
    uint16_t half;
    const uint8_t *at = source;
    switch (dtype) {
    case TT_F64:
        memcpy(target, source, count * sizeof(double));
        break;
    case TT_F32:
        for (size_t i = 0; i < count; i++) {
            memcpy(&single, at + i * sizeof(single), sizeof(single));
            target[i] = (double)single;
        }
        break;
    default:
        TT_ASSERT(dtype == TT_F16 || dtype == TT_BF16);
        for (size_t i = 0; i < count; i++) {
            memcpy(&half, at + i * sizeof(half), sizeof(half));
            target[i] = (double)(dtype == TT_F16 ? tt_f16_to_f32(half) : tt_bf16_to_f32(half));
        }
        break;
    }
}

static void narrow(tt_dtype dtype, void *target, const double *source, size_t count)
{
    uint8_t *at = target;
    switch (dtype) {
    case TT_F64:
        memcpy(target, source, count * sizeof(double));
        break;
    case TT_F32:
        for (size_t i = 0; i < count; i++) {
            const float single = (float)source[i];
            memcpy(at + i * sizeof(single), &single, sizeof(single));
        }
        break;
    default:
        for (size_t i = 0; i < count; i++) {
            const float single = (float)source[i];
            const uint16_t half =
                dtype == TT_F16 ? tt_f16_from_f32(single) : tt_bf16_from_f32(single);
            memcpy(at + i * sizeof(half), &half, sizeof(half));
        }
        break;
    }
}

/* Of one block: every PARTIALS-th element into the same sum, so that loops vectorise without
 * changing the order. */
static double product(const double *a, const double *b, size_t count)
{
    double partials[PARTIALS] = {0};
    size_t i = 0;
    for (; i + PARTIALS <= count; i += PARTIALS) {
        for (size_t p = 0; p < PARTIALS; p++) {
            partials[p] += a[i + p] * b[i + p];
        }
    }
    for (size_t p = 0; i < count; i++, p++) {
        partials[p] += a[i] * b[i];
    }
    double sum = 0.0;
    for (size_t p = 0; p < PARTIALS; p++) {
        sum += partials[p];
    }
    return sum;
}

void tt_adasum_products(tt_dtype dtype, tt_vectors pair, size_t count, tt_products *products)
{
    TT_ASSERT(tt_dtype_is_float(dtype));
    const size_t width = tt_dtype_bytes(dtype);
    double left[BLOCK], right[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t length = tt_min_u64(count - done, BLOCK);
        widen(dtype, left, (const uint8_t *)pair.a + done * width, length);
        widen(dtype, right, (const uint8_t *)pair.b + done * width, length);
        products->ab += product(left, right, length);
        products->aa += product(left, left, length);
        products->bb += product(right, right, length);
    }
}

tt_products tt_adasum_add(const tt_products *first, const tt_products *second)
{
    return (tt_products){
        .ab = first->ab + second->ab, .aa = first->aa + second->aa, .bb = first->bb + second->bb};
}

/* NaN propagates: a rank that diverges must be noticed. */
static double factor_of(double ab, double squared)
{
    return squared < TT_ADASUM_TINY ? 1.0 : 1.0 - ab / (2.0 * squared);
}

void tt_adasum_blend(tt_dtype dtype, void *target, tt_vectors pair, size_t count,
                     const tt_products *products)
{
    TT_ASSERT(tt_dtype_is_float(dtype));
    const size_t width = tt_dtype_bytes(dtype);
    const double factor_a = factor_of(products->ab, products->aa);
    const double factor_b = factor_of(products->ab, products->bb);
    double left[BLOCK], right[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t length = tt_min_u64(count - done, BLOCK);
        widen(dtype, left, (const uint8_t *)pair.a + done * width, length);
        widen(dtype, right, (const uint8_t *)pair.b + done * width, length);
        for (size_t i = 0; i < length; i++) {
            left[i] = factor_a * left[i] + factor_b * right[i];
        }
        narrow(dtype, (uint8_t *)target + done * width, left, length);
    }
}
