/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap_test.c - where an order pays, against values worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "schedule/overlap.h"

/* The gain is largest where the wire takes as long as the computation; 0 where sums fit into
 * backward, small where the wire dominates. */
static void test_an_order_gains_most_where_rho_is_one(void **state)
{
    (void)state;
    static const struct {
        double network_us, compute_us, gain;
    } table[] = {
        {0, 0, 0},           {0, 300, 0},          {30, 300, 0},
        {170, 300, 0},       {200, 300, 1. / 12},  {300, 300, 5. / 12},
        {600, 300, 5. / 24}, {9000, 300, 1. / 72}, {20000, 300, 1. / 160},
        {300, 0, 0},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(table); i++) {
        const double gain = tt_overlap_gain(table[i].network_us, table[i].compute_us);
        assert_true(fabs(gain - table[i].gain) < 1e-9);
        assert_int_equal(tt_overlap_is_worth(gain, true), table[i].gain > 0.01);
        assert_int_equal(tt_overlap_is_worth(gain, false), table[i].gain > 0.02);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_order_gains_most_where_rho_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
