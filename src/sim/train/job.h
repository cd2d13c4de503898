/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - a training job on a modelled cluster, under a strategy: what would a step take?
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  the allocator's during the call; a walk of an all-reduce takes at most memory_bytes_max.
 */
#ifndef TUTTI_SIM_TRAIN_JOB_H
#define TUTTI_SIM_TRAIN_JOB_H

#include "sim/cluster.h"
#include "sim/strategy/strategy.h"
#include "sim/train/trainer.h"
#include "sim/train/walked_wire.h"

enum { TT_JOB_SIZES = 41 }; /* powers of two of bytes, up to a TiB */

/* How the times of exchanges are found. Those of other engines than Tutti are always closed. */
typedef enum tt_depth {
    TT_DEPTH_AUTO,     /* moves where they take seconds and fit, else closed */
    TT_DEPTH_MACHINES, /* every rank runs its own control: whole_job.h */
    TT_DEPTH_MOVES,    /* every message of all ranks is walked */
    TT_DEPTH_CLOSED,   /* by formula */
    TT_DEPTHS,
} tt_depth;

const char *tt_depth_name(tt_depth depth);
const char *tt_engine_name(tt_engine engine);

typedef struct tt_job {
    const tt_cluster *cluster;
    uint32_t rank_count;
    const tt_workload *workload; /* of a rank; bytes are those that are exchanged */
    double samples;              /* of a rank in a step; 0: not known */
    const tt_strategy *strategy;
    tt_strategy_settings settings;
    tt_engine engine; /* but not SERVERS */
    tt_depth depth;
    const char *algorithm; /* of all-reduces; NULL: as the library chooses */
    uint32_t step_count;
    uint64_t seed;
    const tt_slow_rank *slow;
    size_t slow_count;
    const tt_training_watch *watch; /* of its steps; may be NULL */
    uint64_t memory_bytes_max;      /* 0: that of tt_walked_config_init */
    const tt_allocator *allocator;
} tt_job;

typedef struct tt_job_result {
    tt_training_result training;
    double samples_per_s; /* of all ranks; 0: not known */
    double efficiency;    /* of a rank: its step alone without noise over that of the job */
    tt_engine engine;     /* those that were used: */
    tt_depth depth;
    uint32_t exchange_count;
    uint64_t size_counts[TT_JOB_SIZES]; /* of exchanges of at most 2^i bytes, and more than half */
    tt_fabric_traffic levels[TT_FABRIC_LEVELS]; /* of all ranks in a step */
} tt_job_result;

/* TT_ERR_BAD_CONFIG, TT_ERR_BAD_ARGUMENT, TT_ERR_NO_MEMORY and `why`: the culprit and the cure. */
tt_status tt_job_run(const tt_job *job, tt_text *why, tt_job_result *result_out);

#endif
