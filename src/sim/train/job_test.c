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

/* Four hosts of four ranks on 10 Gbit/s: a card carries each byte of a gradient 2 (4 - 1) / 4
 * times, with as many servers as hosts once in each direction. */
static void test_a_slow_network_bounds_the_step(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("ethernet-10g");
    const double once_us = TENSORS * (double)TENSOR_BYTES / cluster.network.bandwidth_gbs / 1e3;
    for (size_t i = 0; tt_strategy_at(i) != NULL; i++) {
        tt_job job = job_of(&cluster, &workload, tt_strategy_at(i)->name);
        job.settings.crosses_steps = true;
        const tt_job_result result = run(&job);
        const double least_us = (job.strategy->pushes ? 1 : 1.5) * once_us;
        assert_true(result.training.evaluation.network_us > 0.999 * least_us);
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

static void test_auto_walks_what_is_short(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("summit");
    tt_job job = job_of(&cluster, &workload, "tutti");
    const tt_job_result walked = run(&job);
    assert_int_equal(walked.depth, TT_DEPTH_MOVES);
    assert_int_equal(walked.engine, TT_ENGINE_TUTTI);
    job.depth = TT_DEPTH_CLOSED;
    const tt_job_result closed = run(&job);
    assert_int_equal(closed.depth, TT_DEPTH_CLOSED);
    assert_true(fabs(closed.training.step_us - walked.training.step_us) <
                0.02 * walked.training.step_us);
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        const double bytes = (double)walked.levels[level].bytes_sent;
        assert_true(fabs((double)closed.levels[level].bytes_sent - bytes) <= 0.01 * bytes);
    }
    job.depth = TT_DEPTH_AUTO;
    job.rank_count = 27600;
    assert_int_equal(run(&job).depth, TT_DEPTH_CLOSED);
    job.rank_count = RANKS;
    job.memory_bytes_max = 1000; /* too little for moves */
    assert_int_equal(run(&job).depth, TT_DEPTH_CLOSED);
    job.memory_bytes_max = 0;
    job.algorithm = "pairwise"; /* no all-reduce: the built-in choice */
    assert_int_equal(run(&job).depth, TT_DEPTH_MOVES);
    job.algorithm = NULL;
}

static void test_a_depth_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("summit");
    tt_text why = {.length = 0};
    tt_job_result result;
    tt_job job = job_of(&cluster, &workload, "tutti");
    job.depth = TT_DEPTH_MOVES;
    job.memory_bytes_max = 1000;
    assert_int_equal(tt_job_run(&job, &why, &result), TT_ERR_NO_MEMORY);
    assert_non_null(strstr(why.bytes, "depth moves needs "));
    assert_non_null(
        strstr(why.bytes, "bytes for 16 ranks, and 1000 are allowed; depth closed fits"));
    tt_text_clear(&why);
    job.strategy = tt_strategy_find("ddp");
    assert_int_equal(tt_job_run(&job, &why, &result), TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(why.bytes, "strategy ddp runs on nccl here"));
    assert_non_null(strstr(why.bytes, "give --engine tutti"));
    job.memory_bytes_max = 0;
    job.engine = TT_ENGINE_TUTTI;
    assert_int_equal(run(&job).depth, TT_DEPTH_MOVES);
}

static void test_engines_are_the_strategies_own_or_those_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *strategy;
        tt_engine engine, plain;
    } rows[] = {{"tutti", TT_ENGINE_TUTTI, TT_ENGINE_TUTTI},
                {"ddp", TT_ENGINE_NCCL, TT_ENGINE_TUTTI},
                {"tf-distribute", TT_ENGINE_NCCL, TT_ENGINE_TUTTI},
                {"horovod", TT_ENGINE_NCCL, TT_ENGINE_MPI},
                {"horovod-cached", TT_ENGINE_NCCL, TT_ENGINE_MPI},
                {"byteps", TT_ENGINE_SERVERS, TT_ENGINE_SERVERS},
                {"ps", TT_ENGINE_SERVERS, TT_ENGINE_SERVERS}};
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("summit");
    tt_cluster plain = cluster;
    plain.generation = TT_CLUSTER_NO_GPU;
    tt_text why = {.length = 0};
    tt_job_result result;
    for (size_t i = 0; i < TT_ARRAY_COUNT(rows); i++) {
        tt_job job = job_of(&cluster, &workload, rows[i].strategy);
        assert_int_equal(run(&job).engine, rows[i].engine);
        job.cluster = &plain;
        assert_int_equal(run(&job).engine, rows[i].plain);
        job.engine = TT_ENGINE_NCCL; /* there is none */
        assert_int_not_equal(tt_job_run(&job, &why, &result), TT_OK);
        job.engine = TT_ENGINE_MPI;
        assert_true(job.strategy->takes_servers || run(&job).engine == TT_ENGINE_MPI);
    }
}

