/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate_test.c - steps whose length is known by hand, and bounds that no schedule can beat.
 *
 * The golden example: three layers of 3, 6 and 3 units, forward and backward 2 units each. With a
 * server a plain step takes 26 units and a scheduled one 18; with all-reduce 20 and 17. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/philox.h"
#include "model/registry.h"

enum {
    UNIT = 1000,
    TENSORS_MAX = 40,
};

static const tt_tensor golden_tensors[] = {
    {"layer0", 3 * UNIT, 0, 12},
    {"layer1", 6 * UNIT, 2, 10},
    {"layer2", 3 * UNIT, 4, 8},
};
static const tt_workload golden = {golden_tensors, 3, 6, 6};
static const tt_wire unit_wire = {.byte_us = 1.0 / UNIT};

static tt_policy_input input_of(const tt_workload *workload, tt_plan_form form, tt_wire wire)
{
    return (tt_policy_input){.workload = workload, .form = form, .wire = wire, .rank_count = 4};
}

static tt_evaluation evaluate(const tt_policy *policy, const tt_policy_input *input,
                              bool keeps_barrier)
{
    tt_text why = {0};
    tt_timetable plan;
    assert_int_equal(TT_OK, tt_policy_run(policy, input, &tt_allocator_default, &why, &plan));
    plan.keeps_barrier = keeps_barrier;
    const tt_evaluate_config config = {.wire = input->wire, .allocator = &tt_allocator_default};
    tt_evaluation evaluation;
    assert_int_equal(TT_OK, tt_evaluate(&plan, &config, &why, &evaluation));
    tt_plan_fini(&plan);
    return evaluation;
}

static void assert_near(double expected, double found)
{
    if (fabs(expected - found) > 1e-6 * fabs(expected)) {
        fail_msg("expected %g, found %g", expected, found);
    }
}

static void test_the_golden_example_with_a_server_takes_26_and_18_units(void **state)
{
    (void)state;
    tt_policy_input input = input_of(&golden, TT_FORM_SERVER, unit_wire);
    assert_near(26, evaluate(&tt_policy_fifo, &input, false).step_us);
    input.chunk_bytes = UNIT;
    input.credit_bytes = UNIT;
    assert_near(18, evaluate(&tt_policy_priority, &input, false).step_us);
}

static void test_the_golden_example_with_all_reduce_takes_20_and_17_units(void **state)
{
    (void)state;
    tt_policy_input input = input_of(&golden, TT_FORM_ALLREDUCE, unit_wire);
    assert_near(20, evaluate(&tt_policy_fifo, &input, false).step_us);
    input.chunk_bytes = UNIT;
    input.credit_bytes = UNIT;
    assert_near(17, evaluate(&tt_policy_priority, &input, false).step_us);
    double ideal_us;
    assert_int_equal(TT_OK,
                     tt_evaluate_fluid(&golden, 1.0 / UNIT, &tt_allocator_default, &ideal_us));
    assert_near(17, ideal_us);
}

/* Equal layers, forward to backward as 1 to 2, network as long as computation. */
static void even_workload(tt_workload *workload, tt_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tensors[i] = (tt_tensor){.bytes = 3 * UNIT,
                                 .first_use_us = (double)i,
                                 .ready_us = (double)(3 * count) - 2.0 * (double)i};
    }
    *workload = (tt_workload){tensors, count, (double)count, 2.0 * (double)count};
}

static void test_priority_and_crossing_gain_only_together(void **state)
{
    (void)state;
    tt_tensor tensors[20];
    tt_workload workload;
    even_workload(&workload, tensors, 20);
    tt_policy_input input = input_of(&workload, TT_FORM_ALLREDUCE, unit_wire);
    input.chunk_bytes = UNIT / 10;
    input.credit_bytes = UNIT / 10;
    const double base_us = evaluate(&tt_policy_fifo, &input, true).step_us;
    assert_near(base_us, evaluate(&tt_policy_fifo, &input, false).step_us);
    assert_near(base_us, evaluate(&tt_policy_priority, &input, true).step_us);
    const double both_us = evaluate(&tt_policy_priority, &input, false).step_us;
    assert_true(base_us / both_us > 1.25);
    assert_true(base_us / both_us <= 4.0 / 3.0 + 1e-9); /* 1 + forward / compute */
}

