/* SPDX-License-Identifier: Apache-2.0
 *
 * store_adopt.c - parts that come to an owner because theirs is gone; see store_move.c.
 *
 *  (1) A part is adopted when every worker has declared how many of its pushes were answered. The
 *      most of these is the number from which it goes on, for all workers: a sum that one worker
 *      has is never made again.
 *  (2) Workers push to it when they know that number, so no push arrives before.
 *  (3) The residual of coded sums begins at zero: what the old owner kept is lost, as of a step
 *      without error feedback. Draws of the codec follow the number of sums, so they go on.
 *  (4) A push that had been sent to the old owner, and is sent again, is not among those that
 *      CLOCK counts for this one.
 *
 * Under a quorum workers push in iterations of their own, so their numbers differ. Each declares
 * the iteration of the push that it sends again, and the last one of whose sum it has something:
 *
 *  (5) Up to the latest of these no iteration is summed again: pushes that count in one of them
 *      fail (LOST). So does who wants the value before the next sum.
 *  (6) No iteration begins before all pushes that are sent again have arrived. Those that count in
 *      iterations that have begun here are added then, in the order of iterations, before anything
 *      else; meanwhile no pull is answered.
 *  (7) What (5) and (6) need to know, all owners do: if anyone has a sum of an iteration, or it has
 *      begun somewhere, its decision is known here (store_quorum.c).
 */
#include <string.h>

#include "base/base.h"
#include "base/plant.h"
#include "sync/rows/rows.h"
#include "sync/store_coded.h"
#include "sync/sync_internal.h"

/* Index of the first one that is not below `number`. */
static uint32_t find_index(const tt_owner_key *key, uint32_t number)
{
    uint32_t low = 0, high = key->adopted_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (key->adopted[middle]->number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

tt_owner_part *tt_owner_find_adopted(const tt_owner_key *key, uint32_t number)
{
    const uint32_t at = find_index(key, number);
    return at < key->adopted_count && key->adopted[at]->number == number ? key->adopted[at] : NULL;
}

void tt_owner_release_adopted(tt_sync *sync, tt_owner_key *key)
{
    for (uint32_t i = 0; i < key->adopted_count; i++) {
        tt_owner_part_release(sync, key->adopted[i]);
        tt_platform_release(sync->platform, key->adopted[i], sizeof(*key->adopted[i]));
    }
    tt_platform_release(sync->platform, key->adopted,
                        key->adopted_capacity * sizeof(*key->adopted));
    key->adopted = NULL;
    key->adopted_count = key->adopted_capacity = 0;
}

/* Where a part is. BAD_ARGUMENT: the tensor has no such part, or it is this owner's own. */
static tt_status find_place(tt_sync *sync, const tt_owner_key *key, uint32_t number,
                            tt_split_part *place_out)
{
    const uint64_t bytes = key->claim.count * tt_dtype_bytes((tt_dtype)key->claim.dtype);
    const tt_split whole = tt_rows_split(&key->store->split, &key->claim);
    const tt_split split = tt_coded_split(&whole, &key->store->codec, key->is_coded);
    const uint32_t all = tt_split_cut(&split, key->id, bytes, NULL, 0);
    if (number >= all) {
        return TT_ERR_BAD_ARGUMENT;
    }
    const size_t place_bytes = (number + 1) * sizeof(tt_split_part);
    tt_split_part *places = tt_platform_allocate(sync->platform, place_bytes);
    if (places == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    (void)tt_split_cut(&split, key->id, bytes, places, number + 1);
    *place_out = places[number];
    tt_platform_release(sync->platform, places, place_bytes);
    return place_out->owner != key->store->self ? TT_OK : TT_ERR_BAD_ARGUMENT;
}

static tt_owner_part *refuse(tt_sync *sync, tt_owner_key *key)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, sync->roles.rank);
    tt_text_add(&text, " has no memory for what a server that is gone owned of tensor ");
    tt_text_add_quoted(&text, key->name, TT_SYNC_NAME_BYTES);
    tt_owner_fail_key(sync, key, TT_ERR_NO_MEMORY, 0, &text);
    return NULL;
}

static tt_owner_part *make(tt_sync *sync, tt_owner_key *key, uint32_t number)
{
    tt_split_part place;
    const tt_status status = find_place(sync, key, number, &place);
    if (status != TT_OK) {
        return status == TT_ERR_NO_MEMORY ? refuse(sync, key) : NULL;
    }
    tt_owner_part *part = tt_platform_allocate(sync->platform, sizeof(*part));
    if (part == NULL ||
        tt_sync_grow(sync, (void ***)&key->adopted, key->adopted_count, &key->adopted_capacity) !=
            TT_OK ||
        tt_owner_part_make(sync, key, part, &place, number) != TT_OK) {
        tt_platform_release(sync->platform, part, sizeof(*part));
        return refuse(sync, key);
    }
    const uint32_t at = find_index(key, number);
    memmove(key->adopted + at + 1, key->adopted + at,
            (key->adopted_count - at) * sizeof(*key->adopted));
    key->adopted[at] = part;
    key->adopted_count++;
    part->is_adopting = true;
    key->store->quorum.adopting += key->store->policy.quorum > 0 ? 1 : 0;
    return part;
}

/* ---- pushes that are sent again, of a quorum ---- */

bool tt_owner_is_behind(const tt_owner_part *part)
{
    return part->is_adopting || part->repeats > 0 || part->is_late;
}

/* Of pushes that count in iterations that have begun, choose those of the first one. */
static bool choose_late(tt_sync *sync, tt_owner_part *part)
{
    const tt_owner_store *store = part->key->store;
    uint64_t first = store->quorum.begun;
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        const tt_slot *slot = &part->slots[i];
        first = slot->phase == TT_SLOT_FULL ? tt_min_u64(first, slot->clock) : first;
    }
    for (uint32_t i = 0; i < sync->roles.workers && first < store->quorum.begun; i++) {
        const tt_slot *slot = &part->slots[i];
        if (slot->phase == TT_SLOT_FULL && slot->clock == first) {
            tt_owner_choose(sync, part, i, true);
        }
    }
    return first < store->quorum.begun;
}

