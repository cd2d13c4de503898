/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate.c - events are few: the stream reaches a point, or the oldest chunk of a wire is
 * acknowledged. A wire is serial and FIFO, so a chunk's times are known when it is started.
 *
 * At equal times computation comes first: a tensor that is ready competes for credit that returns
 * at the same moment. A tensor that arrives just in time makes a wait of length 0. */
#include "model/evaluate.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"
#include "model/compute.h"

enum { CHUNKS_MAX = 1 << 20 };

typedef struct flight_state {
    double ack_us;
    tt_task_id task;
    uint32_t index;
} flight_state;

typedef struct line_state {
    flight_state *ring;
    uint32_t capacity;
    uint64_t head;
    uint64_t tail;
    double free_us;
    double busy_us;
    double last_ack_us;
} line_state;

/* Conditions that a transfer still waits for in this step. */
typedef struct pending_state {
    uint32_t missing_count; /* members not yet emitted, and conditions */
    double agreed_us;       /* when its delay is over; INFINITY: it is not delayed now */
} pending_state;

/* At the end of a step. */
typedef struct mark_state {
    double end_us;
    double busy_us[TT_LANE_COUNT];
} mark_state;

typedef struct model_state {
    const tt_timetable *plan;
    const tt_evaluate_config *config;
    tt_scheduler *scheduler;
    tt_compute compute;
    line_state lines[TT_LANE_COUNT];
    pending_state *pendings;
    uint32_t *exchange_of;  /* by tensor: its first transfer */
    uint32_t delayed_count; /* transfers whose delay is not over */
    double now_us;
    uint32_t step_count;
    mark_state *marks;         /* [step_count + 1] */
    uint32_t unfinished_count; /* transfers in flight, for the barrier */
} model_state;

tt_wire_cost tt_wire_cost_of(const tt_wire *wire, tt_task_kind kind, uint64_t bytes)
{
    const bool is_half = kind == TT_TASK_REDUCE_SCATTER || kind == TT_TASK_ALL_GATHER;
    const double share = is_half ? 0.5 : 1;
    const tt_wire_cost whole =
        wire->cost != NULL
            ? wire->cost(wire->user, bytes)
            : (tt_wire_cost){wire->overhead_us + (double)bytes * wire->byte_us, wire->latency_us};
    return (tt_wire_cost){share * whole.hold_us, share * whole.latency_us};
}

double tt_wire_time_us(const tt_wire *wire, tt_task_kind kind, uint64_t bytes)
{
    const tt_wire_cost cost = tt_wire_cost_of(wire, kind, bytes);
    return cost.hold_us + cost.latency_us;
}

void tt_overlap(double network_us, double compute_us, double step_us, tt_evaluation *evaluation)
{
    const double smaller_us = fmin(network_us, compute_us);
    evaluation->network_us = network_us;
    evaluation->compute_us = compute_us;
    evaluation->step_us = step_us;
    evaluation->rho = compute_us > 0 ? network_us / compute_us : INFINITY;
    evaluation->alpha = smaller_us > 0 ? (network_us + compute_us - step_us) / smaller_us : 0;
    evaluation->utilisation = step_us > 0 ? compute_us / step_us : 0;
    evaluation->efficiency =
        tt_overlap_efficiency(network_us + compute_us, fmax(network_us, compute_us), step_us);
}

double tt_overlap_efficiency(double serial_us, double busiest_us, double step_us)
{
    return serial_us > busiest_us ? (serial_us - step_us) / (serial_us - busiest_us) : 1;
}

/* ---- spans -------------------------------------------------------------------------------------
 */

/* A chunk that costs nothing is reported, too: it arrives. */
static void span_tell(const model_state *model, tt_interval span)
{
    if (model->config->on_span != NULL &&
        (span.end_us > span.start_us || span.kind >= TT_SPAN_PUSH)) {
        model->config->on_span(model->config->user, &span);
    }
}

static void compute_tell(const model_state *model, double from_us, double to_us)
{
    const tt_compute *compute = &model->compute;
    const bool is_forward = compute->point_us <= compute->workload->forward_us;
    span_tell(model, (tt_interval){.kind = is_forward ? TT_SPAN_FORWARD : TT_SPAN_BACKWARD,
                                   .step = (uint32_t)compute->step,
                                   .start_us = from_us,
                                   .end_us = to_us});
}

