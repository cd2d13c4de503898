/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_time.c - see nccl_time.h.
 *
 * Sources: NVIDIA/nccl, src/graph/tuning.cc. Latencies in us: a base for each protocol, a hop
 * inside a host over NVLink or PCIe, a hop between hosts. A ring of N ranks on M hosts makes 2 (M -
 * 1) hops between hosts and the rest of its 2 (N - 1) inside; a tree twice log2 M between and those
 * of a chain inside. */
#include "sim/closed/nccl_time.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"

enum { HOPS_NVLINK, HOPS_PCIE, HOPS_NETWORK, HOPS };

static const double base_us[TT_NCCL_ALGORITHMS][TT_NCCL_PROTOCOLS] = {
    [TT_NCCL_TREE] = {6.8, 14, 8.4}, [TT_NCCL_RING] = {6.6, 14, 8.4}};

static const double hop_us[HOPS][TT_NCCL_ALGORITHMS][TT_NCCL_PROTOCOLS] = {
    [HOPS_NVLINK] = {{0.6, 1.25, 4}, {0.6, 1.9, 3.4}},
    [HOPS_PCIE] = {{1, 1.9, 4}, {1, 2.5, 5.7}},
    [HOPS_NETWORK] = {{5, 8.5, 14}, {2.7, 4, 14}}};

/* Of a rank that posts to the network. */
static const double network_overhead_us = 1;

/* Of generations volta, ampere, hopper; of jobs on one host, two, more. */
enum { GENERATIONS = 3, SCALES = 3 };

static const double pcie_gbs[GENERATIONS] = {12, 24, 48};
/* On one host; between hosts those of the processor count, of which Intel's is taken. */
static const double ll_max_gbs[GENERATIONS] = {39, 87.7, 141};
static const double ll_max_network_gbs[SCALES] = {0, 39, 20.4};
static const double channel_ring_ll128_gbs[GENERATIONS] = {20, 20, 36.7};
static const double channel_tree_ll128_gbs[GENERATIONS][SCALES] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}};
static const double channel_tree_gbs[GENERATIONS][SCALES] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}};

/* Trees are slower than the model at middle lengths: by powers of two from 64 B. */
enum { CORRECTIONS = 23, CORRECTION_SHIFT = 6 };
static const double tree_corrections[TT_NCCL_PROTOCOLS][CORRECTIONS] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

static int scale_of(const tt_nccl_job *job)
{
    return job->host_count > 2 ? 2 : (int)job->host_count - 1;
}

static int generation_of(const tt_nccl_job *job)
{
    TT_ASSERT(job->generation > TT_CLUSTER_NO_GPU && job->generation <= TT_CLUSTER_HOPPER);
    return (int)job->generation - TT_CLUSTER_VOLTA;
}

tt_status tt_nccl_job_init(tt_nccl_job *job, const tt_cluster *cluster, uint32_t rank_count,
                           tt_text *why)
{
    TT_ASSERT(rank_count > 0);
    if (cluster->generation == TT_CLUSTER_NO_GPU) {
        tt_text_add(why,
                    "cluster %s has no accelerators for NCCL; give it gpu.generation, "
                    "gpu.local_gbs and gpu.network_gbs, or another engine",
                    cluster->name);
        return TT_ERR_BAD_CONFIG;
    }
    const uint32_t per_host =
        cluster->ranks_per_host < rank_count ? cluster->ranks_per_host : rank_count;
    *job = (tt_nccl_job){.rank_count = rank_count,
                         .host_count = (rank_count + per_host - 1) / per_host,
                         .ranks_per_host = per_host,
                         .generation = (tt_cluster_generation)cluster->generation,
                         .channels = cluster->gpu_channels};
    const double local_gbs = per_host > 1 ? cluster->gpu_local_gbs : INFINITY;
    job->bus_gbs = job->host_count > 1 ? fmin(local_gbs, cluster->gpu_network_gbs) : local_gbs;
    job->has_nvlink = cluster->gpu_local_gbs > pcie_gbs[generation_of(job)];
    return TT_OK;
}

static uint32_t log2_of(uint64_t value)
{
    uint32_t log2 = 0;
    while (value > 1) {
        value /= 2;
        log2++;
    }
    return log2;
}

/* Rings of long vectors between hosts pass more than one chunk a hop. */
static double plateau(const tt_nccl_job *job, uint64_t bytes)
{
    const double rings = (double)job->rank_count * (job->channels > 0 ? job->channels : 1);
    if (job->host_count == 1 || (double)bytes / rings < 64) {
        return 1;
    }
    return job->generation == TT_CLUSTER_VOLTA ? 1.9 : 1.4;
}

