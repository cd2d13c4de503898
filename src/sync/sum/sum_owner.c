/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_owner.c - named sums at their owners; see sum_owner.h. */
#include "sync/sum/sum_owner.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/reduce.h"
#include "sync/sum/sum_relay.h"
#include "sync/sync_internal.h"

enum { BUSY_MAX = 1 << 20 }; /* names of a worker, from joins that are not forgotten */

/* ---- claims ---- */

static void tell_claim(tt_text *text, uint32_t worker, const tt_sync_claim *claim)
{
    tt_text_add(text, "rank %u has %llu elements of %s, op %s", worker,
                (unsigned long long)claim->count, tt_dtype_name((tt_dtype)claim->dtype),
                tt_redop_name((tt_redop)claim->redop));
    if (claim->prescale != 1.0 || claim->postscale != 1.0) {
        tt_text_add(text, ", scaled by %g and %g", claim->prescale, claim->postscale);
    }
}

/* "tensor 'x': rank 0 has ..., rank 1 has ...", the lower rank first. */
static void tell_claims(tt_text *text, const tt_owner_key *key, uint32_t worker,
                        const tt_sync_claim *claim)
{
    const bool is_first = worker < key->claim_from;
    tt_text_add(text, "tensor ");
    tt_text_add_quoted(text, key->name, TT_SYNC_NAME_BYTES);
    tt_text_add(text, ": ");
    tell_claim(text, is_first ? worker : key->claim_from, is_first ? claim : &key->claim);
    tt_text_add(text, "; ");
    tell_claim(text, is_first ? key->claim_from : worker, is_first ? &key->claim : claim);
    if (memcmp(claim->shape, key->claim.shape, sizeof(claim->shape)) != 0) {
        tt_text_add(text, "; their shapes differ");
    }
}

/* One owner judges the claims of a key, so that there is one text: whatever the claims are, the
 * same one. */
static bool is_judge(const tt_sync *sync, uint64_t id)
{
    tt_split_part part;
    (void)tt_split_cut(&sync->sum_split, id, 0, &part, 1);
    return tt_split_rank(&sync->sum_split, part.owner) == sync->roles.rank;
}

void tt_sum_compare(tt_sync *sync, tt_owner_key *key, uint32_t worker, const tt_sync_claim *claim)
{
    if (is_judge(sync, key->id) && memcmp(claim, &key->claim, sizeof(*claim)) != 0) {
        tt_text text = {0};
        tell_claims(&text, key, worker, claim);
        tt_owner_fail_key(sync, key, TT_ERR_MISMATCH, 0, &text);
    }
}

/* The key of the same name and the next generation, or NULL. */
static tt_owner_key *successor(const tt_owner_key *key)
{
    tt_owner_key *next = key->store->buckets[key->id % OWNER_BUCKETS];
    while (next != NULL &&
           (next->claim.generation != key->claim.generation + 1 ||
            next->claim.joins != key->claim.joins || strcmp(next->name, key->name) != 0)) {
        next = next->next;
    }
    return next;
}

/* A sum after the first `good` ones fails, for workers that have left the key for it, too. */
static void fail_both(tt_sync *sync, tt_owner_key *key, tt_status status, uint64_t good,
                      const tt_text *text)
{
    tt_owner_key *next = key->is_told ? successor(key) : NULL;
    tt_owner_fail_key(sync, key, status, good, text);
    if (next != NULL && !next->is_told) {
        tt_owner_fail_key(sync, next, status, 0, text);
    }
}

/* Has a worker pushed for the sum for which another one has left the key? (1) The owner of the
 * first part judges it. */
