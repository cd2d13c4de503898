/* SPDX-License-Identifier: Apache-2.0
 *
 * store_part.c - one part at its owner: pushes arrive, are summed and answered; see store_owner.h.
 *
 *  (1) The current version is complete at any time; sums are written to the other one, which no
 *      send has then. So pulls need not wait for a sum, and read no half of one.
 *  (2) A slot takes the push that follows the last one of its worker, and no other.
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/reduce.h"
#include "sync/keep/keep.h"
#include "sync/rows/rows.h"
#include "sync/store_coded.h"
#include "sync/sum/sum_owner.h"
#include "sync/sum/sum_relay.h"
#include "sync/sync_internal.h"

enum { STEP_BYTES = 256 * 1024, GRAIN = 64 }; /* of a sum in one step: about 50 us */
_Static_assert(sizeof(((tt_slot *)0)->is_lent) == TT_VERSION_COUNT * sizeof(bool), "one each");

/* ---- memory ---- */

static size_t slot_bytes(const tt_owner_part *part)
{
    return tt_round_up(tt_max_u64(part->push_bytes, 1), GRAIN);
}

/* Of an update's state, of a residual, of what a worker has read. */
static size_t state_bytes(const tt_owner_part *part)
{
    return tt_round_up(tt_max_u64(part->bytes, 1), GRAIN);
}

/* Places for pushes: one per worker, or fewer where relays add them up. */
static uint32_t room_count(const tt_sync *sync, const tt_owner_part *part)
{
    return part->key->store->relays != NULL ? tt_relay_rooms(part) : sync->roles.workers;
}

uint8_t *tt_owner_room(const tt_owner_part *part, uint32_t worker)
{
    const uint32_t at = part->key->store->relays != NULL ? tt_relay_room(part, worker) : worker;
    return part->memory + at * slot_bytes(part);
}

tt_status tt_owner_part_make(tt_sync *sync, tt_owner_key *key, tt_owner_part *part,
                             const tt_split_part *place, uint32_t number)
{
    const uint32_t workers = sync->roles.workers;
    const tt_update *update = key->store->update.update;
    *part = (tt_owner_part){.key = key,
                            .number = number,
                            .first = place->first,
                            .bytes = place->bytes,
                            .owner = tt_split_rank(&key->store->split, place->owner),
                            .is_relay = part->is_relay};
    const uint32_t rooms = room_count(sync, part);
    tt_coded_sizes(key, part);
    const size_t each = slot_bytes(part);
    const bool has_reads = tt_update_option(&key->store->update, "dc") > 0.0f;
    const size_t value_bytes = tt_round_up(tt_max_u64(part->answer_bytes, 1), GRAIN);
    const size_t room = state_bytes(part);
    const uint32_t states = update->state_count + (tt_coded_has_residual(key) ? 1 : 0);
    part->memory_bytes = each * rooms + 2 * value_bytes +
                         (states + (has_reads ? workers : 0)) * room +
                         workers * tt_rows_slot_bytes(part);
    TT_TRY(tt_sync_grow(sync, (void ***)&sync->parts, sync->part_count, &sync->part_capacity));
    TT_TRY(tt_heap_reserve(&sync->due, sync->part_count + 1));
    part->memory = tt_platform_allocate(sync->platform, part->memory_bytes);
    part->slots = tt_platform_allocate(sync->platform, workers * sizeof(*part->slots));
    if (part->memory == NULL || part->slots == NULL) {
        tt_platform_release(sync->platform, part->memory, part->memory_bytes);
        tt_platform_release(sync->platform, part->slots, workers * sizeof(*part->slots));
        part->memory = NULL;
        part->slots = NULL;
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < workers; i++) {
        part->slots[i].part = part;
    }
    part->values[0] = part->memory + rooms * each;
    part->values[1] = part->values[0] + value_bytes;
    uint8_t *state = part->values[1] + value_bytes;
    for (uint32_t i = 0; i < update->state_count; i++, state += room) {
        part->states[i] = (float *)(void *)state;
    }
    part->residual = tt_coded_has_residual(key) ? (float *)(void *)state : NULL;
    state += part->residual != NULL ? room : 0;
    part->reads = has_reads ? state : NULL;
    state += has_reads ? workers * room : 0;
    part->row_numbers = tt_rows_slot_bytes(part) > 0 ? (uint64_t *)(void *)state : NULL;
    part->is_valid = update->is_sum;
    part->index =
        tt_sync_free_index((void **)sync->parts, &sync->part_count, &sync->parts_released);
    sync->parts[part->index] = part;
    return TT_OK;
}

