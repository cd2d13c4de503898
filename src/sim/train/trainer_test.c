/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer_test.c - the parts of a step add up to it, and are what they are called. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/strategy/launch_times.h"
#include "sim/train/trainer.h"

/* 10 us forward, 30 backward, 1,000 bytes. */
static const tt_tensor tensors[] = {
    {"a", 100, 0, 40}, {"b", 200, 1, 31}, {"c", 300, 2, 29}, {"d", 400, 3, 20}};
static const tt_workload workload = {tensors, 4, 10, 30};
static const tt_wire slow_wire = {.byte_us = 0.1}; /* 100 us for all */

/* All gradients as one, `delay_us` after the last. */
static tt_timetable plan_of(double delay_us)
{
    tt_timetable plan;
    assert_int_equal(tt_plan_init(&plan, &workload, &tt_allocator_default), TT_OK);
    assert_int_equal(
        tt_launch_in_order(&(tt_bucket_rule){.first_bytes = 1000, .bytes = 1000}, &plan), TT_OK);
    assert_int_equal(plan.transfer_count, 1);
    plan.transfers[0].delay_us = delay_us;
    plan.keeps_barrier = true;
    return plan;
}

static void assert_near(double expected, double found)
{
    if (fabs(expected - found) > 1e-9 * fmax(1, fabs(expected))) {
        fail_msg("expected %.12g, found %.12g", expected, found);
    }
}

static tt_training_result train(const tt_training *training)
{
    tt_text why = {.length = 0};
    tt_training_result result;
    assert_int_equal(tt_train(training, &why, &result), TT_OK);
    assert_near(result.step_us, result.compute_us + result.wait_us + result.exposed_us +
                                    result.agreement_us + result.overhead_us + result.input_us);
    return result;
}

static void test_parts_of_a_step_are_what_they_are_called(void **state)
{
    (void)state;
    tt_timetable plan = plan_of(7);
    const tt_training training = {.plan = &plan,
                                  .wire = slow_wire,
                                  .overhead_us = 3,
                                  .step_count = 5,
                                  .allocator = &tt_allocator_default};
    const tt_training_result result = train(&training);
    assert_near(40 + 100 + 7 + 3, result.step_us);
    assert_near(40, result.compute_us);
    assert_near(100, result.exposed_us);
    assert_near(7, result.agreement_us);
    assert_near(3, result.overhead_us);
    assert_near(0, result.wait_us);
    assert_near(0, result.input_us);
    assert_near(result.step_us, result.p5_us);
    assert_near(result.step_us, result.p95_us);
    assert_near(50, result.free_network_us);
    assert_near(143, result.free_control_us);
    assert_near(150, result.without_noise_us);
    tt_plan_fini(&plan);
}

enum { NOISY_STEPS = 40 };

static void no_span(void *user, const tt_interval *span)
{
    (void)user;
    (void)span;
}

static tt_status keep_steps(void *user, const tt_training *training, const double *step_us)
{
    double *kept_us = user;
    memcpy(kept_us, step_us + TT_EVALUATE_SETTLE, training->step_count * sizeof(*kept_us));
    return TT_OK;
}

/* How many steps took at most so long, and less. */
static void count_to(const double *steps_us, double limit_us, uint32_t *at_most, uint32_t *below)
{
    *at_most = *below = 0;
    for (uint32_t i = 0; i < NOISY_STEPS; i++) {
        *at_most += steps_us[i] <= limit_us + 1e-9;
        *below += steps_us[i] < limit_us - 1e-9;
    }
}

