/* SPDX-License-Identifier: Apache-2.0
 *
 * exact_test.c - the exact networks against published counts of tensors, parameters and
 * multiplications, and their steps against the rules for times. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "model/exact/exact.h"
#include "model/graph_run.h"

enum { SMALL_ELEMENTS = 16384 }; /* 64 KiB in single precision */

static void fill(const char *name, tt_exact *exact)
{
    const tt_network *network = tt_network_find(name);
    assert_non_null(network);
    assert_non_null(network->family);
    memset(exact, 0, sizeof(*exact));
    network->family(network, exact);
}

static double macs_of(const tt_exact *exact)
{
    double macs = 0;
    for (uint32_t i = 0; i < exact->op_count; i++) {
        macs += exact->ops[i].macs;
    }
    return macs;
}

static void assert_close(const char *name, double expected, double found, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance * expected)) {
        fail_msg("%s: expected %g, found %g", name, expected, found);
    }
}

/* Parameters and multiplications of images are those of torchvision, counted there; of texts those
 * of Hugging Face, and the multiplications without the products of attention. Those products are
 * `attentions` times 2 tokens^2 width. */
static const struct {
    const char *name;
    uint32_t tensors;
    uint32_t small; /* tensors of at most 64 KiB */
    uint64_t elements;
    uint64_t largest;
    double gmac;
    uint32_t attentions;
} published[] = {
    {"resnet50", 161, 115, 25557032, 2359296, 4.089184256, 0},
    {"resnet101", 314, 217, 44549160, 2359296, 7.801405440, 0},
    {"resnet152", 467, 319, 60192808, 2359296, 11.513626624, 0},
    {"inception3", 292, 206, 27161264, 2457600, 5.718899296, 0},
    {"alexnet", 16, 8, 61100840, 37748736, 0.714188480, 0},
    {"bert-base", 206, 129, 110106428, 23440896, 14.0, 12},
    {"bert-large", 398, 249, 336226108, 31254528, 42.8, 24},
    {"gpt2", 148, 98, 124439808, 38597376, 126.5, 12},
    {"gpt2-medium", 292, 194, 354823168, 51463168, 361.9, 24},
    {"transformer-base", 253, 156, 63082496, 18944000, 64 * 0.063, 18},
    {"transformer-big", 253, 156, 214245376, 37888000, 64 * 0.214, 18},
    {"transformer-base-fused", 181, 120, 63082496, 18944000, 64 * 0.063, 18},
    {"transformer-big-fused", 181, 120, 214245376, 37888000, 64 * 0.214, 18},
};

static void test_counts_and_totals_are_the_published_ones(void **state)
{
    (void)state;
    static tt_exact exact;
    for (size_t i = 0; i < TT_ARRAY_COUNT(published); i++) {
        const tt_network *network = tt_network_find(published[i].name);
        fill(published[i].name, &exact);
        uint64_t elements = 0, largest = 0;
        uint32_t small = 0;
        for (uint32_t k = 0; k < exact.tensor_count; k++) {
            elements += exact.tensors[k].elements;
            largest = tt_max_u64(largest, exact.tensors[k].elements);
            small += exact.tensors[k].elements <= SMALL_ELEMENTS;
        }
        print_message("%s: %u tensors, %llu elements\n", published[i].name, exact.tensor_count,
                      (unsigned long long)elements);
        assert_int_equal(published[i].tensors, exact.tensor_count);
        assert_int_equal(published[i].elements, elements);
        assert_int_equal(published[i].largest, largest);
        assert_int_equal(published[i].small, small);
        const double tokens = network->tokens;
        const double attention = published[i].attentions * 2 * tokens * tokens * network->width;
        /* Texts are published with three digits. */
        assert_close(published[i].name, 1e9 * published[i].gmac, macs_of(&exact) - attention,
                     tokens > 0 ? 5e-3 : 1e-12);
    }
}

