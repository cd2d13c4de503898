/* SPDX-License-Identifier: Apache-2.0
 *
 * first_use_tac.c - one tensor at a time: of the outstanding ones, the best by Johnson's rule is
 * next. O(tensors * operators * tensors / 64), offline, once per model. */
#include <math.h>

#include "base/assert.h"
#include "base/base.h"
#include "model/first_use_internal.h"

bool tt_order_tac_before(const tt_order_property *a, const tt_order_property *b)
{
    const double a_first = fmin(a->transfer_us, b->unlocked_us);
    const double b_first = fmin(b->transfer_us, a->unlocked_us);
    if (a_first != b_first) {
        return a_first < b_first;
    }
    return a->joint_us < b->joint_us;
}

/* Ties keep the order of first use: `order` lists tensors by it. */
static uint32_t best_of(const tt_order_property *properties, const uint64_t *outstanding,
                        const uint32_t *order, uint32_t count)
{
    uint32_t best = TT_GRAPH_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t tensor = order[i];
        if (tt_bit_has(outstanding, tensor) &&
            (best == TT_GRAPH_NONE ||
             tt_order_tac_before(&properties[tensor], &properties[best]))) {
            best = tensor;
        }
    }
    TT_ASSERT(best != TT_GRAPH_NONE);
    return best;
}

tt_status tt_order_tac(const tt_graph *graph, const tt_wire *wire, tt_scratch *scratch,
                       uint32_t **places_out)
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
    uint32_t *places = tt_scratch_take(scratch, count, sizeof(places[0]));
    TT_TRY(tt_scratch_status(scratch));
    for (uint32_t i = 0; i < count; i++) {
        properties[i].transfer_us =
            tt_wire_time_us(wire, TT_TASK_PULL, tt_graph_tensor_at(graph, i)->bytes);
        tt_bit_set(outstanding.words, i);
        order[first_use[i]] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        tt_order_properties(graph, &dependencies, outstanding.words, true, properties);
        const uint32_t next = best_of(properties, outstanding.words, order, count);
        places[next] = i;
        tt_bit_clear(outstanding.words, next);
    }
    *places_out = places;
    return TT_OK;
}
