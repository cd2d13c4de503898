/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle.h - the smallest driver: ranks in one process, frames in a bag, a seed that picks.
 *
 * Time advances only when nothing else can happen: then the earliest timer fires. Frames of one
 * link arrive in any order unless `is_ordered`. All ranks are on one host and have views of each
 * other's regions.
 *
 * Layer:   platform.
 * Threads: one at a time.
 * Memory:  malloc; allocations of machines are counted, and can be made to fail.
 */
#ifndef TUTTI_PLATFORM_SHUFFLE_H
#define TUTTI_PLATFORM_SHUFFLE_H

#include "platform/platform.h"

typedef struct tt_shuffle tt_shuffle;

typedef struct tt_shuffle_config {
    uint32_t size;
    uint64_t seed;
    bool is_ordered;    /* frames of a link arrive in the order they were sent */
    bool is_borrowing;  /* payloads stay borrowed for a while; else copied at once */
    uint64_t fail_at;   /* this allocation of a machine fails, from 1; 0: none */
    bool fails_forever; /* and all after it */
    bool has_engine;    /* ops that can be launched are (toy_engine.h) */
    uint64_t strays_at; /* this landing fails, from 1; 0: none */
    uint32_t hands;     /* of `work`, which splits every order; 0: there is no `work` */
} tt_shuffle_config;

tt_shuffle *tt_shuffle_create(const tt_shuffle_config *config);
/* False: a machine leaked allocations, or wrote to a region after its release. Machines must have
 * been destroyed. */
bool tt_shuffle_destroy(tt_shuffle *shuffle);

tt_platform *tt_shuffle_platform(tt_shuffle *shuffle, uint32_t rank);
/* Before the first step. */
void tt_shuffle_attach(tt_shuffle *shuffle, uint32_t rank, tt_machine machine);

/* One upcall, if any is due; false: nothing is in flight and no timer is set. */
bool tt_shuffle_step(tt_shuffle *shuffle);
/* Like step, but timers do not fire: false when no frame is in flight. */
bool tt_shuffle_step_frames(tt_shuffle *shuffle);

/* Allocations that machines have attempted so far. */
uint64_t tt_shuffle_allocations(const tt_shuffle *shuffle);

#endif
