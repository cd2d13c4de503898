/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_networks_test.c - the exact networks against the traces in bench/traces, which were taken
 * from the running models: names, sizes and order of all parameters, and the order in which their
 * gradients become ready. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/schedule/graph_file.h"

typedef struct step_state {
    tt_graph *graph;
    tt_scratch scratch;
    tt_workload workload;
} step_state;

static void step_init(step_state *step, const char *name)
{
    tt_text why = {.length = 0};
    const tt_status status = tt_graph_load(name, &(tt_network_config){0}, &why, &step->graph);
    if (status != TT_OK) {
        fail_msg("%s: %s", name, why.bytes);
    }
    tt_scratch_init(&step->scratch, &tt_allocator_default);
    assert_int_equal(TT_OK,
                     tt_graph_workload(step->graph, NULL, &step->scratch, &why, &step->workload));
}

static void trace_init(step_state *step, const char *name)
{
    tt_text path = {.length = 0};
    tt_text_add(&path, "%s/bench/traces/%s.tsv", getenv("TEST_SOURCE"), name);
    step_init(step, path.bytes);
}

static void step_fini(step_state *step)
{
    tt_scratch_fini(&step->scratch);
    tt_graph_destroy(step->graph);
}

/* The trace of each model, and its network. `extra`: parameters of the trace alone: the traced
 * Transformers normalise the results of encoder and decoder once more. `is_named`: with the names
 * of the trace. */
static const struct {
    const char *trace;
    const char *network;
    size_t extra;
    bool is_named;
} pairs[] = {
    {"alexnet", "alexnet", 0, true},
    {"bert-base", "bert-base", 0, true},
    {"bert-large", "bert-large", 0, true},
    {"gpt2-small", "gpt2", 0, true},
    {"gpt2-medium", "gpt2-medium", 0, true},
    {"inception_v3", "inception3", 0, true},
    {"resnet50", "resnet50", 0, true},
    {"resnet50-fp32", "resnet50", 0, true},
    {"resnet101", "resnet101", 0, true},
    {"resnet152", "resnet152", 0, true},
    {"transformer-base", "transformer-base-fused", 4, true},
    {"transformer-big", "transformer-big-fused", 4, true},
    {"vgg16", "vgg16", 0, false},
    {"vgg16-fp32", "vgg16", 0, false},
    {"vgg19", "vgg19", 0, false},
};

static bool is_extra(const tt_tensor *tensor)
{
    return strncmp(tensor->name, "t.encoder.norm.", 15) == 0 ||
           strncmp(tensor->name, "t.decoder.norm.", 15) == 0;
}

static void test_parameters_are_those_of_the_traced_models(void **state)
{
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(pairs); i++) {
        step_state trace, network;
        trace_init(&trace, pairs[i].trace);
        step_init(&network, pairs[i].network);
        size_t found = 0, extra = 0;
        for (size_t k = 0; k < trace.workload.tensor_count; k++) {
            const tt_tensor *traced = &trace.workload.tensors[k];
            if (is_extra(traced)) {
                extra++;
                continue;
            }
            assert_true(found < network.workload.tensor_count);
            const tt_tensor *made = &network.workload.tensors[found++];
            assert_int_equal(traced->bytes, made->bytes);
            if (pairs[i].is_named) {
                assert_string_equal(traced->name, made->name);
            }
        }
        assert_int_equal(found, network.workload.tensor_count);
        assert_int_equal(pairs[i].extra, extra);
        step_fini(&trace);
        step_fini(&network);
    }
}

/* How many of 1,000 pairs of tensors become ready in another order. Whether a weight or its bias is
 * ready first depends on the kernels, and differs between the traces. */
static double inverted(const tt_workload *trace, const tt_workload *network)
{
    size_t pair_count = 0, inverted_count = 0;
    const size_t count = network->tensor_count;
    const tt_tensor **traced = calloc(count, sizeof(*traced));
    assert_non_null(traced);
    for (size_t i = 0, k = 0; k < trace->tensor_count; k++) {
        if (!is_extra(&trace->tensors[k])) {
            traced[i++] = &trace->tensors[k];
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            const double here = network->tensors[i].ready_us - network->tensors[k].ready_us;
            pair_count++;
            inverted_count += here * (traced[i]->ready_us - traced[k]->ready_us) < 0;
        }
    }
    free(traced);
    return 1000.0 * (double)inverted_count / (double)pair_count;
}

static void test_gradients_become_ready_in_the_traced_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(pairs); i++) {
        step_state trace, network;
        trace_init(&trace, pairs[i].trace);
        step_init(&network, pairs[i].network);
        const double found = inverted(&trace.workload, &network.workload);
        print_message("%s: %.2f of 1000 pairs in another order\n", pairs[i].trace, found);
        /* In a small model weights and their biases are a larger share of all pairs. */
        assert_true(found <= (network.workload.tensor_count < 100 ? 70 : 4));
        step_fini(&trace);
        step_fini(&network);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_are_those_of_the_traced_models),
        cmocka_unit_test(test_gradients_become_ready_in_the_traced_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
