/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - a small decoder-only transformer over characters, forward and backward by hand.
 *
 * Token and learned position embeddings, then blocks of
 *     x += attention(norm(x)),  x += mlp(norm(x))
 * then a last norm and the head. The parameters form SEGMENTS in the order of the forward pass:
 * the embeddings, one per block, the head. Backward finishes the gradient of a segment at a time,
 * last segment first, and calls `done`, in which communication can begin.
 *
 * Layer:   example; does not use Tutti.
 * Threads: one model belongs to one thread.
 * Memory:  parameters and gradients are the caller's; activations are the model's.
 */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct gpt_shape {
    size_t vocabulary;
    size_t context; /* characters per sequence */
    size_t width;   /* numbers per character; a multiple of `heads` */
    size_t heads;
    size_t layers;
    size_t batch; /* sequences per step */
} gpt_shape;

typedef struct gpt_tensor {
    const char *name;
    size_t segment;
    size_t offset; /* floats from the start of all parameters */
    size_t rows;
    size_t columns;
    float initial; /* standard deviation; below zero: every element is -initial */
} gpt_tensor;

typedef struct gpt_segment {
    size_t offset; /* a multiple of 16 floats: one cache line */
    size_t count;
} gpt_segment;

typedef struct gpt_model gpt_model;
typedef void gpt_segment_done(void *user, size_t segment_index);

/* Floats that the parameters of `shape` take, and so the gradients. */
size_t gpt_model_parameter_count(const gpt_shape *shape);

/* Borrows `parameters` and `gradients` until destroyed. NULL when memory is short. */
gpt_model *gpt_model_create(const gpt_shape *shape, float *parameters, float *gradients);
void gpt_model_destroy(gpt_model *model);
void gpt_model_randomise(gpt_model *model, uint64_t seed);

const gpt_tensor *gpt_model_tensors(const gpt_model *model, size_t *count_out);
const gpt_segment *gpt_model_segments(const gpt_model *model, size_t *count_out);

/* Run `batch` (at most shape.batch) sequences of shape.context tokens; returns the logits,
 * shape.vocabulary per token, valid until the next call. */
const float *gpt_model_forward(gpt_model *model, const uint8_t *tokens, size_t batch);

/* Mean loss in nats of the last forward against `targets`; prepares backward. */
double gpt_model_loss(gpt_model *model, const uint8_t *targets);

/* Gradients of that loss, overwriting the old ones. `done` may be NULL. */
void gpt_model_backward(gpt_model *model, gpt_segment_done *done, void *user);

#endif
