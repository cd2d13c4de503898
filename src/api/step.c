/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - what happens once a step: its times, the order that is learnt, settings that are tried.
 *
 * Every rank calls tutti_step at the same place among its calls without a name, so a broadcast
 * inside it matches, and what rank 0 says there holds on all ranks from the same step on: a request
 * is cut as the setting says under which it was submitted, and what was started before is submitted
 * before the setting changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "base/hash64.h"
#include "schedule/schedule.h"

enum {
    NAMES_MAX = 65536,
    REPEATS_MIN = 64,      /* so many names come again, and so many times as many as there are: */
    REPEATS_FACTOR = 2,    /* the first step is over */
    WARMUP_STEPS = 2,      /* of a setting, not counted */
    SAMPLE_STEPS_MIN = 5,  /* counted */
    SAMPLE_STEPS_MAX = 50, /* as many as a fifth of a second holds */
    SAMPLE_NS = 200 * 1000 * 1000,
    CHUNK_MIN = 16 * 1024,
    CHUNK_MAX = 512 * 1024,
    CREDIT_MIN = 256 * 1024,
    CREDIT_MAX = 256 * 1024 * 1024,
    CREDIT_SEED = 16 * 1024 * 1024,
    DECIDE_STEPS = 3, /* until auto says whether an order can help */
};

typedef struct name_list {
    char **names;
    uint32_t *index; /* [places] of names, + 1, by hash */
    size_t count, places;
} name_list;

struct tt_steps {
    pthread_mutex_t lock; /* guards the lists, and what tutti_count reads of the rest */
    name_list started, used;
    uint64_t repeat_count; /* names that were started again before the step was over */
    atomic_bool is_learning;
    atomic_bool is_noting; /* what is started */

    /* Of the thread that calls tutti_step. */
    uint64_t count;
    uint64_t began_ns, busy_ns, waited_ns, bytes; /* as they were at its last call */
    tutti_counters last;                          /* its times only */
    uint64_t gain_permille;                       /* what an order can bring at most; auto */
    uint64_t step_bytes;                          /* of gradients */

    tt_tuner tuner; /* rank 0, from its first proposal on */
    bool is_tuning, has_tuner;
    uint32_t steps_left, warmup_left, sample_count;
    double samples_us[SAMPLE_STEPS_MAX];
    uint64_t chunk_bytes, credit_bytes;
};

/* ---- the order that is learnt ---- */

static size_t list_place(const name_list *list, const char *name)
{
    size_t at = (size_t)tt_hash64(name, strlen(name), 0) & (list->places - 1);
    while (list->index[at] != 0 && strcmp(list->names[list->index[at] - 1], name) != 0) {
        at = (at + 1) & (list->places - 1);
    }
    return at;
}

/* Room for one more name, and an index that is at most half full. */
static bool list_reserve(name_list *list)
{
    if (2 * list->count < list->places) {
        return true;
    }
    const size_t places = list->places > 0 ? 2 * list->places : 128;
    uint32_t *index = calloc(places, sizeof(*index));
    char **names = realloc(list->names, places / 2 * sizeof(*names));
    list->names = names != NULL ? names : list->names;
    if (index == NULL || names == NULL) {
        free(index);
        return false;
    }
    free(list->index);
    list->index = index;
    list->places = places;
    for (size_t i = 0; i < list->count; i++) {
        list->index[list_place(list, names[i])] = (uint32_t)i + 1;
    }
    return true;
}

/* False: it is there already. One that cannot be kept is left out. */
static bool list_add(name_list *list, const char *name)
{
    if (!list_reserve(list)) {
        return true;
    }
    const size_t at = list_place(list, name);
    if (list->index[at] != 0) {
        return false;
    }
    char *copy = list->count < NAMES_MAX && tt_order_name_is_writable(name) ? strdup(name) : NULL;
    if (copy != NULL) {
        list->names[list->count++] = copy;
        list->index[at] = (uint32_t)list->count;
    }
    return true;
}

static void list_clear(name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->names[i]);
    }
    free(list->names);
    free(list->index);
    *list = (name_list){0};
}

void tt_steps_note(tutti_context *context, const tutti_handle *handle)
{
    tt_steps *steps = context->steps;
    if (steps == NULL || !atomic_load_explicit(&steps->is_noting, memory_order_relaxed) ||
        handle->request.urgency >= TT_URGENCY_ACTIVATION / 2) {
        return;
    }
    (void)pthread_mutex_lock(&steps->lock);
    steps->repeat_count += list_add(&steps->started, handle->name) ? 0 : 1;
    /* This program does not call tutti_step: its threads are spared the lock. */
    if (steps->repeat_count > REPEATS_MIN + REPEATS_FACTOR * steps->started.count) {
        atomic_store(&steps->is_noting, false);
    }
    (void)pthread_mutex_unlock(&steps->lock);
}

