/* SPDX-License-Identifier: Apache-2.0
 *
 * store_owner.c - stores, tensors and clocks at an owner; see store_owner.h. */
#include "sync/store_owner.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/hash64.h"
#include "sync/keep/keep.h"
#include "sync/keep/owners.h"
#include "sync/rows/rows.h"
#include "sync/store_coded.h"
#include "sync/sum/sum_owner.h"
#include "sync/sum/sum_relay.h"
#include "sync/sync_internal.h"

static bool is_failed(const tt_owner_store *store)
{
    return store->status < 0;
}

/* ---- failures ---- */

/* To all workers that are left. */
static void tell_failure(tt_sync *sync, const tt_head *head, const char *text)
{
    TT_ASSERT(head->kind == TT_SYNC_FAILED && (int64_t)head->argument < 0);
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        (void)tt_sync_send_text(sync, i, *head, text, (uint32_t)strlen(text));
    }
}

/* A tensor, or (key 0) the store has failed. */
static tt_head failed_head(uint32_t store, uint64_t key, tt_status status)
{
    return (tt_head){
        .kind = TT_SYNC_FAILED, .set = store, .op = key, .argument = (uint64_t)(int64_t)status};
}

/* Workers that had been told of a key may have taken its next generation. */
tt_head tt_owner_failed_head(const tt_owner_key *key)
{
    tt_head head = failed_head(key->store->id, key->id, key->status);
    head.descriptor = key->good;
    head.round = key->claim.generation + (key->is_told ? 2 : 1);
    return head;
}

void tt_owner_fail(tt_sync *sync, tt_owner_store *store, tt_status status, const tt_text *text)
{
    if (is_failed(store)) {
        return;
    }
    store->status = status;
    memcpy(store->error, text->bytes, text->length + 1);
    const tt_head head = failed_head(store->id, 0, status);
    tell_failure(sync, &head, store->error);
}

void tt_owner_fail_key(tt_sync *sync, tt_owner_key *key, tt_status status, uint64_t good,
                       const tt_text *text)
{
    if (key->status < 0) {
        return;
    }
    key->status = status;
    key->good = good;
    memcpy(key->error, text->bytes, text->length + 1);
    if (key->is_told && key->members == NULL) {
        tt_owner_fail(sync, key->store, status, text); /* clocks would wait for its pushes */
        return;
    }
    const tt_head head = tt_owner_failed_head(key);
    tell_failure(sync, &head, key->error);
}

void tt_owner_bad_push(tt_sync *sync, tt_owner_key *key, uint32_t worker)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, worker);
    tt_text_add(&text, " pushed bytes to tensor ");
    tt_text_add_quoted(&text, key->name, TT_SYNC_NAME_BYTES);
    tt_text_add(&text, " that are not of the store's codec; use one version of Tutti on all");
    tt_owner_fail_key(sync, key, TT_ERR_BAD_WIRE, 0, &text);
}

void tt_owner_bad_length(tt_sync *sync, const tt_owner_part *part, uint32_t worker, uint64_t bytes,
                         uint64_t wanted)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, worker);
    tt_text_add(&text, " sent %llu bytes of tensor ", (unsigned long long)bytes);
    tt_text_add_quoted(&text, part->key->name, TT_SYNC_NAME_BYTES);
    tt_text_add(&text, ", whose part %u has %llu; use one version of Tutti on all", part->number,
                (unsigned long long)wanted);
    tt_owner_fail_key(sync, part->key, TT_ERR_BAD_WIRE, 0, &text);
}

/* ---- stores ---- */

static void key_release(tt_sync *sync, tt_owner_key *key)
{
    tt_platform *platform = sync->platform;
    const uint32_t workers = sync->roles.workers;
    tt_owner_release_parts(sync, key);
    tt_platform_release(platform, key->has_added, workers * sizeof(*key->has_added));
    tt_platform_release(platform, key->members, workers * sizeof(*key->members));
    tt_platform_release(platform, key, sizeof(*key));
}

