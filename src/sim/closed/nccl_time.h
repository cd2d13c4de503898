/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_time.h - how long NCCL says that its all-reduce takes.
 *
 * NCCL chooses algorithm and protocol by a model of their times (src/graph/tuning.cc): a latency of
 * hops, and bytes at the speed of the bus. This is that model, for rings and trees, with the
 * constants of releases 2.18 to 2.21. It knows no contention with other jobs and no late ranks.
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SIM_CLOSED_NCCL_TIME_H
#define TUTTI_SIM_CLOSED_NCCL_TIME_H

#include "sim/cluster.h"

typedef enum tt_nccl_algorithm { TT_NCCL_TREE, TT_NCCL_RING, TT_NCCL_ALGORITHMS } tt_nccl_algorithm;
typedef enum tt_nccl_protocol {
    TT_NCCL_LL,
    TT_NCCL_LL128,
    TT_NCCL_SIMPLE,
    TT_NCCL_PROTOCOLS,
} tt_nccl_protocol;

typedef struct tt_nccl_job {
    uint32_t rank_count, host_count, ranks_per_host;
    tt_cluster_generation generation; /* one that NCCL has constants for */
    uint32_t channels;                /* 0: without the limits of channels */
    double bus_gbs;
    bool has_nvlink; /* between accelerators of a host; else PCIe */
} tt_nccl_job;

/* TT_ERR_BAD_CONFIG and `why`: the cluster has no accelerators. Links of a host that are faster
 * than PCIe of the generation (12, 24 and 48 GB/s) are NVLinks. */
tt_status tt_nccl_job_init(tt_nccl_job *job, const tt_cluster *cluster, uint32_t rank_count,
                           tt_text *why);

/* Of an all-reduce of so many bytes; two ranks or more. */
double tt_nccl_latency_us(const tt_nccl_job *job, tt_nccl_algorithm algorithm,
                          tt_nccl_protocol protocol, uint64_t bytes);
/* 0: this protocol is not used there. */
double tt_nccl_bandwidth_gbs(const tt_nccl_job *job, tt_nccl_algorithm algorithm,
                             tt_nccl_protocol protocol, uint64_t bytes);

typedef struct tt_nccl_choice {
    tt_nccl_algorithm algorithm;
    tt_nccl_protocol protocol;
    double time_us;
} tt_nccl_choice;

/* The fastest, as NCCL chooses. A rank alone: no time. */
tt_nccl_choice tt_nccl_allreduce(const tt_nccl_job *job, uint64_t bytes);

#endif
