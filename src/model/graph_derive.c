/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_derive.c - measures of a graph, and graphs made from other things: a chain from a workload,
 * a training graph from a forward graph. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "model/graph.h"

tt_status tt_graph_measure(const tt_graph *graph, tt_graph_stats *stats_out)
{
    const uint32_t count = tt_graph_node_count(graph);
    const tt_allocator *allocator = tt_graph_allocator(graph);
    uint32_t *depth = tt_allocate(allocator, count, sizeof(depth[0]));
    if (depth == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    tt_graph_stats stats = {.node_count = count};
    uint64_t edge_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = tt_graph_order(graph)[i];
        const tt_node *node = tt_graph_node(graph, index);
        uint32_t input_count;
        const uint32_t *inputs = tt_graph_inputs(graph, index, &input_count);
        depth[index] = 1;
        for (uint32_t k = 0; k < input_count; k++) {
            depth[index] = (uint32_t)tt_max_u64(depth[index], depth[inputs[k]] + 1);
        }
        edge_count += input_count;
        stats.inputs_max = (uint32_t)tt_max_u64(stats.inputs_max, input_count);
        stats.longest_path = (uint32_t)tt_max_u64(stats.longest_path, depth[index]);
        stats.compute_count += node->kind == TT_NODE_COMPUTE;
        stats.compute_us += node->time_us;
        stats.forward_us += node->phase == TT_PHASE_FORWARD ? node->time_us : 0;
    }
    stats.inputs_mean = (double)edge_count / count;
    stats.parallel_mean = (double)count / stats.longest_path;
    tt_release(allocator, depth, count, sizeof(depth[0]));
    *stats_out = stats;
    return TT_OK;
}

/* ---- names -------------------------------------------------------------------------------------
 */

/* Add a node called prefix + name; a name that is too long is cut by tt_text and refused. */
static tt_status node_add(tt_graph *graph, const char *prefix, const char *name, tt_node node,
                          uint32_t *index_out)
{
    tt_text text = {.length = 0};
    tt_text why = {.length = 0};
    tt_text_add(&text, "%s%s", prefix, name);
    node.name = text.bytes;
    return tt_graph_add_node(graph, &node, &why, index_out);
}

/* ---- a chain from a workload -------------------------------------------------------------------
 */

typedef struct chain_state {
    tt_graph *graph;
    const tt_workload *workload;
    uint32_t last;     /* operator at the end of the chain_state */
    double reached_us; /* where it ends */
    tt_text *why;
} chain_state;

/* One more operator that lasts until `until_us`. */
static tt_status chain_extend(chain_state *chain, double until_us, tt_node_phase phase)
{
    tt_text name = {.length = 0};
    tt_text_add(&name, "%u", tt_graph_node_count(chain->graph));
    const tt_node node = {.kind = TT_NODE_COMPUTE,
                          .phase = phase,
                          .time_us = until_us - chain->reached_us,
                          .tensor = TT_GRAPH_NONE};
    uint32_t index;
    TT_TRY(node_add(chain->graph, phase == TT_PHASE_FORWARD ? "forward/" : "backward/", name.bytes,
                    node, &index));
    if (chain->last != TT_GRAPH_NONE) {
        TT_TRY(tt_graph_add_edge(chain->graph, chain->last, index, chain->why));
    }
    chain->last = index;
    chain->reached_us = until_us;
    return TT_OK;
}

static tt_status chain_forward(chain_state *chain, const uint32_t *uses)
{
    const tt_workload *workload = chain->workload;
    size_t next = 0;
    while (next < workload->tensor_count) {
        const double start_us = workload->tensors[uses[next]].first_use_us;
        size_t end = next;
        while (end < workload->tensor_count &&
               workload->tensors[uses[end]].first_use_us <= start_us) {
            end++;
        }
        if (next == 0 && start_us > 0) {
            TT_TRY(chain_extend(chain, start_us, TT_PHASE_FORWARD));
        }
        const double until_us = end < workload->tensor_count
                                    ? workload->tensors[uses[end]].first_use_us
                                    : workload->forward_us;
        TT_TRY(chain_extend(chain, until_us, TT_PHASE_FORWARD));
        for (; next < end; next++) {
            const uint32_t recv = tt_graph_tensor_at(chain->graph, uses[next])->recv;
            TT_TRY(tt_graph_add_edge(chain->graph, recv, chain->last, chain->why));
        }
    }
    return TT_OK;
}

