/* SPDX-License-Identifier: Apache-2.0
 *
 * adam.h - the Adam optimizer.
 *
 * Layer:   example; does not use Tutti. The same gradients give the same parameters, so ranks
 *          that start equal and average their gradients stay equal bit by bit.
 * Threads: one optimizer belongs to one thread.
 * Memory:  two floats per parameter, freed by gpt_adam_fini.
 */
#ifndef GPT_ADAM_H
#define GPT_ADAM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gpt_adam {
    float *mean;
    float *square;
    size_t count;
    unsigned step;
} gpt_adam;

/* False when memory is short. */
bool gpt_adam_init(gpt_adam *adam, size_t count);
void gpt_adam_fini(gpt_adam *adam);
void gpt_adam_update(gpt_adam *adam, float *parameters, const float *gradients, float rate);

#endif
