/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_file.c - see graph_file.h. Nothing of a file is trusted: lengths are bounded before memory
 * is taken, and the graph checks names, times and cycles itself. */
#include "cli/schedule/graph_file.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/nearest.h"
#include "cli/file_text.h"

enum {
    FILE_BYTES_MAX = 256 << 20,
    TRACE_TENSORS_MAX = 1 << 20,
    TRACE_LINE_BYTES_MAX = 1024,
    SHOWN = 80, /* bytes of a name in a message */
};

static const double bytes_an_element = 4; /* gradients are sent as float32 */

__attribute__((format(printf, 2, 3))) static tt_status refuse(tt_text *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tt_text_add_list(why, format, arguments);
    va_end(arguments);
    return TT_ERR_BAD_ARGUMENT;
}

/* ---- JSON --------------------------------------------------------------------------------------
 */

/* A member that must be a string; NULL if it is not. */
static const char *string_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static tt_status tensors_read(const json_t *list, tt_graph *graph, tt_text *why)
{
    size_t i;
    json_t *item;
    if (!json_is_array(list)) {
        return refuse(why, "\"tensors\" is not a list");
    }
    json_array_foreach(list, i, item)
    {
        const char *name = string_of(item, "name");
        const json_t *bytes = json_object_get(item, "bytes");
        uint32_t index;
        if (name == NULL || !json_is_integer(bytes) || json_integer_value(bytes) < 0) {
            return refuse(why, "tensors[%zu]: needs a \"name\" and \"bytes\" that are not negative",
                          i);
        }
        TT_TRY(tt_graph_add_tensor(graph, name, (uint64_t)json_integer_value(bytes), why, &index));
    }
    return TT_OK;
}

/* The place of a word in a list that ends in NULL; -1: it is not in the list. An absent member is
 * the first word. */
static int word_of(const json_t *object, const char *name, const char *const *words)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL) {
        return 0;
    }
    for (int i = 0; words[i] != NULL && json_is_string(value); i++) {
        if (strcmp(words[i], json_string_value(value)) == 0) {
            return i;
        }
    }
    return -1;
}

static tt_status op_read(const json_t *item, size_t place, tt_graph *graph, tt_text *why)
{
    static const char *const kinds[] = {"compute", "recv", "send", NULL};
    static const char *const phases[] = {"forward", "backward", NULL};
    const char *id = string_of(item, "id");
    const int kind = word_of(item, "kind", kinds);
    const int phase = word_of(item, "phase", phases);
    const json_t *time_us = json_object_get(item, "time_us");
    if (id == NULL || kind < 0 || phase < 0 || (time_us != NULL && !json_is_number(time_us))) {
        return refuse(why,
                      "ops[%zu]: needs an \"id\"; \"kind\" is compute, recv or send; \"phase\" is "
                      "forward or backward; \"time_us\" is a number",
                      place);
    }
    tt_node node = {.name = id,
                    .kind = (tt_node_kind)kind,
                    .phase = (tt_node_phase)phase,
                    .time_us = json_number_value(time_us),
                    .tensor = TT_GRAPH_NONE};
    const char *tensor = string_of(item, "tensor");
    if (kind != TT_NODE_COMPUTE) {
        if (tensor == NULL) {
            return refuse(why, "ops[%zu]: receives or sends, and needs a \"tensor\"", place);
        }
        node.tensor = tt_graph_find_tensor(graph, tensor);
        if (node.tensor == TT_GRAPH_NONE) {
            tt_text_add(why, "ops[%zu]: unknown tensor ", place);
            tt_text_add_quoted(why, tensor, SHOWN);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    uint32_t index;
    return tt_graph_add_node(graph, &node, why, &index);
}

static tt_status edges_read(const json_t *item, uint32_t to, tt_graph *graph, tt_text *why)
{
    const json_t *list = json_object_get(item, "after");
    size_t i;
    json_t *name;
    if (list != NULL && !json_is_array(list)) {
        return refuse(why, "ops[%u]: \"after\" is not a list", to);
    }
    json_array_foreach(list, i, name)
    {
        const uint32_t from = json_is_string(name)
                                  ? tt_graph_find_node(graph, json_string_value(name))
                                  : TT_GRAPH_NONE;
        if (from == TT_GRAPH_NONE) {
            tt_text_add(why, "ops[%u]: \"after\" names an unknown op ", to);
            tt_text_add_quoted(why, json_is_string(name) ? json_string_value(name) : "", SHOWN);
            return TT_ERR_BAD_ARGUMENT;
        }
        TT_TRY(tt_graph_add_edge(graph, from, to, why));
    }
    return TT_OK;
}

static tt_status json_build(const json_t *root, tt_graph *graph, tt_text *why)
{
    const json_t *ops = json_object_get(root, "ops");
    size_t i;
    json_t *item;
    TT_TRY(tensors_read(json_object_get(root, "tensors"), graph, why));
    if (!json_is_array(ops)) {
        return refuse(why, "\"ops\" is not a list");
    }
    json_array_foreach(ops, i, item)
    {
        TT_TRY(op_read(item, i, graph, why));
    }
    json_array_foreach(ops, i, item)
    {
        TT_TRY(edges_read(item, (uint32_t)i, graph, why));
    }
    return tt_graph_seal(graph, why);
}

tt_status tt_graph_read_json(const char *text, size_t bytes, tt_text *why, tt_graph **graph_out)
{
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        tt_text_add(why, "line %d: ", error.line);
        tt_text_add_quoted(why, error.text, SHOWN);
        return TT_ERR_BAD_ARGUMENT;
    }
    tt_graph *graph = NULL;
    tt_status status = tt_graph_create(&tt_allocator_default, &graph);
    if (status == TT_OK) {
        status = json_build(root, graph, why);
    }
    json_decref(root);
    if (status != TT_OK) {
        tt_graph_destroy(graph);
        return status;
    }
    *graph_out = graph;
    return TT_OK;
}

static json_t *op_json(const tt_graph *graph, uint32_t index)
{
    static const char *const kinds[] = {"compute", "recv", "send"};
    const tt_node *node = tt_graph_node(graph, index);
    json_t *after = json_array();
    uint32_t count;
    const uint32_t *inputs = tt_graph_inputs(graph, index, &count);
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(after, json_string(tt_graph_node(graph, inputs[i])->name));
    }
    json_t *op = json_pack("{s:s, s:s, s:s, s:f, s:o}", "id", node->name, "kind", kinds[node->kind],
                           "phase", node->phase == TT_PHASE_FORWARD ? "forward" : "backward",
                           "time_us", node->time_us, "after", after);
    if (op != NULL && node->kind != TT_NODE_COMPUTE) {
        const char *tensor = tt_graph_tensor_at(graph, node->tensor)->name;
        (void)json_object_set_new(op, "tensor", json_string(tensor));
    }
    return op;
}

