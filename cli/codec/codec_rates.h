/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_rates.h - how long one thread takes to encode f32 values, to decode and add them, and to
 * copy as many: for `tutti codec --bench` and bench/codec/.
 *
 * Layer:   cli.
 * Threads: one at a time per room.
 * Memory:  a room, five times the values.
 */
#ifndef TUTTI_CLI_CODEC_CODEC_RATES_H
#define TUTTI_CLI_CODEC_CODEC_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/codec.h"

enum {
    TT_RATES_GRAIN = 1024,     /* a room's number of values is a multiple of this */
    TT_RATES_MEMORY_TIMES = 5, /* bytes of a room over those of its values */
};

/* What is coded, and where it goes. All pages are touched. */
typedef struct tt_rates_room {
    size_t count;
    float *values, *target, *residual;
    uint8_t *wire;
} tt_rates_room;

/* The same values in every run. False: out of memory. Give it back in both cases. */
bool tt_rates_room_take(tt_rates_room *room, size_t count);
void tt_rates_room_give(tt_rates_room *room);

/* Seconds of one pass. Adding decodes what was encoded last, by the same spec. */
double tt_rates_copy_s(const tt_rates_room *room);
double tt_rates_encode_s(const tt_codec_spec *spec, const tt_rates_room *room);
double tt_rates_add_s(const tt_codec_spec *spec, const tt_rates_room *room);

#endif
