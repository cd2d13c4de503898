/* SPDX-License-Identifier: Apache-2.0
 *
 * explore_test.c - three workers and a store, in every order of frames, steps and one death; see
 * explore.h. Longer scenarios: --all.
 *
 * Labels: sync
 * Timeout: 300 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/plant.h"
#include "store/explore.h"

#define SHORT .is_short = true, .is_prompt = true

static void test_every_order_of_frames_and_steps(void **state)
{
    (void)state;
    explore_run(&(scenario){.name = "all orders", .policy = "bulk", .owner = 1, .clocks = 4});
    explore_run(&(scenario){.name = "all orders", .policy = "stale:1", .clocks = 1});
    explore_run(&(scenario){.name = "all orders", .policy = "async", .clocks = 1});
}

static void test_four_clocks(void **state)
{
    (void)state;
    explore_run(&(scenario){.name = "four", .policy = "stale:1", .clocks = 4, SHORT});
    explore_run(&(scenario){.name = "push and clock started",
                            .policy = "stale:1",
                            .clocks = 2,
                            .is_started = true,
                            SHORT});
    explore_run(&(scenario){.name = "two", .policy = "stale:2", .clocks = 2, SHORT});
    explore_run(&(scenario){.name = "two", .policy = "async", .clocks = 2, SHORT});
}

static void test_a_worker_dies(void **state)
{
    (void)state;
    explore_run(&(scenario){.name = "death",
                            .policy = "bulk",
                            .owner = 1,
                            .clocks = 2,
                            .trouble = TROUBLE_DEATH,
                            SHORT});
    explore_run(&(scenario){
        .name = "death", .policy = "stale:1", .clocks = 2, .trouble = TROUBLE_DEATH, SHORT});
    explore_run(&(scenario){.name = "death, keeper and owner differ",
                            .policy = "stale:1",
                            .owner = 1,
                            .clocks = 1,
                            .trouble = TROUBLE_DEATH,
                            SHORT});
}

static void test_a_worker_leaves(void **state)
{
    (void)state;
    explore_run(&(scenario){.name = "leaving",
                            .policy = "bulk",
                            .owner = 1,
                            .clocks = 2,
                            .trouble = TROUBLE_LEAVING,
                            SHORT});
    explore_run(&(scenario){
        .name = "leaving", .policy = "stale:1", .clocks = 2, .trouble = TROUBLE_LEAVING, SHORT});
    explore_run(&(scenario){.name = "leaving, keeper and owner differ",
                            .policy = "stale:1",
                            .owner = 1,
                            .clocks = 1,
                            .trouble = TROUBLE_LEAVING,
                            SHORT});
    explore_run(&(scenario){
        .name = "leaving", .policy = "async", .clocks = 1, .trouble = TROUBLE_LEAVING, SHORT});
    explore_run(&(scenario){.name = "leaving, workers own",
                            .policy = "bulk",
                            .no_servers = true,
                            .clocks = 1,
                            .trouble = TROUBLE_LEAVING,
                            .is_prompt = true});
}

static void test_a_worker_is_stopped(void **state)
{
    (void)state;
    explore_run(&(scenario){
        .name = "stop", .policy = "bulk", .owner = 1, .clocks = 4, .trouble = TROUBLE_STOP, SHORT});
    explore_run(&(scenario){
        .name = "stop", .policy = "stale:1", .clocks = 2, .trouble = TROUBLE_STOP, SHORT});
}

static void test_a_push_arrives_twice(void **state)
{
    (void)state;
    explore_run(&(scenario){.name = "twice",
                            .policy = "bulk",
                            .owner = 1,
                            .clocks = 4,
                            .trouble = TROUBLE_TWICE,
                            SHORT});
    explore_run(&(scenario){
        .name = "twice", .policy = "stale:1", .clocks = 2, .trouble = TROUBLE_TWICE, SHORT});
}

static void test_keeper_and_owner_differ(void **state)
{
    (void)state;
    explore_run(&(scenario){
        .name = "keeper and owner differ", .policy = "stale:1", .owner = 1, .clocks = 2, SHORT});
}

/* A clock reaches the keeper before the pushes of its iteration reach their owner. */
static void test_all_orders_of_clocks_and_pushes(void **state)
{
    (void)state;
    explore_run(&(scenario){.name = "keeper and owner differ",
                            .policy = "stale:1",
                            .owner = 1,
                            .clocks = 2,
                            .is_started = true,
                            SHORT});
}

/* Three workers, four clocks, s up to 2, one death. */
static void test_all_four_clocks_and_a_death(void **state)
{
    (void)state;
    explore_run(&(scenario){.name = "death",
                            .policy = "bulk",
                            .owner = 1,
                            .clocks = 4,
                            .trouble = TROUBLE_DEATH,
                            SHORT});
    explore_run(&(scenario){
        .name = "death", .policy = "stale:1", .clocks = 4, .trouble = TROUBLE_DEATH, SHORT});
    explore_run(&(scenario){
        .name = "death", .policy = "stale:2", .clocks = 4, .trouble = TROUBLE_DEATH, SHORT});
}

static void test_all_orders_of_workers_that_own(void **state)
{
    (void)state;
    explore_run(&(scenario){.name = "all orders", .policy = "stale:1", .owner = 1, .clocks = 1});
    explore_run(&(scenario){.name = "workers own",
                            .policy = "stale:1",
                            .no_servers = true,
                            .clocks = 1,
                            .trouble = TROUBLE_DEATH});
}

static int run_group(bool is_all)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_order_of_frames_and_steps),
        cmocka_unit_test(test_four_clocks),
        cmocka_unit_test(test_a_worker_dies),
        cmocka_unit_test(test_a_worker_leaves),
        cmocka_unit_test(test_a_worker_is_stopped),
        cmocka_unit_test(test_a_push_arrives_twice),
        cmocka_unit_test(test_keeper_and_owner_differ),
    };
    const struct CMUnitTest longer[] = {
        cmocka_unit_test(test_all_orders_of_clocks_and_pushes),
        cmocka_unit_test(test_all_four_clocks_and_a_death),
        cmocka_unit_test(test_all_orders_of_workers_that_own),
    };
    return is_all ? cmocka_run_group_tests(longer, NULL, NULL)
                  : cmocka_run_group_tests(tests, NULL, NULL);
}

/* [--all | --bug NAME TEST | --bug NONE TEST] */
int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--bug") == 0) {
        cmocka_set_test_filter(argv[3]);
        return strcmp(argv[2], "NONE") != 0 && !tt_plant_choose(argv[2])
                   ? 2
                   : run_group(false) != 0 || run_group(true) != 0;
    }
    (void)mallopt(M_TRIM_THRESHOLD, 256 << 20); /* states are kept and dropped all the time */
    (void)mallopt(M_TOP_PAD, 16 << 20);
    return run_group(argc == 2 && strcmp(argv[1], "--all") == 0);
}