static void test_percentiles_are_those_of_the_steps(void **state)
{
    (void)state;
    double steps_us[NOISY_STEPS], sum_us = 0;
    uint32_t at_most, below;
    tt_timetable plan = plan_of(7);
    const tt_rank_noise noise = {.seed = 11, .rank_count = 8, .spread = 0.2};
    const tt_training_watch watch = {.on_span = no_span, .over = keep_steps, .user = steps_us};
    const tt_training training = {.plan = &plan,
                                  .wire = slow_wire,
                                  .noise = &noise,
                                  .step_count = NOISY_STEPS,
                                  .watch = &watch,
                                  .allocator = &tt_allocator_default};
    const tt_training_result result = train(&training);
    for (uint32_t i = 0; i < NOISY_STEPS; i++) {
        sum_us += steps_us[i];
    }
    assert_near(sum_us / NOISY_STEPS, result.step_us);
    count_to(steps_us, result.p5_us, &at_most, &below);
    assert_true(at_most >= NOISY_STEPS / 20 && below < NOISY_STEPS / 20);
    count_to(steps_us, result.p95_us, &at_most, &below);
    assert_true(at_most >= NOISY_STEPS * 19 / 20 && below < NOISY_STEPS * 19 / 20);
    assert_true(result.p5_us < result.p95_us);
    tt_plan_fini(&plan);
}

static void test_a_step_waits_for_its_samples(void **state)
{
    (void)state;
    tt_timetable plan = plan_of(0);
    tt_training training = {.plan = &plan,
                            .wire = slow_wire,
                            .input_us = 200,
                            .step_count = 1,
                            .allocator = &tt_allocator_default};
    tt_training_result result = train(&training);
    assert_near(200, result.step_us);
    assert_near(60, result.input_us);
    assert_near(200, result.free_network_us); /* no network makes it shorter */
    training.input_us = 100;
    result = train(&training);
    assert_near(140, result.step_us);
    assert_near(0, result.input_us);
    tt_plan_fini(&plan);
}

static void test_all_wait_for_a_slow_rank(void **state)
{
    (void)state;
    const tt_slow_rank slow = {3, 1.5};
    const tt_rank_noise noise = {.rank_count = 4, .slow = &slow, .slow_count = 1};
    tt_timetable plan = plan_of(0);
    const tt_training training = {.plan = &plan,
                                  .wire = slow_wire,
                                  .noise = &noise,
                                  .step_count = 3,
                                  .allocator = &tt_allocator_default};
    const tt_training_result result = train(&training);
    assert_near(60 + 100, result.step_us);
    assert_near((3 * 40 + 60) / 4.0, result.compute_us);
    assert_near(15, result.wait_us);
    assert_near(140, result.without_noise_us);
    tt_plan_fini(&plan);
}

static void test_steps_vary_as_the_slowest_rank_does(void **state)
{
    (void)state;
    const tt_rank_noise noise = {.seed = 4, .rank_count = 512, .spread = 0.1};
    tt_timetable plan = plan_of(0);
    const tt_training training = {.plan = &plan,
                                  .wire = slow_wire,
                                  .noise = &noise,
                                  .step_count = 100,
                                  .allocator = &tt_allocator_default};
    const tt_training_result result = train(&training), again = train(&training);
    /* the largest of 512 normal values is 3 deviations above the mean */
    assert_true(result.wait_us > 0.1 * 40 * 2.7 && result.wait_us < 0.1 * 40 * 3.7);
    assert_true(result.p5_us < result.step_us && result.step_us < result.p95_us);
    assert_memory_equal(&result, &again, sizeof(result));
    tt_plan_fini(&plan);
}

static void test_out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    tt_timetable plan = plan_of(1);
    for (uint64_t fail_at = 1; fail_at < 80; fail_at++) {
        tt_counting_allocator counter = {.fail_at = fail_at};
        const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
        const tt_training training = {
            .plan = &plan, .wire = slow_wire, .step_count = 2, .allocator = &allocator};
        tt_text why = {.length = 0};
        tt_training_result result;
        const tt_status status = tt_train(&training, &why, &result);
        assert_int_equal(0, counter.live_count);
        assert_int_equal(counter.allocation_count >= fail_at ? TT_ERR_NO_MEMORY : TT_OK, status);
    }
    tt_plan_fini(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_a_step_are_what_they_are_called),
        cmocka_unit_test(test_percentiles_are_those_of_the_steps),
        cmocka_unit_test(test_a_step_waits_for_its_samples),
        cmocka_unit_test(test_all_wait_for_a_slow_rank),
        cmocka_unit_test(test_steps_vary_as_the_slowest_rank_does),
        cmocka_unit_test(test_out_of_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