/* Forward and backward 6 units each, all gradients together 12 units of network behind them. */
static void test_what_is_not_agreed_yet_is_not_sent(void **state)
{
    (void)state;
    tt_text why = {0};
    tt_timetable plan;
    const tt_policy_input input = input_of(&golden, TT_FORM_ALLREDUCE, unit_wire);
    assert_int_equal(
        TT_OK, tt_policy_run(&tt_policy_buckets_25, &input, &tt_allocator_default, &why, &plan));
    assert_int_equal(plan.transfer_count, 1);
    plan.keeps_barrier = true;
    const tt_evaluate_config config = {.wire = unit_wire, .allocator = &tt_allocator_default};
    tt_evaluation evaluation;
    for (int delay = 0; delay < 3; delay++) {
        plan.transfers[0].delay_us = 2.5 * delay;
        assert_int_equal(TT_OK, tt_evaluate(&plan, &config, &why, &evaluation));
        assert_near(24 + 2.5 * delay, evaluation.step_us);
    }
    tt_plan_fini(&plan);
}

static void test_steps_compute_as_long_as_their_scales_say(void **state)
{
    (void)state;
    enum { STEPS = 7 };
    static const double scales[STEPS] = {1, 2, 1, 1, 3, 1, 2};
    tt_text why = {0};
    tt_timetable plan;
    double steps_us[STEPS];
    const tt_policy_input input = input_of(&golden, TT_FORM_ALLREDUCE, unit_wire);
    assert_int_equal(
        TT_OK, tt_policy_run(&tt_policy_buckets_25, &input, &tt_allocator_default, &why, &plan));
    plan.keeps_barrier = true;
    const tt_evaluate_config config = {.wire = unit_wire,
                                       .allocator = &tt_allocator_default,
                                       .step_count = STEPS,
                                       .scales = scales,
                                       .step_us_out = steps_us};
    tt_evaluation evaluation;
    assert_int_equal(TT_OK, tt_evaluate(&plan, &config, &why, &evaluation));
    for (int i = 0; i < STEPS; i++) {
        /* the network of a step lies in the next one: nothing is sent before the first */
        assert_near(12 * scales[i] + (i > 0 ? 12 : 0), steps_us[i]);
    }
    assert_near((48.0 + 24 + 36) / 3, evaluation.step_us); /* of the last three */
    assert_near(24, evaluation.compute_us);
    tt_plan_fini(&plan);
}

/* 1 us up to 1,000 bytes, 5 beyond. */
static tt_wire_cost stairs(void *user, uint64_t bytes)
{
    const double *low_us = user;
    return (tt_wire_cost){bytes <= 1000 ? *low_us : 5, 0.5};
}

static void test_a_wire_may_be_any_function_of_bytes(void **state)
{
    (void)state;
    double low_us = 1;
    static const tt_tensor tensors[] = {{"a", 1000, 0, 20}, {"b", 3000, 1, 15}};
    static const tt_workload workload = {tensors, 2, 10, 10};
    const tt_wire wire = {.cost = stairs, .user = &low_us};
    assert_near(1.5, tt_wire_time_us(&wire, TT_TASK_ALLREDUCE, 1000));
    assert_near(2.5, tt_wire_cost_of(&wire, TT_TASK_ALL_GATHER, 3000).hold_us);
    tt_policy_input input = input_of(&workload, TT_FORM_ALLREDUCE, wire);
    /* b from 15 to 20, a behind it to 21; the last is acknowledged at 21.5 */
    assert_near(21.5, evaluate(&tt_policy_fifo, &input, true).step_us);
    input.chunk_bytes = 1000;
    input.credit_bytes = 4000;
    /* three chunks of b until 18, a from 20 to 21 */
    assert_near(21.5, evaluate(&tt_policy_slices, &input, true).step_us);
}

static void test_overlap_figures_follow_their_definitions(void **state)
{
    (void)state;
    tt_evaluation evaluation = {.stall_us = 0};
    tt_overlap(6, 12, 15, &evaluation);
    assert_near(0.5, evaluation.rho);
    assert_near(0.5, evaluation.alpha);
    assert_near(0.8, evaluation.utilisation);
    assert_near(1 / (1 + evaluation.rho - evaluation.alpha * fmin(evaluation.rho, 1)),
                evaluation.utilisation);
    assert_near(0.5, evaluation.efficiency);
    assert_near(0, tt_overlap_efficiency(18, 12, 18)); /* all of it serial */
    assert_near(1, tt_overlap_efficiency(18, 12, 12)); /* the busiest never waits */
    assert_near(1, tt_overlap_efficiency(12, 12, 12)); /* nothing could run beside it */
}

