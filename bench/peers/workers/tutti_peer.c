/* SPDX-License-Identifier: Apache-2.0
 *
 * tutti_peer.c - Tutti, through its public header. */
#include <stdio.h>

#include "tutti/tutti.h"
#include "worker.h"

static tutti_context *context;

static int join(int *rank_out, int *size_out)
{
    if (tutti_init(NULL, &context) != TUTTI_OK) {
        fprintf(stderr, "tutti: %s\n", tutti_last_error(NULL));
        return BENCH_FAILED;
    }
    *rank_out = tutti_rank(context);
    *size_out = tutti_size(context);
    return BENCH_OK;
}

static void *allocate(size_t bytes, int is_arena)
{
    return is_arena ? tutti_alloc(context, bytes) : bench_allocate(bytes, 0);
}

static void release(void *memory, int is_arena)
{
    if (is_arena) {
        tutti_free(context, memory);
    } else {
        bench_release(memory, 0);
    }
}

static tutti_status run(const bench_case *item)
{
    switch (item->collective) {
    case BENCH_BROADCAST:
        return tutti_broadcast(context, item->output, item->count, TUTTI_F32, 0);
    case BENCH_ALLGATHER:
        return tutti_allgather(context, item->input, item->output, item->count, TUTTI_F32);
    case BENCH_REDUCESCATTER:
        return tutti_reducescatter(context, item->input, item->output, item->count, TUTTI_F32,
                                   TUTTI_SUM);
    case BENCH_ALLTOALL:
        return tutti_alltoall(context, item->input, item->output, item->count, TUTTI_F32);
    default:
        return tutti_allreduce(context, item->input, item->output, item->count, TUTTI_F32,
                               TUTTI_SUM);
    }
}

static int call(const bench_case *item)
{
    if (run(item) == TUTTI_OK) {
        return BENCH_OK;
    }
    fprintf(stderr, "tutti: %s\n", tutti_last_error(context));
    return BENCH_FAILED;
}

static void leave(void)
{
    tutti_shutdown(context);
}

int main(void)
{
    const bench_peer peer = {join, allocate, release, call, leave};
    return bench_worker_run(&peer);
}
