/* SPDX-License-Identifier: Apache-2.0
 *
 * philox_test.c - the published known answers, and the fairness of what is built on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/philox.h"

/* From the authors' file of known answers for philox4x32, 10 rounds. */
static void test_known_answers_are_met(void **state)
{
    (void)state;
    static const struct {
        tt_philox_block counter;
        tt_philox_key key;
        tt_philox_block expected;
    } answers[] = {
        {{{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {{0xffffffff, 0xffffffff}},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {{0xa4093822, 0x299f31d0}},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        const tt_philox_block block = tt_philox_at(answers[i].key, answers[i].counter);
        assert_memory_equal(&block, &answers[i].expected, sizeof(block));
    }
}

static void test_a_stream_gives_the_blocks_in_order(void **state)
{
    (void)state;
    tt_random random;
    tt_random_init(&random, UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e));
    const tt_philox_key key = {{0xa4093822, 0x299f31d0}};
    for (uint32_t i = 0; i < 12; i++) {
        const tt_philox_block counter = {{i / 4, 0, 0x13198a2e, 0x03707344}};
        assert_int_equal(tt_random_u32(&random), tt_philox_at(key, counter).word[i % 4]);
    }
}

static void test_the_block_count_carries_into_the_second_word(void **state)
{
    (void)state;
    tt_random random;
    tt_random_init(&random, 1, 2);
    random.counter.word[0] = UINT32_MAX;
    tt_random_u32(&random);
    assert_int_equal(random.counter.word[0], 0);
    assert_int_equal(random.counter.word[1], 1);
    assert_int_equal(random.counter.word[2], 2);
}

static void test_below_reaches_every_value_and_no_other(void **state)
{
    (void)state;
    tt_random random;
    tt_random_init(&random, 7, 0);
    unsigned seen[6] = {0};
    for (int i = 0; i < 6000; i++) {
        const uint64_t draw = tt_random_below(&random, 6);
        assert_true(draw < 6);
        seen[draw]++;
    }
    for (int i = 0; i < 6; i++) {
        assert_in_range(seen[i], 850, 1150); /* five standard deviations; the seed is fixed */
    }
    assert_int_equal(tt_random_below(&random, 1), 0);
}

static void test_reals_lie_in_the_unit_interval(void **state)
{
    (void)state;
    tt_random random;
    tt_random_init(&random, 9, 1);
    double sum = 0.0;
    for (int i = 0; i < 10000; i++) {
        const double real = tt_random_real(&random);
        assert_true(real >= 0.0 && real < 1.0);
        sum += real;
    }
    assert_true(sum > 4850.0 && sum < 5150.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers_are_met),
        cmocka_unit_test(test_a_stream_gives_the_blocks_in_order),
        cmocka_unit_test(test_the_block_count_carries_into_the_second_word),
        cmocka_unit_test(test_below_reaches_every_value_and_no_other),
        cmocka_unit_test(test_reals_lie_in_the_unit_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
