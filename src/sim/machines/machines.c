/* SPDX-License-Identifier: Apache-2.0
 *
 * machines.c - see machines.h. */
#include "sim/machines/machines.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

enum {
    /* What a rank holds: its machine, its links and its events, if it exchanges with all others. */
    RANK_BYTES = 128 * 1024,
    PEER_BYTES = 256,
    CALL_BYTES = 2048, /* of a call of a rank that is open: its request and its op */
    STEPS_BETWEEN_CHECKS = 64,
};

/* Calls are over within it, or never: a deadlock, or a network that is too slow. */
static const uint64_t horizon_ns = UINT64_C(3600) * 1000 * 1000 * 1000;
/* In which credits of the last frames return. */
static const uint64_t settle_ns = UINT64_C(1000) * 1000;

/* Addresses for the input and the output of a call; no memory. The driver reserves four times as
 * many, for which ThreadSanitizer leaves room up to some hundreds of GiB. */
static const uint64_t buffers_bytes = UINT64_C(1) << 36;

struct tt_machines {
    tt_machines_config config;
    tt_fabric *fabric;
    tt_fabric_network network;
    tt_sim *sim;
    tt_control **controls; /* [ranks] */
    uint64_t origin_ns;    /* of the current run */
    uint64_t end_ns;
    size_t open; /* calls of ranks that are not over */
    tt_status status;
    tt_text *why; /* of the current run */
};

/* A call of one rank. */
typedef struct deed {
    tt_machines *machines;
    const tt_machines_call *call;
    uint32_t rank;
    tt_request request;
} deed;

void tt_machines_config_init(tt_machines_config *config)
{
    *config = (tt_machines_config){
        .seed = 1, .memory_bytes_max = UINT64_C(4) << 30, .allocator = &tt_allocator_default};
    tt_control_config_init(&config->control);
}

uint64_t tt_machines_bytes(const tt_machines_config *config, size_t call_count)
{
    const uint64_t ranks = config->fabric.rank_count;
    return ranks *
           (RANK_BYTES + ranks * PEER_BYTES + call_count * (uint64_t)(sizeof(deed) + CALL_BYTES));
}

static tt_status check_memory(const tt_machines_config *config, size_t call_count, tt_text *why)
{
    const uint64_t bytes = tt_machines_bytes(config, call_count);
    if (bytes <= config->memory_bytes_max) {
        return TT_OK;
    }
    tt_text_add(why,
                "machines of %u ranks need %" PRIu64 " bytes, and may take %" PRIu64
                ": allow more memory, or walk moves, which need less",
                config->fabric.rank_count, bytes, config->memory_bytes_max);
    return TT_ERR_NO_MEMORY;
}

/* ---- life ---- */

static tt_status create_driver(tt_machines *self)
{
    const tt_machines_config *config = &self->config;
    const uint32_t ranks = config->fabric.rank_count;
    uint32_t *host_of = tt_allocate(config->allocator, ranks, sizeof(*host_of));
    if (host_of == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    tt_sim_config sim;
    tt_sim_config_init(&sim);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        host_of[rank] = tt_fabric_host(&config->fabric, rank);
    }
    sim.size = ranks;
    sim.seed = config->seed;
    sim.host_of = host_of;
    sim.has_views = config->fabric.ranks_per_host > 1;
    sim.network = &self->network.base;
    sim.engine = config->engine;
    sim.upcall_ns = 0; /* the fabric has the processor's time for a frame */
    sim.phantom_bytes = buffers_bytes;
    self->sim = tt_sim_create(&sim);
    tt_status status = TT_OK;
    for (uint32_t rank = 0; rank < ranks && status == TT_OK; rank++) {
        const tt_world job = {.rank = rank,
                              .size = ranks,
                              .epoch = 1,
                              .host_of = host_of,
                              .rail_max = config->fabric.cards_per_host,
                              .has_views = sim.has_views};
        status = tt_control_create(tt_sim_platform(self->sim, rank), &job, &config->control,
                                   &(tt_control_listener){.owner = NULL}, &self->controls[rank]);
        if (status == TT_OK) {
            tt_sim_attach(self->sim, rank, tt_control_machine(self->controls[rank]));
        }
    }
    tt_release(config->allocator, host_of, ranks, sizeof(*host_of));
    return status;
}

