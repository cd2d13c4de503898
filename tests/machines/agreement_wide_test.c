/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement_wide_test.c - moves and machines of up to 256 ranks agree, up to 64 MB. The cases that
 * do not are listed, with why.
 *
 * Labels: check sim
 * Timeout: 900
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "machines/agreement.h"

static const agreement_layout layouts[] = {
    {"ports", 64, 1, 1, false},  {"tree", 64, 1, 1, false},   {"memory", 64, 8, 2, false},
    {"memory", 64, 8, 2, true},  {"tree", 100, 4, 4, true},   {"ports", 256, 1, 1, false},
    {"memory", 256, 8, 8, true}, {"memory", 32, 32, 1, true},
};

static const uint64_t bytes[] = {4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};

static const agreement_exception exceptions[] = {
    {"flat",
     "allreduce",
     {"memory", 64, 8, 2, false},
     16 << 20,
     -7.9,
     "four ranks share a card, and their lanes meet there in another order"},
    {"flat", "allreduce", {"memory", 64, 8, 2, true}, 16 << 20, -7.9, "the same"},
    {"views",
     "alltoall",
     {"memory", 32, 32, 1, true},
     2 << 10,
     -24.3,
     "a machine asks for the copies of all its rounds at once: its neighbours wait for the memory"},
    {"views", "alltoall", {"memory", 32, 32, 1, true}, 32 << 10, -42.2, "the same"},
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
