/* SPDX-License-Identifier: Apache-2.0
 *
 * exact.c - operators and parameters of an exact network, and its graph.
 *
 * The graph is a chain, because a framework without a graph of its own runs operators in the order
 * of the program. A bias is an operator of its own: its gradient is a sum, not a product. */
#include "model/exact/exact.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"

/* The nominal accelerator. A kernel takes 5 to 10 us on the GPUs of bench/traces, however little it
 * computes. */
static const double kernel_us = 7;

uint32_t tt_exact_op_add(tt_exact *exact, double macs)
{
    TT_ASSERT(exact->op_count < TT_EXACT_OPS_MAX);
    exact->ops[exact->op_count] = (tt_exact_op){.macs = macs};
    return exact->op_count++;
}

uint32_t tt_exact_product_add(tt_exact *exact, double macs)
{
    const uint32_t op = tt_exact_op_add(exact, macs);
    exact->ops[op].is_product = true;
    return op;
}

static uint32_t tensor_add(tt_exact *exact, const char *name, uint64_t elements, uint32_t op)
{
    TT_ASSERT(exact->tensor_count < TT_EXACT_TENSORS_MAX);
    tt_exact_tensor *tensor = &exact->tensors[exact->tensor_count];
    const size_t bytes = strlen(name) + 1;
    TT_ASSERT(bytes <= sizeof(tensor->name));
    memcpy(tensor->name, name, bytes);
    tensor->elements = elements;
    tensor->op = op;
    return exact->tensor_count++;
}

uint32_t tt_exact_tensor_add(tt_exact *exact, const char *name, const char *part, uint64_t elements,
                             uint32_t op)
{
    tt_text whole = {.length = 0};
    tt_text_add(&whole, "%s.%s", name, part);
    return tensor_add(exact, whole.bytes, elements, op);
}

void tt_exact_norm_register(tt_exact *exact, const char *name, uint64_t width, uint32_t op)
{
    (void)tt_exact_tensor_add(exact, name, "weight", width, op);
    (void)tt_exact_tensor_add(exact, name, "bias", width, op);
}

void tt_exact_norm_add(tt_exact *exact, const char *name, uint64_t width)
{
    tt_exact_norm_register(exact, name, width, tt_exact_op_add(exact, 0));
}

void tt_exact_linear_add_as(tt_exact *exact, const char *weight, const char *bias,
                            const tt_exact_linear *linear)
{
    const uint64_t weights = linear->inputs * linear->outputs;
    const double macs = (double)weights * (double)linear->positions;
    (void)tensor_add(exact, weight, weights, tt_exact_op_add(exact, macs));
    (void)tensor_add(exact, bias, linear->outputs, tt_exact_op_add(exact, 0));
}

void tt_exact_linear_add(tt_exact *exact, const char *name, const tt_exact_linear *linear)
{
    tt_text weight = {.length = 0};
    tt_text bias = {.length = 0};
    tt_text_add(&weight, "%s.weight", name);
    tt_text_add(&bias, "%s.bias", name);
    tt_exact_linear_add_as(exact, weight.bytes, bias.bytes, linear);
}

void tt_exact_convolution_add(tt_exact *exact, const char *name,
                              const tt_exact_convolution *convolution, bool has_bias)
{
    const uint64_t kernel = (uint64_t)convolution->kernel_height * convolution->kernel_width;
    const uint64_t weights = kernel * convolution->inputs * convolution->outputs;
    const double macs = (double)weights * convolution->size * convolution->size;
    (void)tt_exact_tensor_add(exact, name, "weight", weights, tt_exact_op_add(exact, macs));
    if (has_bias) {
        (void)tt_exact_tensor_add(exact, name, "bias", convolution->outputs,
                                  tt_exact_op_add(exact, 0));
    }
}

/* ---- the graph ---------------------------------------------------------------------------------
 */

static tt_status tensors_enter(const tt_exact *exact, tt_graph *graph, tt_text *why)
{
    for (uint32_t i = 0; i < exact->tensor_count; i++) {
        const tt_exact_tensor *tensor = &exact->tensors[i];
        uint32_t index;
        TT_TRY(tt_graph_add_tensor(graph, tensor->name, 4 * tensor->elements, why, &index));
        TT_ASSERT(index == i);
        tt_text name = {.length = 0};
        tt_text_add(&name, "recv/%s", tensor->name);
        const tt_node node = {
            .name = name.bytes, .kind = TT_NODE_RECV, .phase = TT_PHASE_FORWARD, .tensor = i};
        TT_TRY(tt_graph_add_node(graph, &node, why, &index));
        TT_ASSERT(index == i);
    }
    return TT_OK;
}

static tt_status ops_enter(const tt_exact *exact, uint32_t batch, tt_graph *graph, tt_text *why)
{
    for (uint32_t i = 0; i < exact->op_count; i++) {
        const tt_exact_op *op = &exact->ops[i];
        const double time_us = kernel_us + op->macs * batch / TT_NETWORK_MACS_A_US;
        tt_text name = {.length = 0};
        tt_text_add(&name, "operator%u", i);
        /* The gradient of a product is one product for each of its two sides. */
        const tt_node node = {.name = name.bytes,
                              .kind = TT_NODE_COMPUTE,
                              .phase = TT_PHASE_FORWARD,
                              .time_us = time_us,
                              .backward_us = op->is_product ? 2 * time_us : 0,
                              .tensor = TT_GRAPH_NONE};
        uint32_t index;
        TT_TRY(tt_graph_add_node(graph, &node, why, &index));
        TT_ASSERT(index == exact->tensor_count + i);
        if (i > 0) {
            TT_TRY(tt_graph_add_edge(graph, index - 1, index, why));
        }
    }
    for (uint32_t i = 0; i < exact->tensor_count; i++) {
        const uint32_t op = exact->tensor_count + exact->tensors[i].op;
        TT_TRY(tt_graph_add_edge(graph, i, op, why));
    }
    return tt_graph_seal(graph, why);
}

static tt_status graph_fill(const tt_exact *exact, uint32_t batch, tt_graph *graph, tt_text *why)
{
    TT_TRY(tensors_enter(exact, graph, why));
    return ops_enter(exact, batch, graph, why);
}

tt_status tt_exact_build(const tt_network *network, const tt_allocator *allocator, tt_text *why,
                         tt_graph **graph_out)
{
    tt_exact *exact = tt_allocate(allocator, 1, sizeof(*exact));
    if (exact == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    network->family(network, exact);
    tt_graph *graph;
    tt_status status = tt_graph_create(allocator, &graph);
    if (status == TT_OK) {
        status = graph_fill(exact, network->batch, graph, why);
        if (status == TT_OK) {
            *graph_out = graph;
        } else {
            tt_graph_destroy(graph);
        }
    }
    tt_release(allocator, exact, 1, sizeof(*exact));
    return status;
}
