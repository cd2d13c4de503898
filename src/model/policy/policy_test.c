/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_test.c - one suite for every policy over every network, and the promises of each. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "model/first_use.h"
#include "model/network.h"
#include "model/registry.h"

enum { TENSORS_MAX = 250 };

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
    assert_int_equal(
        TT_OK, tt_network_build(tt_network_find(name), &tt_allocator_default, &why, &forward));
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

/* ---- boundaries ---- */

/* Events of a run so far, in order. */
typedef struct boundary_watch {
    const tt_timetable *plan;
    double *ready_us, *use_us, *end_us; /* by transfer: its boundaries, and the end of its last */
    uint32_t *step;                     /* by transfer: of its last chunk */
    uint32_t now_step;
    double place_us; /* of the computation in that step */
    double slack_us; /* rounding */
} boundary_watch;

static bool is_delivery(const tt_transfer *transfer)
{
    return transfer->kind != TT_TASK_PUSH && transfer->kind != TT_TASK_REDUCE_SCATTER;
}

static void see_computation(boundary_watch *watch, const tt_interval *span)
{
    if (span->step != watch->now_step) {
        watch->now_step = span->step;
        watch->place_us = 0;
    }
    const bool is_checked = span->kind == TT_SPAN_FORWARD && span->step > 0;
    const uint32_t count = is_checked ? watch->plan->transfer_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool is_used = watch->use_us[i] <= watch->place_us + watch->slack_us;
        if (is_delivery(&watch->plan->transfers[i]) && (is_used || watch->plan->keeps_barrier)) {
            assert_int_equal(span->step - 1, watch->step[i]);
            assert_true(watch->end_us[i] <= span->start_us + watch->slack_us);
        }
    }
    watch->place_us += span->end_us - span->start_us;
}

static void see_span(void *user, const tt_interval *span)
{
    boundary_watch *watch = user;
    if (span->kind == TT_SPAN_FORWARD || span->kind == TT_SPAN_BACKWARD) {
        see_computation(watch, span);
        return;
    }
    assert_true(span->step <= watch->now_step);
    assert_true(span->step < watch->now_step ||
                watch->place_us >= watch->ready_us[span->transfer] - watch->slack_us);
    watch->step[span->transfer] = span->step;
    watch->end_us[span->transfer] = span->end_us;
}

static void watch_init(boundary_watch *watch, const tt_timetable *plan, tt_scratch *scratch)
{
    const size_t count = plan->transfer_count;
    const double whole_us = tt_workload_compute_us(plan->workload);
    *watch = (boundary_watch){.plan = plan, .slack_us = 1e-9 * whole_us};
    watch->ready_us = tt_scratch_take(scratch, count, sizeof(double));
    watch->use_us = tt_scratch_take(scratch, count, sizeof(double));
    watch->end_us = tt_scratch_take(scratch, count, sizeof(double));
    watch->step = tt_scratch_take(scratch, count, sizeof(uint32_t));
    assert_int_equal(TT_OK, tt_scratch_status(scratch));
    for (size_t i = 0; i < count; i++) {
        const tt_transfer *transfer = &plan->transfers[i];
        watch->use_us[i] = INFINITY;
        watch->ready_us[i] = transfer->waits_for_forward ? whole_us : 0;
        for (uint32_t k = 0; k < transfer->member_count; k++) {
            const tt_tensor *tensor =
                &plan->workload->tensors[plan->members[transfer->member_first + k]];
            watch->ready_us[i] = fmax(watch->ready_us[i], tensor->ready_us);
            watch->use_us[i] = fmin(watch->use_us[i], tensor->first_use_us);
        }
    }
}

/* No chunk begins before its last gradient is ready, none ends after the first use of its tensors.
 */
static tt_evaluation watch_run(const test_setting *setting, const tt_policy *policy)
{
    tt_text why = {0};
    tt_timetable plan;
    boundary_watch watch;
    tt_scratch scratch;
    tt_evaluation evaluation;
    tt_scratch_init(&scratch, &tt_allocator_default);
    plan_of(setting, policy, &plan);
    watch_init(&watch, &plan, &scratch);
    const tt_evaluate_config config = {.wire = setting->input.wire,
                                       .on_span = see_span,
                                       .user = &watch,
                                       .allocator = &tt_allocator_default};
    assert_int_equal(TT_OK, tt_evaluate(&plan, &config, &why, &evaluation));
    assert_true(watch.now_step > 1);
    tt_plan_fini(&plan);
    tt_scratch_fini(&scratch);
    return evaluation;
}

