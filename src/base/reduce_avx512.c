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

static void widen_f16(float *target, const void *source, size_t count)
{
    const char *from = source;
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 live = count - i < 16 ? (__mmask16)((1u << (count - i)) - 1) : 0xffff;
        const __m256i halves = _mm256_maskz_loadu_epi16(live, from + i * 2);
        _mm512_mask_storeu_ps(target + i, live, _mm512_cvtph_ps(halves));
    }
}

static void narrow_f16(void *target, const float *source, size_t count)
{
    const __m512 nan = _mm512_set1_ps(NAN);
    char *to = target;
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 live = count - i < 16 ? (__mmask16)((1u << (count - i)) - 1) : 0xffff;
        const __m512 raw = _mm512_maskz_loadu_ps(live, source + i);
        const __mmask16 is_nan = _mm512_cmp_ps_mask(raw, raw, _CMP_UNORD_Q);
        const __m512 value = _mm512_mask_mov_ps(raw, is_nan, nan);
        const __m256i halves = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
        _mm256_mask_storeu_epi16(to + i * 2, live, halves);
    }
}

#define TT_ISA_TABLE tt_reduce_avx512
#define TT_ISA_NAME "avx512"
#include "base/reduce_kernel.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
