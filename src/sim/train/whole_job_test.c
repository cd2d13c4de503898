/* SPDX-License-Identifier: Apache-2.0
 *
 * whole_job_test.c - a job's steps by the machines of all ranks, beside those that are planned and
 * walked; what cannot be run so. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/train/job.h"

enum { TENSORS = 10, RANKS = 8 };

#define TENSOR_BYTES (UINT64_C(1) << 20)

static tt_tensor tensors[TENSORS];

/* Equal tensors; `compute_us` of computation. */
static tt_workload workload_of(double compute_us)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        tensors[i] = (tt_tensor){.name = "t",
                                 .bytes = TENSOR_BYTES,
                                 .first_use_us = 0.3 * compute_us * i / TENSORS,
                                 .ready_us = compute_us * (1 - 0.7 * i / TENSORS)};
    }
    return (tt_workload){tensors, TENSORS, 0.3 * compute_us, 0.7 * compute_us};
}

static tt_job job_of(const tt_cluster *cluster, const tt_workload *workload, tt_depth depth)
{
    return (tt_job){.cluster = cluster,
                    .rank_count = RANKS,
                    .workload = workload,
                    .samples = 32,
                    .strategy = tt_strategy_find("tutti"),
                    .depth = depth,
                    .step_count = 4,
                    .allocator = &tt_allocator_default};
}

static tt_job_result run(const tt_job *job)
{
    tt_text why = {.length = 0};
    tt_job_result result;
    if (tt_job_run(job, &why, &result) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    return result;
}

/* With much computation and with little, with and without noise: the same steps, and within 5 % the
 * same times as planned and walked ones. */
static void test_machines_take_as_long_as_walked_plans(void **state)
{
    static const double compute_us[] = {2e3, 2e4, 2e5};
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(compute_us); i++) {
        for (int is_noisy = 0; is_noisy < 2; is_noisy++) {
            const tt_workload workload = workload_of(compute_us[i]);
            tt_cluster cluster = *tt_cluster_preset_find("ethernet-10g");
            cluster.ranks_per_host = cluster.cards_per_host = 1;
            cluster.spread_percent = is_noisy ? 3 : 0;
            cluster.hiccups_per_million = 0;
            const tt_job whole = job_of(&cluster, &workload, TT_DEPTH_MACHINES);
            const tt_job walked = job_of(&cluster, &workload, TT_DEPTH_MOVES);
            const tt_training_result a = run(&whole).training, b = run(&walked).training;
            assert_true(fabs(a.compute_us + a.wait_us - b.compute_us - b.wait_us) <
                        1e-3 * b.compute_us);
            if (fabs(a.step_us - b.step_us) > 0.05 * b.step_us) {
                fail_msg("%g us of computation: machines %g, walked %g", compute_us[i], a.step_us,
                         b.step_us);
            }
        }
    }
}

static void test_the_parts_add_up(void **state)
{
    (void)state;
    const tt_workload workload = workload_of(2e4);
    tt_cluster cluster = *tt_cluster_preset_find("ethernet-10g");
    cluster.samples_per_s = 32.0 * cluster.ranks_per_host / 0.05; /* 50 ms a step */
    tt_job job = job_of(&cluster, &workload, TT_DEPTH_MACHINES);
    const tt_job_result result = run(&job);
    const tt_training_result *step = &result.training;
    assert_int_equal(result.depth, TT_DEPTH_MACHINES);
    assert_true(fabs(step->compute_us + step->wait_us + step->exposed_us + step->input_us -
                     step->step_us) < 1e-6 * step->step_us);
    assert_true(step->p5_us <= step->step_us && step->step_us <= step->p95_us);
    assert_true(step->step_us >= 5e4 && step->input_us > 0);
    assert_true(result.levels[TT_FABRIC_LEAF].bytes_sent > TENSORS * TENSOR_BYTES);
    job.seed = 2;
    assert_true(run(&job).training.compute_us != step->compute_us);
    job.seed = 0;
    const tt_training_result again = run(&job).training;
    assert_memory_equal(&again, step, sizeof(again));
}

/* A rank alone, and modes of negotiation. */
static void test_modes_and_sizes(void **state)
{
    (void)state;
    const tt_workload workload = workload_of(2e3);
    const tt_cluster cluster = *tt_cluster_preset_find("ethernet-10g");
    double before_us = 0;
    static const tt_agree_mode modes[] = {TT_AGREE_PLAN, TT_AGREE_ORIGINAL};
    for (size_t i = 0; i < TT_ARRAY_COUNT(modes); i++) {
        tt_job job = job_of(&cluster, &workload, TT_DEPTH_MACHINES);
        job.settings.control = modes[i];
        const double step_us = run(&job).training.step_us;
        assert_true(step_us > before_us);
        before_us = step_us;
    }
    tt_job alone = job_of(&cluster, &workload, TT_DEPTH_MACHINES);
    alone.rank_count = 1;
    assert_true(run(&alone).training.exposed_us < 1e3);
}

static void test_what_cannot_be_run_is_refused(void **state)
{
    (void)state;
    const tt_workload workload = workload_of(2e3);
    const tt_cluster cluster = *tt_cluster_preset_find("ethernet-10g");
    const tt_training_watch watch = {.user = NULL};
    tt_job jobs[6];
    static const char *const words[] = {"strategy byteps",      "--cross", "--chunk", "--trace",
                                        "use --strategy tutti", "bytes"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(jobs); i++) {
        jobs[i] = job_of(&cluster, &workload, TT_DEPTH_MACHINES);
    }
    jobs[0].strategy = tt_strategy_find("byteps");
    jobs[1].settings.crosses_steps = true;
    jobs[2].settings.chunk_bytes = 1 << 20;
    jobs[3].watch = &watch;
    jobs[4].strategy = tt_strategy_find("ddp");
    jobs[4].engine = TT_ENGINE_TUTTI;
    jobs[5].memory_bytes_max = 1 << 20;
    for (size_t i = 0; i < TT_ARRAY_COUNT(jobs); i++) {
        tt_text why = {.length = 0};
        tt_job_result result;
        assert_true(tt_job_run(&jobs[i], &why, &result) < 0);
        if (strstr(why.bytes, words[i]) == NULL) {
            fail_msg("%s", why.bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines_take_as_long_as_walked_plans),
        cmocka_unit_test(test_the_parts_add_up),
        cmocka_unit_test(test_modes_and_sizes),
        cmocka_unit_test(test_what_cannot_be_run_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
