/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_predict.c - see cluster_predict.h. */
#include "cli/cluster/cluster_predict.h"

#include <stdlib.h>

#include "base/base.h"
#include "cli/allocate.h"

enum {
    SEGMENT_BYTES = 256 * 1024, /* TUTTI_CHUNK */
    EAGER_BYTES_MAX = 4 * 1024, /* TUTTI_EAGER */
};

#define FRAMES_MAX (UINT64_C(1) << 24)
#define MOVES_BYTES_MAX (UINT64_C(256) << 20)

/* The row's hosts: consecutive ranks on each. */
static tt_cluster placed(const tt_cluster *cluster, const tt_bench_row *row)
{
    tt_cluster copy = *cluster;
    copy.generation = TT_CLUSTER_NO_GPU; /* not asked */
    copy.host_count = row->hosts;
    copy.ranks_per_host = tt_bench_row_ranks_per_host(row);
    copy.cards_per_host =
        copy.cards_per_host < copy.ranks_per_host ? copy.cards_per_host : copy.ranks_per_host;
    return copy;
}

static double exchange_us(const tt_cluster *cluster, const tt_bench_row *row)
{
    const tt_cluster_link *link = tt_bench_row_is_local(row) ? &cluster->local : &cluster->network;
    const double bytes = (double)row->bytes;
    const double touched_us = cluster->overhead_gbs > 0 ? bytes / cluster->overhead_gbs : 0;
    return 2 * cluster->overhead_us + link->latency_us +
           1e-3 * (bytes / link->bandwidth_gbs + 2 * touched_us);
}

/* Of a problem: the vector, or one part of it. */
static uint64_t problem_bytes(const tt_bench_row *row)
{
    const uint64_t element = tt_dtype_bytes(row->dtype);
    const bool has_parts = row->collective == TT_ALLGATHER || row->collective == TT_ALLTOALL ||
                           row->collective == TT_REDUCESCATTER;
    return (has_parts ? row->bytes / row->ranks : row->bytes) / element * element;
}

/* A topology's arrays, in one allocation. */
static uint32_t *topology_make(const tt_bench_row *row, tt_topology *topology_out)
{
    const uint32_t per_host = tt_bench_row_ranks_per_host(row);
    const uint32_t hosts = (row->ranks + per_host - 1) / per_host;
    uint32_t *arrays = tt_cli_allocate(3 * (size_t)row->ranks + hosts + 1, sizeof(*arrays));
    uint32_t *host_of = arrays, *local_of = host_of + row->ranks;
    uint32_t *members = local_of + row->ranks, *first = members + row->ranks;
    for (uint32_t rank = 0; rank < row->ranks; rank++) {
        host_of[rank] = rank / per_host;
        local_of[rank] = rank % per_host;
        members[rank] = rank;
    }
    for (uint32_t host = 0; host <= hosts; host++) {
        first[host] = (uint32_t)tt_min_u64((uint64_t)host * per_host, row->ranks);
    }
    *topology_out = (tt_topology){.host_count = hosts,
                                  .rail_count = row->ranks - (hosts - 1) * per_host,
                                  .host_of = host_of,
                                  .local_of = local_of,
                                  .host_first = first,
                                  .host_members = members,
                                  .has_views = true};
    return arrays;
}

static tt_status walk(const tt_bench_row *row, tt_fabric *fabric, double *time_us_out)
{
    tt_topology topology;
    tt_moves_result result;
    tt_text why = {.length = 0};
    uint32_t *arrays = topology_make(row, &topology);
    uint64_t *done_ns = tt_cli_allocate(row->ranks, sizeof(*done_ns));
    const tt_moves_input input = {.fabric = fabric,
                                  .problem = {.collective = row->collective,
                                              .dtype = row->dtype,
                                              .redop = TT_SUM,
                                              .size = row->ranks,
                                              .element_bytes = (uint32_t)tt_dtype_bytes(row->dtype),
                                              .segment_bytes = SEGMENT_BYTES,
                                              .bytes = problem_bytes(row),
                                              .postscale = 1.0,
                                              .is_in_place = row->is_in_place,
                                              .topology = &topology},
                                  .forced = row->algorithm[0] != '\0' ? row->algorithm : NULL,
                                  .is_staged = row->is_staged,
                                  .eager_bytes_max = EAGER_BYTES_MAX,
                                  .memory_bytes_max = MOVES_BYTES_MAX,
                                  .allocator = &tt_allocator_default};
    const tt_status status = tt_moves_run(&input, &why, done_ns, &result);
    if (status == TT_OK) {
        *time_us_out = (double)result.end_ns * 1e-3;
    }
    free(done_ns);
    free(arrays);
    return status;
}

tt_status tt_cluster_predict(const tt_cluster *cluster, const tt_bench_row *row,
                             double *time_us_out)
{
    const uint64_t pairs = (uint64_t)row->ranks * row->ranks;
    const tt_cluster copy = placed(cluster, row);
    tt_text why = {.length = 0};
    tt_fabric_config config;
    tt_fabric *fabric;
    TT_TRY(tt_cluster_place(&copy, row->ranks, &why, &config));
    if (row->collective == TT_SEND) {
        *time_us_out = exchange_us(&copy, row);
        return TT_OK;
    }
    if (pairs * (row->bytes / SEGMENT_BYTES + 1) > FRAMES_MAX) {
        return TT_ERR_UNSUPPORTED;
    }
    TT_TRY(
        tt_fabric_create(tt_cluster_model(&copy), &config, &tt_allocator_default, &why, &fabric));
    const tt_status status = walk(row, fabric, time_us_out);
    fabric->ops->destroy(fabric);
    return status;
}