/* Forty thousand requests at a coordinator of 2 us each, against one AND. */
static void test_agreeing_costs_what_the_mode_says(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("summit");
    double step_us[3];
    static const char *const names[] = {"horovod", "horovod-cached", "tutti"};
    for (int i = 0; i < 3; i++) {
        tt_job job = job_of(&cluster, &workload, names[i]);
        job.engine = TT_ENGINE_NCCL;
        job.rank_count = 6000;
        const tt_job_result result = run(&job);
        step_us[i] = result.training.step_us;
        const double agreement_us = result.training.agreement_us;
        assert_true(i < 2 ? agreement_us > 0 : agreement_us <= 0);
        /* the last tensor is requested when backward ends, half a cycle before the next */
        assert_true(i != 1 || agreement_us < 3000);
        assert_true(i != 0 || agreement_us > 6000 * cluster.request_us);
    }
    assert_true(step_us[0] > step_us[1] && step_us[1] > step_us[2]);
}

/* The same all-reduces: with a plan at once, else after a round, a tree, a star. */
static void test_modes_of_control_cost_more_and_more(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("summit");
    double before_us = -1;
    for (int mode = 0; mode < TT_AGREE_MODES; mode++) {
        tt_job job = job_of(&cluster, &workload, "tutti");
        job.rank_count = 768;
        job.settings.control = (tt_agree_mode)mode;
        const double agreement_us = run(&job).training.agreement_us;
        assert_true(agreement_us > before_us && (mode > 0 || agreement_us <= 0));
        before_us = agreement_us;
    }
}

/* What was requested while MPI exchanged is exchanged as one. */
static void test_mpi_keeps_the_thread_of_horovod(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("ethernet-10g");
    tt_job job = job_of(&cluster, &workload, "horovod-cached");
    job.engine = TT_ENGINE_NCCL;
    const uint32_t in_stream = run(&job).exchange_count;
    job.engine = TT_ENGINE_MPI;
    assert_true(run(&job).exchange_count < in_stream);
}

static void test_groups_are_requested_together(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("summit");
    tt_job job = job_of(&cluster, &workload, "horovod-cached");
    assert_int_equal(run(&job).exchange_count, TENSORS);
    job.settings.group_count = 3;
    assert_int_equal(run(&job).exchange_count, 3);
    job.settings.fuse_bytes = 2 * TENSOR_BYTES; /* and cut by the threshold */
    assert_int_equal(run(&job).exchange_count, TENSORS / 2);
    job.settings = (tt_strategy_settings){.cycle_us = 50000};
    assert_true(run(&job).exchange_count <= 3);
}

/* Half a card's traffic with as many servers as hosts; more of them gain nothing. */
static void test_servers_take_load_off_the_hosts(void **state)
{
    (void)state;
    tt_tensor tensors[TENSORS];
    tt_workload workload;
    make_workload(tensors, &workload);
    const tt_cluster cluster = cluster_of("ethernet-10g");
    tt_job job = job_of(&cluster, &workload, "byteps");
    double before_us = INFINITY;
    for (uint32_t servers = 0; servers <= 4; servers++) {
        job.settings.server_count = servers;
        const double network_us = run(&job).training.evaluation.network_us;
        assert_true(network_us < before_us);
        before_us = network_us;
    }
    tt_text why = {.length = 0};
    tt_job_result result;
    const tt_cluster laptop = cluster_of("laptop");
    job.cluster = &laptop;
    job.rank_count = 8;
    assert_int_equal(tt_job_run(&job, &why, &result), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.bytes, "1 for ranks and 4 for servers are needed, and there are 1"));
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
    job.strategy = tt_strategy_find("ps");
    job.engine = TT_ENGINE_MPI;
    assert_int_equal(tt_job_run(&job, &why, &result), TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(why.bytes, "strategy ps sums on servers; leave out --engine"));
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
        cmocka_unit_test(test_auto_walks_what_is_short),
        cmocka_unit_test(test_a_depth_that_does_not_fit_is_refused),
        cmocka_unit_test(test_engines_are_the_strategies_own_or_those_asked_for),
        cmocka_unit_test(test_agreeing_costs_what_the_mode_says),
        cmocka_unit_test(test_modes_of_control_cost_more_and_more),
        cmocka_unit_test(test_mpi_keeps_the_thread_of_horovod),
        cmocka_unit_test(test_groups_are_requested_together),
        cmocka_unit_test(test_servers_take_load_off_the_hosts),
        cmocka_unit_test(test_what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
