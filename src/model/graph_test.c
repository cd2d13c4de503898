/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_test.c - building and refusing graphs, the generated networks, orders of tensors and of
 * operators. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/philox.h"
#include "model/first_use.h"
#include "model/network.h"
#include "model/registry.h"

enum { TENSORS_MAX = 256 };

/* ---- small graphs ------------------------------------------------------------------------------
 */

static tt_graph *new_graph(void)
{
    tt_graph *graph;
    assert_int_equal(TT_OK, tt_graph_create(&tt_allocator_default, &graph));
    return graph;
}

static uint32_t add_tensor(tt_graph *graph, const char *name, uint64_t bytes)
{
    tt_text why = {0};
    uint32_t index;
    assert_int_equal(TT_OK, tt_graph_add_tensor(graph, name, bytes, &why, &index));
    return index;
}

static uint32_t add_node(tt_graph *graph, tt_node node)
{
    tt_text why = {0};
    uint32_t index;
    assert_int_equal(TT_OK, tt_graph_add_node(graph, &node, &why, &index));
    return index;
}

static uint32_t add_compute(tt_graph *graph, const char *name, double time_us)
{
    return add_node(graph, (tt_node){.name = name, .time_us = time_us});
}

static uint32_t add_recv(tt_graph *graph, const char *name, uint64_t bytes)
{
    const uint32_t tensor = add_tensor(graph, name, bytes);
    return add_node(graph, (tt_node){.name = name, .kind = TT_NODE_RECV, .tensor = tensor});
}

static void add_edge(tt_graph *graph, uint32_t from, uint32_t to)
{
    tt_text why = {0};
    assert_int_equal(TT_OK, tt_graph_add_edge(graph, from, to, &why));
}

static void seal(tt_graph *graph)
{
    tt_text why = {0};
    assert_int_equal(TT_OK, tt_graph_seal(graph, &why));
}

static void assert_near(double expected, double found)
{
    if (!(fabs(expected - found) <= 1e-9 * fabs(expected))) {
        fail_msg("expected %g, found %g", expected, found);
    }
}

static void test_invalid_graphs_are_refused_with_a_reason(void **state)
{
    (void)state;
    tt_text why = {0};
    uint32_t index;
    tt_graph *graph = new_graph();
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_seal(graph, &why));
    assert_non_null(strstr(why.bytes, "empty"));
    const uint32_t recv = add_recv(graph, "w", 8);
    tt_node node = {.name = "w"};
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_add_node(graph, &node, &why, &index));
    assert_non_null(strstr(why.bytes, "\"w\" appears twice"));
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_add_tensor(graph, "w", 8, &why, &index));
    assert_non_null(strstr(why.bytes, "appears twice"));
    node = (tt_node){.name = "slow", .time_us = -1};
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_add_node(graph, &node, &why, &index));
    assert_non_null(strstr(why.bytes, "negative"));
    node.time_us = NAN;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_add_node(graph, &node, &why, &index));
    node = (tt_node){.name = "r", .kind = TT_NODE_RECV, .tensor = 7};
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_add_node(graph, &node, &why, &index));
    assert_non_null(strstr(why.bytes, "unknown tensor"));
    node.tensor = 0;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_add_node(graph, &node, &why, &index));
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_add_edge(graph, recv, recv, &why));
    const uint32_t a = add_compute(graph, "a", 1);
    const uint32_t b = add_compute(graph, "b", 1);
    const uint32_t c = add_compute(graph, "c", 1);
    add_edge(graph, recv, a);
    add_edge(graph, a, b);
    add_edge(graph, b, a);
    add_edge(graph, b, c);
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_seal(graph, &why));
    assert_non_null(strstr(why.bytes, "cycle"));
    assert_null(strstr(why.bytes, "\"c\"")); /* behind the cycle, not on it */
    tt_graph_destroy(graph);
}

static void test_a_receive_node_has_no_inputs(void **state)
{
    (void)state;
    tt_text why = {0};
    tt_graph *graph = new_graph();
    const uint32_t a = add_compute(graph, "a", 1);
    add_edge(graph, a, add_recv(graph, "w", 8));
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_seal(graph, &why));
    assert_non_null(strstr(why.bytes, "cannot need others"));
    tt_graph_destroy(graph);
}

