/* SPDX-License-Identifier: Apache-2.0
 *
 * job_test.c - steps of whole jobs: what bounds them, what they send, what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/train/job.h"

enum { TENSORS = 12, RANKS = 16 };

#define TENSOR_BYTES (UINT64_C(4) << 20)

/* Equal tensors; 100 ms of computation. */
static void make_workload(tt_tensor *tensors, tt_workload *workload)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        tensors[i] = (tt_tensor){.name = "t",
                                 .bytes = TENSOR_BYTES,
                                 .first_use_us = 3e4 * i / TENSORS,
                                 .ready_us = 1e5 - 7e4 * i / TENSORS};
    }
    *workload = (tt_workload){tensors, TENSORS, 3e4, 7e4};
}

static tt_cluster cluster_of(const char *name)
{
    tt_cluster cluster = *tt_cluster_preset_find(name);
    cluster.spread_percent = cluster.hiccups_per_million = 0;
    return cluster;
}

static tt_job job_of(const tt_cluster *cluster, const tt_workload *workload, const char *strategy)
{
    return (tt_job){.cluster = cluster,
                    .rank_count = RANKS,
                    .workload = workload,
                    .samples = 32,
                    .strategy = tt_strategy_find(strategy),
                    .step_count = 10,
                    .allocator = &tt_allocator_default};
}

static tt_job_result run(const tt_job *job)
{
    tt_text why = {.length = 0};
    tt_job_result result;
    if (tt_job_run(job, &why, &result) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        assert_int_equal(result.levels[level].frames_sent, result.levels[level].frames_received);
        assert_int_equal(result.levels[level].bytes_sent, result.levels[level].bytes_received);
    }
    return result;
}

static void test_a_fast_network_hides_all_but_the_last_exchange(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("summit");
    for (size_t i = 0; tt_strategy_at(i) != NULL; i++) {
        tt_job job = job_of(&cluster, &workload, tt_strategy_at(i)->name);
        job.settings.chunk_bytes = TENSOR_BYTES;
        const tt_job_result result = run(&job);
        const double last_us = result.training.evaluation.network_us / TENSORS;
        assert_true(result.training.step_us >= 1e5 + 0.99 * last_us);
        assert_true(result.training.step_us <= 1.1e5);
        assert_true(fabs(result.efficiency - 1e5 / result.training.step_us) < 1e-9);
        assert_true(fabs(result.samples_per_s - 32.0 * RANKS * 1e6 / result.training.step_us) <
                    1e-6);
    }
}

/* Hosts of four ranks on 10 Gbit/s: a card carries each byte of a gradient 2 (4 - 1) / 4 times. */
static void test_a_slow_network_bounds_the_step(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("ethernet-10g");
    const double least_us =
        1.5 * TENSORS * (double)TENSOR_BYTES / cluster.network.bandwidth_gbs / 1e3;
    for (size_t i = 0; tt_strategy_at(i) != NULL; i++) {
        tt_job job = job_of(&cluster, &workload, tt_strategy_at(i)->name);
        job.settings.crosses_steps = true;
        const tt_job_result result = run(&job);
        assert_true(result.training.evaluation.network_us > least_us);
        assert_true(result.training.step_us > result.training.evaluation.network_us);
        assert_true(result.training.step_us > result.training.free_network_us);
        assert_true(result.levels[TT_FABRIC_LEAF].bytes_sent >= 2 * 3 * TENSORS * TENSOR_BYTES);
    }
}

static void test_crossing_steps_hides_more(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    tt_cluster cluster = cluster_of("ethernet-10g");
    cluster.network.bandwidth_gbs /= 2;
    tt_job job = job_of(&cluster, &workload, "tutti");
    const tt_job_result barrier = run(&job);
    job.settings.crosses_steps = true;
    assert_true(run(&job).training.step_us < barrier.training.step_us);
}

static void test_sizes_of_exchanges_are_counted(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    for (uint32_t i = 0; i < TENSORS / 2; i++) {
        tensors[i].bytes = 1000; /* fused */
    }
    const tt_cluster cluster = cluster_of("summit");
    tt_job job = job_of(&cluster, &workload, "tutti");
    tt_job_result result = run(&job);
    assert_int_equal(result.exchange_count, TENSORS / 2 + 1);
    assert_int_equal(result.size_counts[22], TENSORS / 2); /* 4 MiB */
    assert_int_equal(result.size_counts[13], 1);           /* 6,000 bytes */
    job.settings.fuse_bytes = 2500;
    result = run(&job);
    assert_int_equal(result.size_counts[11], TENSORS / 4); /* 2,000 bytes */
    job.strategy = tt_strategy_find("ddp");
    job.settings = (tt_strategy_settings){.chunk_bytes = 8 << 20};
    result = run(&job);
    assert_int_equal(result.exchange_count, 4); /* 1, 2, 2 and 1 tensors, the last with the short */
}

static void test_noise_costs_what_the_slowest_rank_loses(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    tt_cluster cluster = cluster_of("summit");
    tt_job job = job_of(&cluster, &workload, "tutti");
    const tt_job_result quiet = run(&job);
    cluster.spread_percent = 5;
    const tt_job_result noisy = run(&job), again = run(&job);
    assert_true(noisy.training.wait_us > 0.05 * 1e5 && noisy.training.wait_us < 0.15 * 1e5);
    assert_true(noisy.training.without_noise_us == quiet.training.step_us);
    assert_memory_equal(&noisy, &again, sizeof(noisy));
    job.seed++;
    assert_true(run(&job).training.step_us != noisy.training.step_us);
    const tt_slow_rank slow = {RANKS - 1, 2};
    job.slow = &slow;
    job.slow_count = 1;
    assert_true(run(&job).training.step_us > 1.9e5);
}

static void test_hosts_that_read_slowly_bound_the_step(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    tt_cluster cluster = cluster_of("summit");
    cluster.samples_per_s = 6 * 32 / 0.5; /* of six ranks in half a second */
    const tt_job job = job_of(&cluster, &workload, "tutti");
    const tt_job_result result = run(&job);
    assert_true(fabs(result.training.step_us - 5e5) < 1);
}

static void test_what_cannot_be_is_refused(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("laptop");
    const tt_slow_rank slow = {8, 2};
    tt_text why = {.length = 0};
    tt_job_result result;
    tt_job job = job_of(&cluster, &workload, "tutti");
    assert_int_equal(tt_job_run(&job, &why, &result), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.bytes, "16 ranks do not fit cluster laptop"));
    tt_text_clear(&why);
    job.rank_count = 8;
    job.slow = &slow;
    job.slow_count = 1;
    assert_int_equal(tt_job_run(&job, &why, &result), TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(why.bytes, "slow rank 8: the job has ranks 0 to 7"));
    tt_text_clear(&why);
    job.slow_count = 0;
    job.memory_bytes_max = 1000;
    assert_int_equal(tt_job_run(&job, &why, &result), TT_ERR_NO_MEMORY);
    assert_true(why.length > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fast_network_hides_all_but_the_last_exchange),
        cmocka_unit_test(test_a_slow_network_bounds_the_step),
        cmocka_unit_test(test_crossing_steps_hides_more),
        cmocka_unit_test(test_sizes_of_exchanges_are_counted),
        cmocka_unit_test(test_noise_costs_what_the_slowest_rank_loses),
        cmocka_unit_test(test_hosts_that_read_slowly_bound_the_step),
        cmocka_unit_test(test_what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
