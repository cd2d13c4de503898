/* SPDX-License-Identifier: Apache-2.0
 *
 * cast.c - none, fp16, bf16: every element by itself, without a head.
 *
 * fp16 saturates at 65504, so that one large gradient does not become infinite on all ranks. NaN
 * and infinities of the sender arrive as NaN. */
#include <string.h>

#include "codec/registry.h"

enum { CAST_BLOCK = 512 };

/* The largest finite values. */
#define FP16_MOST 65504.0f
#define BF16_MOST 0x1.fep127f

static size_t words_bytes(const tt_codec_spec *spec, size_t count)
{
    (void)spec;
    return count * sizeof(float);
}

static void none_encode(const tt_block *block, uint8_t *wire)
{
    memcpy(wire, block->values, block->count * sizeof(float));
}

static void none_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                        const uint8_t *wire, float *target, size_t count)
{
    (void)spec;
    (void)kernel;
    memcpy(target, wire, count * sizeof(float));
}

const tt_codec tt_codec_none = {
    .name = "none",
    .summary = "32-bit floats as they are",
    .traits = TT_CODEC_CAST,
    .block = CAST_BLOCK,
    .bytes = words_bytes,
    .encode = none_encode,
    .decode = none_decode,
};

static size_t halves_bytes(const tt_codec_spec *spec, size_t count)
{
    (void)spec;
    return count * sizeof(uint16_t);
}

static void fp16_encode(const tt_block *block, uint8_t *wire)
{
    if (block->largest <= FP16_MOST) {
        block->kernel->to_f16_in_range(wire, block->values, block->count);
    } else {
        block->kernel->to_f16(wire, block->values, block->count);
    }
}

static void fp16_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                        const uint8_t *wire, float *target, size_t count)
{
    (void)spec;
    kernel->from_f16(target, wire, count);
}

const tt_codec tt_codec_fp16 = {
    .name = "fp16",
    .summary = "IEEE 16-bit floats, saturating at 65504",
    .traits = TT_CODEC_CONTRACTION | TT_CODEC_CAST,
    .block = CAST_BLOCK,
    .bytes = halves_bytes,
    .encode = fp16_encode,
    .decode = fp16_decode,
};

static void bf16_encode(const tt_block *block, uint8_t *wire)
{
    if (block->largest <= BF16_MOST) {
        block->kernel->to_bf16_in_range(wire, block->values, block->count);
    } else {
        block->kernel->to_bf16(wire, block->values, block->count);
    }
}

static void bf16_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                        const uint8_t *wire, float *target, size_t count)
{
    (void)spec;
    kernel->from_bf16(target, wire, count);
}

const tt_codec tt_codec_bf16 = {
    .name = "bf16",
    .summary = "bfloat16: the range of f32, 8 bits of precision",
    .traits = TT_CODEC_CONTRACTION | TT_CODEC_CAST,
    .block = CAST_BLOCK,
    .bytes = halves_bytes,
    .encode = bf16_encode,
    .decode = bf16_decode,
};
