/* SPDX-License-Identifier: Apache-2.0
 *
 * whole_job.c - see whole_job.h. */
#include "sim/train/whole_job.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"
#include "sim/machines/named_step.h"

/* The coordinator has seen all names, vectors agree on them, and a plan is made; the steps after
 * that are counted. */
enum { STEPS_BEFORE_PLAN = 2 };

typedef struct whole_job {
    const tt_job *job;
    const tt_rank_noise *noise;
    tt_machines *machines;
    double *paces;                                      /* [ranks] */
    double *steps_us;                                   /* [step_count] ascending */
    double compute_us, slowest_us, exposed_us, step_us; /* sums over steps */
} whole_job;

tt_status tt_whole_job_check(const tt_job *job, tt_text *why)
{
    const char *culprit = NULL;
    if (!job->strategy->takes_control) {
        tt_text_add(why,
                    "depth machines runs the ranks of Tutti, and strategy %s has others; use "
                    "--strategy tutti, or leave out --depth",
                    job->strategy->name);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (job->settings.crosses_steps) {
        culprit = "--cross";
    } else if (job->settings.chunk_bytes > 0) {
        culprit = "--chunk";
    } else if (job->watch != NULL) {
        culprit = "--trace";
    }
    if (culprit != NULL) {
        tt_text_add(why, "depth machines does not know %s; leave it out, or use depth moves",
                    culprit);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

/* ---- settings ---- */

static tt_negotiate_mode mode_of(tt_agree_mode mode)
{
    static const tt_negotiate_mode modes[TT_AGREE_MODES] = {
        [TT_AGREE_PLAN] = TT_NEGOTIATE_AUTO,
        [TT_AGREE_BITVECTOR] = TT_NEGOTIATE_BITVECTOR,
        [TT_AGREE_COORDINATOR] = TT_NEGOTIATE_COORDINATOR,
        [TT_AGREE_ORIGINAL] = TT_NEGOTIATE_ORIGINAL};
    TT_ASSERT(mode < TT_AGREE_MODES);
    return modes[mode];
}

static tt_status configure(const tt_job *job, tt_text *why, tt_machines_config *config)
{
    const tt_strategy_settings *settings = &job->settings;
    tt_machines_config_init(config);
    TT_TRY(tt_cluster_place(job->cluster, job->rank_count, why, &config->fabric));
    config->model = tt_cluster_model(job->cluster);
    config->seed = job->seed;
    config->allocator = job->allocator;
    config->control.algorithm = job->algorithm;
    config->control.negotiate.mode = mode_of(settings->control);
    if (settings->cycle_us > 0) {
        config->control.negotiate.cycle_ns = (uint64_t)(settings->cycle_us * 1e3);
    }
    if (settings->fuse_bytes > 0) {
        config->control.fuse_bytes = settings->fuse_bytes;
    }
    if (settings->credit_bytes > 0) {
        config->control.credit_bytes = settings->credit_bytes;
        config->control.is_paced = true;
    }
    if (job->memory_bytes_max > 0) {
        config->memory_bytes_max = job->memory_bytes_max;
    }
    return TT_OK;
}

/* ---- steps ---- */

static tt_status run_step(whole_job *own, const double *paces, tt_text *why,
                          tt_named_step_result *result)
{
    const tt_named_step step = {.workload = own->job->workload, .paces = paces};
    return tt_named_step_run(own->machines, &step, why, result);
}

static void sort_in(double *steps_us, uint32_t count, double step_us)
{
    uint32_t at = count;
    for (; at > 0 && steps_us[at - 1] > step_us; at--) {
        steps_us[at] = steps_us[at - 1];
    }
    steps_us[at] = step_us;
}

static tt_status run_counted(whole_job *own, double input_us, tt_text *why, tt_job_result *result)
{
    const double alone_us = tt_workload_compute_us(own->job->workload);
    const uint32_t ranks = own->job->rank_count;
    tt_named_step_result found;
    for (uint32_t i = 0; i < own->job->step_count; i++) {
        double sum = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            /* those of the other depths, whose evaluator settles first */
            own->paces[rank] =
                tt_rank_noise_factor(own->noise, rank, i + TT_EVALUATE_SETTLE, alone_us);
            sum += own->paces[rank];
        }
        TT_TRY(run_step(own, own->paces, why, &found));
        const double slowest_us = (double)found.computed_ns / 1e3;
        const double exchanged_us = slowest_us + (double)found.exposed_ns / 1e3;
        own->compute_us += alone_us * sum / ranks;
        own->slowest_us += slowest_us;
        own->exposed_us += (double)found.exposed_ns / 1e3;
        own->step_us += fmax(exchanged_us, input_us);
        sort_in(own->steps_us, i, fmax(exchanged_us, input_us));
    }
    for (int level = 0; level < TT_FABRIC_LEVELS; level++) {
        result->levels[level] = found.run.levels[level];
    }
    return TT_OK;
}

static double percentile(const whole_job *own, double share)
{
    const uint32_t place = (uint32_t)ceil(share * own->job->step_count);
    return own->steps_us[place > 0 ? place - 1 : 0];
}

static tt_status run_all(whole_job *own, double input_us, tt_text *why, tt_job_result *result)
{
    const double alone_us = tt_workload_compute_us(own->job->workload);
    const double count = own->job->step_count;
    tt_training_result *training = &result->training;
    const uint32_t settling =
        tt_machines_config_of(own->machines)->control.negotiate.steps_to_plan + STEPS_BEFORE_PLAN;
    tt_named_step_result quiet = {.computed_ns = 0};
    for (uint32_t i = 0; i <= settling; i++) {
        TT_TRY(run_step(own, NULL, why, &quiet));
    }
    TT_TRY(run_counted(own, input_us, why, result));
    training->step_us = own->step_us / count;
    training->p5_us = percentile(own, 0.05);
    training->p95_us = percentile(own, 0.95);
    training->compute_us = own->compute_us / count;
    training->wait_us = (own->slowest_us - own->compute_us) / count;
    training->exposed_us = own->exposed_us / count;
    training->input_us = fmax(0, training->step_us - (own->slowest_us + own->exposed_us) / count);
    training->free_network_us = fmax(own->slowest_us / count, input_us);
    training->without_noise_us = fmax(alone_us + (double)quiet.exposed_ns / 1e3, input_us);
    return TT_OK;
}

tt_status tt_whole_job_run(const tt_job *job, const tt_rank_noise *noise, double input_us,
                           tt_text *why, tt_job_result *result)
{
    tt_machines_config config;
    whole_job own = {.job = job, .noise = noise};
    TT_TRY(configure(job, why, &config));
    TT_TRY(tt_machines_create(&config, why, &own.machines));
    own.paces = tt_allocate(job->allocator, job->rank_count, sizeof(*own.paces));
    own.steps_us = tt_allocate(job->allocator, job->step_count, sizeof(*own.steps_us));
    tt_status status = TT_ERR_NO_MEMORY;
    if (own.paces != NULL && own.steps_us != NULL) {
        status = run_all(&own, input_us, why, result);
    } else {
        tt_text_add(why, "out of memory for %u steps; ask for fewer", job->step_count);
    }
    tt_release(job->allocator, own.paces, job->rank_count, sizeof(*own.paces));
    tt_release(job->allocator, own.steps_us, job->step_count, sizeof(*own.steps_us));
    tt_machines_destroy(own.machines);
    return status;
}