/* ---- the scheduler's two ops -------------------------------------------------------------------
 */

static void on_start(void *user, const tt_task_chunk *chunk)
{
    model_state *model = user;
    const tt_task_lane lane = tt_task_kind_lane(chunk->kind);
    line_state *line = &model->lines[lane];
    const tt_wire *wire = &model->config->wire;
    const tt_wire_cost cost = tt_wire_cost_of(wire, chunk->kind, chunk->bytes);
    const double start_us = fmax(model->now_us, line->free_us);
    line->free_us = start_us + cost.hold_us;
    line->busy_us += cost.hold_us;
    TT_ASSERT(line->tail - line->head < line->capacity);
    const double ack_us = fmax(line->free_us + cost.latency_us, line->last_ack_us);
    line->last_ack_us = ack_us; /* acknowledged in order */
    line->ring[line->tail++ % line->capacity] =
        (flight_state){.ack_us = ack_us, .task = chunk->task, .index = chunk->index};
    span_tell(model, (tt_interval){.kind = (tt_span_kind)(TT_SPAN_PUSH + (int)lane),
                                   .step = (uint32_t)chunk->round,
                                   .transfer = chunk->task,
                                   .start_us = start_us,
                                   .end_us = line->free_us,
                                   .arrived_us = ack_us});
}

static void transfer_settle(model_state *model, uint32_t index);

static bool is_delivery(tt_task_kind kind)
{
    return kind != TT_TASK_PUSH && kind != TT_TASK_REDUCE_SCATTER;
}

static void on_finished(void *user, tt_task_id task, tt_status status)
{
    model_state *model = user;
    const tt_transfer *transfer = &model->plan->transfers[task];
    TT_ASSERT(status == TT_OK);
    model->unfinished_count--;
    if (is_delivery(transfer->kind) && !model->plan->keeps_barrier) {
        for (uint32_t i = 0; i < transfer->member_count; i++) {
            tt_compute_arrive(&model->compute, model->plan->members[transfer->member_first + i],
                              model->now_us);
        }
    }
    if (model->plan->keeps_barrier && model->unfinished_count == 0) {
        for (uint32_t i = 0; i < model->plan->workload->tensor_count; i++) {
            tt_compute_arrive(&model->compute, i, model->now_us);
        }
    }
    for (uint32_t i = task + 1; i < model->plan->transfer_count; i++) {
        const tt_transfer *later = &model->plan->transfers[i];
        if (later->after == task && later->waits_for_forward) {
            transfer_settle(model, i);
        }
    }
}

static const tt_scheduler_ops ops = {.start = on_start, .finished = on_finished};

/* ---- readiness ---------------------------------------------------------------------------------
 */

/* Pulls follow in the scheduler, chunk by chunk; the others are made ready here. */
static bool follows_inside(const tt_transfer *transfer)
{
    return transfer->after != TT_TASK_NONE && !transfer->waits_for_forward;
}

static uint32_t conditions_of(const tt_transfer *transfer)
{
    if (transfer->after != TT_TASK_NONE) {
        return 2; /* the transfer it follows, and the end of backward */
    }
    return transfer->member_count + (transfer->waits_for_forward ? 1 : 0);
}

static void transfer_ready(model_state *model, uint32_t index)
{
    const tt_status status = tt_scheduler_ready(model->scheduler, index);
    TT_ASSERT(status == TT_OK);
}

/* One condition of the transfer is met. */
static void transfer_settle(model_state *model, uint32_t index)
{
    const tt_transfer *transfer = &model->plan->transfers[index];
    pending_state *pending = &model->pendings[index];
    TT_ASSERT(pending->missing_count > 0);
    pending->missing_count--;
    if (pending->missing_count > 0) {
        return;
    }
    pending->missing_count = conditions_of(transfer);
    if (transfer->delay_us <= 0) {
        transfer_ready(model, index);
        return;
    }
    TT_ASSERT(isinf(pending->agreed_us));
    pending->agreed_us = model->now_us + transfer->delay_us;
    model->delayed_count++;
}

/* The delayed transfer that is agreed on first; the number of transfers: there is none. */
static uint32_t delayed_first(const model_state *model, double *agreed_us_out)
{
    uint32_t first = model->plan->transfer_count;
    *agreed_us_out = INFINITY;
    for (uint32_t i = 0; model->delayed_count > 0 && i < model->plan->transfer_count; i++) {
        if (model->pendings[i].agreed_us < *agreed_us_out) {
            *agreed_us_out = model->pendings[i].agreed_us;
            first = i;
        }
    }
    return first;
}

