/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - the clocks of the benchmarks.
 *
 * Layer:   bench; knows no library.
 * Threads: any.
 * Memory:  none taken.
 */
#ifndef TUTTI_BENCH_COMMON_CLOCK_H
#define TUTTI_BENCH_COMMON_CLOCK_H

#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

static inline int64_t bench_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t bench_now_ns(void)
{
    return bench_clock_ns(CLOCK_MONOTONIC);
}

static inline double bench_now_us(void)
{
    return (double)bench_now_ns() * 1e-3;
}

/* Processor time of this process and of the kernel in its name. */
static inline double bench_cpu_us(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e6 +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

#endif
