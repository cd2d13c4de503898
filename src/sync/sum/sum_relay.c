/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_relay.c - sums of hosts, pushed by one of their workers; see sum_relay.h. */
#include "sync/sum/sum_relay.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "sync/sum/sum_owner.h"
#include "sync/sync_internal.h"

/* ---- hosts ---- */

static uint32_t count_hosts(const tt_roles *roles)
{
    uint32_t hosts = 0;
    for (uint32_t i = 0; roles->hosts != NULL && i < roles->workers; i++) {
        hosts = (uint32_t)tt_max_u64(hosts, roles->hosts[i] + 1);
    }
    TT_ASSERT(hosts <= roles->workers);
    return hosts;
}

static size_t table_bytes(const tt_relays *relays)
{
    return (3 * (size_t)relays->workers + relays->hosts + 1) * sizeof(uint32_t);
}

static void fill_tables(tt_relays *relays, const uint32_t *hosts)
{
    relays->place = relays->host + relays->workers;
    relays->members = relays->place + relays->workers;
    relays->first = relays->members + relays->workers;
    memcpy(relays->host, hosts, relays->workers * sizeof(*hosts));
    uint32_t at = 0;
    for (uint32_t host = 0; host < relays->hosts; host++) {
        relays->first[host] = at;
        for (uint32_t i = 0; i < relays->workers; i++) {
            if (hosts[i] == host) {
                relays->place[i] = at - relays->first[host];
                relays->members[at++] = i;
            }
        }
        TT_ASSERT(at > relays->first[host]); /* every host has a worker */
    }
    relays->first[relays->hosts] = at;
}

