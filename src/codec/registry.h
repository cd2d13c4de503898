/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.h - every codec Tutti has. To add one: write codec/<name>.c, declare its table here,
 * list it in registry.c. Nothing else changes.
 *
 * Layer:   codec.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_CODEC_REGISTRY_H
#define TUTTI_CODEC_REGISTRY_H

#include "codec/block.h"

extern const tt_codec tt_codec_none;
extern const tt_codec tt_codec_fp16;
extern const tt_codec tt_codec_bf16;
extern const tt_codec tt_codec_fp8_e4m3;
extern const tt_codec tt_codec_fp8_e5m2;
extern const tt_codec tt_codec_int8;
extern const tt_codec tt_codec_int4;
extern const tt_codec tt_codec_qsgd;
extern const tt_codec tt_codec_natural;
extern const tt_codec tt_codec_sign;
extern const tt_codec tt_codec_onebit;
extern const tt_codec tt_codec_int8sum;
extern const tt_codec tt_codec_terngrad;
extern const tt_codec tt_codec_majority;

/* The codec called `name`, or NULL. */
const tt_codec *tt_codec_find(const char *name);

/* The index-th codec, or NULL at the end. */
const tt_codec *tt_codec_at(size_t index);

#endif
