/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_noise.c - one block of random words for each rank and step; see rank_noise.h. */
#include "sim/train/rank_noise.h"

#include <math.h>

#include "base/assert.h"
#include "base/philox.h"

static const double word_span = 4294967296.0; /* of a random word */

/* In (0, 1): never an end, of which there is no logarithm. */
static double real_of(uint32_t word)
{
    return ((double)word + 0.5) / word_span;
}

static tt_philox_block block_of(const tt_rank_noise *noise, uint32_t rank, uint64_t step)
{
    const tt_philox_key key = {{(uint32_t)noise->seed, (uint32_t)(noise->seed >> 32)}};
    const tt_philox_block counter = {{(uint32_t)step, (uint32_t)(step >> 32), rank, 0}};
    return tt_philox_at(key, counter);
}

/* Box and Muller (1958). */
static double normal_of(const tt_philox_block *block)
{
    const double circle = 2 * acos(-1.0);
    return sqrt(-2 * log(real_of(block->word[0]))) * cos(circle * real_of(block->word[1]));
}

static double slowness_of(const tt_rank_noise *noise, uint32_t rank)
{
    for (size_t i = 0; i < noise->slow_count; i++) {
        if (noise->slow[i].rank == rank) {
            return noise->slow[i].factor;
        }
    }
    return 1;
}

double tt_rank_noise_factor(const tt_rank_noise *noise, uint32_t rank, uint64_t step,
                            double compute_us)
{
    TT_ASSERT(noise->hiccup_rate < 1 && noise->spread >= 0);
    double factor = slowness_of(noise, rank);
    if (noise->spread <= 0 && noise->hiccup_rate <= 0) {
        return factor;
    }
    const tt_philox_block block = block_of(noise, rank, step);
    if (noise->spread > 0) {
        const double variance = log1p(noise->spread * noise->spread);
        factor *= exp(sqrt(variance) * normal_of(&block) - variance / 2);
    }
    if (real_of(block.word[2]) < noise->hiccup_rate && compute_us > 0) {
        factor += noise->hiccup_us / compute_us;
    }
    return factor;
}

tt_step_noise tt_rank_noise_draw(const tt_rank_noise *noise, uint64_t step, double compute_us)
{
    tt_step_noise drawn = {.largest = 0};
    double sum = 0;
    TT_ASSERT(noise->rank_count > 0);
    for (uint32_t rank = 0; rank < noise->rank_count; rank++) {
        const double factor = tt_rank_noise_factor(noise, rank, step, compute_us);
        sum += factor;
        if (factor > drawn.largest) {
            drawn.largest = factor;
            drawn.slowest = rank;
        }
    }
    drawn.mean = sum / noise->rank_count;
    return drawn;
}
