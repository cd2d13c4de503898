/* SPDX-License-Identifier: Apache-2.0
 *
 * spec.h - a codec with its options, as calls and rules keep it.
 *
 * Layer:   codec.
 * Threads: const.
 * Memory:  none.
 */
#ifndef TUTTI_CODEC_SPEC_H
#define TUTTI_CODEC_SPEC_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_codec tt_codec;

typedef struct tt_codec_spec {
    const tt_codec *codec;
    uint32_t block;     /* elements that share a head, and are coded together */
    uint32_t bits;      /* of one element, where that can be chosen */
    bool has_feedback;  /* keeps a residual */
    bool is_tracked;    /* EF21: keeps estimates in its place; implies has_feedback */
    bool is_everywhere; /* also between ranks of one host; else between hosts only */
} tt_codec_spec;

#endif
