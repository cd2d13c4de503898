/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_fit_test.c - numbers of a cluster are recovered from what calls take on it.
 *
 * Method: rows are modelled on a known cluster, and fitted from another one. */
#include "cli/cluster/cluster_fit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/cluster/cluster_predict.h"

enum { ROWS_MAX = 400, LONG = 64 * 1024, MIB = 1 << 20 };

typedef struct made_rows {
    tt_bench_row rows[ROWS_MAX];
    tt_bench_rows set;
} made_rows;

static tt_cluster known(void)
{
    tt_cluster cluster;
    tt_cluster_init(&cluster);
    cluster.ranks_per_host = 8;
    cluster.local = (tt_cluster_link){.latency_us = 0.2, .bandwidth_gbs = 14};
    cluster.network = (tt_cluster_link){.latency_us = 6.5, .bandwidth_gbs = 2.75};
    cluster.overhead_us = 0.35;
    cluster.reduce_gbs = 9.5;
    cluster.copy_gbs = 12;
    cluster.memory_gbs = 85; /* 2 ranks use 57 of it for sums, 8 would use 228 */
    return cluster;
}

/* All numbers are wrong. */
static tt_cluster base_of_test(void)
{
    tt_cluster cluster = known();
    cluster.local = (tt_cluster_link){.latency_us = 3, .bandwidth_gbs = 1};
    cluster.network = (tt_cluster_link){.latency_us = 100, .bandwidth_gbs = 0.5};
    cluster.overhead_us = 0.1;
    cluster.reduce_gbs = 2;
    cluster.copy_gbs = 3;
    cluster.memory_gbs = 20;
    return cluster;
}

static void add(made_rows *made, tt_collective collective, uint32_t ranks, uint32_t hosts,
                uint64_t bytes)
{
    const tt_cluster cluster = known();
    assert_true(made->set.count < ROWS_MAX);
    tt_bench_row *row = &made->rows[made->set.count++];
    made->set.rows = made->rows;
    *row = (tt_bench_row){
        .collective = collective, .dtype = TT_F32, .bytes = bytes, .ranks = ranks, .hosts = hosts};
    assert_int_equal(tt_cluster_predict(&cluster, row, &row->time_us), TT_OK);
}

static void add_sizes(made_rows *made, tt_collective collective, uint32_t ranks, uint32_t hosts,
                      uint64_t least)
{
    for (uint64_t bytes = least; bytes <= 16 * MIB; bytes *= 2) {
        add(made, collective, ranks, hosts, bytes);
    }
}

static void add_all(made_rows *made)
{
    add_sizes(made, TT_SEND, 2, 1, 8);
    add_sizes(made, TT_SEND, 4, 4, 8);
    add_sizes(made, TT_ALLREDUCE, 2, 1, 8);
    add_sizes(made, TT_ALLREDUCE, 8, 1, LONG);
    add_sizes(made, TT_BROADCAST, 2, 1, LONG);
    for (uint32_t ranks = 2; ranks <= 8; ranks *= 2) {
        add(made, TT_BARRIER, ranks, 1, 0);
    }
}

