/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_test.c - every point of a grid comes once, in order; what is no grid is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/simulate/sweep.h"

static void add(tt_sweep *sweep, const char *text)
{
    tt_text why = {.length = 0};
    assert_int_equal(tt_sweep_add(sweep, text, &why), TT_OK);
}

static void test_the_last_axis_varies_fastest(void **state)
{
    (void)state;
    static const char *const points[] = {"1 a x", "1 a y", "2 a x", "2 a y", "3 a x", "3 a y"};
    tt_sweep sweep = {.axis_count = 0};
    assert_int_equal(tt_sweep_point_count(&sweep), 1);
    add(&sweep, "ranks=1,2,3");
    add(&sweep, "strategy=a");
    add(&sweep, "network.bandwidth_gbs=x,y");
    assert_int_equal(tt_sweep_point_count(&sweep), 6);
    assert_string_equal(sweep.axes[2].name, "network.bandwidth_gbs");
    for (size_t point = 0; point < 6; point++) {
        char found[16];
        (void)snprintf(found, sizeof(found), "%s %s %s", tt_sweep_value(&sweep, point, 0),
                       tt_sweep_value(&sweep, point, 1), tt_sweep_value(&sweep, point, 2));
        assert_string_equal(found, points[point]);
    }
    tt_sweep_fini(&sweep);
}

static void test_what_is_no_axis_is_refused_and_leaves_the_grid_alone(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",           "ranks",    "ranks=",  "=1",
                                        "ranks=1,,2", "ranks=1,", "seed=1,2"};
    tt_sweep sweep = {.axis_count = 0};
    add(&sweep, "seed=1");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tt_text why = {.length = 0};
        assert_int_equal(tt_sweep_add(&sweep, wrong[i], &why), TT_ERR_BAD_ARGUMENT);
        assert_true(why.length > 0);
        assert_int_equal(sweep.axis_count, 1);
    }
    tt_sweep_fini(&sweep);
}

static void test_grids_are_bounded(void **state)
{
    (void)state;
    char values[3000] = "a=1";
    tt_text why = {.length = 0};
    tt_sweep sweep = {.axis_count = 0};
    for (int i = 0; i < 1000; i++) {
        (void)strcat(values, ",2");
    }
    assert_int_equal(tt_sweep_add(&sweep, values, &why), TT_ERR_BAD_ARGUMENT);
    values[2 + 2 * 150] = '\0'; /* 150 values */
    values[2 + 2 * 150 - 1] = '2';
    add(&sweep, values);
    values[0] = 'b';
    tt_text_clear(&why);
    assert_int_equal(tt_sweep_add(&sweep, values, &why), TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(why.bytes, "more than 10000 points"));
    add(&sweep, "c=1");
    add(&sweep, "d=1");
    add(&sweep, "e=1");
    assert_int_equal(tt_sweep_add(&sweep, "f=1", &why), TT_ERR_BAD_ARGUMENT);
    tt_sweep_fini(&sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_axis_varies_fastest),
        cmocka_unit_test(test_what_is_no_axis_is_refused_and_leaves_the_grid_alone),
        cmocka_unit_test(test_grids_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
