/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_test.c - lines with outliers, and the threshold against its definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "tune/linear.h"

static void assert_within(double share, double expected, double found)
{
    if (!(fabs(expected - found) <= share * fabs(expected))) {
        fail_msg("expected %g, found %g", expected, found);
    }
}

static void test_a_quarter_of_outliers_does_not_move_the_line(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        tt_random random;
        tt_random_init(&random, seed, 0);
        tt_linear_sample samples[40];
        for (int i = 0; i < 40; i++) {
            const double bytes = 1024.0 * (double)(1 << (i % 14));
            const double noise = 0.99 + 0.02 * tt_random_real(&random);
            samples[i] = (tt_linear_sample){bytes, (523 + 8.57e-4 * bytes) * noise};
            if (i % 4 == 1) { /* a stalled rank, a clock that jumped */
                samples[i].time_us *= 1 + 50 * tt_random_real(&random);
            }
        }
        tt_linear line;
        assert_int_equal(TT_OK, tt_linear_fit(samples, 40, &line));
        assert_within(0.05, 523, line.start_us);
        assert_within(0.05, 8.57e-4, line.byte_us);
    }
}

static void test_the_threshold_is_the_smallest_size_that_passes_the_ratio(void **state)
{
    (void)state;
    static const double ratios[] = {0.6, 0.8, 0.95};
    const tt_linear line = {.start_us = 523, .byte_us = 8.57e-4};
    for (int i = 0; i < 3; i++) {
        const double d = tt_linear_threshold_bytes(&line, ratios[i]);
        const double below = 0.999 * d;
        const double above = 1.001 * d;
        assert_true(tt_linear_us(&line, 2 * below) / (2 * tt_linear_us(&line, below)) < ratios[i]);
        assert_true(tt_linear_us(&line, 2 * above) / (2 * tt_linear_us(&line, above)) > ratios[i]);
    }
    assert_within(0.01, 0.92e6, tt_linear_threshold_bytes(&line, 0.8)); /* 10 GbE, 8 nodes */
    const tt_linear fast = {.start_us = 98, .byte_us = 3.06e-4};
    assert_within(0.01, 0.48e6, tt_linear_threshold_bytes(&fast, 0.8)); /* 56 Gb/s */
}

static void test_costs_of_zero_have_a_threshold_too(void **state)
{
    (void)state;
    assert_true(isinf(tt_linear_threshold_bytes(&(tt_linear){10, 0}, 0.8)));
    assert_true(tt_linear_threshold_bytes(&(tt_linear){0, 1}, 0.8) == 0);
}

static void test_samples_that_make_no_line_are_refused(void **state)
{
    (void)state;
    tt_linear line;
    const tt_linear_sample same[] = {{8, 1}, {8, 2}, {8, 3}};
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_linear_fit(same, 3, &line));
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_linear_fit(same, 0, &line));
    const tt_linear_sample wrong[] = {{8, 1}, {16, NAN}};
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_linear_fit(wrong, 2, &line));
    const tt_linear_sample falling[] = {{8, 9}, {16, 1}};
    assert_int_equal(TT_OK, tt_linear_fit(falling, 2, &line));
    assert_true(line.byte_us == 0); /* a transfer never gets cheaper by being longer */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_quarter_of_outliers_does_not_move_the_line),
        cmocka_unit_test(test_the_threshold_is_the_smallest_size_that_passes_the_ratio),
        cmocka_unit_test(test_costs_of_zero_have_a_threshold_too),
        cmocka_unit_test(test_samples_that_make_no_line_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