static void fit_or_fail(const tt_cluster *base, const made_rows *made, tt_fit *fit_out)
{
    tt_text why = {.length = 0};
    if (tt_cluster_fit(base, &made->set, &why, fit_out) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
}

static void assert_near(const char *what, double expected, double found)
{
    if (!(fabs(found - expected) <= 0.02 * expected)) {
        fail_msg("%s is %g, but %g was fitted", what, expected, found);
    }
}

static void assert_recovered(const tt_fit *fit)
{
    const tt_cluster cluster = known();
    for (size_t i = 0; i < TT_FIT_NUMBERS; i++) {
        const tt_cluster_field *field = fit->numbers[i].field;
        if (!fit->numbers[i].is_fitted) {
            fail_msg("%s: %s", field->name, fit->numbers[i].how);
        }
        assert_near(field->name, tt_cluster_field_get(&cluster, field),
                    tt_cluster_field_get(&fit->cluster, field));
    }
}

static const tt_fit_number *number(const tt_fit *fit, const char *name)
{
    for (size_t i = 0; i < TT_FIT_NUMBERS; i++) {
        if (strcmp(fit->numbers[i].field->name, name) == 0) {
            return &fit->numbers[i];
        }
    }
    fail_msg("no number %s", name);
    return NULL;
}

static void test_known_numbers_are_recovered(void **state)
{
    (void)state;
    static made_rows made;
    const tt_cluster base = base_of_test();
    tt_fit fit;
    made = (made_rows){.set = {.rows = NULL}};
    add_all(&made);
    fit_or_fail(&base, &made, &fit);
    assert_recovered(&fit);
    for (size_t i = 0; i < fit.line_count; i++) {
        assert_int_equal(fit.lines[i].skipped, 0);
        assert_true(fabs(fit.lines[i].worst) < 0.02);
    }
    assert_int_equal(fit.cluster.sources[TT_CLUSTER_LOCAL], TT_CLUSTER_MEASURED);
    assert_int_equal(fit.cluster.sources[TT_CLUSTER_PROCESSOR], TT_CLUSTER_MEASURED);
    assert_int_equal(fit.cluster.sources[TT_CLUSTER_NOISE], base.sources[TT_CLUSTER_NOISE]);
}

static void test_one_row_in_six_may_be_far_off(void **state)
{
    (void)state;
    static made_rows made;
    const tt_cluster base = base_of_test();
    tt_fit fit;
    made = (made_rows){.set = {.rows = NULL}};
    add_all(&made);
    for (size_t i = 0; i < made.set.count; i++) {
        tt_bench_row *row = &made.rows[i];
        const double spread = 1 + 0.01 * ((double)(i * 7 % 11) / 5 - 1);
        row->time_us *= i % 6 == 3 && row->collective != TT_BARRIER ? 5 : spread;
    }
    fit_or_fail(&base, &made, &fit);
    assert_recovered(&fit);
    size_t far_off = 0;
    for (size_t i = 0; i < fit.line_count; i++) {
        assert_true(fit.lines[i].median < 0.05);
        far_off += fit.lines[i].worst < -0.7;
    }
    assert_true(far_off >= 3);
}

static void test_what_rows_do_not_tell_is_kept_and_said(void **state)
{
    (void)state;
    static made_rows made;
    const tt_cluster base = base_of_test();
    tt_fit fit;
    made = (made_rows){.set = {.rows = NULL}};
    add_sizes(&made, TT_SEND, 2, 1, 8);
    add(&made, TT_BARRIER, 2, 1, 0); /* an exchange more */
    fit_or_fail(&base, &made, &fit);
    assert_true(number(&fit, "local.bandwidth_gbs")->is_fitted);
    assert_non_null(strstr(number(&fit, "local.bandwidth_gbs")->how, "sendrecv of 2 ranks"));
    static const char *const kept[] = {"network.latency_us",    "network.bandwidth_gbs",
                                       "processor.overhead_us", "processor.reduce_gbs",
                                       "processor.copy_gbs",    "memory.bandwidth_gbs"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(kept); i++) {
        const tt_fit_number *found = number(&fit, kept[i]);
        assert_false(found->is_fitted);
        assert_non_null(strstr(found->how, "measure "));
        assert_true(tt_cluster_field_get(&fit.cluster, found->field) ==
                    tt_cluster_field_get(&base, found->field));
    }
    /* Latency and overhead still make the exchange that was measured. */
    assert_near("an exchange", 0.2 + 2 * 0.35,
                fit.cluster.local.latency_us + 2 * fit.cluster.overhead_us);
    assert_int_equal(fit.cluster.sources[TT_CLUSTER_LOCAL], TT_CLUSTER_MEASURED);
    assert_int_equal(fit.cluster.sources[TT_CLUSTER_PROCESSOR], TT_CLUSTER_UNSTATED);
}

static void test_short_sums_tell_the_overhead_as_barriers_do(void **state)
{
    (void)state;
    static made_rows made;
    const tt_cluster base = base_of_test();
    tt_fit fit;
    made = (made_rows){.set = {.rows = NULL}};
    add_sizes(&made, TT_SEND, 2, 1, 8);
    add_sizes(&made, TT_ALLREDUCE, 2, 1, LONG);
    add(&made, TT_ALLREDUCE, 4, 1, 8);
    add(&made, TT_ALLREDUCE, 8, 1, 8);
    fit_or_fail(&base, &made, &fit);
    assert_near("the overhead", 0.35, fit.cluster.overhead_us);
    assert_near("the latency", 0.2, fit.cluster.local.latency_us);
}

static void test_an_overhead_that_no_exchange_has_room_for_is_lowered(void **state)
{
    (void)state;
    static made_rows made;
    tt_cluster base = base_of_test();
    tt_fit fit;
    base.overhead_us = 10;
    made = (made_rows){.set = {.rows = NULL}};
    add_sizes(&made, TT_SEND, 2, 1, 8);
    fit_or_fail(&base, &made, &fit);
    assert_near("the overhead", 0.45, fit.cluster.overhead_us);
    assert_non_null(strstr(number(&fit, "processor.overhead_us")->how, "lowered"));
    assert_true(fit.cluster.local.latency_us < 0.001);
}

static void test_a_memory_that_is_not_reached_is_kept_or_raised(void **state)
{
    (void)state;
    static made_rows made;
    tt_cluster base = base_of_test();
    tt_fit fit;
    made = (made_rows){.set = {.rows = NULL}};
    add_sizes(&made, TT_SEND, 2, 1, 8);
    add_sizes(&made, TT_ALLREDUCE, 2, 1, LONG);
    fit_or_fail(&base, &made, &fit);
    assert_near("the memory", 3 * 2 * 9.5, fit.cluster.memory_gbs);
    assert_non_null(strstr(number(&fit, "memory.bandwidth_gbs")->how, "raised"));
    base.memory_gbs = 200;
    fit_or_fail(&base, &made, &fit);
    assert_true(fit.cluster.memory_gbs == 200);
}

static void test_a_level_without_numbers_is_a_fault(void **state)
{
    (void)state;
    static made_rows made;
    tt_cluster base;
    tt_fit fit;
    tt_text why = {.length = 0};
    made = (made_rows){.set = {.rows = NULL}};
    add_sizes(&made, TT_ALLREDUCE, 2, 1, LONG);
    tt_cluster_init(&base);
    tt_cluster_fit_hosts(&made.set, &base);
    assert_int_equal(base.host_count, 1);
    assert_int_equal(base.ranks_per_host, 2);
    assert_int_equal(tt_cluster_fit(&base, &made.set, &why, &fit), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.bytes, "local.bandwidth_gbs is 0"));
    add_sizes(&made, TT_SEND, 2, 1, 8);
    fit_or_fail(&base, &made, &fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_numbers_are_recovered),
        cmocka_unit_test(test_one_row_in_six_may_be_far_off),
        cmocka_unit_test(test_what_rows_do_not_tell_is_kept_and_said),
        cmocka_unit_test(test_short_sums_tell_the_overhead_as_barriers_do),
        cmocka_unit_test(test_an_overhead_that_no_exchange_has_room_for_is_lowered),
        cmocka_unit_test(test_a_memory_that_is_not_reached_is_kept_or_raised),
        cmocka_unit_test(test_a_level_without_numbers_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
