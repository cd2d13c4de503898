/* SPDX-License-Identifier: Apache-2.0
 *
 * first_use.h - in which order tensors are needed, and in which order operators should run.
 *
 * An order of tensors is a list of places: places[tensor] is 0 for the most urgent, and every place
 * is given once.
 *
 * Layer:   model; may include base/.
 * Threads: pure; a learner one at a time.
 * Memory:  from the scratch.
 */
#ifndef TUTTI_MODEL_FIRST_USE_H
#define TUTTI_MODEL_FIRST_USE_H

#include "model/graph_run.h"

/* By first use in the graph's own order. */
tt_status tt_order_first_use(const tt_graph *graph, tt_scratch *scratch, uint32_t **places_out);

/* Timing-independent (TicTac, SysML 2019): a tensor is as urgent as the smallest set of tensors
 * that together let some operator run. Ties by first use. */
tt_status tt_order_tic(const tt_graph *graph, tt_scratch *scratch, uint32_t **places_out);

/* Timing-aware: pairs of outstanding tensors compared by Johnson's rule. */
tt_status tt_order_tac(const tt_graph *graph, const tt_wire *wire, tt_scratch *scratch,
                       uint32_t **places_out);

/* Of one outstanding tensor. */
typedef struct tt_order_property {
    double transfer_us; /* M */
    double unlocked_us; /* P: computation that waits for this one alone */
    double joint_us;    /* M+: cheapest set with this one that unlocks more; INFINITY: none */
} tt_order_property;

/* A first: M_A + max(P_A, M_B) + P_B; so A goes first iff min(M_A, P_B) < min(M_B, P_A). (The rule
 * is printed the other way round in the paper.) Equal: the smaller M+. */
bool tt_order_tac_before(const tt_order_property *a, const tt_order_property *b);

/* Learning from the first step: record each use; tensors never used come last. */
typedef struct tt_order_learner {
    uint32_t *places; /* the caller's, one per tensor; TT_GRAPH_NONE: not used yet */
    uint32_t tensor_count;
    uint32_t used_count;
} tt_order_learner;

void tt_order_learner_init(tt_order_learner *learner, uint32_t *places, uint32_t tensor_count);
void tt_order_learner_note(tt_order_learner *learner, uint32_t tensor);
/* Places are then a permutation. */
void tt_order_learner_end(tt_order_learner *learner);

/* Which operator runs first, so that gradients are ready early. */
typedef enum tt_compute_rule {
    TT_COMPUTE_NEAREST,  /* TicTac's backward: always towards the gradient that is nearest */
    TT_COMPUTE_CHEAPEST, /* Caramel: gradients by increasing cost of all they depend on */
} tt_compute_rule;

/* places[node] of every operator that computes: a topological order. */
tt_status tt_order_compute(const tt_graph *graph, tt_compute_rule rule, tt_scratch *scratch,
                           uint32_t **places_out);

typedef struct tt_control_edge {
    uint32_t from;
    uint32_t to;
} tt_control_edge;

/* Edges to add to the graph so that operators have only this order of execution. */
tt_status tt_order_control_edges(const tt_graph *graph, const uint32_t *compute_places,
                                 tt_scratch *scratch, tt_control_edge **edges_out,
                                 uint32_t *count_out);

#endif
