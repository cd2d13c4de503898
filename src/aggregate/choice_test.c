/* SPDX-License-Identifier: Apache-2.0
 *
 * choice_test.c - costs decide only where they show a clear gain of an algorithm that fits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "aggregate/aggregate.h"
#include "aggregate/registry.h"

enum { SIZE = 4 };

static const uint32_t zeros[SIZE];
static const uint32_t numbers[SIZE] = {0, 1, 2, 3};
static const uint32_t first[2] = {0, SIZE};
static const tt_topology one_host = {.host_count = 1,
                                     .rail_count = SIZE,
                                     .host_of = zeros,
                                     .local_of = numbers,
                                     .host_first = first,
                                     .host_members = numbers,
                                     .has_views = true};

static tt_problem make_problem(uint64_t bytes)
{
    return (tt_problem){.collective = TT_ALLREDUCE,
                        .dtype = TT_F32,
                        .redop = TT_SUM,
                        .size = SIZE,
                        .element_bytes = 4,
                        .segment_bytes = 1 << 18,
                        .bytes = bytes,
                        .postscale = 1.0,
                        .topology = &one_host};
}

static void compile(const char *lines, bool is_crowded, tt_choice *choice)
{
    static tt_costs costs;
    char text[1024] = "tutti costs 1\n";
    tt_text why = {0};
    tt_topology topology = one_host;
    tt_problem shape = make_problem(0);
    topology.is_crowded = is_crowded;
    shape.topology = &topology;
    strncat(text, lines, sizeof(text) - strlen(text) - 1);
    assert_int_equal(tt_costs_parse(text, strlen(text), &costs, &why), TT_OK);
    tt_choice_build(choice, &costs, &shape);
}

static const tt_algorithm *chosen(const tt_choice *choice, uint64_t bytes)
{
    const tt_problem problem = make_problem(bytes);
    return tt_choice_find(choice, &problem);
}

static void test_a_clearly_cheaper_algorithm_is_chosen(void **state)
{
    (void)state;
    tt_choice choice;
    compile("allreduce shared shm 4 any 1000 1000000\n"
            "allreduce ring shm 4 any 5000 1000\n",
            false, &choice);
    assert_null(chosen(&choice, 4096)); /* shared: 1000 + 3906 ns against 5003 */
    assert_ptr_equal(chosen(&choice, 1 << 20), &tt_algorithm_ring);
    assert_ptr_equal(chosen(&choice, UINT64_C(1) << 40), &tt_algorithm_ring);
}

/* A burst of a shaped link makes all algorithms look alike: measurements of short vectors do not
 * hold for long ones. They still give a guess. */
static void test_sizes_that_no_line_reaches_are_left_to_the_built_in_choice(void **state)
{
    (void)state;
    tt_choice choice;
    tt_costs costs;
    tt_text why = {0};
    uint64_t time_ns = 0;
    const char *lines = "tutti costs 1\nallreduce shared shm 4 1048576 1000 1000000\n"
                        "allreduce star shm 4 1048576 1000 1000\n";
    compile(strchr(lines, '\n') + 1, false, &choice);
    assert_ptr_equal(chosen(&choice, 1 << 20), &tt_algorithm_star);
    assert_null(chosen(&choice, 2 << 20));
    assert_null(chosen(&choice, 64 << 20));
    const tt_problem problem = make_problem(64 << 20);
    assert_int_equal(tt_costs_parse(lines, strlen(lines), &costs, &why), TT_OK);
    assert_true(tt_choice_predict(&costs, &problem, &tt_algorithm_shared, &time_ns));
    assert_int_equal(time_ns, 1000 + UINT64_C(64) * 1000000);
}

static void test_a_small_gain_changes_nothing(void **state)
{
    (void)state;
    tt_choice choice;
    compile("allreduce shared shm 4 any 1000 0\nallreduce ring shm 4 any 850 0\n", false, &choice);
    assert_null(chosen(&choice, 1 << 20));
}

static void test_a_built_in_choice_without_a_line_stands(void **state)
{
    (void)state;
    tt_choice choice;
    compile("allreduce ring shm 4 any 1 0\n", false, &choice);
    assert_null(chosen(&choice, 1 << 20));
}

static void test_lines_of_other_ranks_and_placements_are_ignored(void **state)
{
    (void)state;
    tt_choice choice;
    compile("allreduce shared shm 8 any 1000 0\nallreduce ring shm 8 any 1 0\n"
            "allreduce shared lo 4 any 1000 0\nallreduce ring lo 4 any 1 0\n",
            false, &choice);
    assert_null(chosen(&choice, 1 << 20));
    compile("allreduce shared shm 4 any 1000 0\nallreduce ring shm 4 any 1 0\n", true, &choice);
    assert_null(chosen(&choice, 1 << 20));
}

static void test_unknown_names_and_algorithms_that_do_not_fit_are_ignored(void **state)
{
    (void)state;
    tt_choice choice;
    compile("allreduce shared shm 4 any 1000 0\nallreduce magic shm 4 any 1 0\n"
            "allreduce pairwise shm 4 any 1 0\nallreduce hierarchical shm 4 any 1 0\n",
            false, &choice);
    assert_null(chosen(&choice, 1 << 20));
}

