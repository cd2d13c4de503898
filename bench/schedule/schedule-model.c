/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule-model.c - what bench/schedule compares with: steps computed, not run.
 *
 *   golden                 the example of three layers, in four forms
 *   pair                   two transfers of 1 and 10 units that unlock work of 10 and 1, by TAC
 *   step TABLE BYTE_US     a table of bench-schedule-rank on a wire of that speed: FIFO with
 *                          barrier, the ideal fluid schedule, FIFO without barrier
 *   caramel TABLE BYTE_US START_US   Caramel's plan: one line a transfer, as in a table
 *   pulls ORDERS           known networks, forward only, pull time = forward time: operators,
 *                          tensors, then the pass by TIC, TAC and the mean, least and most of that
 *                          many random orders, as shares of the forward pass
 *   tuner                  six settings: samples, answer and start as shares of a grid's best; then
 *                          the same after the link slowed down to a third
 *
 * Each prints one line of numbers a result, as "name value value ...". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/philox.h"
#include "model/first_use.h"
#include "model/model.h"
#include "model/network.h"
#include "model/registry.h"
#include "tune/tune.h"

enum {
    TENSORS_MAX = 1024,
    UNIT = 1000,
};

static void die(const char *what)
{
    fprintf(stderr, "bench-schedule-model: %s\n", what);
    exit(1);
}

static tt_evaluation evaluate(const tt_policy *policy, const tt_policy_input *input,
                              bool keeps_barrier)
{
    tt_text why = {0};
    tt_timetable plan;
    tt_evaluation evaluation = {0};
    const tt_evaluate_config config = {.wire = input->wire, .allocator = &tt_allocator_default};
    if (tt_policy_run(policy, input, &tt_allocator_default, &why, &plan) != TT_OK) {
        die(why.bytes);
    }
    plan.keeps_barrier = keeps_barrier;
    if (tt_evaluate(&plan, &config, &why, &evaluation) != TT_OK) {
        die(why.bytes);
    }
    tt_plan_fini(&plan);
    return evaluation;
}

/* ---- the example ---- */

static void golden(void)
{
    static const tt_tensor tensors[] = {
        {"layer0", 3 * UNIT, 0, 12}, {"layer1", 6 * UNIT, 2, 10}, {"layer2", 3 * UNIT, 4, 8}};
    static const tt_workload workload = {tensors, 3, 6, 6};
    static const struct {
        const char *name;
        tt_plan_form form;
    } forms[] = {{"server", TT_FORM_SERVER}, {"allreduce", TT_FORM_ALLREDUCE}};
    for (size_t i = 0; i < TT_ARRAY_COUNT(forms); i++) {
        tt_policy_input input = {.workload = &workload,
                                 .form = forms[i].form,
                                 .wire = {.byte_us = 1.0 / UNIT},
                                 .rank_count = 2};
        const double fifo_us = evaluate(&tt_policy_fifo, &input, false).step_us;
        input.chunk_bytes = input.credit_bytes = UNIT;
        printf("%s %.3f %.3f\n", forms[i].name, fifo_us,
               evaluate(&tt_policy_priority, &input, false).step_us);
    }
}

