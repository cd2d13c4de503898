/* SPDX-License-Identifier: Apache-2.0
 *
 * real_place_test.c - which rank moves from a crowded core, and to which core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "platform/real_internal.h"

/* Rank `self` of those on `cores`, which may run on the first `allowed_count` cores. */
static int choose(const int *cores, uint32_t rank_count, uint32_t self, int allowed_count)
{
    tt_place_crowd crowd = {.rank = self, .core = cores[self]};
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    for (int i = 0; i < allowed_count; i++) {
        CPU_SET((size_t)i, &allowed);
    }
    for (uint32_t i = 0; i < rank_count; i++) {
        if (i != self && cores[i] >= 0) {
            crowd.ranks[crowd.peer_count] = i;
            crowd.cores[crowd.peer_count++] = cores[i];
        }
    }
    return tt_place_choose(&crowd, &allowed);
}

static void test_the_last_rank_of_a_crowded_core_moves(void **state)
{
    (void)state;
    const int both[] = {1, 1};
    assert_int_equal(choose(both, 2, 0, 2), -1);
    assert_int_equal(choose(both, 2, 1, 2), 0);
    const int seven[] = {0, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t self = 0; self < 7; self++) {
        assert_int_equal(choose(seven, 8, self, 2), -1);
    }
    assert_int_equal(choose(seven, 8, 7, 2), 0);
}

static void test_ranks_spread_evenly_stay(void **state)
{
    (void)state;
    const int even[] = {0, 1, 0, 1};
    const int odd[] = {0, 1, 0};
    for (uint32_t self = 0; self < 4; self++) {
        assert_int_equal(choose(even, 4, self, 2), -1);
    }
    for (uint32_t self = 0; self < 3; self++) {
        assert_int_equal(choose(odd, 3, self, 2), -1);
    }
}

static void test_no_rank_moves_outside_its_affinity_mask(void **state)
{
    (void)state;
    const int both[] = {0, 0};
    assert_int_equal(choose(both, 2, 1, 1), -1);
    assert_int_equal(choose(both, 2, 1, 4), 1);
}

static void test_ranks_whose_core_is_not_known_do_not_count(void **state)
{
    (void)state;
    const int alone[] = {-1, 1};
    assert_int_equal(choose(alone, 2, 1, 2), -1);
}

static void test_moves_of_the_last_rank_end_in_balance(void **state)
{
    (void)state;
    int cores[12] = {0};
    for (int step = 0; step < 32; step++) {
        for (uint32_t self = 0; self < TT_ARRAY_COUNT(cores); self++) {
            const int target = choose(cores, TT_ARRAY_COUNT(cores), self, 4);
            cores[self] = target >= 0 ? target : cores[self];
        }
    }
    int counts[4] = {0};
    for (uint32_t self = 0; self < TT_ARRAY_COUNT(cores); self++) {
        counts[cores[self]]++;
    }
    for (int core = 0; core < 4; core++) {
        assert_int_equal(counts[core], 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_rank_of_a_crowded_core_moves),
        cmocka_unit_test(test_ranks_spread_evenly_stay),
        cmocka_unit_test(test_no_rank_moves_outside_its_affinity_mask),
        cmocka_unit_test(test_ranks_whose_core_is_not_known_do_not_count),
        cmocka_unit_test(test_moves_of_the_last_rank_end_in_balance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