bool tt_graph_write_json(const tt_graph *graph, FILE *stream)
{
    json_t *tensors = json_array();
    json_t *ops = json_array();
    for (uint32_t i = 0; i < tt_graph_tensor_count(graph); i++) {
        const tt_graph_tensor *tensor = tt_graph_tensor_at(graph, i);
        (void)json_array_append_new(tensors, json_pack("{s:s, s:I}", "name", tensor->name, "bytes",
                                                       (json_int_t)tensor->bytes));
    }
    for (uint32_t i = 0; i < tt_graph_node_count(graph); i++) {
        (void)json_array_append_new(ops, op_json(graph, i));
    }
    json_t *root = json_pack("{s:o, s:o}", "tensors", tensors, "ops", ops);
    const bool is_written =
        root != NULL && json_dumpf(root, stream, JSON_INDENT(1)) == 0 && fputc('\n', stream) != EOF;
    json_decref(root);
    return is_written;
}

/* ---- traces ------------------------------------------------------------------------------------
 */

typedef struct trace_state {
    tt_tensor *tensors;
    size_t count;
    size_t capacity;
    double forward_us;
    double backward_us;
    tt_text *why;
    size_t number;      /* of the line */
    size_t moved_count; /* tensors with a time outside its pass */
    tt_text moved;      /* the first of them */
} trace_state;

/* The number after `name` in a comment, or the old value. */
static double comment_value(const char *line, const char *name, double old)
{
    const char *found = strstr(line, name);
    return found == NULL ? old : strtod(found + strlen(name), NULL);
}

static bool number_read(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*value) && *value >= 0;
}

/* Cut at tabs; false unless there are four fields. */
static bool fields_cut(char *line, char *fields[4])
{
    for (int i = 0; i < 4; i++) {
        fields[i] = line;
        char *tab = strchr(line, '\t');
        if ((tab == NULL) != (i == 3)) {
            return false;
        }
        if (tab != NULL) {
            *tab = '\0';
            line = tab + 1;
        }
    }
    return true;
}