void tt_owner_release_key(tt_sync *sync, tt_owner_key *key)
{
    tt_owner_key **link = &key->store->buckets[key->id % OWNER_BUCKETS];
    while (*link != key) {
        link = &(*link)->next;
    }
    *link = key->next;
    key_release(sync, key);
}

static void store_release(tt_sync *sync, tt_owner_store *store)
{
    tt_platform *platform = sync->platform;
    const uint32_t workers = sync->roles.workers;
    for (uint32_t i = 0; store->buckets != NULL && i < OWNER_BUCKETS; i++) {
        while (store->buckets[i] != NULL) {
            tt_owner_key *key = store->buckets[i];
            store->buckets[i] = key->next;
            key_release(sync, key);
        }
    }
    tt_platform_release(platform, store->buckets, OWNER_BUCKETS * sizeof(*store->buckets));
    tt_sum_release_store(sync, store);
    tt_platform_release(platform, store->workers, workers * sizeof(*store->workers));
    tt_clock_release(&store->clock, platform);
    tt_quorum_release(sync, store);
    sync->owned[store->id] = NULL;
    tt_owners_release(sync, &store->split);
    tt_platform_release(platform, store, sizeof(*store));
}

void tt_owner_release_all(tt_sync *sync)
{
    for (uint32_t i = 0; i < TT_STORES_MAX; i++) {
        if (sync->owned[i] != NULL) {
            store_release(sync, sync->owned[i]);
        }
    }
    TT_ASSERT(sync->due.count == 0);
}

