/* SPDX-License-Identifier: Apache-2.0
 *
 * machines_test.c - calls of machines on a fabric: what is sent arrives, names are agreed on, late
 * ranks delay, engines land, what cannot be is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "sim/registry.h"
#include "sim/sim.h"

enum { RANKS = 8, CALLS = 12, OVERHEAD_NS = 500, LATENCY_NS = 1300, BYTE_FS = 80000 };

static tt_machines_config config_of(const tt_fabric_ops *model, uint32_t per_host)
{
    tt_machines_config config;
    tt_machines_config_init(&config);
    config.model = model;
    tt_fabric_config_plain(&config.fabric, RANKS,
                           (tt_fabric_link){.latency_ns = LATENCY_NS, .byte_fs = BYTE_FS});
    config.fabric.overhead_ns = OVERHEAD_NS;
    config.fabric.ranks_per_host = per_host;
    return config;
}

static tt_machines *create(const tt_machines_config *config)
{
    tt_text why = {0};
    tt_machines *machines = NULL;
    if (tt_machines_create(config, &why, &machines) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    return machines;
}

static tt_machines_result run(tt_machines *machines, const tt_machines_call *calls, size_t count)
{
    tt_text why = {0};
    tt_machines_result result;
    if (tt_machines_run(machines, calls, count, &why, &result) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        assert_int_equal(result.levels[level].frames_sent, result.levels[level].frames_received);
        assert_int_equal(result.levels[level].bytes_sent, result.levels[level].bytes_received);
    }
    return result;
}

static tt_machines_call sum_of(uint64_t bytes)
{
    return (tt_machines_call){
        .collective = TT_ALLREDUCE, .dtype = TT_F32, .count = bytes / sizeof(float)};
}

/* A ring sends each slice 2 (N - 1) times. */
static void test_what_is_sent_arrives_in_every_model(void **state)
{
    (void)state;
    for (size_t i = 0; tt_fabric_at(i) != NULL; i++) {
        const uint64_t bytes = 1 << 20;
        uint64_t done_ns[RANKS];
        tt_machines_config config = config_of(tt_fabric_at(i), 1);
        config.control.algorithm = "ring";
        tt_machines *machines = create(&config);
        tt_machines_call call = sum_of(bytes);
        call.done_ns = done_ns;
        const tt_machines_result result = run(machines, &call, 1);
        assert_int_equal(result.levels[TT_FABRIC_LEAF].bytes_sent, 2 * (RANKS - 1) * bytes);
        uint64_t last_ns = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            last_ns = tt_max_u64(last_ns, done_ns[rank]);
        }
        assert_int_equal(last_ns, result.end_ns);
        assert_true(result.memory_bytes < tt_machines_bytes(&config, 1));
        tt_machines_destroy(machines);
    }
}

static void test_ranks_of_a_host_use_their_memory(void **state)
{
    (void)state;
    tt_machines_config config = config_of(&tt_fabric_memory, RANKS);
    tt_machines *machines = create(&config);
    tt_machines_call call = sum_of(1 << 20);
    call.is_shared = true;
    const tt_machines_result result = run(machines, &call, 1);
    assert_int_equal(result.levels[TT_FABRIC_LEAF].frames_sent, 0);
    assert_true(result.levels[TT_FABRIC_HOST].frames_sent > 0); /* where buffers are, and when */
    assert_true(result.levels[TT_FABRIC_HOST].bytes_sent < 1 << 16);
    tt_machines_destroy(machines);
}

static void test_every_collective_runs_without_bytes(void **state)
{
    (void)state;
    tt_machines_config config = config_of(&tt_fabric_ports, 2);
    tt_machines *machines = create(&config);
    for (int collective = 0; collective < TT_COLLECTIVE_COUNT; collective++) {
        if (collective == TT_SEND || collective == TT_RECEIVE) {
            continue; /* of two ranks */
        }
        tt_machines_call call = sum_of(collective == TT_BARRIER ? 0 : 40000);
        call.collective = (tt_collective)collective;
        const tt_machines_result result = run(machines, &call, 1);
        assert_true(result.end_ns >= LATENCY_NS);
    }
    tt_machines_destroy(machines);
}

static void test_the_same_calls_give_the_same_events(void **state)
{
    (void)state;
    uint64_t hashes[2];
    for (uint32_t i = 0; i < 2; i++) {
        const tt_machines_config config = config_of(&tt_fabric_ports, 1);
        tt_machines *machines = create(&config);
        const tt_machines_call call = sum_of(100000);
        (void)run(machines, &call, 1);
        hashes[i] = tt_machines_hash(machines);
        tt_machines_destroy(machines);
    }
    assert_int_equal(hashes[0], hashes[1]);
}

static void test_a_late_rank_delays_the_others_by_as_much(void **state)
{
    (void)state;
    static const uint64_t start_ns[RANKS] = {[5] = 1000 * 1000};
    const tt_machines_config config = config_of(&tt_fabric_ports, 1);
    tt_machines *machines = create(&config);
    tt_machines_call call = sum_of(100000);
    const uint64_t on_time_ns = run(machines, &call, 1).end_ns;
    call.start_ns = start_ns;
    const uint64_t late_ns = run(machines, &call, 1).end_ns;
    assert_in_range(late_ns, start_ns[5], start_ns[5] + 2 * on_time_ns);
    tt_machines_destroy(machines);
}

