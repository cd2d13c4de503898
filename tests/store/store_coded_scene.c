/* SPDX-License-Identifier: Apache-2.0
 *
 * store_coded_scene.c - codecs of scenes; see store_run.h.
 *
 * Under bulk the oracle codes whole tensors as workers and owners code parts, so bits are compared.
 * Else values are counters of floats: element i counts the pushes of worker i mod workers. fp16
 * codes them without an error, so what is read off are pushes, also of those whose push did not
 * count and was kept for the next one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "codec/codec.h"
#include "kernel/hash64.h"
#include "store/store_run.h"
#include "sync/store_coded.h"

void coded_draw(scene *drawn)
{
    static const char *const codecs[] = {"int8", "int8:ef=off",   "int4:block=64",
                                         "sign", "bf16",          "e4m3",
                                         "qsgd", "natural:ef=on", "onebit:block=4096"};
    static const uint64_t counts[] = {16384, 16385, 20000, 70001, 150000};
    tt_random random;
    tt_text why = {0};
    tt_random_init(&random, drawn->seed, 177);
    if (tt_random_below(&random, 3) != 0) {
        return;
    }
    drawn->codec_text = drawn->has_counters
                            ? "fp16:ef=on"
                            : codecs[tt_random_below(&random, TT_ARRAY_COUNT(codecs))];
    const tt_status status = tt_codec_parse(drawn->codec_text, &drawn->codec, &why);
    TT_ASSERT(status == TT_OK);
    drawn->dtype = TT_F32;
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        drawn->counts[i] = counts[tt_random_below(&random, TT_ARRAY_COUNT(counts))];
    }
}

bool coded_applies(const scene *drawn, uint32_t tensor)
{
    return drawn->codec_text != NULL && drawn->row_elements[tensor] == 0 &&
           drawn->counts[tensor] > CODED_PLAIN_BYTES / 4;
}

tt_split coded_split(const scene *drawn, uint32_t tensor)
{
    tt_split split = tt_split_make(drawn->workers, drawn->servers);
    if (coded_applies(drawn, tensor)) {
        split.grain = (uint32_t)tt_max_u64(split.grain, drawn->codec.block * sizeof(float));
    }
    if (drawn->row_elements[tensor] > 0) {
        split.grain = (uint32_t)(drawn->row_elements[tensor] * tt_dtype_bytes(drawn->dtype));
    }
    return split;
}

void coded_pass(const scene *drawn, uint32_t tensor, coded_sender sender, float *values)
{
    if (!coded_applies(drawn, tensor)) {
        return;
    }
    char name[16];
    (void)snprintf(name, sizeof(name), "t%u", tensor);
    const uint64_t count = drawn->counts[tensor];
    uint8_t *wire = malloc(tt_codec_wire_bytes(&drawn->codec, count));
    float *residual = drawn->codec.has_feedback ? sender.residual : NULL;
    const tt_codec_source source = {
        .values = values,
        .dtype = TT_F32,
        .factor = 1.0f,
        .count = count,
        .residual = residual,
        .residual_out = residual,
        .draw = {.seed = tt_hash64_mix(sender.who, SCENE_EPOCH),
                 .tensor = (uint32_t)tt_hash64_mix(tt_hash64(name, strlen(name), 0), 0),
                 .occurrence = sender.occurrence}};
    const tt_codec_target target = {
        .values = values, .dtype = TT_F32, .factor = 1.0f, .count = count};
    (void)tt_codec_encode(&drawn->codec, &source, wire);
    tt_codec_decode(&drawn->codec, wire, &target);
    free(wire);
}

/* The first element of a part that counts this worker's pushes. */
static uint64_t first_of(const scene *drawn, const tt_split_part *part, uint32_t rank)
{
    const uint64_t first = part->first / sizeof(float);
    return (rank + drawn->workers - first % drawn->workers) % drawn->workers;
}

bool coded_has_counter(const scene *drawn, const tt_split_part *part, uint32_t rank)
{
    return drawn->codec_text == NULL || first_of(drawn, part, rank) < part->bytes / sizeof(float);
}

bool coded_counters(const scene *drawn, const tt_split_part *part, const float *values,
                    int64_t *counters_out)
{
    const uint64_t count = part->bytes / sizeof(float);
    int64_t counters = 0;
    bool is_whole = true;
    for (uint32_t rank = 0; rank < drawn->workers; rank++) {
        const uint64_t begin = first_of(drawn, part, rank);
        for (uint64_t i = begin; i < count; i += drawn->workers) {
            is_whole = is_whole && values[i] == values[begin];
        }
        const int64_t one = begin < count ? (int64_t)values[begin] : 0;
        counters |= one << (COUNTER_BITS * rank);
    }
    *counters_out = counters;
    return is_whole;
}