tt_status tt_machines_create(const tt_machines_config *config, tt_text *why,
                             tt_machines **machines_out)
{
    TT_TRY(check_memory(config, 0, why));
    tt_machines *self = tt_allocate(config->allocator, 1, sizeof(*self));
    if (self == NULL) {
        tt_text_add(why, "machines need %zu bytes: free some memory", sizeof(*self));
        return TT_ERR_NO_MEMORY;
    }
    self->config = *config;
    tt_status status =
        tt_fabric_create(config->model, &config->fabric, config->allocator, why, &self->fabric);
    if (status != TT_OK) {
        tt_release(config->allocator, self, 1, sizeof(*self));
        return status;
    }
    tt_fabric_network_init(&self->network, self->fabric);
    self->controls =
        tt_allocate(config->allocator, config->fabric.rank_count, sizeof(tt_control *));
    status = self->controls != NULL ? create_driver(self) : TT_ERR_NO_MEMORY;
    if (status != TT_OK) {
        tt_text_add(why, "machines of %u ranks: %s; simulate fewer ranks",
                    config->fabric.rank_count, tt_status_text(status));
        tt_machines_destroy(self);
        return status;
    }
    *machines_out = self;
    return TT_OK;
}

void tt_machines_destroy(tt_machines *machines)
{
    const tt_allocator *allocator = machines->config.allocator;
    const uint32_t ranks = machines->config.fabric.rank_count;
    for (uint32_t rank = 0; machines->controls != NULL && rank < ranks; rank++) {
        if (machines->controls[rank] != NULL) {
            tt_control_shut_down(machines->controls[rank], TT_ERR_SHUT_DOWN, "the run is over");
            tt_control_destroy(machines->controls[rank]);
        }
    }
    if (machines->sim != NULL) {
        const bool is_clean = tt_sim_destroy(machines->sim);
        TT_ASSERT(is_clean); /* else machines leak */
    }
    tt_release(allocator, machines->controls, ranks, sizeof(tt_control *));
    machines->fabric->ops->destroy(machines->fabric);
    tt_release(allocator, machines, 1, sizeof(*machines));
}

/* ---- calls ---- */

static void on_finished(tt_request *request)
{
    deed *one = request->owner;
    tt_machines *self = one->machines;
    const uint64_t at_ns = tt_sim_free_at(self->sim, one->rank) - self->origin_ns;
    TT_ASSERT(self->open > 0);
    self->open--;
    self->end_ns = tt_max_u64(self->end_ns, at_ns);
    if (one->call->done_ns != NULL) {
        one->call->done_ns[one->rank] = at_ns;
    }
    if (request->status < 0 && self->status == TT_OK) {
        self->status = request->status;
        tt_text_add(self->why, "rank %u: %s", one->rank, request->error);
    }
}

/* An all-reduce is in place; else the output follows the input. */
static void submit(void *argument)
{
    deed *one = argument;
    const tt_machines_call *call = one->call;
    const tt_machines *self = one->machines;
    uint8_t *memory =
        tt_sim_phantom(self->sim, call->is_shared ? TT_MEMORY_SHARED : TT_MEMORY_PRIVATE);
    const uint32_t ranks = self->config.fabric.rank_count;
    const bool is_in_place = call->collective == TT_ALLREDUCE;
    const bool is_dealt = call->collective == TT_ALLTOALL || call->collective == TT_SCATTER ||
                          call->collective == TT_REDUCESCATTER;
    const uint64_t input = call->count * (is_dealt ? ranks : 1) * tt_dtype_bytes(call->dtype);
    one->request = (tt_request){.collective = call->collective,
                                .dtype = call->dtype,
                                .redop = call->redop,
                                .count = call->count,
                                .prescale = 1.0,
                                .postscale = 1.0,
                                .root = call->root,
                                .urgency = call->urgency,
                                .name = call->name,
                                .input = memory,
                                .output = is_in_place ? memory : memory + tt_round_up(input, 64),
                                .finished = on_finished,
                                .owner = one,
                                .status = TT_IN_PROGRESS};
    tt_control_submit(self->controls[one->rank], &one->request);
}

