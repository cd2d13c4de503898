/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c - arrays that grow while a graph is built; adjacency in two flat arrays once it is
 * sealed.
 *
 * Sealing is Kahn's algorithm with a queue: O(nodes + edges). */
#include "model/graph.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"

enum {
    CAPACITY_MIN = 64,
    NAME_BYTES_SHOWN = 80,
};

typedef struct edge_state {
    uint32_t from;
    uint32_t to;
} edge_state;

typedef struct array_state {
    void *items;
    size_t capacity;
    size_t item_bytes;
} array_state;

/* Places of names by hash, linear probing; at most half full. 0 is free, else index + 1. */
typedef struct name_table {
    array_state slots;
    uint32_t count;
} name_table;

/* Names of nodes and of tensors lie at the start of their structs. */
typedef struct named_state {
    const char *name;
} named_state;

struct tt_graph {
    const tt_allocator *allocator;
    array_state nodes;
    uint32_t node_count;
    array_state tensors;
    uint32_t tensor_count;
    array_state edges;
    uint32_t edge_count;
    name_table node_names;
    name_table tensor_names;
    bool is_sealed;
    uint32_t *inputs; /* sealed: of node i, inputs[input_start[i] .. input_start[i + 1]) */
    uint32_t *input_start;
    uint32_t *outputs;
    uint32_t *output_start;
    uint32_t *order;
};

_Static_assert(offsetof(tt_node, name) == 0, "looked up as a named");
_Static_assert(offsetof(tt_graph_tensor, name) == 0, "looked up as a named");

/* ---- arrays ------------------------------------------------------------------------------------
 */

