/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8.c - 8-bit floats with a scale per block (Micikevicius et al. 2022): e4m3 up to 448, e5m2 up
 * to 57344. The largest magnitude of a block becomes the largest of the format. */
#include <string.h>

#include "codec/registry.h"

enum { HEAD_BYTES = sizeof(float), BLOCK = 256 };

static const float e4m3_most = 448.0f, e5m2_most = 57344.0f;

static size_t fp8_bytes(const tt_codec_spec *spec, size_t count)
{
    (void)spec;
    return count;
}

/* Writes the head; the factor that maps the block into the format. 0: all of it is zero, and
 * written. */
static float fp8_begin(const tt_block *block, uint8_t *wire, float most)
{
    const float largest = block->largest;
    if (largest < TT_BLOCK_LEAST) {
        memset(wire, 0, HEAD_BYTES + block->count);
        return 0.0f;
    }
    tt_block_set_head(wire, 0, largest / most);
    return most / largest;
}

static void e4m3_encode(const tt_block *block, uint8_t *wire)
{
    const float inverse = fp8_begin(block, wire, e4m3_most);
    if (inverse > 0.0f) {
        block->kernel->to_e4m3(wire + HEAD_BYTES, block->values, inverse, block->count);
    }
}

static void e4m3_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                        const uint8_t *wire, float *target, size_t count)
{
    (void)spec;
    kernel->from_e4m3(target, wire + HEAD_BYTES, tt_block_head(wire, 0), count);
}

static void e5m2_encode(const tt_block *block, uint8_t *wire)
{
    const float inverse = fp8_begin(block, wire, e5m2_most);
    if (inverse > 0.0f) {
        block->kernel->to_e5m2(wire + HEAD_BYTES, block->values, inverse, block->count);
    }
}

static void e5m2_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                        const uint8_t *wire, float *target, size_t count)
{
    (void)spec;
    kernel->from_e5m2(target, wire + HEAD_BYTES, tt_block_head(wire, 0), count);
}

const tt_codec tt_codec_fp8_e4m3 = {
    .name = "e4m3",
    .summary = "8-bit floats with 3 bits of precision, a scale per block",
    .traits = TT_CODEC_CONTRACTION,
    .block = BLOCK,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = fp8_bytes,
    .encode = e4m3_encode,
    .decode = e4m3_decode,
};

const tt_codec tt_codec_fp8_e5m2 = {
    .name = "e5m2",
    .summary = "8-bit floats with 2 bits of precision and a wide range, a scale per block",
    .traits = TT_CODEC_CONTRACTION,
    .block = BLOCK,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = fp8_bytes,
    .encode = e5m2_encode,
    .decode = e5m2_decode,
};
