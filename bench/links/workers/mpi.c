/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi.c - an MPI library as a worker. */
#include <mpi.h>
#include <stdlib.h>

#include "worker.h"

static int allreduce(void *self, float *values, size_t count)
{
    (void)self;
    return MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) !=
           MPI_SUCCESS;
}

static int barrier(void *self)
{
    (void)self;
    return MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    worker_library library = {.allreduce = allreduce, .barrier = barrier};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &library.size);
    const size_t bytes = worker_bytes_max();
    library.values = aligned_alloc(4096, (bytes + 4095) & ~4095ul);
    library.count_max = bytes / sizeof(float);
    const int code = library.values != NULL ? worker_serve(&library) : 1;
    MPI_Finalize();
    return code;
}
