/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_run.h - execute a graph on one worker: parameters arrive in some order on one wire,
 * operators run one at a time as their inputs allow, gradients leave on another wire.
 *
 * Layer:   model; may include base/.
 * Threads: pure.
 * Memory:  from the scratch.
 */
#ifndef TUTTI_MODEL_GRAPH_RUN_H
#define TUTTI_MODEL_GRAPH_RUN_H

#include "model/evaluate.h"
#include "model/graph.h"

typedef struct tt_graph_run_config {
    const uint32_t *recv_places;    /* by tensor: smaller arrives first; NULL: all have arrived */
    const uint32_t *compute_places; /* by node: smaller runs first if it can; NULL: graph's order */
    tt_wire wire;
} tt_graph_run_config;

typedef struct tt_graph_times {
    double makespan_us;
    double compute_us;
    double recv_us; /* time of the wires */
    double send_us;
    double efficiency; /* E: 1 where the busiest resource never waits, 0 where all is serial */
    double *start_us;  /* by node */
    double *end_us;
} tt_graph_times;

tt_status tt_graph_run(const tt_graph *graph, const tt_graph_run_config *config,
                       tt_scratch *scratch, tt_graph_times *times_out);

/* Uses and ready times when nothing waits for the network. TT_ERR_BAD_ARGUMENT if a tensor is not
 * both received and sent: a workload is a training step. */
tt_status tt_graph_workload(const tt_graph *graph, const uint32_t *compute_places,
                            tt_scratch *scratch, tt_text *why, tt_workload *workload_out);

/* When a tensor becomes ready, nothing waiting for the network, over some executions. */
typedef struct tt_ready_stats {
    double mean_us;
    double variance; /* us^2, between executions */
} tt_ready_stats;

/* Statistics of each tensor, into `each`, over `run_count` executions: with `compute_places`, or
 * (NULL) in a random order each time, as an executor with a free choice. */
tt_status tt_graph_ready(const tt_graph *graph, const uint32_t *compute_places, uint32_t run_count,
                         uint64_t seed, tt_ready_stats *each);
/* Means over tensors. */
tt_ready_stats tt_ready_mean(const tt_ready_stats *each, uint32_t tensor_count);

#endif
