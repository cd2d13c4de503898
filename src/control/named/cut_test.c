/* SPDX-License-Identifier: Apache-2.0
 *
 * cut_test.c - groups are balanced in bytes and end where a round ended. Method: many steps of
 * tensors of drawn sizes, and steps whose rounds are known. */
#include "control/named/cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "control/named/name.h"

enum { COUNT_MAX = 5000, DRAWS = 500 };

typedef struct step {
    uint32_t count;
    uint64_t bytes[COUNT_MAX], total, largest;
    uint32_t batch[COUNT_MAX], group[COUNT_MAX];
    uint32_t group_count;
    uint64_t group_bytes[COUNT_MAX + 1];
    uint32_t group_size[COUNT_MAX + 1];
} step;

static void add(step *one, uint64_t bytes, uint32_t batch)
{
    one->bytes[one->count] = bytes;
    one->batch[one->count++] = batch;
    one->total += bytes;
    one->largest = bytes > one->largest ? bytes : one->largest;
}

static void cut(step *one, uint32_t wanted)
{
    tt_cut it;
    tt_cut_begin(&it, wanted, one->count, one->total);
    memset(one->group_bytes, 0, sizeof(one->group_bytes));
    memset(one->group_size, 0, sizeof(one->group_size));
    for (uint32_t i = 0; i < one->count; i++) {
        const uint32_t group = tt_cut_next(&it, one->bytes[i], one->batch[i]);
        assert_true(group == one->group_count || group == one->group_count + 1 || i == 0);
        one->group_count = one->group[i] = group;
        one->group_bytes[group] += one->bytes[i];
        one->group_size[group]++;
        assert_true(one->group_size[group] <= GROUP_MEMBERS_MAX);
    }
    assert_int_equal(one->group[0], 1);
}

/* Sizes from one byte to a megabyte, most of them small; a few tensors a round. */
static void draw(step *one, tt_random *random)
{
    memset(one, 0, sizeof(*one));
    const uint32_t count = 65 + (uint32_t)tt_random_below(random, 200);
    for (uint32_t i = 0, batch = 0; i < count; i++) {
        batch += tt_random_below(random, 4) == 0 ? 1 : 0;
        add(one, 1 + (tt_random_below(random, 1 << 20) >> tt_random_below(random, 20)), batch);
    }
}

static void test_automatic_groups_have_half_to_twice_the_mean(void **state)
{
    static step one;
    tt_random random;
    int tried = 0;
    (void)state;
    tt_random_init(&random, 1, 1);
    for (int i = 0; i < DRAWS; i++) {
        draw(&one, &random);
        cut(&one, UINT32_MAX);
        const uint64_t mean = one.total / TT_CUT_GROUPS;
        if (one.largest > mean) {
            continue; /* it is a group by itself, whatever precedes it */
        }
        tried++;
        assert_in_range(one.group_count, 4, 17);
        for (uint32_t group = 1; group < one.group_count; group++) { /* the rest is the last */
            assert_true(one.group_bytes[group] >= mean / 2);
            assert_true(2 * one.group_bytes[group] <= 3 * mean + one.largest + 3);
        }
        assert_true(2 * one.group_bytes[one.group_count] <= 3 * mean + one.largest + 3);
    }
    assert_true(tried >= DRAWS / 10);
}

static void test_automatic_groups_end_where_a_round_ended(void **state)
{
    static step one;
    (void)state;
    for (uint32_t rounds = 2; rounds <= 64; rounds++) {
        memset(&one, 0, sizeof(one));
        for (uint32_t i = 0; i < rounds * 5; i++) {
            add(&one, 1000, i / 5);
        }
        cut(&one, UINT32_MAX);
        assert_true(one.group_count > 1);
        for (uint32_t i = 1; i < one.count; i++) {
            const bool is_first = one.group[i] != one.group[i - 1];
            assert_true(!is_first || one.batch[i] != one.batch[i - 1] || rounds < TT_CUT_GROUPS);
        }
    }
}

static void test_the_requested_number_of_groups_has_equal_bytes(void **state)
{
    static step one;
    tt_random random;
    int tried = 0;
    (void)state;
    tt_random_init(&random, 2, 1);
    for (int i = 0; i < DRAWS; i++) {
        draw(&one, &random);
        const uint32_t wanted = 1 + (uint32_t)tt_random_below(&random, 12);
        const uint64_t mean = one.total / wanted;
        cut(&one, wanted);
        if (mean < 4 * one.largest) {
            continue;
        }
        tried++;
        assert_int_equal(one.group_count, wanted);
        for (uint32_t group = 1; group <= wanted; group++) {
            assert_in_range(one.group_bytes[group], mean - one.largest - wanted,
                            mean + one.largest + wanted);
        }
    }
    assert_true(tried >= DRAWS / 10);
}

static void test_few_tensors_make_no_empty_group(void **state)
{
    static step one;
    (void)state;
    for (uint32_t count = 2; count < 12; count++) {
        memset(&one, 0, sizeof(one));
        for (uint32_t i = 0; i < count; i++) {
            add(&one, i == 0 ? 1 << 30 : 1, i);
        }
        cut(&one, 5);
        assert_int_equal(one.group_count, count < 5 ? count : 5);
    }
    memset(&one, 0, sizeof(one));
    while (one.count < COUNT_MAX) {
        add(&one, 0, 0);
    }
    cut(&one, UINT32_MAX);
    assert_int_equal(one.group_count, (COUNT_MAX + GROUP_MEMBERS_MAX - 1) / GROUP_MEMBERS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_automatic_groups_have_half_to_twice_the_mean),
        cmocka_unit_test(test_automatic_groups_end_where_a_round_ended),
        cmocka_unit_test(test_the_requested_number_of_groups_has_equal_bytes),
        cmocka_unit_test(test_few_tensors_make_no_empty_group),
    };
    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
