/* SPDX-License-Identifier: Apache-2.0
 *
 * strategy.h - the contract of a strategy: how a training system exchanges the gradients of a step.
 *
 * A strategy fills a plan: what is exchanged as one, in which order, and when it may start. What
 * the exchanges cost is the job's business (train/job.h).
 *
 * Layer:   sim, private to it but for sim.h, which includes this header.
 * Threads: an ops table is const and shared; planning is pure.
 * Memory:  the plan's.
 */
#ifndef TUTTI_SIM_STRATEGY_STRATEGY_H
#define TUTTI_SIM_STRATEGY_STRATEGY_H

#include "model/model.h"

/* 0: the strategy's own. */
typedef struct tt_strategy_settings {
    uint64_t chunk_bytes;  /* TUTTI_CHUNK; of ddp and tf-distribute the length of a bucket */
    uint64_t credit_bytes; /* TUTTI_CREDIT */
    uint64_t fuse_bytes;   /* TUTTI_FUSE */
    bool crosses_steps;    /* the next forward begins with the parameters that have arrived */
} tt_strategy_settings;

typedef struct tt_strategy {
    const char *name;    /* as users write it */
    const char *summary; /* one line */
    const char *source;  /* where it is described */
    bool overlaps;       /* exchanges begin before those ahead of them are over */
    bool can_cross;      /* settings.crosses_steps has a meaning */
    bool takes_credit;   /* so has credit_bytes, */
    bool takes_fuse;     /* and fuse_bytes */
    /* `plan` is initialised and empty. `wire` is that of the collectives. */
    tt_status (*plan)(const tt_strategy_settings *settings, const tt_wire *wire,
                      tt_timetable *plan);
} tt_strategy;

/* The index-th, NULL at the end; the one of that name, or NULL. */
const tt_strategy *tt_strategy_at(size_t index);
const tt_strategy *tt_strategy_find(const char *name);

#endif
