/* SPDX-License-Identifier: Apache-2.0
 *
 * burnt.h - processor time of a wait.
 *
 * The minimum over some waits: a busy wait takes processor time in all of them, a host that stalls
 * and counts the stall as ours only in some.
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

/* By CLOCK_THREAD_CPUTIME_ID or CLOCK_PROCESS_CPUTIME_ID, during `wait`; repeated until a wait
 * takes less than `enough_ns`. */
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