static tt_status array_grow(const tt_allocator *allocator, array_state *array, size_t count)
{
    if (count < array->capacity) {
        return TT_OK;
    }
    const size_t capacity = array->capacity == 0 ? CAPACITY_MIN : 2 * array->capacity;
    void *items = tt_allocate(allocator, capacity, array->item_bytes);
    if (items == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (array->items != NULL) {
        memcpy(items, array->items, array->capacity * array->item_bytes);
        tt_release(allocator, array->items, array->capacity, array->item_bytes);
    }
    array->items = items;
    array->capacity = capacity;
    return TT_OK;
}

static void array_fini(const tt_allocator *allocator, array_state *array)
{
    tt_release(allocator, array->items, array->capacity, array->item_bytes);
}

static const char *name_at(const array_state *things, uint32_t index)
{
    const char *start = (const char *)things->items + index * things->item_bytes;
    return ((const named_state *)(const void *)start)->name;
}

static uint32_t *slot_of(const name_table *table, const array_state *things, const char *name)
{
    uint32_t *slots = table->slots.items;
    const size_t mask = table->slots.capacity - 1;
    size_t place = tt_hash64(name, strlen(name), 0) & mask;
    while (slots[place] != 0 && strcmp(name_at(things, slots[place] - 1), name) != 0) {
        place = (place + 1) & mask;
    }
    return &slots[place];
}

static uint32_t name_find(const name_table *table, const array_state *things, const char *name)
{
    if (table->count == 0) {
        return TT_GRAPH_NONE;
    }
    const uint32_t index = *slot_of(table, things, name);
    return index == 0 ? TT_GRAPH_NONE : index - 1;
}

/* Room for one more name. */
static tt_status names_grow(const tt_allocator *allocator, name_table *table,
                            const array_state *things)
{
    if (2 * (size_t)table->count + 2 <= table->slots.capacity) {
        return TT_OK;
    }
    name_table larger = {.count = table->count, .slots = {.item_bytes = sizeof(uint32_t)}};
    larger.slots.capacity = table->slots.capacity == 0 ? CAPACITY_MIN : 2 * table->slots.capacity;
    larger.slots.items = tt_allocate(allocator, larger.slots.capacity, sizeof(uint32_t));
    if (larger.slots.items == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        *slot_of(&larger, things, name_at(things, i)) = i + 1;
    }
    array_fini(allocator, &table->slots);
    *table = larger;
    return TT_OK;
}

/* ---- life --------------------------------------------------------------------------------------
 */

tt_status tt_graph_create(const tt_allocator *allocator, tt_graph **graph_out)
{
    tt_graph *graph = tt_allocate(allocator, 1, sizeof(*graph));
    if (graph == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    graph->allocator = allocator;
    graph->nodes.item_bytes = sizeof(tt_node);
    graph->tensors.item_bytes = sizeof(tt_graph_tensor);
    graph->edges.item_bytes = sizeof(edge_state);
    graph->node_names.slots.item_bytes = sizeof(uint32_t);
    graph->tensor_names.slots.item_bytes = sizeof(uint32_t);
    *graph_out = graph;
    return TT_OK;
}

static void names_release(const tt_graph *graph, const array_state *things, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char *name = (char *)(uintptr_t)name_at(things, i);
        tt_release(graph->allocator, name, strlen(name) + 1, 1);
    }
}

void tt_graph_destroy(tt_graph *graph)
{
    if (graph == NULL) {
        return;
    }
    const tt_allocator *allocator = graph->allocator;
    names_release(graph, &graph->nodes, graph->node_count);
    names_release(graph, &graph->tensors, graph->tensor_count);
    tt_release(allocator, graph->inputs, graph->edge_count, sizeof(uint32_t));
    tt_release(allocator, graph->outputs, graph->edge_count, sizeof(uint32_t));
    tt_release(allocator, graph->input_start, graph->node_count + 1, sizeof(uint32_t));
    tt_release(allocator, graph->output_start, graph->node_count + 1, sizeof(uint32_t));
    tt_release(allocator, graph->order, graph->node_count, sizeof(uint32_t));
    array_fini(allocator, &graph->nodes);
    array_fini(allocator, &graph->tensors);
    array_fini(allocator, &graph->edges);
    array_fini(allocator, &graph->node_names.slots);
    array_fini(allocator, &graph->tensor_names.slots);
    tt_release(allocator, graph, 1, sizeof(*graph));
}

/* ---- building ----------------------------------------------------------------------------------
 */

/* "<what> "name" <text>" */
static tt_status refuse(tt_text *why, const char *what, const char *name, const char *text)
{
    tt_text_add(why, "%s ", what);
    tt_text_add_quoted(why, name, NAME_BYTES_SHOWN);
    tt_text_add(why, " %s", text);
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status name_check(uint32_t found, const char *what, const char *name, tt_text *why)
{
    if (name[0] == '\0') {
        return refuse(why, what, name, "has no name");
    }
    if (strlen(name) > TT_GRAPH_NAME_BYTES_MAX) {
        return refuse(why, what, name, "has a name of more than 255 bytes");
    }
    return found == TT_GRAPH_NONE ? TT_OK : refuse(why, what, name, "appears twice");
}

/* A copy of the name, entered in the table as the next of `things`; room must have been made. */
static tt_status name_enter(tt_graph *graph, name_table *table, const array_state *things,
                            const char **name)
{
    const size_t bytes = strlen(*name) + 1;
    char *copy = tt_allocate(graph->allocator, bytes, 1);
    if (copy == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    memcpy(copy, *name, bytes);
    *slot_of(table, things, copy) = ++table->count;
    *name = copy;
    return TT_OK;
}

tt_status tt_graph_add_tensor(tt_graph *graph, const char *name, uint64_t bytes, tt_text *why,
                              uint32_t *index_out)
{
    TT_ASSERT(!graph->is_sealed);
    TT_TRY(name_check(tt_graph_find_tensor(graph, name), "tensor", name, why));
    if (bytes > TT_GRAPH_TENSOR_BYTES_MAX) {
        return refuse(why, "tensor", name, "has more than 4 TiB");
    }
    if (graph->tensor_count == TT_GRAPH_NODES_MAX) {
        tt_text_add(why, "more than %d tensors", TT_GRAPH_NODES_MAX);
        return TT_ERR_NO_RESOURCE;
    }
    TT_TRY(array_grow(graph->allocator, &graph->tensors, graph->tensor_count));
    TT_TRY(names_grow(graph->allocator, &graph->tensor_names, &graph->tensors));
    TT_TRY(name_enter(graph, &graph->tensor_names, &graph->tensors, &name));
    ((tt_graph_tensor *)graph->tensors.items)[graph->tensor_count] = (tt_graph_tensor){
        .name = name, .bytes = bytes, .recv = TT_GRAPH_NONE, .send = TT_GRAPH_NONE};
    *index_out = graph->tensor_count++;
    return TT_OK;
}

static tt_status node_check(const tt_graph *graph, const tt_node *node, tt_text *why)
{
    TT_TRY(name_check(tt_graph_find_node(graph, node->name), "operator", node->name, why));
    if (!(node->time_us >= 0 && node->backward_us >= 0)) {
        return refuse(why, "operator", node->name, "has a time that is negative or not a number");
    }
    if (node->time_us > TT_WORKLOAD_US_MAX || node->backward_us > TT_WORKLOAD_US_MAX) {
        return refuse(why, "operator", node->name, "has a time of more than 1e15 us");
    }
    if (node->kind == TT_NODE_COMPUTE) {
        return TT_OK;
    }
    if (node->tensor >= graph->tensor_count) {
        return refuse(why, "operator", node->name, "names an unknown tensor");
    }
    const tt_graph_tensor *tensor = tt_graph_tensor_at(graph, node->tensor);
    if ((node->kind == TT_NODE_RECV ? tensor->recv : tensor->send) != TT_GRAPH_NONE) {
        return refuse(why, "tensor", tensor->name, "is received or sent twice");
    }
    return TT_OK;
}

tt_status tt_graph_add_node(tt_graph *graph, const tt_node *node, tt_text *why, uint32_t *index_out)
{
    TT_ASSERT(!graph->is_sealed);
    TT_TRY(node_check(graph, node, why));
    if (graph->node_count == TT_GRAPH_NODES_MAX) {
        tt_text_add(why, "more than %d operators", TT_GRAPH_NODES_MAX);
        return TT_ERR_NO_RESOURCE;
    }
    TT_TRY(array_grow(graph->allocator, &graph->nodes, graph->node_count));
    TT_TRY(names_grow(graph->allocator, &graph->node_names, &graph->nodes));
    tt_node copy = *node;
    TT_TRY(name_enter(graph, &graph->node_names, &graph->nodes, &copy.name));
    const uint32_t index = graph->node_count++;
    if (node->kind == TT_NODE_COMPUTE) {
        copy.tensor = TT_GRAPH_NONE;
    } else {
        copy.time_us = 0;
        copy.backward_us = 0;
        tt_graph_tensor *tensor = &((tt_graph_tensor *)graph->tensors.items)[node->tensor];
        *(node->kind == TT_NODE_RECV ? &tensor->recv : &tensor->send) = index;
    }
    ((tt_node *)graph->nodes.items)[index] = copy;
    *index_out = index;
    return TT_OK;
}

tt_status tt_graph_add_edge(tt_graph *graph, uint32_t from, uint32_t to, tt_text *why)
{
    TT_ASSERT(!graph->is_sealed);
    TT_ASSERT(from < graph->node_count);
    TT_ASSERT(to < graph->node_count);
    if (from == to) {
        return refuse(why, "operator", tt_graph_node(graph, to)->name, "depends on itself");
    }
    if (graph->edge_count == TT_GRAPH_EDGES_MAX) {
        tt_text_add(why, "more than %d dependencies", TT_GRAPH_EDGES_MAX);
        return TT_ERR_NO_RESOURCE;
    }
    TT_TRY(array_grow(graph->allocator, &graph->edges, graph->edge_count));
    ((edge_state *)graph->edges.items)[graph->edge_count++] = (edge_state){.from = from, .to = to};
    return TT_OK;
}

uint32_t tt_graph_find_node(const tt_graph *graph, const char *name)
{
    return name_find(&graph->node_names, &graph->nodes, name);
}

uint32_t tt_graph_find_tensor(const tt_graph *graph, const char *name)
{
    return name_find(&graph->tensor_names, &graph->tensors, name);
}

/* ---- sealing -----------------------------------------------------------------------------------
 */

static tt_status adjacency_take(tt_graph *graph)
{
    const tt_allocator *allocator = graph->allocator;
    const size_t node_count = graph->node_count;
    if (graph->edge_count > 0) {
        graph->inputs = tt_allocate(allocator, graph->edge_count, sizeof(uint32_t));
        graph->outputs = tt_allocate(allocator, graph->edge_count, sizeof(uint32_t));
        if (graph->inputs == NULL || graph->outputs == NULL) {
            return TT_ERR_NO_MEMORY;
        }
    }
    graph->input_start = tt_allocate(allocator, node_count + 1, sizeof(uint32_t));
    graph->output_start = tt_allocate(allocator, node_count + 1, sizeof(uint32_t));
    graph->order = tt_allocate(allocator, node_count, sizeof(uint32_t));
    return graph->input_start == NULL || graph->output_start == NULL || graph->order == NULL
               ? TT_ERR_NO_MEMORY
               : TT_OK;
}

/* Count, sum up, place: afterwards start[i] is where the list of node i begins. */
static void adjacency_fill(tt_graph *graph)
{
    const edge_state *edges = graph->edges.items;
    uint32_t *in = graph->input_start;
    uint32_t *out = graph->output_start;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        in[edges[i].to + 1]++;
        out[edges[i].from + 1]++;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        in[i + 1] += in[i];
        out[i + 1] += out[i];
    }
    for (uint32_t i = graph->edge_count; i-- > 0;) { /* from the back, so that lists keep order */
        graph->inputs[--in[edges[i].to + 1]] = edges[i].from;
        graph->outputs[--out[edges[i].from + 1]] = edges[i].to;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) { /* each start has moved one place down */
        in[i] = in[i + 1];
        out[i] = out[i + 1];
    }
    in[graph->node_count] = graph->edge_count;
    out[graph->node_count] = graph->edge_count;
}

/* The order; how many nodes are in it: all, unless there is a cycle. */
static uint32_t order_fill(tt_graph *graph, uint32_t *missing)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        missing[i] = graph->input_start[i + 1] - graph->input_start[i];
        if (missing[i] == 0) {
            graph->order[count++] = i;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t node = graph->order[i];
        for (uint32_t k = graph->output_start[node]; k < graph->output_start[node + 1]; k++) {
            if (--missing[graph->outputs[k]] == 0) {
                graph->order[count++] = graph->outputs[k];
            }
        }
    }
    return count;
}

/* A node that is on a cycle: from one that never became free, walk back among such. */
static uint32_t cycle_member(const tt_graph *graph, const uint32_t *missing)
{
    uint32_t node = 0;
    while (missing[node] == 0) {
        node++;
    }
    for (uint32_t steps = 0; steps < graph->node_count; steps++) {
        for (uint32_t k = graph->input_start[node]; k < graph->input_start[node + 1]; k++) {
            if (missing[graph->inputs[k]] > 0) {
                node = graph->inputs[k];
                break;
            }
        }
    }
    return node;
}

/* Receive nodes have no inputs, and send nodes no outputs. */
static tt_status ends_check(const tt_graph *graph, tt_text *why)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const tt_node *node = tt_graph_node(graph, i);
        if (node->kind == TT_NODE_RECV && graph->input_start[i] < graph->input_start[i + 1]) {
            return refuse(why, "operator", node->name, "receives a tensor and cannot need others");
        }
        if (node->kind == TT_NODE_SEND && graph->output_start[i] < graph->output_start[i + 1]) {
            return refuse(why, "operator", node->name, "sends a tensor and cannot be needed");
        }
    }
    return TT_OK;
}

