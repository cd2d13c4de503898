/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_replay.c - see rank_replay.h. */
#include "sim/train/rank_replay.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

/* ---- arrivals ---- */

void tt_arrivals_init(tt_arrivals *arrivals, uint32_t step_count, const tt_allocator *allocator)
{
    *arrivals = (tt_arrivals){.step_count = step_count, .allocator = allocator};
}

static uint64_t places_of(const tt_arrivals *arrivals, uint32_t transfer_max)
{
    return (uint64_t)arrivals->step_count * transfer_max;
}

void tt_arrivals_fini(tt_arrivals *arrivals)
{
    tt_release(arrivals->allocator, arrivals->over_us, places_of(arrivals, arrivals->transfer_max),
               sizeof(double));
    *arrivals = (tt_arrivals){.over_us = NULL};
}

/* Room for so many transfers: the plan is not known while it is evaluated. */
static bool has_room(tt_arrivals *arrivals, uint32_t transfer)
{
    if (transfer < arrivals->transfer_max || arrivals->has_failed) {
        return !arrivals->has_failed;
    }
    const uint32_t wider = (uint32_t)tt_max_u64(2 * arrivals->transfer_max, transfer + 1);
    double *over_us = tt_allocate(arrivals->allocator, places_of(arrivals, wider), sizeof(double));
    if (over_us == NULL) {
        arrivals->has_failed = true;
        return false;
    }
    for (uint64_t step = 0; step < arrivals->step_count && arrivals->transfer_max > 0; step++) {
        memcpy(over_us + step * wider, arrivals->over_us + step * arrivals->transfer_max,
               arrivals->transfer_max * sizeof(double));
    }
    tt_release(arrivals->allocator, arrivals->over_us, places_of(arrivals, arrivals->transfer_max),
               sizeof(double));
    arrivals->over_us = over_us;
    arrivals->transfer_max = wider;
    return true;
}

void tt_arrivals_note(tt_arrivals *arrivals, const tt_interval *span)
{
    if (span->kind < TT_SPAN_PUSH || span->step >= arrivals->step_count ||
        !has_room(arrivals, span->transfer)) {
        return;
    }
    double *over_us =
        &arrivals->over_us[(uint64_t)span->step * arrivals->transfer_max + span->transfer];
    *over_us = fmax(*over_us, span->arrived_us);
}

/* ---- replay ---- */

typedef struct replay_state {
    const tt_rank_replay *replay;
    uint32_t *uses;     /* tensors in the order of their first use */
    double *arrived_us; /* [tensors] of the step before */
    double clock_us;
    double place_us; /* in the step as the workload has it */
    double factor;
    uint32_t step;
} replay_state;

static void tell(const replay_state *own, tt_rank_span span)
{
    if (span.end_us > span.start_us) {
        span.step = own->step;
        own->replay->on_span(own->replay->user, &span);
    }
}

static void compute_to(replay_state *own, tt_rank_span_kind kind, double place_us)
{
    const double end_us = own->clock_us + (place_us - own->place_us) * own->factor;
    tell(own, (tt_rank_span){.kind = kind, .start_us = own->clock_us, .end_us = end_us});
    own->clock_us = end_us;
    own->place_us = place_us;
}

static void find_arrivals(replay_state *own)
{
    const tt_rank_replay *replay = own->replay;
    const tt_timetable *plan = replay->plan;
    const tt_arrivals *arrivals = replay->arrivals;
    double last_us = 0;
    memset(own->arrived_us, 0, plan->workload->tensor_count * sizeof(double));
    for (uint32_t i = 0; own->step > 0 && i < plan->transfer_count; i++) {
        const tt_transfer *transfer = &plan->transfers[i];
        const double over_us =
            i < arrivals->transfer_max
                ? arrivals->over_us[(uint64_t)(own->step - 1) * arrivals->transfer_max + i]
                : 0;
        const bool brings =
            transfer->kind != TT_TASK_PUSH && transfer->kind != TT_TASK_REDUCE_SCATTER;
        last_us = fmax(last_us, over_us);
        for (uint32_t k = 0; brings && k < transfer->member_count; k++) {
            double *arrived_us = &own->arrived_us[plan->members[transfer->member_first + k]];
            *arrived_us = fmax(*arrived_us, over_us);
        }
    }
    for (size_t i = 0; plan->keeps_barrier && i < plan->workload->tensor_count; i++) {
        own->arrived_us[i] = last_us;
    }
}

static void step(replay_state *own)
{
    const tt_workload *workload = own->replay->plan->workload;
    const double compute_us = tt_workload_compute_us(workload);
    const tt_rank_noise *noise = own->replay->noise;
    own->place_us = 0;
    own->factor =
        noise != NULL ? tt_rank_noise_factor(noise, own->replay->rank, own->step, compute_us) : 1;
    find_arrivals(own);
    for (size_t i = 0; i < workload->tensor_count; i++) {
        const uint32_t tensor = own->uses[i];
        const double use_us = workload->tensors[tensor].first_use_us;
        const double at_us = own->clock_us + (use_us - own->place_us) * own->factor;
        if (own->arrived_us[tensor] > at_us) {
            compute_to(own, TT_RANK_FORWARD, use_us);
            tell(own, (tt_rank_span){.kind = TT_RANK_WAIT,
                                     .tensor = tensor,
                                     .start_us = own->clock_us,
                                     .end_us = own->arrived_us[tensor]});
            own->clock_us = own->arrived_us[tensor];
        }
    }
    compute_to(own, TT_RANK_FORWARD, workload->forward_us);
    compute_to(own, TT_RANK_BACKWARD, compute_us);
}

tt_status tt_rank_replay_run(const tt_rank_replay *replay)
{
    const tt_workload *workload = replay->plan->workload;
    tt_scratch scratch;
    TT_ASSERT(replay->step_count <= replay->arrivals->step_count + 1);
    if (replay->arrivals->has_failed) {
        return TT_ERR_NO_MEMORY;
    }
    tt_scratch_init(&scratch, replay->allocator);
    replay_state own = {.replay = replay,
                        .uses = tt_workload_by_use(workload, &scratch),
                        .arrived_us =
                            tt_scratch_take(&scratch, workload->tensor_count, sizeof(double))};
    const tt_status status = tt_scratch_status(&scratch);
    for (own.step = 0; status == TT_OK && own.step < replay->step_count; own.step++) {
        step(&own);
    }
    tt_scratch_fini(&scratch);
    return status;
}
