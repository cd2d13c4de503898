/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c - ranks of the simulated cluster and their platform's table; see sim.h. */
#include "platform/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/base.h"
#include "platform/sim_internal.h"

void tt_sim_config_init(tt_sim_config *config)
{
    *config = (tt_sim_config){
        .size = 1,
        .latency_ns = 20 * 1000,
        .local_latency_ns = 500,
        .jitter_ns = 2000,
        .bytes_per_us = 1250,
        .local_bytes_per_us = 5000,
        .upcall_ns = 100,
        .work_bytes_per_us = 8000,
        .code_bytes_per_us = 4000,
        .detect_ns = 1000 * 1000,
        .silence_ns = UINT64_C(2000) * 1000 * 1000,
        .borrow = 500,
        .noise = {.spike_ns = 5 * 1000 * 1000, .resend_ns = UINT64_C(200) * 1000 * 1000},
    };
}

/* ---- downcalls ---- */

static tt_sim_rank *rank_of(tt_platform *platform)
{
    return (tt_sim_rank *)platform;
}

static uint64_t sim_now(tt_platform *platform)
{
    return rank_of(platform)->now;
}

static uint64_t sim_random(tt_platform *platform)
{
    return tt_random_u64(&rank_of(platform)->random);
}

/* Region of phantom memory in a place: that of every rank. */
static const uint32_t phantom_region = UINT32_MAX;

/* The machines' own need more room than callers', for they stage lanes. */
static const uint64_t phantom_quarter_min = UINT64_C(1) << 34;

static void *allocate_phantom(tt_sim_rank *rank, tt_memory_kind kind, size_t bytes)
{
    TT_ASSERT(bytes <= rank->base.phantom_bytes / 4);
    if (!tt_local_admit(&rank->local, bytes)) {
        return NULL;
    }
    rank->phantom_bytes += bytes;
    return tt_phantom_memory(&rank->base, kind);
}

static bool is_shared_phantom(const tt_platform *platform, const void *memory)
{
    const uint64_t quarter = platform->phantom_bytes / 4;
    return tt_is_phantom(platform, memory) &&
           ((uintptr_t)memory - platform->phantom_first) / quarter % 2 == 1;
}

static void *sim_allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    tt_sim_rank *rank = rank_of(platform);
    if ((kind & TT_MEMORY_SHARED) != 0 && !rank->sim->config.has_views) {
        return NULL;
    }
    return (kind & TT_MEMORY_PHANTOM) != 0 ? allocate_phantom(rank, kind, bytes)
                                           : tt_local_allocate(&rank->local, kind, bytes);
}

static void sim_release(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    if (tt_is_phantom(platform, memory)) {
        tt_local_dismiss(&rank_of(platform)->local, bytes);
        rank_of(platform)->phantom_bytes -= bytes;
        return;
    }
    tt_local_release(&rank_of(platform)->local, kind, memory, bytes);
}

static void sim_timer(tt_platform *platform, uint64_t at_ns)
{
    tt_sim_rank *rank = rank_of(platform);
    if (at_ns == UINT64_MAX) {
        if (rank->timer != NULL) {
            tt_sim_event_drop(rank->sim, rank->timer);
            rank->timer = NULL;
        }
    } else if (rank->timer != NULL) {
        tt_sim_event_move(rank->sim, rank->timer, at_ns);
    } else {
        rank->timer = tt_sim_event_add(rank->sim, TT_SIM_TIMER, rank->rank, at_ns);
    }
}

static tt_status sim_send(tt_platform *platform, const tt_send *send)
{
    tt_sim_rank *rank = rank_of(platform);
    if (send->peer == TT_PEER_HOST) {
        return rank->life == TT_SIM_ALIVE ? tt_sim_link_post(rank->sim, rank->rank, send)
                                          : TT_ERR_UNSUPPORTED;
    }
    TT_ASSERT(send->peer < rank->sim->config.size);
    TT_ASSERT(send->peer != rank->rank);
    if (rank->life != TT_SIM_ALIVE) {
        return TT_ERR_SHUT_DOWN; /* its machine is being destroyed */
    }
    return tt_sim_link_send(rank->sim, rank->rank, send);
}

static void sim_recall(tt_platform *platform, uint32_t peer, uint64_t token)
{
    tt_sim_rank *rank = rank_of(platform);
    tt_sim_link_recall(rank->sim, rank->rank, peer, token);
}

static void sim_discard(tt_platform *platform, uint32_t peer)
{
    tt_sim_rank *rank = rank_of(platform);
    tt_sim_link *link = tt_sim_link_find(rank->sim, peer, rank->rank);
    if (link != NULL && link->arriving != NULL) {
        link->arriving->is_discarded = true;
    }
}