tt_status tt_graph_seal(tt_graph *graph, tt_text *why)
{
    TT_ASSERT(!graph->is_sealed);
    if (graph->node_count == 0 || graph->tensor_count == 0) {
        tt_text_add(why, "the graph is empty: it needs an operator and a tensor");
        return TT_ERR_BAD_ARGUMENT;
    }
    TT_TRY(adjacency_take(graph));
    adjacency_fill(graph);
    TT_TRY(ends_check(graph, why));
    uint32_t *missing = tt_allocate(graph->allocator, graph->node_count, sizeof(uint32_t));
    if (missing == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    tt_status status = TT_OK;
    if (order_fill(graph, missing) < graph->node_count) {
        status = refuse(why, "operator", tt_graph_node(graph, cycle_member(graph, missing))->name,
                        "depends on itself through others: the graph has a cycle");
    }
    tt_release(graph->allocator, missing, graph->node_count, sizeof(uint32_t));
    graph->is_sealed = status == TT_OK;
    return status;
}

void tt_graph_scale(tt_graph *graph, double factor)
{
    TT_ASSERT(factor >= 0);
    tt_node *nodes = graph->nodes.items;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        nodes[i].time_us *= factor;
        nodes[i].backward_us *= factor;
    }
}

/* ---- reading -----------------------------------------------------------------------------------
 */