/* A pass over a graph by TAC's order. */
static void pair(void)
{
    static const double transfer_units[] = {1, 10}, work_us[] = {10, 1};
    static const char *names[] = {"a", "b", "use a", "use b"};
    tt_text why = {0};
    tt_graph *graph;
    tt_scratch scratch;
    tt_graph_times times;
    uint32_t *places = NULL;
    bool is_built = tt_graph_create(&tt_allocator_default, &graph) == TT_OK;
    tt_scratch_init(&scratch, &tt_allocator_default);
    for (uint32_t i = 0; i < 2 && is_built; i++) {
        uint32_t tensor, recv, use;
        is_built =
            tt_graph_add_tensor(graph, names[i], (uint64_t)(UNIT * transfer_units[i]), &why,
                                &tensor) == TT_OK &&
            tt_graph_add_node(graph,
                              &(tt_node){.name = names[i], .kind = TT_NODE_RECV, .tensor = tensor},
                              &why, &recv) == TT_OK &&
            tt_graph_add_node(
                graph,
                &(tt_node){.name = names[2 + i], .time_us = work_us[i], .tensor = TT_GRAPH_NONE},
                &why, &use) == TT_OK &&
            tt_graph_add_edge(graph, recv, use, &why) == TT_OK;
    }
    tt_graph_run_config config = {.wire = {.byte_us = 1.0 / UNIT}};
    if (!is_built || tt_graph_seal(graph, &why) != TT_OK ||
        tt_order_tac(graph, &config.wire, &scratch, &places) != TT_OK) {
        die(why.bytes);
    }
    config.recv_places = places;
    if (tt_graph_run(graph, &config, &scratch, &times) != TT_OK) {
        die("out of memory");
    }
    printf("pair %.3f\n", times.makespan_us);
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

/* ---- tables ---- */

typedef struct model_table {
    tt_tensor tensors[TENSORS_MAX];
    tt_workload workload;
} model_table;

static model_table *table_read(const char *path)
{
    model_table *table = calloc(1, sizeof(*table));
    FILE *file = fopen(path, "r");
    double forward_us, backward_us, use_us, ready_us;
    unsigned long long elements;
    size_t count = 0;
    int place, in_forward;
    if (table == NULL || file == NULL || fscanf(file, "%lf %lf", &forward_us, &backward_us) != 2) {
        die(path);
    }
    while (count < TENSORS_MAX && fscanf(file, "%llu %lf %lf %d %d", &elements, &use_us, &ready_us,
                                         &place, &in_forward) == 5) {
        table->tensors[count++] = (tt_tensor){.bytes = elements * sizeof(float),
                                              .first_use_us = use_us,
                                              .ready_us = forward_us + ready_us};
    }
    fclose(file);
    table->workload = (tt_workload){table->tensors, count, forward_us, backward_us};
    tt_text why = {0};
    if (tt_workload_check(&table->workload, &why) != TT_OK) {
        die(why.bytes);
    }
    return table;
}

static void step(const char *path, double byte_us)
{
    model_table *table = table_read(path);
    const tt_policy_input input = {.workload = &table->workload,
                                   .form = TT_FORM_ALLREDUCE,
                                   .wire = {.byte_us = byte_us},
                                   .rank_count = 4};
    double ideal_us;
    if (tt_evaluate_fluid(&table->workload, byte_us, &tt_allocator_default, &ideal_us) != TT_OK) {
        die("out of memory");
    }
    printf("step %.1f %.1f %.1f\n", evaluate(&tt_policy_fifo, &input, true).step_us, ideal_us,
           evaluate(&tt_policy_fifo, &input, false).step_us);
    free(table);
}

static void caramel(const char *path, double byte_us, double start_us)
{
    model_table *table = table_read(path);
    const tt_policy_input input = {.workload = &table->workload,
                                   .form = TT_FORM_ALLREDUCE,
                                   .wire = {.byte_us = byte_us, .overhead_us = start_us},
                                   .rank_count = 4};
    tt_text why = {0};
    tt_timetable plan;
    if (tt_policy_run(&tt_policy_caramel, &input, &tt_allocator_default, &why, &plan) != TT_OK) {
        die(why.bytes);
    }
    for (uint32_t i = 0; i < plan.transfer_count; i++) {
        const tt_transfer *one = &plan.transfers[i];
        printf("transfer%u %llu %.3f %.3f %u %d\n", i,
               (unsigned long long)(one->bytes / sizeof(float)), tt_policy_first_use_us(&plan, one),
               tt_policy_ready_us(&plan, one) - table->workload.forward_us, one->priority,
               one->waits_for_forward);
    }
    tt_plan_fini(&plan);
    free(table);
}

/* ---- pulls ---- */

static double pass_us(const tt_graph *graph, const uint32_t *places, tt_wire wire)
{
    const tt_graph_run_config config = {.recv_places = places, .wire = wire};
    tt_graph_times times;
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    if (tt_graph_run(graph, &config, &scratch, &times) != TT_OK) {
        die("out of memory");
    }
    tt_scratch_fini(&scratch);
    return times.makespan_us;
}

static void random_passes(const tt_graph *graph, tt_wire wire, uint32_t orders, double found[3])
{
    const uint32_t count = tt_graph_tensor_count(graph);
    uint32_t *places = calloc(count, sizeof(places[0]));
    found[0] = found[2] = 0;
    found[1] = INFINITY;
    for (uint32_t seed = 0; places != NULL && seed < orders; seed++) {
        tt_random random;
        tt_random_init(&random, seed, 0);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t other = (uint32_t)tt_random_below(&random, i + 1);
            places[i] = places[other];
            places[other] = i;
        }
        const double us = pass_us(graph, places, wire);
        found[0] += us / orders;
        found[1] = fmin(found[1], us);
        found[2] = fmax(found[2], us);
    }
    free(places);
}

