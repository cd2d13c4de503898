/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_test.c - one suite for every policy over every network, and what each promises. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "schedule/model.h"
#include "schedule/order.h"
#include "schedule/registry.h"

/* A network's training step on a wire. */
typedef struct test_setting {
    tt_graph *graph;
    tt_workload workload;
    tt_scratch scratch;
    tt_policy_input input;
} test_setting;

static void setting_init(test_setting *setting, const char *name, tt_wire wire)
{
    tt_text why = {0};
    tt_graph *forward;
    memset(setting, 0, sizeof(*setting));
    tt_scratch_init(&setting->scratch, &tt_allocator_default);
    assert_int_equal(TT_OK,
                     tt_model_build(tt_model_find(name), &tt_allocator_default, &why, &forward));
    assert_int_equal(TT_OK, tt_graph_differentiate(forward, &why, &setting->graph));
    tt_graph_destroy(forward);
    assert_int_equal(TT_OK, tt_graph_workload(setting->graph, NULL, &setting->scratch, &why,
                                              &setting->workload));
    setting->input = (tt_policy_input){
        .workload = &setting->workload, .graph = setting->graph, .wire = wire, .rank_count = 4};
}

static void setting_fini(test_setting *setting)
{
    tt_scratch_fini(&setting->scratch);
    tt_graph_destroy(setting->graph);
}

/* Bytes cost so much that the wire alone would take `rho` times the computation. */
static void set_rho(test_setting *setting, double rho)
{
    setting->input.wire.byte_us = rho * tt_workload_compute_us(&setting->workload) /
                                  (double)tt_workload_bytes(&setting->workload);
}

static void plan_of(const test_setting *setting, const tt_policy *policy, tt_timetable *plan)
{
    tt_text why = {0};
    assert_int_equal(TT_OK,
                     tt_policy_run(policy, &setting->input, &tt_allocator_default, &why, plan));
}

static double step_us(const test_setting *setting, const tt_policy *policy)
{
    tt_text why = {0};
    tt_timetable plan;
    plan_of(setting, policy, &plan);
    const tt_evaluate_config config = {.wire = setting->input.wire,
                                       .allocator = &tt_allocator_default};
    tt_evaluation evaluation;
    assert_int_equal(TT_OK, tt_evaluate(&plan, &config, &why, &evaluation));
    tt_plan_fini(&plan);
    return evaluation.step_us;
}

/* Every tensor is delivered by exactly one transfer, and bytes add up. */
static void assert_complete(const tt_timetable *plan)
{
    const size_t count = plan->workload->tensor_count;
    int *delivered = tt_allocate(&tt_allocator_default, count, sizeof(int));
    assert_non_null(delivered);
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const tt_transfer *transfer = &plan->transfers[i];
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < transfer->member_count; k++) {
            const uint32_t tensor = plan->members[transfer->member_first + k];
            assert_true(tensor < count);
            bytes += plan->workload->tensors[tensor].bytes;
            delivered[tensor] +=
                transfer->kind != TT_TASK_PUSH && transfer->kind != TT_TASK_REDUCE_SCATTER;
        }
        assert_int_equal(bytes, transfer->bytes);
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(1, delivered[i]);
    }
    tt_release(&tt_allocator_default, delivered, count, sizeof(int));
}

static void test_every_plan_delivers_every_tensor_once(void **state)
{
    (void)state;
    for (size_t m = 0; tt_model_at(m) != NULL; m++) {
        test_setting setting;
        setting_init(&setting, tt_model_at(m)->name, (tt_wire){.overhead_us = 50});
        set_rho(&setting, 1);
        double ideal_us;
        assert_int_equal(TT_OK, tt_evaluate_fluid(&setting.workload, setting.input.wire.byte_us,
                                                  &tt_allocator_default, &ideal_us));
        for (size_t i = 0; tt_policy_at(i) != NULL; i++) {
            for (int form = TT_FORM_ALLREDUCE; form <= TT_FORM_SERVER; form++) {
                const tt_policy *policy = tt_policy_at(i);
                if (policy->needs_allreduce && form == TT_FORM_SERVER) {
                    continue;
                }
                setting.input.form = (tt_plan_form)form;
                tt_timetable plan;
                plan_of(&setting, policy, &plan);
                assert_complete(&plan);
                tt_plan_fini(&plan);
                const double found_us = step_us(&setting, policy);
                if (form == TT_FORM_ALLREDUCE) {
                    assert_true(found_us >= ideal_us * (1 - 1e-9));
                }
            }
        }
        setting_fini(&setting);
    }
}

static void test_batching_and_merging_pay_where_starting_is_expensive(void **state)
{
    (void)state;
    test_setting setting;
    setting_init(&setting, "resnet50-v1", (tt_wire){.overhead_us = 1000});
    set_rho(&setting, 0.4);
    const double plain_us = step_us(&setting, &tt_policy_fifo);
    assert_true(step_us(&setting, &tt_policy_mg_wfbp) < 0.9 * plain_us);
    assert_true(step_us(&setting, &tt_policy_caramel) < 0.9 * plain_us);
    assert_true(step_us(&setting, &tt_policy_buckets_25) < 0.9 * plain_us);
    setting_fini(&setting);
}

