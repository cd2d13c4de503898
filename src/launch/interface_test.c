/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the interface syntax means what NCCL's users expect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "launch/interface.h"

static void test_filters(void **state)
{
    (void)state;
    static const struct {
        const char *filter;
        const char *name;
        bool matches;
    } cases[] = {
        {"eth", "eth0", true},         {"eth", "ib0", false},     {"eth,ib", "ib0", true},
        {"=eth0", "eth0", true},       {"=eth0", "eth01", false}, {"=eth0,ib1", "ib1", true},
        {"^docker", "docker0", false}, {"^docker", "eth0", true}, {"^docker,lo", "lo", false},
        {"^=lo", "lo", false},         {"^=lo", "lo1", true},     {"^", "eth0", true},
        {"=eth", "eth0", false},       {",eth", "ib0", false},    {"eth0", "eth", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (tt_launch_interface_matches(cases[i].filter, cases[i].name) != cases[i].matches) {
            fail_msg("'%s' against %s", cases[i].filter, cases[i].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
