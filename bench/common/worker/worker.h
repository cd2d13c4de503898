/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.h - one rank of one library under test: takes the samples that a driver requests.
 *
 * Between samples a worker blocks in a read, whatever its library would do: so several jobs can be
 * alive at once and be measured by turns without disturbing each other.
 *
 * Layer:   bench; knows no library.
 * Threads: one.
 * Memory:  one buffer of the longest vector, taken by the caller.
 */
#ifndef TUTTI_BENCH_COMMON_WORKER_H
#define TUTTI_BENCH_COMMON_WORKER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a library must offer. Both return 0 if all went well. */
typedef struct worker_library {
    int (*allreduce)(void *self, float *values, size_t count); /* sum, in place */
    int (*barrier)(void *self);
    void *self;
    float *values; /* room for the longest vector */
    size_t count_max;
    int rank, size;
} worker_library;

/* Longest vector that a driver may request: BENCH_BYTES. */
size_t worker_bytes_max(void);

/* Serve the socket BENCH_SOCKET until it closes; 0 if every result was right. */
int worker_serve(const worker_library *library);

#ifdef __cplusplus
}
#endif
#endif