uint32_t tt_graph_node_count(const tt_graph *graph)
{
    return graph->node_count;
}

uint32_t tt_graph_tensor_count(const tt_graph *graph)
{
    return graph->tensor_count;
}

const tt_node *tt_graph_node(const tt_graph *graph, uint32_t index)
{
    TT_ASSERT(index < graph->node_count);
    return &((const tt_node *)graph->nodes.items)[index];
}

const tt_graph_tensor *tt_graph_tensor_at(const tt_graph *graph, uint32_t index)
{
    TT_ASSERT(index < graph->tensor_count);
    return &((const tt_graph_tensor *)graph->tensors.items)[index];
}

const tt_allocator *tt_graph_allocator(const tt_graph *graph)
{
    return graph->allocator;
}

const uint32_t *tt_graph_inputs(const tt_graph *graph, uint32_t node, uint32_t *count_out)
{
    TT_ASSERT(graph->is_sealed);
    *count_out = graph->input_start[node + 1] - graph->input_start[node];
    return graph->inputs == NULL ? NULL : &graph->inputs[graph->input_start[node]];
}

const uint32_t *tt_graph_outputs(const tt_graph *graph, uint32_t node, uint32_t *count_out)
{
    TT_ASSERT(graph->is_sealed);
    *count_out = graph->output_start[node + 1] - graph->output_start[node];
    return graph->outputs == NULL ? NULL : &graph->outputs[graph->output_start[node]];
}

const uint32_t *tt_graph_order(const tt_graph *graph)
{
    TT_ASSERT(graph->is_sealed);
    return graph->order;
}
