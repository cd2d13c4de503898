/* SPDX-License-Identifier: Apache-2.0
 *
 * collectives_test.c - every collective gives the oracle's bits on every test driver.
 * Labels: asan
 * Timeout: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/registry.h"
#include "base/base.h"
#include "conformance/world.h"

static const uint32_t all_ranks[CASE_SIZE_MAX] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                  8, 9, 10, 11, 12, 13, 14, 15};

typedef struct case_suite {
    test_world *world;
    world_config config;
    uint64_t hash;
    uint32_t cases, failures;
    uint32_t skip; /* take every skip-th case */
} case_suite;

static void try_case(const collective_case *one, void *owner)
{
    case_suite *suite = owner;
    if (suite->cases++ % suite->skip != suite->config.seed % suite->skip) {
        return;
    }
    if (one->algorithm != NULL && (suite->world == NULL || suite->config.algorithm == NULL ||
                                   strcmp(suite->config.algorithm, one->algorithm) != 0)) {
        return;
    }
    case_run *run = case_start(suite->world, one, 0, all_ranks);
    const bool is_over = world_run(suite->world);
    const char *error = case_finish(run, &suite->hash);
    if (!is_over && error == NULL) {
        error = "deadlock";
    }
    if (error != NULL) {
        char text[256];
        case_describe(one, text, sizeof(text));
        print_error("driver %d seed %llu segment %u eager %u hosts %u: %s: %s\n",
                    (int)suite->config.driver, (unsigned long long)suite->config.seed,
                    suite->config.segment_bytes, suite->config.eager_bytes_max,
                    suite->config.host_count, text, error);
        suite->failures++;
        if (suite->failures > 10 || !is_over) {
            fail_msg("%s", error);
        }
    }
}

static void suite_run(case_suite *suite, bool is_by_algorithm)
{
    suite->world = world_create(&suite->config);
    assert_non_null(suite->world);
    if (is_by_algorithm) {
        cases_for_each_algorithm(suite->config.size, try_case, suite);
    } else {
        cases_for_each(suite->config.size, try_case, suite);
    }
    assert_true(world_destroy(suite->world));
    assert_int_equal(suite->failures, 0);
}

static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8};

/* Tiny segments, so that lanes, grants and parking are all used. */
static case_suite suite_make(world_driver driver, uint32_t size, uint64_t seed)
{
    return (case_suite){.config = {.driver = driver,
                                   .size = size,
                                   .host_count = (uint32_t)(1 + seed % 3),
                                   .seed = seed,
                                   .segment_bytes = seed % 2 == 0 ? 128 : 1024,
                                   .eager_bytes_max = seed % 4 < 2 ? 64 : 1024,
                                   .is_shared = seed % 3 == 1},
                        .skip = 1};
}

static void run_types(world_driver driver, uint32_t skip)
{
    for (size_t s = 0; s < TT_ARRAY_COUNT(sizes); s++) {
        case_suite suite = suite_make(driver, sizes[s], s);
        suite.skip = skip;
        suite_run(&suite, false);
    }
}

static void test_every_collective_type_and_operator_by_shuffle(void **state)
{
    (void)state;
    run_types(WORLD_SHUFFLE, 1);
}

static void test_every_collective_type_and_operator_by_sim(void **state)
{
    (void)state;
    run_types(WORLD_SIM, 1);
}

static void test_an_engine_runs_every_collective(void **state)
{
    (void)state;
    for (size_t s = 0; s < TT_ARRAY_COUNT(sizes); s++) {
        case_suite suite = suite_make(WORLD_SHUFFLE, sizes[s], s);
        suite.config.has_engine = true;
        suite_run(&suite, false);
    }
}

