/* SPDX-License-Identifier: Apache-2.0
 *
 * What grouping is worth over MPI: the gradients of ResNet50 by one MPI_Allreduce each, and as one
 * group of named tensors with TUTTI_ENGINE=mpi, in turns, in one process.
 *
 * usage: mpirun -n N PROGRAM ROUNDS
 * Prints "TENSORS direct_us engine_us" for the 109 tensors under 64 KB and for all 161: medians
 * over the rounds of the slowest rank's time. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tutti/tutti.h"

enum { TENSORS_MAX = 161, ROUNDS_MAX = 1000, SMALL_BYTES = 64 * 1024, STEPS = 2 };

typedef struct model {
    tutti_context *context;
    MPI_Comm comm;
    int count;
    tutti_call calls[TENSORS_MAX];
    char names[TENSORS_MAX][8];
} model;

static void add(model *self, int elements, bool is_small_only)
{
    if (is_small_only && elements * sizeof(float) >= SMALL_BYTES) {
        return;
    }
    tutti_call call = TUTTI_CALL_INIT;
    const int i = self->count++;
    (void)snprintf(self->names[i], sizeof(self->names[i]), "g%d", i);
    call.name = self->names[i];
    call.count = (uint64_t)elements;
    call.input = call.output = calloc((size_t)elements, sizeof(float));
    if (call.output == NULL) {
        exit(1);
    }
    self->calls[i] = call;
}

/* A convolution without bias, and its normalisation. */
static void add_layer(model *self, int weights, int channels, bool is_small_only)
{
    add(self, weights, is_small_only);
    add(self, channels, is_small_only);
    add(self, channels, is_small_only);
}

static void fill(model *self, bool is_small_only)
{
    static const int blocks[] = {3, 4, 6, 3};
    int input = 64;
    self->count = 0;
    add_layer(self, 64 * 3 * 7 * 7, 64, is_small_only);
    for (int stage = 0; stage < 4; stage++) {
        const int width = 64 << stage, output = 4 * width;
        for (int block = 0; block < blocks[stage]; block++) {
            add_layer(self, input * width, width, is_small_only);
            add_layer(self, width * width * 9, width, is_small_only);
            add_layer(self, width * output, output, is_small_only);
            if (block == 0) {
                add_layer(self, input * output, output, is_small_only);
            }
            input = output;
        }
    }
    add(self, input * 1000, is_small_only);
    add(self, 1000, is_small_only);
}

static void step_direct(const model *self)
{
    for (int i = 0; i < self->count; i++) {
        (void)MPI_Allreduce(MPI_IN_PLACE, self->calls[i].output, (int)self->calls[i].count,
                            MPI_FLOAT, MPI_SUM, self->comm);
    }
}

static void step_engine(const model *self)
{
    tutti_handle *handles[TENSORS_MAX];
    tutti_status status = tutti_start_group(self->context, self->calls, self->count, handles);
    for (int i = 0; i < self->count && status == TUTTI_OK; i++) {
        status = tutti_wait(handles[i], -1.0);
        tutti_handle_free(handles[i]);
    }
    if (status != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error(self->context));
        exit(1);
    }
}

/* Time of a step on the slowest rank. */
static double sample(const model *self, void (*step)(const model *))
{
    double slowest;
    step(self);
    (void)MPI_Barrier(self->comm);
    const double start = MPI_Wtime();
    for (int i = 0; i < STEPS; i++) {
        step(self);
    }
    const double mine = (MPI_Wtime() - start) / STEPS;
    (void)MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, self->comm);
    return slowest;
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
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
    qsort(direct, (size_t)rounds, sizeof(double), compare);
    qsort(engine, (size_t)rounds, sizeof(double), compare);
    if (rank == 0) {
        (void)printf("%d %.3f %.3f\n", self->count, direct[rounds / 2] * 1e6,
                     engine[rounds / 2] * 1e6);
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
    (void)MPI_Comm_dup(MPI_COMM_WORLD, &self.comm);
    if (rounds < 1 || rounds > ROUNDS_MAX || tutti_init(NULL, &self.context) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error(NULL));
        return 1;
    }
    for (int all = 0; all < 2; all++) {
        fill(&self, all == 0);
        run(&self, rounds, rank);
        for (int i = 0; i < self.count; i++) {
            free(self.calls[i].output);
        }
    }
    (void)tutti_shutdown(self.context);
    (void)MPI_Finalize();
    return 0;
}
