/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - the next forward pass begins with the layers whose gradients have arrived.
 *
 *     tutti run -n 4 build/bin/layers
 *
 * Backward starts the sum of each layer's gradient as soon as it is ready, last layer first;
 * forward needs the first layer first. So the priority of a sum is minus the place of its layer,
 * and each layer of the next forward waits only for its own sum: there is no barrier between
 * steps. tutti_step measures the waiting that remains.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

enum { LAYERS = 8, COUNT = 1 << 18, STEPS = 20 };

typedef struct layer {
    float *gradient;
    tutti_handle *sum; /* in flight from backward to the next forward */
    char name[32];
} layer;

static void must(tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(context));
        exit(1);
    }
}

/* Stands for real work. */
static void compute(float *values, float with)
{
    for (int i = 0; i < COUNT; i++) {
        values[i] = values[i] * 0.5f + with;
    }
}

static void forward(tutti_context *context, layer *layers)
{
    for (int i = 0; i < LAYERS; i++) {
        must(context, tutti_use(context, layers[i].name)); /* sets the order, in the first step */
        if (layers[i].sum != NULL) {
            must(context, tutti_wait_all(&layers[i].sum, 1, -1.0));
            tutti_handle_free(layers[i].sum);
            layers[i].sum = NULL;
        }
        compute(layers[i].gradient, 1.0f);
    }
}

static void backward(tutti_context *context, layer *layers)
{
    for (int i = LAYERS; i-- > 0;) {
        compute(layers[i].gradient, 2.0f);
        tutti_call call = TUTTI_CALL_INIT;
        call.op = TUTTI_AVERAGE;
        call.name = layers[i].name;
        call.priority = -i; /* until the order is learnt; ignored after that */
        call.input = call.output = layers[i].gradient;
        call.count = COUNT;
        must(context, tutti_start(context, &call, &layers[i].sum));
    }
}

int main(void)
{
    tutti_context *context;
    layer layers[LAYERS] = {{0}};
    if (tutti_init(NULL, &context) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(NULL));
        return 1;
    }
    for (int i = 0; i < LAYERS; i++) {
        layers[i].gradient = tutti_alloc(context, COUNT * sizeof(float));
        if (layers[i].gradient == NULL) {
            fprintf(stderr, "no memory for a layer\n");
            return 1;
        }
        (void)snprintf(layers[i].name, sizeof(layers[i].name), "layer %d", i);
    }
    for (int step = 0; step < STEPS; step++) {
        forward(context, layers);
        backward(context, layers);
        must(context, tutti_step(context));
    }
    forward(context, layers); /* the last sums */
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    must(context, tutti_count(context, TUTTI_WORLD, &counters));
    for (int i = 1; i < LAYERS; i++) {
        if (layers[i].gradient[COUNT - 1] != layers[0].gradient[0]) {
            fprintf(stderr, "%s differs from %s\n", layers[i].name, layers[0].name);
            return 1;
        }
    }
    if (tutti_rank(context) == 0) {
        printf("%llu steps; the last took %.2f ms, of it %.0f %% computing; every layer is at %g\n",
               (unsigned long long)counters.step_count, (double)counters.step_ns / 1e6,
               100.0 * counters.utilisation, (double)layers[0].gradient[0]);
    }
    for (int i = 0; i < LAYERS; i++) {
        tutti_free(context, layers[i].gradient);
    }
    must(context, tutti_shutdown(context));
    return 0;
}