static void test_every_algorithm_by_name(void **state)
{
    (void)state;
    for (size_t a = 0; tt_algorithm_at(a) != NULL; a++) {
        for (size_t s = 0; s < TT_ARRAY_COUNT(sizes); s++) {
            for (uint64_t seed = 0; seed < 6; seed++) {
                case_suite suite =
                    suite_make(seed % 2 == 0 ? WORLD_SIM : WORLD_SHUFFLE, sizes[s], seed / 2 + s);
                suite.config.algorithm = tt_algorithm_at(a)->name;
                suite_run(&suite, true);
            }
        }
    }
}

/* The same inputs give the same bits, whatever the driver, order and segment. */
static void test_drivers_and_seeds_give_the_same_bits(void **state)
{
    (void)state;
    uint64_t hash = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        case_suite suite = suite_make(seed % 2 == 0 ? WORLD_SIM : WORLD_SHUFFLE, 4, seed);
        suite.skip = 1;
        suite.config.algorithm = "ring";
        suite.config.segment_bytes = 256;
        suite_run(&suite, false);
        if (seed == 0) {
            hash = suite.hash;
        }
        assert_true(suite.hash == hash);
    }
}

/* Long frames: payloads that arrive after their heads. */
static void try_long(const collective_case *one, void *owner)
{
    collective_case longer = *one;
    if (one->count == 1025 && one->dtype == TT_F32) {
        longer.count = 60001;
        try_case(&longer, owner);
    }
}

static void test_long_frames(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        case_suite suite = suite_make(seed % 2 == 0 ? WORLD_SIM : WORLD_SHUFFLE, 3, seed);
        suite.config.segment_bytes = 64 * 1024;
        suite.config.is_shared = false;
        suite.world = world_create(&suite.config);
        cases_for_each(3, try_long, &suite);
        assert_true(world_destroy(suite.world));
        assert_int_equal(suite.failures, 0);
    }
}

/* Ops of overlapping sets, all in flight at once; with an engine also where credit allows each
 * order one launch at a time. */
static void test_sets_do_not_disturb_each_other(void **state)
{
    (void)state;
    enum { SIZE = 5, RUNS = 24 };
    static const uint32_t odd[] = {3, 1}, most[] = {4, 0, 2, 1};
    for (uint64_t seed = 0; seed < 28; seed++) {
        case_suite suite = suite_make(seed % 2 == 0 ? WORLD_SIM : WORLD_SHUFFLE, SIZE, seed);
        suite.config.has_engine = seed % 4 == 3;
        suite.config.credit_bytes = seed % 8 == 3 ? 1 : 0;
        test_world *world = world_create(&suite.config);
        assert_non_null(world);
        for (uint32_t rank = 0; rank < SIZE; rank++) {
            uint32_t set;
            assert_int_equal(tt_control_set_create(world_control(world, rank), odd, 2, &set),
                             TT_OK);
            assert_int_equal(set, 1);
            assert_int_equal(tt_control_set_create(world_control(world, rank), most, 4, &set),
                             TT_OK);
            assert_int_equal(set, 2);
        }
        case_run *runs[RUNS];
        for (uint32_t i = 0; i < RUNS; i++) {
            static const uint32_t *const members[] = {all_ranks, odd, most};
            static const uint32_t set_sizes[] = {SIZE, 2, 4};
            const uint32_t set = (uint32_t)((seed + i) % 3);
            const tt_collective collective = (tt_collective)(i % TT_SEND);
            const collective_case one = {.collective = collective,
                                         .dtype = TT_I32,
                                         .redop = TT_SUM,
                                         .size = set_sizes[set],
                                         .root = i % set_sizes[set],
                                         .count = 37 * i,
                                         .prescale = 1.0,
                                         .postscale = 1.0,
                                         .salt = i};
            runs[i] = case_start(world, &one, set, members[set]);
        }
        assert_true(world_run(world));
        uint64_t hash = 0;
        for (uint32_t i = 0; i < RUNS; i++) {
            const char *error = case_finish(runs[i], &hash);
            if (error != NULL) {
                fail_msg("seed %u op %u: %s", (unsigned)seed, i, error);
            }
        }
        assert_true(world_destroy(world));
    }
}