static tt_status tensor_add(trace_state *trace, const char *name, tt_tensor tensor)
{
    if (trace->count == trace->capacity) {
        const size_t capacity = trace->capacity == 0 ? 64 : 2 * trace->capacity;
        tt_tensor *tensors = capacity > TRACE_TENSORS_MAX
                                 ? NULL
                                 : realloc(trace->tensors, capacity * sizeof(tensor));
        if (tensors == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        trace->tensors = tensors;
        trace->capacity = capacity;
    }
    tensor.name = strdup(name);
    if (tensor.name == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    trace->tensors[trace->count++] = tensor;
    return TT_OK;
}

/* A time was moved to an edge of its pass. Measured times often lie a little outside, where a hook
 * runs after the end of the pass was recorded: not an error, but worth a remark. */
static void move_note(trace_state *trace, const char *what, double told_us, double taken_us)
{
    if (fabs(told_us - taken_us) <= 1e-9 * told_us) {
        return; /* rounding */
    }
    if (trace->moved_count++ == 0) {
        tt_text_add(&trace->moved, "line %zu, %s at %.10g us, taken as %.10g", trace->number, what,
                    told_us, taken_us);
    }
}

/* Frameworks record no time for tensors that they do not see: assume the earliest use, the latest
 * readiness. */
static tt_status line_read(trace_state *trace, char *line)
{
    char *fields[4];
    double elements;
    double first_use_us = 0;
    double ready_us = trace->forward_us + trace->backward_us;
    if (!fields_cut(line, fields) || !number_read(fields[1], &elements) || elements > 1e15 ||
        (fields[2][0] != '\0' && !number_read(fields[2], &first_use_us)) ||
        (fields[3][0] != '\0' && !number_read(fields[3], &ready_us))) {
        return refuse(
            trace->why,
            "line %zu: expected name, elements, first use and readiness, all not negative",
            trace->number);
    }
    const double end_us = trace->forward_us + trace->backward_us;
    const tt_tensor tensor = {.bytes = (uint64_t)(elements * bytes_an_element),
                              .first_use_us = fmin(first_use_us, trace->forward_us),
                              .ready_us = fmin(fmax(ready_us, trace->forward_us), end_us)};
    move_note(trace, "first used", first_use_us, tensor.first_use_us);
    move_note(trace, "ready", ready_us, tensor.ready_us);
    return tensor_add(trace, fields[0], tensor);
}

static tt_status trace_read(trace_state *trace, const char *text, size_t bytes)
{
    size_t start = 0;
    while (start < bytes) {
        const char *end = memchr(text + start, '\n', bytes - start);
        const size_t line_bytes = end != NULL ? (size_t)(end - (text + start)) : bytes - start;
        char line[TRACE_LINE_BYTES_MAX];
        trace->number++;
        if (line_bytes >= sizeof(line)) {
            return refuse(trace->why, "line %zu is longer than %d bytes", trace->number,
                          TRACE_LINE_BYTES_MAX);
        }
        memcpy(line, text + start, line_bytes);
        line[line_bytes] = '\0';
        start += line_bytes + 1;
        if (line[0] == '#') {
            trace->forward_us = comment_value(line, "forward_us=", trace->forward_us);
            trace->backward_us = comment_value(line, "backward_us=", trace->backward_us);
        } else if (line[0] != '\0' && strncmp(line, "name\t", 5) != 0) {
            TT_TRY(line_read(trace, line));
        }
    }
    return TT_OK;
}

tt_status tt_graph_read_trace(const char *text, size_t bytes, tt_text *why, tt_graph **graph_out)
{
    trace_state trace = {.why = why};
    tt_status status = trace_read(&trace, text, bytes);
    if (status == TT_OK) {
        const tt_workload workload = {.tensors = trace.tensors,
                                      .tensor_count = trace.count,
                                      .forward_us = trace.forward_us,
                                      .backward_us = trace.backward_us};
        status = tt_graph_from_workload(&workload, &tt_allocator_default, why, graph_out);
    }
    if (status == TT_OK && trace.moved_count > 0) {
        tt_text_add(why, "%zu time%s outside the pass, moved to its edge; the first: %s",
                    trace.moved_count, trace.moved_count == 1 ? " lies" : "s lie",
                    trace.moved.bytes);
    }
    for (size_t i = 0; i < trace.count; i++) {
        free((char *)(uintptr_t)trace.tensors[i].name);
    }
    free(trace.tensors);
    return status;
}

/* ---- files -------------------------------------------------------------------------------------
 */

static bool ends_in(const char *name, const char *ending)
{
    const size_t name_bytes = strlen(name);
    const size_t bytes = strlen(ending);
    return name_bytes > bytes && strcmp(name + name_bytes - bytes, ending) == 0;
}

bool tt_graph_is_file(const char *name)
{
    return ends_in(name, ".json") || ends_in(name, ".tsv");
}

static tt_status network_load(const char *name, const tt_network_config *config, tt_text *why,
                              tt_graph **graph_out)
{
    const tt_network *model = tt_network_find(name);
    if (model == NULL) {
        tt_nearest nearest;
        tt_nearest_init(&nearest, "", name);
        for (size_t i = 0; tt_network_at(i) != NULL; i++) {
            tt_nearest_offer(&nearest, tt_network_at(i)->name);
        }
        return refuse(why,
                      "neither a .json or .tsv file nor a known network%s%s; --list shows them",
                      nearest.best[0] != '\0' ? "; did you mean " : "", nearest.best);
    }
    return tt_network_load(model, config, &tt_allocator_default, why, graph_out);
}

tt_status tt_graph_load(const char *name, const tt_network_config *config, tt_text *why,
                        tt_graph **graph_out)
{
    if (!tt_graph_is_file(name)) {
        return network_load(name, config, why, graph_out);
    }
    size_t bytes;
    char *text = tt_file_read(name, FILE_BYTES_MAX, &bytes, why);
    if (text == NULL) {
        return TT_ERR_BAD_ARGUMENT;
    }
    const tt_status status = ends_in(name, ".json")
                                 ? tt_graph_read_json(text, bytes, why, graph_out)
                                 : tt_graph_read_trace(text, bytes, why, graph_out);
    free(text);
    return status;
}