static void test_fc_densenet_has_the_weights_and_work_of_its_generator(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t tensors;
        double elements;
        double tflop; /* of a step: two for a multiplication and addition, in three passes */
    } cases[] = {
        {"fcdensenet-128", 27, 59.8e6, 21.4},
        {"fcdensenet-128-bn", 63, 59.8e6, 21.4},
        {"fcdensenet-256", 27, 232.8e6, 75.3},
        {"fcdensenet-256-bn", 63, 232.8e6, 75.3},
    };
    static tt_exact exact;
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        double elements = 0;
        fill(cases[i].name, &exact);
        for (uint32_t k = 0; k < exact.tensor_count; k++) {
            elements += (double)exact.tensors[k].elements;
        }
        assert_int_equal(cases[i].tensors, exact.tensor_count);
        assert_close(cases[i].name, cases[i].elements, elements, 2e-3);
        assert_close(cases[i].name, 1e12 * cases[i].tflop, 6 * macs_of(&exact), 1e-3);
    }
}

static void test_every_operator_with_a_matrix_is_used_by_its_tensors(void **state)
{
    (void)state;
    static tt_exact exact;
    for (size_t i = 0; tt_network_at(i) != NULL; i++) {
        if (tt_network_at(i)->family == NULL) {
            continue;
        }
        fill(tt_network_at(i)->name, &exact);
        uint32_t users[TT_EXACT_OPS_MAX] = {0};
        for (uint32_t k = 0; k < exact.tensor_count; k++) {
            assert_true(exact.tensors[k].op < exact.op_count);
            users[exact.tensors[k].op]++;
        }
        for (uint32_t k = 0; k < exact.op_count; k++) {
            assert_int_equal(exact.ops[k].is_product, users[k] == 0);
        }
    }
}

/* ---- steps -------------------------------------------------------------------------------------
 */

typedef struct step_state {
    tt_graph *graph;
    tt_scratch scratch;
    tt_workload workload;
} step_state;

static void step_init(step_state *step, const char *name, const tt_network_config *config)
{
    tt_text why = {.length = 0};
    assert_int_equal(TT_OK, tt_network_load(tt_network_find(name), config, &tt_allocator_default,
                                            &why, &step->graph));
    tt_scratch_init(&step->scratch, &tt_allocator_default);
    assert_int_equal(TT_OK,
                     tt_graph_workload(step->graph, NULL, &step->scratch, &why, &step->workload));
    assert_int_equal(TT_OK, tt_workload_check(&step->workload, &why));
}

static void step_fini(step_state *step)
{
    tt_scratch_fini(&step->scratch);
    tt_graph_destroy(step->graph);
}

