/* SPDX-License-Identifier: Apache-2.0
 *
 * network.c - from the description of a network to its graph.
 *
 * Notation of `layers`, words separated by blanks: c3-64/2v convolution 3x3 (c1x7: 1 by 7) to 64
 *   channels, stride 2, 'v' without padding; then batch normalisation (its offset is a parameter)
 *   and activation b3-64 the same with a bias instead of normalisation s7-64/2 separable: depthwise
 *   by 8, pointwise to 64, normalisation, activation l1000 classifier: 1x1 with a bias, no
 *   activation m3/2 a3 g maximum, average, global average pooling [ x | y ] branches from one
 *   input, concatenated { x } a side branch whose result is an input of the loss
 *
 * The notation is ours and constant: a mistake in it is our bug. */
#include "model/network.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "model/exact/exact.h"

enum {
    BRANCHES_MAX = 8,
    SEPARABLE_DEPTH = 8,
};

/* The nominal accelerator. */
static const double bytes_a_us = 500e3; /* 500 GB/s */
static const double launch_us = 3;

/* The result of an operator. */
typedef struct value_state {
    uint32_t node; /* TT_GRAPH_NONE: the images */
    uint32_t height;
    uint32_t width;
    uint32_t channels;
} value_state;

typedef struct builder_state {
    const tt_network *model;
    tt_graph *graph;
    const char *next; /* rest of the notation */
    uint32_t layer_count;
    uint32_t ends[BRANCHES_MAX]; /* inputs of the loss */
    uint32_t end_count;
    tt_text *why;
} builder_state;

typedef struct convolution_state {
    uint32_t kernel_height;
    uint32_t kernel_width;
    uint32_t channels;
    uint32_t stride;
    bool is_valid; /* no padding */
    bool is_depthwise;
} convolution_state;

/* ---- operators ---------------------------------------------------------------------------------
 */

static double elementwise_us(const builder_state *builder, const value_state *value, double passes)
{
    const double elements = (double)value->height * value->width * value->channels;
    return launch_us + passes * 4 * elements * builder->model->batch / bytes_a_us;
}

static tt_status add_compute(builder_state *builder, const char *what, double time_us,
                             const value_state *input, uint32_t *index_out)
{
    tt_text name = {.length = 0};
    tt_text_add(&name, "%s%u", what, builder->layer_count);
    const tt_node node = {.name = name.bytes,
                          .kind = TT_NODE_COMPUTE,
                          .phase = TT_PHASE_FORWARD,
                          .time_us = time_us,
                          .tensor = TT_GRAPH_NONE};
    TT_TRY(tt_graph_add_node(builder->graph, &node, builder->why, index_out));
    if (input != NULL && input->node != TT_GRAPH_NONE) {
        return tt_graph_add_edge(builder->graph, input->node, *index_out, builder->why);
    }
    return TT_OK;
}

/* A parameter of `elements` floats that operator `user` needs. */
static tt_status add_parameter(builder_state *builder, const char *what, uint64_t elements,
                               uint32_t user)
{
    tt_text name = {.length = 0};
    tt_text_add(&name, "layer%u/%s", builder->layer_count, what);
    uint32_t tensor;
    TT_TRY(tt_graph_add_tensor(builder->graph, name.bytes, 4 * elements, builder->why, &tensor));
    tt_text recv_name = {.length = 0};
    tt_text_add(&recv_name, "recv/%s", name.bytes);
    const tt_node node = {
        .name = recv_name.bytes, .kind = TT_NODE_RECV, .phase = TT_PHASE_FORWARD, .tensor = tensor};
    uint32_t recv;
    TT_TRY(tt_graph_add_node(builder->graph, &node, builder->why, &recv));
    return tt_graph_add_edge(builder->graph, recv, user, builder->why);
}

static uint32_t size_after(uint32_t size, uint32_t kernel, uint32_t stride, bool is_valid)
{
    TT_ASSERT(!is_valid || size >= kernel);
    return is_valid ? (size - kernel) / stride + 1 : (size + stride - 1) / stride;
}