tt_status tt_relays_make(tt_platform *platform, const tt_roles *roles, tt_relays **relays_out)
{
    const uint32_t hosts = count_hosts(roles);
    *relays_out = NULL;
    if (hosts <= 1 || hosts == roles->workers) {
        return TT_OK;
    }
    tt_relays *relays = tt_platform_allocate(platform, sizeof(*relays));
    if (relays == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    relays->workers = roles->workers;
    relays->hosts = hosts;
    relays->own_host = roles->rank < roles->workers ? roles->hosts[roles->rank] : UINT32_MAX;
    relays->host = tt_platform_allocate(platform, table_bytes(relays));
    if (relays->host == NULL) {
        tt_relays_release(platform, relays);
        return TT_ERR_NO_MEMORY;
    }
    fill_tables(relays, roles->hosts);
    *relays_out = relays;
    return TT_OK;
}

void tt_relays_release(tt_platform *platform, tt_relays *relays)
{
    if (relays != NULL) {
        tt_platform_release(platform, relays->host, table_bytes(relays));
        tt_platform_release(platform, relays, sizeof(*relays));
    }
}

static uint32_t size_of(const tt_relays *relays, uint32_t host)
{
    TT_DEBUG_ASSERT(host < relays->hosts);
    return relays->first[host + 1] - relays->first[host];
}

/* As tt_relay_of, of a host. */
static uint32_t relay_on(const tt_relays *relays, uint32_t host, uint32_t owner, uint32_t number)
{
    if (owner < relays->workers && relays->host[owner] == host) {
        return owner;
    }
    return relays->members[relays->first[host] + number % size_of(relays, host)];
}

uint32_t tt_relay_of(const tt_relays *relays, uint32_t worker, uint32_t owner, uint32_t number)
{
    TT_ASSERT(worker < relays->workers);
    return relay_on(relays, relays->host[worker], owner, number);
}

/* ---- places of pushes ---- */

static const tt_relays *relays_of(const tt_owner_part *part)
{
    return part->key->store->relays;
}

uint32_t tt_relay_rooms(const tt_owner_part *part)
{
    const tt_relays *relays = relays_of(part);
    TT_ASSERT(relays != NULL);
    return part->is_relay ? size_of(relays, relays->own_host) : relays->hosts;
}

uint32_t tt_relay_room(const tt_owner_part *part, uint32_t worker)
{
    const tt_relays *relays = relays_of(part);
    return part->is_relay ? relays->place[worker] : relays->host[worker];
}

uint32_t tt_relay_source(const tt_owner_part *part, uint32_t i)
{
    const tt_relays *relays = relays_of(part);
    if (i >= tt_relay_rooms(part)) {
        return UINT32_MAX;
    }
    return part->is_relay ? relays->members[relays->first[relays->own_host] + i]
                          : relay_on(relays, i, part->owner, part->number);
}

static bool is_absent(const tt_owner_part *part, uint32_t worker)
{
    return tt_sum_is_absent(part->key, worker) &&
           !(part->is_relay && TT_PLANT(RELAY_COUNTS_JOINED));
}

/* (2) */
static bool host_is_absent(const tt_owner_part *part, uint32_t host)
{
    const tt_relays *relays = relays_of(part);
    bool is_gone = true;
    for (uint32_t i = relays->first[host]; i < relays->first[host + 1]; i++) {
        is_gone = is_gone && is_absent(part, relays->members[i]);
    }
    return is_gone;
}

bool tt_relay_is_complete(const tt_owner_part *part)
{
    const uint32_t rooms = tt_relay_rooms(part);
    bool is_complete = true;
    for (uint32_t i = 0; i < rooms && is_complete; i++) {
        const uint32_t worker = tt_relay_source(part, i);
        is_complete = part->slots[worker].phase == TT_SLOT_FULL ||
                      (part->is_relay ? is_absent(part, worker) : host_is_absent(part, i));
    }
    return is_complete;
}

/* ---- parts ---- */

tt_status tt_relay_make_parts(tt_sync *sync, tt_owner_key *key, const tt_split_part *places,
                              uint32_t count)
{
    const tt_relays *relays = key->store->relays;
    const uint32_t self = sync->roles.rank;
    uint32_t own = 0;
    if (relays == NULL || relays->own_host == UINT32_MAX) {
        return TT_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t owner = tt_split_rank(&key->store->split, places[i].owner);
        own += tt_relay_of(relays, self, owner, i) == self ? 1 : 0;
    }
    key->relayed =
        own > 0 ? tt_platform_allocate(sync->platform, own * sizeof(*key->relayed)) : NULL;
    if (own > 0 && key->relayed == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    key->relayed_count = own;
    for (uint32_t i = 0, at = 0; i < count; i++) {
        const uint32_t owner = tt_split_rank(&key->store->split, places[i].owner);
        if (tt_relay_of(relays, self, owner, i) == self) {
            tt_owner_part *part = &key->relayed[at++];
            part->is_relay = true;
            TT_TRY(tt_owner_part_make(sync, key, part, &places[i], i));
        }
    }
    return TT_OK;
}

void tt_relay_release_parts(tt_sync *sync, tt_owner_key *key)
{
    for (uint32_t i = 0; i < key->relayed_count; i++) {
        tt_owner_part_release(sync, &key->relayed[i]);
    }
    tt_platform_release(sync->platform, key->relayed, key->relayed_count * sizeof(*key->relayed));
    key->relayed = NULL;
    key->relayed_count = 0;
}

static tt_owner_part *find_relayed(tt_owner_key *key, uint32_t number)
{
    uint32_t low = 0, high = key->relayed_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (key->relayed[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < key->relayed_count && key->relayed[low].number == number ? &key->relayed[low]
                                                                          : NULL;
}

tt_owner_part *tt_relay_find(tt_owner_key *key, uint32_t worker, const tt_head *head)
{
    const tt_relays *relays = key->store->relays;
    const uint32_t host = relays->host[worker];
    if ((head->flags & TT_SYNC_FLAG_HOST) == 0) {
        return host == relays->own_host ? find_relayed(key, head->lane) : NULL;
    }
    tt_owner_part *part = tt_owner_find_part(key, head->lane);
    const bool can_send = part != NULL && head->round > 0 && head->round <= size_of(relays, host) &&
                          relay_on(relays, host, part->owner, head->lane) == worker;
    return can_send ? part : NULL;
}

/* ---- to the owner and back ---- */

static uint64_t token_of(const tt_sync *sync, const tt_owner_part *part)
{
    return tt_answer_token(part->index, sync->roles.workers, 0); /* no worker has this number */
}

static uint8_t *next_value(const tt_owner_part *part)
{
    return part->values[1 - part->current];
}

void tt_relay_push(tt_sync *sync, tt_owner_part *part)
{
    TT_ASSERT(part->is_relay && !part->is_up && !part->is_up_lent);
    part->is_up = true;
    part->ups++;
    const tt_head head = {.kind = TT_SYNC_PUSH,
                          .flags = TT_SYNC_FLAG_ANSWER | TT_SYNC_FLAG_HOST,
                          .set = TT_STORE_SUMS,
                          .op = part->key->id,
                          .lane = part->number,
                          .round = part->sum_ranks,
                          .stage = (uint16_t)(int16_t)part->urgency,
                          .descriptor = part->ups,
                          .argument = part->ups};
    tt_send send = {.peer = part->owner,
                    .urgency = part->urgency,
                    .age = part->age,
                    .token = token_of(sync, part),
                    .payload = next_value(part)};
    part->is_up_lent = tt_sync_send(sync, &send, head, (uint32_t)part->bytes) == TT_IN_PROGRESS;
    if (TT_PLANT(RELAY_ANSWERS_EARLY)) {
        tt_relay_payload(sync, part);
    }
}

void tt_relay_payload(tt_sync *sync, tt_owner_part *part)
{
    part->is_up = part->is_up_arriving = false;
    tt_owner_sum_done(sync, part);
    tt_owner_due(sync, part);
}

void *tt_relay_value(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload)
{
    const tt_owner_store *store = head->set == TT_STORE_SUMS ? sync->owned[TT_STORE_SUMS] : NULL;
    tt_owner_key *key = store != NULL ? tt_owner_find_key(store, head->op) : NULL;
    tt_owner_part *part = key != NULL ? find_relayed(key, head->lane) : NULL;
    if (part == NULL || !part->is_up || part->is_up_arriving || part->owner != peer ||
        head->descriptor != part->ups || head->payload_bytes != part->bytes) {
        return NULL; /* a second copy */
    }
    if (payload == NULL) {
        part->is_up_arriving = true;
        sync->arriving[peer].part = part;
        return next_value(part);
    }
    if (part->bytes > 0) {
        memcpy(next_value(part), payload, part->bytes);
    }
    tt_relay_payload(sync, part);
    return NULL;
}

void tt_relay_sent(tt_owner_part *part)
{
    TT_ASSERT(part->is_up_lent);
    part->is_up_lent = false;
}

void tt_relay_withdraw(tt_sync *sync, tt_owner_part *part)
{
    if (part->is_up_lent) {
        sync->platform->ops->recall(sync->platform, part->owner, token_of(sync, part));
        part->is_up_lent = false;
    }
    if (part->is_up_arriving) {
        sync->arriving[part->owner] = (tt_arriving){.part = NULL};
        part->is_up_arriving = false;
        if (!sync->is_gone[part->owner]) {
            sync->platform->ops->discard(sync->platform, part->owner);
        }
    }
}

void tt_relay_peer_out(tt_sync *sync, uint32_t peer)
{
    for (uint32_t i = 0; i < sync->part_count; i++) {
        tt_owner_part *part = sync->parts[i];
        if (part != NULL && part->is_relay && part->owner == peer) {
            tt_relay_withdraw(sync, part);
        }
    }
}

/* ---- workers that have left a key ---- */

void tt_relay_check_moved(tt_sync *sync, tt_owner_key *key)
{
    tt_owner_part *first = find_relayed(key, 0);
    uint64_t least = UINT64_MAX, most = 0;
    if (first == NULL || TT_PLANT(RELAY_HOLDS_IN_SILENCE)) {
        return;
    }
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        const tt_sum_member *member = &key->members[i];
        least = member->has_moved ? tt_min_u64(least, member->moved) : least;
        most = tt_max_u64(most, first->slots[i].pushes);
    }
    if (most > least && most > first->held) {
        const tt_head head = {
            .kind = TT_SYNC_HELD, .set = TT_STORE_SUMS, .op = key->id, .argument = most};
        first->held = most;
        tt_sync_signal(sync, first->owner, head);
    }
}
