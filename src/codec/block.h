/* SPDX-License-Identifier: Apache-2.0
 *
 * block.h - what a codec is made of: one block of values to bytes and back.
 *
 * codec.c cuts tensors into blocks, scales, adds and renews residuals, and deals with values that
 * are not finite. A codec sees finite f32 values of one block only.
 *
 * A block on the wire is its head, then its elements packed. The head of most codecs is a scale, an
 * f32 in the byte order of the host (little-endian everywhere Tutti runs): 0 means that all
 * elements are zero, NaN that they are all NaN.
 *
 * Layer:   codec, private.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_CODEC_BLOCK_H
#define TUTTI_CODEC_BLOCK_H

#include "codec/codec.h"
#include "codec/kernel.h"

/* Finite values of one block. */
typedef struct tt_block {
    const tt_codec_spec *spec;
    const tt_codec_kernel *kernel;
    const float *values;
    size_t count;  /* 1 to spec->block */
    float largest; /* of their magnitudes; not finite: of a codec without heads */
    uint64_t first;
    const tt_codec_draw *draw;
    float shrink; /* what is decoded is multiplied by this: 1, or 1 / (1 + omega) */
} tt_block;

/* What a SUMMABLE codec has beside: levels in units of a scale that ranks share. A codec sees
 * finite values, and a scale that is no less than their own and no less than TT_BLOCK_LEAST. */
typedef struct tt_summed {
    bool is_divided; /* ranks divide the 127 steps of a byte; else the scale is one step */
    bool is_vote;    /* only the sign of a sum counts, with the weight of all ranks */
    float (*scale)(const tt_codec_kernel *kernel, const float *values, size_t count);
    void (*levels)(const tt_block *block, float scale, uint32_t steps, uint8_t *levels);
    /* target[i] = what a sum of levels stands for, if one level is `step`. */
    void (*decode)(const tt_codec_kernel *kernel, const uint8_t *sums, float step, float *target,
                   size_t count);
} tt_summed;

/* One codec. */
struct tt_codec {
    const char *name;
    const char *summary; /* for people, one line */
    uint32_t traits;
    uint32_t block, bits; /* when nothing is said */
    uint32_t bits_min, bits_max;
    bool has_block;      /* the block can be chosen */
    uint32_t head_bytes; /* heads of f32; NaN in the first: the block is all NaN */

    size_t (*bytes)(const tt_codec_spec *spec, size_t count); /* of a block, without its head */
    void (*encode)(const tt_block *block, uint8_t *wire);
    void (*decode)(const tt_codec_spec *spec, const tt_codec_kernel *kernel, const uint8_t *wire,
                   float *target, size_t count);
    double (*omega)(const tt_codec_spec *spec); /* NULL: it is not UNBIASED */
    const tt_summed *summed;                    /* NULL: it is not SUMMABLE */
};

/* A block without a larger magnitude counts as zero where it is scaled: the scale itself would
 * lose bits. */
#define TT_BLOCK_LEAST 0x1p-100f

/* Heads, which need no alignment. */
float tt_block_head(const uint8_t *wire, size_t index);
void tt_block_set_head(uint8_t *wire, size_t index, float value);

/* The block of `source` that begins `at` elements behind its first. */
tt_codec_source tt_block_of(const tt_codec_spec *spec, const tt_codec_source *source, size_t at);

/* The values of a block as encoding gets them: the source itself, if it needs no change, else a
 * copy in `room`. */
const float *tt_block_values(const tt_codec_kernel *kernel, const tt_codec_source *part,
                             float *room);

/* The block was not coded: its new residual is the old one. */
void tt_block_keep_residual(const tt_codec_source *part);

#endif
