/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.h - gradients in fewer bytes: codecs, their options, and how values become bytes.
 *
 * A codec is selected by a text, "int8:block=512". It turns values of a tensor into wire bytes,
 * block by block, and back. The codecs here are local: the wire bytes follow from the number of
 * elements alone, and blocks are coded independently of each other. So a tensor can be cut at any
 * multiple of the block, and its pieces coded by different threads at different times.
 *
 * What a codec promises (codec_test.c checks each of them over all that are registered):
 *  (1) Encoding and decoding give the same bits on every instruction set and architecture.
 *  (2) Wire bytes are tt_codec_wire_bytes(spec, count), whatever the values are.
 *  (3) UNBIASED: the mean of what is decoded is the value, for any value. CONTRACTION: the squared
 *      error of a block is below the square of the block itself (for UNBIASED ones: of what is
 *      decoded, divided by 1 + omega; for fp16: of magnitudes from 2^-14 on).
 *  (4) A block that has a NaN or an infinity is decoded as NaN in all of its elements (casts: in
 *      those elements alone) and keeps its old residual; other blocks are not affected.
 *  (5) A block of zeros is decoded as zeros. So may be a block whose magnitudes are all below
 *      2^-100 (natural: 2^-94). An empty tensor has no wire bytes.
 *
 * Error feedback (Seide et al. 2014, Karimireddy et al. 2019): the coding error is kept in a
 * residual and added to the next gradient, so that sent + residual = all gradients so far. The
 * caller owns the residual and passes separate pointers for the old and the new one: after a failed
 * call it keeps the old one. An UNBIASED codec under error feedback divides by 1 + omega; without
 * that the residual diverges.
 *
 * EF21 (Richtarik et al. 2021), ef=21: sender and receiver keep an estimate of the sender's vector,
 * and each message is what it lacks. The sender passes the negated estimate as its residual, and
 * tt_codec_decode_known moves both estimates by what was decoded. The error of an estimate shrinks
 * with each message while the vector stays as it is; with a residual it does not.
 *
 * A SUMMABLE codec can do without owners that decode and add. All ranks use the same scale for a
 * block, the largest that any of them needs; then their levels, one byte an element, are added as
 * they are, by any algorithm that sums bytes:
 *
 *   tt_codec_scales     of each block; all-reduce MAX over ranks, f32
 *   tt_codec_levels     whole numbers in units of the shared scale; all-reduce SUM, i8
 *   tt_codec_decode_sums
 *
 *  (6) Levels are so small that no sum of TT_CODEC_RANKS_MAX ranks leaves the range of a byte.
 *  (7) The promises above hold with shared scales, but for these: the error of a CONTRACTION may be
 *      as large as the block where another rank's values are far larger; a block that is not finite
 *      on one rank is NaN on all, and all of its elements count as not coded on each.
 * Encoded by the functions of other codecs, such a codec has the bytes of a rank that sums alone.
 *
 * Which tensor gets which codec is up to rules (rules.h).
 *
 * Layer:   codec; a leaf, pure.
 * Threads: pure; parts of one tensor may be coded by several threads at once.
 * Memory:  at most TT_CODEC_STACK_BYTES of stack.
 */
#ifndef TUTTI_CODEC_CODEC_H
#define TUTTI_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "codec/rules.h"
#include "codec/spec.h"
#include "kernel/dtype.h"

enum {
    TT_CODEC_UNBIASED = 1,    /* draws random numbers */
    TT_CODEC_CONTRACTION = 2, /* may be used with error feedback */
    TT_CODEC_CAST = 4,        /* another float type: no error feedback unless requested */
    TT_CODEC_SUMMABLE = 8,    /* codes can be added as they are, once ranks share scales */
};

enum {
    TT_CODEC_BLOCK_MIN = 16,
    TT_CODEC_BLOCK_MAX = 4096,
    TT_CODEC_STACK_BYTES = 64 * 1024,
    TT_CODEC_TEXT_BYTES = 64, /* of a codec as text, its zero included */
    TT_CODEC_RANKS_MAX = 127, /* whose levels a byte can hold the sum of */
};

/* Random numbers depend on this and on the element: the same on one rank for one occurrence of a
 * tensor, so that a run can be repeated. Ranks should differ in `seed`. */
typedef struct tt_codec_draw {
    uint64_t seed;
    uint32_t tensor, occurrence;
} tt_codec_draw;

/* A part of a tensor to encode: elements [first, first + count) of a tensor; `first` is a multiple
 * of the block. All pointers are to the first of them. */
