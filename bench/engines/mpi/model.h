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

#include "bench/common/resnet50.h"
#include "tutti/tutti.h"

enum { SMALL_BYTES = 64 * 1024 };

typedef struct model {
    tutti_context *context;
    int count;
    tutti_call calls[RESNET50_TENSORS];
    char names[RESNET50_TENSORS][8];
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

static void fill(model *self, bool is_small_only)
{
    resnet50_tensor tensors[RESNET50_TENSORS];
    resnet50_make(tensors);
    self->count = 0;
    for (int i = 0; i < RESNET50_TENSORS; i++) {
        add(self, (int)tensors[i].elements, is_small_only);
    }
}

static void step_engine(const model *self)
{
    tutti_handle *handles[RESNET50_TENSORS];
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

#endif
