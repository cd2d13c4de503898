/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.c - the check of a cluster, and ranks placed on it. */
#include "sim/cluster.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "base/assert.h"
#include "base/base.h"
#include "sim/registry.h"

/* ---- check ---- */

/* A relation between fields that does not hold. */
typedef struct broken_rule {
    bool is_broken;
    const char *field;
    const char *text; /* cause and cure */
} broken_rule;

static bool has_many_hosts(const tt_cluster *cluster)
{
    return cluster->host_count != 1;
}

static bool has_leaves(const tt_cluster *cluster)
{
    return cluster->hosts_per_leaf > 0 &&
           (cluster->host_count == 0 || cluster->host_count > cluster->hosts_per_leaf);
}

static const tt_cluster_field *fault_report(const tt_cluster *cluster, const broken_rule *rule,
                                            tt_text *why)
{
    const tt_cluster_field *field = tt_cluster_field_find(rule->field);
    TT_ASSERT(field != NULL);
    tt_text_add(why, "%s is ", field->name);
    tt_cluster_field_print(cluster, field, why);
    tt_text_add(why, ": %s", rule->text);
    return field;
}

static const tt_cluster_field *first_broken(const tt_cluster *cluster, tt_text *why)
{
    const bool is_shared = cluster->ranks_per_host > 1;
    const bool has_gpu = cluster->generation != TT_CLUSTER_NO_GPU;
    const uint64_t ranks = (uint64_t)cluster->host_count * cluster->ranks_per_host;
    const broken_rule rules[] = {
        {cluster->cards_per_host > cluster->ranks_per_host, "hosts.cards_per_host",
         "more cards than ranks use; give at most hosts.ranks_per_host"},
        {ranks > TT_CLUSTER_RANKS_MAX, "hosts.count",
         "the hosts have more than 1048576 ranks; give fewer hosts or hosts.ranks_per_host"},
        {is_shared && cluster->local.bandwidth_gbs <= 0, "local.bandwidth_gbs",
         "ranks of a host cannot reach each other; give it, or 1 as hosts.ranks_per_host"},
        {has_many_hosts(cluster) && cluster->network.bandwidth_gbs <= 0, "network.bandwidth_gbs",
         "hosts cannot reach each other; give that of a card, or 1 as hosts.count"},
        {has_leaves(cluster) && cluster->uplinks_per_leaf == 0, "tree.uplinks_per_leaf",
         "leaves cannot reach each other; give it, or 0 as tree.hosts_per_leaf"},
        {has_leaves(cluster) && cluster->tree.bandwidth_gbs <= 0, "tree.bandwidth_gbs",
         "leaves cannot reach each other; give that of an uplink, or 0 as tree.hosts_per_leaf"},
        {cluster->hiccups_per_million > 0 && cluster->hiccup_ms <= 0, "noise.hiccup_ms",
         "interruptions have no length; give it, or 0 as noise.hiccups_per_million"},
        {has_gpu && is_shared && cluster->gpu_local_gbs <= 0, "gpu.local_gbs",
         "accelerators of a host cannot reach each other; give it, or none as gpu.generation"},
        {has_gpu && has_many_hosts(cluster) && cluster->gpu_network_gbs <= 0, "gpu.network_gbs",
         "accelerators of two hosts cannot reach each other; give it, or none as gpu.generation"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(rules); i++) {
        if (rules[i].is_broken) {
            return fault_report(cluster, &rules[i], why);
        }
    }
    return NULL;
}

const tt_cluster_field *tt_cluster_fault(const tt_cluster *cluster, tt_text *why)
{
    const tt_cluster_field *field;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        tt_cluster same = *cluster;
        if (tt_cluster_field_set(&same, field, tt_cluster_field_get(cluster, field), why) !=
            TT_OK) {
            return field;
        }
    }
    return first_broken(cluster, why);
}

tt_status tt_cluster_check(const tt_cluster *cluster, tt_text *why)
{
    return tt_cluster_fault(cluster, why) == NULL ? TT_OK : TT_ERR_BAD_CONFIG;
}

/* ---- place ---- */

static uint64_t byte_fs(double bandwidth_gbs)
{
    return bandwidth_gbs > 0 ? (uint64_t)llround(1e6 / bandwidth_gbs) : 0;
}

static uint64_t nanoseconds(double time_us)
{
    return (uint64_t)llround(time_us * 1000);
}

static tt_fabric_link link_of(const tt_cluster_link *link)
{
    return (tt_fabric_link){.latency_ns = nanoseconds(link->latency_us),
                            .gap_ns = nanoseconds(link->gap_us),
                            .byte_fs = byte_fs(link->bandwidth_gbs)};
}

static tt_status check_fit(const tt_cluster *cluster, uint32_t rank_count, tt_text *why)
{
    const uint64_t room = cluster->host_count > 0
                              ? (uint64_t)cluster->host_count * cluster->ranks_per_host
                              : TT_CLUSTER_RANKS_MAX;
    if (rank_count > 0 && rank_count <= room) {
        return TT_OK;
    }
    tt_text_add(why, "%" PRIu32 " ranks do not fit cluster %s", rank_count, cluster->name);
    if (cluster->host_count > 0) {
        tt_text_add(why, " of %" PRIu32 " hosts with %" PRIu32 " ranks each", cluster->host_count,
                    cluster->ranks_per_host);
    }
    tt_text_add(why, ": give 1 to %" PRIu64 "%s", room,
                cluster->host_count > 0 ? ", or raise hosts.count" : "");
    return TT_ERR_BAD_CONFIG;
}

tt_status tt_cluster_place(const tt_cluster *cluster, uint32_t rank_count, tt_text *why,
                           tt_fabric_config *config_out)
{
    TT_TRY(tt_cluster_check(cluster, why));
    TT_TRY(check_fit(cluster, rank_count, why));
    const uint32_t ranks_per_host =
        cluster->ranks_per_host < rank_count ? cluster->ranks_per_host : rank_count;
    const uint32_t cards_per_host =
        cluster->cards_per_host < ranks_per_host ? cluster->cards_per_host : ranks_per_host;
    *config_out =
        (tt_fabric_config){.rank_count = rank_count,
                           .ranks_per_host = ranks_per_host,
                           .cards_per_host = cards_per_host,
                           .hosts_per_leaf = has_leaves(cluster) ? cluster->hosts_per_leaf : 0,
                           .uplinks_per_leaf = has_leaves(cluster) ? cluster->uplinks_per_leaf : 0,
                           .head_bytes = cluster->head_bytes,
                           .links = {[TT_FABRIC_HOST] = link_of(&cluster->local),
                                     [TT_FABRIC_LEAF] = link_of(&cluster->network),
                                     [TT_FABRIC_TREE] = link_of(&cluster->tree)},
                           .overhead_ns = nanoseconds(cluster->overhead_us),
                           .overhead_byte_fs = byte_fs(cluster->overhead_gbs),
                           .reduce_byte_fs = byte_fs(cluster->reduce_gbs),
                           .copy_byte_fs = byte_fs(cluster->copy_gbs),
                           .memory_byte_fs = byte_fs(cluster->memory_gbs)};
    return TT_OK;
}

const tt_fabric_ops *tt_cluster_model(const tt_cluster *cluster)
{
    if (has_leaves(cluster)) {
        return &tt_fabric_tree;
    }
    return cluster->memory_gbs > 0 && cluster->ranks_per_host > 1 ? &tt_fabric_memory
                                                                  : &tt_fabric_ports;
}