bool tt_owner_add_late(tt_sync *sync, tt_owner_part *part)
{
    if (part->is_late) {
        part->is_late = choose_late(sync, part);
        tt_owner_due(sync, part); /* pulls, at the end */
    }
    return part->is_late;
}

/* All pushes that are sent again are there. */
static void catch_up(tt_sync *sync, tt_owner_part *part)
{
    tt_owner_store *store = part->key->store;
    TT_ASSERT(store->quorum.adopting > 0);
    store->quorum.adopting--;
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        const tt_slot *slot = &part->slots[i];
        if (slot->phase == TT_SLOT_FULL && slot->clock < store->quorum.begun &&
            tt_quorum_counts(store, i, slot->clock) != TT_COUNTING) {
            tt_owner_choose(sync, part, i, false);
        }
    }
    part->is_late = choose_late(sync, part);
    store->quorum.sums_open += part->is_late ? 1 : 0;
    tt_owner_due(sync, part);
    tt_quorum_advance(sync, store);
}

void tt_owner_repeated(tt_sync *sync, tt_owner_part *part)
{
    if (part->key->store->policy.quorum == 0) {
        return;
    }
    TT_ASSERT(part->repeats > 0 && !part->is_adopting);
    part->repeats--;
    if (part->repeats == 0) {
        catch_up(sync, part);
    }
}

/* ---- what workers have declared ---- */

/* Has a push that would be sent again counted, in a sum that nobody may make again? Perhaps it has,
 * if the decision is forgotten, or was made behind this owner's back (062, links that are lost). */
static bool is_lost(const tt_owner_part *part, uint32_t worker)
{
    const tt_owner_store *store = part->key->store;
    const uint64_t iteration = part->slots[worker].repeat_clock;
    const tt_counting counting = tt_quorum_counts(store, worker, iteration);
    if (counting == TT_COUNTING_UNKNOWN) {
        return iteration < tt_max_u64(part->seen, store->quorum.begun);
    }
    return counting == TT_COUNTING && iteration < part->seen && !TT_PLANT(PUSH_SUMMED_AGAIN);
}