tutti_status tutti_use(tutti_context *context, const char *name)
{
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (name == NULL || !tt_order_name_is_writable(name)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "tutti_use: a name has 1 to 255 bytes and no control characters");
    }
    tt_steps *steps = context->steps;
    if (atomic_load(&steps->is_learning)) {
        (void)pthread_mutex_lock(&steps->lock);
        (void)list_add(&steps->used, name);
        (void)pthread_mutex_unlock(&steps->lock);
    }
    return TUTTI_OK;
}

/* As text; the caller frees. What is used first comes first: as told, else last ready, first used.
 */
static char *learnt_text(const tt_steps *steps, size_t *bytes_out)
{
    const bool is_told = steps->used.count > 0;
    const name_list *list = is_told ? &steps->used : &steps->started;
    size_t room = strlen(TT_ORDER_TITLE) + 2, at = 0;
    for (size_t i = 0; i < list->count; i++) {
        room += strlen(list->names[i]) + 24;
    }
    char *text = list->count > 0 ? malloc(room) : NULL;
    if (text == NULL) {
        *bytes_out = 0;
        return NULL;
    }
    at += (size_t)snprintf(text, room, "%s\n", TT_ORDER_TITLE);
    for (size_t i = 0; i < list->count; i++) {
        const size_t from = is_told ? i : list->count - 1 - i;
        at += (size_t)snprintf(text + at, room - at, "%zu\t%s\n", i, list->names[from]);
    }
    *bytes_out = at;
    return text;
}

static tutti_status learn(tutti_context *context, tt_steps *steps)
{
    size_t bytes = 0;
    (void)pthread_mutex_lock(&steps->lock);
    char *text = context->rank == 0 ? learnt_text(steps, &bytes) : NULL;
    atomic_store(&steps->is_learning, false);
    atomic_store(&steps->is_noting, false);
    list_clear(&steps->started);
    list_clear(&steps->used);
    (void)pthread_mutex_unlock(&steps->lock);
    const tutti_status status = tt_name_order_spread(context, text, bytes);
    free(text);
    return status;
}

/* ---- times ---- */

static double ratio(double part, double whole)
{
    return whole > 0.0 ? part / whole : 0.0;
}

/* (N + C - T) / min(N, C): of what could run side by side, how much did. */
static double overlap(double network, double compute, double step)
{
    return ratio(network + compute - step, network < compute ? network : compute);
}

/* By the table of costs; 0: it says nothing. */
static double model_ns(tutti_context *context, uint64_t bytes)
{
    return bytes > 0 ? tt_context_model(context, TUTTI_ALLREDUCE, bytes).time_s * 1e9 : 0.0;
}

static void take_times(tutti_context *context, tt_steps *steps, uint64_t now_ns)
{
    tt_drive_acquire(context);
    const tt_control_counters counted = tt_control_count(context->control);
    tt_drive_release(context);
    const uint64_t waited_ns = atomic_load(&context->waited_ns);
    const double model = model_ns(context, counted.gradient_bytes - steps->bytes);
    (void)pthread_mutex_lock(&steps->lock);
    if (steps->count > 0) {
        const double step = (double)(now_ns - steps->began_ns);
        const double waited = (double)(waited_ns - steps->waited_ns);
        const double compute = waited < step ? step - waited : 0.0;
        const double busy = (double)(counted.busy_ns - steps->busy_ns);
        const double network = busy < step ? busy : step;
        const double wire = model > 0.0 ? model : network;
        const double order = overlap(wire, compute, step);
        steps->step_bytes = counted.gradient_bytes - steps->bytes;
        steps->last.step_ns = (uint64_t)step;
        steps->last.compute_ns = (uint64_t)compute;
        steps->last.network_ns = (uint64_t)network;
        steps->last.rho = ratio(network, compute);
        steps->last.alpha = overlap(network, compute, step);
        steps->last.utilisation = ratio(compute, step);
        steps->last.efficiency = order < 0.0 ? 0.0 : (order > 1.0 ? 1.0 : order);
        /* (F + max(B, N)) / max(F + B, N), with forward a third of the computation. */
        const double forward = compute / 3.0, backward = compute - forward;
        const double plain = forward + (backward > wire ? backward : wire);
        const double best = compute > wire ? compute : wire;
        steps->gain_permille = best > 0.0 ? (uint64_t)(1000.0 * (plain / best - 1.0)) : 0;
    }
    steps->began_ns = now_ns;
    steps->busy_ns = counted.busy_ns;
    steps->bytes = counted.gradient_bytes;
    steps->waited_ns = waited_ns;
    steps->count++;
    (void)pthread_mutex_unlock(&steps->lock);
}

