/* SPDX-License-Identifier: Apache-2.0
 *
 * line_cluster_test.c - three options are a cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/simulate/line_cluster.h"

static double field(const tt_cluster *cluster, const char *name)
{
    return tt_cluster_field_get(cluster, tt_cluster_field_find(name));
}

static void test_options_are_fields(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_cluster cluster;
    tt_fabric_config fabric;
    assert_int_equal(TT_OK,
                     tt_line_cluster_make(&(tt_line_cluster){10000, 50, 100}, &why, &cluster));
    assert_string_equal("mbit-10000", cluster.name);
    assert_true(field(&cluster, "network.bandwidth_gbs") > 1.2499);
    assert_true(field(&cluster, "network.bandwidth_gbs") < 1.2501);
    assert_true(field(&cluster, "network.gap_us") > 49.9);
    assert_true(field(&cluster, "network.latency_us") > 99.9);
    assert_true(field(&cluster, "hosts.ranks_per_host") < 1.1);
    assert_int_equal(TT_OK, tt_cluster_place(&cluster, 64, &why, &fabric));
}

static void test_any_speed_of_the_option_is_one_of_a_cluster(void **state)
{
    (void)state;
    for (int64_t mbit = 8; mbit <= 10000000; mbit *= 5) {
        tt_text why = {.length = 0};
        tt_cluster cluster;
        if (tt_line_cluster_make(&(tt_line_cluster){mbit, 1000000, 1000000}, &why, &cluster) !=
            TT_OK) {
            fail_msg("%lld Mbit/s: %s", (long long)mbit, why.bytes);
        }
    }
}

static void test_there_must_be_a_bandwidth(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_cluster cluster;
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_line_cluster_make(&(tt_line_cluster){0, 50, 100}, &why, &cluster));
    assert_non_null(strstr(why.bytes, "--overhead and --latency need --mbit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_are_fields),
        cmocka_unit_test(test_any_speed_of_the_option_is_one_of_a_cluster),
        cmocka_unit_test(test_there_must_be_a_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