/* w -> a -> b and c -> d */
static void test_a_graph_is_measured_by_hand(void **state)
{
    (void)state;
    tt_graph *graph = new_graph();
    const uint32_t a = add_compute(graph, "a", 1), b = add_compute(graph, "b", 2);
    const uint32_t c = add_compute(graph, "c", 3), d = add_compute(graph, "d", 4);
    add_edge(graph, add_recv(graph, "w", 8), a);
    add_edge(graph, a, b);
    add_edge(graph, a, c);
    add_edge(graph, b, d);
    add_edge(graph, c, d);
    seal(graph);
    tt_graph_stats stats;
    assert_int_equal(TT_OK, tt_graph_measure(graph, &stats));
    assert_int_equal(stats.node_count, 5);
    assert_int_equal(stats.compute_count, 4);
    assert_int_equal(stats.longest_path, 4);
    assert_int_equal(stats.inputs_max, 2);
    assert_near(stats.inputs_mean, 1);
    assert_near(stats.parallel_mean, 1.25);
    assert_near(stats.compute_us, 10);
    tt_graph_destroy(graph);
}

/* A (M 1, P 10) and B (M 10, P 1): A first takes 12, B first 21. */
static void test_tac_puts_the_short_transfer_with_long_work_first(void **state)
{
    (void)state;
    const tt_order_property a = {1, 10, INFINITY};
    const tt_order_property b = {10, 1, INFINITY};
    assert_true(tt_order_tac_before(&a, &b));
    assert_false(tt_order_tac_before(&b, &a));
    tt_graph *graph = new_graph();
    const uint32_t recv_b = add_recv(graph, "b", 10);
    const uint32_t recv_a = add_recv(graph, "a", 1);
    add_edge(graph, recv_a, add_compute(graph, "use a", 10));
    add_edge(graph, recv_b, add_compute(graph, "use b", 1));
    seal(graph);
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    tt_graph_run_config config = {.wire = {.byte_us = 1}};
    uint32_t *places;
    assert_int_equal(TT_OK, tt_order_tac(graph, &config.wire, &scratch, &places));
    tt_graph_times times;
    config.recv_places = places;
    assert_int_equal(TT_OK, tt_graph_run(graph, &config, &scratch, &times));
    assert_near(12, times.makespan_us);
    assert_near(22, times.compute_us + times.recv_us);
    assert_near((22 - 12) / (22.0 - 11.0), times.efficiency);
    const uint32_t wrong[2] = {0, 1};
    config.recv_places = wrong;
    assert_int_equal(TT_OK, tt_graph_run(graph, &config, &scratch, &times));
    assert_near(21, times.makespan_us);
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

static void test_tic_of_a_chain_is_forward_order(void **state)
{
    (void)state;
    static const char *const names[] = {"d", "b", "a", "c", "e"};
    tt_graph *graph = new_graph();
    uint32_t recvs[5];
    for (int i = 0; i < 5; i++) {
        recvs[i] = add_recv(graph, names[i], 8);
    }
    static const int chain[] = {2, 1, 3, 0, 4}; /* a b c d e */
    static const char *const ops[] = {"1", "2", "3", "4", "5"};
    uint32_t last = TT_GRAPH_NONE;
    for (int i = 0; i < 5; i++) {
        const uint32_t op = add_compute(graph, ops[i], 1);
        add_edge(graph, recvs[chain[i]], op);
        if (last != TT_GRAPH_NONE) {
            add_edge(graph, last, op);
        }
        last = op;
    }
    seal(graph);
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    uint32_t *places;
    assert_int_equal(TT_OK, tt_order_tic(graph, &scratch, &places));
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(i, places[chain[i]]);
    }
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

static void test_a_learner_gives_every_place_once(void **state)
{
    (void)state;
    uint32_t places[5];
    tt_order_learner learner;
    tt_order_learner_init(&learner, places, 5);
    tt_order_learner_note(&learner, 3);
    tt_order_learner_note(&learner, 1);
    tt_order_learner_note(&learner, 3); /* a shared weight is used twice */
    tt_order_learner_end(&learner);
    static const uint32_t expected[5] = {2, 1, 3, 0, 4};
    assert_memory_equal(expected, places, sizeof(places));
}

static void test_the_gradient_of_inputs_may_take_its_own_time(void **state)
{
    (void)state;
    tt_text why = {0};
    tt_graph *forward = new_graph();
    const uint32_t weights = add_recv(forward, "weights", 4);
    const uint32_t first = add_compute(forward, "first", 3);
    const uint32_t product =
        add_node(forward, (tt_node){.name = "product", .time_us = 5, .backward_us = 11});
    const uint32_t last = add_compute(forward, "last", 7);
    add_edge(forward, weights, first);
    add_edge(forward, first, product);
    add_edge(forward, product, last);
    seal(forward);
    tt_graph *graph;
    assert_int_equal(TT_OK, tt_graph_differentiate(forward, &why, &graph));
    const uint32_t backward = tt_graph_find_node(graph, "backward/product");
    assert_near(11, tt_graph_node(graph, backward)->time_us);
    tt_graph_stats stats;
    assert_int_equal(TT_OK, tt_graph_measure(graph, &stats));
    assert_near(2 * 3 + 5 + 11 + 2 * 7, stats.compute_us);
    tt_graph_scale(graph, 0.5);
    assert_int_equal(TT_OK, tt_graph_measure(graph, &stats));
    assert_near(18, stats.compute_us);
    assert_near(7.5, stats.forward_us);
    tt_graph_destroy(graph);
    tt_graph_destroy(forward);
}

/* ---- networks ----------------------------------------------------------------------------------
 */

static tt_graph *training_graph(const tt_network *model)
{
    tt_text why = {0};
    tt_graph *forward;
    tt_graph *graph;
    assert_int_equal(TT_OK, tt_network_build(model, &tt_allocator_default, &why, &forward));
    assert_int_equal(TT_OK, tt_graph_differentiate(forward, &why, &graph));
    tt_graph_destroy(forward);
    return graph;
}

static void test_networks_have_their_published_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; tt_network_at(i) != NULL; i++) {
        const tt_network *model = tt_network_at(i);
        tt_text why = {0};
        tt_graph *graph;
        assert_int_equal(TT_OK, tt_network_build(model, &tt_allocator_default, &why, &graph));
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < tt_graph_tensor_count(graph); k++) {
            bytes += tt_graph_tensor_at(graph, k)->bytes;
        }
        const double mib = (double)bytes / (1 << 20);
        if (tt_graph_tensor_count(graph) != model->tensor_count ||
            fabs(mib - model->mib) > 0.005 * model->mib) {
            fail_msg("%s: %u tensors, %.2f MiB; published %u, %.2f", model->name,
                     tt_graph_tensor_count(graph), mib, model->tensor_count, model->mib);
        }
        tt_graph_destroy(graph);
    }
}

