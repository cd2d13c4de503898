/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_avx512.c - the reduction kernels for x86-64 with AVX-512 F, BW, DQ and VL. Empty
 * elsewhere. */
#include "kernel/reduce_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-trapping-math")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c")
#endif

#define TT_HAS_CONVERSIONS
#define f16_to_f32(kept) ((pack_f32)_mm512_cvtph_ps((__m256i)(kept)))
#define f16_from_f32(pack) ((kept_half)_mm512_cvtps_ph((__m512)(pack), _MM_FROUND_TO_NEAREST_INT))
#define u16_to_u32(kept) ((bits_f32)_mm512_cvtepu16_epi32((__m256i)(kept)))
#define u16_from_u32(bits) ((kept_half)_mm512_cvtepi32_epi16((__m512i)(bits)))
#define clean_f32(pack)                                                                   \
    ((pack_f32)_mm512_mask_mov_ps(                                                        \
        (__m512)(pack), _mm512_cmp_ps_mask((__m512)(pack), (__m512)(pack), _CMP_UNORD_Q), \
        _mm512_set1_ps(NAN)))
#define clean_f64(pack)                                                                      \
    ((pack_f64)_mm512_mask_mov_pd(                                                           \
        (__m512d)(pack), _mm512_cmp_pd_mask((__m512d)(pack), (__m512d)(pack), _CMP_UNORD_Q), \
        _mm512_set1_pd((double)NAN)))

#define TT_VECTOR_BYTES 64
#define TT_ISA_TABLE tt_reduce_avx512
#define TT_ISA_NAME "avx512"
#include "kernel/reduce_kernel.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
