/* SPDX-License-Identifier: Apache-2.0
 *
 * line_cluster.c - see line_cluster.h. */
#include "cli/simulate/line_cluster.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/base.h"

static const double mbit_a_gbs = 8000;

tt_status tt_line_cluster_make(const tt_line_cluster *line, tt_text *why, tt_cluster *cluster_out)
{
    const struct {
        const char *field;
        double value;
    } numbers[] = {
        {"hosts.ranks_per_host", 1},
        {"network.bandwidth_gbs", (double)line->mbit / mbit_a_gbs},
        {"network.gap_us", (double)line->gap_us},
        {"network.latency_us", (double)line->latency_us},
    };
    tt_cluster cluster;
    if (line->mbit == 0) {
        tt_text_add(why, "--overhead and --latency need --mbit; for a known cluster give --sweep "
                         "network.latency_us=US");
        return TT_ERR_BAD_ARGUMENT;
    }
    tt_cluster_init(&cluster);
    (void)snprintf(cluster.name, sizeof(cluster.name), "mbit-%lld", (long long)line->mbit);
    for (size_t i = 0; i < TT_ARRAY_COUNT(numbers); i++) {
        const tt_cluster_field *field = tt_cluster_field_find(numbers[i].field);
        TT_ASSERT(field != NULL);
        TT_TRY(tt_cluster_field_set(&cluster, field, numbers[i].value, why));
    }
    TT_TRY(tt_cluster_check(&cluster, why));
    *cluster_out = cluster;
    return TT_OK;
}