static void check_moved(tt_sync *sync, tt_owner_key *key)
{
    const tt_owner_part *first = tt_owner_find_part(key, 0);
    tt_relay_check_moved(sync, key);
    if (first == NULL || TT_PLANT(CHANGED_CLAIM_MISSED)) {
        return;
    }
    for (uint32_t i = 0; i < sync->roles.workers && key->status >= 0; i++) {
        const tt_sum_member *member = &key->members[i];
        const tt_owner_key *next = member->has_moved ? successor(key) : NULL;
        bool is_split = false;
        for (uint32_t j = 0; next != NULL && j < sync->roles.workers; j++) {
            const tt_slot *slot = &first->slots[j];
            is_split = is_split || tt_max_u64(slot->pushes, slot->held) > member->moved;
        }
        if (is_split) {
            tt_text text = {0};
            tell_claims(&text, key, i, &next->claim);
            fail_both(sync, key, TT_ERR_MISMATCH, member->moved, &text);
        }
    }
}

/* A relay has a push that it cannot pass on. */
static void held_frame(tt_sync *sync, tt_owner_store *store, uint32_t relay, const tt_head *head)
{
    tt_owner_key *key = tt_owner_find_key(store, head->op);
    tt_owner_part *first = key != NULL ? tt_owner_find_part(key, 0) : NULL;
    if (first != NULL && key->status >= 0) {
        first->slots[relay].held = tt_max_u64(first->slots[relay].held, head->argument);
        check_moved(sync, key);
    }
}

/* The worker has left a key for this one. */
static void leave(tt_sync *sync, tt_owner_key *key, uint32_t worker, const tt_head *head)
{
    tt_owner_key *left =
        head->descriptor != 0 ? tt_owner_find_key(key->store, head->descriptor) : NULL;
    if (left == NULL || left == key || strcmp(left->name, key->name) != 0) {
        return;
    }
    left->members[worker].has_moved = true;
    left->members[worker].moved = head->argument;
    if (left->status >= 0) {
        check_moved(sync, left);
    } else if (left->claim.generation + 1 == key->claim.generation && left->is_told) {
        tt_text text = {0}; /* it had not arrived here when the sum failed */
        tt_text_add(&text, "%s", left->error);
        tt_owner_fail_key(sync, key, left->status, 0, &text);
    }
}

/* Not while some have joined: they may take part in sums of the older ones. */
void tt_sum_release_older(tt_sync *sync, const tt_owner_key *key)
{
    bool all_added = key->members != NULL;
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        all_added = all_added && key->has_added[i];
    }
    tt_owner_key *other = all_added ? key->store->buckets[key->id % OWNER_BUCKETS] : NULL;
    while (other != NULL) {
        tt_owner_key *next = other->next;
        if (other->claim.joins == key->claim.joins &&
            other->claim.generation < key->claim.generation &&
            strcmp(other->name, key->name) == 0) {
            tt_owner_release_key(sync, other);
        }
        other = next;
    }
}

/* ---- joining ---- */

static tt_sum_busy *find_busy(const tt_owner_worker *one, uint64_t base, uint32_t joins)
{
    tt_sum_busy *busy = one->busy;
    while (busy != NULL && (busy->base != base || busy->joins != joins || busy->is_join)) {
        busy = busy->next;
    }
    return busy;
}

/* NULL: no memory, which fails the store, or a worker has no such number of names. */
static tt_sum_busy *add_busy(tt_sync *sync, tt_owner_store *store, uint32_t worker,
                             const tt_sum_busy *record)
{
    tt_owner_worker *one = &store->workers[worker];
    tt_sum_busy *busy = NULL;
    if (one->busy_total == BUSY_MAX) {
        return NULL;
    }
    busy = tt_platform_allocate(sync->platform, sizeof(*busy));
    if (busy == NULL) {
        tt_text text = {0};
        tt_sync_add_peer(sync, &text, sync->roles.rank);
        tt_text_add(&text, " has no memory to let ranks join");
        tt_owner_fail(sync, store, TT_ERR_NO_MEMORY, &text);
        return NULL;
    }
    *busy = *record;
    busy->next = one->busy;
    one->busy = busy;
    one->busy_total++;
    return busy;
}