static tt_status chain_backward(chain_state *chain, const uint32_t *readies)
{
    const tt_workload *workload = chain->workload;
    for (size_t i = 0; i < workload->tensor_count; i++) {
        const tt_tensor *tensor = &workload->tensors[readies[i]];
        if (tensor->ready_us > chain->reached_us || i == 0) {
            TT_TRY(chain_extend(chain, tensor->ready_us, TT_PHASE_BACKWARD));
        }
        uint32_t send;
        const tt_node node = {
            .kind = TT_NODE_SEND, .phase = TT_PHASE_BACKWARD, .tensor = readies[i]};
        TT_TRY(node_add(chain->graph, "send/", tt_graph_tensor_at(chain->graph, readies[i])->name,
                        node, &send));
        TT_TRY(tt_graph_add_edge(chain->graph, chain->last, send, chain->why));
    }
    const double end_us = tt_workload_compute_us(workload);
    return end_us > chain->reached_us ? chain_extend(chain, end_us, TT_PHASE_BACKWARD) : TT_OK;
}

static tt_status chain_build(chain_state *chain, tt_scratch *scratch)
{
    const tt_workload *workload = chain->workload;
    const uint32_t *uses = tt_workload_by_use(workload, scratch);
    const uint32_t *readies = tt_workload_by_ready(workload, scratch);
    TT_TRY(tt_scratch_status(scratch));
    for (uint32_t i = 0; i < workload->tensor_count; i++) {
        const tt_tensor *tensor = &workload->tensors[i];
        tt_text name = {.length = 0};
        uint32_t index;
        tt_text_add(&name, "tensor%u", i);
        TT_TRY(tt_graph_add_tensor(chain->graph, tensor->name != NULL ? tensor->name : name.bytes,
                                   tensor->bytes, chain->why, &index));
        const tt_node node = {.kind = TT_NODE_RECV, .phase = TT_PHASE_FORWARD, .tensor = i};
        TT_TRY(node_add(chain->graph, "recv/", tt_graph_tensor_at(chain->graph, i)->name, node,
                        &index));
    }
    TT_TRY(chain_forward(chain, uses));
    TT_TRY(chain_backward(chain, readies));
    return tt_graph_seal(chain->graph, chain->why);
}

tt_status tt_graph_from_workload(const tt_workload *workload, const tt_allocator *allocator,
                                 tt_text *why, tt_graph **graph_out)
{
    TT_TRY(tt_workload_check(workload, why));
    chain_state chain = {.workload = workload, .last = TT_GRAPH_NONE, .why = why};
    TT_TRY(tt_graph_create(allocator, &chain.graph));
    tt_scratch scratch;
    tt_scratch_init(&scratch, allocator);
    const tt_status status = chain_build(&chain, &scratch);
    tt_scratch_fini(&scratch);
    if (status != TT_OK) {
        tt_graph_destroy(chain.graph);
        return status;
    }
    *graph_out = chain.graph;
    return TT_OK;
}

/* ---- a training graph from a forward graph -----------------------------------------------------
 */

typedef struct training_state {
    const tt_graph *forward;
    tt_graph *graph;
    uint32_t *gradient; /* by forward node: gradient of its inputs, or TT_GRAPH_NONE */
    tt_text *why;
} training_state;

static tt_status forward_copy(training_state *training)
{
    const tt_graph *forward = training->forward;
    for (uint32_t i = 0; i < tt_graph_tensor_count(forward); i++) {
        const tt_graph_tensor *tensor = tt_graph_tensor_at(forward, i);
        uint32_t index;
        TT_TRY(tt_graph_add_tensor(training->graph, tensor->name, tensor->bytes, training->why,
                                   &index));
    }
    for (uint32_t i = 0; i < tt_graph_node_count(forward); i++) {
        uint32_t index;
        TT_TRY(
            tt_graph_add_node(training->graph, tt_graph_node(forward, i), training->why, &index));
        TT_ASSERT(index == i);
    }
    for (uint32_t i = 0; i < tt_graph_node_count(forward); i++) {
        uint32_t count;
        const uint32_t *inputs = tt_graph_inputs(forward, i, &count);
        for (uint32_t k = 0; k < count; k++) {
            TT_TRY(tt_graph_add_edge(training->graph, inputs[k], i, training->why));
        }
    }
    return TT_OK;
}

