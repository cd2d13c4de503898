/* SPDX-License-Identifier: Apache-2.0
 *
 * sign.c - one bit an element: sign with a block's mean magnitude (Bernstein et al. 2018,
 * Karimireddy et al. 2019), and onebit with the means of its two halves (Seide et al. 2014).
 *
 * The scale of sign is |x|_1 / n, which is what makes it a contraction on any block: |x|_2 /
 * sqrt(n) is none where few elements are large. */
#include <string.h>

#include "codec/registry.h"

enum { SIGN_HEAD_BYTES = sizeof(float), ONEBIT_HEAD_BYTES = 2 * sizeof(float), BLOCK = 512 };

static size_t sign_bytes(const tt_codec_spec *spec, size_t count)
{
    (void)spec;
    return (count + 7) / 8;
}

static void sign_encode(const tt_block *block, uint8_t *wire)
{
    const float sum = block->kernel->magnitude_sum(block->values, block->count);
    tt_block_set_head(wire, 0, sum / (float)block->count);
    block->kernel->to_signs(wire + SIGN_HEAD_BYTES, block->values, block->count);
}

static void sign_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                        const uint8_t *wire, float *target, size_t count)
{
    (void)spec;
    const float scale = tt_block_head(wire, 0);
    const float pair[2] = {scale, -scale};
    kernel->from_signs(target, wire + SIGN_HEAD_BYTES, pair, count);
}

const tt_codec tt_codec_sign = {
    .name = "sign",
    .summary = "signs, and the mean magnitude of a block",
    .traits = TT_CODEC_CONTRACTION,
    .block = BLOCK,
    .has_block = true,
    .head_bytes = SIGN_HEAD_BYTES,
    .bytes = sign_bytes,
    .encode = sign_encode,
    .decode = sign_decode,
};

/* Heads: the mean of what has no sign bit, then the mean of what has one. */
static void onebit_encode(const tt_block *block, uint8_t *wire)
{
    float sums[2];
    size_t negative_count;
    block->kernel->sums_by_sign(block->values, block->count, sums, &negative_count);
    const size_t other_count = block->count - negative_count;
    tt_block_set_head(wire, 0, other_count > 0 ? sums[0] / (float)other_count : 0.0f);
    tt_block_set_head(wire, 1, negative_count > 0 ? sums[1] / (float)negative_count : 0.0f);
    block->kernel->to_signs(wire + ONEBIT_HEAD_BYTES, block->values, block->count);
}

static void onebit_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                          const uint8_t *wire, float *target, size_t count)
{
    (void)spec;
    const float pair[2] = {tt_block_head(wire, 0), tt_block_head(wire, 1)};
    kernel->from_signs(target, wire + ONEBIT_HEAD_BYTES, pair, count);
}

const tt_codec tt_codec_onebit = {
    .name = "onebit",
    .summary = "signs, and the mean of a block's positive and of its negative values",
    .traits = TT_CODEC_CONTRACTION,
    .block = BLOCK,
    .has_block = true,
    .head_bytes = ONEBIT_HEAD_BYTES,
    .bytes = sign_bytes,
    .encode = onebit_encode,
    .decode = onebit_decode,
};
