/* SPDX-License-Identifier: Apache-2.0
 *
 * store_coded.c - see store_coded.h. */
#include "sync/store_coded.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "codec/codec.h"
#include "kernel/hash64.h"

enum {
    GRAIN = 64,
    RUN = TT_CODEC_BLOCK_MAX, /* elements that are summed at once: whole blocks of any codec */
    STEP_BYTES = 128 * 1024,  /* decoded in one step: about 50 us */
    RUN_BYTES = RUN * sizeof(float),
};

/* ---- both sides ---- */

tt_status tt_coded_parse(const char *text, tt_codec_spec *spec_out, tt_text *why)
{
    tt_codec_spec spec;
    *spec_out = (tt_codec_spec){.codec = NULL};
    if (text == NULL) {
        return TT_OK;
    }
    TT_TRY(tt_codec_parse(text, &spec, why));
    if ((tt_codec_traits(&spec) & TT_CODEC_SUMMABLE) != 0) {
        tt_text_add(why,
                    "codec %s needs scales that all ranks agree on first, and workers of a store "
                    "do not wait for each other; use int8, int4 or sign",
                    tt_codec_name(&spec));
        return TT_ERR_UNSUPPORTED;
    }
    if (spec.is_tracked) {
        tt_text_add(why,
                    "codec %s: ef=21 needs estimates at both ends of every push, which a store "
                    "does not keep; use ef=on",
                    tt_codec_name(&spec));
        return TT_ERR_UNSUPPORTED;
    }
    if (strcmp(tt_codec_name(&spec), "none") != 0) {
        *spec_out = spec;
    }
    return TT_OK;
}

bool tt_coded_applies(const tt_codec_spec *spec, const tt_sync_claim *claim)
{
    return spec->codec != NULL && claim->dtype == TT_F32 && claim->row_elements == 0 &&
           claim->count > CODED_PLAIN_BYTES / sizeof(float);
}

tt_split tt_coded_split(const tt_split *whole, const tt_codec_spec *spec, bool is_coded)
{
    tt_split split = *whole;
    if (is_coded) {
        split.grain = (uint32_t)tt_max_u64(split.grain, spec->block * sizeof(float));
    }
    return split;
}

/* `who`: the worker, or UINT32_MAX for owners, which must not differ. */
static tt_codec_draw draw_of(const tt_sync *sync, uint32_t who, uint64_t key, uint32_t store)
{
    return (tt_codec_draw){.seed = tt_hash64_mix(who, sync->roles.epoch),
                           .tensor = (uint32_t)tt_hash64_mix(key, store)};
}

/* ---- a worker ---- */

bool tt_coded_has_answers(const tt_worker_key *key)
{
    return key->is_coded && key->store->update.update->is_sum;
}

static uint64_t element_count(const tt_worker_part *part)
{
    return part->place.bytes / sizeof(float);
}

