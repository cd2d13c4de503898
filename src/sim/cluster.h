/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.h - the record of a modelled cluster: hosts, links, processors, noise, prices.
 *
 * Numbers are kept in the units of files, with nine digits, so that a printed record is read as the
 * same one. A table describes every field once: files, printers, the check, documents and sweeps
 * read it.
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  the caller's; a record has a fixed size and owns nothing.
 */
#ifndef TUTTI_SIM_CLUSTER_H
#define TUTTI_SIM_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "sim/fabric.h"

enum {
    TT_CLUSTER_NAME_BYTES = 64, /* with their zeros */
    TT_CLUSTER_SUMMARY_BYTES = 160,
    TT_CLUSTER_RANKS_MAX = 1 << 20,
};

/* Fields that are given together, and have one source. */
typedef enum tt_cluster_group {
    TT_CLUSTER_HOSTS,
    TT_CLUSTER_LOCAL,   /* between ranks of a host */
    TT_CLUSTER_NETWORK, /* between hosts of a leaf */
    TT_CLUSTER_TREE,    /* between leaves */
    TT_CLUSTER_PROCESSOR,
    TT_CLUSTER_MEMORY,
    TT_CLUSTER_NOISE,
    TT_CLUSTER_COORDINATOR,
    TT_CLUSTER_GPU,
    TT_CLUSTER_INPUT,
    TT_CLUSTER_PRICE,
    TT_CLUSTER_GROUPS,
} tt_cluster_group;

/* Where the numbers of a group come from. */
typedef enum tt_cluster_source {
    TT_CLUSTER_UNSTATED,
    TT_CLUSTER_MEASURED,
    TT_CLUSTER_PUBLISHED,
    TT_CLUSTER_ASSUMED,
    TT_CLUSTER_SOURCES,
} tt_cluster_source;

/* Whose constants NCCL's model uses. */
typedef enum tt_cluster_generation {
    TT_CLUSTER_NO_GPU,
    TT_CLUSTER_VOLTA,
    TT_CLUSTER_AMPERE,
    TT_CLUSTER_HOPPER,
} tt_cluster_generation;

typedef struct tt_cluster_link {
    double latency_us;    /* of the whole way */
    double gap_us;        /* between frames */
    double bandwidth_gbs; /* each direction */
} tt_cluster_link;

typedef struct tt_cluster {
    char name[TT_CLUSTER_NAME_BYTES];
    char summary[TT_CLUSTER_SUMMARY_BYTES];
    int sources[TT_CLUSTER_GROUPS]; /* tt_cluster_source */
    uint32_t host_count;            /* 0: as many as the ranks need */
    uint32_t ranks_per_host;
    uint32_t cards_per_host;
    tt_cluster_link local;
    tt_cluster_link network;
    uint32_t head_bytes;
    uint32_t hosts_per_leaf; /* 0: no leaves */
    uint32_t uplinks_per_leaf;
    tt_cluster_link tree;
    double overhead_us; /* of the processor, for a frame at each end */
    double overhead_gbs;
    double reduce_gbs;
    double copy_gbs;
    double memory_gbs; /* that the ranks of a host share; 0: no limit */
    double spread_percent;
    double hiccups_per_million; /* of steps of a rank */
    double hiccup_ms;
    double request_us;
    int generation;        /* tt_cluster_generation */
    uint32_t gpu_channels; /* 0: without limits of channels */
    double gpu_local_gbs;
    double gpu_network_gbs;
    double samples_per_s; /* of a host; 0: no limit */
    double usd_per_hour;  /* of a host; 0: not known */
} tt_cluster;

/* ---- fields ---- */

typedef enum tt_cluster_kind {
    TT_CLUSTER_COUNT, /* uint32_t */
    TT_CLUSTER_REAL,  /* double */
    TT_CLUSTER_WORD,  /* int: index in `words` */
} tt_cluster_kind;

typedef struct tt_cluster_field {
    const char *name; /* group and member, as in files: "network.latency_us" */
    tt_cluster_group group;
    tt_cluster_kind kind;
    const char *unit;
    const char *help;
    const char *zero; /* what 0 means, which is then allowed below `minimum`; NULL: nothing */
    double minimum;
    double maximum;
    double fallback;          /* where a file has no base and no such field */
    const char *const *words; /* ends in NULL */
    size_t offset;            /* in tt_cluster */
} tt_cluster_field;

/* The index-th, group by group; NULL at the end. */
const tt_cluster_field *tt_cluster_field_at(size_t index);
const tt_cluster_field *tt_cluster_field_find(const char *name);

/* Without the group. */
const char *tt_cluster_field_member(const tt_cluster_field *field);

double tt_cluster_field_get(const tt_cluster *cluster, const tt_cluster_field *field);

/* TT_ERR_BAD_CONFIG and `why`: out of range, or a fraction of a count. Relations between fields
 * are for tt_cluster_check. */
tt_status tt_cluster_field_set(tt_cluster *cluster, const tt_cluster_field *field, double value,
                               tt_text *why);
/* The same for a number or a word as a user writes it. */
tt_status tt_cluster_field_parse(tt_cluster *cluster, const tt_cluster_field *field,
                                 const char *text, tt_text *why);

/* What is accepted: "0.001 to 10000 GB/s". */
void tt_cluster_field_describe(const tt_cluster_field *field, tt_text *text);
/* The value as the parser reads it. */
void tt_cluster_field_print(const tt_cluster *cluster, const tt_cluster_field *field,
                            tt_text *text);
/* For an error: which field `name`, which is none, could be meant to be. */
void tt_cluster_field_suggest(const char *name, tt_text *why);

const char *tt_cluster_group_name(tt_cluster_group group);
const char *tt_cluster_group_help(tt_cluster_group group);
/* NULL of UNSTATED. */
const char *tt_cluster_source_name(tt_cluster_source source);

/* ---- clusters ---- */

/* All fields at their fallbacks, which lack bandwidths. */
void tt_cluster_init(tt_cluster *cluster);

/* The first field that is missing, out of range or against another one, and `why`: the field, the
 * cause, the cure. NULL: the cluster can be used. */
const tt_cluster_field *tt_cluster_fault(const tt_cluster *cluster, tt_text *why);
/* TT_ERR_BAD_CONFIG: it has a fault. */
tt_status tt_cluster_check(const tt_cluster *cluster, tt_text *why);

/* Ranks in blocks on hosts. TT_ERR_BAD_CONFIG and `why`: a fault, or they do not fit. */
tt_status tt_cluster_place(const tt_cluster *cluster, uint32_t rank_count, tt_text *why,
                           tt_fabric_config *config_out);

/* What the cluster needs: tree, if it has several leaves; else memory, if ranks share its
 * bandwidth; else ports. Where both hold, the limit of the memory is left out. */
const tt_fabric_ops *tt_cluster_model(const tt_cluster *cluster);

/* Clusters that are known by name: the index-th, NULL at the end; the one of that name, or NULL. */
const tt_cluster *tt_cluster_preset_at(size_t index);
const tt_cluster *tt_cluster_preset_find(const char *name);

#endif