static void pulls(uint32_t orders)
{
    for (size_t i = 0; tt_network_at(i) != NULL; i++) {
        const tt_network *network = tt_network_at(i);
        if (network->family != NULL) {
            continue; /* a chain: its order of use is the only good one */
        }
        tt_text why = {0};
        tt_graph *graph;
        tt_graph_stats stats;
        tt_scratch scratch;
        uint32_t *tic, *tac;
        double bytes = 0;
        double found[3];
        tt_scratch_init(&scratch, &tt_allocator_default);
        if (tt_network_build(network, &tt_allocator_default, &why, &graph) != TT_OK ||
            tt_graph_measure(graph, &stats) != TT_OK) {
            die(network->name);
        }
        for (uint32_t k = 0; k < tt_graph_tensor_count(graph); k++) {
            bytes += (double)tt_graph_tensor_at(graph, k)->bytes;
        }
        const tt_wire wire = {.byte_us = stats.compute_us / bytes};
        if (tt_order_tic(graph, &scratch, &tic) != TT_OK ||
            tt_order_tac(graph, &wire, &scratch, &tac) != TT_OK) {
            die(network->name);
        }
        random_passes(graph, wire, orders, found);
        printf("%s %u %u %.4f %.4f %.4f %.4f %.4f\n", network->name, stats.compute_count,
               tt_graph_tensor_count(graph), pass_us(graph, tic, wire) / stats.compute_us,
               pass_us(graph, tac, wire) / stats.compute_us, found[0] / stats.compute_us,
               found[1] / stats.compute_us, found[2] / stats.compute_us);
        tt_scratch_fini(&scratch);
        tt_graph_destroy(graph);
    }
}

/* ---- the tuner ---- */

typedef struct tuned_case {
    const char *model;
    tt_plan_form form;
    double overhead_us;
    double latency_us;
    double rho;
} tuned_case;

static const tuned_case tuned_cases[] = {
    {"vgg16", TT_FORM_SERVER, 50, 200, 2},           {"vgg16", TT_FORM_ALLREDUCE, 200, 100, 2},
    {"resnet50-v1", TT_FORM_ALLREDUCE, 30, 100, 1},  {"resnet50-v1", TT_FORM_SERVER, 300, 20, 0.8},
    {"inception-v3", TT_FORM_ALLREDUCE, 5, 1000, 1}, {"alexnet-v2", TT_FORM_SERVER, 100, 500, 0.5},
};

enum {
    GRID = 13, /* a dimension */
    WATCHED = 100,
};
static const double least[] = {64e3, 64e3};
static const double most[] = {128e6, 512e6};

static double setting_us(tt_policy_input *input, const tt_tuner_setting *setting)
{
    input->chunk_bytes = (uint64_t)setting->at[TT_TUNER_CHUNK];
    input->credit_bytes = (uint64_t)setting->at[TT_TUNER_CREDIT];
    return evaluate(&tt_policy_priority, input, false).step_us;
}

static double grid_best_us(tt_policy_input *input)
{
    double best_us = INFINITY;
    for (int i = 0; i < GRID * GRID; i++) {
        const tt_tuner_setting setting = {
            {least[0] * pow(most[0] / least[0], i / GRID / (GRID - 1.0)),
             least[1] * pow(most[1] / least[1], i % GRID / (GRID - 1.0))}};
        best_us = fmin(best_us, setting_us(input, &setting));
    }
    return best_us;
}