tt_status tt_coded_key_make(tt_sync *sync, tt_worker_key *key)
{
    const tt_codec_spec *spec = &key->store->codec;
    const size_t copies = tt_coded_has_answers(key) ? 2 : 1;
    const size_t residual_bytes =
        spec->has_feedback ? tt_round_up(key->count * sizeof(float), GRAIN) : 0;
    size_t bytes = residual_bytes;
    for (uint32_t i = 0; i < key->part_count; i++) {
        tt_worker_part *part = &key->parts[i];
        part->wire_bytes = tt_codec_wire_bytes(spec, element_count(part));
        bytes += copies * tt_round_up(part->wire_bytes, GRAIN);
    }
    key->coded_memory = tt_platform_allocate(sync->platform, bytes);
    if (key->coded_memory == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    key->coded_bytes = bytes;
    key->residual = spec->has_feedback ? (float *)(void *)key->coded_memory : NULL;
    uint8_t *at = key->coded_memory + residual_bytes;
    for (uint32_t i = 0; i < key->part_count; i++) {
        tt_worker_part *part = &key->parts[i];
        const size_t each = tt_round_up(part->wire_bytes, GRAIN);
        part->wire = at;
        part->answer = copies > 1 ? at + each : NULL;
        at += copies * each;
    }
    return TT_OK;
}

void tt_coded_key_release(tt_sync *sync, tt_worker_key *key)
{
    tt_coded_key_unqueue(sync, key);
    tt_platform_release(sync->platform, key->coded_memory, key->coded_bytes);
    key->coded_memory = NULL;
}

void tt_coded_key_queue(tt_sync *sync, tt_worker_key *key)
{
    tt_worker_key **link = &sync->encoding;
    const int32_t urgency = key->queue.first->urgency;
    TT_ASSERT(!key->is_encoding);
    while (*link != NULL && (*link)->queue.first->urgency >= urgency) {
        link = &(*link)->next_encoding;
    }
    key->encoded = 0;
    key->is_encoding = true;
    key->next_encoding = *link;
    *link = key;
}

void tt_coded_key_unqueue(tt_sync *sync, tt_worker_key *key)
{
    tt_worker_key **link = &sync->encoding;
    if (!key->is_encoding) {
        return;
    }
    while (*link != key) {
        TT_ASSERT(*link != NULL);
        link = &(*link)->next_encoding;
    }
    *link = key->next_encoding;
    key->is_encoding = false;
}

void tt_coded_encode(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    const tt_worker_part *part = &key->parts[number];
    const uint64_t first = part->place.first / sizeof(float);
    tt_codec_source source = {
        .values = (const uint8_t *)key->queue.first->input + part->place.first,
        .dtype = TT_F32,
        .factor = 1.0f,
        .first = first,
        .count = element_count(part),
        .residual = key->residual != NULL ? key->residual + first : NULL,
        .residual_out = key->residual != NULL ? key->residual + first : NULL,
        .draw = draw_of(sync, sync->roles.rank, key->id, key->store->id),
    };
    source.draw.occurrence = (uint32_t)part->pushes;
    (void)tt_codec_encode(&key->store->codec, &source, part->wire);
    sync->platform->ops->spend(sync->platform, TT_SPEND_CODE, part->place.bytes, 1);
}

/* Blocks that were not finite were not taken from the residual. */
void tt_coded_put_back(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    const tt_worker_part *part = &key->parts[number];
    const tt_codec_spec *spec = &key->store->codec;
    float values[RUN];
    if (key->residual == NULL || TT_PLANT(UNCOUNTED_PUSH_LOST)) {
        return;
    }
    float *residual = key->residual + part->place.first / sizeof(float);
    for (uint64_t at = 0; at < element_count(part); at += RUN) {
        const tt_codec_target target = {.values = values,
                                        .dtype = TT_F32,
                                        .factor = 1.0f,
                                        .count = tt_min_u64(RUN, element_count(part) - at)};
        tt_codec_decode(spec, part->wire + tt_codec_wire_bytes(spec, at), &target);
        for (size_t i = 0; i < target.count; i++) {
            residual[at + i] += isfinite(values[i]) ? values[i] : 0.0f;
        }
    }
    sync->platform->ops->spend(sync->platform, TT_SPEND_CODE, part->place.bytes, 1);
}

tt_status tt_coded_decode(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    const tt_worker_part *part = &key->parts[number];
    const tt_codec_spec *spec = &key->store->codec;
    const tt_codec_target target = {.values =
                                        (uint8_t *)key->queue.first->output + part->place.first,
                                    .dtype = TT_F32,
                                    .factor = 1.0f,
                                    .count = element_count(part)};
    TT_TRY(tt_codec_check(spec, part->answer, part->wire_bytes, target.count));
    tt_codec_decode(spec, part->answer, &target);
    sync->platform->ops->spend(sync->platform, TT_SPEND_CODE, part->place.bytes, 1);
    return TT_OK;
}

/* ---- an owner ---- */

static bool codes_sums(const tt_owner_key *key)
{
    return key->is_coded && key->store->update.update->is_sum;
}

bool tt_coded_has_residual(const tt_owner_key *key)
{
    return codes_sums(key) && key->store->codec.has_feedback;
}

void tt_coded_sizes(const tt_owner_key *key, tt_owner_part *part)
{
    const uint64_t coded =
        key->is_coded ? tt_codec_wire_bytes(&key->store->codec, part->bytes / sizeof(float)) : 0;
    part->push_bytes = key->is_coded ? coded : part->bytes;
    part->answer_bytes = codes_sums(key) ? coded : part->bytes;
}

bool tt_coded_is_sound(const tt_owner_part *part, const uint8_t *wire)
{
    return !part->key->is_coded || tt_codec_check(&part->key->store->codec, wire, part->push_bytes,
                                                  part->bytes / sizeof(float)) == TT_OK;
}

/* Some elements of a part, as wide as RUN at most. */
typedef struct run {
    uint64_t at; /* of the part's */
    size_t count;
    size_t slot_bytes;
} run;

/* The sum of the value, where it is a source, and of what workers pushed, in their order. */
static void add_run(const tt_sync *sync, const tt_owner_part *part, const run *some, float *sum)
{
    const tt_owner_store *store = part->key->store;
    const tt_update *update = store->update.update;
    const uint64_t wire_at = tt_codec_wire_bytes(&store->codec, some->at);
    const tt_codec_target target = {
        .values = sum, .dtype = TT_F32, .factor = 1.0f, .count = some->count};
    bool is_first = update->is_sum || update->apply != NULL;
    if (!is_first) {
        memcpy(sum, part->values[part->current] + some->at * sizeof(float),
               some->count * sizeof(float));
    }
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        const uint8_t *wire = part->memory + i * some->slot_bytes + wire_at;
        if (part->slots[i].phase != TT_SLOT_SUMMED) {
            continue;
        }
        if (is_first) {
            tt_codec_decode(&store->codec, wire, &target);
        } else {
            tt_codec_decode_add(&store->codec, wire, sum, some->count);
        }
        is_first = false;
    }
}