static void test_every_gradient_of_a_training_graph_is_sent_once(void **state)
{
    (void)state;
    tt_graph *graph = training_graph(tt_network_find("inception-v3"));
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    tt_text why = {0};
    tt_workload workload;
    assert_int_equal(TT_OK, tt_graph_workload(graph, NULL, &scratch, &why, &workload));
    assert_int_equal(TT_OK, tt_workload_check(&workload, &why));
    assert_int_equal(196, workload.tensor_count);
    assert_true(workload.backward_us > 1.5 * workload.forward_us);
    tt_graph_stats stats;
    assert_int_equal(TT_OK, tt_graph_measure(graph, &stats));
    assert_near(stats.compute_us, tt_workload_compute_us(&workload));
    assert_true(stats.parallel_mean > 1.5);
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

/* Makespans of a forward graph: TIC, TAC, and the mean of 100 random orders. */
static void compare_orders(const tt_network *model, double rho)
{
    tt_text why = {0};
    tt_graph *graph;
    assert_int_equal(TT_OK, tt_network_build(model, &tt_allocator_default, &why, &graph));
    tt_graph_stats stats;
    assert_int_equal(TT_OK, tt_graph_measure(graph, &stats));
    const uint32_t count = tt_graph_tensor_count(graph);
    tt_graph_run_config config = {
        .wire = {.byte_us = rho * stats.forward_us / (model->mib * (1 << 20))}};
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    uint32_t *tic;
    uint32_t *tac;
    assert_int_equal(TT_OK, tt_order_tic(graph, &scratch, &tic));
    assert_int_equal(TT_OK, tt_order_tac(graph, &config.wire, &scratch, &tac));
    tt_graph_times tic_times;
    tt_graph_times tac_times;
    config.recv_places = tic;
    assert_int_equal(TT_OK, tt_graph_run(graph, &config, &scratch, &tic_times));
    config.recv_places = tac;
    assert_int_equal(TT_OK, tt_graph_run(graph, &config, &scratch, &tac_times));
    uint32_t *places = tt_scratch_take(&scratch, count, sizeof(places[0]));
    double mean_us = 0;
    tt_random random;
    tt_random_init(&random, 1, 0);
    for (int run = 0; run < 100; run++) {
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t other = tt_random_below(&random, i + 1);
            places[i] = places[other];
            places[other] = i;
        }
        tt_scratch inner;
        tt_scratch_init(&inner, &tt_allocator_default);
        tt_graph_times times;
        config.recv_places = places;
        assert_int_equal(TT_OK, tt_graph_run(graph, &config, &inner, &times));
        mean_us += times.makespan_us / 100;
        tt_scratch_fini(&inner);
    }
    print_message("%-14s rho %.1f: random/TAC %.3f, TIC/TAC %.4f, E %.3f\n", model->name, rho,
                  mean_us / tac_times.makespan_us, tic_times.makespan_us / tac_times.makespan_us,
                  tac_times.efficiency);
    assert_true(tic_times.makespan_us <= 1.02 * tac_times.makespan_us);
    assert_true(tic_times.makespan_us < mean_us);
    assert_true(tac_times.makespan_us < mean_us);
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

static void test_tic_is_near_tac_and_both_beat_random_orders(void **state)
{
    (void)state;
    for (size_t i = 0; tt_network_at(i) != NULL; i++) {
        compare_orders(tt_network_at(i), 0.5);
        compare_orders(tt_network_at(i), 1);
        compare_orders(tt_network_at(i), 2);
    }
}

/* ---- orders of operators -----------------------------------------------------------------------
 */

/* With the control edges added, every operator but the first has one predecessor that is last. */
static void assert_one_order(const tt_graph *graph, const uint32_t *places)
{
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    tt_control_edge *edges;
    uint32_t edge_count;
    assert_int_equal(TT_OK, tt_order_control_edges(graph, places, &scratch, &edges, &edge_count));
    tt_text why = {0};
    tt_graph *chained = new_graph();
    for (uint32_t i = 0; i < tt_graph_tensor_count(graph); i++) {
        add_tensor(chained, tt_graph_tensor_at(graph, i)->name, 1);
    }
    for (uint32_t i = 0; i < tt_graph_node_count(graph); i++) {
        add_node(chained, *tt_graph_node(graph, i));
    }
    for (uint32_t i = 0; i < tt_graph_node_count(graph); i++) {
        uint32_t count;
        const uint32_t *inputs = tt_graph_inputs(graph, i, &count);
        for (uint32_t k = 0; k < count; k++) {
            add_edge(chained, inputs[k], i);
        }
    }
    for (uint32_t i = 0; i < edge_count; i++) {
        add_edge(chained, edges[i].from, edges[i].to);
    }
    assert_int_equal(TT_OK, tt_graph_seal(chained, &why)); /* no cycle */
    tt_ready_stats each[TENSORS_MAX];
    assert_true(tt_graph_tensor_count(chained) <= TENSORS_MAX);
    assert_int_equal(TT_OK, tt_graph_ready(chained, NULL, 20, 3, each));
    for (uint32_t i = 0; i < tt_graph_tensor_count(chained); i++) {
        assert_true(each[i].variance < 1e-6); /* the executor has no choice left */
    }
    tt_graph_destroy(chained);
    tt_scratch_fini(&scratch);
}

static void test_ordered_operators_make_gradients_ready_early_and_always_alike(void **state)
{
    (void)state;
    static const char *const names[] = {"resnet50-v2", "inception-v2", "vgg16"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(names); i++) {
        tt_graph *graph = training_graph(tt_network_find(names[i]));
        const uint32_t count = tt_graph_tensor_count(graph);
        tt_ready_stats each[TENSORS_MAX];
        assert_true(count <= TENSORS_MAX);
        assert_int_equal(TT_OK, tt_graph_ready(graph, NULL, 100, 1, each));
        const tt_ready_stats before = tt_ready_mean(each, count);
        assert_true(before.variance > 1);
        for (int rule = TT_COMPUTE_NEAREST; rule <= TT_COMPUTE_CHEAPEST; rule++) {
            tt_scratch scratch;
            tt_scratch_init(&scratch, &tt_allocator_default);
            uint32_t *places;
            assert_int_equal(TT_OK,
                             tt_order_compute(graph, (tt_compute_rule)rule, &scratch, &places));
            assert_int_equal(TT_OK, tt_graph_ready(graph, places, 2, 1, each));
            const tt_ready_stats after = tt_ready_mean(each, count);
            print_message("%s: ready %.0f -> %.0f us, deviation %.0f -> %.0f us\n", names[i],
                          before.mean_us, after.mean_us, sqrt(before.variance),
                          sqrt(after.variance));
            assert_true(after.mean_us < before.mean_us);
            assert_true(after.variance < 1e-6);
            assert_one_order(graph, places);
            tt_scratch_fini(&scratch);
        }
        tt_graph_destroy(graph);
    }
}

/* ---- workloads ---------------------------------------------------------------------------------
 */

static void test_a_workload_survives_the_way_through_a_graph(void **state)
{
    (void)state;
    const tt_tensor tensors[] = {
        {"a", 40, 1, 11}, {"b", 80, 2, 9}, {"c", 8, 2, 8}, {"d", 16, 4, 8}};
    const tt_workload workload = {tensors, 4, 5, 7};
    tt_text why = {0};
    tt_graph *graph;
    assert_int_equal(TT_OK, tt_graph_from_workload(&workload, &tt_allocator_default, &why, &graph));
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    tt_workload back;
    assert_int_equal(TT_OK, tt_graph_workload(graph, NULL, &scratch, &why, &back));
    assert_near(workload.forward_us, back.forward_us);
    assert_near(workload.backward_us, back.backward_us);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(tensors[i].name, back.tensors[i].name);
        assert_int_equal(tensors[i].bytes, back.tensors[i].bytes);
        assert_near(tensors[i].first_use_us, back.tensors[i].first_use_us);
        assert_near(tensors[i].ready_us, back.tensors[i].ready_us);
    }
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

static void test_a_forward_graph_is_no_training_step(void **state)
{
    (void)state;
    tt_text why = {0};
    tt_graph *graph;
    assert_int_equal(
        TT_OK, tt_network_build(tt_network_find("vgg16"), &tt_allocator_default, &why, &graph));
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    tt_workload workload;
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_graph_workload(graph, NULL, &scratch, &why, &workload));
    assert_non_null(strstr(why.bytes, "training graph"));
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

static void test_out_of_memory_leaks_nothing(void **state)
{
    (void)state;
    const tt_tensor tensors[] = {{"a", 40, 1, 11}, {"b", 80, 2, 9}};
    const tt_workload workload = {tensors, 2, 5, 7};
    bool has_failed = true;
    for (uint64_t fail_at = 1; has_failed; fail_at++) {
        tt_counting_allocator counter = {.fail_at = fail_at};
        const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
        tt_text why = {0};
        tt_graph *graph = NULL;
        tt_scratch scratch;
        tt_scratch_init(&scratch, &allocator);
        tt_status status = tt_graph_from_workload(&workload, &allocator, &why, &graph);
        uint32_t *places;
        if (status == TT_OK) {
            status = tt_order_tac(graph, &(tt_wire){.byte_us = 1}, &scratch, &places);
        }
        if (status == TT_OK) {
            status = tt_order_compute(graph, TT_COMPUTE_NEAREST, &scratch, &places);
        }
        tt_ready_stats stats[2];
        if (status == TT_OK) {
            status = tt_graph_ready(graph, NULL, 2, 1, stats);
        }
        has_failed = counter.allocation_count >= fail_at;
        assert_int_equal(has_failed ? TT_ERR_NO_MEMORY : TT_OK, status);
        tt_scratch_fini(&scratch);
        tt_graph_destroy(graph);
        assert_int_equal(0, counter.live_count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_invalid_graphs_are_refused_with_a_reason),
        cmocka_unit_test(test_a_receive_node_has_no_inputs),
        cmocka_unit_test(test_a_graph_is_measured_by_hand),
        cmocka_unit_test(test_tac_puts_the_short_transfer_with_long_work_first),
        cmocka_unit_test(test_tic_of_a_chain_is_forward_order),
        cmocka_unit_test(test_a_learner_gives_every_place_once),
        cmocka_unit_test(test_the_gradient_of_inputs_may_take_its_own_time),
        cmocka_unit_test(test_networks_have_their_published_parameters),
        cmocka_unit_test(test_every_gradient_of_a_training_graph_is_sent_once),
        cmocka_unit_test(test_tic_is_near_tac_and_both_beat_random_orders),
        cmocka_unit_test(test_ordered_operators_make_gradients_ready_early_and_always_alike),
        cmocka_unit_test(test_a_workload_survives_the_way_through_a_graph),
        cmocka_unit_test(test_a_forward_graph_is_no_training_step),
        cmocka_unit_test(test_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
