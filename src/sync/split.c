/* SPDX-License-Identifier: Apache-2.0
 *
 * split.c - see split.h. */
#include "sync/split.h"

#include "base/assert.h"
#include "base/base.h"

tt_split tt_split_make(uint32_t workers, uint32_t servers)
{
    TT_ASSERT(workers > 0);
    tt_split split = {.workers = workers, .servers = servers, .grain = TT_SPLIT_GRAIN};
    split.used = (uint32_t)tt_min_u64(servers, workers);
    split.server_weight = workers > 1 ? 2 * ((uint64_t)workers - 1) : 1;
    split.worker_weight = workers - split.used;
    split.owners = split.used + (split.worker_weight > 0 ? workers : 0);
    split.weight = split.used * split.server_weight + workers * split.worker_weight;
    TT_ASSERT(split.owners > 0 && split.weight > 0);
    return split;
}

tt_split tt_split_make_hosts(uint32_t workers, uint32_t hosts, uint32_t servers)
{
    TT_ASSERT(hosts > 1 && hosts <= workers);
    tt_split split = {.workers = workers, .servers = servers, .grain = TT_SPLIT_GRAIN};
    split.used = (uint32_t)tt_min_u64(servers, hosts);
    split.server_weight = 2 * ((uint64_t)hosts - 1) * workers;
    split.worker_weight = (uint64_t)(hosts - split.used) * hosts;
    split.owners = split.used + workers;
    split.weight = split.used * split.server_weight + workers * split.worker_weight;
    TT_ASSERT(split.weight > 0);
    return split;
}

tt_split tt_split_make_of(uint32_t workers, uint32_t servers, const uint32_t *chosen,
                          uint32_t chosen_count)
{
    TT_ASSERT(chosen_count <= servers);
    tt_split split = tt_split_make(workers, chosen_count);
    split.servers = servers;
    split.chosen = chosen;
    return split;
}

uint32_t tt_split_rank(const tt_split *split, uint32_t owner)
{
    TT_ASSERT(owner < split->owners);
    if (owner >= split->used) {
        return owner - split->used;
    }
    return split->workers + (split->chosen != NULL ? split->chosen[owner] : owner);
}

uint32_t tt_split_number(const tt_split *split, uint32_t rank)
{
    const bool is_server = rank >= split->workers;
    TT_ASSERT(rank < split->workers + split->servers);
    if (is_server) {
        const uint32_t server = rank - split->workers;
        uint32_t owner = 0;
        while (split->chosen != NULL && owner < split->used && split->chosen[owner] != server) {
            owner++;
        }
        owner = split->chosen != NULL ? owner : server;
        return owner < split->used ? owner : UINT32_MAX;
    }
    return split->owners > split->used ? split->used + rank : UINT32_MAX;
}

uint32_t tt_split_heir(const tt_split *split, uint32_t owner, uint32_t part, uint32_t turn)
{
    TT_ASSERT(owner < split->owners && turn < split->owners);
    const uint32_t others = split->owners - 1;
    return turn == 0 ? owner : (owner + 1 + (part % others + turn - 1) % others) % split->owners;
}

/* Weight of the owners before this one. */
static uint64_t weight_before(const tt_split *split, uint32_t owner)
{
    const uint64_t servers = tt_min_u64(owner, split->used);
    TT_DEBUG_ASSERT(owner <= split->owners);
    return servers * split->server_weight + (owner - servers) * split->worker_weight;
}

/* Where the range of an owner begins; its end is where the next one's does. */
static uint64_t range_first(const tt_split *split, uint64_t bytes, uint32_t owner)
{
    const uint64_t grains = bytes / split->grain + (bytes % split->grain != 0);
    const uint64_t before = weight_before(split, owner);
    const uint64_t at =
        grains / split->weight * before + grains % split->weight * before / split->weight;
    return tt_min_u64(at * split->grain, bytes);
}

static uint32_t owner_of_whole(const tt_split *split, uint64_t hash)
{
    uint32_t owner = 0;
    while (weight_before(split, owner + 1) <= hash % split->weight) {
        owner++;
    }
    TT_ASSERT(owner < split->owners);
    return owner;
}

static uint64_t bytes_of_part(const tt_split *split, uint64_t bytes)
{
    const uint64_t wanted = tt_max_u64(bytes / TT_SPLIT_PARTS, TT_SPLIT_PART_BYTES_MIN);
    const uint64_t most = tt_min_u64(wanted, TT_SPLIT_PART_BYTES);
    return tt_max_u64(most / split->grain, 1) * split->grain;
}

uint32_t tt_split_cut(const tt_split *split, uint64_t hash, uint64_t bytes, tt_split_part *parts,
                      uint32_t capacity)
{
    const uint64_t part_bytes = bytes_of_part(split, bytes);
    uint32_t count = 0;
    if (bytes <= TT_SPLIT_WHOLE_BYTES) {
        if (capacity > 0) {
            parts[0] = (tt_split_part){.bytes = bytes, .owner = owner_of_whole(split, hash)};
        }
        return 1;
    }
    for (uint32_t owner = 0; owner < split->owners; owner++) {
        const uint64_t end = range_first(split, bytes, owner + 1);
        uint64_t first = range_first(split, bytes, owner);
        while (first < end) {
            const uint64_t length = tt_min_u64(end - first, part_bytes);
            if (count < capacity) {
                parts[count] = (tt_split_part){.first = first, .bytes = length, .owner = owner};
            }
            count++;
            first += length;
        }
    }
    return count;
}

/* Whose next part lies further ahead in its share: part j of c lies at (2j + 1) / 2c. */
static bool is_ahead(const tt_split_turn *one, const tt_split_turn *other)
{
    return (2 * (uint64_t)one->sent + 1) * other->count <
           (2 * (uint64_t)other->sent + 1) * one->count;
}

void tt_split_order(const tt_split *split, tt_split_parts parts, uint32_t worker,
                    tt_split_turn *turns, uint32_t *order)
{
    for (uint32_t owner = 0; owner < split->owners; owner++) {
        turns[owner] = (tt_split_turn){0};
    }
    for (uint32_t i = parts.count; i-- > 0;) {
        turns[parts.list[i].owner].next = i;
        turns[parts.list[i].owner].count++;
    }
    for (uint32_t i = 0; i < parts.count; i++) {
        tt_split_turn *first = NULL;
        for (uint32_t k = 0; k < split->owners; k++) {
            tt_split_turn *turn = &turns[(worker + k) % split->owners];
            if (turn->sent < turn->count && (first == NULL || is_ahead(turn, first))) {
                first = turn;
            }
        }
        TT_ASSERT(first != NULL);
        order[i] = first->next++;
        first->sent++;
    }
}
