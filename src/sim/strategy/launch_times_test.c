/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_times_test.c - what is launched when, on steps that can be followed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/strategy/launch_times.h"

/* Backward reaches d first, at 20. */
static const tt_tensor tensors[] = {
    {"a", 100, 0, 40}, {"b", 200, 1, 31}, {"c", 300, 2, 29}, {"d", 400, 3, 20}};
static const tt_workload workload = {tensors, 4, 10, 30};

/* 1 us, and a fourth for each tensor. */
static double agree(const void *user, uint32_t tensor_count)
{
    (void)user;
    return 1 + tensor_count / 4.0;
}

static tt_timetable begin(void)
{
    tt_timetable plan;
    assert_int_equal(tt_plan_init(&plan, &workload, &tt_allocator_default), TT_OK);
    return plan;
}

static void expect(const tt_timetable *plan, uint32_t index, const char *names, double launch_us)
{
    char found[8] = "";
    assert_true(index < plan->transfer_count);
    const tt_transfer *transfer = &plan->transfers[index];
    for (uint32_t i = 0; i < transfer->member_count; i++) {
        (void)strncat(found, tensors[plan->members[transfer->member_first + i]].name, 1);
    }
    assert_string_equal(names, found);
    const double launched_us = tt_policy_ready_us(plan, transfer) + transfer->delay_us;
    if (fabs(launched_us - launch_us) > 1e-9) {
        fail_msg("%s is launched at %g, not at %g", names, launched_us, launch_us);
    }
}

static void end(tt_timetable *plan, uint32_t transfers)
{
    assert_int_equal(plan->transfer_count, transfers);
    assert_true(tt_plan_is_sound(plan));
    tt_plan_fini(plan);
}

/* Cycles begin at 22, 26, 30, 34, 38 and 42. */
static void test_a_cycle_launches_what_is_ready_when_it_begins(void **state)
{
    (void)state;
    tt_timetable plan = begin();
    const tt_cycle_rule rule = {.cycle_us = 4, .fusion_bytes = 1000, .agree_us = agree};
    assert_int_equal(tt_launch_by_cycles(&rule, &plan), TT_OK);
    expect(&plan, 0, "d", 22 + 1.25);
    expect(&plan, 1, "c", 30 + 1.25);
    expect(&plan, 2, "b", 34 + 1.25);
    expect(&plan, 3, "a", 42 + 1.25);
    end(&plan, 4);
}

/* They begin at 30, 50. */
static void test_tensors_of_a_cycle_are_fused_up_to_the_limit(void **state)
{
    (void)state;
    tt_timetable plan = begin();
    const tt_cycle_rule rule = {.cycle_us = 20, .fusion_bytes = 700, .agree_us = agree};
    assert_int_equal(tt_launch_by_cycles(&rule, &plan), TT_OK);
    expect(&plan, 0, "dc", 30 + 1.5);
    expect(&plan, 1, "ba", 50 + 1.5);
    end(&plan, 2);
    plan = begin();
    const tt_cycle_rule small = {.cycle_us = 20, .fusion_bytes = 350, .agree_us = agree};
    assert_int_equal(tt_launch_by_cycles(&small, &plan), TT_OK);
    expect(&plan, 0, "d", 30 + 1.5); /* longer than the limit */
    expect(&plan, 1, "c", 30 + 1.5);
    expect(&plan, 2, "ba", 50 + 1.5);
    end(&plan, 3);
}

/* Agreeing takes longer than a cycle: the next one begins when it is over. */
static double agree_slowly(const void *user, uint32_t tensor_count)
{
    (void)user, (void)tensor_count;
    return 9.5;
}

static void test_a_thread_that_agrees_begins_no_cycle(void **state)
{
    (void)state;
    tt_timetable plan = begin();
    const tt_cycle_rule rule = {.cycle_us = 4, .fusion_bytes = 1000, .agree_us = agree_slowly};
    assert_int_equal(tt_launch_by_cycles(&rule, &plan), TT_OK);
    expect(&plan, 0, "d", 31.5);
    expect(&plan, 1, "cb", 41);
    expect(&plan, 2, "a", 50.5);
    end(&plan, 3);
}

/* 10 us for an exchange of 300 bytes: the thread waits for each before it launches the next. */
static double exchange(const void *user, uint64_t bytes)
{
    (void)user;
    return (double)bytes / 30;
}

