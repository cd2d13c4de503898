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

#define TT_VECTOR_LANES 8
typedef __m256 vector;

static inline vector vector_load_f16(const void *source)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(source));
}

static inline void vector_store_f16(void *target, vector value)
{
    const __m256 is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    const __m256 clean = _mm256_blendv_ps(value, _mm256_set1_ps(NAN), is_nan);
    _mm_storeu_si128(target, _mm256_cvtps_ph(clean, _MM_FROUND_TO_NEAREST_INT));
}

static inline vector vector_load_bf16(const void *source)
{
    const __m256i halves = _mm256_cvtepu16_epi32(_mm_loadu_si128(source));
    return _mm256_castsi256_ps(_mm256_slli_epi32(halves, 16));
}

/* As tt_bf16_from_f32. */
static inline void vector_store_bf16(void *target, vector value)
{
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i wide =
        _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), _mm256_set1_epi32(0x7fc0), is_nan);
    /* Packing works per 128-bit lane; bring the two quarters that matter together. */
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0xd8);
    _mm_storeu_si128(target, _mm256_castsi256_si128(packed));
}

/* min and max answer their second operand when in doubt: that is `a` for equals, as it must be,
 * and wrong only if `b` is NaN. */
static inline vector vector_apply(tt_redop redop, vector a, vector b)
{
    switch (redop) {
    case TT_MIN:
        return _mm256_blendv_ps(_mm256_min_ps(b, a), b, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
    case TT_MAX:
        return _mm256_blendv_ps(_mm256_max_ps(b, a), b, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
    case TT_PRODUCT:
        return _mm256_mul_ps(a, b);
    default:
        return _mm256_add_ps(a, b);
    }
}

static void widen_f16(float *target, const void *source, size_t count)
{
    const char *from = source;
    size_t i = 0;
    for (; i + TT_VECTOR_LANES <= count; i += TT_VECTOR_LANES) {
        _mm256_storeu_ps(target + i, vector_load_f16(from + i * 2));
    }
    for (; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + i * 2, sizeof(half));
        target[i] = tt_f16_to_f32(half);
    }
}

static void narrow_f16(void *target, const float *source, size_t count)
{
    char *to = target;
    size_t i = 0;
    for (; i + TT_VECTOR_LANES <= count; i += TT_VECTOR_LANES) {
        vector_store_f16(to + i * 2, _mm256_loadu_ps(source + i));
    }
    for (; i < count; i++) {
        const uint16_t half = source[i] != source[i] ? 0x7e00u : tt_f16_from_f32(source[i]);
        memcpy(to + i * 2, &half, sizeof(half));
    }
}

static void widen_bf16(float *target, const void *source, size_t count)
{
    const char *from = source;
    size_t i = 0;
    for (; i + TT_VECTOR_LANES <= count; i += TT_VECTOR_LANES) {
        _mm256_storeu_ps(target + i, vector_load_bf16(from + i * 2));
    }
    for (; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + i * 2, sizeof(half));
        target[i] = tt_bf16_to_f32(half);
    }
}

static void narrow_bf16(void *target, const float *source, size_t count)
{
    char *to = target;
    size_t i = 0;
    for (; i + TT_VECTOR_LANES <= count; i += TT_VECTOR_LANES) {
        vector_store_bf16(to + i * 2, _mm256_loadu_ps(source + i));
    }
    for (; i < count; i++) {
        const uint16_t half = source[i] != source[i] ? 0x7fc0u : tt_bf16_from_f32(source[i]);
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
