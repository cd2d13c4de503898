/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_plain.c - the reduction kernels for any processor, and the twin the others must equal. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-trapping-math")
#endif

#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

static void widen_f16(float *target, const void *source, size_t count)
{
    const char *from = source;
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + i * sizeof(half), sizeof(half));
        target[i] = tt_f16_to_f32(half);
    }
}

static void narrow_f16(void *target, const float *source, size_t count)
{
    char *to = target;
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = source[i] != source[i] ? 0x7e00u : tt_f16_from_f32(source[i]);
        memcpy(to + i * sizeof(half), &half, sizeof(half));
    }
}

static void widen_bf16(float *target, const void *source, size_t count)
{
    const char *from = source;
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + i * sizeof(half), sizeof(half));
        target[i] = tt_bf16_to_f32(half);
    }
}

static void narrow_bf16(void *target, const float *source, size_t count)
{
    char *to = target;
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = source[i] != source[i] ? 0x7fc0u : tt_bf16_from_f32(source[i]);
        memcpy(to + i * sizeof(half), &half, sizeof(half));
    }
}

#define TT_ISA_TABLE tt_reduce_plain
#define TT_ISA_NAME "plain"
#include "base/reduce_kernel.h"
