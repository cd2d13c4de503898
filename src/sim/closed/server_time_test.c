/* SPDX-License-Identifier: Apache-2.0
 *
 * server_time_test.c - sums on servers take what their cards have to carry.
 *
 * Speedups over a ring are those of BytePS's formula, (n^2 + k n - 2 k) / n^2: 8 hosts with 2, 4
 * and 8 servers 1.19, 1.38 and 1.75; 4 hosts with 1 to 4 servers 1.125, 1.25, 1.375 and 1.5. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "sim/closed/server_time.h"

enum { MIB = 1 << 20 };

/* Cards that are slower than all else. */
static tt_server_job job_of(uint32_t hosts, uint32_t servers)
{
    tt_text why = {.length = 0};
    tt_cluster cluster = *tt_cluster_preset_find("ethernet-10g");
    tt_server_job job;
    assert_int_equal(tt_server_job_init(&job, &cluster, 4 * hosts, servers, &why), TT_OK);
    job.copy_gbs = job.local_gbs = job.reduce_gbs = 1000;
    job.occupied_us = 0;
    return job;
}

static void test_servers_shorten_an_exchange_as_published(void **state)
{
    (void)state;
    static const struct {
        uint32_t hosts, servers;
        double speedup;
    } rows[] = {{8, 2, 1.1875}, {8, 4, 1.375}, {8, 8, 1.75}, {4, 1, 1.125},
                {4, 2, 1.25},   {4, 3, 1.375}, {4, 4, 1.5}};
    for (size_t i = 0; i < TT_ARRAY_COUNT(rows); i++) {
        const tt_server_job alone = job_of(rows[i].hosts, 0);
        const tt_server_job job = job_of(rows[i].hosts, rows[i].servers);
        const double ring = tt_server_exchange(&alone, 4 * MIB).hold_us;
        const double found = ring / tt_server_exchange(&job, 4 * MIB).hold_us;
        assert_true(fabs(found - rows[i].speedup) < 1e-9);
        const double n = rows[i].hosts;
        assert_true(fabs(ring - 2 * (n - 1) / n * 4 * MIB / (1000 * alone.card_gbs)) < 1e-6);
    }
}

static void test_more_servers_than_hosts_gain_nothing(void **state)
{
    (void)state;
    const tt_server_job equal = job_of(8, 8), more = job_of(8, 20);
    assert_true(tt_server_exchange(&equal, MIB).hold_us - tt_server_exchange(&more, MIB).hold_us ==
                0);
    /* as many servers as workers: a vector once in, once out */
    assert_true(fabs(tt_server_exchange(&equal, MIB).hold_us - MIB / (1000 * equal.card_gbs)) <
                1e-9);
}

static void test_one_server_is_the_bottleneck_of_a_short_tensor(void **state)
{
    (void)state;
    const tt_server_job job = job_of(8, 4);
    const double once = MIB / (1000 * job.card_gbs);
    assert_true(fabs(tt_server_push(&job, MIB, 4 * MIB).hold_us - 8 * once) < 1e-9);
    assert_true(fabs(tt_server_push(&job, 4 * MIB, 4 * MIB).hold_us - 2 * 4 * once) < 1e-9);
    const tt_server_job wide = job_of(8, 8);
    assert_true(fabs(tt_server_push(&wide, 4 * MIB, 4 * MIB).hold_us - 4 * once) < 1e-9);
}

/* Of many hosts few parts keep few owners busy: one part waits for its owner's card. */
static void test_a_part_waits_for_its_owner(void **state)
{
    (void)state;
    tt_server_job job = job_of(128, 0);
    const double once = MIB / (1000 * job.card_gbs);
    const tt_server_time time = tt_server_exchange(&job, MIB);
    assert_true(time.hold_us < 2 * once && time.whole_us > 2 * 127 * once);
    job.occupied_us = 3;
    assert_true(tt_server_exchange(&job, 4).whole_us > 2 * 127 * 3);
    assert_true(tt_server_push(&job, 4, MIB).hold_us > 127 * 3);
}

static void test_one_host_needs_no_network(void **state)
{
    (void)state;
    const tt_server_job job = job_of(1, 0);
    const tt_server_time time = tt_server_exchange(&job, MIB);
    assert_true(fabs(time.whole_us - 2 * 0.75 * MIB / 1e6) < 1e-9);
}

static void test_servers_need_hosts(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_server_job job;
    const tt_cluster *summit = tt_cluster_preset_find("summit");
    assert_int_equal(tt_server_job_init(&job, summit, 4600 * 6, 8, &why), TT_OK);
    assert_int_equal(tt_server_job_init(&job, summit, 4600 * 6, 9, &why), TT_ERR_BAD_CONFIG);
    assert_non_null(
        strstr(why.bytes, "4600 for ranks and 9 for servers are needed, and there are 4608"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_servers_shorten_an_exchange_as_published),
        cmocka_unit_test(test_more_servers_than_hosts_gain_nothing),
        cmocka_unit_test(test_one_server_is_the_bottleneck_of_a_short_tensor),
        cmocka_unit_test(test_a_part_waits_for_its_owner),
        cmocka_unit_test(test_one_host_needs_no_network),
        cmocka_unit_test(test_servers_need_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
