/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_avx2.c - the reduction kernels for x86-64 with AVX2 and F16C. Empty elsewhere. */
#include "base/reduce_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-trapping-math")
#pragma GCC target("avx2,f16c")
#endif

#define TT_HAS_F16
#define f16_to_f32(kept) ((pack_f32)_mm256_cvtph_ps((__m128i)(kept)))
#define f16_from_f32(pack) ((kept_half)_mm256_cvtps_ph((__m256)(pack), _MM_FROUND_TO_NEAREST_INT))
#define TT_VECTOR_BYTES 32
#define TT_ISA_TABLE tt_reduce_avx2
#define TT_ISA_NAME "avx2"
#include "base/reduce_kernel.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