static tt_owner_store *store_make(tt_sync *sync, uint32_t id)
{
    tt_platform *platform = sync->platform;
    const uint32_t workers = sync->roles.workers;
    tt_owner_store *store = tt_platform_allocate(platform, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    store->id = id;
    store->split = *tt_sync_split(sync, id);
    store->self = tt_split_number(&store->split, sync->roles.rank);
    store->relays = tt_owner_is_sums(store) ? sync->relays : NULL;
    tt_list_init(&store->pulls);
    sync->owned[id] = store;
    tt_status status = tt_clock_make(&store->clock, platform, workers);
    if (status == TT_OK) {
        status = tt_quorum_make(sync, store);
    }
    store->workers = tt_platform_allocate(platform, workers * sizeof(*store->workers));
    store->buckets = tt_platform_allocate(platform, OWNER_BUCKETS * sizeof(*store->buckets));
    if (status != TT_OK || store->workers == NULL || store->buckets == NULL) {
        store_release(sync, store);
        return NULL;
    }
    for (uint32_t i = 0; i < workers; i++) {
        if (sync->is_gone[i]) {
            (void)tt_clock_take_out(&store->clock, i);
        }
    }
    return store;
}

/* Every worker that counts has done so: opened it, or closed it. */
static bool all_have(const tt_owner_store *store, bool is_closing)
{
    bool all = true;
    for (uint32_t i = 0; i < store->clock.size; i++) {
        const tt_owner_worker *one = &store->workers[i];
        all = all && (store->clock.is_out[i] || (is_closing ? one->has_closed : one->has_opened));
    }
    return all;
}

/* Tell those who have opened it how that ended, once all have, or one cannot. */
static void tell_opened(tt_sync *sync, tt_owner_store *store)
{
    const tt_head head = {
        .kind = TT_SYNC_OPENED, .set = store->id, .argument = (uint64_t)(int64_t)store->status};
    tt_text text = {0};
    if (!is_failed(store) && !all_have(store, false)) {
        return;
    }
    if (is_failed(store)) {
        tt_text_add(&text, "%s", store->error);
    } else if (store->update.update->is_own) {
        tt_update_describe(store->update.update, &text);
    }
    for (uint32_t i = 0; i < store->clock.size; i++) {
        tt_owner_worker *one = &store->workers[i];
        if (one->has_opened && !one->is_told) {
            one->is_told = true;
            (void)tt_sync_send_text(sync, i, head, text.bytes, (uint32_t)text.length);
        }
    }
}

/* Iterations before `clock` count as completed by all. */
static void start_clocks(tt_owner_store *store, uint64_t clock)
{
    tt_clock_start(&store->clock, clock);
    for (uint32_t i = 0; i < store->clock.size; i++) {
        store->workers[i].declared = clock;
    }
    tt_quorum_start(store, clock);
    store->set.applied = clock;
}

/* The settings are "POLICY UPDATE[ codec=CODEC][ clock=N servers=HEX]"; a worker checks them before
 * it sends them. */
static bool read_settings(tt_sync *sync, tt_owner_store *store, tt_text *own_why)
{
    static const char codec_mark[] = "codec=";
    char policy[TT_SYNC_TEXT_BYTES], word[TT_SYNC_TEXT_BYTES];
    const char *rest = store->settings;
    uint64_t clock = 0;
    tt_text why = {0};
    if (!tt_text_take_word(&rest, " ", policy, sizeof(policy)) || *rest == '\0') {
        return false;
    }
    rest++;
    if (!tt_text_take_word(&rest, " ", word, sizeof(word)) ||
        tt_policy_parse(policy, sync->roles.workers, &store->policy, &why) != TT_OK) {
        return false;
    }
    tt_text *update_why = tt_update_is_own(word) ? own_why : &why;
    if (tt_update_parse_own(word, &sync->own_updates, &store->update, update_why) != TT_OK) {
        return false;
    }
    while (*rest != '\0') {
        rest++;
        const bool is_sound = tt_text_take_word(&rest, " ", word, sizeof(word));
        const bool is_codec = strncmp(word, codec_mark, sizeof(codec_mark) - 1) == 0;
        if (!is_sound || (!is_codec && tt_owner_is_sums(store)) ||
            (is_codec ? tt_coded_parse(word + sizeof(codec_mark) - 1, &store->codec, &why)
                      : tt_owners_read(sync, word, &store->split, &clock)) != TT_OK) {
            return false;
        }
    }
    store->self = tt_split_number(&store->split, sync->roles.rank);
    start_clocks(store, clock);
    return store->self < store->split.owners;
}

/* `why`, unless empty: what this rank lacks of an update of the program's own. */
static void refuse_settings(tt_sync *sync, tt_owner_store *store, uint32_t worker,
                            const tt_text *why)
{
    tt_text text = {0};
    if (why->length > 0) {
        tt_sync_add_peer(sync, &text, sync->roles.rank);
        tt_text_add(&text, " cannot apply the store's update: %s", why->bytes);
        tt_owner_fail(sync, store, TT_ERR_BAD_ARGUMENT, &text);
        return;
    }
    tt_text_add(&text, "rank %u sent settings of a store that no worker could have", worker);
    tt_owner_fail(sync, store, TT_ERR_BAD_WIRE, &text);
}

static void compare_settings(tt_sync *sync, tt_owner_store *store, uint32_t worker,
                             const char *settings)
{
    tt_text text = {0}, why = {0};
    if (!store->has_settings) {
        store->has_settings = true;
        store->settings_from = worker;
        memcpy(store->settings, settings, TT_SYNC_TEXT_BYTES);
        if (!read_settings(sync, store, &why)) {
            refuse_settings(sync, store, worker, &why);
        }
    } else if (strcmp(store->settings, settings) != 0) {
        tt_text_add(&text, "ranks open store %u differently: rank %u with ", store->id,
                    store->settings_from);
        tt_text_add_quoted(&text, store->settings, 160);
        tt_text_add(&text, ", rank %u with ", worker);
        tt_text_add_quoted(&text, settings, 160);
        tt_text_add(&text,
                    " (policy, update, codec); use the same on all, and open stores in one order");
        tt_owner_fail(sync, store, TT_ERR_MISMATCH, &text);
    }
}

static void open_frame(tt_sync *sync, uint32_t worker, const tt_head *head, const void *payload)
{
    char settings[TT_SYNC_TEXT_BYTES] = {0};
    tt_owner_store *store = sync->owned[head->set];
    if (store == NULL) {
        store = store_make(sync, head->set);
    }
    if (store == NULL) {
        static const char text[] = "an owner has no memory for a store";
        const tt_head reply = {.kind = TT_SYNC_OPENED,
                               .set = head->set,
                               .argument = (uint64_t)(int64_t)TT_ERR_NO_MEMORY};
        (void)tt_sync_send_text(sync, worker, reply, text, sizeof(text) - 1);
        return;
    }
    memcpy(settings, payload, tt_min_u64(head->payload_bytes, sizeof(settings) - 1));
    compare_settings(sync, store, worker, settings);
    store->workers[worker].has_opened = true;
    tell_opened(sync, store);
}

/* All have closed it: release it, and tell them. */
static void end_if_closed(tt_sync *sync, tt_owner_store *store)
{
    const tt_head head = {.kind = TT_SYNC_CLOSED, .set = store->id};
    bool any = false;
    for (uint32_t i = 0; i < store->clock.size; i++) {
        any = any || store->workers[i].has_closed;
    }
    if (!any || !all_have(store, true)) {
        return;
    }
    sync->is_closed[store->id] = true;
    store_release(sync, store);
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        tt_sync_signal(sync, i, head);
    }
}

