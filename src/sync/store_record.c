/* SPDX-License-Identifier: Apache-2.0
 *
 * store_record.c - a worker's records of stores and tensors: made, found, released. */
#include <string.h>

#include "base/assert.h"
#include "kernel/hash64.h"
#include "sync/keep/owners.h"
#include "sync/rows/rows.h"
#include "sync/store_coded.h"
#include "sync/sync_internal.h"

tt_worker_key *tt_worker_find_name(const tt_worker_store *store, const char *name)
{
    const uint64_t id = tt_hash64(name, strlen(name), 0);
    tt_worker_key *key = store->buckets[id % WORKER_BUCKETS];
    while (key != NULL && strcmp(key->name, name) != 0) {
        key = key->next;
    }
    return key;
}

tt_worker_key *tt_worker_find_id(const tt_worker_store *store, uint64_t id)
{
    tt_worker_key *key = store->buckets[id % WORKER_BUCKETS];
    while (key != NULL && key->id != id) {
        key = key->next;
    }
    return key;
}

static void key_release(tt_sync *sync, tt_worker_key *key)
{
    sync->keys[key->index] = NULL;
    sync->keys_released++;
    tt_coded_key_release(sync, key);
    tt_platform_release(sync->platform, key->parts, key->part_count * sizeof(*key->parts));
    tt_platform_release(sync->platform, key->order, key->part_count * sizeof(*key->order));
    tt_platform_release(sync->platform, key->is_told,
                        key->store->split.owners * sizeof(*key->is_told));
    tt_platform_release(sync->platform, key, sizeof(*key));
}

void tt_worker_key_release(tt_sync *sync, tt_worker_key *key)
{
    tt_worker_key **link = &key->store->buckets[key->id % WORKER_BUCKETS];
    TT_ASSERT(key->queue.first == NULL);
    while (*link != key) {
        link = &(*link)->next;
    }
    *link = key->next;
    key_release(sync, key);
}

void tt_worker_store_release(tt_sync *sync, tt_worker_store *store)
{
    tt_platform *platform = sync->platform;
    const uint32_t owners = store->split.owners;
    for (uint32_t i = 0; store->buckets != NULL && i < WORKER_BUCKETS; i++) {
        while (store->buckets[i] != NULL) {
            tt_worker_key *key = store->buckets[i];
            store->buckets[i] = key->next;
            key_release(sync, key);
        }
    }
    tt_platform_release(platform, store->buckets, WORKER_BUCKETS * sizeof(*store->buckets));
    tt_platform_release(platform, store->pushes, owners * sizeof(*store->pushes));
    tt_platform_release(platform, store->is_told, owners * sizeof(*store->is_told));
    sync->stores[store->id] = NULL;
    tt_owners_release(sync, &store->split);
    tt_platform_release(platform, store, sizeof(*store));
}

void tt_worker_release_all(tt_sync *sync)
{
    for (uint32_t i = 0; i < TT_STORES_MAX; i++) {
        if (sync->stores[i] != NULL) {
            tt_worker_store_release(sync, sync->stores[i]);
        }
    }
}

tt_worker_store *tt_worker_store_make(tt_sync *sync, uint32_t id, const tt_split *split)
{
    tt_platform *platform = sync->platform;
    const uint32_t owners = split->owners;
    tt_worker_store *store = tt_platform_allocate(platform, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    store->id = id;
    store->split = *split;
    sync->stores[id] = store;
    store->buckets = tt_platform_allocate(platform, WORKER_BUCKETS * sizeof(*store->buckets));
    store->pushes = tt_platform_allocate(platform, owners * sizeof(*store->pushes));
    store->is_told = tt_platform_allocate(platform, owners * sizeof(*store->is_told));
    if (store->buckets == NULL || store->pushes == NULL || store->is_told == NULL) {
        store->split.chosen = NULL; /* stays the caller's */
        tt_worker_store_release(sync, store);
        return NULL;
    }
    return store;
}

tt_worker_key *tt_worker_key_make(tt_sync *sync, tt_worker_store *store,
                                  const tt_sync_request *request, uint64_t id)
{
    const uint64_t bytes = request->count * tt_dtype_bytes(request->dtype);
    const size_t turn_bytes = store->split.owners * sizeof(tt_split_turn);
    tt_split_part *places = NULL;
    tt_worker_key *key = tt_platform_allocate(sync->platform, sizeof(*key));
    if (key == NULL ||
        tt_sync_grow(sync, (void ***)&sync->keys, sync->key_count, &sync->key_capacity) != TT_OK) {
        tt_platform_release(sync->platform, key, sizeof(*key));
        return NULL;
    }
    *key = (tt_worker_key){.store = store,
                           .id = id,
                           .dtype = request->dtype,
                           .count = request->count,
                           .claim = {.count = request->count,
                                     .dtype = (uint8_t)request->dtype,
                                     .row_elements = request->row_elements}};
    memcpy(key->name, request->name, strlen(request->name) + 1);
    key->index = tt_sync_free_index((void **)sync->keys, &sync->key_count, &sync->keys_released);
    sync->keys[key->index] = key;
    key->is_coded = tt_coded_applies(&store->codec, &key->claim);
    const tt_split whole = tt_rows_split(&store->split, &key->claim);
    const tt_split split = tt_coded_split(&whole, &store->codec, key->is_coded);
    key->part_count = tt_split_cut(&split, id, bytes, NULL, 0);
    const size_t place_bytes = key->part_count * sizeof(*places);
    places = tt_platform_allocate(sync->platform, place_bytes);
    key->parts = tt_platform_allocate(sync->platform, key->part_count * sizeof(*key->parts));
    key->is_told =
        tt_platform_allocate(sync->platform, store->split.owners * sizeof(*key->is_told));
    key->order = tt_platform_allocate(sync->platform, key->part_count * sizeof(*key->order));
    tt_split_turn *turns = tt_platform_allocate(sync->platform, turn_bytes);
    if (places == NULL || key->parts == NULL || key->is_told == NULL || key->order == NULL ||
        turns == NULL) {
        tt_platform_release(sync->platform, turns, turn_bytes);
        tt_platform_release(sync->platform, places, place_bytes);
        key_release(sync, key);
        return NULL;
    }
    (void)tt_split_cut(&split, id, bytes, places, key->part_count);
    for (uint32_t i = 0; i < key->part_count; i++) {
        key->parts[i].place = places[i];
        key->parts[i].home = places[i].owner;
    }
    const tt_split_parts cut = {.list = places, .count = key->part_count};
    tt_split_order(&store->split, cut, sync->roles.rank, turns, key->order);
    key->handed = key->part_count;
    tt_platform_release(sync->platform, turns, turn_bytes);
    tt_platform_release(sync->platform, places, place_bytes);
    if (key->is_coded && tt_coded_key_make(sync, key) != TT_OK) {
        key_release(sync, key);
        return NULL;
    }
    key->next = store->buckets[id % WORKER_BUCKETS];
    store->buckets[id % WORKER_BUCKETS] = key;
    return key;
}
