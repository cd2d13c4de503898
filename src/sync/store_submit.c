/* SPDX-License-Identifier: Apache-2.0
 *
 * store_submit.c - requests of a worker as they are submitted: checked, and queued; see
 * store_worker.h. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "codec/codec.h"
#include "kernel/hash64.h"
#include "sync/keep/keep.h"
#include "sync/keep/owners.h"
#include "sync/rows/rows.h"
#include "sync/store_coded.h"
#include "sync/sync_internal.h"

static void refuse(tt_sync *sync, tt_sync_request *request, tt_status status, const char *text)
{
    tt_worker_end(sync, request, status, text);
}

/* Owners apply it, and refuse it for all workers; a worker may do without its function. */
static tt_status parse_update(const tt_sync *sync, const char *text, tt_update_spec *update_out,
                              tt_text *why)
{
    tt_text unused = {0};
    if (!tt_update_is_own(text)) {
        return tt_update_parse(text, update_out, why);
    }
    if (tt_update_parse_own(text, &sync->own_updates, update_out, &unused) != TT_OK) {
        *update_out = (tt_update_spec){.update = tt_update_absent()};
    }
    return TT_OK;
}

/* A rank that is gone would own parts that no other one can: nobody could fill or read them. Other
 * workers find that out in the same way. */
static void begin_open(tt_sync *sync, tt_worker_store *store)
{
    tt_text text = {0};
    for (uint32_t i = 0; i < store->split.owners && text.length == 0; i++) {
        const uint32_t rank = tt_split_rank(&store->split, i);
        if (sync->is_gone[rank] && !tt_worker_can_move(sync, store, rank) &&
            !TT_PLANT(OPENED_WITHOUT_OWNER)) {
            tt_sync_add_peer(sync, &text, rank);
            tt_text_add(&text, " is gone, and would own parts of this store; %s",
                        rank < sync->roles.workers
                            ? "use as many servers as workers: then workers own none"
                            : "open the store again, without it");
        }
    }
    if (text.length > 0) {
        tt_worker_fail_store(sync, store, TT_ERR_PEER_DOWN, text.bytes);
    } else {
        tt_worker_life_begin(sync, store);
    }
}

static void open_store(tt_sync *sync, tt_sync_request *request)
{
    tt_policy policy;
    tt_update_spec update;
    tt_codec_spec codec = {.codec = NULL};
    tt_text why = {0};
    tt_status status = tt_policy_parse(request->policy, sync->roles.workers, &policy, &why);
    if (status == TT_OK) {
        status = parse_update(sync, request->update, &update, &why);
    }
    if (status == TT_OK) {
        status = tt_coded_parse(request->codec, &codec, &why);
    }
    if (status == TT_OK && update.update->is_sum && policy.staleness > 0) {
        tt_text_add(&why,
                    "update sum is the sum of one iteration, which policy %s does not wait "
                    "for; use update=add, or policy bulk",
                    request->policy);
        status = TT_ERR_BAD_ARGUMENT;
    }
    if (status == TT_OK && policy.staleness == 0 && tt_update_is_corrected(&update)) {
        tt_text_add(&why,
                    "options tau and dc of update %s correct stale gradients, which policy %s does "
                    "not have; leave them out, or use async or stale",
                    update.update->name, request->policy);
        status = TT_ERR_BAD_ARGUMENT;
    }
    if (status == TT_OK && policy.quorum > 0 && sync->roles.workers > TT_SYNC_TEXT_BYTES) {
        tt_text_add(&why,
                    "policy quorum takes at most %d workers, the job has %u; use bulk or "
                    "stale",
                    (int)TT_SYNC_TEXT_BYTES, sync->roles.workers);
        status = TT_ERR_UNSUPPORTED;
    }
    if (status == TT_OK && !request->is_sums && sync->store_count == TT_STORE_SUMS) {
        tt_text_add(&why,
                    "a job opens at most %d stores, and each load and reshard opens one; save what "
                    "is needed, and go on in another job",
                    (int)TT_STORE_SUMS);
        status = TT_ERR_NO_RESOURCE;
    }
    TT_ASSERT(!request->is_sums || sync->listener.submit != NULL);
    const uint32_t id = request->is_sums ? (uint32_t)TT_STORE_SUMS : sync->store_count;
    tt_split split = *tt_sync_split(sync, id);
    if (status == TT_OK && !request->is_sums) {
        status = tt_owners_make(sync, request->may_own, &split, &why);
    }
    const bool can_make = status == TT_OK && (!request->is_sums || tt_handover_prepare(sync));
    tt_worker_store *store = can_make ? tt_worker_store_make(sync, id, &split) : NULL;
    if (status == TT_OK && store == NULL) {
        tt_owners_release(sync, &split);
        tt_text_add(&why, "no memory for a store; this host needs more of it");
        status = TT_ERR_NO_MEMORY;
    }
    if (status != TT_OK) {
        refuse(sync, request, status, why.bytes);
        return;
    }
    store->policy = policy;
    store->update = update;
    store->clock = store->least = request->clock;
    request->store = id;
    sync->store_count += request->is_sums ? 0 : 1;
    store->codec = codec;
    tt_worker_queue_push(&store->life, request);
    begin_open(sync, store);
}

