/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_avx512.c - the loops of codecs for x86-64 with AVX-512 F, BW, DQ and VL. Empty elsewhere.
 */
#include "codec/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-trapping-math")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,prefer-vector-width=512")
#endif

#define TT_HAS_F16
/* The first `count` of sixteen. */
static __mmask16 first_of(size_t count)
{
    return (__mmask16)(count >= 16 ? 0xffffu : (1u << count) - 1u);
}

static void halves_from_f32(uint16_t *target, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 mask = first_of(count - i);
        const __m512 some = _mm512_maskz_loadu_ps(mask, values + i);
        _mm256_mask_storeu_epi16(target + i, mask,
                                 _mm512_cvtps_ph(some, _MM_FROUND_TO_NEAREST_INT));
    }
}

static void halves_to_f32(float *target, const uint16_t *halves, size_t count)
{
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 mask = first_of(count - i);
        _mm512_mask_storeu_ps(target + i, mask,
                              _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, halves + i)));
    }
}

#define TT_HAS_SIGNS
/* How many elements were done, a multiple of eight. */
static size_t signs_of(uint8_t *bits, const float *values, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const uint16_t some =
            (uint16_t)_mm512_movepi32_mask(_mm512_castps_si512(_mm512_loadu_ps(values + i)));
        memcpy(bits + i / 8, &some, sizeof(some));
    }
    return i;
}

static size_t values_of(float *target, const uint8_t *bits, const float pair[2], size_t count)
{
    const __m512 first = _mm512_set1_ps(pair[0]), second = _mm512_set1_ps(pair[1]);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        uint16_t some;
        memcpy(&some, bits + i / 8, sizeof(some));
        _mm512_storeu_ps(target + i, _mm512_mask_blend_ps((__mmask16)some, first, second));
    }
    return i;
}

#define TT_HAS_DRAW
/* tt_philox_at for eight counters at a time: lanes of 64 bits, whose upper halves are of no
 * account. The lanes have the counters in the order in which unpacking puts them back. */
static __m512i word_pair(__m512i low, __m512i high)
{
    return _mm512_mask_blend_epi32(0xaaaa, low, _mm512_slli_epi64(high, 32));
}

/* How many counters were done. */
static size_t draw_wide(uint32_t *random, uint64_t seed, uint64_t counter, const uint32_t stream[2],
                        size_t blocks)
{
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    size_t at = 0;
    for (; at + 8 <= blocks && (uint32_t)(counter + at) < UINT32_MAX - 8; at += 8) {
        const uint64_t base = counter + at;
        __m512i a = _mm512_add_epi64(_mm512_set1_epi64((int64_t)(uint32_t)base), order);
        __m512i b = _mm512_set1_epi64((int64_t)((uint32_t)(base >> 32) ^ stream[0]));
        __m512i c = _mm512_set1_epi64((int64_t)stream[1]), d = _mm512_setzero_si512();
        uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
        for (int round = 0; round < 10; round++) {
            const __m512i first = _mm512_mul_epu32(a, _mm512_set1_epi64(0xd2511f53));
            const __m512i second = _mm512_mul_epu32(c, _mm512_set1_epi64(0xcd9e8d57));
            a = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(second, 32), b),
                                 _mm512_set1_epi64((int64_t)low));
            c = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(first, 32), d),
                                 _mm512_set1_epi64((int64_t)high));
            b = second;
            d = first;
            low += UINT32_C(0x9e3779b9);
            high += UINT32_C(0xbb67ae85);
        }
        const __m512i front = word_pair(a, b), back = word_pair(c, d);
        _mm512_storeu_si512((random + 4 * at), _mm512_unpacklo_epi64(front, back));
        _mm512_storeu_si512((random + 4 * at + 16), _mm512_unpackhi_epi64(front, back));
    }
    return at;
}

#define TT_KERNEL_TABLE tt_codec_kernel_avx512
#define TT_KERNEL_NAME "avx512"
#include "codec/kernel_loops.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
