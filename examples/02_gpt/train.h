/* SPDX-License-Identifier: Apache-2.0
 *
 * train.h - data-parallel training steps: this part uses Tutti.
 *
 * Every rank holds the whole model. A step computes gradients of the rank's own batch; as soon as
 * backward has finished a segment its average over the ranks is started, and backward goes on with
 * the segments before it. The optimizer waits for all of them.
 *
 * Layer:   example.
 * Threads: a trainer belongs to one thread; Tutti reports finished calls from another.
 * Memory:  gpt_trainer_destroy frees everything, and must come before tutti_shutdown.
 */
#ifndef GPT_TRAIN_H
#define GPT_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "data.h"
#include "model.h"

enum { GPT_SPAN_MAX = 96 };

typedef enum gpt_span_kind {
    GPT_FORWARD,
    GPT_BACKWARD,
    GPT_WAIT,     /* for gradients of other ranks */
    GPT_UPDATE,   /* the optimizer */
    GPT_EXCHANGE, /* an all-reduce, from its start to its end */
    GPT_SPAN_KINDS,
} gpt_span_kind;

typedef struct gpt_span {
    double begin_s; /* since the step began on this rank */
    double end_s;
    uint32_t kind;
    uint32_t segment;
} gpt_span;

/* The timeline of one rank in one step. Plain memory: ranks send it to each other. */
typedef struct gpt_timeline {
    uint64_t span_count;
    gpt_span spans[GPT_SPAN_MAX];
} gpt_timeline;

typedef struct gpt_trainer gpt_trainer;

typedef struct gpt_step_result {
    double loss;   /* of this rank's batch, in nats per character */
    double wait_s; /* time in which this rank waited for gradients */
} gpt_step_result;

/* End the process with a message unless `status` is TUTTI_OK. */
void gpt_must(tutti_context *context, tutti_status status, const char *what);

/* Seconds on a clock that only moves forward. */
double gpt_now(void);

/* Collective: copies rank 0's parameters to every rank. NULL when memory is short. */
gpt_trainer *gpt_trainer_create(tutti_context *context, const gpt_shape *shape, uint64_t seed);
void gpt_trainer_destroy(gpt_trainer *trainer);

/* Collective. One step at learning rate `rate`; `timeline` may be NULL. */
gpt_step_result gpt_trainer_step(gpt_trainer *trainer, const gpt_batch *batch, double rate,
                                 gpt_timeline *timeline);

/* 64 bits of FNV-1a over the parameters: equal only if every bit is. */
uint64_t gpt_trainer_hash(const gpt_trainer *trainer);
size_t gpt_trainer_parameter_count(const gpt_trainer *trainer);
gpt_model *gpt_trainer_model(gpt_trainer *trainer);

#endif