/* The bare convolution, with its weights. */
static tt_status convolve(builder_state *builder, const convolution_state *shape, const char *what,
                          value_state *value)
{
    const uint64_t inputs = shape->is_depthwise ? 1 : value->channels;
    const uint64_t kernel = (uint64_t)shape->kernel_height * shape->kernel_width;
    const uint64_t weights = kernel * inputs * shape->channels;
    value_state result = {
        .height = size_after(value->height, shape->kernel_height, shape->stride, shape->is_valid),
        .width = size_after(value->width, shape->kernel_width, shape->stride, shape->is_valid),
        .channels = shape->channels};
    const double macs =
        (double)weights * result.height * result.width * (double)builder->model->batch;
    TT_TRY(
        add_compute(builder, what, launch_us + macs / TT_NETWORK_MACS_A_US, value, &result.node));
    TT_TRY(add_parameter(builder, shape->is_depthwise ? "depthwise" : "weights", weights,
                         result.node));
    *value = result;
    return TT_OK;
}

/* An elementwise operator with an offset per channel. */
static tt_status offset(builder_state *builder, const char *what, double passes, value_state *value)
{
    uint32_t node;
    TT_TRY(add_compute(builder, what, elementwise_us(builder, value, passes), value, &node));
    value->node = node;
    return add_parameter(builder, what, value->channels, node);
}

static tt_status plain(builder_state *builder, const char *what, double passes, value_state *value)
{
    uint32_t node;
    TT_TRY(add_compute(builder, what, elementwise_us(builder, value, passes), value, &node));
    value->node = node;
    return TT_OK;
}

/* ---- layers ------------------------------------------------------------------------------------
 */

static tt_status normalised(builder_state *builder, const convolution_state *shape,
                            value_state *value)
{
    builder->layer_count++;
    TT_TRY(convolve(builder, shape, "convolution", value));
    TT_TRY(offset(builder, "normalise", 4, value));
    return plain(builder, "activate", 2, value);
}

static tt_status biased(builder_state *builder, const convolution_state *shape, bool is_activated,
                        value_state *value)
{
    builder->layer_count++;
    TT_TRY(convolve(builder, shape, "convolution", value));
    TT_TRY(offset(builder, "bias", 2, value));
    return is_activated ? plain(builder, "activate", 2, value) : TT_OK;
}

static tt_status separable(builder_state *builder, const convolution_state *shape,
                           value_state *value)
{
    convolution_state depthwise = *shape;
    depthwise.is_depthwise = true;
    depthwise.channels = value->channels * SEPARABLE_DEPTH;
    const convolution_state pointwise = {1, 1, shape->channels, 1, false, false};
    builder->layer_count++;
    TT_TRY(convolve(builder, &depthwise, "depthwise", value));
    TT_TRY(convolve(builder, &pointwise, "pointwise", value));
    TT_TRY(offset(builder, "normalise", 4, value));
    return plain(builder, "activate", 2, value);
}

static tt_status pooled(builder_state *builder, const convolution_state *shape, value_state *value)
{
    builder->layer_count++;
    const double passes = 1 + 1.0 / shape->stride;
    TT_TRY(plain(builder, "pool", passes, value));
    value->height = size_after(value->height, shape->kernel_height, shape->stride, shape->is_valid);
    value->width = size_after(value->width, shape->kernel_width, shape->stride, shape->is_valid);
    return TT_OK;
}

/* `count` values become one operator. */
static tt_status joined(builder_state *builder, const char *what, const value_state *values,
                        uint32_t count, value_state *value_out)
{
    uint32_t node;
    builder->layer_count++;
    TT_TRY(add_compute(builder, what, elementwise_us(builder, value_out, 2), NULL, &node));
    for (uint32_t i = 0; i < count; i++) {
        TT_TRY(tt_graph_add_edge(builder->graph, values[i].node, node, builder->why));
    }
    value_out->node = node;
    return TT_OK;
}

/* ---- the notation ------------------------------------------------------------------------------
 */

static void skip_blanks(builder_state *builder)
{
    while (*builder->next == ' ') {
        builder->next++;
    }
}

static uint32_t number(builder_state *builder)
{
    uint32_t result = 0;
    while (*builder->next >= '0' && *builder->next <= '9') {
        result = 10 * result + (uint32_t)(*builder->next++ - '0');
    }
    return result;
}

static bool takes(builder_state *builder, char letter)
{
    if (*builder->next != letter) {
        return false;
    }
    builder->next++;
    return true;
}

static convolution_state shape_read(builder_state *builder)
{
    convolution_state shape = {.stride = 1};
    shape.kernel_height = number(builder);
    shape.kernel_width = takes(builder, 'x') ? number(builder) : shape.kernel_height;
    shape.channels = takes(builder, '-') ? number(builder) : 0;
    shape.stride = takes(builder, '/') ? number(builder) : 1;
    shape.is_valid = takes(builder, 'v');
    return shape;
}

static tt_status sequence(builder_state *builder, value_state *value);