/* It may overtake the OPEN of a store that failed. */
static void close_frame(tt_sync *sync, uint32_t worker, const tt_head *head)
{
    tt_owner_store *store = sync->owned[head->set];
    if (store == NULL) {
        store = store_make(sync, head->set);
    }
    if (store != NULL) {
        store->workers[worker].has_closed = true;
        end_if_closed(sync, store);
    }
}

/* ---- tensors ---- */

tt_owner_key *tt_owner_find_key(const tt_owner_store *store, uint64_t id)
{
    tt_owner_key *key = store->buckets[id % OWNER_BUCKETS];
    while (key != NULL && key->id != id) {
        key = key->next;
    }
    return key;
}

static void tell_claim(tt_text *text, uint32_t worker, const tt_sync_claim *claim)
{
    tt_text_add(text, "rank %u adds %llu elements of %s", worker, (unsigned long long)claim->count,
                tt_dtype_name((tt_dtype)claim->dtype));
    if (claim->row_elements > 0) {
        tt_text_add(text, " in rows of %u", claim->row_elements);
    }
}

tt_owner_key *tt_owner_make_key(tt_sync *sync, tt_owner_store *store, uint64_t id,
                                const tt_sync_claim *claim, const char *name)
{
    const uint32_t workers = sync->roles.workers;
    const bool is_sum = tt_owner_is_sums(store);
    tt_owner_key *key = tt_platform_allocate(sync->platform, sizeof(*key));
    bool *has_added = tt_platform_allocate(sync->platform, workers * sizeof(*has_added));
    tt_sum_member *members =
        is_sum ? tt_platform_allocate(sync->platform, workers * sizeof(*members)) : NULL;
    if (key == NULL || has_added == NULL || (is_sum && members == NULL)) {
        tt_platform_release(sync->platform, key, sizeof(*key));
        tt_platform_release(sync->platform, has_added, workers * sizeof(*has_added));
        tt_platform_release(sync->platform, members, workers * sizeof(*members));
        return NULL;
    }
    key->store = store;
    key->id = id;
    key->has_added = has_added;
    key->members = members;
    key->claim = *claim;
    key->base = tt_hash64(name, strlen(name), claim->joins);
    memcpy(key->name, name, strlen(name) + 1);
    key->next = store->buckets[id % OWNER_BUCKETS];
    store->buckets[id % OWNER_BUCKETS] = key;
    return key;
}

