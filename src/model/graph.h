/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - a step as a dataflow graph: receives, operators and sends, and their dependencies.
 *
 * A graph is built, then sealed; only a sealed graph can be read. Nodes keep the order in which
 * they were added wherever their dependencies leave a choice.
 *
 * Layer:   model; may include base/.
 * Threads: one at a time while it is built; a sealed graph is const and can be shared.
 * Memory:  owned by the graph: names are copied.
 */
#ifndef TUTTI_MODEL_GRAPH_H
#define TUTTI_MODEL_GRAPH_H

#include "base/alloc.h"
#include "base/text.h"
#include "model/workload.h"

enum {
    TT_GRAPH_NODES_MAX = 1 << 20,
    TT_GRAPH_EDGES_MAX = 1 << 23,
    TT_GRAPH_NAME_BYTES_MAX = 255, /* without the terminating zero */
};
#define TT_GRAPH_NONE UINT32_MAX
#define TT_GRAPH_TENSOR_BYTES_MAX (UINT64_C(1) << 42) /* so that sums of a million do not wrap */

typedef enum tt_node_kind {
    TT_NODE_COMPUTE,
    TT_NODE_RECV, /* a parameter arrives */
    TT_NODE_SEND, /* a gradient leaves */
} tt_node_kind;

typedef enum tt_node_phase {
    TT_PHASE_FORWARD,
    TT_PHASE_BACKWARD,
} tt_node_phase;

typedef struct tt_node {
    const char *name; /* unique */
    tt_node_kind kind;
    tt_node_phase phase;
    double time_us;     /* of computation, not negative; 0 for the others */
    double backward_us; /* of the gradient of its inputs; 0: as long as itself */
    uint32_t tensor;    /* the tensor received or sent; TT_GRAPH_NONE for computation */
} tt_node;

typedef struct tt_graph_tensor {
    const char *name; /* unique among tensors */
    uint64_t bytes;
    uint32_t recv; /* its nodes, or TT_GRAPH_NONE */
    uint32_t send;
} tt_graph_tensor;

typedef struct tt_graph tt_graph;

/* The caller destroys. */
tt_status tt_graph_create(const tt_allocator *allocator, tt_graph **graph_out);
void tt_graph_destroy(tt_graph *graph);

/* TT_ERR_BAD_ARGUMENT: a name that is taken, empty or too long, a tensor of more than 4 TiB, a time
 * that is negative or not a number, a tensor that is unknown or has such a node already, a loop on
 * itself; `why` names it. TT_ERR_NO_RESOURCE: too many. */
tt_status tt_graph_add_tensor(tt_graph *graph, const char *name, uint64_t bytes, tt_text *why,
                              uint32_t *index_out);
tt_status tt_graph_add_node(tt_graph *graph, const tt_node *node, tt_text *why,
                            uint32_t *index_out);
/* `to` needs `from`. The same edge twice is one. */
tt_status tt_graph_add_edge(tt_graph *graph, uint32_t from, uint32_t to, tt_text *why);

/* All times become `factor` times as long. */
void tt_graph_scale(tt_graph *graph, double factor);

/* By name, or TT_GRAPH_NONE. */
uint32_t tt_graph_find_node(const tt_graph *graph, const char *name);
uint32_t tt_graph_find_tensor(const tt_graph *graph, const char *name);

/* TT_ERR_BAD_ARGUMENT: no node, no tensor, a receive node with inputs, a send node with outputs, or
 * a cycle, of which `why` names a member. A graph that could not be sealed can only be destroyed.
 */
tt_status tt_graph_seal(tt_graph *graph, tt_text *why);

uint32_t tt_graph_node_count(const tt_graph *graph);
uint32_t tt_graph_tensor_count(const tt_graph *graph);
const tt_node *tt_graph_node(const tt_graph *graph, uint32_t index);
const tt_graph_tensor *tt_graph_tensor_at(const tt_graph *graph, uint32_t index);
const tt_allocator *tt_graph_allocator(const tt_graph *graph);

/* Of a sealed graph: inputs and outputs of a node; `*count_out` of them. */
const uint32_t *tt_graph_inputs(const tt_graph *graph, uint32_t node, uint32_t *count_out);
const uint32_t *tt_graph_outputs(const tt_graph *graph, uint32_t node, uint32_t *count_out);
/* A topological order. */
const uint32_t *tt_graph_order(const tt_graph *graph);

typedef struct tt_graph_stats {
    uint32_t node_count;
    uint32_t compute_count;
    uint32_t longest_path; /* nodes on it */
    uint32_t inputs_max;
    double inputs_mean;   /* direct dependencies of a node */
    double parallel_mean; /* nodes / longest path */
    double compute_us;
    double forward_us;
} tt_graph_stats;

tt_status tt_graph_measure(const tt_graph *graph, tt_graph_stats *stats_out);

/* A chain with exactly these uses and ready times. */
tt_status tt_graph_from_workload(const tt_workload *workload, const tt_allocator *allocator,
                                 tt_text *why, tt_graph **graph_out);

/* The training graph of a forward graph: for every operator the gradient of its inputs, for every
 * received tensor the gradient, which is sent. Each costs as much as the operator itself, or, for
 * the inputs, its backward_us. */
tt_status tt_graph_differentiate(const tt_graph *forward, tt_text *why, tt_graph **graph_out);

#endif
