/* SPDX-License-Identifier: Apache-2.0
 *
 * machines.h - collectives of all ranks by the machines that jobs run, on a fabric.
 *
 * Every rank has its own control (control/control.h) over the simulated driver (platform/sim.h),
 * whose network is a fabric. Payloads have lengths and no bytes, so that what is simulated costs
 * events and no copies. A run is a list of calls that every rank makes, each at its own time; with
 * names, negotiation is part of it. What ranks have learned in a run, as names and recipes, they
 * know in the next.
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  malloc for the driver and the ranks, the allocator's for calls during a run; both
 *          together at most memory_bytes_max, by the estimate of tt_machines_bytes.
 */
#ifndef TUTTI_SIM_MACHINES_MACHINES_H
#define TUTTI_SIM_MACHINES_MACHINES_H

#include "control/control.h"
#include "sim/fabric.h"
#include "sim/fabric_network.h"

typedef struct tt_machines tt_machines;

typedef struct tt_machines_config {
    const tt_fabric_ops *model;
    tt_fabric_config fabric;   /* its ranks are those of the job; they share memory on a host */
    tt_control_config control; /* of every rank */
    tt_sim_engine engine;      /* runs calls in place of links; none: collective_ns is NULL */
    uint64_t seed;
    uint64_t memory_bytes_max;
    const tt_allocator *allocator;
} tt_machines_config;

/* As a job without settings has it; model and fabric are the caller's to set. */
void tt_machines_config_init(tt_machines_config *config);

/* A call that every rank makes. */
typedef struct tt_machines_call {
    tt_collective collective;
    tt_dtype dtype;
    tt_redop redop;
    uint64_t count; /* elements, as in tutti_call */
    uint32_t root;
    int32_t urgency;
    const char *name;         /* NULL: matched by order, which is that of the list */
    bool is_shared;           /* buffers are in the arena; all-reduces are in place */
    const uint64_t *start_ns; /* [ranks] from the begin of the run; NULL: all at 0 */
    uint64_t *done_ns;        /* [ranks] set to when each rank has ended it; may be NULL */
} tt_machines_call;

typedef struct tt_machines_result {
    uint64_t end_ns; /* from the begin of the run: the last rank has ended its last call */
    tt_fabric_traffic levels[TT_FABRIC_LEVELS]; /* until nothing was under way any more */
    uint64_t frames;                            /* of all levels */
    uint64_t events;
    uint64_t memory_bytes; /* that ranks and driver hold after the run */
} tt_machines_result;

/* About what ranks, driver and calls take at most; buffers take nothing. */
uint64_t tt_machines_bytes(const tt_machines_config *config, size_t call_count);

/* TT_ERR_BAD_CONFIG, TT_ERR_NO_MEMORY and `why`. The caller destroys it. */
tt_status tt_machines_create(const tt_machines_config *config, tt_text *why,
                             tt_machines **machines_out);
void tt_machines_destroy(tt_machines *machines);

/* All calls, until every rank has ended each of them. TT_ERR_BAD_ARGUMENT: a call is longer than
 * 16 GiB, all its parts together. A call's own failure, TT_ERR_NO_MEMORY, or TT_ERR_TIMED_OUT an
 * hour after the last start, and `why`; the machines can then only be destroyed. */
tt_status tt_machines_run(tt_machines *machines, const tt_machines_call *calls, size_t call_count,
                          tt_text *why, tt_machines_result *result_out);

/* As it was given to create. */
const tt_machines_config *tt_machines_config_of(const tt_machines *machines);
/* Of the rank, to look into its counters. */
tt_control *tt_machines_control(const tt_machines *machines, uint32_t rank);
/* Of all events so far. */
uint64_t tt_machines_hash(const tt_machines *machines);

#endif
