/* SPDX-License-Identifier: Apache-2.0
 *
 * linear.h - the cost of a transfer as a straight line: f(d) = a + b d.
 *
 * Layer:   tune; may include base/.
 * Threads: pure.
 * Memory:  none taken.
 */
#ifndef TUTTI_TUNE_LINEAR_H
#define TUTTI_TUNE_LINEAR_H

#include <stddef.h>

#include "base/status.h"

enum {
    TT_LINEAR_SAMPLES_MAX = 128,
};

typedef struct tt_linear_sample {
    double bytes;
    double time_us;
} tt_linear_sample;

typedef struct tt_linear {
    double start_us; /* a, not negative */
    double byte_us;  /* b, not negative */
} tt_linear;

/* Theil-Sen: the median slope of all pairs, then the median of the residuals. Up to 29 % of the
 * samples may be arbitrarily wrong. TT_ERR_BAD_ARGUMENT: fewer than two sizes, more than
 * TT_LINEAR_SAMPLES_MAX samples, or one that is negative or not a number. */
tt_status tt_linear_fit(const tt_linear_sample *samples, size_t count, tt_linear *fit_out);

static inline double tt_linear_us(const tt_linear *line, double bytes)
{
    return line->start_us + line->byte_us * bytes;
}

/* The smallest d with f(2d) / (2 f(d)) > ratio, ratio in (0.5, 1): from there on, fusing two such
 * transfers saves little. Closed form (2r - 1) / (2 (1 - r)) a / b; 1.5 a / b for 0.8. INFINITY
 * where bytes cost nothing, 0 where starting costs nothing. */
double tt_linear_threshold_bytes(const tt_linear *line, double ratio);

#endif
