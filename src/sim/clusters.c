/* SPDX-License-Identifier: Apache-2.0
 *
 * clusters.c - clusters that are known by name.
 *
 * The source of a group is that of its weakest number. What several presets have in common:
 *
 * - Ethernet: payload is 1,448 of 1,538 bytes on the wire (frames of 1,500 bytes, TCP with time
 *   stamps). Latency and gap are those of the kernel's TCP, as it was on small messages here.
 * - Rails of InfiniBand and accelerators: constants of NCCL (src/graph/topo.h): 12 GB/s for a card
 *   of 100 Gbit/s, 20 GB/s for an NVLink of V100 and A100, 32 GB/s between sockets of a POWER9.
 * - A hop between hosts takes 2.3 us, 1.3 of the network and 0.5 of the processor at both ends; one
 *   in shared memory 0.35 us, 0.15 of the processor at both ends. A record has one overhead, so the
 *   rest of a processor's 0.5 us is in the latency and the gap of the network.
 * - Memory: 80 % of what the channels of both sockets carry at most.
 * - Noise: the spread of 1 to 3 %, with an interruption of 10 to 50 ms in ten thousand steps, that
 *   studies of large jobs report.
 * - A request at a coordinator: 0.28 to 0.54 us for parsing and a table, measured without
 *   serialisation on two cores. */
#include <string.h>

#include "base/base.h"
#include "sim/cluster.h"

enum {
    MEASURED = TT_CLUSTER_MEASURED,
    PUBLISHED = TT_CLUSTER_PUBLISHED,
    ASSUMED = TT_CLUSTER_ASSUMED,
    UNSTATED = TT_CLUSTER_UNSTATED,
};

/* Sources: hosts, local, network, tree, processor, memory, noise, coordinator, gpu, input, price.
 */
