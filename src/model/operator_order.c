/* SPDX-License-Identifier: Apache-2.0
 *
 * operator_order.c - operators in the order that makes gradients ready early.
 *
 * Each gradient has the set of operators it depends on. Gradients are taken one by one, by their
 * remaining cost (nearest) or by their total cost (cheapest); of each, the operators that are not
 * placed yet are placed in the graph's order. Sets are closed downward, so every place respects the
 * dependencies. Operators that no gradient needs come last. */
#include <math.h>

#include "base/assert.h"
#include "base/base.h"
#include "model/first_use_internal.h"

typedef struct planner_state {
    const tt_graph *graph;
    tt_bit_rows needed; /* by tensor: operators its gradient depends on */
    uint64_t *placed;   /* a set of operators */
    bool *is_taken;     /* by tensor */
    uint32_t *places;
    uint32_t place_next;
} planner_state;

/* The sets, by walking back from every send. */
static tt_status needed_fill(planner_state *planner, tt_scratch *scratch)
{
    const tt_graph *graph = planner->graph;
    const uint32_t node_count = tt_graph_node_count(graph);
    uint32_t *stack = tt_scratch_take(scratch, node_count, sizeof(stack[0]));
    if (stack == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < tt_graph_tensor_count(graph); i++) {
        uint64_t *row = tt_bit_row(&planner->needed, i);
        uint32_t depth = 0;
        const uint32_t send = tt_graph_tensor_at(graph, i)->send;
        if (send == TT_GRAPH_NONE) {
            continue;
        }
        stack[depth++] = send;
        while (depth > 0) {
            uint32_t count;
            const uint32_t *inputs = tt_graph_inputs(graph, stack[--depth], &count);
            for (uint32_t k = 0; k < count; k++) {
                if (!tt_bit_has(row, inputs[k])) {
                    tt_bit_set(row, inputs[k]);
                    stack[depth++] = inputs[k];
                }
            }
        }
    }
    return TT_OK;
}

/* Remaining cost of the gradient. */
static double cost_us(const planner_state *planner, uint32_t tensor)
{
    const uint64_t *row = tt_bit_row(&planner->needed, tensor);
    double sum_us = 0;
    for (size_t w = 0; w < planner->needed.words_a_row; w++) {
        for (uint64_t bits = row[w] & ~planner->placed[w]; bits != 0; bits &= bits - 1) {
            const uint32_t node = (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(bits);
            sum_us += tt_graph_node(planner->graph, node)->time_us;
        }
    }
    return sum_us;
}

static void place(planner_state *planner, uint32_t node)
{
    if (!tt_bit_has(planner->placed, node) &&
        tt_graph_node(planner->graph, node)->kind == TT_NODE_COMPUTE) {
        tt_bit_set(planner->placed, node);
        planner->places[node] = planner->place_next++;
    }
}

static void gradient_place(planner_state *planner, uint32_t tensor)
{
    const uint64_t *row = tt_bit_row(&planner->needed, tensor);
    for (uint32_t i = 0; i < tt_graph_node_count(planner->graph); i++) {
        const uint32_t node = tt_graph_order(planner->graph)[i];
        if (tt_bit_has(row, node)) {
            place(planner, node);
        }
    }
    planner->is_taken[tensor] = true;
}

/* The untaken gradient with the least cost; ties keep the graph's order. `total_us` NULL: by
 * remaining cost. */
static uint32_t cheapest(const planner_state *planner, const double *total_us)
{
    uint32_t best = TT_GRAPH_NONE;
    double best_us = INFINITY;
    for (uint32_t i = 0; i < tt_graph_tensor_count(planner->graph); i++) {
        if (planner->is_taken[i] || tt_graph_tensor_at(planner->graph, i)->send == TT_GRAPH_NONE) {
            continue;
        }
        const double own_us = total_us != NULL ? total_us[i] : cost_us(planner, i);
        if (best == TT_GRAPH_NONE || own_us < best_us) {
            best = i;
            best_us = own_us;
        }
    }
    return best;
}

tt_status tt_order_compute(const tt_graph *graph, tt_compute_rule rule, tt_scratch *scratch,
                           uint32_t **places_out)
{
    const uint32_t node_count = tt_graph_node_count(graph);
    const uint32_t tensor_count = tt_graph_tensor_count(graph);
    planner_state planner = {.graph = graph};
    TT_TRY(tt_bit_rows_take(&planner.needed, tensor_count, node_count, scratch));
    planner.placed = tt_scratch_take(scratch, planner.needed.words_a_row, sizeof(uint64_t));
    planner.is_taken = tt_scratch_take(scratch, tensor_count, sizeof(bool));
    planner.places = tt_scratch_take(scratch, node_count, sizeof(uint32_t));
    double *total_us = tt_scratch_take(scratch, tensor_count, sizeof(double));
    TT_TRY(tt_scratch_status(scratch));
    TT_TRY(needed_fill(&planner, scratch));
    for (uint32_t i = 0; i < tensor_count; i++) {
        total_us[i] = cost_us(&planner, i);
    }
    const double *by_us = rule == TT_COMPUTE_CHEAPEST ? total_us : NULL;
    for (uint32_t next = cheapest(&planner, by_us); next != TT_GRAPH_NONE;
         next = cheapest(&planner, by_us)) {
        gradient_place(&planner, next);
    }
    for (uint32_t i = 0; i < node_count; i++) {
        place(&planner, tt_graph_order(graph)[i]);
    }
    *places_out = planner.places;
    return TT_OK;
}

static bool has_edge(const tt_graph *graph, uint32_t from, uint32_t to)
{
    uint32_t count;
    const uint32_t *inputs = tt_graph_inputs(graph, to, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (inputs[i] == from) {
            return true;
        }
    }
    return false;
}

tt_status tt_order_control_edges(const tt_graph *graph, const uint32_t *compute_places,
                                 tt_scratch *scratch, tt_control_edge **edges_out,
                                 uint32_t *count_out)
{
    const uint32_t node_count = tt_graph_node_count(graph);
    uint32_t *chain = tt_scratch_take(scratch, node_count, sizeof(chain[0]));
    tt_control_edge *edges = tt_scratch_take(scratch, node_count, sizeof(edges[0]));
    TT_TRY(tt_scratch_status(scratch));
    uint32_t length = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        if (tt_graph_node(graph, i)->kind == TT_NODE_COMPUTE) {
            chain[compute_places[i]] = i;
            length++;
        }
    }
    uint32_t count = 0;
    for (uint32_t i = 1; i < length; i++) {
        if (!has_edge(graph, chain[i - 1], chain[i])) {
            edges[count++] = (tt_control_edge){.from = chain[i - 1], .to = chain[i]};
        }
    }
    *edges_out = edges;
    *count_out = count;
    return TT_OK;
}