/* Ranks make named calls at different times; a second step asks with bits, not with names. */
static void test_names_are_agreed_on(void **state)
{
    (void)state;
    tt_machines_call calls[CALLS];
    uint64_t start_ns[CALLS][RANKS], done_ns[CALLS][RANKS];
    char names[CALLS][16];
    const tt_machines_config config = config_of(&tt_fabric_ports, 1);
    tt_machines *machines = create(&config);
    for (uint32_t i = 0; i < CALLS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "tensor %u", i);
        calls[i] = sum_of(100000);
        calls[i].name = names[i];
        calls[i].start_ns = start_ns[i];
        calls[i].done_ns = done_ns[i];
        for (uint32_t rank = 0; rank < RANKS; rank++) { /* each in an order of its own */
            start_ns[i][rank] = (i + rank) % CALLS * UINT64_C(1000000);
        }
    }
    const uint64_t first = run(machines, calls, CALLS).frames;
    const uint64_t second = run(machines, calls, CALLS).frames;
    assert_true(second < first);
    for (uint32_t i = 0; i < CALLS; i++) {
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            for (uint32_t other = 0; other < RANKS; other++) {
                assert_true(done_ns[i][rank] > start_ns[i][other]);
            }
        }
    }
    tt_machines_destroy(machines);
}

static uint64_t engine_ns(const void *owner, const tt_sim_collective *what)
{
    (void)owner;
    (void)what;
    return UINT64_C(5000000);
}

static void test_an_engine_runs_calls_in_place_of_links(void **state)
{
    (void)state;
    tt_machines_config config = config_of(&tt_fabric_ports, 1);
    config.engine.collective_ns = engine_ns;
    tt_machines *machines = create(&config);
    const tt_machines_call call = sum_of(1 << 20);
    const tt_machines_result result = run(machines, &call, 1);
    assert_in_range(result.end_ns, 5000000, 5100000);
    assert_true(result.levels[TT_FABRIC_LEAF].bytes_sent < 1 << 16); /* the agreement */
    assert_int_equal(tt_control_count(tt_machines_control(machines, 0)).launched, 1);
    tt_machines_destroy(machines);
}

static void test_a_call_that_fails_says_why(void **state)
{
    (void)state;
    const tt_machines_config config = config_of(&tt_fabric_ports, 1);
    tt_machines *machines = create(&config);
    tt_machines_call calls[2] = {sum_of(100000), sum_of(100000)};
    tt_machines_result result;
    tt_text why = {0};
    calls[0].collective = TT_BROADCAST;
    calls[0].root = RANKS;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_machines_run(machines, calls, 2, &why, &result));
    assert_non_null(strstr(why.bytes, "root"));
    tt_machines_destroy(machines);
}

static void test_a_call_longer_than_its_buffers_is_refused(void **state)
{
    (void)state;
    const tt_machines_config config = config_of(&tt_fabric_ports, 1);
    tt_machines *machines = create(&config);
    tt_machines_call call = sum_of(UINT64_MAX - 3);
    tt_machines_result result;
    tt_text why = {0};
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_machines_run(machines, &call, 1, &why, &result));
    assert_non_null(strstr(why.bytes, "at most 16 GiB"));
    call.count = 1000;
    (void)run(machines, &call, 1); /* nothing has begun */
    tt_machines_destroy(machines);
}

static void test_too_many_ranks_are_refused_before_the_start(void **state)
{
    (void)state;
    tt_machines_config config = config_of(&tt_fabric_ports, 1);
    tt_machines *machines = NULL;
    tt_text why = {0};
    config.memory_bytes_max = tt_machines_bytes(&config, 0) - 1;
    assert_int_equal(TT_ERR_NO_MEMORY, tt_machines_create(&config, &why, &machines));
    assert_non_null(strstr(why.bytes, "allow more memory"));
    config.memory_bytes_max++;
    machines = create(&config);
    const tt_machines_call call = sum_of(100000);
    tt_machines_result result;
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_NO_MEMORY, tt_machines_run(machines, &call, 1, &why, &result));
    tt_machines_destroy(machines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_sent_arrives_in_every_model),
        cmocka_unit_test(test_ranks_of_a_host_use_their_memory),
        cmocka_unit_test(test_every_collective_runs_without_bytes),
        cmocka_unit_test(test_the_same_calls_give_the_same_events),
        cmocka_unit_test(test_a_late_rank_delays_the_others_by_as_much),
        cmocka_unit_test(test_names_are_agreed_on),
        cmocka_unit_test(test_an_engine_runs_calls_in_place_of_links),
        cmocka_unit_test(test_a_call_that_fails_says_why),
        cmocka_unit_test(test_a_call_longer_than_its_buffers_is_refused),
        cmocka_unit_test(test_too_many_ranks_are_refused_before_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
