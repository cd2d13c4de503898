/* SPDX-License-Identifier: Apache-2.0
 *
 * walked_wire.h - a wire whose costs are those of whole exchanges on a cluster.
 *
 * A length is walked when it is first asked for (moves.h), and remembered: a plan has few lengths.
 * So policies and evaluations see the algorithms that a job would choose, with the contention of
 * its network. An all-reduce is walked on an idle fabric: what overlaps in a job, the end of one
 * and the beginning of the next, does not here. Instead of walked, Tutti's all-reduces can be
 * computed by formula; those of NCCL, of MPI and of servers always are (sim/closed/).
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  the allocator's, from create to destroy; a walk takes at most memory_bytes_max besides.
 */
#ifndef TUTTI_SIM_TRAIN_WALKED_WIRE_H
#define TUTTI_SIM_TRAIN_WALKED_WIRE_H

#include "model/model.h"
#include "sim/closed/nccl_time.h"
#include "sim/closed/server_time.h"
#include "sim/moves.h"

/* What exchanges, and how its times are found. */
typedef enum tt_wire_source {
    TT_WIRE_MOVES,   /* our own all-reduces, walked */
    TT_WIRE_CLOSED,  /* ours, by formula */
    TT_WIRE_NCCL,    /* NCCL's model of itself */
    TT_WIRE_MPI,     /* the fastest of doubling, halving and ring over all ranks, by formula: no
                        shared memory, no rails */
    TT_WIRE_SERVERS, /* BytePS, by formula */
    TT_WIRE_PUSHES,  /* one direction of a parameter server, by formula */
} tt_wire_source;

typedef struct tt_walked_config {
    tt_wire_source source;
    tt_nccl_job nccl;
    tt_server_job servers;
    double staging_gbs; /* MPI: copies from and to accelerators; 0: none */
    const tt_fabric_ops *model;
    tt_fabric_config fabric;
    uint32_t segment_bytes;    /* as TUTTI_SEGMENT */
    uint32_t eager_bytes_max;  /* as TUTTI_EAGER */
    const char *algorithm;     /* as TUTTI_ALGORITHM, or NULL */
    uint64_t memory_bytes_max; /* of a walk */
    const tt_allocator *allocator;
} tt_walked_config;

/* As TUTTI_SEGMENT, TUTTI_EAGER and the rest are by default. */
void tt_walked_config_init(tt_walked_config *config);

typedef struct tt_walked_wire tt_walked_wire;

/* TT_ERR_BAD_CONFIG, TT_ERR_NO_MEMORY or as tt_moves_run, and `why`. The caller destroys it. */
tt_status tt_walked_wire_create(const tt_walked_config *config, tt_text *why,
                                tt_walked_wire **wire_out);
void tt_walked_wire_destroy(tt_walked_wire *wire);

/* Its costs, valid until it is destroyed. Its line goes through 64 KiB and 16 MiB. `overlaps`: the
 * next all-reduce begins when the busiest card or processor has done its part of this one, as calls
 * of Tutti do; else when this one is over, as on a stream of NCCL's. */
tt_wire tt_walked_wire_costs(tt_walked_wire *wire, bool overlaps);

/* Whether every length that was asked for could be walked. A length that could not costs nothing,
 * and what was computed with it is void. */
tt_status tt_walked_wire_status(const tt_walked_wire *wire, tt_text *why);

/* What walking all lengths that were asked for takes, whatever the source of their costs. */
typedef struct tt_walked_needs {
    uint64_t messages;     /* of all ranks, where costs are by formula */
    uint64_t memory_bytes; /* at the start of the largest (tt_moves_bytes) */
} tt_walked_needs;

tt_walked_needs tt_walked_wire_survey(const tt_walked_wire *wire);

/* What an all-reduce of so many bytes sends; NULL: it cannot be walked. Valid until the next
 * length is asked for. Messages of NCCL are those of its steps, of servers one each way. */
const tt_moves_result *tt_walked_wire_result(tt_walked_wire *wire, uint64_t bytes);

#endif
