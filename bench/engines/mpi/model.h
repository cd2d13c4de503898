/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - ResNet50's gradients, and their sum as one group of named tensors.
 *
 * Layer:   bench; tutti/tutti.h only.
 * Threads: one.
 * Memory:  fill takes the tensors, empty gives them back.
 */
#ifndef TUTTI_BENCH_ENGINE_MODEL_H
#define TUTTI_BENCH_ENGINE_MODEL_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tutti/tutti.h"

enum { TENSORS_MAX = 161, SMALL_BYTES = 64 * 1024 };

typedef struct model {
    tutti_context *context;
    int count;
    tutti_call calls[TENSORS_MAX];
    char names[TENSORS_MAX][8];
} model;

static void add(model *self, int elements, bool is_small_only)
{
    if (is_small_only && elements * (int)sizeof(float) >= SMALL_BYTES) {
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

static void empty(model *self)
{
    for (int i = 0; i < self->count; i++) {
        free(self->calls[i].output);
    }
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

#endif
