/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_predict.h - what a measured call would take on a modelled cluster.
 *
 * Collectives are walked by sim/moves.h with the algorithm that the row names and the lengths of
 * frames that jobs have by default. An exchange between neighbours is one frame each way:
 * T = 2 o + L + n (2 O + G).
 *
 * Layer:   cli.
 * Threads: one at a time.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_CLUSTER_CLUSTER_PREDICT_H
#define TUTTI_CLI_CLUSTER_CLUSTER_PREDICT_H

#include "cli/cluster/bench_rows.h"
#include "sim/sim.h"

/* The row's ranks on its number of hosts, whatever hosts the cluster has. TT_ERR_UNSUPPORTED: the
 * call is too large to be walked, or the moves do not know it. */
tt_status tt_cluster_predict(const tt_cluster *cluster, const tt_bench_row *row,
                             double *time_us_out);

#endif
