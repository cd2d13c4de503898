/* SPDX-License-Identifier: Apache-2.0
 *
 * What the MPI engine costs over MPI itself: the same in-place all-reduce of floats, by
 * MPI_Allreduce and by tutti_allreduce with TUTTI_ENGINE=mpi, in turns, in one process.
 *
 * usage: mpirun -n N PROGRAM ROUNDS BYTES...
 * Prints "BYTES direct_us engine_us": medians over the rounds of the slowest rank's mean time. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/common/median.h"
#include "tutti/tutti.h"

enum { ROUNDS_MAX = 1000, CALLS_MAX = 5000 };
static const double SAMPLE_S = 0.004; /* a sample has as many calls as fit */

typedef struct bench {
    tutti_context *context;
    MPI_Comm comm;
    float *buffer;
    int count;
} bench;

static void call_direct(const bench *self)
{
    (void)MPI_Allreduce(MPI_IN_PLACE, self->buffer, self->count, MPI_FLOAT, MPI_SUM, self->comm);
}

static void call_engine(const bench *self)
{
    if (tutti_allreduce(self->context, self->buffer, self->buffer, (uint64_t)self->count, TUTTI_F32,
                        TUTTI_SUM) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error(self->context));
        exit(1);
    }
}

/* Mean time of a call on the slowest rank. */
static double sample(const bench *self, void (*call)(const bench *), int calls)
{
    double mine, slowest;
    (void)MPI_Barrier(self->comm);
    call(self);
    const double start = MPI_Wtime();
    for (int i = 0; i < calls; i++) {
        call(self);
    }
    mine = (MPI_Wtime() - start) / calls;
    (void)MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, self->comm);
    return slowest;
}

/* How many calls of this time make a sample. */
static int calls_of(double time_s)
{
    const double calls = SAMPLE_S / time_s;
    return calls < 1 ? 1 : calls > CALLS_MAX ? CALLS_MAX : (int)calls;
}

static void run_size(bench *self, int rounds, int rank)
{
    double direct[ROUNDS_MAX], engine[ROUNDS_MAX];
    (void)sample(self, call_direct, 3); /* the first calls connect, and touch the memory */
    (void)sample(self, call_engine, 3);
    const int calls = calls_of(sample(self, call_direct, 3));
    for (int i = 0; i < rounds; i++) { /* either is first in half of the rounds */
        if (i % 2 == 0) {
            direct[i] = sample(self, call_direct, calls);
        }
        engine[i] = sample(self, call_engine, calls);
        if (i % 2 != 0) {
            direct[i] = sample(self, call_direct, calls);
        }
    }
    if (rank == 0) {
        (void)printf("%zu %.3f %.3f\n", (size_t)self->count * sizeof(float),
                     bench_median(direct, (size_t)rounds) * 1e6,
                     bench_median(engine, (size_t)rounds) * 1e6);
        (void)fflush(stdout);
    }
}

int main(int count, char **words)
{
    bench self = {.count = 0};
    int level, rank;
    (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_dup(MPI_COMM_WORLD, &self.comm);
    if (tutti_init(NULL, &self.context) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error(NULL));
        return 1;
    }
    const int rounds = count > 1 ? atoi(words[1]) : 15;
    for (int i = 2; i < count && rounds <= ROUNDS_MAX; i++) {
        const size_t bytes = strtoull(words[i], NULL, 10);
        self.count = (int)(bytes / sizeof(float));
        self.buffer = calloc(bytes, 1);
        if (self.buffer == NULL) {
            return 1;
        }
        run_size(&self, rounds, rank);
        free(self.buffer);
    }
    (void)tutti_shutdown(self.context);
    (void)MPI_Finalize();
    return 0;
}
