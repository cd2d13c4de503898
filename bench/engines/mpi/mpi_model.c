/* SPDX-License-Identifier: Apache-2.0
 *
 * What grouping is worth over MPI: the gradients of ResNet50 by one MPI_Allreduce each, and as one
 * group of named tensors with TUTTI_ENGINE=mpi, in turns, in one process.
 *
 * usage: mpirun -n N PROGRAM ROUNDS
 * Prints "TENSORS direct_us engine_us" for the 109 tensors under 64 KB and for all 161: medians
 * over the rounds of the slowest rank's time. */
#include <mpi.h>

#include "bench/common/median.h"
#include "model.h"

enum { ROUNDS_MAX = 1000, STEPS = 2 };

static MPI_Comm comm;

static void step_direct(const model *self)
{
    for (int i = 0; i < self->count; i++) {
        (void)MPI_Allreduce(MPI_IN_PLACE, self->calls[i].output, (int)self->calls[i].count,
                            MPI_FLOAT, MPI_SUM, comm);
    }
}

/* Time of a step on the slowest rank. */
static double sample(const model *self, void (*step)(const model *))
{
    double slowest;
    step(self);
    (void)MPI_Barrier(comm);
    const double start = MPI_Wtime();
    for (int i = 0; i < STEPS; i++) {
        step(self);
    }
    const double mine = (MPI_Wtime() - start) / STEPS;
    (void)MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
    return slowest;
}

static void run(const model *self, int rounds, int rank)
{
    double direct[ROUNDS_MAX], engine[ROUNDS_MAX];
    for (int i = 0; i < 3; i++) { /* until the names are cached */
        (void)sample(self, step_direct);
        (void)sample(self, step_engine);
    }
    for (int i = 0; i < rounds; i++) { /* either is first in half of the rounds */
        if (i % 2 == 0) {
            direct[i] = sample(self, step_direct);
        }
        engine[i] = sample(self, step_engine);
        if (i % 2 != 0) {
            direct[i] = sample(self, step_direct);
        }
    }
    if (rank == 0) {
        (void)printf("%d %.3f %.3f\n", self->count, bench_median(direct, (size_t)rounds) * 1e6,
                     bench_median(engine, (size_t)rounds) * 1e6);
        (void)fflush(stdout);
    }
}

int main(int count, char **words)
{
    static model self;
    int level, rank;
    const int rounds = count > 1 ? atoi(words[1]) : 15;
    (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rounds < 1 || rounds > ROUNDS_MAX || tutti_init(NULL, &self.context) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error(NULL));
        return 1;
    }
    for (int all = 0; all < 2; all++) {
        fill(&self, all == 0);
        run(&self, rounds, rank);
        empty(&self);
    }
    (void)tutti_shutdown(self.context);
    (void)MPI_Finalize();
    return 0;
}
