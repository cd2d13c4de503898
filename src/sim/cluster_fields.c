/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_fields.c - the table of the fields of a cluster, and their values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/config.h"
#include "base/nearest.h"
#include "sim/cluster.h"

#define AT(member) offsetof(tt_cluster, member)

enum { SHOWN = 40 }; /* bytes of a user's word in a message */

/* The bounds of links are those of tt_fabric_config: 1 s, and 1 MB/s or more. */
#define TIME_US_MAX 1e6
#define GBS_MIN 0.001
#define GBS_MAX 10000

static const char *const generations[] = {"none", "volta", "ampere", "hopper", NULL};

static const tt_cluster_field fields[] = {
    {.name = "hosts.count",
     .group = TT_CLUSTER_HOSTS,
     .unit = "hosts",
     .help = "hosts of the cluster",
     .zero = "as many as the ranks need",
     .minimum = 1,
     .maximum = TT_CLUSTER_RANKS_MAX,
     .offset = AT(host_count)},
    {.name = "hosts.ranks_per_host",
     .group = TT_CLUSTER_HOSTS,
     .unit = "ranks",
     .help = "ranks of a full host; consecutive ranks are on one host",
     .minimum = 1,
     .maximum = 4096,
     .fallback = 1,
     .offset = AT(ranks_per_host)},
    {.name = "hosts.cards_per_host",
     .group = TT_CLUSTER_HOSTS,
     .unit = "cards",
     .help = "network cards of a host, which its ranks take in turn; at most one for each rank",
     .minimum = 1,
     .maximum = 4096,
     .fallback = 1,
     .offset = AT(cards_per_host)},
    {.name = "local.latency_us",
     .group = TT_CLUSTER_LOCAL,
     .kind = TT_CLUSTER_REAL,
     .unit = "us",
     .help = "from one rank to another of its host, without the processor's overhead",
     .maximum = TIME_US_MAX,
     .offset = AT(local.latency_us)},
    {.name = "local.gap_us",
     .group = TT_CLUSTER_LOCAL,
     .kind = TT_CLUSTER_REAL,
     .unit = "us",
     .help = "time for which a frame occupies a rank's path, besides its bytes",
     .maximum = TIME_US_MAX,
     .offset = AT(local.gap_us)},
    {.name = "local.bandwidth_gbs",
     .group = TT_CLUSTER_LOCAL,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "of a rank's path to the others of its host, in each direction",
     .zero = "none, for hosts of one rank",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .offset = AT(local.bandwidth_gbs)},
    {.name = "network.latency_us",
     .group = TT_CLUSTER_NETWORK,
     .kind = TT_CLUSTER_REAL,
     .unit = "us",
     .help = "from card to card of one leaf switch, without the processor's overhead",
     .maximum = TIME_US_MAX,
     .offset = AT(network.latency_us)},
    {.name = "network.gap_us",
     .group = TT_CLUSTER_NETWORK,
     .kind = TT_CLUSTER_REAL,
     .unit = "us",
     .help = "time for which a frame occupies a card, besides its bytes",
     .maximum = TIME_US_MAX,
     .offset = AT(network.gap_us)},
    {.name = "network.bandwidth_gbs",
     .group = TT_CLUSTER_NETWORK,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "of a card, in each direction",
     .zero = "none, for a single host",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .offset = AT(network.bandwidth_gbs)},
    {.name = "network.head_bytes",
     .group = TT_CLUSTER_NETWORK,
     .unit = "bytes",
     .help = "of a frame besides its payload",
     .maximum = 4096,
     .fallback = 48, /* tt_head */
     .offset = AT(head_bytes)},
    {.name = "tree.hosts_per_leaf",
     .group = TT_CLUSTER_TREE,
     .unit = "hosts",
     .help = "hosts of a leaf switch",
     .zero = "all hosts are on one switch that never blocks",
     .minimum = 1,
     .maximum = TT_CLUSTER_RANKS_MAX,
     .offset = AT(hosts_per_leaf)},
    {.name = "tree.uplinks_per_leaf",
     .group = TT_CLUSTER_TREE,
     .unit = "links",
     .help = "links of a leaf switch to the core, which never blocks",
     .zero = "none, without leaves",
     .minimum = 1,
     .maximum = 65536,
     .offset = AT(uplinks_per_leaf)},
    {.name = "tree.latency_us",
     .group = TT_CLUSTER_TREE,
     .kind = TT_CLUSTER_REAL,
     .unit = "us",
     .help = "of the whole way from card to card between leaves",
     .maximum = TIME_US_MAX,
     .offset = AT(tree.latency_us)},
    {.name = "tree.gap_us",
     .group = TT_CLUSTER_TREE,
     .kind = TT_CLUSTER_REAL,
     .unit = "us",
     .help = "time for which a frame occupies an uplink, besides its bytes",
     .maximum = TIME_US_MAX,
     .offset = AT(tree.gap_us)},
    {.name = "tree.bandwidth_gbs",
     .group = TT_CLUSTER_TREE,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "of an uplink, in each direction",
     .zero = "none, without leaves",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .offset = AT(tree.bandwidth_gbs)},
    {.name = "processor.overhead_us",
     .group = TT_CLUSTER_PROCESSOR,
     .kind = TT_CLUSTER_REAL,
     .unit = "us",
     .help = "of the processor, for each frame sent and each one received",
     .maximum = TIME_US_MAX,
     .offset = AT(overhead_us)},
    {.name = "processor.overhead_gbs",
     .group = TT_CLUSTER_PROCESSOR,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "at which the processor sends or receives the bytes of frames",
     .zero = "they cost it nothing",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .offset = AT(overhead_gbs)},
    {.name = "processor.reduce_gbs",
     .group = TT_CLUSTER_PROCESSOR,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "at which a rank adds one vector to another, in bytes of one of them",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .fallback = 8,
     .offset = AT(reduce_gbs)},
    {.name = "processor.copy_gbs",
     .group = TT_CLUSTER_PROCESSOR,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "at which a rank copies",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .fallback = 8,
     .offset = AT(copy_gbs)},
    {.name = "memory.bandwidth_gbs",
     .group = TT_CLUSTER_MEMORY,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "of a host's memory, shared by its ranks; reads and writes count",
     .zero = "no limit",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .offset = AT(memory_gbs)},
    {.name = "noise.spread_percent",
     .group = TT_CLUSTER_NOISE,
     .kind = TT_CLUSTER_REAL,
     .unit = "%",
     .help = "standard deviation of a rank's time to compute a step, as a share of the mean",
     .maximum = 100,
     .offset = AT(spread_percent)},
    {.name = "noise.hiccups_per_million",
     .group = TT_CLUSTER_NOISE,
     .kind = TT_CLUSTER_REAL,
     .unit = "per million",
     .help = "interruptions in a million steps of a rank",
     .maximum = 1e6,
     .offset = AT(hiccups_per_million)},
    {.name = "noise.hiccup_ms",
     .group = TT_CLUSTER_NOISE,
     .kind = TT_CLUSTER_REAL,
     .unit = "ms",
     .help = "mean length of an interruption",
     .maximum = 1e6,
     .offset = AT(hiccup_ms)},
    {.name = "coordinator.request_us",
     .group = TT_CLUSTER_COORDINATOR,
     .kind = TT_CLUSTER_REAL,
     .unit = "us",
     .help = "processor time of a coordinator for one tensor of one rank",
     .maximum = TIME_US_MAX,
     .fallback = 0.5,
     .offset = AT(request_us)},
    {.name = "gpu.generation",
     .group = TT_CLUSTER_GPU,
     .kind = TT_CLUSTER_WORD,
     .unit = "",
     .help = "of the accelerators; NCCL's model has constants for each",
     .maximum = TT_CLUSTER_HOPPER,
     .words = generations,
     .offset = AT(generation)},
    {.name = "gpu.channels",
     .group = TT_CLUSTER_GPU,
     .unit = "channels",
     .help = "channels of NCCL, where each has a limit",
     .zero = "limits of channels are left out",
     .minimum = 1,
     .maximum = 64,
     .offset = AT(gpu_channels)},
    {.name = "gpu.local_gbs",
     .group = TT_CLUSTER_GPU,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "bus bandwidth between the accelerators of a host, of all channels",
     .zero = "none, without accelerators or for hosts of one rank",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .offset = AT(gpu_local_gbs)},
    {.name = "gpu.network_gbs",
     .group = TT_CLUSTER_GPU,
     .kind = TT_CLUSTER_REAL,
     .unit = "GB/s",
     .help = "bandwidth of a host to others as NCCL uses it, of all channels",
     .zero = "none, without accelerators or for a single host",
     .minimum = GBS_MIN,
     .maximum = GBS_MAX,
     .offset = AT(gpu_network_gbs)},
    {.name = "input.samples_per_s",
     .group = TT_CLUSTER_INPUT,
     .kind = TT_CLUSTER_REAL,
     .unit = "samples/s",
     .help = "that a host can read and decode for all its ranks",
     .zero = "no limit",
     .minimum = 0.001,
     .maximum = 1e12,
     .offset = AT(samples_per_s)},
    {.name = "price.usd_per_hour",
     .group = TT_CLUSTER_PRICE,
     .kind = TT_CLUSTER_REAL,
     .unit = "USD",
     .help = "of a host for an hour",
     .zero = "not known",
     .minimum = 1e-6,
     .maximum = 1e9,
     .offset = AT(usd_per_hour)},
};