/* Do input and output have addresses of their own? */
static tt_status check_lengths(const tt_machines *self, const tt_machines_call *calls,
                               size_t call_count, tt_text *why)
{
    for (size_t i = 0; i < call_count; i++) {
        const tt_collective collective = calls[i].collective;
        const bool is_whole = collective == TT_ALLREDUCE || collective == TT_BROADCAST ||
                              collective == TT_REDUCE || collective == TT_BARRIER;
        const uint64_t parts = is_whole ? 1 : self->config.fabric.rank_count;
        if (calls[i].count > buffers_bytes / 4 / parts / tt_dtype_bytes(calls[i].dtype)) {
            tt_text_add(why, "call %zu, a %s of %" PRIu64 " elements: give at most %" PRIu64 " GiB",
                        i, tt_collective_name(collective), calls[i].count, buffers_bytes >> 32);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

/* When the last call is made. */
static uint64_t plan(tt_machines *self, const tt_machines_call *calls, size_t call_count,
                     deed *deeds)
{
    const uint32_t ranks = self->config.fabric.rank_count;
    uint64_t last_ns = 0;
    for (size_t i = 0; i < call_count; i++) {
        for (uint32_t rank = 0; rank < ranks; rank++) {
            deed *one = &deeds[i * ranks + rank];
            const uint64_t start_ns = calls[i].start_ns != NULL ? calls[i].start_ns[rank] : 0;
            *one = (deed){.machines = self, .call = &calls[i], .rank = rank};
            tt_sim_call(self->sim, rank, self->origin_ns + start_ns, submit, one);
            last_ns = tt_max_u64(last_ns, start_ns);
        }
    }
    return last_ns;
}

/* ---- runs ---- */

/* A time at which nothing keeps a rank busy. */
static uint64_t idle_at(const tt_machines *self)
{
    uint64_t at_ns = tt_sim_now(self->sim);
    for (uint32_t rank = 0; rank < self->config.fabric.rank_count; rank++) {
        at_ns = tt_max_u64(at_ns, tt_sim_free_at(self->sim, rank));
    }
    return at_ns;
}

static bool is_under_way(const tt_machines *self)
{
    uint64_t frames = 0;
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        frames += self->network.levels[level].frames_sent;
        frames -= self->network.levels[level].frames_received;
    }
    return frames > 0;
}

static tt_status run_calls(tt_machines *self, uint64_t until_ns)
{
    bool is_alive = true;
    while (self->open > 0 && self->status == TT_OK && is_alive) {
        for (uint32_t i = 0; i < STEPS_BETWEEN_CHECKS && self->open > 0 && is_alive; i++) {
            is_alive = tt_sim_step(self->sim);
        }
        is_alive = is_alive && tt_sim_now(self->sim) < until_ns;
    }
    if (self->status == TT_OK && self->open > 0) {
        tt_text_add(self->why,
                    "%zu calls of ranks are not over an hour after the last was made: the network "
                    "is too slow for them, or a rank does not make them all",
                    self->open);
        return TT_ERR_TIMED_OUT;
    }
    return self->status;
}

static void settle(tt_machines *self)
{
    tt_sim_run(self->sim, idle_at(self) + settle_ns);
    while (is_under_way(self) && tt_sim_step(self->sim)) {
    }
}

static tt_machines_result result_of(const tt_machines *self, uint64_t events_before)
{
    tt_machines_result result = {.end_ns = self->end_ns,
                                 .events = tt_sim_events(self->sim) - events_before,
                                 .memory_bytes = tt_sim_bytes(self->sim)};
    memcpy(result.levels, self->network.levels, sizeof(result.levels));
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        result.frames += result.levels[level].frames_sent;
    }
    return result;
}

tt_status tt_machines_run(tt_machines *machines, const tt_machines_call *calls, size_t call_count,
                          tt_text *why, tt_machines_result *result_out)
{
    const tt_machines_config *config = &machines->config;
    const size_t deed_count = call_count * config->fabric.rank_count;
    TT_TRY(check_memory(config, call_count, why));
    TT_TRY(check_lengths(machines, calls, call_count, why));
    deed *deeds = tt_allocate(config->allocator, deed_count, sizeof(*deeds));
    if (deeds == NULL) {
        tt_text_add(why, "%zu calls of ranks: no memory; give fewer calls or ranks", deed_count);
        return TT_ERR_NO_MEMORY;
    }
    const uint64_t events = tt_sim_events(machines->sim);
    memset(machines->network.levels, 0, sizeof(machines->network.levels));
    machines->origin_ns = idle_at(machines);
    machines->end_ns = 0;
    machines->open = deed_count;
    machines->status = TT_OK;
    machines->why = why;
    const uint64_t last_ns = plan(machines, calls, call_count, deeds);
    const tt_status status = run_calls(machines, machines->origin_ns + last_ns + horizon_ns);
    if (status == TT_OK) {
        settle(machines);
        *result_out = result_of(machines, events);
    } else { /* no call of them may outlive the deeds */
        for (uint32_t rank = 0; rank < config->fabric.rank_count; rank++) {
            tt_control_shut_down(machines->controls[rank], TT_ERR_SHUT_DOWN, "a call failed");
        }
    }
    tt_release(config->allocator, deeds, deed_count, sizeof(*deeds));
    return status;
}

const tt_machines_config *tt_machines_config_of(const tt_machines *machines)
{
    TT_ASSERT(machines->sim != NULL);
    return &machines->config;
}

tt_control *tt_machines_control(const tt_machines *machines, uint32_t rank)
{
    TT_ASSERT(rank < machines->config.fabric.rank_count);
    return machines->controls[rank];
}

uint64_t tt_machines_hash(const tt_machines *machines)
{
    return tt_sim_hash(machines->sim);
}