static case_run *start_sum(test_world *world, uint32_t set, const uint32_t *ranks, uint32_t size)
{
    const collective_case one = {.collective = TT_ALLREDUCE,
                                 .dtype = TT_I32,
                                 .redop = TT_SUM,
                                 .size = size,
                                 .count = 100 + set,
                                 .prescale = 1.0,
                                 .postscale = 1.0,
                                 .salt = set};
    return case_start(world, &one, set, ranks);
}

/* Each call of the world fails on every rank, with what the engine could not do or still holds: on
 * some ranks a later call may return the earlier failure itself. */
static void assert_engine_is_lost(test_world *world, uint32_t size)
{
    for (int call = 0; call < 3; call++) {
        uint64_t hash = 0;
        case_run *later = start_sum(world, 0, all_ranks, size);
        assert_true(world_run(world));
        for (uint32_t i = 0; i < size; i++) {
            assert_int_not_equal(case_request(later, i)->status, TT_OK);
            assert_non_null(strstr(case_request(later, i)->error, "the engine "));
        }
        (void)case_finish(later, &hash);
    }
}

/* Any one launch fails, on one rank alone: no call of the set is left waiting for credit, and as
 * the engine may still hold that call's buffers, later calls are refused on every rank. */
static void test_a_failed_launch_leaves_nothing_waiting(void **state)
{
    (void)state;
    enum { SIZE = 3, RUNS = 6 };
    for (uint64_t strays_at = 1; strays_at <= SIZE * RUNS; strays_at++) {
        case_suite suite = suite_make(WORLD_SHUFFLE, SIZE, 6 + strays_at % 4);
        suite.config.has_engine = true;
        suite.config.is_shared = false;
        suite.config.strays_at = strays_at;
        suite.config.credit_bytes = 1;
        test_world *world = world_create(&suite.config);
        assert_non_null(world);
        case_run *runs[RUNS];
        for (uint32_t i = 0; i < RUNS; i++) {
            const collective_case one = {.collective = TT_ALLREDUCE,
                                         .dtype = TT_I32,
                                         .redop = TT_SUM,
                                         .size = SIZE,
                                         .count = 100,
                                         .prescale = 1.0,
                                         .postscale = 1.0,
                                         .salt = i};
            runs[i] = case_start(world, &one, 0, all_ranks);
        }
        assert_true(world_run(world));
        uint64_t hash = 0;
        uint32_t failed = 0;
        for (uint32_t i = 0; i < RUNS; i++) {
            failed += case_status(runs[i]) != TT_OK ? 1 : 0;
            (void)case_finish(runs[i], &hash);
        }
        assert_true(failed > 0);
        assert_engine_is_lost(world, SIZE);
        assert_true(world_destroy(world));
    }
}

static uint64_t launched_by(test_world *world, uint32_t rank)
{
    return tt_control_count(world_control(world, rank)).launched;
}

/* Rank 2 is lost while the engine runs a sum of all ranks for ranks 0 and 1. It keeps the buffers
 * of that sum for good, so it gets no more calls: its calls of ranks 0 and 1 alone fail as well,
 * and so does every later call of theirs, with the lost rank named. */
