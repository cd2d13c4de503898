/* SPDX-License-Identifier: Apache-2.0
 *
 * facts_test.c - how many ranks drive a host's cards, and the facts of this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>

#include "base/base.h"
#include "mesh/facts.h"

typedef struct rail_case {
    tt_host_facts host;
    uint32_t rails;
} rail_case;

static void test_rails_follow_cards_and_cores(void **state)
{
    (void)state;
    static const rail_case cases[] = {
        {{.core_count = 64, .card_count = 1, .card_mbits = 1000}, 1},
        {{.core_count = 64, .card_count = 1, .card_mbits = 10000}, 4},
        {{.core_count = 64, .card_count = 2, .card_mbits = 50000}, 20},
        {{.core_count = 2, .card_count = 1, .card_mbits = 10000}, 2},
        {{.core_count = 64, .card_count = 2, .card_mbits = 2000}, 2},
        {{.core_count = 64, .card_count = 1, .card_mbits = 0}, TT_FACTS_RAILS_UNKNOWN},
        {{.core_count = 64, .card_count = 8, .card_mbits = 0}, 8},
        {{.core_count = 1, .card_count = 8, .card_mbits = 100000}, 1},
        {{.core_count = 0}, 1},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        assert_int_equal(tt_facts_rails(&cases[i].host), cases[i].rails);
    }
}

static void test_cores_are_those_the_thread_may_run_on(void **state)
{
    (void)state;
    cpu_set_t all, one;
    tt_facts facts;
    int core = 0;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    tt_facts_find(&facts);
    assert_int_equal(tt_facts_core_count(facts.cores), CPU_COUNT(&all));
    while (!CPU_ISSET((size_t)core, &all)) {
        core++;
    }
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    tt_facts_find(&facts);
    assert_int_equal(tt_facts_core_count(facts.cores), 1);
    assert_int_equal(facts.cores[core / 8 % TT_FACTS_CORE_BYTES] >> core % 8 & 1, 1);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rails_follow_cards_and_cores),
        cmocka_unit_test(test_cores_are_those_the_thread_may_run_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
