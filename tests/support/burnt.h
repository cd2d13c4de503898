/* SPDX-License-Identifier: Apache-2.0
 *
 * burnt.h - how much processor time a wait takes.
 *
 * The least of some waits: who burns does so in all of them, a machine that stalls and counts it as
 * ours does so in one or another.
 *
 * Layer:   tests.
 * Threads: any.
 * Memory:  none.
 */
#ifndef TUTTI_TESTS_SUPPORT_BURNT_H
#define TUTTI_TESTS_SUPPORT_BURNT_H

#include <stdint.h>
#include <time.h>

enum { BURNT_TRIES = 8 };

static inline uint64_t burnt_so_far_ns(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* By CLOCK_THREAD_CPUTIME_ID or CLOCK_PROCESS_CPUTIME_ID, during `wait`; the first that takes less
 * than `enough_ns` is the last. */
static inline uint64_t burnt_least_ns(clockid_t clock, void (*wait)(void *argument), void *argument,
                                      uint64_t enough_ns)
{
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < BURNT_TRIES && least_ns >= enough_ns; i++) {
        const uint64_t before_ns = burnt_so_far_ns(clock);
        wait(argument);
        const uint64_t burnt_ns = burnt_so_far_ns(clock) - before_ns;
        least_ns = burnt_ns < least_ns ? burnt_ns : least_ns;
    }
    return least_ns;
}

#endif
