/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - the exchange that does not happen: local SGD, an outer optimizer, a pipeline.
 *
 *     tutti run -n 4 build/bin/local
 *     tutti run -n 4 build/bin/local local:period=4 outer:period=16,lr=0.7,momentum=0.9
 *
 * Every rank has a least-squares problem of its own; all of them together determine the weights.
 * Models drift apart between rounds. Compare what each policy sends and how far the loss falls.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/sync.h>

enum { WEIGHTS = 1 << 16, STEPS = 96 };
static const float rate = 0.3f;

static void must(tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(context));
        exit(1);
    }
}

/* This rank's own view of the problem: how strongly it pulls weight i, and where to. */
static float scale_of(int rank, int i)
{
    return 0.6f + 0.4f * sinf((float)(i * 7 + rank * 13));
}

/* Gradient of this rank's squared error, and the error itself. */
static double gradient_of(int rank, const float *weights, float *gradient)
{
    double loss = 0.0;
    for (int i = 0; i < WEIGHTS; i++) {
        const float scale = scale_of(rank, i);
        const float error = scale * (weights[i] - cosf((float)i * 0.01f) - 0.1f * (float)rank);
        gradient[i] = scale * error;
        loss += (double)error * error;
    }
    return loss;
}

static void descend(float *weights, const float *gradient)
{
    for (int i = 0; i < WEIGHTS; i++) {
        weights[i] -= rate * gradient[i];
    }
}

static void train(tutti_context *context, const char *policy)
{
    float *weights = calloc(WEIGHTS, sizeof(float)), *gradient = calloc(WEIGHTS, sizeof(float));
    const bool is_pipeline = strncmp(policy, "pipeline", 8) == 0;
    tutti_sync_counts counts = TUTTI_SYNC_COUNTS_INIT;
    tutti_sync *sync;
    int ready = 0;
    must(context, tutti_sync_open(context, TUTTI_WORLD, policy, NULL, &sync));
    must(context,
         tutti_sync_add(sync, "weights", is_pipeline ? gradient : weights, WEIGHTS, TUTTI_F32));
    for (int t = 0; t < STEPS; t++) {
        (void)gradient_of(tutti_rank(context), weights, gradient);
        if (is_pipeline) {
            must(context, tutti_sync_step(sync, &ready)); /* now that of an earlier step */
            if (ready) {
                descend(weights, gradient);
            }
        } else {
            descend(weights, gradient);
            must(context, tutti_sync_step(sync, NULL));
        }
    }
    do {
        must(context, tutti_sync_flush(sync, &ready));
        if (is_pipeline && ready) {
            descend(weights, gradient);
        }
    } while (is_pipeline && ready);
    must(context, tutti_sync_count(sync, &counts));
    tutti_sync_close(sync);
    double loss = gradient_of(tutti_rank(context), weights, gradient);
    must(context, tutti_allreduce(context, &loss, &loss, 1, TUTTI_F64, TUTTI_SUM));
    if (tutti_rank(context) == 0) {
        printf("%-60s %3llu rounds, %6.2f MiB, loss %.6g\n", policy,
               (unsigned long long)counts.rounds, (double)counts.bytes / (1 << 20), loss);
    }
    free(weights);
    free(gradient);
}

int main(int argc, char **argv)
{
    static const char *const policies[] = {
        "local:period=1",
        "local:period=8",
        "local:period=1,8@32",
        "outer:period=8,lr=0.7,momentum=0.5",
        "outer:period=8,lr=0.7,momentum=0.5,fragments=4,delay=1,alpha=0.5",
        "pipeline:delay=1"};
    tutti_context *context;
    must(NULL, tutti_init(NULL, &context));
    for (size_t i = 0; argc < 2 && i < sizeof(policies) / sizeof(*policies); i++) {
        train(context, policies[i]);
    }
    for (int i = 1; i < argc; i++) {
        train(context, argv[i]);
    }
    must(NULL, tutti_shutdown(context));
    return 0;
}