static tt_status branches(builder_state *builder, value_state *value)
{
    value_state results[BRANCHES_MAX];
    value_state all = {.channels = 0};
    uint32_t count = 0;
    do {
        TT_ASSERT(count < BRANCHES_MAX);
        results[count] = *value;
        TT_TRY(sequence(builder, &results[count]));
        all.channels += results[count++].channels;
    } while (takes(builder, '|'));
    TT_ASSERT(takes(builder, ']'));
    all.height = results[0].height;
    all.width = results[0].width;
    TT_TRY(joined(builder, "concatenate", results, count, &all));
    *value = all;
    return TT_OK;
}

static tt_status classifier(builder_state *builder, value_state *value)
{
    const convolution_state shape = {1, 1, number(builder), 1, false, false};
    TT_TRY(biased(builder, &shape, false, value));
    return TT_OK;
}

static void end_add(builder_state *builder, const value_state *value)
{
    TT_ASSERT(builder->end_count < BRANCHES_MAX);
    builder->ends[builder->end_count++] = value->node;
}

static tt_status word(builder_state *builder, value_state *value)
{
    const char letter = *builder->next++;
    convolution_state shape;
    value_state side = *value;
    switch (letter) {
    case '[':
        return branches(builder, value);
    case '{':
        TT_TRY(sequence(builder, &side));
        TT_ASSERT(takes(builder, '}'));
        end_add(builder, &side);
        return TT_OK;
    case 'l':
        return classifier(builder, value);
    case 'g':
        shape = (convolution_state){value->height, value->width, 0, 1, true, false};
        return pooled(builder, &shape, value);
    default:
        shape = shape_read(builder);
    }
    switch (letter) {
    case 'c':
        return normalised(builder, &shape, value);
    case 'b':
        return biased(builder, &shape, true, value);
    case 's':
        return separable(builder, &shape, value);
    default:
        TT_ASSERT(letter == 'm' || letter == 'a');
        return pooled(builder, &shape, value);
    }
}

/* Words up to the end of the text, of the branch or of the branches. */
static tt_status sequence(builder_state *builder, value_state *value)
{
    skip_blanks(builder);
    while (*builder->next != '\0' && strchr("|]}", *builder->next) == NULL) {
        TT_TRY(word(builder, value));
        skip_blanks(builder);
    }
    return TT_OK;
}

/* ---- residual networks -------------------------------------------------------------------------
 */

static tt_status unit_v1(builder_state *builder, uint32_t depth, uint32_t stride,
                         value_state *value)
{
    value_state both[2] = {*value, *value};
    const convolution_state narrow = {1, 1, depth, 1, false, false};
    const convolution_state middle = {3, 3, depth, stride, false, false};
    const convolution_state wide = {1, 1, 4 * depth, 1, false, false};
    const convolution_state shortcut = {1, 1, 4 * depth, stride, false, false};
    if (value->channels != 4 * depth) {
        builder->layer_count++;
        TT_TRY(convolve(builder, &shortcut, "shortcut", &both[0]));
        TT_TRY(offset(builder, "normalise", 4, &both[0]));
    } else if (stride > 1) {
        TT_TRY(pooled(builder, &(convolution_state){1, 1, 0, stride, false, false}, &both[0]));
    }
    TT_TRY(normalised(builder, &narrow, &both[1]));
    TT_TRY(normalised(builder, &middle, &both[1]));
    builder->layer_count++;
    TT_TRY(convolve(builder, &wide, "convolution", &both[1]));
    TT_TRY(offset(builder, "normalise", 4, &both[1]));
    *value = both[1];
    TT_TRY(joined(builder, "add", both, 2, value));
    return plain(builder, "activate", 2, value);
}

static tt_status unit_v2(builder_state *builder, uint32_t depth, uint32_t stride,
                         value_state *value)
{
    const convolution_state narrow = {1, 1, depth, 1, false, false};
    const convolution_state middle = {3, 3, depth, stride, false, false};
    const convolution_state wide = {1, 1, 4 * depth, 1, false, false};
    const convolution_state shortcut = {1, 1, 4 * depth, stride, false, false};
    value_state both[2] = {*value, *value};
    builder->layer_count++;
    TT_TRY(offset(builder, "normalise", 4, &both[1]));
    TT_TRY(plain(builder, "activate", 2, &both[1]));
    if (value->channels != 4 * depth) {
        both[0] = both[1];
        TT_TRY(biased(builder, &shortcut, false, &both[0]));
    } else if (stride > 1) {
        TT_TRY(pooled(builder, &(convolution_state){1, 1, 0, stride, false, false}, &both[0]));
    }
    TT_TRY(normalised(builder, &narrow, &both[1]));
    TT_TRY(normalised(builder, &middle, &both[1]));
    TT_TRY(biased(builder, &wide, false, &both[1]));
    *value = both[1];
    return joined(builder, "add", both, 2, value);
}

