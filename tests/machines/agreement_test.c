/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement_test.c - moves and machines of 8 to 16 ranks agree. The cases that do not are listed,
 * with why.
 *
 * Labels: sim
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "machines/agreement.h"

static const agreement_layout layouts[] = {
    {"ports", 16, 1, 1, false},  {"ports", 13, 1, 1, false}, {"tree", 16, 1, 1, false},
    {"memory", 16, 4, 2, false}, {"memory", 16, 4, 2, true}, {"memory", 8, 8, 1, false},
    {"memory", 8, 8, 1, true},
};

static const uint64_t bytes[] = {4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20};

static const agreement_exception exceptions[] = {
    {"views",
     "alltoall",
     {"memory", 8, 8, 1, true},
     8 << 10,
     -14.3,
     "a machine asks for the copies of all its rounds at once: its neighbours wait for the memory"},
};

static void test_moves_take_as_long_as_machines(void **state)
{
    (void)state;
    agreement_check(&(agreement_scope){.layouts = layouts,
                                       .layout_count = TT_ARRAY_COUNT(layouts),
                                       .bytes = bytes,
                                       .bytes_count = TT_ARRAY_COUNT(bytes),
                                       .exceptions = exceptions,
                                       .exception_count = TT_ARRAY_COUNT(exceptions),
                                       .frames_max = 1000 * 1000});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves_take_as_long_as_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