void tt_steps_count(tutti_context *context, tutti_counters *counters_out)
{
    tt_steps *steps = context->steps;
    (void)pthread_mutex_lock(&steps->lock);
    counters_out->step_count = steps->count;
    counters_out->step_ns = steps->last.step_ns;
    counters_out->compute_ns = steps->last.compute_ns;
    counters_out->network_ns = steps->last.network_ns;
    counters_out->rho = steps->last.rho;
    counters_out->alpha = steps->last.alpha;
    counters_out->utilisation = steps->last.utilisation;
    counters_out->efficiency = steps->last.efficiency;
    counters_out->chunk_bytes = steps->chunk_bytes;
    counters_out->credit_bytes = steps->credit_bytes;
    (void)pthread_mutex_unlock(&steps->lock);
}

/* auto: with nothing to gain, calls take the plain path. Each rank for itself: urgency is no one
 * else's affair. */
static void decide(tutti_context *context, const tt_steps *steps)
{
    const bool is_auto = context->settings.schedule == TT_SCHEDULE_AUTO;
    if (is_auto && steps->count >= DECIDE_STEPS) {
        const bool is_plain = atomic_load(&context->is_plain);
        const uint64_t least = is_plain ? 20 : 10; /* of a thousand: it does not swing */
        atomic_store(&context->is_plain, steps->gain_permille < least);
    }
}

/* ---- tuning ---- */

typedef struct setting {
    int64_t chunk_bytes, credit_bytes, step_count;
} setting;

/* c* of a step's bytes by the table of costs; the present chunk where it says nothing. */
static double chunk_seed(tutti_context *context, const tt_steps *steps)
{
    const double least_us = model_ns(context, 1) / 1e3;
    const double all_us = model_ns(context, steps->step_bytes) / 1e3;
    if (!(least_us > 0.0) || !(all_us > least_us)) {
        return (double)steps->chunk_bytes;
    }
    const double bytes = (double)steps->step_bytes;
    const double seed = tt_tuner_chunk_seed(bytes, least_us, bytes / (all_us - least_us), 1.0);
    return seed < CHUNK_MIN ? CHUNK_MIN : (seed < CHUNK_MAX ? seed : CHUNK_MAX);
}

