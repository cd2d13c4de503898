/* SPDX-License-Identifier: Apache-2.0
 *
 * walked_wire_test.c - a wire costs what the all-reduces take that the library would choose. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/cluster.h"
#include "sim/registry.h"
#include "sim/train/trainer.h"
#include "sim/train/walked_wire.h"

static tt_walked_config config_of(const char *name, uint32_t ranks)
{
    tt_text why = {.length = 0};
    tt_walked_config config;
    const tt_cluster *cluster = tt_cluster_preset_find(name);
    assert_non_null(cluster);
    tt_walked_config_init(&config);
    assert_int_equal(tt_cluster_place(cluster, ranks, &why, &config.fabric), TT_OK);
    config.model = tt_cluster_model(cluster);
    return config;
}

static tt_walked_wire *wire_of(const tt_walked_config *config)
{
    tt_text why = {.length = 0};
    tt_walked_wire *wire = NULL;
    if (tt_walked_wire_create(config, &why, &wire) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    return wire;
}

/* A ring over cards that are alike: 2 (n - 1) / n of the bytes pass each. */
static void test_long_all_reduces_take_what_the_cards_allow(void **state)
{
    (void)state;
    enum { RANKS = 16, BYTES = 64 << 20 };
    tt_walked_config config = config_of("ethernet-25g", RANKS);
    config.fabric.ranks_per_host = 1;
    config.model = &tt_fabric_ports;
    tt_walked_wire *wire = wire_of(&config);
    const tt_wire costs = tt_walked_wire_costs(wire, false);
    const double limit_us = 2.0 * (RANKS - 1) / RANKS * BYTES *
                            (double)config.fabric.links[TT_FABRIC_LEAF].byte_fs / 1e9;
    const double found_us = tt_wire_time_us(&costs, TT_TASK_ALLREDUCE, BYTES);
    assert_true(found_us > limit_us && found_us < 1.1 * limit_us);
    const tt_moves_result *result = tt_walked_wire_result(wire, BYTES);
    assert_string_equal(result->algorithm->name, "ring");
    assert_true((double)result->end_ns / 1000 == found_us);
    assert_int_equal(result->levels[TT_FABRIC_LEAF].bytes_sent, 2ULL * (RANKS - 1) * BYTES);
    tt_walked_wire_destroy(wire);
}

static void test_costs_are_remembered_and_ascend(void **state)
{
    (void)state;
    const tt_walked_config config = config_of("summit", 48);
    tt_walked_wire *wire = wire_of(&config);
    const tt_wire costs = tt_walked_wire_costs(wire, false);
    double before_us = 0;
    for (uint64_t bytes = 64; bytes <= 16 << 20; bytes *= 4) {
        const double found_us = tt_wire_time_us(&costs, TT_TASK_ALLREDUCE, bytes);
        assert_true(found_us > before_us);
        assert_true(found_us == tt_wire_time_us(&costs, TT_TASK_ALLREDUCE, bytes));
        assert_true(tt_wire_time_us(&costs, TT_TASK_ALL_GATHER, bytes) == found_us / 2);
        before_us = found_us;
    }
    tt_text why = {.length = 0};
    assert_int_equal(tt_walked_wire_status(wire, &why), TT_OK);
    /* the line goes through two of them */
    assert_true(fabs(costs.overhead_us + 65536 * costs.byte_us -
                     tt_wire_time_us(&costs, TT_TASK_ALLREDUCE, 65536)) < 1e-6);
    tt_walked_wire_destroy(wire);
}

/* Then the last of many takes as long as alone, and all together as long as the cards work. */
static void test_all_reduces_that_overlap_hold_the_wire_while_cards_work(void **state)
{
    (void)state;
    enum { RANKS = 16 };
    tt_walked_config config = config_of("ethernet-25g", RANKS);
    config.fabric.ranks_per_host = 1;
    config.model = &tt_fabric_ports;
    tt_walked_wire *wire = wire_of(&config);
    const tt_wire serial = tt_walked_wire_costs(wire, false);
    const tt_wire_cost whole = tt_wire_cost_of(&serial, TT_TASK_ALLREDUCE, 1 << 20);
    const tt_wire overlapping = tt_walked_wire_costs(wire, true);
    const tt_wire_cost cost = tt_wire_cost_of(&overlapping, TT_TASK_ALLREDUCE, 1 << 20);
    const double wire_us = 2.0 * (RANKS - 1) / RANKS * (1 << 20) *
                           (double)config.fabric.links[TT_FABRIC_LEAF].byte_fs / 1e9;
    assert_true(whole.latency_us <= 0);
    assert_true(cost.hold_us >= wire_us && cost.hold_us < whole.hold_us);
    assert_true(fabs(cost.hold_us + cost.latency_us - whole.hold_us) < 1e-9);
    tt_walked_wire_destroy(wire);
}

/* More lengths than are remembered. */
static void test_any_number_of_lengths_can_be_asked_for(void **state)
{
    (void)state;
    tt_walked_config config = config_of("laptop", 2);
    tt_walked_wire *wire = wire_of(&config);
    const tt_wire costs = tt_walked_wire_costs(wire, false);
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < 5000; i++) {
            assert_true(tt_wire_time_us(&costs, TT_TASK_ALLREDUCE, 4 * i) > 0);
        }
    }
    tt_walked_wire_destroy(wire);
}

static void test_a_length_that_cannot_be_walked_is_reported(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_walked_wire *wire = NULL;
    tt_walked_config config = config_of("summit", 4608);
    config.memory_bytes_max = 64 << 10;
    assert_int_equal(tt_walked_wire_create(&config, &why, &wire), TT_ERR_NO_MEMORY);
    assert_true(why.length > 0);
}

static void test_out_of_memory_leaks_nothing(void **state)
{
    (void)state;
    for (uint64_t fail_at = 1; fail_at < 40; fail_at++) {
        tt_counting_allocator counter = {.fail_at = fail_at};
        const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
        tt_text why = {.length = 0};
        tt_walked_wire *wire = NULL;
        tt_walked_config config = config_of("laptop", 4);
        config.allocator = &allocator;
        const tt_status status = tt_walked_wire_create(&config, &why, &wire);
        if (status == TT_OK) {
            tt_walked_wire_destroy(wire);
        }
        assert_int_equal(0, counter.live_count);
        assert_int_equal(counter.allocation_count >= fail_at ? TT_ERR_NO_MEMORY : TT_OK, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_all_reduces_take_what_the_cards_allow),
        cmocka_unit_test(test_costs_are_remembered_and_ascend),
        cmocka_unit_test(test_all_reduces_that_overlap_hold_the_wire_while_cards_work),
        cmocka_unit_test(test_any_number_of_lengths_can_be_asked_for),
        cmocka_unit_test(test_a_length_that_cannot_be_walked_is_reported),
        cmocka_unit_test(test_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