/* Until it is settled; the number of samples. */
static uint32_t tune(tt_tuner *tuner, tt_policy_input *input, tt_tuner_setting *setting)
{
    uint32_t count = 0;
    while (tt_tuner_ask(tuner, setting)) {
        tt_tuner_tell(tuner, setting_us(input, setting));
        count++;
    }
    return count;
}

static void tuned_run(const tuned_case *tuned, tt_policy_input *input, double bytes)
{
    tt_text why = {0};
    const double seed = tt_tuner_chunk_seed(bytes, tuned->overhead_us, 1 / input->wire.byte_us, 4);
    const tt_tuner_config config = {.dimension_count = 2,
                                    .min = {{least[0], least[1]}},
                                    .max = {{most[0], most[1]}},
                                    .start = {{most[0], most[1]}},
                                    .seed = {{seed, 4 * seed}}};
    tt_tuner tuner;
    tt_tuner_setting setting;
    if (tt_tuner_init(&tuner, &config, &why) != TT_OK) {
        die(why.bytes);
    }
    const double start_us = setting_us(input, &config.start);
    const uint32_t count = tune(&tuner, input, &setting);
    const double best_us = grid_best_us(input), found_us = setting_us(input, &setting);
    bool has_drifted = false;
    for (uint32_t i = 0; i < WATCHED; i++) {
        (void)tt_tuner_watch(&tuner, found_us);
    }
    input->wire.byte_us *= 3;
    for (uint32_t i = 0; i < WATCHED && !has_drifted; i++) {
        has_drifted = tt_tuner_watch(&tuner, setting_us(input, &setting));
    }
    const uint32_t again = tune(&tuner, input, &setting);
    printf("%s-%s %u %.4f %.4f %d %u %.4f\n", tuned->model,
           tuned->form == TT_FORM_SERVER ? "server" : "allreduce", count, found_us / best_us,
           start_us / best_us, has_drifted, again,
           setting_us(input, &setting) / grid_best_us(input));
}

static void tuner(void)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(tuned_cases); i++) {
        const tuned_case *tuned = &tuned_cases[i];
        tt_text why = {0};
        tt_graph *forward = NULL, *graph = NULL;
        tt_scratch scratch;
        tt_workload workload;
        tt_scratch_init(&scratch, &tt_allocator_default);
        if (tt_network_build(tt_network_find(tuned->model), &tt_allocator_default, &why,
                             &forward) != TT_OK ||
            tt_graph_differentiate(forward, &why, &graph) != TT_OK ||
            tt_graph_workload(graph, NULL, &scratch, &why, &workload) != TT_OK) {
            die(tuned->model);
        }
        const double bytes = (double)tt_workload_bytes(&workload);
        tt_policy_input input = {
            .workload = &workload,
            .form = tuned->form,
            .wire = {.overhead_us = tuned->overhead_us,
                     .latency_us = tuned->latency_us,
                     .byte_us = tuned->rho * tt_workload_compute_us(&workload) / bytes},
            .rank_count = 4};
        tuned_run(tuned, &input, bytes);
        tt_scratch_fini(&scratch);
        tt_graph_destroy(forward);
        tt_graph_destroy(graph);
    }
}

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "golden") == 0) {
        golden();
    } else if (count == 2 && strcmp(words[1], "pair") == 0) {
        pair();
    } else if (count == 4 && strcmp(words[1], "step") == 0) {
        step(words[2], strtod(words[3], NULL));
    } else if (count == 5 && strcmp(words[1], "caramel") == 0) {
        caramel(words[2], strtod(words[3], NULL), strtod(words[4], NULL));
    } else if (count == 3 && strcmp(words[1], "pulls") == 0) {
        pulls((uint32_t)strtoul(words[2], NULL, 10));
    } else if (count == 2 && strcmp(words[1], "tuner") == 0) {
        tuner();
    } else {
        die("what? see the head of schedule-model.c");
    }
    return 0;
}
