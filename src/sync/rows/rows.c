/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c - see rows.h. */
#include "sync/rows/rows.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"

enum { GRAIN = 64 };

_Static_assert(TT_SPLIT_PART_BYTES / TT_ROWS_BYTES_MIN * sizeof(uint64_t) <= TT_PAYLOAD_BYTES_MAX,
               "numbers of a part fit one frame");

/* ---- both sides ---- */

uint64_t tt_rows_bytes(const tt_sync_claim *claim)
{
    return claim->row_elements * (uint64_t)tt_dtype_bytes((tt_dtype)claim->dtype);
}

static bool is_row_bytes(uint64_t bytes)
{
    return bytes >= TT_ROWS_BYTES_MIN && bytes <= TT_ROWS_BYTES_MAX;
}

bool tt_rows_is_claim(const tt_sync_claim *claim)
{
    return claim->row_elements == 0 ||
           (is_row_bytes(tt_rows_bytes(claim)) && claim->count % claim->row_elements == 0);
}

tt_split tt_rows_split(const tt_split *whole, const tt_sync_claim *claim)
{
    tt_split split = *whole;
    if (claim->row_elements > 0) {
        TT_ASSERT(tt_rows_is_claim(claim));
        split.grain = (uint32_t)tt_rows_bytes(claim);
    }
    return split;
}

bool tt_rows_are_of(const tt_rows_part *part, const uint64_t *numbers, uint64_t count)
{
    bool are = true;
    for (uint64_t i = 0; i < count && are; i++) {
        are = numbers[i] >= part->first && numbers[i] - part->first < part->count &&
              (i == 0 || numbers[i - 1] < numbers[i]);
    }
    return are;
}

/* From the last row to the first: row i of those chosen has place i or a later one, so what has not
 * moved yet lies before all that is written. */
void tt_rows_spread(const tt_rows_part *part, const uint64_t *numbers, uint64_t count,
                    uint8_t *values)
{
    const uint64_t row_bytes = part->row_bytes;
    uint64_t end = part->count * row_bytes; /* of what is not written yet */
    for (uint64_t i = count; i-- > 0;) {
        const uint64_t at = (numbers[i] - part->first) * row_bytes;
        TT_DEBUG_ASSERT(at >= i * row_bytes && at + row_bytes <= end);
        if (!TT_PLANT(PUSH_ROWS_NOT_ZEROED)) {
            memset(values + at + row_bytes, 0, end - at - row_bytes);
        }
        memmove(values + at, values + i * row_bytes, row_bytes);
        end = at;
    }
    memset(values, 0, end);
}

void tt_rows_gather(const tt_rows_part *part, const uint64_t *numbers, uint64_t count,
                    const uint8_t *values, uint8_t *rows_out)
{
    const uint64_t row_bytes = part->row_bytes;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(rows_out + i * row_bytes, values + (numbers[i] - part->first) * row_bytes,
               row_bytes);
    }
}

/* ---- a worker: checks ---- */