static void test_a_thread_that_exchanges_begins_no_cycle(void **state)
{
    (void)state;
    tt_timetable plan = begin();
    const tt_cycle_rule rule = {
        .cycle_us = 4, .fusion_bytes = 350, .agree_us = agree, .exchange_us = exchange};
    assert_int_equal(tt_launch_by_cycles(&rule, &plan), TT_OK);
    const double second = 23.25 + 400 / 30.0;
    expect(&plan, 0, "d", 23.25);
    expect(&plan, 1, "c", second + 1.5); /* with b, which does not fit beside it */
    expect(&plan, 2, "b", second + 1.5 + 10);
    expect(&plan, 3, "a", second + 1.5 + 10 + 200 / 30.0 + 1.25);
    end(&plan, 4);
}

/* Rounds of 9.5 us, the first when there is a tensor. */
static void test_rounds_follow_each_other_while_there_are_tensors(void **state)
{
    (void)state;
    double agreed_us[4];
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    const tt_cycle_rule rule = {.agree_us = agree_slowly};
    assert_int_equal(tt_agreed_by_cycles(&rule, &workload, &scratch, agreed_us), TT_OK);
    tt_scratch_fini(&scratch);
    static const double expected_us[4] = {58, 48.5, 39, 29.5}; /* c is ready at 29, b at 31 */
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(agreed_us[i] - expected_us[i]) < 1e-9);
    }
}

static void test_a_group_is_requested_when_all_its_members_are_ready(void **state)
{
    (void)state;
    tt_timetable plan = begin();
    const tt_cycle_rule rule = {
        .cycle_us = 4, .fusion_bytes = 1000, .group_count = 2, .agree_us = agree};
    assert_int_equal(tt_launch_by_cycles(&rule, &plan), TT_OK);
    expect(&plan, 0, "dc", 31 + 1.5); /* ready at 29, half a cycle later */
    expect(&plan, 1, "ba", 43 + 1.5); /* ready at 40; cycles begin at 35, 39, 43 */
    end(&plan, 2);
    plan = begin();
    const tt_cycle_rule one = {
        .cycle_us = 4, .fusion_bytes = 600, .group_count = 1, .agree_us = agree};
    assert_int_equal(tt_launch_by_cycles(&one, &plan), TT_OK);
    expect(&plan, 0, "d", 42 + 2); /* a group beyond the limit is split */
    expect(&plan, 1, "cba", 42 + 2);
    end(&plan, 2);
}

static void test_buckets_are_launched_in_their_order(void **state)
{
    (void)state;
    tt_timetable plan = begin();
    assert_int_equal(tt_launch_in_order(&(tt_bucket_rule){.first_bytes = 100, .bytes = 450}, &plan),
                     TT_OK);
    expect(&plan, 0, "d", 20);
    expect(&plan, 1, "cb", 31);
    expect(&plan, 2, "a", 40);
    end(&plan, 3);
}

static void test_a_late_bucket_delays_those_behind_it(void **state)
{
    (void)state;
    static const tt_tensor odd[] = {{"a", 10, 0, 20}, {"b", 10, 0, 40}};
    static const tt_workload late = {odd, 2, 10, 30};
    tt_timetable plan;
    assert_int_equal(tt_plan_init(&plan, &late, &tt_allocator_default), TT_OK);
    assert_int_equal(tt_launch_in_order(&(tt_bucket_rule){.first_bytes = 1, .bytes = 1}, &plan),
                     TT_OK);
    assert_true(plan.transfers[0].delay_us <= 0);
    assert_true(fabs(plan.transfers[1].delay_us - 20) < 1e-9);
    tt_plan_fini(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cycle_launches_what_is_ready_when_it_begins),
        cmocka_unit_test(test_tensors_of_a_cycle_are_fused_up_to_the_limit),
        cmocka_unit_test(test_a_thread_that_agrees_begins_no_cycle),
        cmocka_unit_test(test_a_thread_that_exchanges_begins_no_cycle),
        cmocka_unit_test(test_rounds_follow_each_other_while_there_are_tensors),
        cmocka_unit_test(test_a_group_is_requested_when_all_its_members_are_ready),
        cmocka_unit_test(test_buckets_are_launched_in_their_order),
        cmocka_unit_test(test_a_late_bucket_delays_those_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
