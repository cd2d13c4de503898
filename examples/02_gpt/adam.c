/* SPDX-License-Identifier: Apache-2.0
 *
 * adam.c - Kingma and Ba, 2014, with the bias corrections folded into the rate.
 */
#include "adam.h"

#include <math.h>
#include <stdlib.h>

static const float mean_decay = 0.9f;
static const float square_decay = 0.99f; /* short memory: the run is a few hundred steps */
static const float epsilon = 1e-8f;

bool gpt_adam_init(gpt_adam *adam, size_t count)
{
    *adam = (gpt_adam){.count = count};
    adam->mean = calloc(count, sizeof(float));
    adam->square = calloc(count, sizeof(float));
    if (adam->mean == NULL || adam->square == NULL) {
        gpt_adam_fini(adam);
        return false;
    }
    return true;
}

void gpt_adam_fini(gpt_adam *adam)
{
    free(adam->square);
    free(adam->mean);
    *adam = (gpt_adam){0};
}

void gpt_adam_update(gpt_adam *adam, float *parameters, const float *gradients, float rate)
{
    adam->step++;
    const float mean_part = 1.0f - powf(mean_decay, (float)adam->step);
    const float square_part = 1.0f - powf(square_decay, (float)adam->step);
    const float step_rate = rate * sqrtf(square_part) / mean_part;
    float *restrict mean = adam->mean;
    float *restrict square = adam->square;
    for (size_t i = 0; i < adam->count; i++) {
        const float gradient = gradients[i];
        mean[i] += (1.0f - mean_decay) * (gradient - mean[i]);
        square[i] += (1.0f - square_decay) * (gradient * gradient - square[i]);
        parameters[i] -= step_rate * mean[i] / (sqrtf(square[i]) + epsilon);
    }
}
