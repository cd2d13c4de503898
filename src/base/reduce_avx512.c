/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_avx512.c - the reduction kernels for x86-64 with AVX-512 F, BW, DQ and VL. Empty
 * elsewhere. */
#include "base/reduce_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-trapping-math")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c")
#endif

#include "base/half.h"

#define TT_VECTOR_LANES 16
typedef __m512 vector;

static inline vector vector_load_f16(const void *source)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(source));
}

static inline void vector_store_f16(void *target, vector value)
{
    const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512 clean = _mm512_mask_mov_ps(value, is_nan, _mm512_set1_ps(NAN));
    _mm256_storeu_si256(target, _mm512_cvtps_ph(clean, _MM_FROUND_TO_NEAREST_INT));
}

static inline vector vector_load_bf16(const void *source)
{
    const __m512i halves = _mm512_cvtepu16_epi32(_mm256_loadu_si256(source));
    return _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16));
}

/* As tt_bf16_from_f32. */
static inline void vector_store_bf16(void *target, vector value)
{
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i wide =
        _mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), is_nan, _mm512_set1_epi32(0x7fc0));
    _mm256_storeu_si256(target, _mm512_cvtepi32_epi16(wide));
}

/* min and max answer their second operand when in doubt: that is `a` for equals, as it must be,
 * and wrong only if `b` is NaN. */
static inline vector vector_apply(tt_redop redop, vector a, vector b)
{
    switch (redop) {
    case TT_MIN:
        return _mm512_mask_mov_ps(_mm512_min_ps(b, a), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), b);
    case TT_MAX:
        return _mm512_mask_mov_ps(_mm512_max_ps(b, a), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), b);
    case TT_PRODUCT:
        return _mm512_mul_ps(a, b);
    default:
        return _mm512_add_ps(a, b);
    }
}

static void widen_f16(float *target, const void *source, size_t count)
{
    const char *from = source;
    size_t i = 0;
    for (; i + TT_VECTOR_LANES <= count; i += TT_VECTOR_LANES) {
        _mm512_storeu_ps(target + i, vector_load_f16(from + i * 2));
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
        vector_store_f16(to + i * 2, _mm512_loadu_ps(source + i));
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
        _mm512_storeu_ps(target + i, vector_load_bf16(from + i * 2));
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
        vector_store_bf16(to + i * 2, _mm512_loadu_ps(source + i));
    }
    for (; i < count; i++) {
        const uint16_t half = source[i] != source[i] ? 0x7fc0u : tt_bf16_from_f32(source[i]);
        memcpy(to + i * 2, &half, sizeof(half));
    }
}

#define TT_ISA_TABLE tt_reduce_avx512
#define TT_ISA_NAME "avx512"
#include "base/reduce_kernel.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