bool tt_sum_is_absent(const tt_owner_key *key, uint32_t worker)
{
    const tt_owner_worker *one = &key->store->workers[worker];
    if (key->members == NULL || one->joins <= key->claim.joins) {
        return false;
    }
    if (one->forgotten > key->claim.joins) {
        return true; /* FORGET may overtake IDLE */
    }
    if (one->joins == key->claim.joins + 1 && one->busy_count < one->busy_wanted) {
        return false; /* not all names are known with which it is busy */
    }
    const tt_sum_busy *busy = find_busy(one, key->base, key->claim.joins + 1);
    return busy == NULL || busy->is_idle || TT_PLANT(BUSY_RANK_LEFT_OUT);
}

/* A worker has joined: what waits for it? */
static void check_bucket(tt_sync *sync, const tt_owner_store *store, uint32_t bucket)
{
    for (tt_owner_key *key = store->buckets[bucket]; key != NULL; key = key->next) {
        tt_owner_check_added(sync, key); /* may release others, not this one */
        for (uint32_t k = 0; key->status >= 0 && k < tt_owner_part_total(key); k++) {
            tt_owner_due(sync, tt_owner_part_at(key, k));
        }
    }
}

static void check_all(tt_sync *sync, const tt_owner_store *store)
{
    for (uint32_t i = 0; i < OWNER_BUCKETS; i++) {
        check_bucket(sync, store, i);
    }
}

/* It is the worker's next join; was it overtaken by the one after it? Then its number of names. */
static bool take_join(tt_owner_worker *one, uint64_t wanted, uint64_t *next_out)
{
    bool has_next = false;
    one->joins++;
    one->busy_wanted = wanted;
    one->busy_count = 0;
    for (const tt_sum_busy *busy = one->busy; busy != NULL; busy = busy->next) {
        one->busy_count += busy->joins == one->joins && busy->is_busy ? 1 : 0;
        if (busy->is_join && busy->joins == one->joins + 1) {
            has_next = true;
            *next_out = busy->base;
        }
    }
    return has_next;
}

static void join_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head)
{
    tt_owner_worker *one = &store->workers[worker];
    uint64_t wanted = head->argument;
    if (head->round > one->joins + 1) {
        const tt_sum_busy record = {.base = wanted, .joins = head->round, .is_join = true};
        (void)add_busy(sync, store, worker, &record);
    }
    if (head->round != one->joins + 1) {
        return;
    }
    while (take_join(one, wanted, &wanted)) {
    }
    check_all(sync, store);
}

/* They may overtake each other, and JOIN. */
static void busy_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head)
{
    tt_owner_worker *one = &store->workers[worker];
    tt_sum_busy *busy = find_busy(one, head->op, head->round);
    if (head->round <= one->forgotten) {
        return;
    }
    if (busy == NULL) {
        const tt_sum_busy record = {.base = head->op, .joins = head->round};
        busy = add_busy(sync, store, worker, &record);
    }
    if (busy == NULL) {
        return;
    }
    if (head->kind == TT_SYNC_IDLE) {
        busy->is_idle = true;
        check_bucket(sync, store, (head->op | 1) % OWNER_BUCKETS);
    } else if (!busy->is_busy) {
        busy->is_busy = true;
        one->busy_count += head->round == one->joins ? 1 : 0;
        if (one->busy_count == one->busy_wanted) {
            check_all(sync, store);
        }
    }
}

/* Release the names of joins up to this one. */
static void release_busy(tt_sync *sync, tt_owner_worker *one, uint32_t joins)
{
    tt_sum_busy **link = &one->busy;
    while (*link != NULL) {
        tt_sum_busy *busy = *link;
        if (busy->joins > joins) {
            link = &busy->next;
            continue;
        }
        *link = busy->next;
        one->busy_total--;
        tt_platform_release(sync->platform, busy, sizeof(*busy));
    }
}

