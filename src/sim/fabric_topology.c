/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_topology.c - see fabric_topology.h. */
#include "sim/fabric_topology.h"

#include "base/assert.h"
#include "base/base.h"

tt_status tt_fabric_places_make(const tt_fabric_config *config, const tt_allocator *allocator,
                                tt_fabric_places *places_out)
{
    const uint32_t ranks = config->rank_count, per_host = config->ranks_per_host;
    TT_ASSERT(ranks > 0 && per_host > 0);
    const uint32_t hosts = (ranks + per_host - 1) / per_host;
    const uint32_t smallest = ranks - (hosts - 1) * per_host;
    const size_t count = 3 * (size_t)ranks + hosts + 1;
    uint32_t *numbers = tt_allocate(allocator, count, sizeof(*numbers));
    if (numbers == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    uint32_t *host_of = numbers, *local_of = host_of + ranks, *members = local_of + ranks;
    uint32_t *first = members + ranks;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        host_of[rank] = rank / per_host;
        local_of[rank] = rank % per_host;
        members[rank] = rank;
    }
    for (uint32_t host = 0; host <= hosts; host++) {
        first[host] = (uint32_t)tt_min_u64((uint64_t)host * per_host, ranks);
    }
    *places_out = (tt_fabric_places){
        .topology = {.host_count = hosts,
                     .rail_count = (uint32_t)tt_min_u64(config->cards_per_host, smallest),
                     .host_of = host_of,
                     .local_of = local_of,
                     .host_first = first,
                     .host_members = members,
                     .has_views = per_host > 1},
        .numbers = numbers,
        .number_count = count,
        .allocator = allocator,
    };
    return TT_OK;
}

void tt_fabric_places_release(tt_fabric_places *places)
{
    tt_release(places->allocator, places->numbers, places->number_count, sizeof(*places->numbers));
    *places = (tt_fabric_places){.numbers = NULL};
}
