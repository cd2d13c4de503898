/* SPDX-License-Identifier: Apache-2.0
 *
 * server_time.c - see server_time.h. */
#include "sim/closed/server_time.h"

#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "base/base.h"

enum { SUM_THREADS = 4 }; /* of a server: BYTEPS_SERVER_ENGINE_THREAD */

tt_status tt_server_job_init(tt_server_job *job, const tt_cluster *cluster, uint32_t rank_count,
                             uint32_t server_count, tt_text *why)
{
    const uint32_t per_host =
        cluster->ranks_per_host < rank_count ? cluster->ranks_per_host : rank_count;
    const uint32_t hosts = (rank_count + per_host - 1) / per_host;
    if (cluster->host_count > 0 && (uint64_t)hosts + server_count > cluster->host_count) {
        tt_text_add(why,
                    "hosts of cluster %s: %" PRIu32 " for ranks and %" PRIu32
                    " for servers are needed, and there are %" PRIu32
                    "; give fewer ranks or --servers, or raise hosts.count",
                    cluster->name, hosts, server_count, cluster->host_count);
        return TT_ERR_BAD_CONFIG;
    }
    *job = (tt_server_job){
        .ranks_per_host = per_host,
        .hosts = hosts,
        .servers = server_count < hosts ? server_count : hosts, /* more gain nothing */
        .card_gbs = cluster->network.bandwidth_gbs * cluster->cards_per_host,
        .latency_us = cluster->network.latency_us + 2 * cluster->overhead_us,
        .occupied_us = fmax(cluster->overhead_us, cluster->network.gap_us),
        .local_gbs = cluster->generation == TT_CLUSTER_NO_GPU ? 0 : cluster->gpu_local_gbs,
        .copy_gbs = cluster->copy_gbs,
        .reduce_gbs = cluster->reduce_gbs};
    return TT_OK;
}

/* Microseconds of so many bytes. */
static double at_speed(double bytes, double gbs)
{
    return gbs > 0 ? bytes / (1000 * gbs) : 0;
}

/* Sums and gathers of a host's own ranks: over their links, or in its memory, each rank its part.
 */
static double inside_us(const tt_server_job *job, double bytes)
{
    const double share = (job->ranks_per_host - 1.0) / job->ranks_per_host;
    if (job->local_gbs > 0) {
        return 2 * share * at_speed(bytes, job->local_gbs);
    }
    return share * (at_speed(bytes, job->reduce_gbs) + at_speed(bytes, job->copy_gbs));
}

/* To the memory of the host and back, each rank its part, where ranks are accelerators. */
static double copies_us(const tt_server_job *job, double bytes)
{
    return job->local_gbs > 0 ? 2 * at_speed(bytes / job->ranks_per_host, job->copy_gbs) : 0;
}

tt_server_time tt_server_exchange(const tt_server_job *job, uint64_t bytes)
{
    const double n = job->hosts, k = job->servers, vector = (double)bytes;
    const double inside = inside_us(job, vector), copies = copies_us(job, vector);
    if (n < 2) {
        return (tt_server_time){inside, inside};
    }
    const double shares = n * n + k * n - 2 * k;
    const double network =
        at_speed(2 * n * (n - 1) * vector / shares, job->card_gbs) + 4 * job->occupied_us;
    const double share = fmax((n - k) / shares, k > 0 ? 2 * (n - 1) / shares : 0);
    const double sum = at_speed((n - 1) * vector, SUM_THREADS * job->reduce_gbs);
    const double owner = (n - 1) * (at_speed(vector, job->card_gbs) + job->occupied_us);
    const double most = fmax(fmax(inside, copies), fmax(network, share * sum));
    /* a push, its answer, a pull, its answer */
    return (tt_server_time){most, inside + copies + sum + 2 * owner + 4 * job->latency_us};
}

tt_server_time tt_server_push(const tt_server_job *job, uint64_t bytes, uint64_t split_bytes_min)
{
    const double n = job->hosts, vector = (double)bytes;
    const double ways = bytes < split_bytes_min ? 1 : fmax(job->servers, 1);
    const double inside = (inside_us(job, vector) + copies_us(job, vector)) / 2;
    const double network =
        at_speed(fmax(vector, n * vector / ways), job->card_gbs) + n * job->occupied_us;
    const double sums = at_speed(n * vector / ways, SUM_THREADS * job->reduce_gbs);
    return (tt_server_time){fmax(fmax(inside, network), sums),
                            inside + network + sums + job->latency_us};
}