/* 12 units of computation, 12 each way to a server: 36 in a row, 12 at best. */
static void test_the_efficiency_is_that_of_the_evaluated_step(void **state)
{
    (void)state;
    tt_policy_input input = input_of(&golden, TT_FORM_SERVER, unit_wire);
    const tt_evaluation whole = evaluate(&tt_policy_fifo, &input, false);
    assert_near((36.0 - 26) / (36 - 12), whole.efficiency);
    assert_near((24.0 - 26) / 12, whole.alpha);
    input.chunk_bytes = UNIT;
    input.credit_bytes = UNIT;
    assert_near((36.0 - 18) / (36 - 12), evaluate(&tt_policy_priority, &input, false).efficiency);
    input.form = TT_FORM_ALLREDUCE;
    const tt_evaluation reduced = evaluate(&tt_policy_priority, &input, false);
    assert_near((24.0 - 17) / 12, reduced.efficiency);
    assert_near(reduced.alpha, reduced.efficiency); /* one wire */
}

static void random_workload(tt_random *random, tt_workload *workload, tt_tensor *tensors)
{
    const size_t count = 1 + tt_random_below(random, TENSORS_MAX);
    *workload = (tt_workload){tensors, count, 10 + 90 * tt_random_real(random),
                              10 + 190 * tt_random_real(random)};
    for (size_t i = 0; i < count; i++) {
        tensors[i] = (tt_tensor){.bytes = tt_random_below(random, 20 * UNIT),
                                 .first_use_us = workload->forward_us * tt_random_real(random),
                                 .ready_us = workload->forward_us +
                                             workload->backward_us * tt_random_real(random)};
    }
}

static void test_no_policy_beats_the_bounds_or_the_fluid_ideal(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS_MAX];
    for (uint64_t seed = 0; seed < 60; seed++) {
        tt_random random;
        tt_random_init(&random, seed, 0);
        tt_workload workload;
        random_workload(&random, &workload, tensors);
        tt_policy_input input = input_of(&workload, TT_FORM_ALLREDUCE, unit_wire);
        input.wire.overhead_us = tt_random_real(&random);
        input.wire.latency_us = tt_random_real(&random);
        input.chunk_bytes = UNIT;
        double ideal_us;
        assert_int_equal(TT_OK, tt_evaluate_fluid(&workload, unit_wire.byte_us,
                                                  &tt_allocator_default, &ideal_us));
        for (size_t i = 0; tt_policy_at(i) != NULL; i++) {
            if (tt_policy_at(i)->needs_graph) {
                continue;
            }
            const tt_evaluation found = evaluate(tt_policy_at(i), &input, false);
            assert_true(found.step_us >= found.compute_us * (1 - 1e-9));
            assert_true(found.step_us >= found.network_us * (1 - 1e-9));
            assert_true(found.step_us >= ideal_us * (1 - 1e-9));
            assert_true(found.alpha <= 1 + 1e-9);
        }
    }
}

static void test_scheduling_costs_nothing_where_it_cannot_help(void **state)
{
    (void)state;
    tt_tensor tensors[20];
    tt_workload workload;
    even_workload(&workload, tensors, 20);
    const tt_wire fast = {.byte_us = 0.1 / UNIT, .overhead_us = 0.001};
    tt_policy_input input = input_of(&workload, TT_FORM_ALLREDUCE, fast);
    const double plain_us = evaluate(&tt_policy_fifo, &input, false).step_us;
    assert_true(evaluate(&tt_policy_priority, &input, false).step_us <= 1.01 * plain_us);
}

static void test_small_credit_shows_the_latency(void **state)
{
    (void)state;
    tt_tensor tensors[20];
    tt_workload workload;
    even_workload(&workload, tensors, 20);
    const tt_wire far = {.byte_us = 1.0 / UNIT, .latency_us = 0.5};
    tt_policy_input input = input_of(&workload, TT_FORM_ALLREDUCE, far);
    input.chunk_bytes = UNIT / 4;
    input.credit_bytes = UNIT;
    const double window_us = evaluate(&tt_policy_priority, &input, false).step_us;
    input.credit_bytes = TT_CREDIT_STOP_AND_WAIT;
    assert_true(evaluate(&tt_policy_priority, &input, false).step_us > 2 * window_us);
}