typedef struct group_text {
    const char *name;
    const char *help;
} group_text;

static const group_text groups[TT_CLUSTER_GROUPS] = {
    [TT_CLUSTER_HOSTS] = {"hosts", "how many hosts there are, and what is in one"},
    [TT_CLUSTER_LOCAL] = {"local", "from rank to rank of one host"},
    [TT_CLUSTER_NETWORK] = {"network", "from host to host of one leaf switch"},
    [TT_CLUSTER_TREE] = {"tree", "from leaf switch to leaf switch, over uplinks"},
    [TT_CLUSTER_PROCESSOR] = {"processor", "what frames, sums and copies cost a rank"},
    [TT_CLUSTER_MEMORY] = {"memory", "what the ranks of a host share"},
    [TT_CLUSTER_NOISE] = {"noise", "how the time to compute a step varies"},
    [TT_CLUSTER_COORDINATOR] = {"coordinator", "cost of negotiation at one rank"},
    [TT_CLUSTER_GPU] = {"gpu", "what NCCL's model needs"},
    [TT_CLUSTER_INPUT] = {"input", "limit of the input pipeline"},
    [TT_CLUSTER_PRICE] = {"price", "what hosts cost"},
};

static const char *const sources[TT_CLUSTER_SOURCES] = {
    [TT_CLUSTER_MEASURED] = "measured",
    [TT_CLUSTER_PUBLISHED] = "published",
    [TT_CLUSTER_ASSUMED] = "assumed",
};

