/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_plain.c - the reduction kernels for any processor: SSE2 on x86-64, NEON on 64-bit Arm,
 * which every one of them has. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-trapping-math")
#endif

#include <stddef.h>
#include <stdint.h>

#define TT_VECTOR_BYTES 16
#define TT_ISA_TABLE tt_reduce_plain
#define TT_ISA_NAME "plain"
#include "kernel/reduce_kernel.h"
