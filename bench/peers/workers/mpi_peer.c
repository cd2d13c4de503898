/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_peer.c - any MPI: compiled once with Open MPI's wrapper, once with MPICH's. */
#include <mpi.h>

#include "worker.h"

static int join(int *rank_out, int *size_out)
{
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        return BENCH_FAILED;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, rank_out);
    MPI_Comm_size(MPI_COMM_WORLD, size_out);
    return BENCH_OK;
}

static int call(const bench_case *item)
{
    const int count = (int)item->count;
    int result;
    switch (item->collective) {
    case BENCH_BROADCAST:
        result = MPI_Bcast(item->output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
    case BENCH_ALLGATHER:
        result = MPI_Allgather(item->input, count, MPI_FLOAT, item->output, count, MPI_FLOAT,
                               MPI_COMM_WORLD);
        break;
    case BENCH_REDUCESCATTER:
        result = MPI_Reduce_scatter_block(item->input, item->output, count, MPI_FLOAT, MPI_SUM,
                                          MPI_COMM_WORLD);
        break;
    case BENCH_ALLTOALL:
        result = MPI_Alltoall(item->input, count, MPI_FLOAT, item->output, count, MPI_FLOAT,
                              MPI_COMM_WORLD);
        break;
    default:
        result =
            MPI_Allreduce(MPI_IN_PLACE, item->output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    }
    return result == MPI_SUCCESS ? BENCH_OK : BENCH_FAILED;
}

static void leave(void)
{
    MPI_Finalize();
}

int main(void)
{
    const bench_peer peer = {join, bench_allocate, bench_release, call, leave};
    return bench_worker_run(&peer);
}
