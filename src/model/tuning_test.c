/* SPDX-License-Identifier: Apache-2.0
 *
 * tuning_test.c - the tuner on simulated steps: within 3 % of an exhaustive grid over chunk and
 * credit, in at most 15 samples, in settings with very different optima. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "model/first_use.h"
#include "model/network.h"
#include "model/registry.h"
#include "tune/tune.h"

typedef struct tuning_case {
    const char *model;
    tt_plan_form form;
    double overhead_us;
    double latency_us;
    double rho; /* time of all bytes / computation */
} tuning_case;

static const tuning_case cases[] = {
    {"vgg16", TT_FORM_SERVER, 50, 200, 2},           {"vgg16", TT_FORM_ALLREDUCE, 200, 100, 2},
    {"resnet50-v1", TT_FORM_ALLREDUCE, 30, 100, 1},  {"resnet50-v1", TT_FORM_SERVER, 300, 20, 0.8},
    {"inception-v3", TT_FORM_ALLREDUCE, 5, 1000, 1}, {"alexnet-v2", TT_FORM_SERVER, 100, 500, 0.5},
};

enum {
    GRID = 13, /* a dimension */
};
static const double chunk_min = 64e3;
static const double chunk_max = 128e6;
static const double credit_min = 64e3;
static const double credit_max = 512e6;

static double cost_us(tt_policy_input *input, const tt_tuner_setting *setting)
{
    tt_text why = {0};
    tt_timetable plan;
    input->chunk_bytes = (uint64_t)setting->at[TT_TUNER_CHUNK];
    input->credit_bytes = (uint64_t)setting->at[TT_TUNER_CREDIT];
    assert_int_equal(TT_OK,
                     tt_policy_run(&tt_policy_priority, input, &tt_allocator_default, &why, &plan));
    const tt_evaluate_config config = {.wire = input->wire, .allocator = &tt_allocator_default};
    tt_evaluation evaluation;
    assert_int_equal(TT_OK, tt_evaluate(&plan, &config, &why, &evaluation));
    tt_plan_fini(&plan);
    return evaluation.step_us;
}

static double grid_best_us(tt_policy_input *input)
{
    double best_us = INFINITY;
    for (int i = 0; i < GRID; i++) {
        for (int k = 0; k < GRID; k++) {
            const tt_tuner_setting setting = {
                {chunk_min * pow(chunk_max / chunk_min, i / (GRID - 1.0)),
                 credit_min * pow(credit_max / credit_min, k / (GRID - 1.0))}};
            best_us = fmin(best_us, cost_us(input, &setting));
        }
    }
    return best_us;
}

static void case_run(const tuning_case *tuned)
{
    tt_text why = {0};
    tt_graph *forward;
    tt_graph *graph;
    tt_scratch scratch;
    tt_workload workload;
    tt_scratch_init(&scratch, &tt_allocator_default);
    assert_int_equal(TT_OK, tt_network_build(tt_network_find(tuned->model), &tt_allocator_default,
                                             &why, &forward));
    assert_int_equal(TT_OK, tt_graph_differentiate(forward, &why, &graph));
    assert_int_equal(TT_OK, tt_graph_workload(graph, NULL, &scratch, &why, &workload));
    const double bytes = (double)tt_workload_bytes(&workload);
    tt_policy_input input = {
        .workload = &workload,
        .form = tuned->form,
        .wire = {.overhead_us = tuned->overhead_us,
                 .latency_us = tuned->latency_us,
                 .byte_us = tuned->rho * tt_workload_compute_us(&workload) / bytes},
        .rank_count = 4};
    const double best_us = grid_best_us(&input);
    const double seed = tt_tuner_chunk_seed(bytes, tuned->overhead_us, 1 / input.wire.byte_us, 4);
    const tt_tuner_config config = {.dimension_count = 2,
                                    .min = {{chunk_min, credit_min}},
                                    .max = {{chunk_max, credit_max}},
                                    .start = {{chunk_max, credit_max}},
                                    .seed = {{seed, 4 * seed}}};
    tt_tuner tuner;
    assert_int_equal(TT_OK, tt_tuner_init(&tuner, &config, &why));
    tt_tuner_setting setting;
    uint32_t count = 0;
    while (tt_tuner_ask(&tuner, &setting)) {
        tt_tuner_tell(&tuner, cost_us(&input, &setting));
        count++;
    }
    const double found_us = cost_us(&input, &setting);
    print_message("%-13s %u samples: %.4f of the grid's best, start %.4f\n", tuned->model, count,
                  found_us / best_us, cost_us(&input, &config.start) / best_us);
    assert_true(count <= 15);
    assert_true(found_us <= 1.03 * best_us);
    tt_scratch_fini(&scratch);
    tt_graph_destroy(forward);
    tt_graph_destroy(graph);
}

static void test_fifteen_samples_come_within_three_percent_of_the_grid(void **state)
{
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        case_run(&cases[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifteen_samples_come_within_three_percent_of_the_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