const tt_cluster_field *tt_cluster_field_at(size_t index)
{
    return index < TT_ARRAY_COUNT(fields) ? &fields[index] : NULL;
}

const tt_cluster_field *tt_cluster_field_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(fields); i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

const char *tt_cluster_field_member(const tt_cluster_field *field)
{
    const char *dot = strchr(field->name, '.');
    TT_ASSERT(dot != NULL);
    return dot + 1;
}

const char *tt_cluster_group_name(tt_cluster_group group)
{
    TT_ASSERT(group < TT_CLUSTER_GROUPS);
    return groups[group].name;
}

const char *tt_cluster_group_help(tt_cluster_group group)
{
    TT_ASSERT(group < TT_CLUSTER_GROUPS);
    return groups[group].help;
}

const char *tt_cluster_source_name(tt_cluster_source source)
{
    TT_ASSERT(source < TT_CLUSTER_SOURCES);
    return sources[source];
}

/* ---- values ---- */

double tt_cluster_field_get(const tt_cluster *cluster, const tt_cluster_field *field)
{
    const char *at = (const char *)cluster + field->offset;
    uint32_t count = 0;
    double real = 0;
    int word = 0;
    switch (field->kind) {
    case TT_CLUSTER_COUNT:
        memcpy(&count, at, sizeof(count));
        return count;
    case TT_CLUSTER_WORD:
        memcpy(&word, at, sizeof(word));
        return word;
    case TT_CLUSTER_REAL:
        break;
    }
    memcpy(&real, at, sizeof(real));
    return real;
}