static void encode_run(const tt_sync *sync, tt_owner_part *part, const run *some, const float *sum)
{
    const tt_owner_key *key = part->key;
    const tt_codec_spec *spec = &key->store->codec;
    float *residual = part->residual != NULL ? part->residual + some->at : NULL;
    tt_codec_source source = {
        .values = sum,
        .dtype = TT_F32,
        .factor = 1.0f,
        .first = part->first / sizeof(float) + some->at,
        .count = some->count,
        .residual = residual,
        .residual_out = residual,
        .draw = draw_of(sync, UINT32_MAX, key->id, key->store->id),
    };
    source.draw.occurrence = (uint32_t)part->step;
    (void)tt_codec_encode(spec, &source,
                          part->values[1 - part->current] + tt_codec_wire_bytes(spec, some->at));
}

uint64_t tt_coded_sum(tt_sync *sync, tt_owner_part *part, size_t slot_bytes)
{
    const bool has_coded_answer = codes_sums(part->key);
    const uint64_t sources = part->sum_sources + (has_coded_answer ? 2 : 1);
    const uint64_t piece = tt_round_up(STEP_BYTES / sources, RUN_BYTES);
    const uint64_t end = tt_min_u64(part->sum_at + piece, part->bytes);
    float room[RUN];
    for (uint64_t at = part->sum_at; at < end; at += RUN_BYTES) {
        const run some = {.at = at / sizeof(float),
                          .count = tt_min_u64(end - at, RUN_BYTES) / sizeof(float),
                          .slot_bytes = slot_bytes};
        uint8_t *next = part->values[1 - part->current] + at;
        float *sum = has_coded_answer ? room : (float *)(void *)next;
        add_run(sync, part, &some, sum);
        if (has_coded_answer) {
            encode_run(sync, part, &some, sum);
        }
    }
    sync->platform->ops->spend(sync->platform, TT_SPEND_CODE, (end - part->sum_at) * sources, 1);
    return end - part->sum_at;
}
