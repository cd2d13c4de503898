/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.h - one rank of one library under measurement.
 *
 * The driver starts a group of ranks per library. Each rank connects to the driver's socket and
 * sleeps in read() until the driver requests a case; so all groups stay alive and take turns.
 * What differs between libraries is one table; data, touching, barriers, clocks and checks are the
 * same code for all of them.
 */
#ifndef TUTTI_BENCH_PEERS_WORKER_H
#define TUTTI_BENCH_PEERS_WORKER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_OK = 0, BENCH_UNSUPPORTED = 1, BENCH_FAILED = -1 };

typedef enum bench_collective {
    BENCH_ALLREDUCE, /* in place */
    BENCH_BROADCAST, /* from rank 0, in place */
    BENCH_ALLGATHER,
    BENCH_REDUCESCATTER,
    BENCH_ALLTOALL,
    BENCH_COLLECTIVE_COUNT
} bench_collective;

typedef struct bench_case {
    int collective;
    int is_arena;
    int rank;
    int size;
    size_t count; /* floats, as the calls of MPI take it: per rank where parts are moved */
    size_t input_count;
    size_t output_count;
    float *input;
    float *output; /* the same as input for the calls that work in place */
} bench_case;

typedef struct bench_peer {
    int (*join)(int *rank_out, int *size_out);
    void *(*allocate)(size_t bytes, int is_arena);
    void (*release)(void *memory, int is_arena);
    int (*call)(const bench_case *item);
    void (*leave)(void);
} bench_peer;

/* Join, obey the driver until it hangs up, leave. Returns the exit status. */
int bench_worker_run(const bench_peer *peer);

/* Page-aligned private memory, for libraries that have none of their own. */
void *bench_allocate(size_t bytes, int is_arena);
void bench_release(void *memory, int is_arena);

/* An integer of the environment; -1 if it is not there. */
int bench_variable(const char *name);

#ifdef __cplusplus
}
#endif

#endif