static void transfer_agreed(model_state *model, uint32_t index)
{
    model->pendings[index].agreed_us = INFINITY;
    model->delayed_count--;
    transfer_ready(model, index);
}

static void backward_ended(model_state *model)
{
    for (uint32_t i = 0; i < model->plan->transfer_count; i++) {
        if (model->plan->transfers[i].waits_for_forward) {
            transfer_settle(model, i);
        }
    }
}

/* ---- the run -----------------------------------------------------------------------------------
 */

static tt_status tasks_declare(model_state *model)
{
    for (uint32_t i = 0; i < model->plan->transfer_count; i++) {
        const tt_transfer *transfer = &model->plan->transfers[i];
        const tt_task_config task = {
            .kind = transfer->kind,
            .class = TT_TASK_GRADIENT,
            .priority = transfer->priority,
            .bytes = transfer->bytes,
            .chunk_bytes = transfer->chunk_bytes,
            .after = follows_inside(transfer) ? transfer->after : TT_TASK_NONE,
        };
        tt_task_id id;
        TT_TRY(tt_scheduler_declare(model->scheduler, &task, &id));
        TT_ASSERT(id == i);
        model->pendings[i] = (pending_state){conditions_of(transfer), INFINITY};
        for (uint32_t k = 0; k < transfer->member_count && transfer->after == TT_TASK_NONE; k++) {
            model->exchange_of[model->plan->members[transfer->member_first + k]] = i;
        }
    }
    return TT_OK;
}

static uint64_t chunks_needed(const tt_timetable *plan)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < plan->transfer_count && count <= CHUNKS_MAX; i++) {
        const tt_transfer *transfer = &plan->transfers[i];
        const uint64_t chunk_bytes =
            transfer->chunk_bytes != 0 ? transfer->chunk_bytes : plan->chunk_bytes;
        count += tt_task_chunk_count(transfer->bytes, chunk_bytes, 0);
    }
    return count;
}

static tt_status model_build(model_state *model, tt_scratch *scratch, tt_text *why)
{
    const tt_timetable *plan = model->plan;
    const uint64_t chunk_count = chunks_needed(plan);
    if (chunk_count > CHUNKS_MAX) {
        tt_text_add(why, "the plan cuts a step into more than %d chunks: use larger ones",
                    CHUNKS_MAX);
        return TT_ERR_NO_RESOURCE;
    }
    for (int i = 0; i < TT_LANE_COUNT; i++) {
        model->lines[i].capacity = (uint32_t)chunk_count;
        model->lines[i].ring = tt_scratch_take(scratch, chunk_count, sizeof(flight_state));
    }
    model->pendings = tt_scratch_take(scratch, plan->transfer_count, sizeof(pending_state));
    model->exchange_of = tt_scratch_take(scratch, plan->workload->tensor_count, sizeof(uint32_t));
    model->marks = tt_scratch_take(scratch, model->step_count + 1, sizeof(mark_state));
    TT_TRY(tt_scratch_status(scratch));
    TT_TRY(tt_compute_init(&model->compute, plan->workload, scratch));
    model->compute.scales = model->config->scales;
    const tt_scheduler_config config = {
        .queue = plan->queue,
        .task_max = plan->transfer_count,
        .chunk_max = (uint32_t)chunk_count,
        .chunk_bytes = plan->chunk_bytes,
        .credit_bytes = plan->credit_bytes,
        .ops = &ops,
        .user = model,
        .allocator = model->config->allocator,
    };
    TT_TRY(tt_scheduler_create(&config, why, &model->scheduler));
    const tt_status status = tasks_declare(model);
    if (status != TT_OK) {
        tt_text_add(why, "%s", tt_scheduler_why(model->scheduler));
    }
    return status;
}

static int line_first(const model_state *model, double *ack_us_out)
{
    int first = -1;
    *ack_us_out = INFINITY;
    for (int i = 0; i < TT_LANE_COUNT; i++) {
        const line_state *line = &model->lines[i];
        if (line->head < line->tail &&
            line->ring[line->head % line->capacity].ack_us < *ack_us_out) {
            *ack_us_out = line->ring[line->head % line->capacity].ack_us;
            first = i;
        }
    }
    return first;
}

