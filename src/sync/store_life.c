/* SPDX-License-Identifier: Apache-2.0
 *
 * store_life.c - a worker's stores as they are opened, closed and fail; see store_worker.h. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "codec/codec.h"
#include "sync/keep/owners.h"
#include "sync/sync_internal.h"

/* ---- failures ---- */

static void fail_store(tt_sync *sync, tt_worker_store *store, tt_status status, const char *text)
{
    if (store->status < 0) {
        return;
    }
    store->status = status;
    (void)strncpy(store->error, text, sizeof(store->error) - 1);
    for (uint32_t i = 0; i < WORKER_BUCKETS; i++) {
        for (tt_worker_key *key = store->buckets[i]; key != NULL; key = key->next) {
            tt_worker_fail_key(sync, key, status, text);
        }
    }
    if (store->id == TT_STORE_SUMS) {
        tt_sum_fail_all(sync, status, text);
    }
    while (store->clocks.first != NULL) {
        tt_worker_end(sync, tt_worker_queue_pop(&store->clocks), status, store->error);
    }
    while (store->later.first != NULL) {
        tt_worker_end(sync, tt_worker_queue_pop(&store->later), status, store->error);
    }
    while (store->asks.first != NULL) {
        tt_worker_end(sync, tt_worker_queue_pop(&store->asks), status, store->error);
    }
    if (store->life.first != NULL && store->life.first->verb == TT_STORE_OPEN) {
        tt_worker_end(sync, tt_worker_queue_pop(&store->life), status, store->error);
    }
}

/* Before this rank's calls end: if it leaves because of them, others must not take that for the
 * cause. */
static void tell_workers(tt_sync *sync, tt_head head, tt_status status, const char *text)
{
    head.kind = TT_SYNC_FAILED;
    head.argument = (uint64_t)(int64_t)status;
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        if (i != sync->roles.rank) {
            (void)tt_sync_send_text(sync, i, head, text, (uint32_t)strlen(text));
        }
    }
}

void tt_worker_fail_store(tt_sync *sync, tt_worker_store *store, tt_status status, const char *text)
{
    if (store->status >= 0) {
        tell_workers(sync, (tt_head){.set = store->id}, status, text);
    }
    fail_store(sync, store, status, text);
}

void tt_worker_fail_tensor(tt_sync *sync, tt_worker_key *key, tt_status status, const char *text)
{
    if (key->status >= 0) {
        tell_workers(sync, (tt_head){.set = key->store->id, .op = key->id}, status, text);
    }
    tt_worker_fail_key(sync, key, status, text);
}

void tt_worker_fail_without_memory(tt_sync *sync, tt_worker_store *store, const char *name)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, sync->roles.rank);
    tt_text_add(&text, " has no memory for ");
    if (name != NULL) {
        tt_text_add(&text, "tensor ");
        tt_text_add_quoted(&text, name, TT_SYNC_NAME_BYTES);
        tt_text_add(&text, " of ");
    }
    tt_text_add(&text, "the store; its host needs more memory");
    tt_worker_fail_store(sync, store, TT_ERR_NO_MEMORY, text.bytes);
}

void tt_sync_shut_down(tt_sync *sync, tt_status status, const char *text)
{
    TT_ASSERT(status < 0);
    for (uint32_t i = 0; i < TT_STORES_MAX; i++) {
        tt_worker_store *store = sync->stores[i];
        if (store == NULL) {
            continue;
        }
        fail_store(sync, store, status, text);
        while (store->life.first != NULL) {
            tt_worker_end(sync, tt_worker_queue_pop(&store->life), status, text);
        }
    }
    TT_ASSERT(sync->pending == 0);
}

/* ---- opening and closing ---- */

bool tt_worker_all_told(const tt_sync *sync, const tt_worker_store *store)
{
    bool all = true;
    for (uint32_t i = 0; i < store->split.owners; i++) {
        all = all && (store->is_told[i] || sync->is_gone[tt_split_rank(&store->split, i)]);
    }
    return all;
}

/* Owners, and workers that have the function, too, have one of the same form. */
void tt_worker_take_description(tt_sync *sync, tt_worker_store *store, uint32_t owner,
                                const char *description)
{
    tt_text own = {0}, text = {0};
    const char *update = store->life.first->update;
    if (store->update.update == tt_update_absent()) {
        store->describer = owner;
        if (tt_update_read_description(update, description, &store->described) == TT_OK) {
            store->update.update = &store->described.update;
            return;
        }
        tt_text_add(&text, "rank %u describes update %.80s as no update can be: ", owner, update);
        tt_text_add_quoted(&text, description, 80);
        tt_worker_fail_store(sync, store, TT_ERR_BAD_WIRE, text.bytes);
        return;
    }
    tt_update_describe(store->update.update, &own);
    if (strcmp(own.bytes, description) == 0) {
        return;
    }
    const bool is_described = store->update.update == &store->described.update;
    tt_text_add(&text, "update %.80s differs: ", update);
    tt_sync_add_peer(sync, &text, owner);
    tt_text_add(&text, " has ");
    tt_text_add_quoted(&text, description, 120);
    tt_text_add(&text, ", ");
    tt_sync_add_peer(sync, &text, is_described ? store->describer : sync->roles.rank);
    tt_text_add(&text, " has ");
    tt_text_add_quoted(&text, own.bytes, 120);
    tt_text_add(&text, " (number of states, options); give all processes the same function");
    tt_worker_fail_store(sync, store, TT_ERR_MISMATCH, text.bytes);
}

void tt_worker_life_settle(tt_sync *sync, tt_worker_store *store)
{
    tt_sync_request *request = store->life.first;
    if (request == NULL || !tt_worker_all_told(sync, store)) {
        return;
    }
    (void)tt_worker_queue_pop(&store->life);
    if (request->verb == TT_STORE_OPEN) {
        store->is_open = true;
    } else {
        tt_worker_store_release(sync, store);
    }
    tt_worker_end(sync, request, TT_OK, "");
}

void tt_worker_life_begin(tt_sync *sync, tt_worker_store *store)
{
    const tt_sync_request *request = store->life.first;
    const bool is_open = request->verb == TT_STORE_OPEN;
    const tt_head head = {.kind = is_open ? TT_SYNC_OPEN : TT_SYNC_CLOSE, .set = store->id};
    tt_text settings = {0};
    if (is_open) {
        tt_text_add(&settings, "%s %s", request->policy, request->update);
        if (store->codec.codec != NULL) {
            char codec[TT_CODEC_TEXT_BYTES];
            tt_codec_print(&store->codec, codec);
            tt_text_add(&settings, " codec=%s", codec);
        }
        tt_owners_print(&store->split, store->clock, &settings);
    }
    if (settings.length == TT_TEXT_BYTES - 1) {
        tt_worker_fail_store(sync, store, TT_ERR_BAD_ARGUMENT,
                             "policy, update and codec of the store have more than 500 bytes; give "
                             "options shorter names, and each once");
        return;
    }
    memset(store->is_told, 0, store->split.owners * sizeof(*store->is_told));
    /* An owner at this rank answers inside the call; the last answer releases a closed store. */
    for (uint32_t i = 0; sync->stores[head.set] == store && i < store->split.owners; i++) {
        if (!tt_sync_send_text(sync, tt_split_rank(&store->split, i), head, settings.bytes,
                               (uint32_t)settings.length)) {
            tt_worker_fail_without_memory(sync, store, NULL);
        }
    }
    if (sync->stores[head.set] == store) {
        tt_worker_life_settle(sync, store); /* owners may all be gone */
    }
}
