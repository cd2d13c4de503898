/* SPDX-License-Identifier: Apache-2.0
 *
 * set.c - process sets: members, their hosts, their numbering. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/any.h"
#include "control/named/name.h"

bool tt_set_is_future(const tt_control *control, uint32_t id)
{
    return id >= control->next_set && id < TT_SET_KEYED;
}

static void set_link(tt_control *control, tt_set *set)
{
    tt_set **bucket = &control->set_buckets[set->id % SET_BUCKETS];
    TT_ASSERT(tt_set_find(control, set->id) == NULL);
    set->next_in_bucket = *bucket;
    *bucket = set;
    set->next = control->sets;
    if (set->next != NULL) {
        set->next->previous = set;
    }
    control->sets = set;
}

void tt_set_unlink(tt_control *control, tt_set *set)
{
    tt_set **link = &control->set_buckets[set->id % SET_BUCKETS];
    TT_ASSERT((set->previous == NULL) == (control->sets == set));
    while (*link != set) {
        link = &(*link)->next_in_bucket;
    }
    *link = set->next_in_bucket;
    if (set->next != NULL) {
        set->next->previous = set->previous;
    }
    *(set->previous != NULL ? &set->previous->next : &control->sets) = set->next;
}

static size_t topology_bytes(uint32_t size)
{
    return (4 * (size_t)size + 1) * sizeof(uint32_t);
}

/* Number the hosts by first appearance and list their members together. */
static void topology_build(const tt_control *control, tt_set *set)
{
    uint32_t *host_of = set->topology_memory;
    uint32_t *local_of = host_of + set->size;
    uint32_t *host_members = local_of + set->size;
    uint32_t *host_first = host_members + set->size; /* [host_count + 1] */
    uint32_t host_count = 0, placed = 0, rails = UINT32_MAX;
    for (uint32_t i = 0; i < set->size; i++) {
        host_of[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < set->size; i++) {
        if (host_of[i] != UINT32_MAX) {
            continue;
        }
        host_first[host_count] = placed;
        for (uint32_t j = i; j < set->size; j++) {
            if (control->host_of[set->members[j]] == control->host_of[set->members[i]]) {
                host_of[j] = host_count;
                local_of[j] = placed - host_first[host_count];
                host_members[placed++] = j;
            }
        }
        rails = (uint32_t)tt_min_u64(rails, placed - host_first[host_count]);
        host_count++;
    }
    host_first[host_count] = placed;
    TT_ASSERT(placed == set->size);
    if (control->world.rail_max > 0) {
        rails = (uint32_t)tt_min_u64(rails, control->world.rail_max);
    }
    TT_ASSERT(rails > 0);
    set->topology = (tt_topology){.host_count = host_count,
                                  .rail_count = rails,
                                  .host_of = host_of,
                                  .local_of = local_of,
                                  .host_first = host_first,
                                  .host_members = host_members,
                                  .has_views = control->world.has_views,
                                  .is_crowded = control->world.is_crowded};
}

static tt_status set_allocate(tt_control *control, uint32_t size, tt_set **set_out)
{
    tt_platform *platform = control->platform;
    tt_set *set = tt_platform_allocate(platform, sizeof(*set));
    if (set == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    set->size = size;
    set->control = control;
    set->shut_ns = UINT64_MAX;
    tt_order_init(&set->calls);
    for (uint32_t i = 0; i < ENGINE_ORDERS; i++) {
        set->engine[i].end = &set->engine[i].ops;
    }
    tt_op_queue_init(&set->pair_queue, tt_pair_pump);
    set->members = tt_platform_allocate(platform, size * sizeof(uint32_t));
    set->member_of = tt_platform_allocate(platform, control->world.size * sizeof(uint32_t));
    set->topology_memory = tt_platform_allocate(platform, topology_bytes(size));
    set->pair_next = tt_platform_allocate(platform, 2 * (size_t)size * sizeof(uint64_t));
    set->pair_open = tt_platform_allocate(platform, 2 * (size_t)size * sizeof(uint32_t));
    set->farewell = tt_platform_allocate(platform, sizeof(*set->farewell));
    if (set->pair_open == NULL || set->farewell == NULL || set->members == NULL ||
        set->member_of == NULL || set->topology_memory == NULL || set->pair_next == NULL) {
        tt_set_destroy(control, set);
        return TT_ERR_NO_MEMORY;
    }
    *set_out = set;
    return TT_OK;
}

void tt_set_destroy(tt_control *control, tt_set *set)
{
    tt_platform *platform = control->platform;
    TT_ASSERT(set->pairs == NULL);
    TT_ASSERT(set->calls.queue.first == NULL);
    TT_ASSERT(set->join == NULL);
    tt_planned_release_all(control, set);
    tt_bid_forget_all(control, set);
    tt_order_destroy(control, set->agreed);
    tt_order_forget(control, &set->calls);
    tt_recipe_forget_set(control, set);
    tt_feedback_forget_set(control, set);
    tt_platform_release(platform, set->members, set->size * sizeof(uint32_t));
    tt_platform_release(platform, set->member_of, control->world.size * sizeof(uint32_t));
    tt_platform_release(platform, set->topology_memory, topology_bytes(set->size));
    tt_pair_release_tags(set);
    tt_any_release_set(set);
    tt_platform_release(platform, set->pair_next, 2 * (size_t)set->size * sizeof(uint64_t));
    tt_platform_release(platform, set->pair_open, 2 * (size_t)set->size * sizeof(uint32_t));
    tt_platform_release(platform, set->farewell, sizeof(*set->farewell));
    tt_platform_release(platform, set, sizeof(*set));
}

tt_status tt_control_set_prepare(tt_control *control, const uint32_t *ranks, uint32_t rank_count,
                                 tt_set **set_out)
{
    if (rank_count == 0 || rank_count > control->world.size) {
        return TT_ERR_BAD_ARGUMENT;
    }
    tt_set *set;
    TT_TRY(set_allocate(control, rank_count, &set));
    memset(set->member_of, 0xff, control->world.size * sizeof(uint32_t));
    for (uint32_t i = 0; i < rank_count; i++) {
        if (ranks[i] >= control->world.size || set->member_of[ranks[i]] != UINT32_MAX) {
            tt_set_destroy(control, set);
            return TT_ERR_BAD_ARGUMENT;
        }
        set->members[i] = ranks[i];
        set->member_of[ranks[i]] = i;
    }
    set->self = set->member_of[control->world.rank];
    TT_ASSERT(set->self == UINT32_MAX || set->self < rank_count);
    topology_build(control, set);
    set->is_host_wide = set->topology.host_count == 1 && set->topology.has_views &&
                        set->size == control->world.size;
    tt_set_choose(control, set);
    *set_out = set;
    return TT_OK;
}

void tt_control_set_drop(tt_control *control, tt_set *set)
{
    TT_ASSERT(tt_set_find(control, set->id) != set); /* prepared, and not committed */
    tt_set_destroy(control, set);
}

static void commit(tt_control *control, tt_set *set, uint32_t id)
{
    TT_ASSERT(set->phase == SET_OPEN);
    set->id = id;
    set_link(control, set);
    for (uint32_t i = 0; i < set->size; i++) {
        const uint32_t rank = set->members[i];
        if (control->peers[rank].is_gone) {
            tt_text text = {0};
            tt_text_add(&text, "rank %u is down", rank);
            set->broken = control->peers[rank].status;
            memcpy(set->broken_text, text.bytes, sizeof(set->broken_text));
        }
    }
    if (control->is_starved) {
        tt_text text = {0};
        tt_name_say_starved(control, &text);
        set->broken = TT_ERR_NO_MEMORY;
        memcpy(set->broken_text, text.bytes, sizeof(set->broken_text));
    }
    tt_notice_replay(control, set);
}

uint32_t tt_control_set_commit(tt_control *control, tt_set *set)
{
    TT_ASSERT(control->next_set < TT_SET_KEYED);
    commit(control, set, control->next_set++);
    TT_ASSERT(!tt_set_is_future(control, set->id));
    return set->id;
}

uint32_t tt_control_set_commit_keyed(tt_control *control, tt_set *set, uint32_t id)
{
    if ((id & TT_SET_KEYED) == 0 || tt_set_find(control, id) != NULL) {
        return 0;
    }
    commit(control, set, id);
    return id;
}

tt_status tt_control_set_create(tt_control *control, const uint32_t *ranks, uint32_t rank_count,
                                uint32_t *set_out)
{
    tt_set *set;
    TT_TRY(tt_control_set_prepare(control, ranks, rank_count, &set));
    *set_out = tt_control_set_commit(control, set);
    return TT_OK;
}

int tt_control_set_rank(const tt_control *control, uint32_t id)
{
    const tt_set *set = tt_set_find(control, id);
    return set == NULL || set->phase != SET_OPEN || set->self == UINT32_MAX ? -1 : (int)set->self;
}

int tt_control_set_size(const tt_control *control, uint32_t id)
{
    const tt_set *set = tt_set_find(control, id);
    return set == NULL || set->phase != SET_OPEN ? -1 : (int)set->size;
}
