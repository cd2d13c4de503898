/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement.c - see agreement.h.
 *
 * The last rank to submit decides: times are from then on. Hops add up; what one processor does for
 * many frames comes one after the other. */
#include "sim/closed/agreement.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"

/* Of a name of a network, its claim and their heads: 55 bytes for each of ResNet-50's. */
static const double request_bytes = 55;

void tt_agree_job_init(tt_agree_job *agreement, const tt_cluster *cluster, uint32_t rank_count)
{
    TT_ASSERT(rank_count > 0);
    const double byte_us = cluster->overhead_gbs > 0 ? 1e-3 / cluster->overhead_gbs : 0;
    const bool has_network = cluster->network.bandwidth_gbs > 0;
    *agreement = (tt_agree_job){
        .rank_count = rank_count,
        .ranks_per_host =
            cluster->ranks_per_host < rank_count ? cluster->ranks_per_host : rank_count,
        .send_us = cluster->overhead_us,
        .receive_us = cluster->overhead_us,
        .receive_byte_us = byte_us,
        .occupied_us = fmax(cluster->overhead_us, cluster->network.gap_us),
        .host_us = cluster->local.latency_us,
        .network_us = has_network ? cluster->network.latency_us : cluster->local.latency_us,
        .wire_byte_us = has_network ? 1e-3 / cluster->network.bandwidth_gbs : 0,
        .head_bytes = cluster->head_bytes,
        .request_bytes = request_bytes,
        .request_us = cluster->request_us};
}

static double receive_us(const tt_agree_job *own, double bytes)
{
    return own->receive_us + bytes * own->receive_byte_us;
}

/* From one idle rank to another of the same host, or of another one. */
static double local_hop_us(const tt_agree_job *own, double bytes)
{
    return own->send_us + own->host_us + receive_us(own, bytes);
}

static double hop_us(const tt_agree_job *own, double bytes)
{
    return own->send_us + own->network_us + (bytes + own->head_bytes) * own->wire_byte_us +
           receive_us(own, bytes);
}

static double hosts_of(const tt_agree_job *own)
{
    return ceil((double)own->rank_count / own->ranks_per_host);
}

/* ---- our own modes ---- */

double tt_agree_bitvector_us(const tt_agree_job *own, double vector_bytes)
{
    const double hosts = hosts_of(own), others = own->ranks_per_host - 1;
    const double doublings = floor(log2(hosts)), folded = hosts - exp2(doublings);
    if (own->rank_count == 1) {
        return 0;
    }
    /* leaders beyond a power of two are sent the result, and have sent their value, which is on
     * the way of the last rank as often as it is on such a host */
    const double hops = doublings + (folded > 0 ? 1 + folded / hosts : 0);
    const double in_host =
        others > 0 ? 2 * local_hop_us(own, vector_bytes) + (others - 1) * own->send_us : 0;
    return hops * hop_us(own, vector_bytes) + in_host;
}

/* Most hops from a member of a binomial tree to its root: the most bits of a number below. */
static double deepest(uint32_t members)
{
    uint32_t most = 0;
    for (uint32_t bits = 1; bits < 32 && (UINT64_C(1) << bits) - 1 < members; bits++) {
        most = bits;
    }
    return most;
}

double tt_agree_coordinator_us(const tt_agree_job *own, double vector_bytes, double tensor_count)
{
    const double bytes = tensor_count * own->request_bytes, others = own->ranks_per_host - 1;
    if (own->rank_count == 1) {
        return 0;
    }
    const double up =
        others > 0 ? local_hop_us(own, bytes) + (others - 1) * receive_us(own, bytes) : 0;
    const double down = others > 0 ? local_hop_us(own, bytes) + (others - 1) * own->send_us : 0;
    return tt_agree_bitvector_us(own, vector_bytes) + up + down +
           2 * deepest((uint32_t)hosts_of(own)) * hop_us(own, bytes);
}

tt_agree_star tt_agree_original(const tt_agree_job *own, double tensor_count)
{
    const double bytes = tensor_count * own->request_bytes, others = own->rank_count - 1.0;
    const double hop = hop_us(own, bytes), arrival = receive_us(own, bytes);
    if (own->rank_count == 1) {
        return (tt_agree_star){.gather_us = 0};
    }
    return (tt_agree_star){.gather_us =
                               hop - arrival + others * (arrival + tensor_count * own->request_us),
                           .send_us = others * own->send_us,
                           .last_us = hop - own->send_us};
}

/* ---- Horovod's ---- */

static double depth_of(const tt_agree_job *own)
{
    return ceil(log2(own->rank_count));
}

double tt_agree_horovod_us(const tt_agree_job *own, double tensor_count)
{
    const double ranks = own->rank_count, depth = depth_of(own);
    /* an answer names the device of every rank, in 4 bytes */
    const double answer_bytes = 4 * ranks + tensor_count * own->request_bytes;
    if (own->rank_count == 1) {
        return 0;
    }
    return 4 * depth * (own->network_us + own->send_us + own->receive_us) +
           ranks * (own->occupied_us + tensor_count * own->request_us) +
           depth * answer_bytes * own->wire_byte_us;
}

/* Of a rank and a tensor: where the answers of all fit into the cache of a core, and beyond. From
 * 0.2 ms (60 tensors) and 2.5 ms (161) with 6,000 ranks, 5.0 and 12.3 ms with 27,600, measured with
 * an emulation on two cores of a server. */
static const double copy_cached_us = 0.55e-3, copy_us = 2.8e-3, cache_bytes = 2 << 20;

double tt_agree_horovod_cached_us(const tt_agree_job *own, double tensor_count, double all_tensors)
{
    const double ranks = own->rank_count;
    const double one_us = 4 * ranks * all_tensors > cache_bytes ? copy_us : copy_cached_us;
    if (own->rank_count == 1) {
        return 0;
    }
    return depth_of(own) * (own->network_us + own->send_us + own->receive_us) +
           ranks * tensor_count * one_us;
}
