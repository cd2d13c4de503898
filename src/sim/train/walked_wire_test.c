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

/* Of 96 ranks on 16 hosts of Summit. */
static tt_walked_config source_of(tt_wire_source source)
{
    tt_text why = {.length = 0};
    tt_walked_config config = config_of("summit", 96);
    const tt_cluster *cluster = tt_cluster_preset_find("summit");
    config.source = source;
    assert_int_equal(tt_nccl_job_init(&config.nccl, cluster, 96, &why), TT_OK);
    assert_int_equal(tt_server_job_init(&config.servers, cluster, 96, 0, &why), TT_OK);
    return config;
}

static double time_of(const tt_walked_config *config, uint64_t bytes)
{
    tt_walked_wire *wire = wire_of(config);
    const tt_wire costs = tt_walked_wire_costs(wire, true);
    const double found_us = tt_wire_time_us(&costs, TT_TASK_ALLREDUCE, bytes);
    tt_walked_wire_destroy(wire);
    return found_us;
}

static void test_formulas_cost_what_walks_do(void **state)
{
    (void)state;
    const tt_walked_config moves = source_of(TT_WIRE_MOVES), closed = source_of(TT_WIRE_CLOSED);
    for (uint64_t bytes = 64; bytes <= 16 << 20; bytes *= 8) {
        const double walked_us = time_of(&moves, bytes);
        assert_true(fabs(time_of(&closed, bytes) - walked_us) < 0.12 * walked_us);
    }
}

static void test_other_engines_cost_what_their_models_say(void **state)
{
    (void)state;
    const uint64_t bytes = 4 << 20;
    const tt_walked_config nccl = source_of(TT_WIRE_NCCL), servers = source_of(TT_WIRE_SERVERS);
    assert_true(fabs(time_of(&nccl, bytes) - tt_nccl_allreduce(&nccl.nccl, bytes).time_us) < 1e-9);
    const tt_server_time exchange = tt_server_exchange(&servers.servers, bytes);
    assert_true(fabs(time_of(&servers, bytes) - exchange.whole_us) < 1e-9);
    tt_walked_wire *wire = wire_of(&servers);
    const tt_wire costs = tt_walked_wire_costs(wire, false);
    const tt_wire_cost cost = tt_wire_cost_of(&costs, TT_TASK_ALLREDUCE, bytes);
    assert_true(fabs(cost.hold_us - exchange.hold_us) < 1e-9);
    tt_walked_wire_destroy(wire);
}

/* The fastest of three, and the copies of accelerators. */
static void test_mpi_takes_the_fastest_algorithm(void **state)
{
    (void)state;
    static const char *const names[] = {"doubling", "halving", "ring"};
    tt_walked_config mpi = source_of(TT_WIRE_MPI), closed = source_of(TT_WIRE_CLOSED);
    for (uint64_t bytes = 64; bytes <= 64 << 20; bytes *= 16) {
        double best_us = INFINITY;
        for (size_t i = 0; i < TT_ARRAY_COUNT(names); i++) {
            closed.algorithm = names[i];
            best_us = fmin(best_us, time_of(&closed, bytes));
        }
        mpi.staging_gbs = 0;
        assert_true(fabs(time_of(&mpi, bytes) - best_us) < 1e-9 * best_us);
        mpi.staging_gbs = 8;
        const double copies_us = 2 * (double)bytes / 8000;
        assert_true(fabs(time_of(&mpi, bytes) - best_us - copies_us) < 0.01);
    }
}

static void test_a_survey_knows_what_a_walk_would_take(void **state)
{
    (void)state;
    const tt_walked_config moves = source_of(TT_WIRE_MOVES), closed = source_of(TT_WIRE_CLOSED);
    tt_walked_wire *walked = wire_of(&moves), *formula = wire_of(&closed);
    const tt_walked_needs found = tt_walked_wire_survey(walked);
    const tt_walked_needs expected = tt_walked_wire_survey(formula);
    assert_true(found.memory_bytes > 0 && found.memory_bytes == expected.memory_bytes);
    assert_true(fabs((double)found.messages - (double)expected.messages) <
                0.05 * (double)found.messages);
    tt_walked_wire_destroy(walked);
    tt_walked_wire_destroy(formula);
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
        cmocka_unit_test(test_formulas_cost_what_walks_do),
        cmocka_unit_test(test_other_engines_cost_what_their_models_say),
        cmocka_unit_test(test_mpi_takes_the_fastest_algorithm),
        cmocka_unit_test(test_a_survey_knows_what_a_walk_would_take),
        cmocka_unit_test(test_any_number_of_lengths_can_be_asked_for),
        cmocka_unit_test(test_a_length_that_cannot_be_walked_is_reported),
        cmocka_unit_test(test_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
