/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - linear, norm, GELU and causal attention.
 */
#include "layers.h"

#include <math.h>
#include <string.h>

static const float norm_epsilon = 1e-5f;
static const float gelu_slope = 1.702f;

static float *row_of(gpt_matrix matrix, size_t row)
{
    return matrix.data + row * matrix.row_stride;
}

static void matrix_clear(gpt_matrix matrix)
{
    for (size_t i = 0; i < matrix.rows; i++) {
        memset(row_of(matrix, i), 0, matrix.columns * sizeof(float));
    }
}

void gpt_linear_forward(const gpt_weights *weights, gpt_matrix x, gpt_matrix y)
{
    for (size_t i = 0; i < y.rows; i++) {
        memcpy(row_of(y, i), weights->bias, y.columns * sizeof(float));
    }
    gpt_matrix_multiply_add(y, x, weights->weight);
}

void gpt_linear_backward(const gpt_weights *weights, gpt_matrix x, gpt_matrix dy, gpt_matrix dx)
{
    float *restrict bias_gradient = weights->bias_gradient;
    for (size_t i = 0; i < dy.rows; i++) {
        const float *restrict row = row_of(dy, i);
        for (size_t j = 0; j < dy.columns; j++) {
            bias_gradient[j] += row[j];
        }
    }
    gpt_matrix_multiply_add(weights->weight_gradient, gpt_matrix_transposed(x), dy);
    matrix_clear(dx);
    gpt_matrix_multiply_add(dx, dy, gpt_matrix_transposed(weights->weight));
}

void gpt_norm_forward(const gpt_weights *weights, gpt_norm *norm, gpt_matrix x)
{
    const float *gain = weights->weight.data;
    for (size_t i = 0; i < x.rows; i++) {
        const float *row = row_of(x, i);
        float mean = 0.0f;
        float variance = 0.0f;
        for (size_t j = 0; j < x.columns; j++) {
            mean += row[j];
        }
        mean /= (float)x.columns;
        for (size_t j = 0; j < x.columns; j++) {
            variance += (row[j] - mean) * (row[j] - mean);
        }
        const float scale = 1.0f / sqrtf(variance / (float)x.columns + norm_epsilon);
        norm->scale[i] = scale;
        float *restrict unit = row_of(norm->unit, i);
        float *restrict y = row_of(norm->y, i);
        for (size_t j = 0; j < x.columns; j++) {
            unit[j] = (row[j] - mean) * scale;
            y[j] = unit[j] * gain[j] + weights->bias[j];
        }
    }
}

/* With u = unit and g = dy * gain:  dx = scale * (g - mean(g) - u * mean(g * u)). */
void gpt_norm_backward(const gpt_weights *weights, const gpt_norm *norm, gpt_matrix dy,
                       gpt_matrix dx)
{
    const float *restrict gain = weights->weight.data;
    float *restrict gain_gradient = weights->weight_gradient.data;
    float *restrict bias_gradient = weights->bias_gradient;
    const float share = 1.0f / (float)dy.columns;
    for (size_t i = 0; i < dy.rows; i++) {
        const float *restrict unit = row_of(norm->unit, i);
        const float *restrict up = row_of(dy, i);
        float *restrict down = row_of(dx, i);
        float mean = 0.0f;
        float mean_unit = 0.0f;
        for (size_t j = 0; j < dy.columns; j++) {
            gain_gradient[j] += up[j] * unit[j];
            bias_gradient[j] += up[j];
            mean += up[j] * gain[j] * share;
            mean_unit += up[j] * gain[j] * unit[j] * share;
        }
        for (size_t j = 0; j < dy.columns; j++) {
            down[j] += norm->scale[i] * (up[j] * gain[j] - mean - unit[j] * mean_unit);
        }
    }
}

void gpt_gelu_forward(gpt_matrix x, gpt_matrix gate, gpt_matrix y)
{
    const size_t count = x.rows * x.columns;
    for (size_t i = 0; i < count; i++) {
        gate.data[i] = 1.0f / (1.0f + expf(-gelu_slope * x.data[i]));
        y.data[i] = x.data[i] * gate.data[i];
    }
}

void gpt_gelu_backward(gpt_matrix x, gpt_matrix gate, gpt_matrix dy)
{
    const size_t count = x.rows * x.columns;
    for (size_t i = 0; i < count; i++) {
        const float s = gate.data[i];
        dy.data[i] *= s + gelu_slope * x.data[i] * s * (1.0f - s);
    }
}

/* Turn the scores row[0..count) into chances that sum to 1. */
static void softmax(float *row, size_t count, float scale)
{
    float largest = row[0];
    for (size_t j = 1; j < count; j++) {
        largest = row[j] > largest ? row[j] : largest;
    }
    float sum = 0.0f;
    for (size_t j = 0; j < count; j++) {
        row[j] = expf((row[j] - largest) * scale);
        sum += row[j];
    }
    for (size_t j = 0; j < count; j++) {
        row[j] /= sum;
    }
}

void gpt_attention_forward(const gpt_head *head, gpt_matrix chances)
{
    const float scale = 1.0f / sqrtf((float)head->query.columns);
    matrix_clear(chances);
    gpt_matrix_multiply_add(chances, head->query, gpt_matrix_transposed(head->key));
    for (size_t i = 0; i < chances.rows; i++) {
        float *row = row_of(chances, i);
        softmax(row, i + 1, scale); /* a character sees itself and what came before */
        memset(row + i + 1, 0, (chances.columns - i - 1) * sizeof(float));
    }
    matrix_clear(head->output);
    gpt_matrix_multiply_add(head->output, chances, head->value);
}

void gpt_attention_backward(const gpt_head *head, const gpt_head *gradient, gpt_matrix chances,
                            gpt_matrix scratch)
{
    const float scale = 1.0f / sqrtf((float)head->query.columns);
    matrix_clear(gradient->value);
    gpt_matrix_multiply_add(gradient->value, gpt_matrix_transposed(chances), gradient->output);
    matrix_clear(scratch);
    gpt_matrix_multiply_add(scratch, gradient->output, gpt_matrix_transposed(head->value));
    for (size_t i = 0; i < chances.rows; i++) { /* through the softmax */
        const float *chance = row_of(chances, i);
        float *row = row_of(scratch, i);
        float mean = 0.0f;
        for (size_t j = 0; j <= i; j++) {
            mean += chance[j] * row[j];
        }
        for (size_t j = 0; j < chances.columns; j++) {
            row[j] = scale * chance[j] * (row[j] - mean);
        }
    }
    matrix_clear(gradient->query);
    gpt_matrix_multiply_add(gradient->query, scratch, head->key);
    matrix_clear(gradient->key);
    gpt_matrix_multiply_add(gradient->key, gpt_matrix_transposed(scratch), head->query);
}