static void test_every_plan_delivers_every_tensor_once_within_its_boundaries(void **state)
{
    (void)state;
    for (size_t m = 0; tt_network_at(m) != NULL; m++) {
        if (tt_network_at(m)->tensor_count > TENSORS_MAX) {
            continue; /* the boundaries are checked in quadratic time */
        }
        test_setting setting;
        setting_init(&setting, tt_network_at(m)->name, (tt_wire){.overhead_us = 50});
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
                const double found_us = watch_run(&setting, policy).step_us;
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

/* Four layers that fit, the last two into backward, the first two only into the next forward: then
 * nothing waits. */
static void test_batches_that_caramel_can_place_end_before_their_use(void **state)
{
    (void)state;
    const tt_tensor tensors[] = {{.bytes = 4000, .first_use_us = 50, .ready_us = 1200},
                                 {.bytes = 13000, .first_use_us = 250, .ready_us = 1000},
                                 {.bytes = 18000, .first_use_us = 300, .ready_us = 800},
                                 {.bytes = 30000, .first_use_us = 350, .ready_us = 600}};
    test_setting setting = {
        .workload = {.tensors = tensors, .tensor_count = 4, .forward_us = 400, .backward_us = 800}};
    setting.input = (tt_policy_input){.workload = &setting.workload,
                                      .wire = {.overhead_us = 1, .byte_us = 0.01},
                                      .rank_count = 4};
    tt_timetable plan;
    plan_of(&setting, &tt_policy_caramel, &plan);
    assert_int_equal(4, plan.transfer_count);
    for (uint32_t i = 0; i < plan.transfer_count; i++) {
        const uint32_t tensor = plan.members[plan.transfers[i].member_first];
        assert_int_equal(tensor < 2, plan.transfers[i].waits_for_forward);
    }
    tt_plan_fini(&plan);
    assert_true(watch_run(&setting, &tt_policy_caramel).stall_us == 0);
    assert_true(watch_run(&setting, &tt_policy_fifo).stall_us > 0);
}

static void test_caramel_cuts_and_batches_by_the_threshold(void **state)
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
        /* static order: transfers in backward come first */
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

static void test_a_policy_that_does_not_fit_is_refused_with_a_reason(void **state)
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

/* Does the plan change with this chunk or credit? */
static bool is_changed_by(const test_setting *setting, const tt_policy *policy,
                          uint64_t chunk_bytes, uint64_t credit_bytes)
{
    test_setting asked = *setting;
    tt_timetable plans[2];
    plan_of(setting, policy, &plans[0]);
    asked.input.chunk_bytes = chunk_bytes;
    asked.input.credit_bytes = credit_bytes;
    plan_of(&asked, policy, &plans[1]);
    const bool is_changed = plans[0].chunk_bytes != plans[1].chunk_bytes ||
                            plans[0].credit_bytes != plans[1].credit_bytes ||
                            plans[0].transfer_count != plans[1].transfer_count;
    tt_plan_fini(&plans[0]);
    tt_plan_fini(&plans[1]);
    return is_changed;
}

static void test_a_policy_uses_chunk_and_credit_if_its_table_says_so(void **state)
{
    (void)state;
    test_setting setting;
    setting_init(&setting, "vgg16", (tt_wire){.overhead_us = 50});
    set_rho(&setting, 1);
    for (size_t i = 0; tt_policy_at(i) != NULL; i++) {
        const tt_policy *policy = tt_policy_at(i);
        assert_int_equal(policy->takes_chunk, is_changed_by(&setting, policy, 70000, 0));
        assert_int_equal(policy->takes_credit, is_changed_by(&setting, policy, 0, 70000));
    }
    setting_fini(&setting);
}

/* With a server cutting alone lets pull follow push; with all-reduce it gains nothing. */
static void test_slices_are_fifo_but_for_the_cutting(void **state)
{
    (void)state;
    test_setting setting;
    setting_init(&setting, "vgg16", (tt_wire){.overhead_us = 1});
    set_rho(&setting, 2);
    const double whole_us = step_us(&setting, &tt_policy_fifo);
    assert_true(step_us(&setting, &tt_policy_slices) >= whole_us * (1 - 1e-9));
    setting.input.form = TT_FORM_SERVER;
    assert_true(step_us(&setting, &tt_policy_slices) < 0.8 * step_us(&setting, &tt_policy_fifo));
    setting.input.form = TT_FORM_ALLREDUCE;
    setting.input.chunk_bytes = 4096;
    assert_true(step_us(&setting, &tt_policy_fifo) == whole_us); /* stays whole */
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
        cmocka_unit_test(test_every_plan_delivers_every_tensor_once_within_its_boundaries),
        cmocka_unit_test(test_batching_and_merging_pay_where_starting_is_expensive),
        cmocka_unit_test(test_merging_never_loses_to_single_tensors),
        cmocka_unit_test(test_the_split_uses_both_passes),
        cmocka_unit_test(test_batches_that_caramel_can_place_end_before_their_use),
        cmocka_unit_test(test_caramel_cuts_and_batches_by_the_threshold),
        cmocka_unit_test(test_caramel_fills_both_passes),
        cmocka_unit_test(test_a_policy_that_does_not_fit_is_refused_with_a_reason),
        cmocka_unit_test(test_a_policy_uses_chunk_and_credit_if_its_table_says_so),
        cmocka_unit_test(test_slices_are_fifo_but_for_the_cutting),
        cmocka_unit_test(test_policies_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