static tt_status residual(builder_state *builder, value_state *value)
{
    const bool is_first = builder->model->residual_version == 1;
    const convolution_state root = {7, 7, 64, 2, false, false};
    TT_TRY(is_first ? normalised(builder, &root, value) : biased(builder, &root, false, value));
    TT_TRY(pooled(builder, &(convolution_state){3, 3, 0, 2, false, false}, value));
    for (uint32_t block = 0; block < 4; block++) {
        const uint32_t units = builder->model->residual_units[block];
        for (uint32_t i = 0; i < units; i++) {
            const uint32_t stride = i + 1 == units && block < 3 ? 2 : 1;
            TT_TRY(is_first ? unit_v1(builder, 64u << block, stride, value)
                            : unit_v2(builder, 64u << block, stride, value));
        }
    }
    if (!is_first) {
        builder->layer_count++;
        TT_TRY(offset(builder, "normalise", 4, value));
        TT_TRY(plain(builder, "activate", 2, value));
    }
    builder->next = "g l1000";
    return sequence(builder, value);
}

/* ---- the whole ---------------------------------------------------------------------------------
 */

static tt_status network(builder_state *builder)
{
    value_state value = {TT_GRAPH_NONE, builder->model->image_size, builder->model->image_size, 3};
    if (builder->model->layers != NULL) {
        TT_TRY(sequence(builder, &value));
        TT_ASSERT(*builder->next == '\0');
    } else {
        TT_TRY(residual(builder, &value));
    }
    end_add(builder, &value);
    uint32_t loss;
    builder->layer_count++;
    TT_TRY(add_compute(builder, "loss", launch_us, NULL, &loss));
    for (uint32_t i = 0; i < builder->end_count; i++) {
        TT_TRY(tt_graph_add_edge(builder->graph, builder->ends[i], loss, builder->why));
    }
    return tt_graph_seal(builder->graph, builder->why);
}

tt_status tt_network_build(const tt_network *model, const tt_allocator *allocator, tt_text *why,
                           tt_graph **graph_out)
{
    if (model->family != NULL) {
        return tt_exact_build(model, allocator, why, graph_out);
    }
    builder_state builder = {.model = model, .next = model->layers, .why = why};
    TT_TRY(tt_graph_create(allocator, &builder.graph));
    const tt_status status = network(&builder);
    if (status != TT_OK) {
        tt_graph_destroy(builder.graph);
        return status;
    }
    *graph_out = builder.graph;
    return TT_OK;
}

/* Times of the step and of its forward pass keep their ratio, whatever the rate. */
static tt_status rate_apply(const tt_network_config *config, uint32_t batch,
                            const tt_graph *training, tt_graph *graph, tt_text *why)
{
    const double step_us = 1e6 * batch / config->samples_per_s;
    tt_graph_stats stats;
    if (!(step_us <= TT_WORKLOAD_US_MAX)) {
        tt_text_add(why, "a step of %u samples at %g samples/s: a step has at most %g us", batch,
                    config->samples_per_s, TT_WORKLOAD_US_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    TT_TRY(tt_graph_measure(training, &stats));
    tt_graph_scale(graph, step_us / stats.compute_us);
    return TT_OK;
}

tt_status tt_network_load(const tt_network *network, const tt_network_config *config,
                          const tt_allocator *allocator, tt_text *why, tt_graph **graph_out)
{
    tt_network sized = *network;
    sized.batch = config->batch != 0 ? config->batch : network->batch;
    tt_graph *forward;
    tt_graph *training;
    TT_TRY(tt_network_build(&sized, allocator, why, &forward));
    tt_status status = tt_graph_differentiate(forward, why, &training);
    if (status != TT_OK) {
        tt_graph_destroy(forward);
        return status;
    }
    tt_graph *chosen = config->is_forward ? forward : training;
    if (config->samples_per_s > 0) {
        status = rate_apply(config, sized.batch, training, chosen, why);
    }
    tt_graph_destroy(config->is_forward ? training : forward);
    if (status != TT_OK) {
        tt_graph_destroy(chosen);
        return status;
    }
    *graph_out = chosen;
    return TT_OK;
}