bool tt_owner_read_claim(const tt_head *head, const void *payload, tt_sync_claim *claim_out,
                         char name_out[TT_SYNC_NAME_BYTES], char *text_out)
{
    char bytes[TT_SYNC_TEXT_BYTES + 1] = {0};
    if (head->payload_bytes <= sizeof(*claim_out) || head->payload_bytes > TT_SYNC_TEXT_BYTES) {
        return false;
    }
    const size_t length = head->payload_bytes - sizeof(*claim_out);
    memcpy(claim_out, payload, sizeof(*claim_out));
    memcpy(bytes, (const uint8_t *)payload + sizeof(*claim_out), length);
    const size_t name_length = strlen(bytes);
    if (name_length >= TT_SYNC_NAME_BYTES || name_length == 0 ||
        (name_length < length) != (text_out != NULL)) {
        return false;
    }
    memcpy(name_out, bytes, name_length + 1);
    if (text_out != NULL) {
        memcpy(text_out, bytes + name_length + 1, length - name_length);
    }
    return tt_dtype_is_valid(claim_out->dtype) && tt_redop_is_valid(claim_out->redop) &&
           tt_redop_is_elementwise((tt_redop)claim_out->redop) &&
           tt_redop_allowed((tt_dtype)claim_out->dtype, (tt_redop)claim_out->redop) &&
           claim_out->count <= TT_SYNC_TENSOR_BYTES_MAX / 8 && tt_rows_is_claim(claim_out) &&
           (claim_out->row_elements == 0 || head->set != TT_STORE_SUMS);
}

static void key_begin(tt_sync *sync, tt_owner_key *key)
{
    tt_text text = {0};
    if (tt_owner_make_parts(sync, key) == TT_OK) {
        return;
    }
    tt_owner_release_parts(sync, key);
    tt_sync_add_peer(sync, &text, sync->roles.rank);
    tt_text_add(&text, " has no memory for its part of tensor ");
    tt_text_add_quoted(&text, key->name, TT_SYNC_NAME_BYTES);
    tt_text_add(&text, " for %u workers; start more servers, or fewer workers",
                sync->roles.workers);
    tt_owner_fail_key(sync, key, TT_ERR_NO_MEMORY, 0, &text);
}

/* Worker 0 has the first values; without it there are none. */
static void check_first(tt_sync *sync, tt_owner_key *key)
{
    bool all_valid = true;
    for (uint32_t i = 0; i < key->part_count; i++) {
        all_valid = all_valid && key->parts[i].is_valid;
    }
    if (!all_valid && key->store->clock.is_out[0]) {
        tt_text text = {0};
        tt_sync_add_peer(sync, &text, 0);
        tt_text_add(&text, " is gone, and had not sent the first value of tensor ");
        tt_text_add_quoted(&text, key->name, TT_SYNC_NAME_BYTES);
        tt_owner_fail_key(sync, key, TT_ERR_PEER_DOWN, 0, &text);
    }
}

/* All workers have added it: tell them. */
void tt_owner_check_added(tt_sync *sync, tt_owner_key *key)
{
    bool all = true;
    check_first(sync, key);
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        all = all && (key->has_added[i] || tt_sum_is_absent(key, i) ||
                      (key->store->clock.is_out[i] && key->members == NULL));
    }
    if (!all || key->is_told || key->status < 0) {
        return;
    }
    key->is_told = true;
    tt_sum_release_older(sync, key);
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        const tt_head head = {.kind = TT_SYNC_ADDED, .set = key->store->id, .op = key->id};
        tt_sync_signal(sync, i, head);
    }
}