static void test_invalid_steps_are_refused_with_a_reason(void **state)
{
    (void)state;
    tt_text why = {0};
    tt_timetable plan;
    tt_workload empty = {NULL, 0, 1, 1};
    tt_policy_input input = input_of(&empty, TT_FORM_ALLREDUCE, unit_wire);
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_policy_run(&tt_policy_fifo, &input, &tt_allocator_default, &why, &plan));
    assert_non_null(strstr(why.bytes, "no tensor"));
    const tt_tensor late = {"w", 4, 1, 99};
    tt_workload wrong = {&late, 1, 2, 3};
    tt_text_clear(&why);
    input.workload = &wrong;
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_policy_run(&tt_policy_fifo, &input, &tt_allocator_default, &why, &plan));
    assert_non_null(strstr(why.bytes, "\"w\" is ready at 99"));
    wrong.backward_us = -1;
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_policy_run(&tt_policy_fifo, &input, &tt_allocator_default, &why, &plan));
    assert_non_null(strstr(why.bytes, "must not be negative"));
    input.workload = &golden;
    input.wire.byte_us = -1;
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_policy_run(&tt_policy_fifo, &input, &tt_allocator_default, &why, &plan));
}

static void test_too_many_chunks_are_refused_with_a_reason(void **state)
{
    (void)state;
    const tt_tensor large = {"w", UINT64_C(1) << 40, 0, 5};
    const tt_workload workload = {&large, 1, 2, 3};
    tt_policy_input input = input_of(&workload, TT_FORM_ALLREDUCE, unit_wire);
    input.chunk_bytes = 1;
    tt_text why = {0};
    tt_timetable plan;
    assert_int_equal(
        TT_OK, tt_policy_run(&tt_policy_priority, &input, &tt_allocator_default, &why, &plan));
    const tt_evaluate_config config = {.wire = unit_wire, .allocator = &tt_allocator_default};
    tt_evaluation evaluation;
    assert_int_equal(TT_ERR_NO_RESOURCE, tt_evaluate(&plan, &config, &why, &evaluation));
    assert_non_null(strstr(why.bytes, "use larger ones"));
    tt_plan_fini(&plan);
}

static void test_out_of_memory_leaks_nothing(void **state)
{
    (void)state;
    const tt_policy_input input = input_of(&golden, TT_FORM_SERVER, unit_wire);
    for (uint64_t fail_at = 1; fail_at < 60; fail_at++) {
        tt_counting_allocator counter = {.fail_at = fail_at};
        const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
        tt_text why = {0};
        tt_timetable plan;
        tt_status status = tt_policy_run(&tt_policy_priority, &input, &allocator, &why, &plan);
        if (status == TT_OK) {
            const tt_evaluate_config config = {.wire = unit_wire, .allocator = &allocator};
            tt_evaluation evaluation;
            status = tt_evaluate(&plan, &config, &why, &evaluation);
            tt_plan_fini(&plan);
        }
        assert_int_equal(0, counter.live_count);
        assert_int_equal(counter.allocation_count >= fail_at ? TT_ERR_NO_MEMORY : TT_OK, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_golden_example_with_a_server_takes_26_and_18_units),
        cmocka_unit_test(test_the_golden_example_with_all_reduce_takes_20_and_17_units),
        cmocka_unit_test(test_priority_and_crossing_gain_only_together),
        cmocka_unit_test(test_what_is_not_agreed_yet_is_not_sent),
        cmocka_unit_test(test_steps_compute_as_long_as_their_scales_say),
        cmocka_unit_test(test_a_wire_may_be_any_function_of_bytes),
        cmocka_unit_test(test_overlap_figures_follow_their_definitions),
        cmocka_unit_test(test_the_efficiency_is_that_of_the_evaluated_step),
        cmocka_unit_test(test_no_policy_beats_the_bounds_or_the_fluid_ideal),
        cmocka_unit_test(test_scheduling_costs_nothing_where_it_cannot_help),
        cmocka_unit_test(test_small_credit_shows_the_latency),
        cmocka_unit_test(test_invalid_steps_are_refused_with_a_reason),
        cmocka_unit_test(test_too_many_chunks_are_refused_with_a_reason),
        cmocka_unit_test(test_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
