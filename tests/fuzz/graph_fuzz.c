/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_fuzz.c - any bytes as a graph in JSON, as a trace, as an order and as samples; an accepted
 * graph can be ordered, planned and evaluated.
 *
 * The program's files are compiled in: fuzz targets link the library only.
 *
 * Labels: cli schedule */
#include "base/assert.h"
#include "cli/file_text.c"
#include "cli/schedule/graph_file.c"
#include "cli/schedule/samples.c"
#include "model/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

enum {
    NODES_TRIED_MAX = 400, /* larger graphs are only read: some orders are quadratic */
};

static void check_places(const uint32_t *places, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        TT_ASSERT(places[i] < count);
        sum += places[i];
    }
    TT_ASSERT(sum == (uint64_t)count * (count - 1) / 2);
}

static void check_plans(const tt_policy_input *input)
{
    for (size_t i = 0; tt_policy_at(i) != NULL; i++) {
        tt_text why = {.length = 0};
        tt_timetable plan;
        if (tt_policy_run(tt_policy_at(i), input, &tt_allocator_default, &why, &plan) != TT_OK) {
            TT_ASSERT(why.length > 0);
            continue;
        }
        const tt_evaluate_config config = {.wire = input->wire, .allocator = &tt_allocator_default};
        tt_evaluation evaluation;
        uint64_t chunks = 0;
        for (uint32_t k = 0; k < plan.transfer_count && chunks < 100000; k++) {
            chunks += plan.transfers[k].bytes / tt_min_u64(plan.chunk_bytes, 1 << 20);
        }
        if (chunks < 100000 && tt_evaluate(&plan, &config, &why, &evaluation) == TT_OK) {
            TT_ASSERT(evaluation.step_us >= 0);
        }
        tt_plan_fini(&plan);
    }
}

static void check_graph(tt_graph *graph)
{
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    const uint32_t tensor_count = tt_graph_tensor_count(graph);
    if (tt_graph_node_count(graph) <= NODES_TRIED_MAX && tensor_count <= NODES_TRIED_MAX) {
        const tt_wire wire = {.overhead_us = 1, .byte_us = 0.001};
        uint32_t *places;
        TT_ASSERT(tt_order_tic(graph, &scratch, &places) == TT_OK);
        check_places(places, tensor_count);
        TT_ASSERT(tt_order_tac(graph, &wire, &scratch, &places) == TT_OK);
        check_places(places, tensor_count);
        TT_ASSERT(tt_order_compute(graph, TT_COMPUTE_NEAREST, &scratch, &places) == TT_OK);
        tt_text why = {.length = 0};
        tt_workload workload;
        if (tt_graph_workload(graph, places, &scratch, &why, &workload) == TT_OK) {
            check_plans(&(tt_policy_input){.workload = &workload,
                                           .graph = graph,
                                           .wire = wire,
                                           .chunk_bytes = 1 << 16,
                                           .rank_count = 4});
        }
    }
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

static tt_status ignore_line(void *user, const char *name, uint32_t priority, tt_text *why)
{
    (void)user;
    (void)why;
    TT_ASSERT(tt_order_name_is_writable(name));
    TT_ASSERT(priority <= TT_TASK_PRIORITY_MAX);
    return TT_OK;
}

static void check_samples(const uint8_t *data, size_t data_bytes)
{
    char *text = malloc(data_bytes + 1);
    if (text == NULL) {
        return;
    }
    memcpy(text, data, data_bytes);
    text[data_bytes] = '\0';
    tt_text why = {.length = 0};
    tt_samples samples;
    if (tt_samples_read(text, &why, &samples) == TT_OK) {
        TT_ASSERT(samples.line.start_us >= 0 && samples.line.byte_us >= 0);
        TT_ASSERT(samples.line.start_us <= TT_WORKLOAD_US_MAX);
    } else {
        TT_ASSERT(why.length > 0);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes)
{
    const char *text = (const char *)data;
    tt_text why = {.length = 0};
    tt_graph *graph;
    if (tt_graph_read_json(text, data_bytes, &why, &graph) == TT_OK) {
        check_graph(graph);
    } else {
        TT_ASSERT(why.length > 0);
    }
    tt_text_clear(&why);
    if (tt_graph_read_trace(text, data_bytes, &why, &graph) == TT_OK) {
        check_graph(graph);
    }
    tt_text_clear(&why);
    const tt_status status = tt_order_text_parse(text, data_bytes, ignore_line, NULL, &why);
    TT_ASSERT(status == TT_OK || why.length > 0);
    check_samples(data, data_bytes);
    return 0;
}