tt_status tt_owner_make_parts(tt_sync *sync, tt_owner_key *key)
{
    const uint64_t bytes = key->claim.count * tt_dtype_bytes((tt_dtype)key->claim.dtype);
    key->is_coded = tt_coded_applies(&key->store->codec, &key->claim);
    const tt_split whole = tt_rows_split(&key->store->split, &key->claim);
    const tt_split split = tt_coded_split(&whole, &key->store->codec, key->is_coded);
    const uint32_t all = tt_split_cut(&split, key->id, bytes, NULL, 0);
    tt_split_part *places = tt_platform_allocate(sync->platform, all * sizeof(*places));
    if (places == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    (void)tt_split_cut(&split, key->id, bytes, places, all);
    uint32_t own = 0;
    for (uint32_t i = 0; i < all; i++) {
        own += places[i].owner == key->store->self ? 1 : 0;
    }
    tt_status status = TT_OK;
    key->parts = own > 0 ? tt_platform_allocate(sync->platform, own * sizeof(*key->parts)) : NULL;
    if (own > 0 && key->parts == NULL) {
        status = TT_ERR_NO_MEMORY;
    }
    key->part_count = key->parts != NULL ? own : 0;
    for (uint32_t i = 0, at = 0; i < all && status == TT_OK; i++) {
        if (places[i].owner == key->store->self) {
            status = tt_owner_part_make(sync, key, &key->parts[at++], &places[i], i);
        }
    }
    if (status == TT_OK) {
        status = tt_relay_make_parts(sync, key, places, all);
    }
    tt_platform_release(sync->platform, places, all * sizeof(*places));
    return status;
}

void tt_owner_recall(tt_sync *sync, tt_owner_part *part, uint32_t worker, uint32_t version)
{
    tt_slot *slot = &part->slots[worker];
    if (slot->is_lent[version]) {
        sync->platform->ops->recall(sync->platform, worker,
                                    tt_answer_token(part->index, worker, version));
        slot->is_lent[version] = false;
        part->lent[version]--;
    }
}

static void recall_all(tt_sync *sync, tt_owner_part *part, uint32_t worker)
{
    for (uint32_t version = 0; version < TT_VERSION_COUNT; version++) {
        tt_owner_recall(sync, part, worker, version);
    }
}

static void forget_pull(tt_slot *slot)
{
    if (slot->is_pulled) {
        slot->is_pulled = slot->pulls_rows = false;
        tt_list_remove(&slot->pull);
    }
}

static void forget_arrival(tt_sync *sync, const tt_owner_part *part, uint32_t worker)
{
    if (sync->arriving[worker].part == part) {
        sync->arriving[worker] = (tt_arriving){.part = NULL};
        if (!sync->is_gone[worker]) {
            sync->platform->ops->discard(sync->platform, worker);
        }
    }
}

void tt_owner_part_release(tt_sync *sync, tt_owner_part *part)
{
    const uint32_t workers = sync->roles.workers;
    if (part->memory == NULL) {
        return; /* it was not made */
    }
    tt_relay_withdraw(sync, part);
    for (uint32_t worker = 0; worker < workers; worker++) {
        recall_all(sync, part, worker);
        forget_pull(&part->slots[worker]);
        forget_arrival(sync, part, worker);
    }
    if (tt_heap_has_node(&part->due)) {
        tt_heap_remove(&sync->due, &part->due);
    }
    sync->parts[part->index] = NULL;
    sync->parts_released++;
    tt_platform_release(sync->platform, part->memory, part->memory_bytes);
    tt_platform_release(sync->platform, part->slots, workers * sizeof(*part->slots));
}

void tt_owner_release_parts(tt_sync *sync, tt_owner_key *key)
{
    tt_owner_release_adopted(sync, key);
    tt_relay_release_parts(sync, key);
    for (uint32_t i = 0; i < key->part_count; i++) {
        tt_owner_part_release(sync, &key->parts[i]);
    }
    tt_platform_release(sync->platform, key->parts, key->part_count * sizeof(*key->parts));
    key->parts = NULL;
    key->part_count = 0;
}

tt_owner_part *tt_owner_find_part(tt_owner_key *key, uint32_t number)
{
    uint32_t low = 0, high = key->part_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (key->parts[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < key->part_count && key->parts[low].number == number
               ? &key->parts[low]
               : tt_owner_find_adopted(key, number);
}

/* ---- arrivals ---- */

void tt_owner_due(tt_sync *sync, tt_owner_part *part)
{
    if (!tt_heap_has_node(&part->due)) {
        part->age = sync->age++;
        const tt_status status = tt_heap_push(&sync->due, &part->due);
        TT_ASSERT(status == TT_OK); /* there is room for all parts */
    }
}

static void set_urgency(tt_sync *sync, tt_owner_part *part, const tt_head *head)
{
    part->urgency = (int16_t)head->stage;
    if (tt_heap_has_node(&part->due)) {
        tt_heap_update(&sync->due, &part->due);
    }
}

/* The push in a slot has been consumed: its answer is due. */
static void consume(tt_sync *sync, tt_owner_part *part, uint32_t worker)
{
    tt_slot *slot = &part->slots[worker];
    const bool is_repeat = slot->is_repeat;
    slot->consumed = slot->pushes;
    slot->owes = !sync->is_gone[worker];
    slot->owes_value = slot->is_answered;
    slot->is_repeat = false;
    if (!is_repeat) {
        tt_owner_consumed(sync, part->key->store, worker);
    }
}

void tt_owner_note_push(tt_sync *sync, tt_owner_part *part, uint32_t worker, const tt_head *head)
{
    tt_slot *slot = &part->slots[worker];
    const bool is_host = part->key->store->relays != NULL && (head->flags & TT_SYNC_FLAG_HOST) != 0;
    slot->clock = is_host ? 0 : head->round;
    slot->ranks = is_host ? head->round : 1;
    slot->asked = head->descriptor;
    slot->is_answered = (head->flags & TT_SYNC_FLAG_ANSWER) != 0;
    slot->is_uncounted = false;
    set_urgency(sync, part, head);
}

void tt_owner_push_arrived(tt_sync *sync, tt_owner_part *part, uint32_t worker, uint64_t number)
{
    tt_slot *slot = &part->slots[worker];
    TT_ASSERT(slot->phase == TT_SLOT_EMPTY || slot->phase == TT_SLOT_ARRIVING);
    slot->phase = TT_SLOT_FULL;
    slot->pushes = number;
    part->full++;
    tt_owner_due(sync, part);
    if (slot->is_repeat) {
        part->key->store->workers[worker].arrived += TT_PLANT(ADOPTED_PUSH_COUNTED) ? 1 : 0;
        tt_owner_repeated(sync, part);
        return;
    }
    tt_owner_arrived(sync, part->key->store, worker);
    if (slot->phase == TT_SLOT_FULL && slot->clock < part->key->store->quorum.begun) {
        tt_owner_choose(sync, part, worker, false);
    }
}

void tt_owner_choose(tt_sync *sync, tt_owner_part *part, uint32_t worker, bool is_counted)
{
    tt_slot *slot = &part->slots[worker];
    TT_ASSERT(slot->phase == TT_SLOT_FULL && part->full > 0);
    part->full--;
    tt_owner_due(sync, part);
    if (is_counted) {
        slot->phase = TT_SLOT_CHOSEN;
        part->chosen++;
        return;
    }
    slot->phase = TT_SLOT_EMPTY;
    slot->is_uncounted = true;
    consume(sync, part, worker);
}

static void slot_filled(tt_sync *sync, tt_owner_part *part, uint32_t worker, const tt_head *head)
{
    if (!tt_coded_is_sound(part, tt_owner_room(part, worker))) {
        tt_owner_bad_push(sync, part->key, worker);
        return;
    }
    tt_owner_note_push(sync, part, worker, head);
    tt_owner_push_arrived(sync, part, worker, head->argument);
}

void *tt_owner_take_push(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                         const void *payload)
{
    tt_slot *slot = &part->slots[worker];
    if ((head->flags & TT_SYNC_FLAG_ROWS) != 0) {
        return tt_rows_take_values(sync, worker, head, part, payload);
    }
    uint8_t *room = tt_owner_room(part, worker);
    const bool is_next = head->argument == slot->pushes + 1 || TT_PLANT(PUSH_APPLIED_TWICE);
    if (slot->phase != TT_SLOT_EMPTY || slot->owes || slot->pulls_rows || !is_next) {
        part->key->store->tally.dropped++;
        return NULL; /* a second copy, or not what this worker could send */
    }
    if (head->payload_bytes != part->push_bytes) {
        tt_owner_bad_length(sync, part, worker, head->payload_bytes, part->push_bytes);
        return NULL;
    }
    slot->is_rows = false;
    tt_owner_recall(sync, part, worker, TT_VERSION_ROWS);
    if (payload == NULL) {
        slot->phase = TT_SLOT_ARRIVING;
        sync->arriving[worker].part = part;
        return room;
    }
    if (part->push_bytes > 0) {
        memcpy(room, payload, part->push_bytes);
    }
    slot_filled(sync, part, worker, head);
    return NULL;
}

/* The first value is there. */
static void first_filled(tt_sync *sync, tt_owner_part *part, const tt_head *head)
{
    TT_ASSERT(!part->is_valid);
    part->slots[0].asked = head->descriptor;
    part->is_first_arriving = false;
    part->is_valid = true;
    part->slots[0].owes = true;
    tt_owner_due(sync, part);
}

void *tt_owner_take_first(tt_sync *sync, const tt_head *head, tt_owner_part *part,
                          const void *payload)
{
    if (part->is_valid || part->is_first_arriving) {
        return NULL;
    }
    if (head->payload_bytes != part->bytes) {
        tt_owner_bad_length(sync, part, 0, head->payload_bytes, part->bytes);
        return NULL;
    }
    if (payload == NULL) {
        part->is_first_arriving = true;
        sync->arriving[0].part = part;
        return part->values[part->current];
    }
    if (part->bytes > 0) {
        memcpy(part->values[part->current], payload, part->bytes);
    }
    first_filled(sync, part, head);
    return NULL;
}

void tt_owner_payload(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part)
{
    if (head->kind == TT_SYNC_FIRST) {
        first_filled(sync, part, head);
        return;
    }
    if (head->kind == TT_SYNC_VALUE) {
        tt_relay_payload(sync, part);
        return;
    }
    if (head->kind == TT_SYNC_FILL) {
        tt_keep_filled(sync, part, worker, head);
        return;
    }
    TT_ASSERT(head->kind == TT_SYNC_ROWS || part->slots[worker].phase == TT_SLOT_ARRIVING);
    if (head->kind == TT_SYNC_ROWS || (head->flags & TT_SYNC_FLAG_ROWS) != 0) {
        tt_rows_payload(sync, worker, head, part);
        return;
    }
    slot_filled(sync, part, worker, head);
}

bool tt_owner_is_new_pull(const tt_slot *slot, const tt_head *head)
{
    return !slot->is_pulled && head->descriptor > slot->pull_asked &&
           head->argument <= slot->pushes;
}

void tt_owner_take_pull(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part)
{
    if (tt_owner_is_new_pull(&part->slots[worker], head)) {
        tt_owner_note_pull(sync, part, worker, head);
    } else {
        part->key->store->tally.dropped++;
    }
}

void tt_owner_note_pull(tt_sync *sync, tt_owner_part *part, uint32_t worker, const tt_head *head)
{
    tt_slot *slot = &part->slots[worker];
    TT_ASSERT(!slot->is_pulled);
    slot->is_pulled = true;
    slot->has_waited = false;
    slot->pull_clock = tt_policy_needs(&part->key->store->policy, head->round);
    slot->pull_pushes = head->argument;
    slot->pull_asked = head->descriptor;
    tt_list_push_back(&part->key->store->pulls, &slot->pull);
    set_urgency(sync, part, head);
    tt_owner_due(sync, part);
}

/* ---- sums ---- */

/* Has every worker that counts pushed? */
bool tt_owner_is_complete(const tt_owner_part *part)
{
    const tt_clock *clock = &part->key->store->clock;
    bool is_complete = true;
    if (part->key->store->relays != NULL) {
        return tt_relay_is_complete(part);
    }
    for (uint32_t i = 0; i < clock->size && is_complete; i++) {
        is_complete = (clock->is_out[i] && part->key->members == NULL) ||
                      part->slots[i].phase == TT_SLOT_FULL || tt_sum_is_absent(part->key, i);
    }
    return is_complete;
}

/* Is there a push that no worker holds back? Of pushes that are added together, all count. */
static bool has_free(const tt_owner_part *part, tt_slot_phase source, bool is_together)
{
    const tt_owner_store *store = part->key->store;
    bool any = false, all = true;
    for (uint32_t i = 0; store->set.holds > 0 && i < store->clock.size; i++) {
        if (part->slots[i].phase == source) {
            const bool is_free = !tt_set_is_held(store, part->slots[i].clock);
            any = any || is_free;
            all = all && is_free;
        }
    }
    return store->set.holds == 0 || (is_together ? all : any);
}

/* Can the next sum begin? Bulk: everyone's push is there. Quorum: some are chosen. Else: there is
 * somebody's. */
static bool can_sum(const tt_owner_part *part)
{
    const tt_policy *policy = &part->key->store->policy;
    const bool has_sources = policy->quorum > 0 ? part->chosen > 0 : part->full > 0;
    return part->is_valid && has_sources && !part->is_summing && !part->is_up &&
           !part->is_up_lent && part->key->status >= 0 && part->lent[1 - part->current] == 0 &&
           (!tt_policy_is_bulk(policy) || tt_owner_is_complete(part)) &&
           has_free(part, policy->quorum > 0 ? TT_SLOT_CHOSEN : TT_SLOT_FULL,
                    policy->staleness == 0);
}

/* Are the pushes of one iteration added together, in the order of workers? */
static bool adds_together(const tt_owner_part *part)
{
    return part->key->store->policy.staleness == 0;
}

/* Then all slots that are full, or chosen; else the one whose turn it is. */
static void begin_sum(const tt_sync *sync, tt_owner_part *part)
{
    const uint32_t workers = sync->roles.workers;
    const bool is_together = adds_together(part);
    const tt_slot_phase source =
        part->key->store->policy.quorum > 0 ? TT_SLOT_CHOSEN : TT_SLOT_FULL;
    const uint32_t start = is_together ? 0 : (uint32_t)(part->step % workers);
    part->is_summing = true;
    part->sum_at = 0;
    part->sum_sources = part->sum_ranks = 0;
    uint64_t clock = 0;
    for (uint32_t i = 0; i < workers && (is_together || part->sum_sources == 0); i++) {
        tt_slot *slot = &part->slots[(start + i) % workers];
        if (slot->phase == source && !tt_set_is_held(part->key->store, slot->clock)) {
            slot->phase = TT_SLOT_SUMMED;
            clock = tt_max_u64(clock, slot->clock);
            tt_count_applied(part, slot);
            part->sum_sources++;
            part->sum_ranks += slot->ranks;
        }
    }
    part->full -= source == TT_SLOT_FULL ? part->sum_sources : 0;
    part->chosen -= source == TT_SLOT_CHOSEN ? part->sum_sources : 0;
    TT_ASSERT(part->sum_sources > 0);
    tt_set_begin(part, clock);
}

/* The sources of a sum from `at` on, the value first where it is one of them. */
static uint32_t gather_sources(tt_sync *sync, const tt_owner_part *part, uint64_t at)
{
    const tt_update *update = part->key->store->update.update;
    const bool has_value = !update->is_sum && update->apply == NULL;
    uint32_t count = 0;
    if (has_value) {
        sync->sources[count++] = part->values[part->current] + at;
    }
    const uint32_t rooms = room_count(sync, part);
    for (uint32_t i = 0; i < rooms; i++) {
        const uint32_t worker = part->key->store->relays != NULL ? tt_relay_source(part, i) : i;
        if (part->slots[worker].phase == TT_SLOT_SUMMED) {
            sync->sources[count++] = tt_owner_room(part, worker) + at;
        }
    }
    return count;
}

static void apply_update(const tt_sync *sync, tt_owner_part *part, uint64_t at, uint64_t bytes)
{
    const tt_owner_store *store = part->key->store;
    float *target = (float *)(void *)(part->values[1 - part->current] + at);
    tt_update_run run = {
        .spec = &part->sum_spec,
        .gradient = target,
        .value = (const float *)(const void *)(part->values[part->current] + at),
        .value_out = target,
        .step = part->step + 1,
        .divisor = adds_together(part) ? part->sum_sources : sync->roles.workers,
        .staleness = part->sum_staleness,
        .count = bytes / sizeof(float),
        .tensor = part->key->name,
        .first = (part->first + at) / sizeof(float),
        .clock = part->sum_clock,
    };
    if (part->reads != NULL && part->slots[part->sum_worker].has_read) {
        const uint8_t *read = part->reads + part->sum_worker * state_bytes(part) + at;
        run.read = (const float *)(const void *)read;
    }
    for (uint32_t i = 0; i < store->update.update->state_count; i++) {
        run.states[i] = part->states[i] + at / sizeof(float);
    }
    store->update.update->apply(&run);
}

/* The same of coded pushes. */
static bool coded_piece(tt_sync *sync, tt_owner_part *part)
{
    const uint64_t bytes = tt_coded_sum(sync, part, slot_bytes(part));
    if (part->key->store->update.update->apply != NULL) {
        apply_update(sync, part, part->sum_at, bytes);
    }
    part->sum_at += bytes;
    return part->sum_at == part->bytes;
}

/* A piece of the sum; true: it is complete. */
static bool sum_piece(tt_sync *sync, tt_owner_part *part)
{
    const tt_dtype dtype = (tt_dtype)part->key->claim.dtype;
    if (part->key->is_coded) {
        return coded_piece(sync, part);
    }
    const uint32_t count = gather_sources(sync, part, part->sum_at);
    const uint64_t piece = tt_round_up(STEP_BYTES / (count + 1), GRAIN);
    const uint64_t bytes = tt_min_u64(piece, part->bytes - part->sum_at);
    void *target = part->values[1 - part->current] + part->sum_at;
    if (bytes > 0) {
        const size_t elements = bytes / tt_dtype_bytes(dtype);
        tt_sum_scale_sources(sync, part, count, elements);
        tt_reduce_many(dtype, (tt_redop)part->key->claim.redop, &target, 1, sync->sources, count,
                       elements);
        tt_sum_finish(sync, part, target, elements);
        if (part->key->store->update.update->apply != NULL) {
            apply_update(sync, part, part->sum_at, bytes);
        }
        sync->platform->ops->spend(sync->platform, TT_SPEND_REDUCE, bytes * count, 1);
    }
    part->sum_at += bytes;
    return part->sum_at == part->bytes;
}

void tt_owner_sum_done(tt_sync *sync, tt_owner_part *part)
{
    part->current = 1 - part->current;
    part->step++;
    part->value_end = part->sum_clock + 1;
    part->is_lost = false;
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        tt_slot *slot = &part->slots[i];
        if (slot->phase == TT_SLOT_SUMMED) {
            slot->phase = TT_SLOT_EMPTY;
            consume(sync, part, i);
        }
    }
    tt_quorum_summed(sync, part);
}

static void end_sum(tt_sync *sync, tt_owner_part *part)
{
    part->is_summing = false;
    if (part->is_relay) {
        tt_relay_push(sync, part);
    } else {
        tt_owner_sum_done(sync, part);
    }
}

/* ---- answers ---- */

tt_head tt_owner_answer_head(const tt_owner_part *part, tt_sync_kind kind, uint64_t asked)
{
    const tt_owner_store *store = part->key->store;
    const uint64_t clock = tt_min_u64(tt_owner_progress(store), UINT32_MAX);
    return (tt_head){.kind = (uint8_t)kind,
                     .set = store->id,
                     .op = part->key->id,
                     .lane = part->number,
                     .round = (uint32_t)clock,
                     .descriptor = asked};
}

/* An earlier send to this worker has the version that would be sent now: wait for its end. */
static bool is_lent(const tt_owner_part *part, uint32_t worker)
{
    return part->slots[worker].is_lent[part->current];
}

void tt_owner_send_version(tt_sync *sync, tt_owner_part *part, uint32_t worker, tt_head head,
                           uint32_t version)
{
    tt_slot *slot = &part->slots[worker];
    const bool is_rows = version == TT_VERSION_ROWS;
    const uint64_t bytes = is_rows ? tt_rows_answer_bytes(slot) : part->answer_bytes;
    TT_ASSERT(!slot->is_lent[version]);
    tt_send send = {.peer = worker,
                    .urgency = part->urgency,
                    .age = part->age,
                    .token = tt_answer_token(part->index, worker, version),
                    .payload = is_rows ? tt_owner_room(part, worker) : part->values[version]};
    if (tt_sync_send(sync, &send, head, (uint32_t)bytes) == TT_IN_PROGRESS) {
        slot->is_lent[version] = true;
        part->lent[version]++;
    }
}

/* Of rows: those whose numbers are beside the slot. */
static void send_value(tt_sync *sync, tt_owner_part *part, uint32_t worker, tt_head head,
                       bool is_rows)
{
    tt_slot *slot = &part->slots[worker];
    const tt_owner_store *store = part->key->store;
    if (part->is_lost) {
        head.kind = TT_SYNC_TAKEN;
        head.flags |= TT_SYNC_FLAG_LOST;
        tt_sync_signal(sync, worker, head);
        return;
    }
    const bool is_quorum_sum = store->policy.quorum > 0 && store->update.update->is_sum;
    head.argument = is_quorum_sum ? part->value_end : head.argument;
    slot->read_step = part->step;
    slot->has_read = true;
    if (part->reads != NULL && part->bytes > 0) {
        memcpy(part->reads + worker * state_bytes(part), part->values[part->current], part->bytes);
    }
    if (is_rows) {
        tt_rows_answer(sync, part, worker, head);
    } else {
        tt_owner_send_version(sync, part, worker, head, part->current);
    }
}

static void answer_push(tt_sync *sync, tt_owner_part *part, uint32_t worker)
{
    tt_slot *slot = &part->slots[worker];
    const bool has_value = slot->owes_value;
    const bool is_behind = slot->is_uncounted && tt_owner_is_behind(part);
    if (has_value && (is_behind || (!slot->is_rows && is_lent(part, worker)))) {
        return;
    }
    tt_head head =
        tt_owner_answer_head(part, has_value ? TT_SYNC_VALUE : TT_SYNC_TAKEN, slot->asked);
    head.flags = slot->is_uncounted ? TT_SYNC_FLAG_UNCOUNTED : 0;
    head.flags |= part->key->store->relays != NULL && !part->is_relay ? TT_SYNC_FLAG_HOST : 0;
    slot->owes = slot->owes_value = false;
    if (has_value) {
        send_value(sync, part, worker, head, slot->is_rows);
    } else {
        tt_sync_signal(sync, worker, head);
    }
}

static bool can_answer_pull(const tt_owner_part *part, const tt_slot *slot)
{
    const bool is_late = tt_owner_progress(part->key->store) >= slot->pull_clock ||
                         TT_PLANT(PULL_ANSWERED_TOO_EARLY);
    return slot->is_pulled && part->is_valid && is_late && slot->consumed >= slot->pull_pushes &&
           !tt_owner_is_behind(part);
}

static void answer_all(tt_sync *sync, tt_owner_part *part)
{
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        tt_slot *slot = &part->slots[i];
        if (slot->owes) {
            answer_push(sync, part, i);
        }
        const bool is_rows = slot->pulls_rows;
        if (can_answer_pull(part, slot) && (is_rows || !is_lent(part, i))) {
            tt_head head = tt_owner_answer_head(part, TT_SYNC_VALUE, slot->pull_asked);
            head.flags = slot->has_waited ? TT_SYNC_FLAG_WAITED : 0;
            forget_pull(slot);
            send_value(sync, part, i, head, is_rows);
        } else if (slot->is_pulled && tt_owner_progress(part->key->store) < slot->pull_clock) {
            slot->has_waited = true; /* for others: own pushes may still be on their way, too */
        }
        if (slot->is_read) {
            tt_keep_answer(sync, part, i);
        }
    }
}

void tt_owner_sent(tt_sync *sync, uint64_t token)
{
    const uint64_t index = (token & (TOKEN_TEXT - 1)) >> (TOKEN_WORKER_BITS + TOKEN_VERSION_BITS);
    const uint32_t worker =
        (uint32_t)(token >> TOKEN_VERSION_BITS) & ((1U << TOKEN_WORKER_BITS) - 1);
    const uint32_t version = token & ((1U << TOKEN_VERSION_BITS) - 1);
    TT_ASSERT(index < sync->part_count && sync->parts[index] != NULL);
    tt_owner_part *part = sync->parts[index];
    if (worker == sync->roles.workers) {
        tt_relay_sent(part);
        tt_owner_due(sync, part);
        return;
    }
    TT_ASSERT(part->slots[worker].is_lent[version] && part->lent[version] > 0);
    part->slots[worker].is_lent[version] = false;
    part->lent[version]--;
    tt_owner_due(sync, part);
}

void tt_owner_part_worker_out(tt_sync *sync, tt_owner_part *part, uint32_t worker)
{
    tt_slot *slot = &part->slots[worker];
    recall_all(sync, part, worker);
    forget_pull(slot);
    tt_rows_worker_out(slot);
    slot->owes = slot->owes_value = slot->is_read = false;
    if (slot->phase == TT_SLOT_ARRIVING) {
        slot->phase = TT_SLOT_EMPTY; /* half a push is none */
    }
    tt_owner_due(sync, part);
}

bool tt_sync_owes(const tt_sync *sync)
{
    bool owes = tt_sum_is_needed(sync);
    for (uint32_t i = 0; i < sync->part_count && !owes; i++) {
        const tt_owner_part *part = sync->parts[i];
        const bool is_handed_over = part != NULL && part->key->store->id == TT_STORE_SUMS &&
                                    sync->sums.handover.phase != TT_HANDOVER_NONE;
        for (uint32_t worker = 0; part != NULL && !is_handed_over && worker < sync->roles.workers;
             worker++) {
            owes = owes || (part->slots[worker].owes && part->key->store->status >= 0);
        }
    }
    return owes;
}

/* ---- steps ---- */

bool tt_owner_step(tt_sync *sync)
{
    tt_heap_node *node = tt_heap_pop(&sync->due);
    if (node == NULL) {
        return false;
    }
    tt_owner_part *part = TT_CONTAINER_OF(node, tt_owner_part, due);
    if (part->key->store->status < 0) {
        return sync->due.count > 0;
    }
    if (part->is_summing && sum_piece(sync, part)) {
        end_sum(sync, part);
    }
    tt_sum_check(sync, part->key);
    if (can_sum(part)) {
        begin_sum(sync, part);
    }
    if (part->is_summing) {
        tt_owner_due(sync, part);
    }
    answer_all(sync, part);
    return sync->due.count > 0;
}
