/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_avx2.c - the reduction kernels for x86-64 with AVX2 and F16C. Empty elsewhere. */
#include "kernel/reduce_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-trapping-math")
#pragma GCC target("avx2,f16c")
#endif

#define TT_HAS_CONVERSIONS
#define f16_to_f32(kept) ((pack_f32)_mm256_cvtph_ps((__m128i)(kept)))
#define f16_from_f32(pack) ((kept_half)_mm256_cvtps_ph((__m256)(pack), _MM_FROUND_TO_NEAREST_INT))
#define u16_to_u32(kept) ((bits_f32)_mm256_cvtepu16_epi32((__m128i)(kept)))
/* The values fit, so that saturation changes none of them. */
#define u16_from_u32(bits)                                                \
    ((kept_half)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)(bits)), \
                                 _mm256_extracti128_si256((__m256i)(bits), 1)))
#define clean_f32(pack)                                              \
    ((pack_f32)_mm256_blendv_ps((__m256)(pack), _mm256_set1_ps(NAN), \
                                _mm256_cmp_ps((__m256)(pack), (__m256)(pack), _CMP_UNORD_Q)))
#define clean_f64(pack)                                                       \
    ((pack_f64)_mm256_blendv_pd((__m256d)(pack), _mm256_set1_pd((double)NAN), \
                                _mm256_cmp_pd((__m256d)(pack), (__m256d)(pack), _CMP_UNORD_Q)))

#define TT_VECTOR_BYTES 32
#define TT_ISA_TABLE tt_reduce_avx2
#define TT_ISA_NAME "avx2"
#include "kernel/reduce_kernel.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
