/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds_kept.c - the state of a tutti_sync as bytes: save and load.
 *
 * Layout, in the order of bytes of the machine: a head, last_round [fragments], a record of each
 * flight, then of each tensor a record, its planes, and its room in each flight that is open; then
 * the hash of all of it. */
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "api/rounds/rounds.h"
#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"

enum { KEPT_VERSION = 1 };

typedef struct kept_head {
    char magic[8];
    uint32_t version, tensor_count;
    uint64_t bytes; /* of all */
    uint64_t step, rounds, exchanged_bytes;
    char policy[ROUNDS_TEXT_BYTES];
} kept_head;

typedef struct kept_flight {
    uint64_t merge_at;
    uint32_t fragment;
    uint16_t level, is_open;
} kept_flight;

typedef struct kept_tensor {
    uint64_t count;
    uint32_t dtype, is_state;
    char name[ROUNDS_NAME_BYTES];
} kept_tensor;

static const char magic[8] = "tt_sync";

/* A place in the bytes, which are written, compared, or only counted. */
typedef struct cursor {
    uint8_t *out;
    const uint8_t *in;
    size_t at;
} cursor;

static void take(cursor *own, void *field, size_t bytes)
{
    if (bytes > 0 && own->out != NULL) {
        memcpy(own->out + own->at, field, bytes);
    } else if (bytes > 0 && own->in != NULL) {
        memcpy(field, own->in + own->at, bytes);
    }
    own->at += bytes;
}

/* Everything behind the head, in one order for all three uses. */
static void take_all(tutti_sync *sync, cursor *own)
{
    take(own, sync->last_round, sync->when.fragments * sizeof(*sync->last_round));
    for (uint32_t i = 0; i < sync->flight_count; i++) {
        rounds_flight *flight = &sync->flights[i];
        kept_flight kept = {.merge_at = flight->merge_at,
                            .fragment = flight->fragment,
                            .level = (uint16_t)flight->level,
                            .is_open = flight->is_open};
        take(own, &kept, sizeof(kept));
        flight->merge_at = kept.merge_at;
        flight->fragment = kept.fragment;
        flight->level = (tt_when_level)kept.level;
        flight->is_open = kept.is_open != 0;
    }
    for (uint32_t i = 0; i < sync->tensor_count; i++) {
        rounds_tensor *tensor = &sync->tensors[i];
        const size_t bytes = tensor->count * tutti_dtype_bytes(tensor->dtype);
        kept_tensor kept = {
            .count = tensor->count, .dtype = (uint32_t)tensor->dtype, .is_state = tensor->is_state};
        memcpy(kept.name, tensor->name, strlen(tensor->name));
        take(own, &kept, sizeof(kept));
        for (uint32_t k = 0; k < TT_WHEN_PLANES_MAX; k++) {
            take(own, tensor->planes[k], tensor->planes[k] != NULL ? bytes : 0);
        }
        for (uint32_t k = 0; k < sync->flight_count && tensor->exchanged != NULL; k++) {
            take(own, tensor->exchanged + k * bytes, sync->flights[k].is_open ? bytes : 0);
        }
    }
}

static size_t size_of(tutti_sync *sync)
{
    cursor count = {.at = sizeof(kept_head)};
    take_all(sync, &count);
    return count.at + sizeof(uint64_t);
}

tutti_status tutti_sync_save(tutti_sync *sync, void *bytes, size_t capacity, size_t *size_out)
{
    tutti_status status = tt_rounds_check(sync);
    if (status != TUTTI_OK) {
        return status;
    }
    if (size_out == NULL || (bytes == NULL && capacity > 0)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "size_out is NULL, or bytes with a capacity");
    }
    for (uint32_t i = 0; i < sync->flight_count && status == TUTTI_OK; i++) {
        status = tt_rounds_arrive(sync, &sync->flights[i]);
    }
    if (status != TUTTI_OK) {
        return tt_rounds_fail(sync, status);
    }
    const size_t size = size_of(sync);
    *size_out = size;
    if (capacity < size) {
        return tt_error_set(TUTTI_ERR_NO_RESOURCE, "%zu bytes are no room for the %zu of the state",
                            capacity, size);
    }
    kept_head head = {.version = KEPT_VERSION,
                      .tensor_count = sync->tensor_count,
                      .bytes = size,
                      .step = sync->step,
                      .rounds = sync->counts.rounds,
                      .exchanged_bytes = sync->counts.bytes};
    memcpy(head.magic, magic, sizeof(magic));
    memcpy(head.policy, sync->policy, sizeof(head.policy));
    memcpy(bytes, &head, sizeof(head));
    cursor writer = {.out = bytes, .at = sizeof(head)};
    take_all(sync, &writer);
    TT_ASSERT(writer.at + sizeof(uint64_t) == size);
    const uint64_t hash = tt_hash64(bytes, writer.at, 0);
    memcpy((uint8_t *)bytes + writer.at, &hash, sizeof(hash));
    return TUTTI_OK;
}

/* ---- load ---- */

static tutti_status refuse(const char *what)
{
    return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "the bytes are no state of this sync: %s", what);
}