void tt_sum_release_store(tt_sync *sync, tt_owner_store *store)
{
    for (uint32_t i = 0; store->workers != NULL && i < store->clock.size; i++) {
        release_busy(sync, &store->workers[i], UINT32_MAX);
    }
}

/* When no worker has sums open from before a join, their keys are released. */
static void forget_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head)
{
    uint32_t least = UINT32_MAX;
    store->workers[worker].forgotten =
        (uint32_t)tt_max_u64(store->workers[worker].forgotten, head->round);
    for (uint32_t i = 0; i < store->clock.size; i++) {
        least = (uint32_t)tt_min_u64(least, store->clock.is_out[i] ? UINT32_MAX
                                                                   : store->workers[i].forgotten);
    }
    for (uint32_t i = 0; i < OWNER_BUCKETS; i++) {
        tt_owner_key *next;
        for (tt_owner_key *key = store->buckets[i]; key != NULL; key = next) {
            next = key->next;
            if (key->claim.joins < least) {
                tt_owner_release_key(sync, key);
            }
        }
    }
    for (uint32_t i = 0; i < store->clock.size; i++) {
        release_busy(sync, &store->workers[i], least);
    }
    check_all(sync, store);
}

bool tt_sum_is_needed(const tt_sync *sync)
{
    const tt_owner_store *store = sync->owned[TT_STORE_SUMS];
    bool is_needed = false;
    if (sync->sums.handover.phase != TT_HANDOVER_NONE) {
        return false;
    }
    for (uint32_t i = 0; store != NULL && i < store->clock.size; i++) {
        is_needed = is_needed || (!store->clock.is_out[i] && i != sync->roles.rank &&
                                  store->workers[i].forgotten < sync->sums.joins);
    }
    return is_needed;
}

/* ---- objections ---- */

static void object_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head,
                         const void *payload)
{
    tt_sync_claim claim;
    char name[TT_SYNC_NAME_BYTES], why[TT_SYNC_TEXT_BYTES];
    const int64_t status = (int64_t)head->argument;
    if (status >= 0 || status < -64 || !is_judge(sync, head->op) ||
        !tt_owner_read_claim(head, payload, &claim, name, why)) {
        return;
    }
    tt_owner_key *key = tt_owner_find_key(store, head->op);
    if (key == NULL) {
        key = tt_owner_make_key(sync, store, head->op, &claim, name);
    }
    if (key == NULL || key->members == NULL) {
        return;
    }
    tt_text text = {0};
    tt_text_add(&text, "rank %u: tensor ", worker);
    tt_text_add_quoted(&text, name, TT_SYNC_NAME_BYTES);
    tt_text_add(&text, ": %s", why);
    fail_both(sync, key, (tt_status)status, head->descriptor, &text);
    (void)tt_sync_send_text(sync, worker, tt_owner_failed_head(key), key->error,
                            (uint32_t)strlen(key->error)); /* it may have failed before */
}

/* ---- workers that are gone ---- */

/* Does a sum of the part wait, so that it waits for ever? Then the number of sums before it. */
static bool waits_for_lost(const tt_sync *sync, const tt_owner_part *part, uint64_t *good_out)
{
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        const tt_slot *slot = &part->slots[i];
        const bool is_stranded =
            part->is_up && slot->phase == TT_SLOT_SUMMED && sync->is_gone[part->owner];
        if (is_stranded || (slot->phase == TT_SLOT_FULL && !tt_owner_is_complete(part))) {
            *good_out = slot->pushes - 1;
            return true;
        }
    }
    return false;
}

