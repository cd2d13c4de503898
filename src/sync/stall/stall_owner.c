/* SPDX-License-Identifier: Apache-2.0
 *
 * stall_owner.c - what a call of a worker waits for, as its owner or relay knows it; see stall.h.
 */
#include <string.h>

#include "base/base.h"
#include "sync/stall/stall.h"
#include "sync/sum/sum_owner.h"
#include "sync/sum/sum_relay.h"
#include "sync/sync_internal.h"

enum { NAMES_MAX = 4 };

/* Workers that are missing, in words. */
typedef struct list {
    const tt_sync *sync;
    tt_text text;
    uint32_t count;
} list;

static void add(list *missing, uint32_t worker, const char *words)
{
    missing->count++;
    if (missing->count <= NAMES_MAX) {
        tt_text_add(&missing->text, missing->count > 1 ? ", " : "");
        tt_sync_add_peer(missing->sync, &missing->text, worker);
        tt_text_add(&missing->text, " %s", words);
    }
}

static void finish(list *missing)
{
    if (missing->count > NAMES_MAX) {
        tt_text_add(&missing->text, ", and %u more", missing->count - NAMES_MAX);
    }
}

/* Workers that have not done to the store what is waited for. */
static void list_lives(const tt_owner_store *store, tt_stall_what what, list *missing)
{
    for (uint32_t i = 0; i < store->clock.size; i++) {
        const tt_owner_worker *one = &store->workers[i];
        const bool has = what == TT_STALL_OPEN ? one->has_opened : one->has_closed;
        if (!has && !store->clock.is_out[i]) {
            add(missing, i,
                what == TT_STALL_OPEN ? "has not opened the store" : "has not closed it");
        }
    }
}

static void list_adds(const tt_owner_key *key, list *missing)
{
    for (uint32_t i = 0; i < key->store->clock.size; i++) {
        if (!key->has_added[i] && !key->store->clock.is_out[i]) {
            add(missing, i, "has not added it");
        }
    }
}

/* Workers that have completed fewer than `needed` iterations. One whose clock has arrived before
 * its pushes is named only if there is no other. */
static void list_clocks(const tt_owner_store *store, uint64_t needed, list *missing)
{
    for (int pass = 0; pass < 2 && missing->count == 0; pass++) {
        for (uint32_t i = 0; i < store->clock.size; i++) {
            const uint64_t done = pass == 0 ? store->workers[i].declared : store->clock.counts[i];
            tt_text words = {0};
            if (done < needed && !store->clock.is_out[i]) {
                tt_text_add(&words, "has completed %llu of %llu iterations",
                            (unsigned long long)done, (unsigned long long)needed);
                add(missing, i, words.bytes);
            }
        }
    }
}

static void list_declarations(const tt_owner_part *part, list *missing)
{
    for (uint32_t i = 0; i < part->key->store->clock.size; i++) {
        if (!part->slots[i].is_declared && !part->key->store->clock.is_out[i]) {
            add(missing, i, "has not sent what it has of a part whose owner is gone");
        }
    }
}

/* Workers whose push is needed for the next sum. */
static void list_pushes(const tt_owner_part *part, list *missing)
{
    const tt_owner_key *key = part->key;
    const tt_relays *relays = key->store->relays;
    const uint32_t count = relays != NULL ? tt_relay_rooms(part) : key->store->clock.size;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t worker = relays != NULL ? tt_relay_source(part, i) : i;
        const bool is_out = key->members == NULL && key->store->clock.is_out[worker];
        if (part->slots[worker].phase != TT_SLOT_FULL && !is_out &&
            !tt_sum_is_absent(key, worker)) {
            add(missing, worker,
                relays != NULL && !part->is_relay ? "has not pushed for its host"
                                                  : "has not pushed");
        }
    }
}

static void list_part(const tt_owner_part *part, uint32_t worker, list *missing)
{
    const tt_owner_store *store = part->key->store;
    const tt_slot *slot = &part->slots[worker];
    if (part->is_adopting) {
        list_declarations(part, missing);
    } else if (part->is_up) {
        add(missing, part->owner, "has not answered the sum of this host");
    } else if (slot->is_pulled && slot->pull_clock > tt_owner_progress(store)) {
        list_clocks(store, slot->pull_clock, missing);
    } else if (store->policy.quorum > 0 && slot->phase != TT_SLOT_EMPTY) {
        list_clocks(store, slot->clock + 1, missing);
    } else if (tt_policy_is_bulk(&store->policy)) {
        list_pushes(part, missing);
    }
}

static void list_missing(const tt_owner_store *store, uint32_t worker, const tt_head *head,
                         list *missing)
{
    tt_owner_key *key = tt_owner_find_key(store, head->op);
    const tt_owner_part *part = NULL;
    const tt_head pushed = {.kind = TT_SYNC_PUSH, .lane = head->lane};
    switch ((tt_stall_what)head->round) {
    case TT_STALL_OPEN:
    case TT_STALL_CLOSE:
        list_lives(store, (tt_stall_what)head->round, missing);
        break;
    case TT_STALL_ADD:
        if (key != NULL) {
            list_adds(key, missing);
        }
        break;
    case TT_STALL_CLOCK:
        if (store->workers[worker].asks) {
            list_clocks(store, tt_policy_needs(&store->policy, store->workers[worker].asks_clock),
                        missing);
        }
        break;
    case TT_STALL_PART:
        if (key != NULL) {
            part = store->relays != NULL ? tt_relay_find(key, worker, &pushed)
                                         : tt_owner_find_part(key, head->lane);
        }
        if (part != NULL && part->memory != NULL) {
            list_part(part, worker, missing);
        }
        break;
    case TT_STALL_REPLY:
        break;
    }
}

void tt_stall_frame(tt_sync *sync, uint32_t worker, const tt_head *head)
{
    list missing = {.sync = sync};
    const tt_owner_store *store = sync->owned[head->set];
    const tt_head reply = {
        .kind = TT_SYNC_MISSING, .set = head->set, .descriptor = head->descriptor};
    if (store != NULL && store->status >= 0) {
        list_missing(store, worker, head, &missing);
        finish(&missing);
    }
    if (!tt_sync_send_text(sync, worker, reply, missing.text.bytes,
                           (uint32_t)missing.text.length)) {
        tt_sync_signal(sync, worker, reply); /* no memory: without a text */
    }
}