static void value_put(tt_cluster *cluster, const tt_cluster_field *field, double value)
{
    char *at = (char *)cluster + field->offset;
    const uint32_t count = field->kind == TT_CLUSTER_REAL ? 0 : (uint32_t)value;
    const int word = (int)count;
    switch (field->kind) {
    case TT_CLUSTER_COUNT:
        memcpy(at, &count, sizeof(count));
        break;
    case TT_CLUSTER_WORD:
        memcpy(at, &word, sizeof(word));
        break;
    case TT_CLUSTER_REAL:
        memcpy(at, &value, sizeof(value));
        break;
    }
}

/* The nearest value of nine digits, which is what texts have: printed and read, it stays the same
 * (in one locale). */
static double nine_digits(double value)
{
    char digits[32];
    (void)snprintf(digits, sizeof(digits), "%.9g", value);
    return strtod(digits, NULL);
}

static bool is_in_range(const tt_cluster_field *field, double value)
{
    if (field->kind != TT_CLUSTER_REAL && value != floor(value)) {
        return false;
    }
    return (value >= field->minimum && value <= field->maximum) ||
           (field->zero != NULL && value == 0);
}

tt_status tt_cluster_field_set(tt_cluster *cluster, const tt_cluster_field *field, double value,
                               tt_text *why)
{
    if (isfinite(value) && is_in_range(field, value)) {
        value_put(cluster, field, nine_digits(value));
        return TT_OK;
    }
    tt_text_add(why, "%s is %.6g: give ", field->name, value);
    tt_cluster_field_describe(field, why);
    return TT_ERR_BAD_CONFIG;
}

static int word_find(const tt_cluster_field *field, const char *text)
{
    for (int i = 0; field->words[i] != NULL; i++) {
        if (strcmp(field->words[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

tt_status tt_cluster_field_parse(tt_cluster *cluster, const tt_cluster_field *field,
                                 const char *text, tt_text *why)
{
    double value = 0;
    bool is_known = false;
    if (field->kind == TT_CLUSTER_WORD) {
        value = word_find(field, text);
        is_known = value >= 0;
    } else {
        is_known = tt_config_parse_real(text, &value);
    }
    if (is_known) {
        return tt_cluster_field_set(cluster, field, value, why);
    }
    tt_text_add(why, "%s is ", field->name);
    tt_text_add_quoted(why, text, SHOWN);
    tt_text_add(why, ": give ");
    tt_cluster_field_describe(field, why);
    return TT_ERR_BAD_CONFIG;
}

/* ---- texts ---- */

void tt_cluster_field_describe(const tt_cluster_field *field, tt_text *text)
{
    if (field->kind == TT_CLUSTER_WORD) {
        for (int i = 0; field->words[i] != NULL; i++) {
            tt_text_add(text, "%s%s",
                        i == 0                        ? ""
                        : field->words[i + 1] == NULL ? " or "
                                                      : ", ",
                        field->words[i]);
        }
        return;
    }
    tt_text_add(text, field->kind == TT_CLUSTER_COUNT ? "a whole number, " : "");
    tt_text_add_real(text, field->minimum);
    tt_text_add(text, " to ");
    tt_text_add_real(text, field->maximum);
    tt_text_add(text, " %s", field->unit);
    if (field->zero != NULL) {
        tt_text_add(text, ", or 0: %s", field->zero);
    }
}

void tt_cluster_field_print(const tt_cluster *cluster, const tt_cluster_field *field, tt_text *text)
{
    const double value = tt_cluster_field_get(cluster, field);
    if (field->kind == TT_CLUSTER_WORD) {
        TT_ASSERT(value <= field->maximum);
        tt_text_add(text, "%s", field->words[(int)value]);
    } else {
        tt_text_add_real(text, value);
    }
}

void tt_cluster_field_suggest(const char *name, tt_text *why)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    for (size_t i = 0; i < TT_ARRAY_COUNT(fields); i++) {
        tt_nearest_offer(&nearest, fields[i].name);
    }
    if (nearest.best[0] != '\0') {
        tt_text_add(why, "did you mean %s", nearest.best);
    } else {
        tt_text_add(why, "'tutti cluster --fields' lists them");
    }
}

void tt_cluster_init(tt_cluster *cluster)
{
    *cluster = (tt_cluster){.name = "cluster"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(fields); i++) {
        value_put(cluster, &fields[i], fields[i].fallback);
    }
}