static void compare_claims(tt_sync *sync, tt_owner_key *key, uint32_t worker,
                           const tt_sync_claim *claim, const char *name)
{
    tt_text text = {0};
    if (strcmp(key->name, name) != 0) {
        tt_text_add(&text, "tensors ");
        tt_text_add_quoted(&text, key->name, TT_SYNC_NAME_BYTES);
        tt_text_add(&text, " and ");
        tt_text_add_quoted(&text, name, TT_SYNC_NAME_BYTES);
        tt_text_add(&text, " have the same hash; rename one");
        tt_owner_fail_key(sync, key, TT_ERR_BAD_ARGUMENT, 0, &text);
    } else if (key->members != NULL) {
        tt_sum_compare(sync, key, worker, claim);
    } else if (memcmp(claim, &key->claim, sizeof(*claim)) != 0) {
        tt_text_add(&text, "tensor ");
        tt_text_add_quoted(&text, key->name, TT_SYNC_NAME_BYTES);
        tt_text_add(&text, ": ");
        tell_claim(&text, key->claim_from, &key->claim);
        tt_text_add(&text, ", ");
        tell_claim(&text, worker, claim);
        tt_text_add(&text, "; add it alike on all workers");
        tt_owner_fail_key(sync, key, TT_ERR_MISMATCH, 0, &text);
    }
}

static void add_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head,
                      const void *payload)
{
    tt_sync_claim claim;
    char name[TT_SYNC_NAME_BYTES];
    if (!tt_owner_read_claim(head, payload, &claim, name, NULL)) {
        return;
    }
    tt_owner_key *key = tt_owner_find_key(store, head->op);
    const bool is_new = key == NULL;
    if (is_new) {
        key = tt_owner_make_key(sync, store, head->op, &claim, name);
    }
    if (key == NULL) {
        tt_text text = {0};
        tt_head failed = failed_head(store->id, head->op, TT_ERR_NO_MEMORY);
        failed.round = claim.generation + 1;
        tt_sync_add_peer(sync, &text, sync->roles.rank);
        tt_text_add(&text, " has no memory for another tensor");
        tell_failure(sync, &failed, text.bytes);
        return;
    }
    if (is_new) {
        key->claim_from = worker;
        key_begin(sync, key);
    } else {
        compare_claims(sync, key, worker, &claim, name);
    }
    if (!key->has_added[worker]) {
        key->has_added[worker] = true;
        tt_sum_added(sync, key, worker, head);
    }
    tt_owner_check_added(sync, key);
    if (key->status < 0) { /* it may have failed before this worker knew of it */
        (void)tt_sync_send_text(sync, worker, tt_owner_failed_head(key), key->error,
                                (uint32_t)strlen(key->error));
    }
}

/* ---- clocks ---- */

/* The least clock has grown: pulls that waited for it may be answered. */
static void release_pulls(tt_sync *sync, tt_owner_store *store)
{
    for (tt_list_node *node = store->pulls.head.next; node != &store->pulls.head;
         node = node->next) {
        tt_slot *slot = TT_CONTAINER_OF(node, tt_slot, pull);
        if (tt_owner_progress(store) >= slot->pull_clock) {
            tt_owner_due(sync, slot->part);
        }
    }
}

/* The keeper: send MIN to the workers that may start their next iteration. */
static void answer_clocks(tt_sync *sync, tt_owner_store *store)
{
    const uint64_t least = store->policy.quorum > 0 ? store->quorum.sure : store->clock.least;
    for (uint32_t i = 0; i < store->clock.size; i++) {
        tt_owner_worker *one = &store->workers[i];
        if (one->asks && least >= tt_policy_needs(&store->policy, one->asks_clock)) {
            const tt_head head = {.kind = TT_SYNC_MIN, .set = store->id, .argument = least};
            one->asks = false;
            tt_sync_signal(sync, i, head);
        }
    }
}

void tt_owner_has_grown(tt_sync *sync, tt_owner_store *store)
{
    release_pulls(sync, store);
    answer_clocks(sync, store);
}

static void advance(tt_sync *sync, tt_owner_store *store, uint32_t worker)
{
    tt_owner_worker *one = &store->workers[worker];
    uint32_t done = 0;
    bool has_grown = false;
    while (done < one->clock_count && one->clocks[done].pushes <= one->consumed) {
        has_grown = tt_clock_tick(&store->clock, worker, one->clocks[done].clock) || has_grown;
        done++;
    }
    one->clock_count -= done;
    memmove(one->clocks, one->clocks + done, one->clock_count * sizeof(one->clocks[0]));
    if (has_grown) {
        tt_owner_has_grown(sync, store);
    }
}