double tt_nccl_latency_us(const tt_nccl_job *job, tt_nccl_algorithm algorithm,
                          tt_nccl_protocol protocol, uint64_t bytes)
{
    const double ranks = job->rank_count, hosts = job->host_count;
    double local_us = hop_us[job->has_nvlink ? HOPS_NVLINK : HOPS_PCIE][algorithm][protocol];
    /* with one rank a host nothing hides the network */
    const double network_us =
        hop_us[HOPS_NETWORK][job->ranks_per_host == 1 ? TT_NCCL_TREE : algorithm][protocol];
    if (algorithm == TT_NCCL_TREE) {
        return base_us[algorithm][protocol] +
               2 * ((job->ranks_per_host - 1) * local_us + log2_of(job->host_count) * network_us);
    }
    if (job->host_count > 1) {
        local_us = fmax(local_us, network_overhead_us * (protocol == TT_NCCL_SIMPLE ? 3 : 1));
    }
    const double latency_us = base_us[algorithm][protocol] + 2 * (ranks - hosts) * local_us +
                              2 * (hosts - 1) * network_us;
    return latency_us * (protocol == TT_NCCL_SIMPLE ? plateau(job, bytes) : 1);
}

/* A limit of channels; none if their number is not known. */
static double limited(const tt_nccl_job *job, double gbs, double channel_gbs)
{
    return job->channels > 0 ? fmin(gbs, job->channels * channel_gbs) : gbs;
}

static double ring_gbs(const tt_nccl_job *job, tt_nccl_protocol protocol, double ll_gbs)
{
    const double ranks = job->rank_count;
    double gbs = job->bus_gbs;
    if (protocol == TT_NCCL_LL) {
        gbs = fmin(ll_gbs, gbs * 0.5);
    } else if (protocol == TT_NCCL_LL128) {
        gbs = limited(job, gbs * 0.92, channel_ring_ll128_gbs[generation_of(job)]);
    }
    return gbs * ranks / (2 * (ranks - 1));
}

static double tree_gbs(const tt_nccl_job *job, tt_nccl_protocol protocol, double ll_gbs)
{
    const int generation = generation_of(job), scale = scale_of(job);
    double gbs = limited(job, job->bus_gbs * 0.92, channel_tree_gbs[generation][scale]);
    if (protocol == TT_NCCL_LL) {
        gbs = fmin(gbs / 3.8, ll_gbs);
    } else if (protocol == TT_NCCL_LL128) {
        const double share = job->host_count == 1 ? 7.0 / 9 : 120.0 / 128;
        gbs = limited(job, gbs * share, channel_tree_ll128_gbs[generation][scale]);
    }
    return gbs * 0.5;
}

double tt_nccl_bandwidth_gbs(const tt_nccl_job *job, tt_nccl_algorithm algorithm,
                             tt_nccl_protocol protocol, uint64_t bytes)
{
    const int scale = scale_of(job);
    const double ll_gbs = scale == 0 ? ll_max_gbs[generation_of(job)] : ll_max_network_gbs[scale];
    if (protocol == TT_NCCL_LL128 && !job->has_nvlink) {
        return 0; /* its stores are not atomic over PCIe */
    }
    if (algorithm == TT_NCCL_RING) {
        return ring_gbs(job, protocol, ll_gbs);
    }
    const uint32_t size = log2_of(bytes >> CORRECTION_SHIFT);
    const double correction = size < CORRECTIONS ? tree_corrections[protocol][size] : 1;
    return tree_gbs(job, protocol, ll_gbs) * correction;
}

tt_nccl_choice tt_nccl_allreduce(const tt_nccl_job *job, uint64_t bytes)
{
    tt_nccl_choice best = {.time_us = job->rank_count > 1 ? INFINITY : 0};
    for (int algorithm = 0; algorithm < TT_NCCL_ALGORITHMS && job->rank_count > 1; algorithm++) {
        for (int protocol = 0; protocol < TT_NCCL_PROTOCOLS; protocol++) {
            tt_nccl_choice tried = {(tt_nccl_algorithm)algorithm, (tt_nccl_protocol)protocol, 0};
            const double gbs = tt_nccl_bandwidth_gbs(job, tried.algorithm, tried.protocol, bytes);
            tried.time_us = gbs > 0
                                ? tt_nccl_latency_us(job, tried.algorithm, tried.protocol, bytes) +
                                      (double)bytes / (1000 * gbs)
                                : INFINITY;
            best = tried.time_us < best.time_us ? tried : best;
        }
    }
    return best;
}
