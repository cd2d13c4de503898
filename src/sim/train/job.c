/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - see job.h. */
#include "sim/train/job.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"

/* ---- input ---- */

static tt_status check(const tt_job *job, tt_text *why)
{
    TT_TRY(tt_workload_check(job->workload, why));
    for (size_t i = 0; i < job->slow_count; i++) {
        if (job->slow[i].rank >= job->rank_count) {
            tt_text_add(why, "slow rank %u: the job has ranks 0 to %u; name one of them",
                        job->slow[i].rank, job->rank_count - 1);
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

static tt_status make_wire(const tt_job *job, tt_text *why, tt_walked_wire **wire_out)
{
    tt_walked_config config;
    tt_walked_config_init(&config);
    TT_TRY(tt_cluster_place(job->cluster, job->rank_count, why, &config.fabric));
    config.model = tt_cluster_model(job->cluster);
    config.algorithm = job->algorithm;
    config.allocator = job->allocator;
    if (job->memory_bytes_max > 0) {
        config.memory_bytes_max = job->memory_bytes_max;
    }
    return tt_walked_wire_create(&config, why, wire_out);
}

static tt_rank_noise noise_of(const tt_job *job)
{
    return (tt_rank_noise){.seed = job->seed,
                           .rank_count = job->rank_count,
                           .spread = job->cluster->spread_percent / 100,
                           .hiccup_rate = job->cluster->hiccups_per_million / 1e6,
                           .hiccup_us = job->cluster->hiccup_ms * 1000,
                           .slow = job->slow,
                           .slow_count = job->slow_count};
}

/* Until the host has read the samples of all its ranks. */
static double input_us(const tt_job *job)
{
    const double ranks = fmin(job->rank_count, job->cluster->ranks_per_host);
    return job->cluster->samples_per_s > 0
               ? 1e6 * job->samples * ranks / job->cluster->samples_per_s
               : 0;
}

/* ---- traffic ---- */

static void add_traffic(tt_job_result *result, const tt_moves_result *walked, uint64_t times)
{
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        tt_fabric_traffic *sum = &result->levels[level];
        const tt_fabric_traffic *one = &walked->levels[level];
        sum->frames_sent += times * one->frames_sent;
        sum->frames_received += times * one->frames_received;
        sum->bytes_sent += times * one->bytes_sent;
        sum->bytes_received += times * one->bytes_received;
    }
}

static void add_exchange(tt_job_result *result, uint64_t bytes)
{
    uint32_t size = 0;
    while (size + 1 < TT_JOB_SIZES && UINT64_C(1) << size < bytes) {
        size++;
    }
    result->size_counts[size]++;
    result->exchange_count++;
}

/* Of all exchanges of a step, chunk by chunk. */
static tt_status count(const tt_timetable *plan, tt_walked_wire *wire, tt_text *why,
                       tt_job_result *result)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const tt_transfer *transfer = &plan->transfers[i];
        const uint64_t chunk_bytes = tt_min_u64(
            transfer->chunk_bytes > 0 ? transfer->chunk_bytes : plan->chunk_bytes, transfer->bytes);
        const uint64_t whole = chunk_bytes > 0 ? transfer->bytes / chunk_bytes : 0;
        const uint64_t rest = transfer->bytes - whole * chunk_bytes;
        const tt_moves_result *walked = tt_walked_wire_result(wire, chunk_bytes);
        if (walked != NULL && whole > 0) {
            add_traffic(result, walked, whole);
        }
        walked = tt_walked_wire_result(wire, rest);
        if (walked != NULL && rest > 0) {
            add_traffic(result, walked, 1);
        }
        add_exchange(result, transfer->bytes);
    }
    return tt_walked_wire_status(wire, why);
}

/* ---- the job ---- */

static tt_status train(const tt_job *job, tt_walked_wire *wire, tt_text *why, tt_job_result *result)
{
    const tt_rank_noise noise = noise_of(job);
    const tt_wire costs = tt_walked_wire_costs(wire, job->strategy->overlaps);
    tt_timetable plan;
    TT_TRY(tt_plan_init(&plan, job->workload, job->allocator));
    const tt_training training = {.plan = &plan,
                                  .wire = costs,
                                  .noise = &noise,
                                  .input_us = input_us(job),
                                  .step_count = job->step_count,
                                  .watch = job->watch,
                                  .allocator = job->allocator};
    tt_status status = job->strategy->plan(&job->settings, &costs, &plan);
    if (status == TT_OK) {
        TT_ASSERT(tt_plan_is_sound(&plan));
        status = tt_train(&training, why, &result->training);
    }
    if (status == TT_OK) {
        status = count(&plan, wire, why, result);
    }
    tt_plan_fini(&plan);
    return status;
}

tt_status tt_job_run(const tt_job *job, tt_text *why, tt_job_result *result_out)
{
    tt_job_result result = {.exchange_count = 0};
    tt_walked_wire *wire = NULL;
    TT_TRY(check(job, why));
    TT_TRY(make_wire(job, why, &wire));
    const tt_status status = train(job, wire, why, &result);
    tt_walked_wire_destroy(wire);
    if (status != TT_OK) {
        return status;
    }
    const double alone_us = tt_workload_compute_us(job->workload);
    result.efficiency = result.training.step_us > 0 ? alone_us / result.training.step_us : 1;
    result.samples_per_s = result.training.step_us > 0
                               ? 1e6 * job->samples * job->rank_count / result.training.step_us
                               : 0;
    *result_out = result;
    return TT_OK;
}
