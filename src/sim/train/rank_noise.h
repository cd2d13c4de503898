/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_noise.h - how much longer than planned each rank computes in a step.
 *
 * Ranks of a job that computes the same differ: clocks, caches, daemons. A rank's step takes a
 * factor that is drawn from a log-normal distribution of mean 1, now and then an interruption, and
 * on ranks that are slow a factor of their own. All ranks wait for the slowest, so a job loses more
 * the more ranks it has: the largest of N factors grows with the square root of log N.
 *
 * What a rank draws in a step depends on the seed, the rank and the step alone: not on the number
 * of ranks, and not on the order in which it is asked for.
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SIM_TRAIN_RANK_NOISE_H
#define TUTTI_SIM_TRAIN_RANK_NOISE_H

#include <stddef.h>
#include <stdint.h>

typedef struct tt_slow_rank {
    uint32_t rank;
    double factor; /* above 0 */
} tt_slow_rank;

typedef struct tt_rank_noise {
    uint64_t seed;
    uint32_t rank_count;
    double spread;      /* standard deviation over mean of a rank's computation; 0: none */
    double hiccup_rate; /* interruptions of a rank in a step, on average; below 1 */
    double hiccup_us;
    const tt_slow_rank *slow; /* one entry at most for a rank */
    size_t slow_count;
} tt_rank_noise;

/* How many times as long as `compute_us` this rank computes in this step. */
double tt_rank_noise_factor(const tt_rank_noise *noise, uint32_t rank, uint64_t step,
                            double compute_us);

/* Over all ranks. */
typedef struct tt_step_noise {
    double largest, mean;
    uint32_t slowest; /* rank */
} tt_step_noise;

tt_step_noise tt_rank_noise_draw(const tt_rank_noise *noise, uint64_t step, double compute_us);

#endif