/* (4) A worker that died after it had joined is missed all the same: control fails all calls. */
static void check_lost(tt_sync *sync, tt_owner_key *key)
{
    const tt_owner_store *store = key->store;
    if (store->lost_status >= 0) {
        return;
    }
    const bool is_needed =
        store->lost_status == TT_ERR_PEER_DOWN || !tt_sum_is_absent(key, store->lost);
    bool is_waiting = is_needed && !key->is_told;
    uint64_t good = 0;
    for (uint32_t k = 0; k < tt_owner_part_total(key) && is_needed && !is_waiting; k++) {
        is_waiting = waits_for_lost(sync, tt_owner_part_at(key, k), &good);
    }
    if (is_waiting) {
        fail_both(sync, key, store->lost_status, good, &store->lost_text);
    }
}

static void note_lost(tt_owner_store *store, uint32_t worker, const char *why)
{
    store->lost = worker;
    store->lost_status = why != NULL ? TT_ERR_PEER_DOWN : TT_ERR_PEER_LEFT;
    if (why != NULL) {
        tt_text_add(&store->lost_text, "rank %u is gone (%s)", worker, why);
    } else {
        tt_text_add(&store->lost_text, "rank %u has left the job", worker);
    }
}

void tt_sum_worker_out(tt_sync *sync, tt_owner_store *store, uint32_t worker, const char *why)
{
    if (!tt_owner_is_sums(store)) {
        return;
    }
    if (store->lost_status >= 0) {
        note_lost(store, worker, why);
    }
    for (uint32_t i = 0; i < OWNER_BUCKETS; i++) {
        for (tt_owner_key *key = store->buckets[i]; key != NULL; key = key->next) {
            check_lost(sync, key);
        }
    }
}

void tt_sum_check(tt_sync *sync, tt_owner_key *key)
{
    if (key->members != NULL) {
        check_moved(sync, key);
        check_lost(sync, key);
    }
}

void tt_sum_added(tt_sync *sync, tt_owner_key *key, uint32_t worker, const tt_head *head)
{
    if (key->members == NULL) {
        return;
    }
    leave(sync, key, worker, head);
    check_lost(sync, key);
}

void tt_sum_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head,
                  const void *payload)
{
    if (!tt_owner_is_sums(store) || payload == NULL) {
        return;
    }
    if (head->kind == TT_SYNC_OBJECT) {
        object_frame(sync, store, worker, head, payload);
    } else if (head->kind == TT_SYNC_JOIN) {
        join_frame(sync, store, worker, head);
    } else if (head->kind == TT_SYNC_BUSY || head->kind == TT_SYNC_IDLE) {
        busy_frame(sync, store, worker, head);
    } else if (head->kind == TT_SYNC_FORGET) {
        forget_frame(sync, store, worker, head);
    } else if (head->kind == TT_SYNC_HELD) {
        held_frame(sync, store, worker, head);
    }
}

/* ---- arithmetic ---- */

void tt_sum_scale_sources(const tt_sync *sync, const tt_owner_part *part, uint32_t count,
                          size_t elements)
{
    const tt_sync_claim *claim = &part->key->claim;
    const bool is_scaled = part->key->store->relays != NULL && !part->is_relay;
    if (part->key->members == NULL || claim->prescale == 1.0 || is_scaled) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) { /* slots of this part, which are read once */
        void *source = (void *)(uintptr_t)sync->sources[i];
        tt_scale((tt_dtype)claim->dtype, source, source, elements, claim->prescale);
    }
}

void tt_sum_finish(const tt_sync *sync, const tt_owner_part *part, void *target, size_t elements)
{
    const tt_sync_claim *claim = &part->key->claim;
    const tt_dtype dtype = (tt_dtype)claim->dtype;
    if (part->key->members == NULL || part->is_relay) {
        return;
    }
    if (claim->redop == TT_AVERAGE) {
        const uint32_t divisor = claim->is_by_active != 0 ? part->sum_ranks : sync->roles.workers;
        tt_divide(dtype, target, elements, divisor);
    }
    if (claim->postscale != 1.0) {
        tt_scale(dtype, target, target, elements, claim->postscale);
    }
}