static const tt_cluster presets[] = {
    /* 4,608 hosts with two POWER9 and six V100. A rail of EDR for each socket; the fat tree does
     * not block and routes adaptively, so all hosts are on one switch. Accelerators of one socket
     * reach those of the other over the X-bus. Eight channels of DDR4-2666 a socket. With
     * FlatBuffers, a request costs 1 to 2 us there. */
    {.name = "summit",
     .summary = "Summit at Oak Ridge: 4,608 hosts of six V100, two rails of 100 Gbit/s",
     .sources = {PUBLISHED, ASSUMED, ASSUMED, PUBLISHED, ASSUMED, ASSUMED, ASSUMED, ASSUMED,
                 PUBLISHED, UNSTATED, UNSTATED},
     .host_count = 4608,
     .ranks_per_host = 6,
     .cards_per_host = 2,
     .local = {.latency_us = 0.05, .bandwidth_gbs = 8},
     .network = {.latency_us = 2, .gap_us = 0.5, .bandwidth_gbs = 12},
     .head_bytes = 48,
     .overhead_us = 0.15,
     .reduce_gbs = 8,
     .copy_gbs = 8,
     .memory_gbs = 273,
     .spread_percent = 1.5,
     .hiccups_per_million = 100,
     .hiccup_ms = 30,
     .request_us = 2,
     .generation = TT_CLUSTER_VOLTA,
     .gpu_local_gbs = 32,
     .gpu_network_gbs = 24},
    /* Four accelerators on PCIe 3 and one card a host, as the servers of Horovod's published runs
     * had. */
    {.name = "ethernet-10g",
     .summary = "servers of four ranks with one card of 10 Gbit/s Ethernet and TCP",
     .sources = {ASSUMED, ASSUMED, ASSUMED, UNSTATED, ASSUMED, ASSUMED, ASSUMED, ASSUMED, ASSUMED,
                 UNSTATED, UNSTATED},
     .ranks_per_host = 4,
     .cards_per_host = 1,
     .local = {.latency_us = 0.05, .bandwidth_gbs = 8},
     .network = {.latency_us = 15, .gap_us = 3, .bandwidth_gbs = 1.177},
     .head_bytes = 48,
     .overhead_us = 0.15,
     .reduce_gbs = 8,
     .copy_gbs = 8,
     .memory_gbs = 100,
     .spread_percent = 2,
     .hiccups_per_million = 100,
     .hiccup_ms = 30,
     .request_us = 0.5,
     .generation = TT_CLUSTER_VOLTA,
     .gpu_local_gbs = 12,
     .gpu_network_gbs = 1.177},
    /* Four accelerators on PCIe 3 and one card a host, as the servers of Horovod's published runs
     * had. */
    {.name = "ethernet-25g",
     .summary = "servers of four ranks with one card of 25 Gbit/s Ethernet and TCP",
     .sources = {ASSUMED, ASSUMED, ASSUMED, UNSTATED, ASSUMED, ASSUMED, ASSUMED, ASSUMED, ASSUMED,
                 UNSTATED, UNSTATED},
     .ranks_per_host = 4,
     .cards_per_host = 1,
     .local = {.latency_us = 0.05, .bandwidth_gbs = 8},
     .network = {.latency_us = 12, .gap_us = 3, .bandwidth_gbs = 2.942},
     .head_bytes = 48,
     .overhead_us = 0.15,
     .reduce_gbs = 8,
     .copy_gbs = 8,
     .memory_gbs = 100,
     .spread_percent = 2,
     .hiccups_per_million = 100,
     .hiccup_ms = 30,
     .request_us = 0.5,
     .generation = TT_CLUSTER_VOLTA,
     .gpu_local_gbs = 12,
     .gpu_network_gbs = 2.942},
    /* Four accelerators on PCIe 3 and one card a host, as the servers of Horovod's published runs
     * had. */
    {.name = "ethernet-100g",
     .summary = "servers of four ranks with one card of 100 Gbit/s Ethernet and TCP",
     .sources = {ASSUMED, ASSUMED, ASSUMED, UNSTATED, ASSUMED, ASSUMED, ASSUMED, ASSUMED, ASSUMED,
                 UNSTATED, UNSTATED},
     .ranks_per_host = 4,
     .cards_per_host = 1,
     .local = {.latency_us = 0.05, .bandwidth_gbs = 8},
     .network = {.latency_us = 10, .gap_us = 3, .bandwidth_gbs = 11.77},
     .head_bytes = 48,
     .overhead_us = 0.15,
     .reduce_gbs = 8,
     .copy_gbs = 8,
     .memory_gbs = 100,
     .spread_percent = 2,
     .hiccups_per_million = 100,
     .hiccup_ms = 30,
     .request_us = 0.5,
     .generation = TT_CLUSTER_VOLTA,
     .gpu_local_gbs = 12,
     .gpu_network_gbs = 11.77},
    /* Six NVLinks an accelerator; four cards of EDR. Four channels of DDR4-2133 a socket. */
    {.name = "dgx1-v100",
     .summary = "DGX-1: eight V100 a host, four rails of 100 Gbit/s",
     .sources = {PUBLISHED, ASSUMED, ASSUMED, UNSTATED, ASSUMED, ASSUMED, ASSUMED, ASSUMED,
                 PUBLISHED, UNSTATED, UNSTATED},
     .ranks_per_host = 8,
     .cards_per_host = 4,
     .local = {.latency_us = 0.05, .bandwidth_gbs = 8},
     .network = {.latency_us = 2, .gap_us = 0.5, .bandwidth_gbs = 12},
     .head_bytes = 48,
     .overhead_us = 0.15,
     .reduce_gbs = 8,
     .copy_gbs = 8,
     .memory_gbs = 109,
     .spread_percent = 2,
     .hiccups_per_million = 100,
     .hiccup_ms = 30,
     .request_us = 0.5,
     .generation = TT_CLUSTER_VOLTA,
     .gpu_local_gbs = 120,
     .gpu_network_gbs = 48},
    /* Six NVLinks an accelerator, all switched; eight cards of EDR. Six channels of DDR4-2666 a
     * socket. */
    {.name = "dgx2",
     .summary = "DGX-2: sixteen V100 a host, eight rails of 100 Gbit/s",
     .sources = {PUBLISHED, ASSUMED, ASSUMED, UNSTATED, ASSUMED, ASSUMED, ASSUMED, ASSUMED,
                 PUBLISHED, UNSTATED, UNSTATED},
     .ranks_per_host = 16,
     .cards_per_host = 8,
     .local = {.latency_us = 0.05, .bandwidth_gbs = 8},
     .network = {.latency_us = 2, .gap_us = 0.5, .bandwidth_gbs = 12},
     .head_bytes = 48,
     .overhead_us = 0.15,
     .reduce_gbs = 8,
     .copy_gbs = 8,
     .memory_gbs = 205,
     .spread_percent = 2,
     .hiccups_per_million = 100,
     .hiccup_ms = 30,
     .request_us = 0.5,
     .generation = TT_CLUSTER_VOLTA,
     .gpu_local_gbs = 120,
     .gpu_network_gbs = 96},
    /* Twelve NVLinks an accelerator, all switched; eight cards of HDR. Eight channels of DDR4-3200
     * a socket. */
    {.name = "dgx-a100",
     .summary = "DGX A100: eight A100 a host, eight rails of 200 Gbit/s",
     .sources = {PUBLISHED, ASSUMED, ASSUMED, UNSTATED, ASSUMED, ASSUMED, ASSUMED, ASSUMED,
                 PUBLISHED, UNSTATED, UNSTATED},
     .ranks_per_host = 8,
     .cards_per_host = 8,
     .local = {.latency_us = 0.05, .bandwidth_gbs = 8},
     .network = {.latency_us = 2, .gap_us = 0.5, .bandwidth_gbs = 24},
     .head_bytes = 48,
     .overhead_us = 0.15,
     .reduce_gbs = 8,
     .copy_gbs = 8,
     .memory_gbs = 328,
     .spread_percent = 2,
     .hiccups_per_million = 100,
     .hiccup_ms = 30,
     .request_us = 0.5,
     .generation = TT_CLUSTER_AMPERE,
     .gpu_local_gbs = 240,
     .gpu_network_gbs = 192},
    /* One host and no network. Frames as all-reduces of 4 bytes by 2 to 16 ranks on 16 cores of a
     * Xeon tell them, sums and copies as those of rewritten buffers by two ranks on two cores of
     * one (bench/peers/results), exchanges of up to 16 MiB there. */
    {.name = "laptop",
     .summary = "one host of eight ranks in shared memory",
     .sources = {ASSUMED, MEASURED, UNSTATED, UNSTATED, MEASURED, ASSUMED, ASSUMED, ASSUMED,
                 UNSTATED, UNSTATED, UNSTATED},
     .host_count = 1,
     .ranks_per_host = 8,
     .cards_per_host = 1,
     .local = {.latency_us = 0.26, .bandwidth_gbs = 10},
     .head_bytes = 48,
     .overhead_us = 0.1,
     .reduce_gbs = 8.4,
     .copy_gbs = 17,
     .memory_gbs = 60,
     .spread_percent = 3,
     .hiccups_per_million = 1000,
     .hiccup_ms = 10,
     .request_us = 0.4},
};

const tt_cluster *tt_cluster_preset_at(size_t index)
{
    return index < TT_ARRAY_COUNT(presets) ? &presets[index] : NULL;
}

const tt_cluster *tt_cluster_preset_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(presets); i++) {
        if (strcmp(presets[i].name, name) == 0) {
            return &presets[i];
        }
    }
    return NULL;
}
