/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_avx2.c - the loops of codecs for x86-64 with AVX2 and F16C. Empty elsewhere. */
#include "codec/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-trapping-math")
#pragma GCC target("avx2,f16c")
#endif

#define TT_HAS_F16
static void halves_from_f32(uint16_t *target, const float *values, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm_storeu_si128((__m128i *)(target + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
    }
    for (; i < count; i++) {
        target[i] = (uint16_t)_mm_extract_epi16(
            _mm_cvtps_ph(_mm_set_ss(values[i]), _MM_FROUND_TO_NEAREST_INT), 0);
    }
}

static void halves_to_f32(float *target, const uint16_t *halves, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(target + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(halves + i))));
    }
    for (; i < count; i++) {
        target[i] = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(halves[i])));
    }
}

#define TT_HAS_SIGNS
/* How many elements were done, a multiple of eight. */
static size_t signs_of(uint8_t *bits, const float *values, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        bits[i / 8] = (uint8_t)_mm256_movemask_ps(_mm256_loadu_ps(values + i));
    }
    return i;
}

static size_t values_of(float *target, const uint8_t *bits, const float pair[2], size_t count)
{
    const __m256i places = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256 first = _mm256_set1_ps(pair[0]), second = _mm256_set1_ps(pair[1]);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m256i byte = _mm256_and_si256(_mm256_set1_epi32(bits[i / 8]), places);
        const __m256i is_set = _mm256_cmpeq_epi32(byte, places);
        _mm256_storeu_ps(target + i, _mm256_blendv_ps(first, second, _mm256_castsi256_ps(is_set)));
    }
    return i;
}

#define TT_HAS_DRAW
/* tt_philox_at for four counters at a time: lanes of 64 bits, whose upper halves are of no
 * account. The lanes have the counters in the order in which unpacking puts them back. */
static __m256i word_pair(__m256i low, __m256i high)
{
    return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xaa);
}

/* How many counters were done. */
static size_t draw_wide(uint32_t *random, uint64_t seed, uint64_t counter, const uint32_t stream[2],
                        size_t blocks)
{
    const __m256i order = _mm256_setr_epi64x(0, 2, 1, 3);
    size_t at = 0;
    for (; at + 4 <= blocks && (uint32_t)(counter + at) < UINT32_MAX - 4; at += 4) {
        const uint64_t base = counter + at;
        __m256i a = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)(uint32_t)base), order);
        __m256i b = _mm256_set1_epi64x((int64_t)((uint32_t)(base >> 32) ^ stream[0]));
        __m256i c = _mm256_set1_epi64x((int64_t)stream[1]), d = _mm256_setzero_si256();
        uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
        for (int round = 0; round < 10; round++) {
            const __m256i first = _mm256_mul_epu32(a, _mm256_set1_epi64x(0xd2511f53));
            const __m256i second = _mm256_mul_epu32(c, _mm256_set1_epi64x(0xcd9e8d57));
            a = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(second, 32), b),
                                 _mm256_set1_epi64x((int64_t)low));
            c = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(first, 32), d),
                                 _mm256_set1_epi64x((int64_t)high));
            b = second;
            d = first;
            low += UINT32_C(0x9e3779b9);
            high += UINT32_C(0xbb67ae85);
        }
        const __m256i front = word_pair(a, b), back = word_pair(c, d);
        _mm256_storeu_si256((__m256i *)(random + 4 * at), _mm256_unpacklo_epi64(front, back));
        _mm256_storeu_si256((__m256i *)(random + 4 * at + 8), _mm256_unpackhi_epi64(front, back));
    }
    return at;
}

#define TT_KERNEL_TABLE tt_codec_kernel_avx2
#define TT_KERNEL_NAME "avx2"
#include "codec/kernel_loops.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
