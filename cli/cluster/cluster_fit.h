/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_fit.h - the numbers of a cluster, from measured calls.
 *
 * - Latency and bandwidth of a level: the line through its exchanges (sendrecv), whose slope is the
 *   median of all slopes, and whose start that of the short ones; short sums and barriers of two
 *   ranks, each one exchange, shorten it.
 * - Overhead of the processor: its share in that start with which short sums and barriers of three
 *   ranks or more are modelled best. Some algorithms tell nothing of it.
 * - Sums, copies, memory: the rate at which each long call on one host takes as long as it did; the
 *   median of these rates. Sums and copies are those of the smallest job, the limit of the memory
 *   that of larger ones.
 * All other numbers are kept.
 *
 * Layer:   cli.
 * Threads: one at a time.
 * Memory:  none kept; a fit points to the rows that it was made from.
 */
#ifndef TUTTI_CLI_CLUSTER_CLUSTER_FIT_H
#define TUTTI_CLI_CLUSTER_CLUSTER_FIT_H

#include "cli/cluster/bench_rows.h"
#include "sim/sim.h"

enum {
    TT_FIT_NUMBERS = 8,
    TT_FIT_LINES_MAX = 64,
    TT_FIT_HOW_BYTES = 160,
};

/* A number of the cluster that rows may determine. */
typedef struct tt_fit_number {
    const tt_cluster_field *field;
    bool is_fitted;
    char how[TT_FIT_HOW_BYTES]; /* from what; not fitted: what to measure for it */
} tt_fit_number;

/* Rows of one call on one placement, and how well they are modelled. */
typedef struct tt_fit_line {
    const tt_bench_row *first;
    size_t row_count; /* that could be modelled */
    size_t skipped;   /* that could not */
    double median;    /* of the magnitudes of relative errors */
    double worst;     /* modelled over measured, less 1 */
    double worst_us;  /* modelled */
    const tt_bench_row *worst_row;
} tt_fit_line;

typedef struct tt_fit {
    tt_cluster cluster;
    tt_fit_number numbers[TT_FIT_NUMBERS];
    tt_fit_line lines[TT_FIT_LINES_MAX];
    size_t line_count;
    size_t lines_left; /* without room */
} tt_fit;

/* Numbers that the rows do not determine are those of `base`. TT_ERR_BAD_CONFIG and
 * `why`: the numbers make no cluster, because some are neither in the base nor in the rows. */
tt_status tt_cluster_fit(const tt_cluster *base, const tt_bench_rows *rows, tt_text *why,
                         tt_fit *fit_out);

/* For a cluster without a base: one host if no row is of several, and as many ranks on a host as
 * the rows have at most. */
void tt_cluster_fit_hosts(const tt_bench_rows *rows, tt_cluster *cluster);

#endif
