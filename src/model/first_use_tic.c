/* SPDX-License-Identifier: Apache-2.0
 *
 * first_use_tic.c - every transfer costs one, computation nothing; tensors by increasing M+. */
#include "model/first_use_internal.h"

typedef struct ranking_state {
    const tt_order_property *properties;
    const uint32_t *first_use;
} ranking_state;

static bool joint_before(const void *user, uint32_t a, uint32_t b)
{
    const ranking_state *ranking = user;
    const double joint_a = ranking->properties[a].joint_us;
    const double joint_b = ranking->properties[b].joint_us;
    if (joint_a != joint_b) {
        return joint_a < joint_b;
    }
    return ranking->first_use[a] < ranking->first_use[b];
}

tt_status tt_order_tic(const tt_graph *graph, tt_scratch *scratch, uint32_t **places_out)
{
    const uint32_t count = tt_graph_tensor_count(graph);
    tt_bit_rows dependencies;
    tt_bit_rows outstanding;
    uint32_t *first_use;
    TT_TRY(tt_order_dependencies(graph, scratch, &dependencies));
    TT_TRY(tt_bit_rows_take(&outstanding, 1, count, scratch));
    TT_TRY(tt_order_first_use(graph, scratch, &first_use));
    tt_order_property *properties = tt_scratch_take(scratch, count, sizeof(properties[0]));
    uint32_t *order = tt_scratch_take(scratch, count, sizeof(order[0]));
    uint32_t *spare = tt_scratch_take(scratch, count, sizeof(spare[0]));
    uint32_t *places = tt_scratch_take(scratch, count, sizeof(places[0]));
    TT_TRY(tt_scratch_status(scratch));
    for (uint32_t i = 0; i < count; i++) {
        properties[i].transfer_us = 1;
        tt_bit_set(outstanding.words, i);
        order[i] = i;
    }
    tt_order_properties(graph, &dependencies, outstanding.words, false, properties);
    const ranking_state ranking = {.properties = properties, .first_use = first_use};
    tt_sort_indices(order, spare, count, joint_before, &ranking);
    for (uint32_t i = 0; i < count; i++) {
        places[order[i]] = i;
    }
    *places_out = places;
    return TT_OK;
}