static void test_merging_never_loses_to_single_tensors(void **state)
{
    (void)state;
    static const double overheads_us[] = {1, 50, 500, 3000};
    static const double rhos[] = {0.1, 0.5, 1, 2};
    for (size_t i = 0; i < TT_ARRAY_COUNT(overheads_us); i++) {
        test_setting setting;
        setting_init(&setting, "inception-v3", (tt_wire){.overhead_us = overheads_us[i]});
        for (size_t k = 0; k < TT_ARRAY_COUNT(rhos); k++) {
            set_rho(&setting, rhos[k]);
            assert_true(step_us(&setting, &tt_policy_mg_wfbp) <=
                        1.0001 * step_us(&setting, &tt_policy_fifo));
        }
        setting_fini(&setting);
    }
}

static void test_the_split_uses_both_passes(void **state)
{
    (void)state;
    test_setting setting;
    setting_init(&setting, "resnet101-v1", (tt_wire){.overhead_us = 100});
    set_rho(&setting, 1);
    const double plain_us = step_us(&setting, &tt_policy_fifo);
    assert_true(step_us(&setting, &tt_policy_dear) < 0.95 * plain_us);
    setting_fini(&setting);
}

static void test_caramel_plans_within_boundaries_and_depths(void **state)
{
    (void)state;
    test_setting setting;
    setting_init(&setting, "vgg16", (tt_wire){.overhead_us = 523, .byte_us = 8.57e-4});
    tt_timetable plan;
    plan_of(&setting, &tt_policy_caramel, &plan);
    const uint64_t threshold = 915403; /* 1.5 * 523 / 8.57e-4, rounded up */
    bool has_forward = false;
    for (uint32_t i = 0; i < plan.transfer_count; i++) {
        const tt_transfer *transfer = &plan.transfers[i];
        const uint64_t depth = tt_task_chunk_count(transfer->bytes, transfer->chunk_bytes, 0);
        assert_true(depth <= 8);
        assert_true(depth == 1 || transfer->chunk_bytes >= threshold);
        assert_true(transfer->member_count == 1 || transfer->bytes < 2 * threshold);
        assert_int_equal(transfer->bytes > threshold ? TT_SCHEME_RING : TT_SCHEME_SHUFFLE,
                         transfer->scheme);
        has_forward |= transfer->waits_for_forward;
        /* static order: what goes in backward comes first */
        assert_true(i == 0 || !plan.transfers[i - 1].waits_for_forward ||
                    transfer->waits_for_forward);
    }
    assert_true(has_forward); /* 138 M parameters do not fit into one pass */
    tt_plan_fini(&plan);
    setting_fini(&setting);
}

/* A batch that squeezes others out of their boundaries belongs into the other pass. */
static void test_caramel_fills_both_passes(void **state)
{
    (void)state;
    static const char *const networks[] = {"resnet50-v1", "inception-v3", "resnet101-v2"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(networks); i++) {
        test_setting setting;
        setting_init(&setting, networks[i], (tt_wire){.overhead_us = 50});
        set_rho(&setting, 1);
        assert_true(step_us(&setting, &tt_policy_caramel) <
                    0.9 * step_us(&setting, &tt_policy_fifo));
        setting_fini(&setting);
    }
}

static void test_a_policy_that_cannot_is_refused_in_words(void **state)
{
    (void)state;
    test_setting setting;
    setting_init(&setting, "vgg16", (tt_wire){.overhead_us = 1, .byte_us = 1e-3});
    tt_text why = {0};
    tt_timetable plan;
    setting.input.form = TT_FORM_SERVER;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_policy_run(&tt_policy_dear, &setting.input,
                                                        &tt_allocator_default, &why, &plan));
    assert_non_null(strstr(why.bytes, "with a server use"));
    tt_text_clear(&why);
    setting.input.graph = NULL;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_policy_run(&tt_policy_tac, &setting.input,
                                                        &tt_allocator_default, &why, &plan));
    assert_non_null(strstr(why.bytes, "needs a dataflow graph"));
    setting_fini(&setting);
}

static void test_policies_are_found_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; tt_policy_at(i) != NULL; i++) {
        assert_ptr_equal(tt_policy_at(i), tt_policy_find(tt_policy_at(i)->name));
    }
    assert_null(tt_policy_find("none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_plan_delivers_every_tensor_once),
        cmocka_unit_test(test_batching_and_merging_pay_where_starting_is_expensive),
        cmocka_unit_test(test_merging_never_loses_to_single_tensors),
        cmocka_unit_test(test_the_split_uses_both_passes),
        cmocka_unit_test(test_caramel_plans_within_boundaries_and_depths),
        cmocka_unit_test(test_caramel_fills_both_passes),
        cmocka_unit_test(test_a_policy_that_cannot_is_refused_in_words),
        cmocka_unit_test(test_policies_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
