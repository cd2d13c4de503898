/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel.h - loops over the elements of a block, one table per instruction set.
 *
 * The same source, kernel_loops.h, is compiled once per kernel_<isa>.c, and gives the same bits in
 * each: sums have a fixed shape (TT_CODEC_LANES interleaved partial sums, then a tree), nothing is
 * fused. Values are finite unless a function says otherwise.
 *
 * Layer:   codec, private.
 * Threads: tables are const and shared.
 * Memory:  none.
 */
#ifndef TUTTI_CODEC_KERNEL_H
#define TUTTI_CODEC_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/dtype.h"

enum { TT_CODEC_LANES = 16 };

typedef struct tt_codec_kernel {
    const char *name;

    /* target[i] = values[i] * factor; any value. */
    void (*load)(float *target, const void *values, tt_dtype dtype, float factor, size_t count);
    /* target[i] = values[i] * factor, rounded; any value. */
    void (*store)(void *target, tt_dtype dtype, const float *values, float factor, size_t count);
    /* target[i] += values[i]; any value. */
    void (*add)(float *target, const float *values, size_t count);
    /* target[i] = values[i] - sent[i], where sent[i] is finite; elsewhere old[i], or 0 if NULL. */
    void (*subtract)(float *target, const float *values, const float *sent, const float *old,
                     size_t count);
    /* Of magnitudes; not finite, if any value is not. */
    float (*largest)(const float *values, size_t count);
    float (*magnitude_sum)(const float *values, size_t count);
    /* Sum and number of the negative values; sum of the others. */
    void (*sums_by_sign)(const float *values, size_t count, float sums_out[2],
                         size_t *negative_count_out);

    /* codes[i] = values[i] * inverse, rounded to nearest, ties to even; then or'ed to two a byte.
     * The inverse is such that codes have 8 or 4 bits with sign. */
    void (*to_int8)(uint8_t *codes, const float *values, float inverse, size_t count);
    void (*from_int8)(float *target, const uint8_t *codes, float scale, size_t count);
    void (*pack_int4)(uint8_t *packed, const uint8_t *codes, size_t count);
    void (*unpack_int4)(uint8_t *codes, const uint8_t *packed, size_t count);
    /* codes[i] = floor(values[i] * inverse + random[i] * 2^-32). */
    void (*to_int8_random)(uint8_t *codes, const float *values, float inverse,
                           const uint32_t *random, size_t count);
    /* codes[i] = the sign of values[i], or 0 unless its magnitude is above scale * random[i] *
     * 2^-32; any value and scale. */
    void (*to_ternary)(uint8_t *codes, const float *values, float scale, const uint32_t *random,
                       size_t count);
    /* codes[i] = the sign of values[i]; 0 of zeros and NaN. */
    void (*to_votes)(uint8_t *codes, const float *values, size_t count);
    /* target[i] = the sign of codes[i], which have 8 bits with sign, times scale; 0 of zeros. */
    void (*from_votes)(float *target, const uint8_t *codes, float scale, size_t count);
    /* 16-bit floats, which saturate; NaN and infinities become NaN. The _in_range forms are for
     * values that are finite and need no saturation. */
    void (*to_f16)(uint8_t *wire, const float *values, size_t count);
    void (*to_f16_in_range)(uint8_t *wire, const float *values, size_t count);
    void (*from_f16)(float *target, const uint8_t *wire, size_t count);
    void (*to_bf16)(uint8_t *wire, const float *values, size_t count);
    void (*to_bf16_in_range)(uint8_t *wire, const float *values, size_t count);
    void (*from_bf16)(float *target, const uint8_t *wire, size_t count);
    /* 8-bit floats of values * inverse, which must be within their range. */
    void (*to_e4m3)(uint8_t *wire, const float *values, float inverse, size_t count);
    void (*from_e4m3)(float *target, const uint8_t *wire, float scale, size_t count);
    void (*to_e5m2)(uint8_t *wire, const float *values, float inverse, size_t count);
    void (*from_e5m2)(float *target, const uint8_t *wire, float scale, size_t count);
    /* Powers of two, up or down at random: see natural.c. */
    void (*to_powers)(uint8_t *wire, const float *values, const uint32_t *random, size_t count);
    void (*from_powers)(float *target, const uint8_t *wire, float factor, size_t count);
    /* Sign bits, eight a byte, the first lowest; the last byte is filled with zeros. */
    void (*to_signs)(uint8_t *bits, const float *values, size_t count);
    /* target[i] = pair[bit i] */
    void (*from_signs)(float *target, const uint8_t *bits, const float pair[2], size_t count);
    /* Philox words of counters (first / 4 + k, tensor, occurrence, 0), four each; `first` is a
     * multiple of four. `random` has room for `count` rounded up to a multiple of four. */
    void (*draw)(uint32_t *random, uint64_t seed, uint64_t first, const uint32_t stream[2],
                 size_t count);
} tt_codec_kernel;

extern const tt_codec_kernel tt_codec_kernel_plain;
extern const tt_codec_kernel tt_codec_kernel_avx2;   /* x86-64 only */
extern const tt_codec_kernel tt_codec_kernel_avx512; /* x86-64 only */

/* The index-th table this processor can run, best first, or NULL past the end. */
const tt_codec_kernel *tt_codec_kernel_at(size_t index);

#endif