/* `node` needs forward node `of`, and the gradients of all that used its result; the last operator
 * of forward begins backward. */
static tt_status gradient_needs(training_state *training, uint32_t node, uint32_t of)
{
    uint32_t count;
    const uint32_t *outputs = tt_graph_outputs(training->forward, of, &count);
    TT_TRY(tt_graph_add_edge(training->graph, of, node, training->why));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t gradient = training->gradient[outputs[i]];
        if (gradient != TT_GRAPH_NONE) {
            TT_TRY(tt_graph_add_edge(training->graph, gradient, node, training->why));
        }
    }
    return TT_OK;
}

static tt_status gradient_send(training_state *training, uint32_t of, uint32_t tensor)
{
    const tt_graph_tensor *known = tt_graph_tensor_at(training->forward, tensor);
    const tt_node gradient = {.kind = TT_NODE_COMPUTE,
                              .phase = TT_PHASE_BACKWARD,
                              .time_us = tt_graph_node(training->forward, of)->time_us,
                              .tensor = TT_GRAPH_NONE};
    const tt_node send = {.kind = TT_NODE_SEND, .phase = TT_PHASE_BACKWARD, .tensor = tensor};
    uint32_t gradient_index;
    uint32_t send_index;
    TT_TRY(node_add(training->graph, "gradient/", known->name, gradient, &gradient_index));
    TT_TRY(gradient_needs(training, gradient_index, of));
    TT_TRY(node_add(training->graph, "send/", known->name, send, &send_index));
    return tt_graph_add_edge(training->graph, gradient_index, send_index, training->why);
}

static tt_status node_differentiate(training_state *training, uint32_t of)
{
    const tt_node *node = tt_graph_node(training->forward, of);
    uint32_t count;
    const uint32_t *inputs = tt_graph_inputs(training->forward, of, &count);
    bool has_upstream = false;
    for (uint32_t i = 0; i < count; i++) {
        has_upstream |= tt_graph_node(training->forward, inputs[i])->kind == TT_NODE_COMPUTE;
    }
    if (has_upstream) {
        const tt_node gradient = {.kind = TT_NODE_COMPUTE,
                                  .phase = TT_PHASE_BACKWARD,
                                  .time_us =
                                      node->backward_us > 0 ? node->backward_us : node->time_us,
                                  .tensor = TT_GRAPH_NONE};
        uint32_t index;
        TT_TRY(node_add(training->graph, "backward/", node->name, gradient, &index));
        TT_TRY(gradient_needs(training, index, of));
        training->gradient[of] = index;
    }
    for (uint32_t i = 0; i < count; i++) {
        const tt_node *input = tt_graph_node(training->forward, inputs[i]);
        uint32_t user_count;
        const uint32_t *users = tt_graph_outputs(training->forward, inputs[i], &user_count);
        if (input->kind == TT_NODE_RECV && users[0] == of) { /* a shared tensor: once */
            TT_TRY(gradient_send(training, of, input->tensor));
        }
    }
    return TT_OK;
}

static tt_status training_build(training_state *training)
{
    TT_TRY(forward_copy(training));
    const uint32_t count = tt_graph_node_count(training->forward);
    for (uint32_t i = 0; i < count; i++) {
        training->gradient[i] = TT_GRAPH_NONE;
    }
    for (uint32_t i = count; i-- > 0;) {
        const uint32_t of = tt_graph_order(training->forward)[i];
        if (tt_graph_node(training->forward, of)->kind == TT_NODE_COMPUTE) {
            TT_TRY(node_differentiate(training, of));
        }
    }
    return tt_graph_seal(training->graph, training->why);
}

tt_status tt_graph_differentiate(const tt_graph *forward, tt_text *why, tt_graph **graph_out)
{
    const tt_allocator *allocator = tt_graph_allocator(forward);
    training_state training = {.forward = forward, .why = why};
    TT_TRY(tt_graph_create(allocator, &training.graph));
    tt_scratch scratch;
    tt_scratch_init(&scratch, allocator);
    training.gradient = tt_scratch_take(&scratch, tt_graph_node_count(forward), sizeof(uint32_t));
    tt_status status = tt_scratch_status(&scratch);
    if (status == TT_OK) {
        status = training_build(&training);
    }
    tt_scratch_fini(&scratch);
    if (status != TT_OK) {
        tt_graph_destroy(training.graph);
        return status;
    }
    *graph_out = training.graph;
    return TT_OK;
}
