/* SPDX-License-Identifier: Apache-2.0
 *
 * integer.c - int8 and int4: multiples of a block's largest magnitude / 127 or / 7, to nearest
 * (Dettmers 2016; blocks as in ZeRO++, Wang et al. 2023); and qsgd, the same rounded at random
 * (Alistarh et al. 2017, scaled by the largest magnitude as their implementation does).
 *
 * The error of an element is at most half a step, largest / 254 or / 14; of qsgd a whole one. */
#include <string.h>

#include "base/assert.h"
#include "codec/registry.h"

enum { HEAD_BYTES = sizeof(float), BLOCK = 512 };

static size_t packed_bytes(const tt_codec_spec *spec, size_t count)
{
    return spec->bits == 8 ? count : (count + 1) / 2;
}

/* Steps from zero to the largest. */
static float levels_of(const tt_codec_spec *spec)
{
    return spec->bits == 8 ? 127.0f : 7.0f;
}

/* Steps of the block per unit; 0: all of it is zero, and written. */
static float begin(const tt_block *block, uint8_t *wire)
{
    const float levels = levels_of(block->spec);
    const float largest = block->largest;
    if (largest < TT_BLOCK_LEAST) {
        memset(wire, 0, HEAD_BYTES + packed_bytes(block->spec, block->count));
        return 0.0f;
    }
    tt_block_set_head(wire, 0, largest / levels * block->shrink);
    return levels / largest;
}

static void pack(const tt_block *block, const uint8_t *codes, uint8_t *wire)
{
    TT_DEBUG_ASSERT(block->spec->bits == 4);
    block->kernel->pack_int4(wire + HEAD_BYTES, codes, block->count);
}

static void nearest_encode(const tt_block *block, uint8_t *wire)
{
    uint8_t codes[TT_CODEC_BLOCK_MAX];
    const float inverse = begin(block, wire);
    if (inverse == 0.0f) {
        return;
    }
    const bool is_packed = block->spec->bits == 4;
    uint8_t *target = is_packed ? codes : wire + HEAD_BYTES;
    block->kernel->to_int8(target, block->values, inverse, block->count);
    if (is_packed) {
        pack(block, codes, wire);
    }
}

static void random_encode(const tt_block *block, uint8_t *wire)
{
    uint32_t random[TT_CODEC_BLOCK_MAX];
    uint8_t codes[TT_CODEC_BLOCK_MAX];
    const float inverse = begin(block, wire);
    if (inverse == 0.0f) {
        return;
    }
    const uint32_t stream[2] = {block->draw->tensor, block->draw->occurrence};
    block->kernel->draw(random, block->draw->seed, block->first, stream, block->count);
    const bool is_packed = block->spec->bits == 4;
    uint8_t *target = is_packed ? codes : wire + HEAD_BYTES;
    block->kernel->to_int8_random(target, block->values, inverse, random, block->count);
    if (is_packed) {
        pack(block, codes, wire);
    }
}

static void integer_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                           const uint8_t *wire, float *target, size_t count)
{
    const float scale = tt_block_head(wire, 0);
    if (spec->bits == 8) {
        kernel->from_int8(target, wire + HEAD_BYTES, scale, count);
        return;
    }
    uint8_t codes[TT_CODEC_BLOCK_MAX];
    kernel->unpack_int4(codes, wire + HEAD_BYTES, count);
    kernel->from_int8(target, codes, scale, count);
}

/* An element between two steps has a variance of at most step^2 / 4, and step = largest / levels;
 * the largest is a part of |x|, and has no error itself. */
static double random_omega(const tt_codec_spec *spec)
{
    const double levels = (double)levels_of(spec);
    return (double)spec->block / (4.0 * levels * levels);
}

const tt_codec tt_codec_int8 = {
    .name = "int8",
    .summary = "8-bit integers, a scale per block",
    .traits = TT_CODEC_CONTRACTION,
    .block = BLOCK,
    .bits = 8,
    .bits_min = 8,
    .bits_max = 8,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = packed_bytes,
    .encode = nearest_encode,
    .decode = integer_decode,
};

const tt_codec tt_codec_int4 = {
    .name = "int4",
    .summary = "4-bit integers, a scale per block",
    .traits = TT_CODEC_CONTRACTION,
    .block = 128,
    .bits = 4,
    .bits_min = 4,
    .bits_max = 4,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = packed_bytes,
    .encode = nearest_encode,
    .decode = integer_decode,
};

const tt_codec tt_codec_qsgd = {
    .name = "qsgd",
    .summary = "4- or 8-bit integers rounded at random: right on average, a scale per block",
    .traits = TT_CODEC_UNBIASED | TT_CODEC_CONTRACTION,
    .block = BLOCK,
    .bits = 8,
    .bits_min = 4,
    .bits_max = 8,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = packed_bytes,
    .encode = random_encode,
    .decode = integer_decode,
    .omega = random_omega,
};
