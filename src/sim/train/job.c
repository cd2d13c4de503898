/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - see job.h. */
#include "sim/train/job.h"

#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "base/base.h"
#include "sim/train/whole_job.h"

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
        if (transfer->kind != TT_TASK_PULL) {
            add_exchange(result, transfer->bytes);
        }
    }
    return tt_walked_wire_status(wire, why);
}

/* ---- engine and depth ---- */

/* Walks of a plan's lengths that end within seconds: ten million messages/s or so. */
static const uint64_t auto_messages_max = 32 << 20;

const char *tt_depth_name(tt_depth depth)
{
    static const char *const names[TT_DEPTHS] = {"auto", "machines", "moves", "closed"};
    TT_ASSERT(depth < TT_DEPTHS);
    return names[depth];
}

const char *tt_engine_name(tt_engine engine)
{
    static const char *const names[TT_ENGINES] = {"auto", "tutti", "nccl", "mpi", "servers"};
    TT_ASSERT(engine < TT_ENGINES);
    return names[engine];
}

static tt_status check_engine(const tt_job *job, tt_engine engine, tt_text *why)
{
    const tt_strategy *strategy = job->strategy;
    if (strategy->takes_servers && engine != TT_ENGINE_SERVERS) {
        tt_text_add(why, "strategy %s sums on servers; leave out --engine", strategy->name);
        return TT_ERR_BAD_ARGUMENT;
    }
    const bool is_walked = job->depth == TT_DEPTH_MOVES || job->depth == TT_DEPTH_MACHINES;
    if (is_walked && engine != TT_ENGINE_TUTTI) {
        tt_text_add(why,
                    "depth %s walks Tutti's all-reduces, and strategy %s runs on %s here, which "
                    "is known by formula; leave out --depth%s",
                    tt_depth_name(job->depth), strategy->name, tt_engine_name(engine),
                    strategy->takes_servers ? "" : ", or give --engine tutti");
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

/* A parameter server has as many hosts as its workers where nothing else is asked for. */
static tt_status set_servers(const tt_job *job, tt_text *why, tt_walked_config *config)
{
    const uint32_t ranks = config->fabric.ranks_per_host;
    const uint32_t hosts = (job->rank_count + ranks - 1) / ranks;
    const uint32_t asked = job->settings.server_count;
    const bool pushes = job->strategy->pushes;
    config->source = pushes ? TT_WIRE_PUSHES : TT_WIRE_SERVERS;
    return tt_server_job_init(&config->servers, job->cluster, job->rank_count,
                              asked == 0 && pushes ? hosts : asked, why);
}

static tt_status set_source(const tt_job *job, tt_engine engine, tt_text *why,
                            tt_walked_config *config)
{
    switch (engine) {
    case TT_ENGINE_NCCL:
        config->source = TT_WIRE_NCCL;
        return tt_nccl_job_init(&config->nccl, job->cluster, job->rank_count, why);
    case TT_ENGINE_MPI:
        config->source = TT_WIRE_MPI;
        config->staging_gbs =
            job->cluster->generation == TT_CLUSTER_NO_GPU ? 0 : job->cluster->copy_gbs;
        return TT_OK;
    case TT_ENGINE_SERVERS:
        return set_servers(job, why, config);
    default:
        config->source = job->depth == TT_DEPTH_MOVES ? TT_WIRE_MOVES : TT_WIRE_CLOSED;
        return TT_OK;
    }
}

static tt_status configure(const tt_job *job, tt_engine engine, tt_text *why,
                           tt_walked_config *config)
{
    tt_walked_config_init(config);
    TT_TRY(tt_cluster_place(job->cluster, job->rank_count, why, &config->fabric));
    config->model = tt_cluster_model(job->cluster);
    config->algorithm = job->algorithm;
    config->allocator = job->allocator;
    if (job->memory_bytes_max > 0) {
        config->memory_bytes_max = job->memory_bytes_max;
    }
    return set_source(job, engine, why, config);
}

/* The lengths of the plan are asked for. */
static tt_status plan_job(const tt_job *job, tt_engine engine, const tt_wire *costs,
                          tt_timetable *plan)
{
    tt_agree_job agreement;
    tt_agree_job_init(&agreement, job->cluster, job->rank_count);
    const tt_strategy_input input = {
        .settings = &job->settings, .wire = costs, .agreement = &agreement, .engine = engine};
    TT_TRY(tt_plan_init(plan, job->workload, job->allocator));
    const tt_status status = job->strategy->plan(&input, plan);
    if (status != TT_OK) {
        tt_plan_fini(plan);
        return status;
    }
    TT_ASSERT(tt_plan_is_sound(plan));
    return TT_OK;
}

/* What walking a job's exchanges takes, planned by formula. */
static tt_status survey(const tt_job *job, const tt_walked_config *config, tt_text *why,
                        tt_walked_needs *needs)
{
    tt_walked_config closed = *config;
    tt_walked_wire *wire = NULL;
    tt_job_result result = {.exchange_count = 0};
    tt_timetable plan;
    closed.source = TT_WIRE_CLOSED;
    TT_TRY(tt_walked_wire_create(&closed, why, &wire));
    const tt_wire costs = tt_walked_wire_costs(wire, job->strategy->overlaps);
    tt_status status = plan_job(job, TT_ENGINE_TUTTI, &costs, &plan);
    if (status == TT_OK) {
        status = count(&plan, wire, why, &result);
        tt_plan_fini(&plan);
    }
    *needs = tt_walked_wire_survey(wire);
    tt_walked_wire_destroy(wire);
    return status;
}

static tt_status choose_depth(const tt_job *job, tt_walked_config *config, tt_text *why)
{
    tt_walked_needs needs;
    if (job->depth == TT_DEPTH_CLOSED) {
        return TT_OK;
    }
    TT_TRY(survey(job, config, why, &needs));
    const bool fits = needs.memory_bytes <= config->memory_bytes_max;
    if (job->depth == TT_DEPTH_AUTO) {
        const bool is_short = needs.messages <= auto_messages_max;
        config->source = fits && is_short ? TT_WIRE_MOVES : TT_WIRE_CLOSED;
        return TT_OK;
    }
    if (!fits) {
        tt_text_add(why,
                    "depth moves needs %" PRIu64 " bytes for %" PRIu32 " ranks, and %" PRIu64
                    " are allowed; depth closed fits",
                    needs.memory_bytes, job->rank_count, config->memory_bytes_max);
        return TT_ERR_NO_MEMORY;
    }
    return TT_OK;
}

static tt_status make_wire(const tt_job *job, tt_text *why, tt_job_result *result,
                           tt_walked_wire **wire_out)
{
    const bool has_accelerators = job->cluster->generation != TT_CLUSTER_NO_GPU;
    const tt_engine engine = tt_strategy_engine(job->strategy, job->engine, has_accelerators);
    tt_walked_config config;
    TT_TRY(check_engine(job, engine, why));
    TT_TRY(configure(job, engine, why, &config));
    if (engine == TT_ENGINE_TUTTI) {
        TT_TRY(choose_depth(job, &config, why));
    }
    result->engine = engine;
    result->depth = config.source == TT_WIRE_MOVES ? TT_DEPTH_MOVES : TT_DEPTH_CLOSED;
    return tt_walked_wire_create(&config, why, wire_out);
}

/* ---- the job ---- */

static tt_status train(const tt_job *job, tt_walked_wire *wire, tt_text *why, tt_job_result *result)
{
    const tt_rank_noise noise = noise_of(job);
    const bool overlaps = job->strategy->overlaps && result->engine == TT_ENGINE_TUTTI;
    const tt_wire costs = tt_walked_wire_costs(wire, overlaps);
    tt_timetable plan;
    TT_TRY(plan_job(job, result->engine, &costs, &plan));
    const tt_training training = {.plan = &plan,
                                  .wire = costs,
                                  .noise = &noise,
                                  .input_us = input_us(job),
                                  .step_count = job->step_count,
                                  .watch = job->watch,
                                  .allocator = job->allocator};
    tt_status status = tt_train(&training, why, &result->training);
    if (status == TT_OK) {
        status = count(&plan, wire, why, result);
    }
    tt_plan_fini(&plan);
    return status;
}

/* The step of one worker, with walked or computed all-reduces. */
static tt_status run_planned(const tt_job *job, tt_text *why, tt_job_result *result)
{
    tt_walked_wire *wire = NULL;
    TT_TRY(make_wire(job, why, result, &wire));
    const tt_status status = train(job, wire, why, result);
    tt_walked_wire_destroy(wire);
    return status;
}

/* The steps of all ranks. */
static tt_status run_whole(const tt_job *job, tt_text *why, tt_job_result *result)
{
    const bool has_accelerators = job->cluster->generation != TT_CLUSTER_NO_GPU;
    const tt_rank_noise noise = noise_of(job);
    result->engine = tt_strategy_engine(job->strategy, job->engine, has_accelerators);
    result->depth = TT_DEPTH_MACHINES;
    TT_TRY(check_engine(job, result->engine, why));
    TT_TRY(tt_whole_job_check(job, why));
    return tt_whole_job_run(job, &noise, input_us(job), why, result);
}

tt_status tt_job_run(const tt_job *job, tt_text *why, tt_job_result *result_out)
{
    tt_job_result result = {.exchange_count = 0};
    TT_TRY(check(job, why));
    TT_TRY(job->depth == TT_DEPTH_MACHINES ? run_whole(job, why, &result)
                                           : run_planned(job, why, &result));
    const double alone_us = tt_workload_compute_us(job->workload);
    result.efficiency = result.training.step_us > 0 ? alone_us / result.training.step_us : 1;
    result.samples_per_s = result.training.step_us > 0
                               ? 1e6 * job->samples * job->rank_count / result.training.step_us
                               : 0;
    *result_out = result;
    return TT_OK;
}
