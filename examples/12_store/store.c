/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - training at everyone's own pace: weights live in a store, workers push gradients.
 *
 *     tutti run -n 4 --servers 2 build/bin/store
 *     tutti run -n 4 --servers 2 build/bin/store bulk async stale:3
 *
 * Every worker has a least-squares problem of its own; all of them together determine the weights.
 * One worker is slower than the others in some iterations. Under bulk everyone waits for it; under
 * stale:3 the others may be three iterations ahead.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/store.h>

enum { WEIGHTS = 1 << 16, ITERATIONS = 80, SLOW_NS = 4000000, TEXT_BYTES = 64 };

static void must(tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(context));
        exit(1);
    }
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* This worker's scale of weight i: its own view of the problem. */
static float scale_of(int rank, int i)
{
    return 0.5f + 0.5f * sinf((float)(i * 7 + rank * 13));
}

/* Gradient of this worker's squared error, and the error itself. */
static double gradient_of(int rank, const float *weights, float *gradient)
{
    double loss = 0.0;
    for (int i = 0; i < WEIGHTS; i++) {
        const float scale = scale_of(rank, i);
        const float error = scale * (weights[i] - cosf((float)i * 0.01f));
        gradient[i] = scale * error;
        loss += (double)error * error;
    }
    return loss;
}

/* The workers take turns at being slow. */
static void compute(int rank, int size, int iteration)
{
    const struct timespec nap = {.tv_nsec = SLOW_NS};
    if (iteration % (2 * size) == rank) {
        (void)nanosleep(&nap, NULL);
    }
}

static void train(tutti_context *context, const char *policy)
{
    float *weights = calloc(WEIGHTS, sizeof(float)), *gradient = calloc(WEIGHTS, sizeof(float));
    const int rank = tutti_rank(context);
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    tutti_store *store;
    double loss = 0.0, took = seconds();
    config.policy = policy;
    config.update = "sgd:lr=0.4";
    must(context, tutti_store_open(context, &config, &store));
    must(context, tutti_store_add(store, "weights", weights, WEIGHTS, TUTTI_F32));
    for (int i = 0; i < ITERATIONS; i++) {
        must(context, tutti_store_pull(store, "weights", weights));
        (void)gradient_of(rank, weights, gradient);
        compute(rank, tutti_size(context), i);
        must(context, tutti_store_push(store, "weights", gradient));
        must(context, tutti_store_clock(store, NULL));
    }
    took = seconds() - took;
    must(context, tutti_barrier(context)); /* all have pushed everything */
    must(context, tutti_store_pull(store, "weights", weights));
    must(context, tutti_store_close(store));
    loss = gradient_of(rank, weights, gradient);
    must(context, tutti_allreduce(context, &loss, &loss, 1, TUTTI_F64, TUTTI_SUM));
    if (rank == 0) {
        printf("%-8s %d iterations in %.2f s, loss %.3g\n", policy, ITERATIONS, took, loss);
    }
    free(weights);
    free(gradient);
}

int main(int argc, char **argv)
{
    tutti_context *context;
    must(NULL, tutti_init(NULL, &context));
    if (argc < 2) {
        train(context, "bulk");
        train(context, "stale:3");
        train(context, "async");
    }
    for (int i = 1; i < argc; i++) {
        train(context, argv[i]);
    }
    must(NULL, tutti_shutdown(context));
    return 0;
}