static void *sim_view(tt_platform *platform, uint32_t peer, tt_place place, size_t bytes)
{
    tt_sim *sim = rank_of(platform)->sim;
    const bool is_near = sim->host_of[peer] == sim->host_of[rank_of(platform)->rank];
    if (place.region == phantom_region) {
        const bool is_there = sim->config.has_views && is_near &&
                              place.offset <= sim->phantom_bytes &&
                              bytes <= sim->phantom_bytes - place.offset;
        return is_there ? sim->phantom + place.offset : NULL;
    }
    return sim->config.has_views && is_near ? tt_local_view(&sim->ranks[peer].local, place, bytes)
                                            : NULL;
}

static bool sim_locate(tt_platform *platform, const void *memory, size_t bytes, tt_place *place_out)
{
    if (tt_is_phantom(platform, memory)) {
        *place_out = (tt_place){.region = phantom_region,
                                .offset = (uintptr_t)memory - platform->phantom_first};
        return is_shared_phantom(platform, memory) && rank_of(platform)->sim->config.has_views;
    }
    return tt_local_locate(&rank_of(platform)->local, memory, bytes, place_out);
}

static void sim_spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    tt_sim_rank *rank = rank_of(platform);
    const tt_sim_config *config = &rank->sim->config;
    const bool is_code = kind == TT_SPEND_CODE;
    tt_sim_network *network = config->network;
    if (network != NULL) {
        const uint64_t all = (uint64_t)bytes * times;
        rank->busy_until =
            all > 0 ? network->ops->work(network, rank->rank, kind, all, rank->busy_until)
                    : rank->busy_until;
        return;
    }
    /* Here a sum of many costs as much as one of two. */
    rank->busy_until +=
        bytes * 1000 / (is_code ? config->code_bytes_per_us : config->work_bytes_per_us);
}

static bool sim_can_launch(tt_platform *platform, const tt_launch *launch)
{
    return tt_sim_can_launch(rank_of(platform)->sim, launch);
}

static void sim_launch(tt_platform *platform, const tt_launch *launch)
{
    tt_sim_rank *rank = rank_of(platform);
    tt_sim_launch(rank->sim, rank->rank, launch, rank->busy_until);
}

static const tt_platform_ops sim_ops = {
    .now = sim_now,
    .random = sim_random,
    .allocate = sim_allocate,
    .release = sim_release,
    .timer = sim_timer,
    .send = sim_send,
    .recall = sim_recall,
    .discard = sim_discard,
    .view = sim_view,
    .locate = sim_locate,
    .spend = sim_spend,
};

static const tt_platform_ops sim_engine_ops = {
    .now = sim_now,
    .random = sim_random,
    .allocate = sim_allocate,
    .release = sim_release,
    .timer = sim_timer,
    .send = sim_send,
    .recall = sim_recall,
    .discard = sim_discard,
    .view = sim_view,
    .locate = sim_locate,
    .spend = sim_spend,
    .can_launch = sim_can_launch,
    .launch = sim_launch,
};

/* ---- life ---- */

static void rank_init(tt_sim *sim, uint32_t number)
{
    tt_sim_rank *rank = &sim->ranks[number];
    rank->base.ops = sim->config.engine.collective_ns != NULL ? &sim_engine_ops : &sim_ops;
    rank->base.phantom_first = (uintptr_t)sim->phantom;
    rank->base.phantom_bytes = sim->phantom_bytes;
    rank->sim = sim;
    rank->rank = number;
    rank->now = rank->busy_until = 1;
    tt_random_init(&rank->random, sim->config.seed, 1000 + (uint64_t)number);
    tt_local_init(&rank->local, &sim->shortage);
}

