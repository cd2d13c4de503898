/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.h - the layers of the model, each a forward and a backward function.
 *
 * Every backward adds to the gradients of its parameters and OVERWRITES the gradient of its input,
 * unless its comment says otherwise.
 *
 * Layer:   example; does not use Tutti.
 * Threads: none.
 * Memory:  everything is the caller's.
 */
#ifndef GPT_LAYERS_H
#define GPT_LAYERS_H

#include "matrix.h"

/* A pair of tensors and their gradients: weight and bias, or gain and bias. */
typedef struct gpt_weights {
    gpt_matrix weight;
    float *bias;
    gpt_matrix weight_gradient;
    float *bias_gradient;
} gpt_weights;

/* y = x W + bias */
void gpt_linear_forward(const gpt_weights *weights, gpt_matrix x, gpt_matrix y);
void gpt_linear_backward(const gpt_weights *weights, gpt_matrix x, gpt_matrix dy, gpt_matrix dx);

/* y = gain * unit + bias, where `unit` is x shifted and scaled to mean 0 and variance 1, row by
 * row. `unit` and `scale` (one per row) are kept for backward. */
typedef struct gpt_norm {
    gpt_matrix unit;
    float *scale;
    gpt_matrix y;
} gpt_norm;
void gpt_norm_forward(const gpt_weights *weights, gpt_norm *norm, gpt_matrix x);
/* ADDS to dx: the residual path has put its share there. */
void gpt_norm_backward(const gpt_weights *weights, const gpt_norm *norm, gpt_matrix dy,
                       gpt_matrix dx);

/* GELU in its sigmoid form: y = x * gate, gate = sigmoid(1.702 x), kept for backward. */
void gpt_gelu_forward(gpt_matrix x, gpt_matrix gate, gpt_matrix y);
/* In place: dy becomes dx. */
void gpt_gelu_backward(gpt_matrix x, gpt_matrix gate, gpt_matrix dy);

/* Causal attention of one head in one sequence. All four are views of context rows. `chances` is
 * context x context: the attention of each character to each earlier one; kept for backward. */
typedef struct gpt_head {
    gpt_matrix query;
    gpt_matrix key;
    gpt_matrix value;
    gpt_matrix output;
} gpt_head;
void gpt_attention_forward(const gpt_head *head, gpt_matrix chances);
/* `gradient` holds the gradients of the same views; `scratch` is as large as `chances`. */
void gpt_attention_backward(const gpt_head *head, const gpt_head *gradient, gpt_matrix chances,
                            gpt_matrix scratch);

#endif
