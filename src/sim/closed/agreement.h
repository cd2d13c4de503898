/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement.h - how long ranks take to agree on the tensors that all have, by formula.
 *
 * Our own negotiation has four modes (docs/control.md). Horovod has two: a coordinator that gathers
 * the requests of all ranks in every cycle, and since its response cache an AND of bit vectors,
 * after which every rank builds the same answers from its cache (controller.cc, response_cache.cc).
 * Agreeing by a plan takes no time and has no formula.
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SIM_CLOSED_AGREEMENT_H
#define TUTTI_SIM_CLOSED_AGREEMENT_H

#include "sim/cluster.h"

typedef struct tt_agree_job {
    uint32_t rank_count, ranks_per_host;
    double send_us, receive_us;       /* of a processor, for a frame */
    double receive_byte_us;           /* and for each byte that it receives */
    double occupied_us;               /* between frames of many senders to one rank */
    double host_us, network_us;       /* latencies */
    double wire_byte_us;              /* of the network */
    double head_bytes, request_bytes; /* of a frame; of a tensor in it */
    double request_us;                /* of a coordinator, for one tensor of one rank */
} tt_agree_job;

void tt_agree_job_init(tt_agree_job *agreement, const tt_cluster *cluster, uint32_t rank_count);

/* ---- our own modes ---- */

/* An AND of vectors: to the leaders of hosts, by doubling among these, and back. */
double tt_agree_bitvector_us(const tt_agree_job *agreement, double vector_bytes);
/* The same, and then requests for so many tensors up a tree, merged, and answers down. */
double tt_agree_coordinator_us(const tt_agree_job *agreement, double vector_bytes,
                               double tensor_count);

/* All send their requests to rank 0, which sends all the answers. */
typedef struct tt_agree_star {
    double gather_us; /* rank 0 has all requests */
    double send_us;   /* it has sent all answers */
    double last_us;   /* the last of them has arrived; all three one after the other */
} tt_agree_star;

tt_agree_star tt_agree_original(const tt_agree_job *agreement, double tensor_count);

/* ---- Horovod's ---- */

/* A cycle in which each rank requests so many tensors, by way of the coordinator: two gathers, two
 * broadcasts, the requests of every rank one after the other at rank 0. */
double tt_agree_horovod_us(const tt_agree_job *agreement, double tensor_count);
/* The same with all tensors in the cache: an AND over all ranks, and each rank's copies and
 * comparisons of answers, which name the device of every rank. `all_tensors`: of the cache. */
double tt_agree_horovod_cached_us(const tt_agree_job *agreement, double tensor_count,
                                  double all_tensors);

#endif
