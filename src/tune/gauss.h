/* SPDX-License-Identifier: Apache-2.0
 *
 * gauss.h - a Gaussian process over a few samples in the unit cube.
 *
 * Kernel Matern 5/2 with a length per dimension; lengths and noise are chosen from a small grid by
 * marginal likelihood. Values are standardised inside.
 *
 * Layer:   tune; may include base/.
 * Threads: pure.
 * Memory:  none taken; a fitted process is about 6 KiB.
 */
#ifndef TUTTI_TUNE_GAUSS_H
#define TUTTI_TUNE_GAUSS_H

#include <stdint.h>

enum {
    TT_GAUSS_DIMENSIONS = 3,
    TT_GAUSS_SAMPLES_MAX = 24,
};

typedef struct tt_gauss_point {
    double at[TT_GAUSS_DIMENSIONS]; /* each in [0, 1]; beyond `dimension_count` ignored */
} tt_gauss_point;

typedef struct tt_gauss {
    uint32_t dimension_count;
    uint32_t count;
    tt_gauss_point points[TT_GAUSS_SAMPLES_MAX];
    double mean; /* of the values, and their deviation */
    double deviation;
    double lengths[TT_GAUSS_DIMENSIONS];
    double factor[TT_GAUSS_SAMPLES_MAX][TT_GAUSS_SAMPLES_MAX]; /* Cholesky, lower triangle */
    double weights[TT_GAUSS_SAMPLES_MAX];                      /* inverse kernel times values */
} tt_gauss;

typedef struct tt_gauss_guess {
    double mean;
    double deviation; /* of the mean, in the units of the values */
} tt_gauss_guess;

/* `count` in [1, TT_GAUSS_SAMPLES_MAX], finite values. */
void tt_gauss_fit(tt_gauss *gauss, uint32_t dimension_count, const tt_gauss_point *points,
                  const double *values, uint32_t count);

tt_gauss_guess tt_gauss_at(const tt_gauss *gauss, const tt_gauss_point *point);

/* How much below `best` a sample there is expected to be: never negative. */
double tt_gauss_improvement(const tt_gauss *gauss, const tt_gauss_point *point, double best);

#endif