typedef struct tt_codec_source {
    const void *values;
    tt_dtype dtype; /* F32, F16 or BF16 */
    float factor;   /* values are multiplied by it */
    uint64_t first;
    size_t count;
    const float *residual; /* NULL: none */
    float *residual_out;   /* may be `residual`; NULL: it is not wanted */
    tt_codec_draw draw;
} tt_codec_source;

/* Where decoded values go. */
typedef struct tt_codec_target {
    void *values;
    tt_dtype dtype; /* F32, F16 or BF16 */
    float factor;   /* they are multiplied by it */
    size_t count;
} tt_codec_target;

/* The codec that `text` asks for: NAME[:KEY=VALUE[,KEY=VALUE...]]. BAD_ARGUMENT: `why` says what is
 * wrong with it, and what could have been meant. */
tt_status tt_codec_parse(const char *text, tt_codec_spec *spec_out, tt_text *why);

/* The text of a spec, every option spelt out: equal specs have equal texts. */
void tt_codec_print(const tt_codec_spec *spec, char text_out[TT_CODEC_TEXT_BYTES]);

/* A spec as a number below 2^24, not 0, which ranks of one version send each other; and back.
 * False: no spec has this number. */
uint32_t tt_codec_pack(const tt_codec_spec *spec);
bool tt_codec_unpack(uint32_t number, tt_codec_spec *spec_out);

const char *tt_codec_name(const tt_codec_spec *spec);
uint32_t tt_codec_traits(const tt_codec_spec *spec);

/* Bound of E |C(x) - x|^2 / |x|^2 of an UNBIASED codec, for any block; else 0. */
double tt_codec_omega(const tt_codec_spec *spec);

uint64_t tt_codec_wire_bytes(const tt_codec_spec *spec, uint64_t count);

/* Wire bytes of the source, and its new residual. Returns how many of its elements could not be
 * coded: NaN, infinite, or in a block whose sum is. */
uint64_t tt_codec_encode(const tt_codec_spec *spec, const tt_codec_source *source, uint8_t *wire);

/* target[i] = element i of the source as encoding gets it: multiplied, its residual added. */
void tt_codec_load(const tt_codec_source *source, float *target);

/* values[i] of the target = source[i], multiplied and rounded. */
void tt_codec_store(const float *source, const tt_codec_target *target);

/* Are these bytes what encoding `count` elements could have given? BAD_WIRE: they are not. Nothing
 * that is decoded unchecked reads or writes beyond its bounds, but it may give any values. */
tt_status tt_codec_check(const tt_codec_spec *spec, const uint8_t *wire, size_t wire_bytes,
                         uint64_t count);

/* target[i] += what element i was decoded to. */
void tt_codec_decode_add(const tt_codec_spec *spec, const uint8_t *wire, float *target,
                         size_t count);

/* values[i] of the target = what element i was decoded to, multiplied and rounded. */
void tt_codec_decode(const tt_codec_spec *spec, const uint8_t *wire, const tt_codec_target *target);

/* known[i] -= what element i was decoded to, where that is finite: `known` is the negated estimate
 * of a vector, or the sum of several. lost[i] becomes NaN elsewhere; NULL: it is not wanted. */
void tt_codec_decode_known(const tt_codec_spec *spec, const uint8_t *wire, float *known,
                           float *lost, size_t count);

/* ---- SUMMABLE codecs ---- */

/* The shared scales of some blocks: of peers, so they may be anything. */
typedef struct tt_codec_shared {
    const float *scales;
    uint32_t ranks; /* that add their levels: 1 to TT_CODEC_RANKS_MAX */
} tt_codec_shared;

/* Blocks that `count` elements have, each with one scale. */
uint64_t tt_codec_block_count(const tt_codec_spec *spec, uint64_t count);

/* scales[i] = what block i of the source needs; not finite: it cannot be coded. */
void tt_codec_scales(const tt_codec_spec *spec, const tt_codec_source *source, float *scales);

/* One level an element, an i8; and the new residual of this rank. Returns how many elements could
 * not be coded: those of blocks whose shared scale is not finite, or less than their own. Their
 * levels are 0. */
uint64_t tt_codec_levels(const tt_codec_spec *spec, const tt_codec_source *source,
                         const tt_codec_shared *shared, uint8_t *levels);

/* values[i] of the target = the sum that the ranks' levels stand for, multiplied and rounded; NaN
 * where the scale is not finite. */
void tt_codec_decode_sums(const tt_codec_spec *spec, const uint8_t *sums,
                          const tt_codec_shared *shared, const tt_codec_target *target);

#endif
