/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_rates.c - one pass each over a room. With error feedback encoding reads and writes the
 * residual, too. */
#include "cli/codec/codec_rates.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/philox.h"
#include "cli/stopwatch.h"

enum { PAGE_BYTES = 4096 };
_Static_assert(TT_RATES_GRAIN * sizeof(float) % PAGE_BYTES == 0, "aligned_alloc wants whole pages");

bool tt_rates_room_take(tt_rates_room *room, size_t count)
{
    TT_ASSERT(count > 0);
    TT_ASSERT(count % TT_RATES_GRAIN == 0);
    const size_t bytes = count * sizeof(float);
    *room = (tt_rates_room){.count = count,
                            .values = aligned_alloc(PAGE_BYTES, bytes),
                            .target = aligned_alloc(PAGE_BYTES, bytes),
                            .residual = aligned_alloc(PAGE_BYTES, bytes),
                            .wire = aligned_alloc(PAGE_BYTES, 2 * bytes)};
    if (room->values == NULL || room->target == NULL || room->residual == NULL ||
        room->wire == NULL) {
        return false;
    }
    tt_random random;
    tt_random_init(&random, 1, 1);
    for (size_t i = 0; i < count; i++) {
        room->values[i] = (float)(tt_random_real(&random) - 0.5);
    }
    memset(room->target, 0, bytes);
    memset(room->residual, 0, bytes);
    memset(room->wire, 0, 2 * bytes);
    return true;
}

void tt_rates_room_give(tt_rates_room *room)
{
    free(room->values);
    free(room->target);
    free(room->residual);
    free(room->wire);
    *room = (tt_rates_room){0};
}

double tt_rates_copy_s(const tt_rates_room *room)
{
    const double begin_s = tt_stopwatch_now_s();
    memcpy(room->target, room->values, room->count * sizeof(float));
    __asm__ volatile("" ::: "memory");
    return tt_stopwatch_now_s() - begin_s;
}

double tt_rates_encode_s(const tt_codec_spec *spec, const tt_rates_room *room)
{
    const tt_codec_source source = {.values = room->values,
                                    .dtype = TT_F32,
                                    .factor = 1.0f,
                                    .count = room->count,
                                    .residual = spec->has_feedback ? room->residual : NULL,
                                    .residual_out = spec->has_feedback ? room->residual : NULL};
    TT_ASSERT(tt_codec_wire_bytes(spec, room->count) <= 2 * room->count * sizeof(float));
    const double begin_s = tt_stopwatch_now_s();
    (void)tt_codec_encode(spec, &source, room->wire);
    return tt_stopwatch_now_s() - begin_s;
}

double tt_rates_add_s(const tt_codec_spec *spec, const tt_rates_room *room)
{
    const double begin_s = tt_stopwatch_now_s();
    tt_codec_decode_add(spec, room->wire, room->target, room->count);
    return tt_stopwatch_now_s() - begin_s;
}