/* The present setting has run until now, and is what the tuner asks for first. */
static void tuner_begin(tutti_context *context, tt_steps *steps)
{
    const double credit = steps->credit_bytes > 0 ? (double)steps->credit_bytes : CREDIT_MAX;
    const tt_tuner_config config = {.dimension_count = 2,
                                    .min = {{CHUNK_MIN, CREDIT_MIN}},
                                    .max = {{CHUNK_MAX, CREDIT_MAX}},
                                    .start = {{(double)steps->chunk_bytes, credit}},
                                    .seed = {{chunk_seed(context, steps), CREDIT_SEED}}};
    tt_text why = {0};
    const tt_status status = tt_tuner_init(&steps->tuner, &config, &why);
    TT_ASSERT(status == TT_OK); /* the ranges are ours */
    steps->has_tuner = true;
    FILE *file = context->settings.profile[0] != 0 ? fopen(context->settings.profile, "re") : NULL;
    tt_tuner_sample sample = {0};
    while (file != NULL && fscanf(file, "%lf %lf %lf", &sample.setting.at[TT_TUNER_CHUNK],
                                  &sample.setting.at[TT_TUNER_CREDIT], &sample.step_us) == 3) {
        (void)tt_tuner_recall(&steps->tuner, &sample);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    tt_tuner_setting present;
    (void)tt_tuner_ask(&steps->tuner, &present);
}

static void profile_write(tutti_context *context, const tt_steps *steps)
{
    const char *path = context->settings.profile;
    FILE *file = path[0] != 0 ? fopen(path, "we") : NULL;
    if (file == NULL) {
        if (path[0] != 0) {
            tt_log_write(&context->log, TT_LOG_WARN, "TUTTI_PROFILE=%s cannot be written", path);
        }
        return;
    }
    for (uint32_t i = 0; i < steps->tuner.sample_count; i++) {
        const tt_tuner_sample *sample = &steps->tuner.samples[i];
        (void)fprintf(file, "%.0f %.0f %.3f\n", sample->setting.at[TT_TUNER_CHUNK],
                      sample->setting.at[TT_TUNER_CREDIT], sample->step_us);
    }
    (void)fclose(file);
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Rank 0: the next setting, and for how many steps it holds at least. */
static setting propose(tutti_context *context, tt_steps *steps)
{
    if (!steps->has_tuner) {
        tuner_begin(context, steps);
    }
    const bool was_settled = steps->tuner.is_settled;
    double median_us = 0.0;
    if (steps->sample_count > 0) {
        qsort(steps->samples_us, steps->sample_count, sizeof(double), by_time);
        median_us = steps->samples_us[steps->sample_count / 2];
        if (was_settled) {
            (void)tt_tuner_watch(&steps->tuner, median_us);
        } else {
            tt_tuner_tell(&steps->tuner, median_us);
        }
    }
    tt_tuner_setting next;
    const bool is_asking = tt_tuner_ask(&steps->tuner, &next);
    if (!is_asking && !was_settled) {
        profile_write(context, steps);
        tt_log_write(&context->log, TT_LOG_INFO, "tuned: chunk %.0f bytes, credit %.0f bytes",
                     next.at[TT_TUNER_CHUNK], next.at[TT_TUNER_CREDIT]);
    }
    const double fitting = median_us > 0.0 ? SAMPLE_NS / 1e3 / median_us : SAMPLE_STEPS_MIN;
    const int64_t counted = (int64_t)(fitting < SAMPLE_STEPS_MAX ? fitting : SAMPLE_STEPS_MAX);
    return (setting){.chunk_bytes = (int64_t)(next.at[TT_TUNER_CHUNK] / 64.0) * 64,
                     .credit_bytes = (int64_t)next.at[TT_TUNER_CREDIT],
                     .step_count =
                         WARMUP_STEPS + (counted > SAMPLE_STEPS_MIN ? counted : SAMPLE_STEPS_MIN)};
}

static tutti_status tune(tutti_context *context, tt_steps *steps)
{
    if (steps->warmup_left > 0) {
        steps->warmup_left--;
    } else if (steps->sample_count < SAMPLE_STEPS_MAX && steps->last.step_ns > 0) {
        steps->samples_us[steps->sample_count++] = (double)steps->last.step_ns / 1e3;
    }
    if (steps->steps_left > 0 && --steps->steps_left > 0) {
        return TUTTI_OK;
    }
    setting next = {0};
    if (context->rank == 0) {
        next = propose(context, steps);
    }
    const tutti_status status = tutti_broadcast(context, &next, 3, TUTTI_I64, 0);
    const bool is_sane = next.chunk_bytes >= 64 && next.chunk_bytes <= CHUNK_MAX &&
                         next.chunk_bytes % 64 == 0 && next.credit_bytes > 0 &&
                         next.step_count > 0 && next.step_count <= 1000;
    if (status != TUTTI_OK || !is_sane) {
        return status != TUTTI_OK ? status
                                  : tt_error_set(TUTTI_ERR_BAD_WIRE, "rank 0 sent no setting");
    }
    tt_drive_acquire(context);
    tt_drive_drain(context); /* what was started before keeps its setting */
    tt_control_set_segment(context->control, (uint32_t)next.chunk_bytes);
    tt_control_set_credit(context->control, (uint64_t)next.credit_bytes);
    tt_drive_release(context);
    (void)pthread_mutex_lock(&steps->lock);
    steps->chunk_bytes = (uint64_t)next.chunk_bytes;
    steps->credit_bytes = (uint64_t)next.credit_bytes;
    (void)pthread_mutex_unlock(&steps->lock);
    steps->steps_left = (uint32_t)next.step_count;
    steps->warmup_left = WARMUP_STEPS;
    steps->sample_count = 0;
    return TUTTI_OK;
}

/* ---- life ---- */

tutti_status tt_steps_begin(tutti_context *context)
{
    tt_steps *steps = calloc(1, sizeof(*steps));
    if (steps == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a context");
    }
    const tt_settings *settings = &context->settings;
    (void)pthread_mutex_init(&steps->lock, NULL);
    steps->chunk_bytes = settings->segment_bytes;
    steps->credit_bytes = settings->credit_bytes;
    atomic_init(&steps->is_learning, settings->order[0] == 0 && context->size > 1 &&
                                         (settings->schedule == TT_SCHEDULE_AUTO ||
                                          settings->schedule == TT_SCHEDULE_PRIORITY));
    atomic_init(&steps->is_noting, atomic_load(&steps->is_learning));
    steps->is_tuning = settings->tunes && context->size > 1;
    steps->steps_left = WARMUP_STEPS + SAMPLE_STEPS_MIN;
    steps->warmup_left = WARMUP_STEPS;
    context->steps = steps;
    return TUTTI_OK;
}

void tt_steps_end(tutti_context *context)
{
    tt_steps *steps = context->steps;
    if (steps != NULL) {
        list_clear(&steps->started);
        list_clear(&steps->used);
        (void)pthread_mutex_destroy(&steps->lock);
        free(steps);
    }
}

tutti_status tutti_step(tutti_context *context)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_error_in_callback()) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD, "a callback must not end a step");
    }
    tt_steps *steps = context->steps;
    atomic_store(&context->counts_waits, true);
    take_times(context, steps, tt_clock_ns());
    if (atomic_load(&steps->is_learning)) {
        status = learn(context, steps);
    }
    decide(context, steps);
    if (status == TUTTI_OK && steps->is_tuning) {
        status = tune(context, steps);
    }
    return status;
}
