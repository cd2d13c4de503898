/* SPDX-License-Identifier: Apache-2.0
 *
 * tutti.c - Tutti as a worker; its TUTTI_* variables say where it runs. */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

#include "worker.h"

static int allreduce(void *self, float *values, size_t count)
{
    return tutti_allreduce(self, values, values, count, TUTTI_F32, TUTTI_SUM) != TUTTI_OK;
}

static int barrier(void *self)
{
    return tutti_barrier(self) != TUTTI_OK;
}

int main(void)
{
    tutti_context *context = NULL;
    if (tutti_init(NULL, &context) != TUTTI_OK) {
        fprintf(stderr, "tutti: %s\n", tutti_last_error(NULL));
        return 1;
    }
    /* BENCH_ARENA: where ranks of a host can see each other's vectors. */
    const size_t bytes = worker_bytes_max();
    float *values = getenv("BENCH_ARENA") != NULL ? tutti_alloc(context, bytes)
                                                  : aligned_alloc(4096, (bytes + 4095) & ~4095ul);
    if (values == NULL) {
        return 1;
    }
    const worker_library library = {.allreduce = allreduce,
                                    .barrier = barrier,
                                    .self = context,
                                    .values = values,
                                    .count_max = bytes / sizeof(float),
                                    .rank = tutti_rank(context),
                                    .size = tutti_size(context)};
    const int code = worker_serve(&library);
    if (code != 0) {
        fprintf(stderr, "tutti: %s\n", tutti_last_error(context));
    }
    return tutti_shutdown(context) == TUTTI_OK ? code : 1;
}
