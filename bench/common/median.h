/* SPDX-License-Identifier: Apache-2.0
 *
 * median.h - samples in order, and the one in the middle.
 *
 * Layer:   bench; knows no library.
 * Threads: any.
 * Memory:  the caller's.
 */
#ifndef TUTTI_BENCH_COMMON_MEDIAN_H
#define TUTTI_BENCH_COMMON_MEDIAN_H

#include <stdlib.h>

static inline int bench_by_value(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static inline void bench_sort(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), bench_by_value);
}

/* The values are in order afterwards. */
static inline double bench_median(double *values, size_t count)
{
    bench_sort(values, count);
    return values[count / 2];
}

#endif