static void add_key(tt_sync *sync, tt_worker_store *store, tt_sync_request *request)
{
    tt_text why = {0};
    tt_status status = TT_ERR_BAD_ARGUMENT;
    tt_worker_key *key = NULL;
    const tt_update *update = store->update.update;
    if (request->name == NULL || request->name[0] == 0 ||
        strlen(request->name) >= TT_SYNC_NAME_BYTES) {
        tt_text_add(&why, "a tensor of a store needs a name of 1 to %d bytes",
                    TT_SYNC_NAME_BYTES - 1);
    } else if (tt_worker_find_name(store, request->name) != NULL) {
        tt_text_add(&why, "tensor '%s' was added before; give it another name", request->name);
    } else if (!tt_redop_allowed(request->dtype, TT_SUM)) {
        tt_text_add(&why, "tensor '%s': values of type %s cannot be added; convert them",
                    request->name, tt_dtype_name(request->dtype));
    } else if (!update->takes_any_type && request->dtype != TT_F32) {
        tt_text_add(&why,
                    "tensor '%s' has type %s; update %s takes f32: convert it, or use "
                    "update=add",
                    request->name, tt_dtype_name(request->dtype), update->name);
    } else if (request->count > TT_SYNC_TENSOR_BYTES_MAX / 8) {
        tt_text_add(&why, "tensor '%s' has more than %llu elements; add it in pieces",
                    request->name, (unsigned long long)(TT_SYNC_TENSOR_BYTES_MAX / 8));
    } else if (request->row_elements > 0 && tt_rows_check_add(store, request, &why) != TT_OK) {
        status = TT_ERR_BAD_ARGUMENT;
    } else {
        key = tt_worker_key_make(sync, store, request,
                                 tt_hash64(request->name, strlen(request->name), 0));
        status = TT_OK;
    }
    if (status != TT_OK) {
        refuse(sync, request, status, why.bytes);
        return;
    }
    if (key == NULL) {
        tt_worker_fail_without_memory(sync, store, request->name);
        refuse(sync, request, store->status, store->error);
        return;
    }
    tt_worker_move_new(sync, key);
    tt_worker_queue_push(&key->queue, request);
    tt_worker_begin(sync, key);
}

static void use_key(tt_sync *sync, tt_worker_store *store, tt_sync_request *request)
{
    tt_text why = {0};
    tt_worker_key *key = request->name != NULL ? tt_worker_find_name(store, request->name) : NULL;
    if (key == NULL) {
        tt_text_add(&why, "tensor ");
        tt_text_add_quoted(&why, request->name != NULL ? request->name : "", TT_SYNC_NAME_BYTES);
        tt_text_add(&why, " was not added to store %u; add it on all workers first", store->id);
        refuse(sync, request, TT_ERR_BAD_ARGUMENT, why.bytes);
        return;
    }
    if (key->status < 0) {
        refuse(sync, request, key->status, key->error);
        return;
    }
    if (tt_keep_is_about(request) && tt_keep_check(store, request, &why) != TT_OK) {
        refuse(sync, request, TT_ERR_BAD_ARGUMENT, why.bytes);
        return;
    }
    if (request->is_rows && tt_rows_check(key, request, &why) != TT_OK) {
        refuse(sync, request, TT_ERR_BAD_ARGUMENT, why.bytes);
        return;
    }
    tt_worker_queue_push(&key->queue, request);
    if (tt_worker_is_push(request)) {
        store->unsent++;
    }
    if (key->queue.first == request) {
        tt_worker_begin(sync, key);
        tt_worker_clocks_step(sync, store);
    }
}

void tt_worker_use(tt_sync *sync, tt_worker_store *store, tt_sync_request *request)
{
    if (request->verb == TT_STORE_CLOCK) {
        tt_worker_queue_push(&store->clocks, request);
        tt_worker_clocks_step(sync, store);
    } else {
        use_key(sync, store, request);
    }
}

