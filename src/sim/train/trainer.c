/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - see trainer.h. */
#include "sim/train/trainer.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

/* What an evaluation leaves out. */
typedef struct variant {
    bool has_network, has_control, has_noise;
} variant;

static const variant whole = {true, true, true};

typedef struct trainer {
    const tt_training *training;
    tt_scratch scratch;
    uint32_t step_count; /* with those that settle */
    double *largest;     /* [step_count] factor of the slowest rank */
    double mean;         /* factor of the mean rank, over the steps that count */
    double mean_largest; /* likewise */
    double *step_us;     /* [step_count] */
    tt_timetable plain;  /* the plan without delays; its transfers are copies */
} trainer;

static void draw_noise(trainer *own)
{
    const tt_rank_noise *noise = own->training->noise;
    const double compute_us = tt_workload_compute_us(own->training->plan->workload);
    const double counted = own->training->step_count;
    for (uint32_t i = 0; i < own->step_count; i++) {
        tt_step_noise drawn = {.largest = 1, .mean = 1};
        if (noise != NULL) {
            drawn = tt_rank_noise_draw(noise, i, compute_us);
        }
        own->largest[i] = drawn.largest;
        if (i >= TT_EVALUATE_SETTLE) {
            own->mean += drawn.mean / counted;
            own->mean_largest += drawn.largest / counted;
        }
    }
}

static tt_status prepare(trainer *own)
{
    const tt_timetable *plan = own->training->plan;
    own->largest = tt_scratch_take(&own->scratch, own->step_count, sizeof(double));
    own->step_us = tt_scratch_take(&own->scratch, own->step_count, sizeof(double));
    tt_transfer *transfers =
        tt_scratch_take(&own->scratch, plan->transfer_count, sizeof(tt_transfer));
    TT_TRY(tt_scratch_status(&own->scratch));
    memcpy(transfers, plan->transfers, plan->transfer_count * sizeof(*transfers));
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        transfers[i].delay_us = 0;
    }
    own->plain = *plan;
    own->plain.transfers = transfers;
    draw_noise(own);
    return TT_OK;
}

static bool is_whole(variant chosen)
{
    return chosen.has_network && chosen.has_control && chosen.has_noise;
}

static tt_status evaluate(const trainer *own, variant chosen, tt_text *why,
                          tt_evaluation *evaluation_out)
{
    const tt_training *training = own->training;
    const tt_training_watch *watch = is_whole(chosen) ? training->watch : NULL;
    const tt_evaluate_config config = {
        .wire = chosen.has_network ? training->wire : (tt_wire){.byte_us = 0},
        .on_span = watch != NULL ? watch->on_span : NULL,
        .user = watch != NULL ? watch->user : NULL,
        .allocator = training->allocator,
        .step_count = own->step_count,
        .scales = chosen.has_noise ? own->largest : NULL,
        .step_us_out = own->step_us,
    };
    return tt_evaluate(chosen.has_control ? training->plan : &own->plain, &config, why,
                       evaluation_out);
}

double tt_training_step_us(const tt_training *training, double evaluated_us)
{
    return fmax(evaluated_us + training->overhead_us, training->input_us);
}

static tt_status evaluate_step(const trainer *own, variant chosen, tt_text *why, double *step_out)
{
    tt_evaluation evaluation;
    TT_TRY(evaluate(own, chosen, why, &evaluation));
    *step_out = tt_training_step_us(own->training, evaluation.step_us);
    return TT_OK;
}

static bool is_shorter(const void *user, uint32_t a, uint32_t b)
{
    const double *times_us = user;
    return times_us[a] < times_us[b];
}

/* Nearest rank. */
static double percentile(const double *times_us, const uint32_t *sorted, uint32_t count,
                         double share)
{
    const uint32_t place = (uint32_t)ceil(share * count);
    return times_us[sorted[place > 0 ? place - 1 : 0]];
}

static tt_status find_percentiles(trainer *own, tt_training_result *result)
{
    const uint32_t count = own->training->step_count;
    const double *times_us = own->step_us + TT_EVALUATE_SETTLE;
    uint32_t *sorted = tt_scratch_take(&own->scratch, count, sizeof(*sorted));
    uint32_t *spare = tt_scratch_take(&own->scratch, count, sizeof(*spare));
    TT_TRY(tt_scratch_status(&own->scratch));
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = i;
    }
    tt_sort_indices(sorted, spare, count, is_shorter, times_us);
    result->p5_us = tt_training_step_us(own->training, percentile(times_us, sorted, count, 0.05));
    result->p95_us = tt_training_step_us(own->training, percentile(times_us, sorted, count, 0.95));
    return TT_OK;
}

static tt_status train(trainer *own, tt_text *why, tt_training_result *result)
{
    const tt_training *training = own->training;
    const double compute_us = tt_workload_compute_us(training->plan->workload);
    tt_evaluation agreed;
    TT_TRY(prepare(own));
    TT_TRY(evaluate(own, whole, why, &result->evaluation));
    TT_TRY(find_percentiles(own, result));
    if (training->watch != NULL) {
        TT_TRY(training->watch->over(training->watch->user, training, own->step_us));
    }
    TT_TRY(evaluate(own, (variant){true, false, true}, why, &agreed));
    TT_TRY(evaluate_step(own, (variant){false, true, true}, why, &result->free_network_us));
    TT_TRY(evaluate_step(own, (variant){true, true, false}, why, &result->without_noise_us));
    result->step_us = tt_training_step_us(training, result->evaluation.step_us);
    result->free_control_us = tt_training_step_us(training, agreed.step_us);
    result->compute_us = own->mean * compute_us;
    result->wait_us = (own->mean_largest - own->mean) * compute_us;
    result->exposed_us = agreed.step_us - own->mean_largest * compute_us;
    result->agreement_us = result->evaluation.step_us - agreed.step_us;
    result->overhead_us = training->overhead_us;
    result->input_us = result->step_us - result->evaluation.step_us - training->overhead_us;
    return TT_OK;
}

tt_status tt_train(const tt_training *training, tt_text *why, tt_training_result *result_out)
{
    TT_ASSERT(training->step_count > 0 && training->step_count < UINT32_MAX - TT_EVALUATE_SETTLE);
    trainer own = {.training = training,
                   .step_count = training->step_count + (uint32_t)TT_EVALUATE_SETTLE};
    tt_training_result result = {.step_us = 0};
    tt_scratch_init(&own.scratch, training->allocator);
    const tt_status status = train(&own, why, &result);
    tt_scratch_fini(&own.scratch);
    if (status == TT_OK) {
        *result_out = result;
    }
    return status;
}