void tt_owner_arrived(tt_sync *sync, tt_owner_store *store, uint32_t worker)
{
    store->workers[worker].arrived++;
    tt_quorum_advance(sync, store);
}

void tt_owner_consumed(tt_sync *sync, tt_owner_store *store, uint32_t worker)
{
    store->workers[worker].consumed++;
    advance(sync, store, worker);
}

/* Ascending; of too many the newest one takes the place of the one before: that is late, but not
 * wrong. */
static void clock_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head)
{
    tt_owner_worker *one = &store->workers[worker];
    uint32_t at = one->clock_count;
    while (at > 0 && one->clocks[at - 1].clock > head->round) {
        at--;
    }
    bool is_known = (at > 0 && one->clocks[at - 1].clock == head->round) ||
                    head->round <= store->clock.counts[worker];
    if (!is_known && one->clock_count == OWNER_CLOCKS_MAX) {
        is_known = at < one->clock_count; /* as good as: later ones are */
        at = is_known ? at : --one->clock_count;
    }
    if (!is_known) {
        memmove(one->clocks + at + 1, one->clocks + at,
                (one->clock_count - at) * sizeof(one->clocks[0]));
        one->clocks[at].clock = head->round;
        one->clocks[at].pushes = head->argument;
        one->clock_count++;
    }
    one->declared = tt_max_u64(one->declared, head->round);
    if ((head->flags & TT_SYNC_FLAG_ANSWER) != 0 && head->round >= one->asks_clock) {
        one->asks = true;
        one->asks_clock = head->round;
    }
    tt_quorum_decide(sync, store);
    tt_quorum_advance(sync, store);
    advance(sync, store, worker);
    answer_clocks(sync, store);
}

static void worker_out_of(tt_sync *sync, tt_owner_store *store, uint32_t worker, const char *why)
{
    const bool has_grown =
        !TT_PLANT(CLOCK_KEEPS_THE_DEAD) && tt_clock_take_out(&store->clock, worker);
    store->workers[worker].asks = false;
    for (uint32_t i = 0; i < OWNER_BUCKETS; i++) {
        for (tt_owner_key *key = store->buckets[i]; key != NULL; key = key->next) {
            for (uint32_t k = 0; k < tt_owner_part_total(key); k++) {
                if (tt_owner_part_at(key, k)->memory != NULL) {
                    tt_owner_part_worker_out(sync, tt_owner_part_at(key, k), worker);
                }
            }
            tt_owner_adopted_worker_out(sync, key, worker);
            tt_owner_check_added(sync, key);
        }
    }
    tt_sum_worker_out(sync, store, worker, why);
    if (why != NULL && tt_policy_is_bulk(&store->policy) && store->has_settings &&
        !store->workers[worker].has_closed && !tt_owner_is_sums(store)) {
        tt_text text = {0};
        tt_sync_add_peer(sync, &text, worker);
        tt_text_add(&text, " is gone (%s); policy bulk needs every worker", why);
        tt_owner_fail(sync, store, TT_ERR_PEER_DOWN, &text);
    }
    tell_opened(sync, store);
    tt_set_worker_out(sync, store, worker);
    tt_quorum_decide(sync, store);
    tt_quorum_advance(sync, store);
    if (has_grown && !is_failed(store)) {
        tt_owner_has_grown(sync, store);
    }
    end_if_closed(sync, store);
}

void tt_owner_worker_out(tt_sync *sync, uint32_t worker, const char *why)
{
    for (uint32_t i = 0; i < TT_STORES_MAX; i++) {
        if (sync->owned[i] != NULL) {
            worker_out_of(sync, sync->owned[i], worker, why);
        }
    }
}

/* ---- frames ---- */

