/* SPDX-License-Identifier: Apache-2.0
 *
 * natural.c - natural compression (Horvath et al. 2019): the nearest power of two below or above,
 * at random and right on average, with a variance of at most 1/8 of the square.
 *
 * Eight bits an element: the sign and the exponents -94 to 32. Smaller magnitudes become zero,
 * larger ones 2^32; gradients have neither, but such values are not right on average. The head is
 * the factor that error feedback asks for, 1 without it; NaN where the block is all NaN. */
#include "codec/registry.h"

enum { HEAD_BYTES = sizeof(float), BLOCK = 512 };

static size_t natural_bytes(const tt_codec_spec *spec, size_t count)
{
    (void)spec;
    return count;
}

static void natural_encode(const tt_block *block, uint8_t *wire)
{
    uint32_t random[TT_CODEC_BLOCK_MAX];
    const uint32_t stream[2] = {block->draw->tensor, block->draw->occurrence};
    block->kernel->draw(random, block->draw->seed, block->first, stream, block->count);
    tt_block_set_head(wire, 0, block->shrink);
    block->kernel->to_powers(wire + HEAD_BYTES, block->values, random, block->count);
}

static void natural_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                           const uint8_t *wire, float *target, size_t count)
{
    (void)spec;
    kernel->from_powers(target, wire + HEAD_BYTES, tt_block_head(wire, 0), count);
}

static double natural_omega(const tt_codec_spec *spec)
{
    (void)spec;
    return 0.125;
}

const tt_codec tt_codec_natural = {
    .name = "natural",
    .summary = "powers of two, rounded at random: right on average",
    .traits = TT_CODEC_UNBIASED | TT_CODEC_CONTRACTION,
    .block = BLOCK,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = natural_bytes,
    .encode = natural_encode,
    .decode = natural_decode,
    .omega = natural_omega,
};