static void step_ended(model_state *model)
{
    const uint64_t step = model->compute.step;
    TT_ASSERT(step > 0 && step <= model->step_count);
    mark_state *mark = &model->marks[step];
    mark->end_us = model->now_us;
    for (int i = 0; i < TT_LANE_COUNT; i++) {
        mark->busy_us[i] = model->lines[i].busy_us;
    }
    if (model->config->step_us_out != NULL) {
        model->config->step_us_out[step - 1] = mark->end_us - mark[-1].end_us;
    }
    backward_ended(model);
}

static void compute_event(model_state *model)
{
    uint32_t tensor;
    compute_tell(model, model->compute.clock_us, model->now_us);
    switch (tt_compute_reach(&model->compute, model->now_us, &tensor)) {
    case TT_COMPUTE_EMITTED:
        if (model->unfinished_count == 0) {
            model->unfinished_count = model->plan->transfer_count;
        }
        transfer_settle(model, model->exchange_of[tensor]);
        break;
    case TT_COMPUTE_STEPPED:
        step_ended(model);
        break;
    case TT_COMPUTE_PASSED:
    case TT_COMPUTE_WAITING:
        break;
    }
}

static void model_run(model_state *model)
{
    while (model->compute.step < model->step_count) {
        double ack_us, agreed_us;
        const int lane = line_first(model, &ack_us);
        const uint32_t agreed = delayed_first(model, &agreed_us);
        const double compute_us = tt_compute_next_us(&model->compute);
        TT_ASSERT(isfinite(fmin(fmin(ack_us, agreed_us), compute_us)));
        if (agreed_us < fmin(ack_us, compute_us)) {
            model->now_us = agreed_us;
            transfer_agreed(model, agreed);
        } else if (ack_us < compute_us) {
            line_state *line = &model->lines[lane];
            const flight_state over = line->ring[line->head++ % line->capacity];
            model->now_us = over.ack_us;
            const tt_status status =
                tt_scheduler_finish(model->scheduler, over.task, over.index, TT_OK);
            TT_ASSERT(status == TT_OK);
        } else {
            model->now_us = compute_us;
            compute_event(model);
        }
    }
}

static void model_measure(const model_state *model, tt_evaluation *evaluation)
{
    const mark_state *last = &model->marks[model->step_count];
    const mark_state *first = &model->marks[TT_EVALUATE_SETTLE];
    const double steps = (double)model->step_count - TT_EVALUATE_SETTLE;
    const double step_us = (last->end_us - first->end_us) / steps;
    double compute_us = 0;
    for (uint32_t i = TT_EVALUATE_SETTLE; i < model->step_count; i++) {
        const double scale = model->config->scales != NULL ? model->config->scales[i] : 1;
        compute_us += scale * tt_workload_compute_us(model->plan->workload) / steps;
    }
    double busy_us = 0, serial_us = compute_us;
    for (int i = 0; i < TT_LANE_COUNT; i++) {
        const double lane_us = (last->busy_us[i] - first->busy_us[i]) / steps;
        busy_us = fmax(busy_us, lane_us);
        serial_us += lane_us;
    }
    *evaluation = (tt_evaluation){.stall_us = model->compute.stall_us / model->step_count};
    evaluation->chunk_count = chunks_needed(model->plan);
    tt_overlap(busy_us, compute_us, step_us, evaluation);
    evaluation->efficiency = tt_overlap_efficiency(serial_us, fmax(busy_us, compute_us), step_us);
}

tt_status tt_evaluate(const tt_timetable *plan, const tt_evaluate_config *config, tt_text *why,
                      tt_evaluation *evaluation_out)
{
    TT_ASSERT(tt_plan_is_sound(plan));
    tt_scratch scratch;
    tt_scratch_init(&scratch, config->allocator);
    const uint32_t step_count = config->step_count > 0 ? config->step_count : TT_EVALUATE_STEPS;
    TT_ASSERT(step_count > TT_EVALUATE_SETTLE);
    model_state model = {.plan = plan, .config = config, .step_count = step_count};
    const tt_status status = model_build(&model, &scratch, why);
    if (status == TT_OK) {
        model_run(&model);
        model_measure(&model, evaluation_out);
    }
    tt_scheduler_destroy(model.scheduler);
    tt_scratch_fini(&scratch);
    return status;
}