/* What is behind the head is sound if its hash is, and these are the sync's own. */
static tutti_status check_head(const tutti_sync *sync, const uint8_t *bytes, size_t size,
                               kept_head *head_out)
{
    uint64_t hash;
    if (bytes == NULL || size < sizeof(*head_out) + sizeof(hash)) {
        return refuse("they are too short");
    }
    memcpy(head_out, bytes, sizeof(*head_out));
    memcpy(&hash, bytes + size - sizeof(hash), sizeof(hash));
    if (memcmp(head_out->magic, magic, sizeof(magic)) != 0 || head_out->version != KEPT_VERSION) {
        return refuse("another version of Tutti wrote them");
    }
    if (head_out->bytes != size || hash != tt_hash64(bytes, size - sizeof(hash), 0)) {
        return refuse("they were cut or damaged; save again");
    }
    if (strncmp(head_out->policy, sync->policy, sizeof(head_out->policy)) != 0) {
        tt_text text = {0};
        tt_text_add_quoted(&text, head_out->policy, ROUNDS_TEXT_BYTES);
        return tt_error_set(TUTTI_ERR_MISMATCH,
                            "the state is of policy %.200s, this sync has %.200s; open it with the "
                            "policy of the state",
                            text.bytes, sync->policy);
    }
    return TUTTI_OK;
}

/* Could a sync be in this state? *open_out: flights that are open. */
static tutti_status check_flights(const tutti_sync *sync, const uint8_t *bytes, uint64_t step,
                                  uint64_t *open_out)
{
    uint64_t last_round;
    kept_flight kept;
    *open_out = 0;
    for (uint32_t i = 0; i < sync->when.fragments; i++, bytes += sizeof(last_round)) {
        memcpy(&last_round, bytes, sizeof(last_round));
        if (last_round > step) {
            return refuse("a round is of a later step");
        }
    }
    for (uint32_t i = 0; i < sync->flight_count; i++, bytes += sizeof(kept)) {
        memcpy(&kept, bytes, sizeof(kept));
        const bool is_due = sync->when.policy->quantity == TT_QUANTITY_GRADIENT ||
                            (kept.merge_at > step && kept.merge_at - step <= sync->when.delay);
        if (kept.fragment >= sync->when.fragments || kept.level > TT_LEVEL_ALL ||
            kept.is_open > 1 || (kept.is_open == 1 && !is_due)) {
            return refuse("a flight is out of range");
        }
        *open_out += kept.is_open;
    }
    return TUTTI_OK;
}

static tutti_status check_tensor(const rounds_tensor *own, const uint8_t *bytes)
{
    kept_tensor kept;
    memcpy(&kept, bytes, sizeof(kept));
    if (kept.count != own->count || kept.dtype != (uint32_t)own->dtype ||
        kept.is_state != (uint32_t)own->is_state ||
        strncmp(kept.name, own->name, sizeof(kept.name)) != 0) {
        tt_text text = {0};
        tt_text_add_quoted(&text, kept.name, ROUNDS_NAME_BYTES);
        return tt_error_set(TUTTI_ERR_MISMATCH,
                            "the state has tensor %.220s in place of '%s'; add the same tensors in "
                            "the same order",
                            text.bytes, own->name);
    }
    return TUTTI_OK;
}

/* How many copies of its values a tensor has in the state. */
static uint64_t copies_of(const rounds_tensor *own, uint64_t open)
{
    uint64_t copies = own->exchanged != NULL ? open : 0;
    for (uint32_t k = 0; k < TT_WHEN_PLANES_MAX; k++) {
        copies += own->planes[k] != NULL ? 1 : 0;
    }
    return copies;
}

/* All that is behind the head. */
static tutti_status check_body(const tutti_sync *sync, const uint8_t *bytes, size_t size,
                               uint64_t step)
{
    size_t at = sizeof(kept_head) + sync->when.fragments * sizeof(*sync->last_round) +
                sync->flight_count * sizeof(kept_flight);
    uint64_t open = 0;
    if (size < at) {
        return refuse("they end too early");
    }
    tutti_status status = check_flights(sync, bytes + sizeof(kept_head), step, &open);
    for (uint32_t i = 0; i < sync->tensor_count && status == TUTTI_OK; i++) {
        const rounds_tensor *own = &sync->tensors[i];
        const size_t plane = own->count * tutti_dtype_bytes(own->dtype);
        const uint64_t copies = copies_of(own, open);
        if (size - at < sizeof(kept_tensor)) {
            return refuse("they end too early");
        }
        status = check_tensor(own, bytes + at);
        at += sizeof(kept_tensor);
        if (status == TUTTI_OK && plane > 0 && (size - at) / plane < copies) {
            return refuse("they end too early");
        }
        at += copies * plane;
    }
    if (status == TUTTI_OK && at + sizeof(uint64_t) != size) {
        status = refuse("they have another length");
    }
    return status;
}

tutti_status tutti_sync_load(tutti_sync *sync, const void *bytes, size_t size)
{
    kept_head head;
    tutti_status status = tt_rounds_check(sync);
    if (status != TUTTI_OK) {
        return status;
    }
    for (uint32_t i = 0; i < sync->flight_count; i++) {
        if (sync->flights[i].is_open) {
            return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                                "an exchange is in flight; flush before a state is loaded");
        }
    }
    status = check_head(sync, bytes, size, &head);
    if (status == TUTTI_OK && head.tensor_count != sync->tensor_count) {
        return tt_error_set(TUTTI_ERR_MISMATCH,
                            "the state has %u tensors, and this sync %u; add the same ones first",
                            head.tensor_count, sync->tensor_count);
    }
    if (status == TUTTI_OK) {
        status = check_body(sync, bytes, size, head.step);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    cursor reader = {.in = bytes, .at = sizeof(head)};
    take_all(sync, &reader);
    sync->step = head.step;
    sync->counts.rounds = head.rounds;
    sync->counts.bytes = head.exchanged_bytes;
    sync->must_meet = true;
    return TUTTI_OK;
}
