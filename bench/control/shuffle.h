/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle.h - an order of a rank's or a thread's own.
 *
 * Layer:   bench; knows no library.
 * Threads: pure.
 * Memory:  the caller's.
 */
#ifndef TUTTI_BENCH_CONTROL_SHUFFLE_H
#define TUTTI_BENCH_CONTROL_SHUFFLE_H

#include <stdint.h>

/* 0 to count - 1 in another order each time; `random` goes on from call to call. */
static inline void shuffle(uint32_t *order, uint32_t count, uint64_t *random)
{
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint32_t j = (uint32_t)((*random >> 33) % i);
        const uint32_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

#endif