static bool lose_a_rank_with_the_engine_at_work(uint64_t seed)
{
    enum { SIZE = 3 };
    static const uint32_t pair[] = {0, 1};
    uint32_t set;
    uint64_t hash = 0;
    case_suite suite = suite_make(WORLD_SHUFFLE, SIZE, seed);
    suite.config.has_engine = true;
    suite.config.is_shared = false;
    test_world *world = world_create(&suite.config);
    assert_non_null(world);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        assert_int_equal(tt_control_set_create(world_control(world, rank), pair, 2, &set), TT_OK);
    }
    case_run *of_all = start_sum(world, 0, all_ranks, SIZE);
    case_run *of_pair = start_sum(world, set, pair, 2);
    while (launched_by(world, 0) < 2 || launched_by(world, 1) < 2) {
        assert_true(world_step(world));
    }
    const bool was_open[] = {case_request(of_all, 0)->status == TT_IN_PROGRESS,
                             case_request(of_all, 1)->status == TT_IN_PROGRESS};
    const bool pair_was_open[] = {case_request(of_pair, 0)->status == TT_IN_PROGRESS,
                                  case_request(of_pair, 1)->status == TT_IN_PROGRESS};
    world_lose(world, 2);
    assert_true(world_run(world));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(case_request(of_all, i)->status, was_open[i] ? TT_ERR_PEER_DOWN : TT_OK);
        if (was_open[i] && pair_was_open[i]) {
            assert_int_equal(case_request(of_pair, i)->status, TT_ERR_PEER_DOWN);
        }
    }
    const bool is_stuck = was_open[0] || was_open[1];
    case_run *later = start_sum(world, set, pair, 2);
    assert_true(world_run(world));
    for (uint32_t i = 0; i < 2 && is_stuck; i++) {
        const tt_request *request = case_request(later, i);
        assert_int_equal(request->status, TT_ERR_UNSUPPORTED);
        assert_non_null(strstr(request->error, "rank 2 is down"));
    }
    (void)case_finish(of_all, &hash);
    (void)case_finish(of_pair, &hash);
    const char *wrong = case_finish(later, &hash);
    assert_true(is_stuck || wrong == NULL);
    assert_true(world_destroy(world));
    return is_stuck && (pair_was_open[0] || pair_was_open[1]);
}

static void test_an_engine_that_lost_a_rank_serves_no_other_set(void **state)
{
    (void)state;
    uint32_t hit = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        hit += lose_a_rank_with_the_engine_at_work(seed) ? 1 : 0;
    }
    assert_true(hit >= 10);
}

/* Any one allocation fails: no leak, no hang; the call succeeds on all ranks or fails on all. */
static void survive_failing_allocations(bool has_engine)
{
    const collective_case one = {.collective = TT_ALLREDUCE,
                                 .dtype = TT_F32,
                                 .redop = TT_SUM,
                                 .size = 3,
                                 .count = 500,
                                 .prescale = 1.0,
                                 .postscale = 1.0};
    uint64_t allocations = 1;
    for (uint64_t fail_at = 1; fail_at <= allocations; fail_at++) {
        case_suite suite = suite_make(WORLD_SHUFFLE, 3, 6);
        suite.config.fail_at = fail_at;
        suite.config.is_shared = false;
        suite.config.has_engine = has_engine;
        test_world *world = world_create(&suite.config);
        if (world == NULL) {
            allocations++;
            continue;
        }
        case_run *run = case_start(world, &one, 0, all_ranks);
        if (!world_run(world)) {
            fail_msg("allocation %u: a call never ends", (unsigned)fail_at);
        }
        const tt_status status = case_status(run);
        uint64_t hash = 0;
        const char *error = case_finish(run, &hash);
        assert_true(status == TT_OK ? error == NULL : status == TT_ERR_NO_MEMORY);
        allocations = world_allocations(world);
        assert_true(world_destroy(world));
    }
    assert_true(allocations > 10);
}

static void test_every_failing_allocation_is_survived(void **state)
{
    (void)state;
    survive_failing_allocations(false);
    survive_failing_allocations(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_type_and_operator_by_shuffle),
        cmocka_unit_test(test_every_collective_type_and_operator_by_sim),
        cmocka_unit_test(test_an_engine_runs_every_collective),
        cmocka_unit_test(test_every_algorithm_by_name),
        cmocka_unit_test(test_drivers_and_seeds_give_the_same_bits),
        cmocka_unit_test(test_long_frames),
        cmocka_unit_test(test_sets_do_not_disturb_each_other),
        cmocka_unit_test(test_a_failed_launch_leaves_nothing_waiting),
        cmocka_unit_test(test_an_engine_that_lost_a_rank_serves_no_other_set),
        cmocka_unit_test(test_every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
