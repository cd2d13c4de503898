/* SPDX-License-Identifier: Apache-2.0
 *
 * costs_test.c - times follow from the lines of the table, and its text is checked line by line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "tune/tune.h"

#define TITLE "tutti costs 1\n"

static tt_cost make_cost(const char *algorithm, uint64_t bytes_max, uint64_t alpha_ns,
                         uint64_t beta)
{
    tt_cost cost = {.bytes_max = bytes_max, .alpha_ns = alpha_ns, .beta = beta};
    assert_true(tt_cost_key_make(&cost.key, "allreduce", algorithm, "shm", 4));
    return cost;
}

static uint64_t time_of(const tt_costs *costs, const char *algorithm, uint64_t bytes)
{
    tt_cost_key key;
    uint64_t time_ns = 0;
    assert_true(tt_cost_key_make(&key, "allreduce", algorithm, "shm", 4));
    assert_true(tt_costs_time(costs, &key, bytes, &time_ns));
    return time_ns;
}

static void expect_refused(const char *text, const char *reason)
{
    static tt_costs costs;
    tt_text why = {0};
    assert_int_equal(tt_costs_parse(text, strlen(text), &costs, &why), TT_ERR_BAD_CONFIG);
    assert_int_equal(costs.line_count, 0);
    if (strstr(why.bytes, reason) == NULL) {
        fail_msg("'%s' does not contain '%s'", why.bytes, reason);
    }
}

static void test_a_time_is_alpha_and_beta_times_bytes(void **state)
{
    (void)state;
    static tt_costs costs;
    const tt_cost cost = make_cost("ring", TT_COSTS_ANY_BYTES, 1000, 2048);
    costs.line_count = 0;
    assert_int_equal(tt_costs_put(&costs, &cost), TT_OK);
    assert_int_equal(time_of(&costs, "ring", 0), 1000);
    assert_int_equal(time_of(&costs, "ring", 1 << 20), 1000 + 2048);
    assert_int_equal(time_of(&costs, "ring", 3 << 19), 1000 + 3072);
    assert_int_equal(time_of(&costs, "ring", 512), 1000 + 1);
}

static void test_the_narrowest_band_that_holds_a_size_decides(void **state)
{
    (void)state;
    static tt_costs costs;
    const tt_cost bands[] = {make_cost("ring", TT_COSTS_ANY_BYTES, 9, 0),
                             make_cost("ring", 4096, 5, 0), make_cost("ring", 64, 1, 0)};
    costs.line_count = 0;
    for (size_t i = 0; i < TT_ARRAY_COUNT(bands); i++) {
        assert_int_equal(tt_costs_put(&costs, &bands[i]), TT_OK);
    }
    assert_int_equal(time_of(&costs, "ring", 64), 1);
    assert_int_equal(time_of(&costs, "ring", 65), 5);
    assert_int_equal(time_of(&costs, "ring", 4097), 9);
    assert_int_equal(time_of(&costs, "ring", UINT64_MAX), 9);
}

static void test_a_size_that_was_not_measured_has_no_time(void **state)
{
    (void)state;
    static tt_costs costs;
    tt_cost_key key;
    uint64_t time_ns = 7;
    const tt_cost cost = make_cost("ring", 100, 1, 1);
    costs.line_count = 0;
    assert_int_equal(tt_costs_put(&costs, &cost), TT_OK);
    assert_false(tt_costs_time(&costs, &cost.key, 101, &time_ns));
    assert_true(tt_cost_key_make(&key, "allreduce", "flat", "shm", 4));
    assert_false(tt_costs_time(&costs, &key, 1, &time_ns));
    assert_false(tt_costs_guess(&costs, &key, 1, &time_ns));
    assert_int_equal(time_ns, 7);
    assert_true(tt_costs_cover(&costs, "shm", 4));
    assert_false(tt_costs_cover(&costs, "shm", 5));
    assert_false(tt_costs_cover(&costs, "lo", 4));
}

static void test_a_guess_extends_the_last_line(void **state)
{
    (void)state;
    static tt_costs costs;
    uint64_t time_ns = 0;
    const tt_cost bands[] = {make_cost("ring", 4096, 5, 0), make_cost("ring", 1 << 20, 9, 100)};
    costs.line_count = 0;
    for (size_t i = 0; i < TT_ARRAY_COUNT(bands); i++) {
        assert_int_equal(tt_costs_put(&costs, &bands[i]), TT_OK);
    }
    assert_true(tt_costs_guess(&costs, &bands[0].key, 4096, &time_ns));
    assert_int_equal(time_ns, 5);
    assert_true(tt_costs_guess(&costs, &bands[0].key, 8 << 20, &time_ns));
    assert_int_equal(time_ns, 9 + 800);
    assert_false(tt_costs_time(&costs, &bands[0].key, 8 << 20, &time_ns));
}

static void test_a_line_with_the_same_key_is_replaced(void **state)
{
    (void)state;
    static tt_costs costs;
    const tt_cost first = make_cost("ring", 100, 1, 0);
    const tt_cost second = make_cost("ring", 100, 2, 0);
    costs.line_count = 0;
    assert_int_equal(tt_costs_put(&costs, &first), TT_OK);
    assert_int_equal(tt_costs_put(&costs, &second), TT_OK);
    assert_int_equal(costs.line_count, 1);
    assert_int_equal(time_of(&costs, "ring", 1), 2);
}

static void test_a_full_table_refuses_lines(void **state)
{
    (void)state;
    static tt_costs costs;
    static char text[TT_COSTS_TEXT_BYTES_MAX];
    tt_cost cost = make_cost("hierarchical-abcdef", 0, TT_COSTS_ALPHA_MAX, TT_COSTS_BETA_MAX);
    costs.line_count = 0;
    cost.key.rank_count = UINT32_MAX;
    for (uint64_t i = 0; i < TT_COSTS_LINES_MAX; i++) {
        cost.bytes_max = UINT64_MAX - 1 - i;
        assert_int_equal(tt_costs_put(&costs, &cost), TT_OK);
    }
    cost.bytes_max = 5;
    assert_int_equal(tt_costs_put(&costs, &cost), TT_ERR_NO_RESOURCE);
    assert_true(tt_costs_format(&costs, text) <= sizeof(text));
}

static void test_extreme_times_do_not_overflow(void **state)
{
    (void)state;
    static tt_costs costs;
    const tt_cost cost =
        make_cost("ring", TT_COSTS_ANY_BYTES, TT_COSTS_ALPHA_MAX, TT_COSTS_BETA_MAX);
    costs.line_count = 0;
    assert_int_equal(tt_costs_put(&costs, &cost), TT_OK);
    assert_true(time_of(&costs, "ring", UINT64_MAX) > time_of(&costs, "ring", UINT64_C(1) << 50));
}

static void test_a_line_goes_through_its_two_points(void **state)
{
    (void)state;
    const tt_cost made = make_cost("ring", 0, 0, 0);
    const uint64_t bytes[] = {16384, 524288};
    const uint64_t rising[] = {10000, 260000};
    const uint64_t falling[] = {10000, 9000};
    static tt_costs costs;
    costs.line_count = 0;
    tt_cost cost = tt_cost_through(&made.key, bytes, rising, TT_COSTS_ANY_BYTES);
    assert_int_equal(tt_costs_put(&costs, &cost), TT_OK);
    assert_in_range(time_of(&costs, "ring", bytes[0]), 9998, 10002);
    assert_in_range(time_of(&costs, "ring", bytes[1]), 259990, 260010);
    cost = tt_cost_through(&made.key, bytes, falling, TT_COSTS_ANY_BYTES);
    assert_int_equal(cost.beta, 0);
    assert_int_equal(cost.alpha_ns, 10000);
}

static void test_text_and_table_are_inverse(void **state)
{
    (void)state;
    static tt_costs costs;
    static tt_costs again;
    static char text[TT_COSTS_TEXT_BYTES_MAX];
    static char text_again[TT_COSTS_TEXT_BYTES_MAX];
    static const char source[] = TITLE "# a comment\n\nallreduce ring shm 4 any 9000 91000\r\n"
                                       "allreduce  flat shm 4 2048 1500 7\n"
                                       "allgather ring net 16 any 1 2";
    tt_text why = {0};
    assert_int_equal(tt_costs_parse(source, sizeof(source) - 1, &costs, &why), TT_OK);
    assert_int_equal(costs.line_count, 3);
    const size_t bytes = tt_costs_format(&costs, text);
    assert_int_equal(tt_costs_parse(text, bytes, &again, &why), TT_OK);
    assert_int_equal(tt_costs_format(&again, text_again), bytes);
    assert_memory_equal(text, text_again, bytes);
    assert_int_equal(time_of(&again, "flat", 0), 1500);
}

static void test_an_error_has_the_number_of_its_line(void **state)
{
    (void)state;
    expect_refused("", "line 1");
    expect_refused("tutti costs 2\n", "line 1");
    expect_refused(TITLE "allreduce ring shm 4 any 1\n", "line 2: seven words");
    expect_refused(TITLE "allreduce ring shm 4 any 1 2 3\n", "line 2: seven words");
    expect_refused(TITLE "# fine\n\nALLREDUCE ring shm 4 any 1 2\n", "line 4: a name");
    expect_refused(TITLE "allreduce ring shm 0 any 1 2\n", "line 2: the fourth");
    expect_refused(TITLE "allreduce ring shm 4 -1 1 2\n", "line 2: the fifth");
    expect_refused(TITLE "allreduce ring shm 4 any 1.5 2\n", "line 2: the sixth");
    expect_refused(TITLE "allreduce ring shm 4 any 1 99999999999999999999\n", "the seventh");
    expect_refused(TITLE "allreduce abcdefghijklmnopqrstuvwxyz shm 4 any 1 2\n", "a name");
}

static void test_too_long_a_text_is_refused(void **state)
{
    (void)state;
    static char text[TT_COSTS_TEXT_BYTES_MAX + 1];
    static tt_costs costs;
    tt_text why = {0};
    memset(text, '#', sizeof(text));
    memcpy(text, TITLE, sizeof(TITLE) - 1);
    assert_int_equal(tt_costs_parse(text, sizeof(text), &costs, &why), TT_ERR_BAD_CONFIG);
    assert_int_equal(tt_costs_parse(text, sizeof(text) - 1, &costs, &why), TT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_time_is_alpha_and_beta_times_bytes),
        cmocka_unit_test(test_the_narrowest_band_that_holds_a_size_decides),
        cmocka_unit_test(test_a_size_that_was_not_measured_has_no_time),
        cmocka_unit_test(test_a_guess_extends_the_last_line),
        cmocka_unit_test(test_a_line_with_the_same_key_is_replaced),
        cmocka_unit_test(test_a_full_table_refuses_lines),
        cmocka_unit_test(test_extreme_times_do_not_overflow),
        cmocka_unit_test(test_a_line_goes_through_its_two_points),
        cmocka_unit_test(test_text_and_table_are_inverse),
        cmocka_unit_test(test_an_error_has_the_number_of_its_line),
        cmocka_unit_test(test_too_long_a_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