static void test_the_smallest_and_the_largest_size_have_a_bucket(void **state)
{
    (void)state;
    tt_choice choice;
    compile("allreduce flat shm 4 any 1000 0\nallreduce shared shm 4 any 1000 0\n"
            "allreduce ring shm 4 any 1 0\n",
            false, &choice);
    assert_null(chosen(&choice, 0));
    assert_ptr_equal(chosen(&choice, 1), &tt_algorithm_ring);
    assert_ptr_equal(chosen(&choice, UINT64_MAX), &tt_algorithm_ring);
}

static void test_placements_have_names_of_their_own(void **state)
{
    (void)state;
    tt_topology topology = one_host;
    assert_string_equal(tt_placement_name(&topology, SIZE), "shm");
    topology.is_crowded = true;
    assert_string_equal(tt_placement_name(&topology, SIZE), "shm-crowded");
    topology.is_crowded = topology.has_views = false;
    assert_string_equal(tt_placement_name(&topology, SIZE), "lo");
    topology.host_count = SIZE;
    assert_string_equal(tt_placement_name(&topology, SIZE), "net");
    topology.host_count = 2;
    topology.is_crowded = true;
    assert_string_equal(tt_placement_name(&topology, SIZE), "mixed-crowded");
}

/* With a core for each rank a hop costs more than frames do; where they share cores, less. */
static void test_small_sums_take_one_hop_where_each_rank_has_a_core(void **state)
{
    (void)state;
    tt_topology topology = one_host; /* its lists are not read */
    tt_problem problem = make_problem(4);
    problem.topology = &topology;
    problem.size = 16;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_flat);
    topology.is_crowded = true;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_star);
    problem.size = 8;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_flat);
}

/* A steady sum has the same order of additions, whatever it is fused with. */
static void test_the_limit_of_short_vectors_depends_on_the_segment(void **state)
{
    (void)state;
    static const tt_topology four_hosts = {.host_count = SIZE,
                                           .rail_count = 1,
                                           .host_of = numbers,
                                           .local_of = zeros,
                                           .host_first = numbers,
                                           .host_members = numbers};
    tt_problem problem = make_problem(12 * 1024);
    problem.topology = &four_hosts;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_doubling);
    problem.segment_bytes = 16 * 1024; /* slow links: bytes count more than hops */
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_halving); /* same bits */
    problem.bytes = 2 * 1024;
    assert_ptr_equal(tt_algorithm_choose(&problem, NULL), &tt_algorithm_doubling);
}

static void test_steady_sums_have_one_order_at_every_length(void **state)
{
    (void)state;
    static const struct {
        uint32_t size, host_count;
        bool has_views;
    } placements[] = {{2, 1, true},  {4, 1, true},    {8, 1, true}, {48, 1, true}, {4, 1, false},
                      {4, 4, false}, {64, 64, false}, {8, 2, true}, {12, 3, true}, {96, 8, true}};
    for (size_t i = 0; i < sizeof(placements) / sizeof(placements[0]); i++) {
        tt_topology topology = one_host; /* its lists are not read */
        topology.host_count = placements[i].host_count;
        topology.has_views = placements[i].has_views;
        tt_problem problem = make_problem(4);
        problem.size = placements[i].size;
        problem.topology = &topology;
        problem.is_steady = true;
        const tt_algorithm *shortest = tt_algorithm_choose(&problem, NULL);
        for (; problem.bytes <= UINT64_C(4) << 20; problem.bytes *= 2) {
            const tt_algorithm *algorithm = tt_algorithm_choose(&problem, NULL);
            const bool is_one_tree =
                algorithm == &tt_algorithm_halving && shortest == &tt_algorithm_doubling;
            assert_true(algorithm == shortest || is_one_tree ||
                        (algorithm->is_by_rank && shortest->is_by_rank));
        }
    }
}

/* An op's record serves calls with and without names in turn: which of them had it last differs
 * from rank to rank, so its kept state must not affect the choice. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clearly_cheaper_algorithm_is_chosen),
        cmocka_unit_test(test_sizes_that_no_line_reaches_are_left_to_the_built_in_choice),
        cmocka_unit_test(test_a_small_gain_changes_nothing),
        cmocka_unit_test(test_a_built_in_choice_without_a_line_stands),
        cmocka_unit_test(test_lines_of_other_ranks_and_placements_are_ignored),
        cmocka_unit_test(test_unknown_names_and_algorithms_that_do_not_fit_are_ignored),
        cmocka_unit_test(test_the_smallest_and_the_largest_size_have_a_bucket),
        cmocka_unit_test(test_placements_have_names_of_their_own),
        cmocka_unit_test(test_small_sums_take_one_hop_where_each_rank_has_a_core),
        cmocka_unit_test(test_the_limit_of_short_vectors_depends_on_the_segment),
        cmocka_unit_test(test_steady_sums_have_one_order_at_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
