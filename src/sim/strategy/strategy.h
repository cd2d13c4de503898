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
#include "sim/closed/agreement.h"

/* What makes the exchanges. */
typedef enum tt_engine {
    TT_ENGINE_OWN, /* the strategy's own, see tt_strategy_engine */
    TT_ENGINE_TUTTI,
    TT_ENGINE_NCCL,
    TT_ENGINE_MPI,
    TT_ENGINE_SERVERS,
    TT_ENGINES,
} tt_engine;

/* Of strategy tutti, in a step that is like the ones before it: TUTTI_CONTROL. */
typedef enum tt_agree_mode {
    TT_AGREE_PLAN,
    TT_AGREE_BITVECTOR,
    TT_AGREE_COORDINATOR,
    TT_AGREE_ORIGINAL,
    TT_AGREE_MODES,
} tt_agree_mode;

/* 0: the strategy's own. */
typedef struct tt_strategy_settings {
    uint64_t chunk_bytes;  /* TUTTI_CHUNK; of ddp and tf-distribute the length of a bucket */
    uint64_t credit_bytes; /* TUTTI_CREDIT */
    uint64_t fuse_bytes;   /* TUTTI_FUSE, HOROVOD_FUSION_THRESHOLD */
    uint32_t group_count;  /* of tensors that are requested together */
    double cycle_us;       /* HOROVOD_CYCLE_TIME, TUTTI_CYCLE */
    tt_agree_mode control;
    uint32_t server_count; /* hosts of servers alone */
    bool crosses_steps;    /* the next forward begins with the parameters that have arrived */
} tt_strategy_settings;

typedef struct tt_strategy_input {
    const tt_strategy_settings *settings;
    const tt_wire *wire;           /* that of the exchanges */
    const tt_agree_job *agreement; /* of the job's ranks */
    tt_engine engine;              /* not OWN */
} tt_strategy_input;

typedef struct tt_strategy {
    const char *name;    /* as users write it */
    const char *summary; /* one line */
    const char *source;  /* where it is described */
    tt_engine engine;    /* on clusters with accelerators, */
    tt_engine plain;     /* and without */
    bool overlaps;       /* exchanges of Tutti begin before those ahead of them are over */
    bool can_cross;      /* settings.crosses_steps has a meaning */
    bool takes_credit;   /* so has credit_bytes, */
    bool takes_fuse;     /* fuse_bytes, */
    bool takes_control;  /* control, and cycle_us where that is ORIGINAL, */
    bool takes_cycles;   /* cycle_us and group_count; chunk_bytes has none then */
    bool takes_servers;  /* server_count */
    bool pushes;         /* to servers that own all: pushes and pulls */
    /* `plan` is initialised and empty. */
    tt_status (*plan)(const tt_strategy_input *input, tt_timetable *plan);
} tt_strategy;

const char *tt_agree_mode_name(tt_agree_mode mode);

/* The engine that a job asks for, or the strategy's own. */
tt_engine tt_strategy_engine(const tt_strategy *strategy, tt_engine asked, bool has_accelerators);

/* The index-th, NULL at the end; the one of that name, or NULL. */
const tt_strategy *tt_strategy_at(size_t index);
const tt_strategy *tt_strategy_find(const char *name);

#endif