tt_status tt_rows_check_add(const tt_worker_store *store, const tt_sync_request *request,
                            tt_text *why)
{
    const uint64_t row_bytes = request->row_elements * (uint64_t)tt_dtype_bytes(request->dtype);
    TT_ASSERT(request->row_elements > 0 && request->count % request->row_elements == 0);
    if (!is_row_bytes(row_bytes)) {
        tt_text_add(why,
                    "table '%s': a row has %llu bytes; use rows of %d to %d bytes, or "
                    "tutti_store_add",
                    request->name, (unsigned long long)row_bytes, (int)TT_ROWS_BYTES_MIN,
                    (int)TT_ROWS_BYTES_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (tt_update_option(&store->update, "dc") > 0.0f) {
        tt_text_add(why,
                    "table '%s': option dc of update %s needs what each worker has read last, "
                    "which of chosen rows is not known; leave out dc, or use tutti_store_add",
                    request->name, store->update.update->name);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

tt_status tt_rows_check(const tt_worker_key *key, const tt_sync_request *request, tt_text *why)
{
    const uint64_t *rows = request->rows;
    if (key->claim.row_elements == 0) {
        tt_text_add(why,
                    "tensor '%s' is no table, so rows of it cannot be chosen; add it with "
                    "tutti_store_add_table",
                    key->name);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (rows == NULL && request->row_count > 0) {
        tt_text_add(why, "table '%s': rows is NULL and their count %llu; pass their numbers",
                    key->name, (unsigned long long)request->row_count);
        return TT_ERR_BAD_ARGUMENT;
    }
    const uint64_t all = key->count / key->claim.row_elements;
    for (uint64_t i = 0; i < request->row_count; i++) {
        if (rows[i] >= all) {
            tt_text_add(why,
                        "table '%s': rows[%llu] is %llu, beyond its %llu rows; use numbers below "
                        "that",
                        key->name, (unsigned long long)i, (unsigned long long)rows[i],
                        (unsigned long long)all);
            return TT_ERR_BAD_ARGUMENT;
        }
        if (i > 0 && rows[i] <= rows[i - 1]) {
            tt_text_add(why,
                        "table '%s': rows[%llu] is %llu and rows[%llu] is %llu; sort them, each "
                        "row once",
                        key->name, (unsigned long long)i - 1, (unsigned long long)rows[i - 1],
                        (unsigned long long)i, (unsigned long long)rows[i]);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

/* ---- a worker: frames ---- */

/* Some of the front request's rows. */
typedef struct piece {
    uint64_t at, count;
} piece;

/* How many of them are below this one. */
static uint64_t count_below(const tt_sync_request *request, uint64_t row)
{
    uint64_t low = 0, high = request->row_count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (request->rows[middle] < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static piece piece_of(const tt_worker_key *key, uint32_t number)
{
    const tt_sync_request *request = key->queue.first;
    const tt_split_part *place = &key->parts[number].place;
    const uint64_t row_bytes = tt_rows_bytes(&key->claim);
    TT_ASSERT(request->is_rows && row_bytes > 0);
    const uint64_t at = count_below(request, place->first / row_bytes);
    const uint64_t end = count_below(request, (place->first + place->bytes) / row_bytes);
    return (piece){.at = at, .count = end - at};
}

tt_rows_span tt_rows_span_of(const tt_worker_key *key, uint32_t number)
{
    const tt_split_part *place = &key->parts[number].place;
    if (!key->queue.first->is_rows) {
        return (tt_rows_span){.first = place->first, .bytes = place->bytes};
    }
    const piece rows = piece_of(key, number);
    const uint64_t row_bytes = tt_rows_bytes(&key->claim);
    return (tt_rows_span){.first = rows.at * row_bytes, .bytes = rows.count * row_bytes};
}

/* Of a pull without rows the part that is first in the order: such a pull waits for others' clocks
 * as well. */
static bool is_wanted(const tt_worker_key *key, uint32_t at)
{
    const tt_sync_request *request = key->queue.first;
    return !request->is_rows || tt_worker_is_push(request) ||
           (request->row_count == 0 ? at == 0 : piece_of(key, key->order[at]).count > 0);
}

uint32_t tt_rows_next(const tt_worker_key *key, uint32_t at)
{
    while (at < key->part_count && !is_wanted(key, at)) {
        at++;
    }
    return at;
}

uint32_t tt_rows_wanted(const tt_worker_key *key)
{
    uint32_t wanted = 0;
    for (uint32_t at = 0; at < key->part_count; at++) {
        wanted += is_wanted(key, at) ? 1 : 0;
    }
    TT_ASSERT(wanted > 0);
    return wanted;
}

void tt_rows_transmit(tt_sync *sync, tt_worker_key *key, uint32_t number, tt_head head)
{
    tt_sync_request *request = key->queue.first;
    tt_worker_part *part = &key->parts[number];
    const piece rows = piece_of(key, number);
    const bool is_push = tt_worker_is_push(request);
    if (is_push && rows.count == 0) {
        return; /* its PUSH says as much */
    }
    head.kind = TT_SYNC_ROWS;
    head.flags = is_push ? 0 : TT_SYNC_FLAG_PULL;
    tt_send send = {.peer = tt_worker_peer(sync, key, number),
                    .urgency = request->urgency,
                    .token = tt_push_token(key->index, number) | TOKEN_ROWS,
                    .payload = rows.count > 0 ? request->rows + rows.at : NULL};
    const uint32_t bytes = (uint32_t)(rows.count * sizeof(*request->rows));
    if (tt_sync_send(sync, &send, head, bytes) == TT_IN_PROGRESS) {
        part->is_rows_lent = true;
        request->lent++;
    }
}

/* ---- an owner: arrivals ---- */

static tt_rows_part part_of(const tt_owner_part *part)
{
    const uint64_t row_bytes = tt_rows_bytes(&part->key->claim);
    TT_ASSERT(row_bytes > 0 && part->first % row_bytes == 0 && part->bytes % row_bytes == 0);
    return (tt_rows_part){
        .first = part->first / row_bytes, .count = part->bytes / row_bytes, .row_bytes = row_bytes};
}

size_t tt_rows_slot_bytes(const tt_owner_part *part)
{
    if (part->key->claim.row_elements == 0) {
        return 0;
    }
    return tt_round_up(tt_max_u64(part_of(part).count, 1) * sizeof(uint64_t), GRAIN);
}

static uint64_t *numbers_of(const tt_owner_part *part, uint32_t worker)
{
    TT_ASSERT(part->row_numbers != NULL);
    return part->row_numbers + worker * (tt_rows_slot_bytes(part) / sizeof(uint64_t));
}

uint64_t tt_rows_answer_bytes(const tt_slot *slot)
{
    return slot->row_count * tt_rows_bytes(&slot->part->key->claim);
}

static void refuse(tt_sync *sync, const tt_owner_part *part, uint32_t worker)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, worker);
    tt_text_add(&text, " sent rows of table ");
    tt_text_add_quoted(&text, part->key->name, TT_SYNC_NAME_BYTES);
    tt_text_add(&text, " that are not ascending rows of one part with as many values; use one "
                       "version of Tutti on all");
    tt_owner_fail_key(sync, part->key, TT_ERR_BAD_WIRE, 0, &text);
}

/* The first frame of the next push, or the one that its other half waits for. */
static bool can_take(const tt_slot *slot, const tt_head *head, tt_half half)
{
    const bool is_next = head->argument == slot->pushes + 1 ||
                         (head->kind == TT_SYNC_ROWS && TT_PLANT(PUSH_WITH_OTHER_ROWS));
    return is_next && half == TT_HALF_NONE && !slot->owes && !slot->pulls_rows &&
           (slot->phase == TT_SLOT_EMPTY || (slot->phase == TT_SLOT_ARRIVING && slot->is_rows));
}

/* No frame of this worker is in its slot, nor beside it. */
static bool can_pull(const tt_slot *slot, const tt_head *head)
{
    return tt_owner_is_new_pull(slot, head) && slot->phase == TT_SLOT_EMPTY && !slot->owes &&
           slot->numbers == TT_HALF_NONE;
}

static void begin_push(tt_slot *slot)
{
    slot->phase = TT_SLOT_ARRIVING;
    slot->is_rows = true;
}

/* Both halves are there: from here on it is a dense push. */
static void complete(tt_sync *sync, tt_owner_part *part, uint32_t worker)
{
    tt_slot *slot = &part->slots[worker];
    const tt_rows_part place = part_of(part);
    if (slot->numbers != TT_HALF_HERE || slot->values != TT_HALF_HERE) {
        return;
    }
    if (slot->row_count != slot->value_rows) {
        refuse(sync, part, worker);
        return;
    }
    slot->numbers = slot->values = TT_HALF_NONE;
    tt_rows_spread(&place, numbers_of(part, worker), slot->row_count, tt_owner_room(part, worker));
    sync->platform->ops->spend(sync->platform, TT_SPEND_COPY, part->bytes, 1);
    tt_owner_push_arrived(sync, part, worker, slot->pushes + 1);
}

static void numbers_arrived(tt_sync *sync, tt_owner_part *part, uint32_t worker,
                            const tt_head *head)
{
    tt_slot *slot = &part->slots[worker];
    const tt_rows_part place = part_of(part);
    slot->numbers = TT_HALF_HERE;
    slot->row_count = (uint32_t)(head->payload_bytes / sizeof(uint64_t));
    if (!tt_rows_are_of(&place, numbers_of(part, worker), slot->row_count)) {
        refuse(sync, part, worker);
    } else if ((head->flags & TT_SYNC_FLAG_PULL) != 0) {
        slot->numbers = TT_HALF_NONE;
        slot->pulls_rows = true;
        tt_owner_note_pull(sync, part, worker, head);
    } else {
        complete(sync, part, worker);
    }
}

void *tt_rows_take(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                   const void *payload)
{
    tt_slot *slot = &part->slots[worker];
    const bool is_pull = (head->flags & TT_SYNC_FLAG_PULL) != 0;
    if (part->row_numbers == NULL ||
        !(is_pull ? can_pull(slot, head) : can_take(slot, head, slot->numbers))) {
        part->key->store->tally.dropped++;
        return NULL; /* a second copy, or not what this worker could send */
    }
    if (head->payload_bytes % sizeof(uint64_t) != 0 ||
        head->payload_bytes / sizeof(uint64_t) > part_of(part).count) {
        refuse(sync, part, worker);
        return NULL;
    }
    if (!is_pull) {
        begin_push(slot);
    }
    if (payload == NULL) {
        slot->numbers = TT_HALF_ARRIVING;
        sync->arriving[worker].part = part;
        return numbers_of(part, worker);
    }
    memcpy(numbers_of(part, worker), payload, head->payload_bytes);
    numbers_arrived(sync, part, worker, head);
    return NULL;
}

/* Values without rows have no ROWS. */
static void values_arrived(tt_sync *sync, tt_owner_part *part, uint32_t worker)
{
    tt_slot *slot = &part->slots[worker];
    slot->values = TT_HALF_HERE;
    if (slot->value_rows == 0 && slot->numbers == TT_HALF_NONE) {
        slot->numbers = TT_HALF_HERE;
        slot->row_count = 0;
    }
    complete(sync, part, worker);
}

void *tt_rows_take_values(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                          const void *payload)
{
    tt_slot *slot = &part->slots[worker];
    if (part->row_numbers == NULL || !can_take(slot, head, slot->values)) {
        part->key->store->tally.dropped++;
        return NULL; /* a second copy, or not what this worker could send */
    }
    const tt_rows_part place = part_of(part);
    if (head->payload_bytes % place.row_bytes != 0 || head->payload_bytes > part->bytes) {
        refuse(sync, part, worker);
        return NULL;
    }
    begin_push(slot);
    tt_owner_recall(sync, part, worker, TT_VERSION_ROWS);
    tt_owner_note_push(sync, part, worker, head);
    slot->value_rows = (uint32_t)(head->payload_bytes / place.row_bytes);
    if (payload == NULL) {
        slot->values = TT_HALF_ARRIVING;
        sync->arriving[worker].part = part;
        return tt_owner_room(part, worker);
    }
    memcpy(tt_owner_room(part, worker), payload, head->payload_bytes);
    values_arrived(sync, part, worker);
    return NULL;
}

void tt_rows_payload(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part)
{
    const tt_slot *slot = &part->slots[worker];
    if (head->kind == TT_SYNC_ROWS) {
        TT_ASSERT(slot->numbers == TT_HALF_ARRIVING);
        numbers_arrived(sync, part, worker, head);
    } else {
        TT_ASSERT(slot->values == TT_HALF_ARRIVING);
        values_arrived(sync, part, worker);
    }
}

void tt_rows_worker_out(tt_slot *slot)
{
    slot->numbers = slot->values = TT_HALF_NONE; /* half a push is none */
}

/* ---- an owner: answers ---- */

void tt_rows_answer(tt_sync *sync, tt_owner_part *part, uint32_t worker, tt_head head)
{
    const tt_slot *slot = &part->slots[worker];
    const tt_rows_part place = part_of(part);
    TT_ASSERT(slot->phase == TT_SLOT_EMPTY && slot->numbers == TT_HALF_NONE);
    tt_owner_recall(sync, part, worker, TT_VERSION_ROWS);
    tt_rows_gather(&place, numbers_of(part, worker), slot->row_count, part->values[part->current],
                   tt_owner_room(part, worker));
    sync->platform->ops->spend(sync->platform, TT_SPEND_COPY, tt_rows_answer_bytes(slot), 1);
    tt_owner_send_version(sync, part, worker, head, TT_VERSION_ROWS);
}
