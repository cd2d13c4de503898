/* SPDX-License-Identifier: Apache-2.0
 *
 * pacer_test.c - which calls start under credit, in which order, and the counters. */
#include "schedule/pacer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 4, BYTES = 100 };

static tt_pacer pacer;
static tt_paced some[COUNT];

static void begin_test(bool is_fifo, uint64_t credit_bytes)
{
    memset(some, 0, sizeof(some));
    tt_pacer_init(&pacer, is_fifo, &tt_allocator_default);
    tt_pacer_set_credit(&pacer, credit_bytes);
    for (int i = 0; i < COUNT; i++) {
        tt_pacer_enter(&pacer, &some[i]);
    }
}

/* The first is in flight since 10; the others wait, with urgencies 1, 3 and 3. */
static void begin_one(void)
{
    assert_false(tt_pacer_is_short_of_credit(&pacer));
    tt_pacer_charge(&pacer, &some[0], BYTES, 10);
    assert_true(tt_pacer_is_short_of_credit(&pacer));
    for (int i = 1; i < COUNT; i++) {
        assert_true(tt_pacer_hold(&pacer, &some[i], i == 1 ? 1 : 3, 20));
    }
    assert_null(tt_pacer_next(&pacer));
}

static void expect_next(const tt_paced *expected)
{
    tt_paced *next = tt_pacer_next(&pacer);
    assert_ptr_equal(next, expected);
    tt_pacer_charge(&pacer, next, BYTES, 40);
    assert_null(tt_pacer_next(&pacer));
    tt_pacer_over(&pacer, next, 50);
}

static void test_the_most_urgent_starts_next_then_the_oldest(void **state)
{
    (void)state;
    begin_test(false, BYTES);
    begin_one();
    tt_pacer_over(&pacer, &some[0], 30);
    expect_next(&some[2]);
    expect_next(&some[3]);
    expect_next(&some[1]);
    assert_int_equal(pacer.held_count, 3);
    assert_int_equal(pacer.overtaken_count, 1);
    assert_int_equal(pacer.busy_ns, 20 + 3 * 10);
    assert_int_equal(pacer.ended_bytes, COUNT * BYTES);
    tt_pacer_fini(&pacer);
}

static void test_under_fifo_the_oldest_starts_next(void **state)
{
    (void)state;
    begin_test(true, BYTES);
    begin_one();
    tt_pacer_over(&pacer, &some[0], 30);
    for (int i = 1; i < COUNT; i++) {
        expect_next(&some[i]);
    }
    assert_int_equal(pacer.overtaken_count, 0);
    tt_pacer_fini(&pacer);
}

static void test_one_more_starts_when_none_has_ended_for_long(void **state)
{
    (void)state;
    begin_test(false, BYTES);
    begin_one();
    const uint64_t due_ns = tt_pacer_due_ns(&pacer);
    assert_null(tt_pacer_next_overdue(&pacer, due_ns - 1));
    assert_ptr_equal(tt_pacer_next_overdue(&pacer, due_ns), &some[2]);
    tt_pacer_moved(&pacer, due_ns);
    assert_null(tt_pacer_next_overdue(&pacer, due_ns));
    tt_pacer_withdraw(&pacer, &some[1]);
    tt_pacer_over(&pacer, &some[3], 0); /* failed while it waited */
    assert_true(tt_pacer_due_ns(&pacer) == UINT64_MAX);
    tt_pacer_fini(&pacer);
}

static void test_more_credit_starts_more_and_0_is_endless(void **state)
{
    (void)state;
    begin_test(false, 1);
    begin_one();
    tt_pacer_set_credit(&pacer, BYTES + 1);
    tt_paced *next = tt_pacer_next(&pacer);
    assert_non_null(next);
    tt_pacer_charge(&pacer, next, BYTES, 40);
    assert_null(tt_pacer_next(&pacer));
    tt_pacer_set_credit(&pacer, 0);
    assert_false(tt_pacer_is_short_of_credit(&pacer));
    assert_non_null(tt_pacer_next(&pacer));
    assert_non_null(tt_pacer_next(&pacer));
    tt_pacer_fini(&pacer);
}

static void test_short_calls_overtake_up_to_the_room(void **state)
{
    (void)state;
    begin_test(false, 0);
    assert_true(tt_pacer_pass_short(&pacer, &some[0], 60, BYTES));
    assert_false(tt_pacer_pass_short(&pacer, &some[1], 60, BYTES));
    assert_true(tt_pacer_pass_short(&pacer, &some[0], 60, BYTES)); /* still, and not twice */
    tt_pacer_over(&pacer, &some[0], 0);
    assert_true(tt_pacer_pass_short(&pacer, &some[1], 60, BYTES));
    tt_pacer_over(&pacer, &some[1], 0);
    assert_int_equal(pacer.short_bytes, 0);
    tt_pacer_fini(&pacer);
}

static void test_without_memory_a_call_is_not_held(void **state)
{
    (void)state;
    tt_counting_allocator counter = {.fail_at = 1};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    tt_pacer_init(&pacer, false, &allocator);
    memset(some, 0, sizeof(some));
    assert_false(tt_pacer_hold(&pacer, &some[0], 0, 0));
    assert_int_equal(pacer.held_count, 0);
    tt_pacer_charge(&pacer, &some[0], BYTES, 0);
    tt_pacer_over(&pacer, &some[0], 0);
    tt_pacer_fini(&pacer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_most_urgent_starts_next_then_the_oldest),
        cmocka_unit_test(test_under_fifo_the_oldest_starts_next),
        cmocka_unit_test(test_one_more_starts_when_none_has_ended_for_long),
        cmocka_unit_test(test_more_credit_starts_more_and_0_is_endless),
        cmocka_unit_test(test_short_calls_overtake_up_to_the_room),
        cmocka_unit_test(test_without_memory_a_call_is_not_held),
    };
    return cmocka_run_group_tests_name("pacer", tests, NULL, NULL);
}
