/* SPDX-License-Identifier: Apache-2.0
 *
 * first_use.c - first uses, given or learnt, and the sets that TIC and TAC reason about. */
#include "model/first_use.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"
#include "model/first_use_internal.h"

/* ---- first use ---------------------------------------------------------------------------------
 */

tt_status tt_order_first_use(const tt_graph *graph, tt_scratch *scratch, uint32_t **places_out)
{
    const uint32_t tensor_count = tt_graph_tensor_count(graph);
    uint32_t *places = tt_scratch_take(scratch, tensor_count, sizeof(places[0]));
    if (places == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    tt_order_learner learner;
    tt_order_learner_init(&learner, places, tensor_count);
    for (uint32_t i = 0; i < tt_graph_node_count(graph); i++) {
        uint32_t count;
        const uint32_t *inputs = tt_graph_inputs(graph, tt_graph_order(graph)[i], &count);
        for (uint32_t k = 0; k < count; k++) {
            const tt_node *input = tt_graph_node(graph, inputs[k]);
            if (input->kind == TT_NODE_RECV) {
                tt_order_learner_note(&learner, input->tensor);
            }
        }
    }
    tt_order_learner_end(&learner);
    *places_out = places;
    return TT_OK;
}

void tt_order_learner_init(tt_order_learner *learner, uint32_t *places, uint32_t tensor_count)
{
    *learner = (tt_order_learner){.places = places, .tensor_count = tensor_count};
    for (uint32_t i = 0; i < tensor_count; i++) {
        places[i] = TT_GRAPH_NONE;
    }
}

void tt_order_learner_note(tt_order_learner *learner, uint32_t tensor)
{
    TT_ASSERT(tensor < learner->tensor_count);
    if (learner->places[tensor] == TT_GRAPH_NONE) {
        learner->places[tensor] = learner->used_count++;
    }
}

void tt_order_learner_end(tt_order_learner *learner)
{
    for (uint32_t i = 0; i < learner->tensor_count; i++) {
        tt_order_learner_note(learner, i);
    }
}

/* ---- sets --------------------------------------------------------------------------------------
 */

tt_status tt_bit_rows_take(tt_bit_rows *rows, size_t row_count, size_t bit_count,
                           tt_scratch *scratch)
{
    rows->words_a_row = (bit_count + 63) / 64;
    if (rows->words_a_row == 0) {
        rows->words_a_row = 1;
    }
    rows->words = tt_scratch_take(scratch, row_count, rows->words_a_row * sizeof(uint64_t));
    return rows->words == NULL ? TT_ERR_NO_MEMORY : TT_OK;
}

tt_status tt_order_dependencies(const tt_graph *graph, tt_scratch *scratch, tt_bit_rows *rows_out)
{
    tt_bit_rows rows;
    const uint32_t count = tt_graph_node_count(graph);
    TT_TRY(tt_bit_rows_take(&rows, (size_t)count + 1, tt_graph_tensor_count(graph), scratch));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = tt_graph_order(graph)[i];
        uint64_t *row = tt_bit_row(&rows, index);
        if (tt_graph_node(graph, index)->kind == TT_NODE_RECV) {
            tt_bit_set(row, tt_graph_node(graph, index)->tensor);
        }
        uint32_t input_count;
        const uint32_t *inputs = tt_graph_inputs(graph, index, &input_count);
        for (uint32_t k = 0; k < input_count; k++) {
            const uint64_t *other = tt_bit_row(&rows, inputs[k]);
            for (size_t w = 0; w < rows.words_a_row; w++) {
                row[w] |= other[w];
            }
        }
    }
    *rows_out = rows;
    return TT_OK;
}

/* Add one operator to the properties of the outstanding tensors it depends on. */
static void node_properties(const uint64_t *needed, size_t word_count, double time_us,
                            tt_order_property *properties)
{
    uint32_t count = 0;
    uint32_t last = 0;
    double sum_us = 0;
    for (size_t w = 0; w < word_count; w++) {
        for (uint64_t bits = needed[w]; bits != 0; bits &= bits - 1) {
            last = (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(bits);
            sum_us += properties[last].transfer_us;
            count++;
        }
    }
    if (count == 1) {
        properties[last].unlocked_us += time_us;
    }
    for (size_t w = 0; count > 1 && w < word_count; w++) {
        for (uint64_t bits = needed[w]; bits != 0; bits &= bits - 1) {
            const size_t tensor = 64 * w + (size_t)__builtin_ctzll(bits);
            properties[tensor].joint_us = fmin(properties[tensor].joint_us, sum_us);
        }
    }
}

void tt_order_properties(const tt_graph *graph, const tt_bit_rows *dependencies,
                         const uint64_t *outstanding, bool is_timed, tt_order_property *properties)
{
    for (uint32_t i = 0; i < tt_graph_tensor_count(graph); i++) {
        properties[i].unlocked_us = 0;
        properties[i].joint_us = INFINITY;
    }
    const size_t word_count = dependencies->words_a_row;
    uint64_t *needed = tt_bit_row(dependencies, tt_graph_node_count(graph));
    for (uint32_t i = 0; i < tt_graph_node_count(graph); i++) {
        const tt_node *node = tt_graph_node(graph, i);
        if (node->kind != TT_NODE_COMPUTE) {
            continue;
        }
        for (size_t w = 0; w < word_count; w++) {
            needed[w] = tt_bit_row(dependencies, i)[w] & outstanding[w];
        }
        node_properties(needed, word_count, is_timed ? node->time_us : 0, properties);
    }
}
