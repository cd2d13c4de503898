/* SPDX-License-Identifier: Apache-2.0
 *
 * train.c - one all-reduce per segment, started in the middle of backward.
 */
#include "train.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "adam.h"

/* The average of one segment's gradient, in flight. */
typedef struct exchange {
    tutti_handle *handle;
    double begin_s;
    _Atomic double end_s; /* written by the thread that finished the call; 0: not yet */
} exchange;

struct gpt_trainer {
    tutti_context *context;
    gpt_model *model;
    gpt_adam adam;
    float *parameters;
    float *gradients; /* from tutti_alloc, where ranks of one host can reach them */
    size_t parameter_count;
    const gpt_segment *segments;
    size_t segment_count;
    exchange *exchanges; /* one per segment */

    gpt_timeline *timeline; /* of the current step, or NULL */
    double step_begin_s;
    double mark_s; /* end of the last span */
};

void gpt_must(tutti_context *context, tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s: %s\n", what, tutti_last_error(context));
        exit(1);
    }
}

double gpt_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- life ---------------------------------------------------------------------------------- */

static bool trainer_allocate(gpt_trainer *trainer, const gpt_shape *shape)
{
    trainer->parameter_count = gpt_model_parameter_count(shape);
    const size_t bytes = trainer->parameter_count * sizeof(float);
    trainer->parameters = tutti_alloc(trainer->context, bytes);
    trainer->gradients = tutti_alloc(trainer->context, bytes);
    if (trainer->parameters == NULL || trainer->gradients == NULL ||
        !gpt_adam_init(&trainer->adam, trainer->parameter_count)) {
        return false;
    }
    trainer->model = gpt_model_create(shape, trainer->parameters, trainer->gradients);
    if (trainer->model == NULL) {
        return false;
    }
    trainer->segments = gpt_model_segments(trainer->model, &trainer->segment_count);
    trainer->exchanges = calloc(trainer->segment_count, sizeof(*trainer->exchanges));
    return trainer->exchanges != NULL;
}

gpt_trainer *gpt_trainer_create(tutti_context *context, const gpt_shape *shape, uint64_t seed)
{
    gpt_trainer *trainer = calloc(1, sizeof(*trainer));
    if (trainer == NULL) {
        return NULL;
    }
    trainer->context = context;
    if (!trainer_allocate(trainer, shape)) {
        gpt_trainer_destroy(trainer);
        return NULL;
    }
    if (tutti_rank(context) == 0) {
        gpt_model_randomise(trainer->model, seed);
    }
    gpt_must(context,
             tutti_broadcast(context, trainer->parameters, trainer->parameter_count, TUTTI_F32, 0),
             "sharing the first parameters");
    return trainer;
}

void gpt_trainer_destroy(gpt_trainer *trainer)
{
    if (trainer == NULL) {
        return;
    }
    free(trainer->exchanges);
    gpt_model_destroy(trainer->model);
    gpt_adam_fini(&trainer->adam);
    tutti_free(trainer->context, trainer->gradients);
    tutti_free(trainer->context, trainer->parameters);
    free(trainer);
}

/* ---- the timeline -------------------------------------------------------------------------- */

static void span_add(gpt_trainer *trainer, gpt_span span)
{
    gpt_timeline *timeline = trainer->timeline;
    if (timeline != NULL && timeline->span_count < GPT_SPAN_MAX) {
        span.begin_s -= trainer->step_begin_s;
        span.end_s -= trainer->step_begin_s;
        timeline->spans[timeline->span_count++] = span;
    }
}

/* The span that began at the last mark ends now. Returns its duration. */
static double span_mark(gpt_trainer *trainer, gpt_span_kind kind, size_t segment)
{
    const double begin_s = trainer->mark_s;
    trainer->mark_s = gpt_now();
    span_add(trainer, (gpt_span){begin_s, trainer->mark_s, kind, (uint32_t)segment});
    return trainer->mark_s - begin_s;
}

/* ---- a step -------------------------------------------------------------------------------- */

static void exchange_done(void *user, tutti_handle *handle, tutti_status status)
{
    (void)handle;
    (void)status; /* tutti_wait reports it */
    exchange *done = user;
    atomic_store(&done->end_s, gpt_now());
}

/* Called in the middle of backward: this segment's gradient will not change any more. */
static void gradient_ready(void *user, size_t segment_index)
{
    gpt_trainer *trainer = user;
    const gpt_segment *segment = &trainer->segments[segment_index];
    exchange *started = &trainer->exchanges[segment_index];
    float *gradient = trainer->gradients + segment->offset;
    span_mark(trainer, GPT_BACKWARD, segment_index);

    tutti_call call = TUTTI_CALL_INIT;
    call.collective = TUTTI_ALLREDUCE;
    call.op = TUTTI_AVERAGE;
    call.input = gradient;
    call.output = gradient;
    call.count = segment->count;
    if (trainer->timeline != NULL) {
        call.done = exchange_done;
        call.done_user = started;
    }
    started->begin_s = gpt_now();
    atomic_store(&started->end_s, 0.0);
    gpt_must(trainer->context, tutti_start(trainer->context, &call, &started->handle),
             "starting a gradient's average");
}

/* Wait for every average, in the order in which they were started. */
static void gradients_wait(gpt_trainer *trainer)
{
    for (size_t i = trainer->segment_count; i > 0; i--) {
        exchange *pending = &trainer->exchanges[i - 1];
        if (tutti_wait(pending->handle, -1.0) != TUTTI_OK) {
            fprintf(stderr, "averaging gradients: %s\n", tutti_handle_error(pending->handle));
            exit(1);
        }
        double end_s = atomic_load(&pending->end_s);
        if (end_s == 0.0) { /* the wait returned before the callback ran */
            end_s = gpt_now();
        }
        span_add(trainer, (gpt_span){pending->begin_s, end_s, GPT_EXCHANGE, (uint32_t)(i - 1)});
        tutti_handle_free(pending->handle);
    }
}

gpt_step_result gpt_trainer_step(gpt_trainer *trainer, const gpt_batch *batch, double rate,
                                 gpt_timeline *timeline)
{
    gpt_step_result result;
    trainer->timeline = timeline;
    trainer->step_begin_s = gpt_now();
    trainer->mark_s = trainer->step_begin_s;

    gpt_model_forward(trainer->model, batch->tokens, batch->batch);
    result.loss = gpt_model_loss(trainer->model, batch->targets);
    span_mark(trainer, GPT_FORWARD, 0);
    gpt_model_backward(trainer->model, gradient_ready, trainer);
    gradients_wait(trainer);
    result.wait_s = span_mark(trainer, GPT_WAIT, 0);
    gpt_adam_update(&trainer->adam, trainer->parameters, trainer->gradients, (float)rate);
    span_mark(trainer, GPT_UPDATE, 0);
    return result;
}

uint64_t gpt_trainer_hash(const gpt_trainer *trainer)
{
    const uint8_t *bytes = (const void *)trainer->parameters;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < trainer->parameter_count * sizeof(float); i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

size_t gpt_trainer_parameter_count(const gpt_trainer *trainer)
{
    return trainer->parameter_count;
}

gpt_model *gpt_trainer_model(gpt_trainer *trainer)
{
    return trainer->model;
}
