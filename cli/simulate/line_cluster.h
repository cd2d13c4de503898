/* SPDX-License-Identifier: Apache-2.0
 *
 * line_cluster.h - a cluster in three options, which are those of `tutti schedule`.
 *
 * Layer:   cli.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_CLI_SIMULATE_LINE_CLUSTER_H
#define TUTTI_CLI_SIMULATE_LINE_CLUSTER_H

#include "sim/sim.h"

typedef struct tt_line_cluster {
    int64_t mbit; /* of a card in each direction; 0: not given */
    int64_t gap_us;
    int64_t latency_us;
} tt_line_cluster;

/* As many hosts of one rank as there are ranks, without noise. TT_ERR_BAD_ARGUMENT and `why`: there
 * is no bandwidth, or a number is none that a cluster can have. */
tt_status tt_line_cluster_make(const tt_line_cluster *line, tt_text *why, tt_cluster *cluster_out);

#endif
