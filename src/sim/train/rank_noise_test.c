/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_noise_test.c - the factors have the distribution that was asked for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/train/rank_noise.h"

enum { RANKS = 20000, STEPS = 10 };

static void assert_near(double expected, double found, double share)
{
    if (fabs(expected - found) > share * fabs(expected)) {
        fail_msg("expected %g within %g %%, found %g", expected, 100 * share, found);
    }
}

static void test_without_noise_every_factor_is_one(void **state)
{
    (void)state;
    const tt_rank_noise noise = {.seed = 1, .rank_count = 50};
    const tt_step_noise drawn = tt_rank_noise_draw(&noise, 3, 1000);
    assert_true(drawn.largest == 1.0 && drawn.mean == 1.0);
}

static void test_factors_have_the_mean_and_spread_that_were_asked_for(void **state)
{
    (void)state;
    for (double spread = 0.02; spread < 1; spread *= 5) {
        const tt_rank_noise noise = {.seed = 7, .rank_count = RANKS, .spread = spread};
        double sum = 0, squares = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            for (uint64_t step = 0; step < STEPS; step++) {
                const double factor = tt_rank_noise_factor(&noise, rank, step, 1000);
                assert_true(factor > 0);
                sum += factor;
                squares += factor * factor;
            }
        }
        const double count = (double)RANKS * STEPS, mean = sum / count;
        assert_near(1, mean, 0.01);
        assert_near(spread, sqrt(squares / count - mean * mean), 0.03);
    }
}

/* The mean of the largest of N normal values (Harter, 1961). */
static void test_the_largest_of_many_is_that_of_the_normal_distribution(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        double deviations;
    } known[] = {{10, 1.5388}, {100, 2.5076}, {1000, 3.2414}};
    for (size_t i = 0; i < TT_ARRAY_COUNT(known); i++) {
        const tt_rank_noise noise = {.seed = 3, .rank_count = known[i].count, .spread = 0.001};
        const uint64_t steps = 2000;
        double sum = 0;
        for (uint64_t step = 0; step < steps; step++) {
            sum += tt_rank_noise_draw(&noise, step, 1000).largest - 1;
        }
        assert_near(known[i].deviations, sum / (double)steps / noise.spread, 0.02);
    }
}

static void test_interruptions_are_as_frequent_and_long_as_asked_for(void **state)
{
    (void)state;
    const tt_rank_noise noise = {
        .seed = 9, .rank_count = RANKS, .hiccup_rate = 0.01, .hiccup_us = 500};
    double sum = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        const tt_step_noise drawn = tt_rank_noise_draw(&noise, step, 1000);
        assert_near(1.5, drawn.largest, 1e-12);
        sum += drawn.mean;
    }
    assert_near(1 + 0.01 * 0.5, sum / STEPS, 0.0005);
}

static void test_a_slow_rank_is_the_slowest(void **state)
{
    (void)state;
    const tt_slow_rank slow[] = {{17, 1.5}, {40, 0.5}};
    const tt_rank_noise noise = {
        .seed = 2, .rank_count = 64, .spread = 0.01, .slow = slow, .slow_count = 2};
    for (uint64_t step = 0; step < STEPS; step++) {
        const tt_step_noise drawn = tt_rank_noise_draw(&noise, step, 1000);
        assert_int_equal(drawn.slowest, 17);
        assert_near(1.5, drawn.largest, 0.05);
        assert_near(0.5, tt_rank_noise_factor(&noise, 40, step, 1000), 0.05);
    }
}

static void test_a_rank_draws_the_same_in_jobs_of_all_sizes(void **state)
{
    (void)state;
    const tt_rank_noise few = {.seed = 5, .rank_count = 4, .spread = 0.1};
    const tt_rank_noise many = {.seed = 5, .rank_count = 4096, .spread = 0.1};
    const tt_rank_noise other = {.seed = 6, .rank_count = 4, .spread = 0.1};
    const double factor = tt_rank_noise_factor(&few, 3, 8, 1000);
    assert_true(factor == tt_rank_noise_factor(&many, 3, 8, 1000));
    assert_true(factor != tt_rank_noise_factor(&few, 3, 9, 1000));
    assert_true(factor != tt_rank_noise_factor(&few, 2, 8, 1000));
    assert_true(factor != tt_rank_noise_factor(&other, 3, 8, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_noise_every_factor_is_one),
        cmocka_unit_test(test_factors_have_the_mean_and_spread_that_were_asked_for),
        cmocka_unit_test(test_the_largest_of_many_is_that_of_the_normal_distribution),
        cmocka_unit_test(test_interruptions_are_as_frequent_and_long_as_asked_for),
        cmocka_unit_test(test_a_slow_rank_is_the_slowest),
        cmocka_unit_test(test_a_rank_draws_the_same_in_jobs_of_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
