/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_workload.h - the step of a rank, as the options of `tutti simulate` describe it.
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  tt_simulate_workload_fini releases all.
 */
#ifndef TUTTI_CLI_SIMULATE_SIMULATE_WORKLOAD_H
#define TUTTI_CLI_SIMULATE_SIMULATE_WORKLOAD_H

#include "model/model.h"

typedef struct tt_simulate_workload_config {
    const char *graph; /* file or network */
    int64_t batch;     /* 0: the network's */
    double samples_per_s;
    int64_t pass_count; /* before gradients are exchanged */
    double time_scale;
    double bytes_scale;
    bool is_half; /* gradients of two bytes instead of four */
} tt_simulate_workload_config;

/* All zeros before load. */
typedef struct tt_simulate_workload {
    tt_graph *graph;
    tt_scratch scratch;
    bool is_loaded; /* there is a scratch */
    tt_workload workload;
    double samples; /* of a rank in a step; 0: not known */
} tt_simulate_workload;

/* On failure `why` has cause and cure; on success it may hold a remark about the file. */
tt_status tt_simulate_workload_load(const tt_simulate_workload_config *config, tt_text *why,
                                    tt_simulate_workload *loaded_out);
void tt_simulate_workload_fini(tt_simulate_workload *loaded);

#endif
