/* SPDX-License-Identifier: Apache-2.0
 *
 * server_time.h - how long sums on servers take, by formula.
 *
 * Workers are hosts: accelerators of a host have summed what they have before. With n worker hosts
 * and k hosts of servers, cards of B bytes/s each way, BytePS (OSDI'20) shares out a vector of M
 * bytes so that all cards are busy for 2 n (n - 1) M / ((n^2 + k n - 2 k) B): src/sync/split.h does
 * the same. A parameter server whose workers own nothing takes max(M / B, n M / (k B)) in each
 * direction.
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SIM_CLOSED_SERVER_TIME_H
#define TUTTI_SIM_CLOSED_SERVER_TIME_H

#include "sim/cluster.h"

typedef struct tt_server_job {
    uint32_t ranks_per_host;
    double hosts, servers;       /* hosts of workers; of servers alone */
    double card_gbs, latency_us; /* of a host to others */
    double occupied_us;          /* of a card or processor, for each message */
    double local_gbs;            /* among accelerators of a host; 0: ranks in memory */
    double copy_gbs, reduce_gbs;
} tt_server_job;

/* TT_ERR_BAD_CONFIG and `why`: hosts of ranks and of servers are more than the cluster has. */
tt_status tt_server_job_init(tt_server_job *job, const tt_cluster *cluster, uint32_t rank_count,
                             uint32_t server_count, tt_text *why);

/* Of a part of so many bytes: how long its busiest stage takes, for which the next part waits, and
 * all of them. */
typedef struct tt_server_time {
    double hold_us, whole_us;
} tt_server_time;

/* Reduce on the host, copy, push to owners, sum, pull, copy, gather on the host. All owners work as
 * long if there are many parts; a part has one owner, whose card carries it from and to all. */
tt_server_time tt_server_exchange(const tt_server_job *job, uint64_t bytes);

/* One direction of a parameter server, the sums of a push in it. A tensor shorter than
 * `split_bytes_min` has one server, a longer one a part on each. */
tt_server_time tt_server_push(const tt_server_job *job, uint64_t bytes, uint64_t split_bytes_min);

#endif