/* Nothing can be read or written there. */
static void reserve_phantom(tt_sim *sim)
{
    const uint64_t quarter =
        tt_max_u64(tt_round_up(sim->config.phantom_bytes, 4096), phantom_quarter_min);
    void *memory =
        mmap(NULL, 4 * quarter, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TT_ASSERT(memory != MAP_FAILED); /* a test driver cannot recover */
    sim->phantom = memory;
    sim->phantom_bytes = 4 * quarter;
}

tt_sim *tt_sim_create(const tt_sim_config *config)
{
    TT_ASSERT(config->size > 0);
    TT_ASSERT(config->bytes_per_us > 0 && config->local_bytes_per_us > 0);
    TT_ASSERT(config->work_bytes_per_us > 0 && config->code_bytes_per_us > 0);
    tt_sim *sim = tt_local_take(sizeof(*sim));
    sim->config = *config;
    sim->now = 1;
    sim->hash = config->seed;
    sim->shortage.fail_at = config->fail_at;
    tt_random_init(&sim->random, config->seed, 2);
    if (config->phantom_bytes > 0) {
        reserve_phantom(sim);
    }
    sim->host_of = tt_local_take(config->size * sizeof(*sim->host_of));
    if (config->host_of != NULL) {
        memcpy(sim->host_of, config->host_of, config->size * sizeof(*sim->host_of));
    }
    sim->config.host_of = sim->host_of;
    tt_sim_cards_init(sim);
    sim->ranks = tt_local_take(config->size * sizeof(*sim->ranks));
    for (uint32_t i = 0; i < config->size; i++) {
        rank_init(sim, i);
    }
    tt_sim_orders_create(sim);
    return sim;
}

bool tt_sim_destroy(tt_sim *sim)
{
    bool is_clean = true;
    tt_sim_events_fini(sim);
    tt_sim_links_fini(sim);
    for (uint32_t i = 0; i < sim->config.size; i++) {
        is_clean = is_clean && sim->ranks[i].local.live_count == 0;
        is_clean = tt_local_fini(&sim->ranks[i].local) && is_clean;
    }
    if (sim->phantom != NULL) {
        (void)munmap(sim->phantom, sim->phantom_bytes);
    }
    tt_sim_orders_destroy(sim);
    free(sim->cards);
    free(sim->ranks);
    free(sim->host_of);
    free(sim);
    return is_clean;
}

uint8_t *tt_sim_phantom(const tt_sim *sim, tt_memory_kind kind)
{
    TT_ASSERT(sim->phantom != NULL);
    return sim->phantom + (kind == TT_MEMORY_SHARED ? sim->phantom_bytes / 4 : 0);
}

tt_platform *tt_sim_platform(tt_sim *sim, uint32_t rank)
{
    TT_ASSERT(rank < sim->config.size);
    return &sim->ranks[rank].base;
}

void tt_sim_attach(tt_sim *sim, uint32_t rank, tt_machine machine)
{
    TT_ASSERT(rank < sim->config.size);
    sim->ranks[rank].machine = machine;
    sim->ranks[rank].has_machine = true;
}

void tt_sim_call(tt_sim *sim, uint32_t rank, uint64_t at_ns, tt_sim_call_fn *call, void *argument)
{
    tt_sim_event *event = tt_sim_event_add(sim, TT_SIM_CALL, rank, at_ns);
    event->call = call;
    event->argument = argument;
}

void tt_sim_watch(tt_sim *sim, tt_sim_spy spy)
{
    sim->spy = spy;
}

uint64_t tt_sim_now(const tt_sim *sim)
{
    return sim->now;
}

uint64_t tt_sim_free_at(const tt_sim *sim, uint32_t rank)
{
    TT_ASSERT(rank < sim->config.size);
    return tt_max_u64(sim->now, sim->ranks[rank].busy_until);
}

uint64_t tt_sim_bytes(const tt_sim *sim)
{
    uint64_t bytes = sizeof(*sim) + sim->config.size * sizeof(*sim->ranks) +
                     sim->link_capacity * sizeof(*sim->links) +
                     sim->link_count * sizeof(tt_sim_link) + sim->due_capacity * sizeof(*sim->due) +
                     sim->events_made * sizeof(tt_sim_event);
    for (uint32_t rank = 0; rank < sim->config.size; rank++) {
        bytes += sim->ranks[rank].local.live_bytes - sim->ranks[rank].phantom_bytes;
    }
    return bytes;
}

uint64_t tt_sim_events(const tt_sim *sim)
{
    return sim->event_count;
}

uint64_t tt_sim_hash(const tt_sim *sim)
{
    return sim->hash;
}

uint64_t tt_sim_allocations(const tt_sim *sim)
{
    return sim->shortage.attempts;
}

void tt_sim_starve(tt_sim *sim, uint64_t count, uint64_t further)
{
    sim->shortage.fail_at = sim->shortage.attempts + count + 1;
    sim->shortage.further = further;
}

void tt_sim_feed(tt_sim *sim, bool is_fed)
{
    sim->shortage.is_over = is_fed;
}

bool tt_sim_has_starved(const tt_sim *sim)
{
    return sim->shortage.fail_at > 0 && sim->shortage.attempts >= sim->shortage.fail_at;
}

bool tt_sim_is_starved(const tt_sim *sim, uint32_t rank)
{
    return sim->ranks[rank].local.starved_count > 0;
}

uint64_t tt_sim_live_allocations(const tt_sim *sim, uint32_t rank)
{
    return sim->ranks[rank].local.live_count;
}

bool tt_sim_is_alive(const tt_sim *sim, uint32_t rank)
{
    return sim->ranks[rank].life == TT_SIM_ALIVE;
}
