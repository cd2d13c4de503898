/* SPDX-License-Identifier: Apache-2.0
 *
 * philox.h - Philox4x32-10: random numbers as a function of key and counter.
 *
 * Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). The same key
 * and counter give the same numbers on every host, so ranks agree without communication. Not for
 * secrets.
 *
 * Layer:   base.
 * Threads: tt_philox_at is pure; a tt_random is used by one thread at a time.
 * Memory:  none taken.
 */
#ifndef TUTTI_BASE_PHILOX_H
#define TUTTI_BASE_PHILOX_H

#include <stdint.h>

typedef struct tt_philox_key {
    uint32_t word[2];
} tt_philox_key;

typedef struct tt_philox_block {
    uint32_t word[4];
} tt_philox_block;

tt_philox_block tt_philox_at(tt_philox_key key, tt_philox_block counter);

/* A stream: counter words 0 and 1 count blocks, 2 and 3 are the stream's number. */
typedef struct tt_random {
    tt_philox_key key;
    tt_philox_block counter;
    tt_philox_block ready;
    uint32_t ready_count; /* unused words of `ready` */
} tt_random;

/* Streams of one seed are independent of each other. */
void tt_random_init(tt_random *random, uint64_t seed, uint64_t stream);

uint32_t tt_random_u32(tt_random *random);
uint64_t tt_random_u64(tt_random *random);

/* Uniform in [0, limit), without bias; `limit` is not 0. */
uint64_t tt_random_below(tt_random *random, uint64_t limit);

/* Uniform in [0, 1), a multiple of 2^-53. */
double tt_random_real(tt_random *random);

#endif
