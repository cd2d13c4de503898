/* SPDX-License-Identifier: Apache-2.0
 *
 * servers_rank.h - a worker of bench/servers: its store, and what the driver has requested.
 *
 * Layer:   bench; public headers only.
 * Threads: one.
 * Memory:  tensors of the worker, freed when another table is read.
 */
#ifndef TUTTI_BENCH_SERVERS_RANK_H
#define TUTTI_BENCH_SERVERS_RANK_H

#include <stdbool.h>
#include <string.h>

#include "bench/schedule/schedule_rank.h"
#include "tutti/store.h"

typedef struct servers_rank {
    tutti_context *context;
    rank_line line;
    uint32_t rank, size;
    tutti_store *store;
    double clock_ns; /* of emulated computation */
    uint32_t serial; /* of names: each measurement has tensors of its own */
    uint64_t random; /* state of random_unit */
} servers_rank;

static inline void *servers_memory(size_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "bench-servers: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static inline void servers_meet(servers_rank *self)
{
    rank_must(self->context, tutti_barrier(self->context), "barrier");
    self->clock_ns = (double)bench_now_ns();
}

static inline void servers_compute(servers_rank *self, double us)
{
    self->clock_ns += us * 1e3;
    rank_sleep_until((int64_t)self->clock_ns);
}

/* After a wait: computation goes on from now. */
static inline void servers_present(servers_rank *self)
{
    const double now_ns = (double)bench_now_ns();
    self->clock_ns = now_ns > self->clock_ns ? now_ns : self->clock_ns;
}

static inline void servers_finish(servers_rank *self, tutti_handle *handle, const char *what)
{
    rank_wait(self->context, handle, what);
    tutti_handle_free(handle);
}

static inline tutti_handle *servers_start(servers_rank *self, tutti_store_call call)
{
    tutti_handle *handle = NULL;
    rank_must(self->context, tutti_store_start(self->store, &call, &handle), "store");
    return handle;
}

/* splitmix64 */
static inline uint64_t servers_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In (0, 1]. */
static inline double servers_unit(uint64_t *state)
{
    return ((double)(servers_random(state) >> 11) + 1) / 9007199254740992.0;
}

/* Close the store, if there is one, and open another; answers the line. */
static inline void servers_store_open(servers_rank *self, const char *policy, const char *update)
{
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    if (self->store != NULL) {
        rank_must(self->context, tutti_store_close(self->store), "close");
    }
    config.policy = policy;
    config.update = update;
    rank_must(self->context, tutti_store_open(self->context, &config, &self->store), "open");
    fprintf(self->line.answers, "0\n");
}

static inline void servers_join(servers_rank *self)
{
    self->context = rank_join(&self->line);
    self->rank = (uint32_t)tutti_rank(self->context);
    self->size = (uint32_t)tutti_size(self->context);
}

/* The exit code of the program. */
static inline int servers_leave(servers_rank *self)
{
    if (self->store != NULL) {
        (void)tutti_store_close(self->store);
    }
    return tutti_shutdown(self->context) == TUTTI_OK ? 0 : 1;
}

#endif