void tt_worker_enqueue(tt_sync *sync, tt_worker_key *key, tt_sync_request *request)
{
    sync->pending++;
    request->since_ns = tt_now(sync->platform);
    tt_stall_watch(sync);
    tt_worker_queue_push(&key->queue, request);
    if (tt_worker_is_push(request)) {
        key->store->unsent++;
    }
    if (key->queue.first == request) {
        tt_worker_begin(sync, key);
    }
}

bool tt_worker_store_is_idle(const tt_worker_store *store)
{
    bool is_idle = store->clocks.first == NULL && store->later.first == NULL &&
                   store->life.first == NULL && store->asks.first == NULL;
    for (uint32_t i = 0; i < WORKER_BUCKETS; i++) {
        for (const tt_worker_key *key = store->buckets[i]; key != NULL; key = key->next) {
            is_idle = is_idle && key->queue.first == NULL;
        }
    }
    return is_idle;
}

static void close_store(tt_sync *sync, tt_worker_store *store, tt_sync_request *request)
{
    if (!tt_worker_store_is_idle(store)) {
        refuse(sync, request, TT_ERR_BAD_ARGUMENT,
               "calls on the store are in flight; wait for them before it is closed");
        return;
    }
    tt_worker_queue_push(&store->life, request);
    tt_worker_life_begin(sync, store);
}

static void ask(tt_sync *sync, tt_worker_store *store)
{
    if (store->asks.first->verb == TT_STORE_SET) {
        tt_set_ask(sync, store);
    } else if (store->asks.first->verb == TT_STORE_OPTIONS) {
        tt_keep_ask_options(sync, store);
    } else {
        tt_count_ask(sync, store);
    }
}

void tt_worker_next_ask(tt_sync *sync, tt_worker_store *store)
{
    (void)tt_worker_queue_pop(&store->asks);
    if (store->asks.first != NULL) {
        ask(sync, store);
    }
}

static void ask_owners(tt_sync *sync, tt_worker_store *store, tt_sync_request *request)
{
    tt_text why = {0};
    const tt_status status =
        request->verb == TT_STORE_SET ? tt_set_check(store, request, &why) : TT_OK;
    if (status != TT_OK) {
        refuse(sync, request, status, why.bytes);
        return;
    }
    tt_worker_queue_push(&store->asks, request);
    if (store->asks.first == request) {
        ask(sync, store);
    }
}

/* Does it belong to an iteration that has not begun? A pull that is sent behind its CLOCK waits at
 * owners, which saves a round trip. */
static bool is_later(const tt_worker_store *store, const tt_sync_request *request)
{
    const tt_sync_request *clock = store->clocks.first;
    if (store->later.first != NULL || clock == NULL || request->verb == TT_STORE_CLOCK) {
        return store->later.first != NULL;
    }
    return request->verb != TT_STORE_PULL || !store->has_clocked || clock->next != NULL;
}

void tt_sync_submit(tt_sync *sync, tt_sync_request *request)
{
    tt_worker_store *store = request->verb != TT_STORE_OPEN && request->store < TT_STORES_MAX
                                 ? sync->stores[request->store]
                                 : NULL;
    TT_ASSERT(!request->is_rows || tt_worker_is_push(request) || request->verb == TT_STORE_PULL);
    sync->pending++;
    request->since_ns = tt_now(sync->platform);
    tt_stall_watch(sync);
    request->open = request->lent = 0;
    request->is_first = request->is_uncounted = request->has_waited = false;
    request->lost = TT_OK;
    if (request->verb == TT_STORE_OPEN) {
        open_store(sync, request);
    } else if (store == NULL) {
        refuse(sync, request, TT_ERR_BAD_ARGUMENT, "there is no such store, or it is closed");
    } else if (request->verb == TT_STORE_CLOSE) {
        close_store(sync, store, request);
    } else if (store->status < 0) {
        refuse(sync, request, store->status, store->error);
    } else if (!store->is_open || store->life.first != NULL) {
        refuse(sync, request, TT_ERR_BAD_ARGUMENT,
               store->is_open ? "the store is being closed" : "the store is not open yet");
    } else if (request->verb == TT_STORE_ADD) {
        add_key(sync, store, request);
    } else if (request->verb == TT_STORE_SET || request->verb == TT_STORE_COUNT ||
               request->verb == TT_STORE_OPTIONS) {
        ask_owners(sync, store, request);
    } else if (is_later(store, request)) {
        tt_worker_queue_push(&store->later, request);
    } else {
        tt_worker_use(sync, store, request);
    }
}