static const tt_tensor *tensor_of(const step_state *step, const char *name)
{
    for (size_t i = 0; i < step->workload.tensor_count; i++) {
        if (strcmp(step->workload.tensors[i].name, name) == 0) {
            return &step->workload.tensors[i];
        }
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

static void test_a_step_takes_as_long_as_the_rate_says(void **state)
{
    (void)state;
    for (size_t i = 0; tt_network_at(i) != NULL; i++) {
        const tt_network *network = tt_network_at(i);
        step_state step;
        step_init(&step, network->name,
                  &(tt_network_config){.batch = 2 * network->batch, .samples_per_s = 100});
        assert_close(network->name, 2e4 * network->batch, tt_workload_compute_us(&step.workload),
                     1e-9);
        step_fini(&step);
    }
    tt_text why = {.length = 0};
    tt_graph *graph;
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_network_load(tt_network_find("resnet50"),
                                     &(tt_network_config){.samples_per_s = 1e-9},
                                     &tt_allocator_default, &why, &graph));
    assert_non_null(strstr(why.bytes, "at 1e-09 samples/s"));
}

static void test_the_forward_pass_keeps_its_share_of_the_step(void **state)
{
    (void)state;
    tt_graph *forward;
    tt_graph_stats stats;
    tt_text why = {.length = 0};
    tt_network_config config = {.samples_per_s = 1000};
    step_state step;
    step_init(&step, "resnet50", &config);
    config.is_forward = true;
    assert_int_equal(TT_OK, tt_network_load(tt_network_find("resnet50"), &config,
                                            &tt_allocator_default, &why, &forward));
    assert_int_equal(TT_OK, tt_graph_measure(forward, &stats));
    assert_close("forward", step.workload.forward_us, stats.compute_us, 1e-9);
    tt_graph_destroy(forward);
    step_fini(&step);
}

/* Twice, less the first operator: nothing needs the gradient of the samples. */
static void test_backward_takes_twice_as_long_as_forward_less_the_first_operator(void **state)
{
    (void)state;
    static tt_exact exact;
    for (size_t i = 0; tt_network_at(i) != NULL; i++) {
        const tt_network *network = tt_network_at(i);
        if (network->family == NULL) {
            continue;
        }
        step_state step;
        step_init(&step, network->name, &(tt_network_config){.batch = 0});
        fill(network->name, &exact);
        const double ratio = step.workload.backward_us / step.workload.forward_us;
        print_message("%s: backward / forward %.3f\n", network->name, ratio);
        assert_close(network->name, 2 - exact.ops[0].macs / macs_of(&exact), ratio, 0.02);
        step_fini(&step);
    }
}

static void test_gradients_become_ready_in_the_reverse_order_of_use(void **state)
{
    (void)state;
    step_state step;
    step_init(&step, "resnet50", &(tt_network_config){.batch = 0});
    const tt_workload *workload = &step.workload;
    assert_string_equal("conv1.weight", workload->tensors[0].name);
    assert_string_equal("fc.bias", workload->tensors[workload->tensor_count - 1].name);
    for (size_t i = 1; i < workload->tensor_count; i++) {
        const tt_tensor *before = &workload->tensors[i - 1], *after = &workload->tensors[i];
        assert_true(before->first_use_us <= after->first_use_us);
        if (before->first_use_us < after->first_use_us) {
            assert_true(before->ready_us > after->ready_us);
        }
    }
    assert_close("conv1.weight", tt_workload_compute_us(workload), workload->tensors[0].ready_us,
                 1e-9);
    step_fini(&step);
}

static void test_a_shared_embedding_is_needed_first_and_ready_last(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"bert-large", "bert.embeddings.word_embeddings.weight"},
        {"gpt2", "transformer.wte.weight"},
        {"transformer-big", "encoder.embed_tokens.weight"},
        {"transformer-base-fused", "emb.weight"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(names); i++) {
        step_state step;
        step_init(&step, names[i][0], &(tt_network_config){.batch = 0});
        const tt_tensor *embedding = tensor_of(&step, names[i][1]);
        assert_true(embedding->first_use_us <= 0);
        assert_close(names[i][1], tt_workload_compute_us(&step.workload), embedding->ready_us,
                     1e-9);
        step_fini(&step);
    }
}

static void test_out_of_memory_leaks_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"alexnet", "alexnet-v2"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(names); i++) {
        bool has_failed = true;
        for (uint64_t fail_at = 1; has_failed; fail_at++) {
            tt_counting_allocator counter = {.fail_at = fail_at};
            const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
            tt_text why = {.length = 0};
            tt_graph *graph = NULL;
            const tt_status status =
                tt_network_load(tt_network_find(names[i]), &(tt_network_config){.samples_per_s = 1},
                                &allocator, &why, &graph);
            has_failed = counter.allocation_count >= fail_at;
            assert_int_equal(has_failed ? TT_ERR_NO_MEMORY : TT_OK, status);
            tt_graph_destroy(graph);
            assert_int_equal(0, counter.live_count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_and_totals_are_the_published_ones),
        cmocka_unit_test(test_fc_densenet_has_the_weights_and_work_of_its_generator),
        cmocka_unit_test(test_every_operator_with_a_matrix_is_used_by_its_tensors),
        cmocka_unit_test(test_a_step_takes_as_long_as_the_rate_says),
        cmocka_unit_test(test_the_forward_pass_keeps_its_share_of_the_step),
        cmocka_unit_test(test_backward_takes_twice_as_long_as_forward_less_the_first_operator),
        cmocka_unit_test(test_gradients_become_ready_in_the_reverse_order_of_use),
        cmocka_unit_test(test_a_shared_embedding_is_needed_first_and_ready_last),
        cmocka_unit_test(test_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
