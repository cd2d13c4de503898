/* SPDX-License-Identifier: Apache-2.0
 *
 * stopwatch.h - the clock and the median of commands that measure.
 *
 * Layer:   cli.
 * Threads: any.
 * Memory:  the caller's.
 */
#ifndef TUTTI_CLI_STOPWATCH_H
#define TUTTI_CLI_STOPWATCH_H

#include <stdlib.h>
#include <time.h>

#include "base/assert.h"

static inline double tt_stopwatch_now_s(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static inline int tt_stopwatch_compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Of at least one value; of an even number, the mean of the two in the middle. The values are in
 * order afterwards. */
static inline double tt_stopwatch_median(double *values, size_t count)
{
    TT_ASSERT(count > 0);
    qsort(values, count, sizeof(*values), tt_stopwatch_compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

#endif
