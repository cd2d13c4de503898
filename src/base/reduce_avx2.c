/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_avx2.c - the reduction kernels for x86-64 with AVX2 and F16C. Empty elsewhere. */
#include "base/reduce_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-trapping-math")
#pragma GCC target("avx2,f16c")
#endif

#include "base/half.h"

static void widen_f16(float *target, const void *source, size_t count)
{
    const char *from = source;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(from + i * 2));
        _mm256_storeu_ps(target + i, _mm256_cvtph_ps(halves));
    }
    for (; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + i * 2, sizeof(half));
        target[i] = tt_f16_to_f32(half);
    }
}

static void narrow_f16(void *target, const float *source, size_t count)
{
    const __m256 nan = _mm256_set1_ps(NAN);
    char *to = target;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m256 raw = _mm256_loadu_ps(source + i);
        const __m256 is_nan = _mm256_cmp_ps(raw, raw, _CMP_UNORD_Q);
        const __m256 value = _mm256_blendv_ps(raw, nan, is_nan);
        const __m128i halves = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(to + i * 2), halves);
    }
    for (; i < count; i++) {
        const uint16_t half = source[i] != source[i] ? 0x7e00u : tt_f16_from_f32(source[i]);
        memcpy(to + i * 2, &half, sizeof(half));
    }
}

#define TT_ISA_TABLE tt_reduce_avx2
#define TT_ISA_NAME "avx2"
#include "base/reduce_kernel.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
