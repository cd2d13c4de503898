/* SPDX-License-Identifier: Apache-2.0
 *
 * random.h - a small seeded source of random numbers (SplitMix64).
 *
 * Layer:   example; does not use Tutti.
 * Threads: one source belongs to one thread.
 * Memory:  none.
 */
#ifndef GPT_RANDOM_H
#define GPT_RANDOM_H

#include <stdint.h>

typedef struct gpt_random {
    uint64_t state;
} gpt_random;

static inline uint64_t gpt_random_next(gpt_random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static inline double gpt_random_uniform(gpt_random *random)
{
    return (double)(gpt_random_next(random) >> 11) * 0x1p-53;
}

#endif
