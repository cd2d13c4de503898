/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - how many iterations each worker has completed, and the least of them.
 *
 * Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server"
 * (2013). Unlike the published implementation, a worker can be taken out, so that one that is gone
 * does not hold up the others for good.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  from the platform.
 */
#ifndef TUTTI_SYNC_CLOCK_H
#define TUTTI_SYNC_CLOCK_H

#include "platform/platform.h"

typedef struct tt_clock {
    uint64_t *counts; /* [size] */
    bool *is_out;     /* [size] */
    uint32_t size;
    uint64_t least; /* of the workers that count; UINT64_MAX: there are none */
} tt_clock;

/* NO_MEMORY: nothing was made. */
tt_status tt_clock_make(tt_clock *clock, tt_platform *platform, uint32_t size);
void tt_clock_release(tt_clock *clock, tt_platform *platform);

/* All workers have completed `count` iterations before the first one that is counted. */
void tt_clock_start(tt_clock *clock, uint64_t count);
/* The worker has completed `count` iterations; fewer than before are ignored. True: the least has
 * grown. */
bool tt_clock_tick(tt_clock *clock, uint32_t worker, uint64_t count);
/* The worker counts no more. True: the least has grown. */
bool tt_clock_take_out(tt_clock *clock, uint32_t worker);

#endif