static void *part_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head,
                        const void *payload)
{
    tt_owner_key *key = tt_owner_find_key(store, head->op);
    if (head->kind == TT_SYNC_ADOPT && key != NULL && key->status >= 0) {
        tt_owner_adopt(sync, key, worker, head);
        return NULL;
    }
    if (key == NULL || key->status < 0) {
        return NULL; /* a tensor fails before anything is pushed to it */
    }
    const bool is_relayed = head->kind == TT_SYNC_PUSH && store->relays != NULL;
    tt_owner_part *part =
        is_relayed ? tt_relay_find(key, worker, head) : tt_owner_find_part(key, head->lane);
    if (part == NULL || part->is_adopting) {
        return NULL; /* store_adopt.c (2) */
    }
    if (head->kind == TT_SYNC_PUSH) {
        return tt_owner_take_push(sync, worker, head, part, payload);
    }
    if (head->kind == TT_SYNC_ROWS) {
        return tt_rows_take(sync, worker, head, part, payload);
    }
    if (head->kind == TT_SYNC_PULL) {
        tt_owner_take_pull(sync, worker, head, part);
        return NULL;
    }
    if (head->kind == TT_SYNC_READ) {
        tt_keep_take_read(sync, worker, head, part);
        return NULL;
    }
    if (head->kind == TT_SYNC_FILL) {
        return tt_keep_take_fill(sync, worker, head, part, payload);
    }
    return worker == 0 ? tt_owner_take_first(sync, head, part, payload) : NULL;
}

void tt_owner_owner_frame(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload)
{
    tt_owner_store *store = head->set < TT_STORES_MAX ? sync->owned[head->set] : NULL;
    const uint32_t owner = store != NULL ? tt_split_number(&store->split, peer) : UINT32_MAX;
    if (store != NULL && owner < store->split.owners && payload != NULL && !is_failed(store)) {
        tt_quorum_frame(sync, store, owner, head, payload);
    }
}

void *tt_owner_frame(tt_sync *sync, uint32_t worker, const tt_head *head, const void *payload)
{
    TT_ASSERT(worker < sync->roles.workers);
    const bool is_text =
        head->kind == TT_SYNC_OPEN || head->kind == TT_SYNC_ADD || head->kind == TT_SYNC_OBJECT;
    if (head->set >= TT_STORES_MAX || sync->is_closed[head->set] ||
        (is_text && head->payload_bytes > TT_SYNC_TEXT_BYTES)) {
        return NULL;
    }
    tt_owner_store *store = sync->owned[head->set];
    if (head->kind == TT_SYNC_OPEN) {
        open_frame(sync, worker, head, payload);
        return NULL;
    }
    if (head->kind == TT_SYNC_CLOSE) {
        close_frame(sync, worker, head);
        return NULL;
    }
    if (head->kind == TT_SYNC_STALLED) {
        tt_stall_frame(sync, worker, head);
        return NULL;
    }
    if (store == NULL || !store->workers[worker].has_opened || is_failed(store)) {
        return NULL; /* a failed store has sent FAILED to all workers */
    }
    switch (head->kind) {
    case TT_SYNC_ADD:
        add_frame(sync, store, worker, head, payload);
        return NULL;
    case TT_SYNC_COUNT:
        tt_count_frame(sync, store, worker, head);
        return NULL;
    case TT_SYNC_OPTIONS:
        tt_keep_options_frame(sync, store, worker, head);
        return NULL;
    case TT_SYNC_SET:
        tt_set_frame(sync, store, worker, head);
        return NULL;
    case TT_SYNC_CLOCK:
        clock_frame(sync, store, worker, head);
        return NULL;
    case TT_SYNC_FIRST:
    case TT_SYNC_PUSH:
    case TT_SYNC_PULL:
    case TT_SYNC_ROWS:
    case TT_SYNC_ADOPT:
    case TT_SYNC_READ:
    case TT_SYNC_FILL:
        return part_frame(sync, store, worker, head, payload);
    default:
        tt_sum_frame(sync, store, worker, head, payload);
        return NULL;
    }
}
