/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_trace_test.c - lists of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/simulate/simulate_trace.h"

static void test_ranks_and_ranges_are_read(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_rank_ranges ranges;
    assert_int_equal(TT_OK, tt_rank_ranges_parse("0,7,16-23", &why, &ranges));
    assert_int_equal(3, ranges.count);
    assert_int_equal(0, ranges.items[0].first);
    assert_int_equal(0, ranges.items[0].last);
    assert_int_equal(7, ranges.items[1].last);
    assert_int_equal(16, ranges.items[2].first);
    assert_int_equal(23, ranges.items[2].last);
    assert_int_equal(0, why.length);
}

static void test_what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",     ",",   "1,",         "1,,2",   "a",  "1-",    "-1",
        "7-3",  "1 2", "4294967296", "0-4096", "1x", "0-1-2", "99999999999999999999",
        "0x10", "1;2"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(bad); i++) {
        tt_text why = {.length = 0};
        tt_rank_ranges ranges;
        if (tt_rank_ranges_parse(bad[i], &why, &ranges) != TT_ERR_BAD_ARGUMENT) {
            fail_msg("'%s' was accepted", bad[i]);
        }
        assert_non_null(strstr(why.bytes, "give ranks and ranges, such as 0,7,16-23"));
    }
}

static void test_the_number_of_ranges_is_bounded(void **state)
{
    (void)state;
    tt_text list = {.length = 0}, why = {.length = 0};
    tt_rank_ranges ranges;
    for (int i = 0; i < TT_TRACE_RANGES_MAX; i++) {
        tt_text_add(&list, "%s%d", i > 0 ? "," : "", i);
    }
    assert_int_equal(TT_OK, tt_rank_ranges_parse(list.bytes, &why, &ranges));
    assert_int_equal(TT_TRACE_RANGES_MAX, ranges.count);
    tt_text_add(&list, ",9");
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_rank_ranges_parse(list.bytes, &why, &ranges));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_and_ranges_are_read),
        cmocka_unit_test(test_what_is_no_list_is_refused),
        cmocka_unit_test(test_the_number_of_ranges_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
