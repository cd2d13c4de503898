/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_test.c - the least clock follows ticks and departures, as a plain search finds it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "platform/shuffle.h"
#include "sync/clock.h"

enum { SIZE = 5 };

static void with_clock(void (*test)(tt_clock *clock))
{
    const tt_shuffle_config config = {.size = 1};
    tt_shuffle *shuffle = tt_shuffle_create(&config);
    tt_platform *platform = tt_shuffle_platform(shuffle, 0);
    tt_clock clock;
    assert_int_equal(tt_clock_make(&clock, platform, SIZE), TT_OK);
    test(&clock);
    tt_clock_release(&clock, platform);
    assert_true(tt_shuffle_destroy(shuffle));
}

static void check_golden(tt_clock *clock)
{
    for (uint32_t i = 0; i + 1 < SIZE; i++) {
        assert_false(tt_clock_tick(clock, i, 1));
    }
    assert_true(tt_clock_tick(clock, SIZE - 1, 1)); /* the last one moves the least */
    assert_int_equal(clock->least, 1);
    assert_false(tt_clock_tick(clock, 0, 1)); /* a second copy */
    for (uint32_t i = 1; i < SIZE; i++) {
        assert_false(tt_clock_tick(clock, i, 5));
    }
    assert_true(tt_clock_take_out(clock, 0)); /* the slowest is gone */
    assert_int_equal(clock->least, 5);
    assert_false(tt_clock_tick(clock, 0, 9));
    assert_false(tt_clock_take_out(clock, 0));
}

static void test_the_last_worker_moves_the_least(void **state)
{
    (void)state;
    with_clock(check_golden);
}

static void check_random(tt_clock *clock)
{
    uint64_t counts[SIZE] = {0};
    bool is_out[SIZE] = {false};
    tt_random random;
    tt_random_init(&random, 3, 0);
    for (int i = 0; i < 5000; i++) {
        const uint32_t one = (uint32_t)tt_random_below(&random, SIZE);
        if (i % 1500 == 1499) {
            is_out[one] = true;
            (void)tt_clock_take_out(clock, one);
        } else {
            const uint64_t count = counts[one] + tt_random_below(&random, 3);
            counts[one] = is_out[one] ? counts[one] : count;
            (void)tt_clock_tick(clock, one, count);
        }
        uint64_t least = UINT64_MAX;
        for (uint32_t k = 0; k < SIZE; k++) {
            least = !is_out[k] && counts[k] < least ? counts[k] : least;
        }
        assert_int_equal(clock->least, least);
    }
}

static void test_the_least_is_the_least(void **state)
{
    (void)state;
    with_clock(check_random);
}

static void check_all_gone(tt_clock *clock)
{
    for (uint32_t i = 0; i < SIZE; i++) {
        (void)tt_clock_take_out(clock, i);
    }
    assert_true(clock->least == UINT64_MAX);
}

static void test_without_workers_nobody_is_waited_for(void **state)
{
    (void)state;
    with_clock(check_all_gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_worker_moves_the_least),
        cmocka_unit_test(test_the_least_is_the_least),
        cmocka_unit_test(test_without_workers_nobody_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