/* It goes on from what workers have. */
static void begin_quorum(tt_sync *sync, tt_owner_part *part)
{
    const uint32_t workers = sync->roles.workers;
    const tt_clock *clock = &part->key->store->clock;
    for (uint32_t i = 0; i < workers; i++) {
        tt_slot *slot = &part->slots[i];
        slot->is_repeat_lost = slot->is_repeat && is_lost(part, i);
        slot->pushes += slot->is_repeat_lost ? 1 : 0;
        slot->consumed = slot->pushes;
        slot->is_repeat = slot->is_repeat && !slot->is_repeat_lost && !clock->is_out[i];
        part->repeats += slot->is_repeat ? 1 : 0;
    }
    part->is_lost = part->seen > 0;
    part->step = part->seen; /* draws of its codec are new ones */
    const bool has_all = part->repeats == 0;
    for (uint32_t i = 0; i < workers; i++) {
        const tt_head head = {.kind = TT_SYNC_ADOPTED,
                              .flags = part->slots[i].is_repeat_lost ? TT_SYNC_FLAG_LOST : 0,
                              .set = part->key->store->id,
                              .op = part->key->id,
                              .lane = part->number,
                              .argument = part->slots[i].pushes};
        tt_sync_signal(sync, i, head); /* this rank pushes at once */
    }
    if (has_all) {
        catch_up(sync, part);
    }
}

static void begin_bulk(tt_sync *sync, tt_owner_part *part)
{
    const tt_owner_store *store = part->key->store;
    uint64_t most = 0;
    for (uint32_t i = 0; i < store->clock.size; i++) {
        most = tt_max_u64(most, part->slots[i].pushes);
    }
    part->step = most;
    for (uint32_t i = 0; i < store->clock.size; i++) {
        tt_slot *slot = &part->slots[i];
        slot->is_repeat = slot->is_repeat && slot->pushes == most;
        slot->pushes = TT_PLANT(PUSH_SUMMED_AGAIN) ? slot->pushes : most;
        slot->consumed = slot->pushes;
    }
    for (uint32_t i = 0; i < store->clock.size; i++) {
        const tt_head head = {.kind = TT_SYNC_ADOPTED,
                              .set = store->id,
                              .op = part->key->id,
                              .lane = part->number,
                              .argument = part->slots[i].pushes};
        tt_sync_signal(sync, i, head);
    }
}

/* Have all workers declared what they have? Then it goes on from there. */
static void settle(tt_sync *sync, tt_owner_part *part)
{
    const tt_owner_store *store = part->key->store;
    const tt_clock *clock = &store->clock;
    bool is_complete = part->is_adopting;
    for (uint32_t i = 0; i < clock->size; i++) {
        is_complete = is_complete && (clock->is_out[i] || part->slots[i].is_declared);
    }
    if (!is_complete) {
        return;
    }
    part->is_adopting = false;
    if (store->policy.quorum > 0) {
        begin_quorum(sync, part);
    } else {
        begin_bulk(sync, part);
    }
}

void tt_owner_adopt(tt_sync *sync, tt_owner_key *key, uint32_t worker, const tt_head *head)
{
    tt_owner_part *part = tt_owner_find_part(key, head->lane);
    if (!key->store->update.update->is_sum || tt_owner_is_sums(key->store)) {
        return; /* there is more to lose than a sum */
    }
    if (part == NULL) {
        part = make(sync, key, head->lane);
    }
    if (part == NULL || !part->is_adopting || part->slots[worker].is_declared) {
        return; /* a second copy, or nonsense */
    }
    tt_slot *slot = &part->slots[worker];
    slot->is_declared = true;
    slot->pushes = head->argument;
    slot->is_repeat = (head->flags & TT_SYNC_FLAG_REPEAT) != 0;
    slot->repeat_clock = head->round;
    part->seen = tt_max_u64(part->seen, head->descriptor);
    settle(sync, part);
}

/* What it would have sent again will not come. */
static void forget_repeat(tt_sync *sync, tt_owner_part *part, uint32_t worker)
{
    tt_slot *slot = &part->slots[worker];
    const bool is_awaited = slot->is_repeat && slot->phase == TT_SLOT_EMPTY && part->repeats > 0;
    slot->is_repeat = slot->is_repeat && slot->phase != TT_SLOT_EMPTY;
    if (is_awaited && !part->is_adopting) {
        part->repeats--;
        if (part->repeats == 0) {
            catch_up(sync, part);
        }
    }
}

void tt_owner_adopted_worker_out(tt_sync *sync, tt_owner_key *key, uint32_t worker)
{
    for (uint32_t i = 0; i < key->adopted_count; i++) {
        tt_owner_part_worker_out(sync, key->adopted[i], worker);
        forget_repeat(sync, key->adopted[i], worker);
        settle(sync, key->adopted[i]);
    }
}
