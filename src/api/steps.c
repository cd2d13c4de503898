/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.c - calls about steps, and the files that they read and write. The stepper
 * (schedule/step.h) learns, decides and tries; the baton's holder reports calls, uses and steps to
 * it.
 *
 * Its exchanges are made by the thread that calls tutti_step, or tutti_init, without the baton.
 * When one is over, calls started before it are submitted first: they keep their setting.
 *
 * An order from a file is rank 0's. Names that no call has are no error: rank 0 warns of them once,
 * after a whole step, or at the end of a program that makes none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "api/enter.h"
#include "base/alloc.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "schedule/schedule.h"

enum {
    WHOLE_STEPS = 2, /* calls of tutti_step after which a whole step is over */
};

struct tt_steps {
    tt_stepper *stepper;                          /* baton, as all but the last */
    const tt_carrier *carrier;                    /* the exchange that it requests; NULL: none */
    bool is_ending;                               /* a thread is in tutti_step */
    bool is_told;                                 /* the warning about unused names was logged */
    tt_tuner_sample found[TT_TUNER_RECALLED_MAX]; /* to be kept in the profile */
    uint32_t found_count;
    atomic_bool takes_uses; /* a hint: false for good once the order is learnt */
};

/* Do priorities have an effect under this TUTTI_SCHEDULE? */
static bool takes_orders(const tt_settings *settings)
{
    return settings->schedule != TT_SCHEDULE_OFF && settings->schedule != TT_SCHEDULE_FIFO;
}

/* ---- callbacks of the stepper ---- */

static void on_carry(void *owner, const tt_carrier *carrier)
{
    ((tutti_context *)owner)->steps->carrier = carrier;
}

static void on_apply(void *owner, const tt_setting *setting)
{
    const tutti_context *context = owner;
    tt_control_set_segment(context->control, (uint32_t)setting->chunk_bytes);
    tt_real_expect(context->real, (uint32_t)setting->chunk_bytes);
    tt_control_set_credit(context->control, setting->credit_bytes);
    tt_control_set_fuse(context->control, setting->fuse_bytes);
}

static double on_forecast(void *owner, uint64_t bytes)
{
    const tutti_context *context = owner;
    return (double)tt_control_forecast(context->control, TT_ALLREDUCE, bytes).time_ns;
}

static void on_tuned(void *owner, const tt_tuner_setting *setting, bool is_settled)
{
    tutti_context *context = owner;
    tt_log_write(&context->log, TT_LOG_INFO,
                 is_settled ? "tuned: chunk %.0f bytes, credit %.0f, batches up to %.0f"
                            : "step times have changed: chunk %.0f bytes, credit %.0f and "
                              "batches up to %.0f are tuned anew",
                 setting->at[TT_TUNER_CHUNK], setting->at[TT_TUNER_CREDIT],
                 setting->at[TT_TUNER_BATCH]);
    if (is_settled) {
        tt_steps *steps = context->steps;
        steps->found_count = tt_stepper_samples(steps->stepper, steps->found);
    }
}

/* Without the baton. */
static tutti_status exchange(tutti_context *context, const tt_carrier *carrier)
{
    const tt_call_extra refusal = {.objection = TUTTI_ERR_NO_MEMORY,
                                   .text = "out of memory for an order of tensors"};
    tutti_call call = TUTTI_CALL_INIT;
    call.name = carrier->name;
    call.input = call.output = carrier->memory;
    call.count = carrier->count;
    call.dtype = carrier->element_bytes == 1 ? TUTTI_U8 : TUTTI_I64;
    call.flags = TUTTI_ALONE | TUTTI_URGENT;
    return tt_call_run(context, &call, carrier->memory != NULL ? NULL : &refusal);
}

/* With the baton, which is released meanwhile: make the exchanges that the stepper requests. */
static tutti_status carry_all(tutti_context *context)
{
    tt_steps *steps = context->steps;
    const char *why = "";
    while (steps->carrier != NULL) {
        const tt_carrier *carrier = steps->carrier;
        steps->carrier = NULL;
        tt_drive_release(context);
        const tutti_status status = exchange(context, carrier);
        tt_drive_acquire(context);
        tt_drive_drain(context);
        tt_stepper_carried(steps->stepper, (tt_status)status);
    }
    const tutti_status status = (tutti_status)tt_stepper_status(steps->stepper, &why);
    return why[0] != 0 ? tt_error_set(status, "%s", why) : status;
}

/* ---- orders from files ---- */

char *tt_setting_read_file(const char *path, size_t bytes_max, size_t *bytes_out, tt_text *why)
{
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? malloc(bytes_max + 1) : NULL;
    if (text == NULL) {
        tt_text_add(why, "%s", file == NULL ? strerror(errno) : "out of memory");
    } else {
        *bytes_out = fread(text, 1, bytes_max + 1, file);
        if (ferror(file) != 0 || *bytes_out == 0 || *bytes_out > bytes_max) {
            tt_text_add(why, "cannot be read, is empty, or is longer than %zu KiB",
                        bytes_max >> 10);
            free(text);
            text = NULL;
            *bytes_out = 0;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

tt_status tt_name_order_check(const char *path, tt_text *why)
{
    tt_name_table order = {.allocator = &tt_allocator_default};
    tt_text reason = {0};
    size_t bytes = 0;
    char *text = tt_setting_read_file(path, TT_ORDER_TEXT_BYTES_MAX, &bytes, &reason);
    const tt_status status =
        text != NULL ? tt_name_table_read(&order, text, bytes, &reason) : TT_ERR_BAD_CONFIG;
    if (status != TT_OK) {
        tt_text_add(why, "TUTTI_ORDER=%s: %s", path, reason.bytes);
    }
    tt_name_table_clear(&order);
    free(text);
    return status;
}

static tutti_status spread(tutti_context *context, const char *text, size_t bytes)
{
    tt_drive_acquire(context);
    tt_stepper_spread(context->steps->stepper, text, bytes);
    const tutti_status status = carry_all(context);
    tt_drive_release(context);
    return status;
}

static void warn_of_order(tutti_context *context, const char *what)
{
    tt_log_write(&context->log, TT_LOG_WARN, "TUTTI_ORDER=%s %s", context->settings.order, what);
}

/* Rank 0's TUTTI_ORDER to all; collective. */
static tutti_status share_order(tutti_context *context)
{
    const char *path = context->settings.order;
    size_t bytes = 0, count = 0;
    const char *first;
    tt_text why = {0};
    char *text = tt_setting_read_file(path, TT_ORDER_TEXT_BYTES_MAX, &bytes, &why);
    const uint64_t own_hash = text != NULL ? tt_hash64(text, bytes, 1) : 0;
    tutti_status status = spread(context, text, bytes);
    free(text);
    if (status != TUTTI_OK) {
        why = (tt_text){0};
        tt_text_add(&why, "%s", tutti_last_error(context));
        return tt_error_set(status == TUTTI_ERR_NO_MEMORY ? status : TUTTI_ERR_BAD_CONFIG,
                            "TUTTI_ORDER=%s: %s", path, why.bytes);
    }
    tt_drive_acquire(context);
    const uint64_t hash = tt_stepper_order_hash(context->steps->stepper);
    (void)tt_stepper_unused(context->steps->stepper, &count, &first);
    tt_drive_release(context);
    if (hash == 0) {
        return tt_error_set(TUTTI_ERR_BAD_CONFIG, "TUTTI_ORDER=%s: %s", path,
                            context->rank == 0 ? why.bytes : "rank 0 could not read it");
    }
    if (context->rank == 0 && !takes_orders(&context->settings)) {
        warn_of_order(context, "has no effect: TUTTI_SCHEDULE ignores priorities");
    } else if (context->rank == 0 && count == 0) {
        warn_of_order(context, "names no tensor: calls keep their own priorities");
    }
    if (own_hash != 0 && own_hash != hash) { /* a missing file is no conflict */
        warn_of_order(context, "differs from rank 0's file, which is used");
    }
    return TUTTI_OK;
}

/* Rank 0, once; with the baton, or alone. */
static void tell_unused(tutti_context *context, const char *when)
{
    tt_steps *steps = context->steps;
    size_t count = 0;
    const char *first = NULL;
    if (context->rank != 0 || context->settings.order[0] == 0 ||
        !takes_orders(&context->settings) || steps->is_told) {
        return;
    }
    const size_t unused = tt_stepper_unused(steps->stepper, &count, &first);
    steps->is_told = true;
    if (unused > 0) {
        tt_log_write(&context->log, TT_LOG_WARN,
                     "TUTTI_ORDER=%s: no call of rank 0 had %zu of its %zu names %s; the first of "
                     "them is %s",
                     context->settings.order, unused, count, when, first);
    }
}

/* ---- the profile ---- */

/* A line is "chunk credit fuse microseconds"; older files have no fuse. */
static void profile_read(tutti_context *context)
{
    const char *path = context->settings.profile;
    FILE *file = path[0] != 0 ? fopen(path, "re") : NULL;
    char line[256];
    for (int number = 1; file != NULL && fgets(line, sizeof(line), file) != NULL; number++) {
        double of[4];
        const int count = sscanf(line, "%lf %lf %lf %lf", &of[0], &of[1], &of[2], &of[3]);
        const double fuse = (double)context->settings.fuse_bytes;
        const tt_tuner_sample sample = {.setting = {{of[0], of[1], count == 4 ? of[2] : fuse}},
                                        .step_us = of[count == 4 ? 3 : 2]};
        if (count < 3 || !tt_stepper_recall(context->steps->stepper, &sample)) {
            tt_log_write(&context->log, TT_LOG_WARN,
                         "TUTTI_PROFILE=%s: line %d is not a sample, or one too many; it and all "
                         "lines after it are ignored",
                         path, number);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* The best samples of this run: less than half of a tuner's samples may come from a profile. */
static void profile_write(tutti_context *context, const tt_tuner_sample *samples, uint32_t count)
{
    const char *path = context->settings.profile;
    FILE *file = path[0] != 0 ? fopen(path, "we") : NULL;
    if (file == NULL) {
        if (path[0] != 0) {
            tt_log_write(&context->log, TT_LOG_WARN,
                         "TUTTI_PROFILE=%s cannot be written; samples of this run are lost", path);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const double *at = samples[i].setting.at;
        (void)fprintf(file, "%.0f %.0f %.0f %.3f\n", at[TT_TUNER_CHUNK], at[TT_TUNER_CREDIT],
                      at[TT_TUNER_BATCH], samples[i].step_us);
    }
    (void)fclose(file);
}

/* ---- life ---- */

static tt_status create(tutti_context *context, tt_steps *steps)
{
    const tt_settings *settings = &context->settings;
    const tt_step_host host = {.owner = context,
                               .carry = on_carry,
                               .apply = on_apply,
                               .forecast_ns = on_forecast,
                               .tuned = on_tuned};
    tt_step_config config;
    tt_step_config_init(&config);
    config.rank = (uint32_t)context->rank;
    config.size = (uint32_t)context->size;
    config.setting = (tt_setting){.chunk_bytes = settings->segment_bytes,
                                  .credit_bytes = settings->credit_bytes,
                                  .fuse_bytes = settings->fuse_bytes};
    config.learns = settings->order[0] == 0 && context->size > 1 && takes_orders(settings);
    config.tunes = settings->tunes && context->size > 1;
    config.is_plain = !takes_orders(settings);
    config.is_auto = settings->schedule == TT_SCHEDULE_AUTO;
    config.max.fuse_bytes = TT_STEADY_BYTES;
    atomic_init(&steps->takes_uses, config.learns);
    return tt_stepper_create(&config, &host, &tt_allocator_default, &steps->stepper);
}

tutti_status tt_steps_begin(tutti_context *context)
{
    tt_steps *steps = calloc(1, sizeof(*steps));
    if (steps == NULL || create(context, steps) != TT_OK) {
        free(steps);
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a context");
    }
    tt_drive_acquire(context);
    context->steps = steps;
    tt_drive_release(context);
    if (context->rank == 0 && context->settings.tunes) {
        profile_read(context);
    }
    return context->settings.order[0] != 0 ? share_order(context) : TUTTI_OK;
}

void tt_steps_end(tutti_context *context)
{
    if (context->steps != NULL) {
        tell_unused(context, "to the end");
        tt_stepper_destroy(context->steps->stepper);
        free(context->steps);
    }
}

void tt_steps_place(tutti_context *context, tutti_handle *handle)
{
    if (context->steps != NULL && handle->urgency < TT_URGENCY_ACTIVATION / 2) {
        handle->request.urgency =
            tt_stepper_submit(context->steps->stepper, handle->name, handle->urgency);
    }
}

void tt_steps_count(const tutti_context *context, tutti_counters *counters_out)
{
    const tt_step_counters count = tt_stepper_count(context->steps->stepper);
    counters_out->step_count = count.count;
    counters_out->step_ns = count.last.step_ns;
    counters_out->compute_ns = count.last.compute_ns;
    counters_out->network_ns = count.last.network_ns;
    counters_out->rho = count.last.rho;
    counters_out->alpha = count.last.alpha;
    counters_out->utilisation = count.last.utilisation;
    counters_out->efficiency = count.last.efficiency;
    counters_out->chunk_bytes = count.setting.chunk_bytes;
    counters_out->credit_bytes = count.setting.credit_bytes;
    counters_out->fuse_bytes = count.setting.fuse_bytes;
}

/* ---- calls ---- */

tutti_status tutti_use(tutti_context *context, const char *name)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (name == NULL || !tt_order_name_is_writable(name)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "tutti_use: a name has 1 to 255 bytes and no control characters");
    }
    tt_steps *steps = context->steps;
    if (!atomic_load_explicit(&steps->takes_uses, memory_order_relaxed)) {
        return TUTTI_OK;
    }
    status = tt_enter(context);
    if (status == TUTTI_OK) {
        tt_drive_acquire(context);
        atomic_store(&steps->takes_uses, tt_stepper_use(steps->stepper, name));
        tt_drive_release(context);
        tt_leave(context);
    }
    return status;
}

/* With the baton. */
static tt_step_moment moment_now(tutti_context *context)
{
    const char *mode = "";
    const tt_control_counters counted = tt_control_count(context->control);
    const tt_negotiate_counters *names = tt_control_set_count(context->control, 0, &mode);
    return (tt_step_moment){.now_ns = tt_clock_ns(),
                            .waited_ns = atomic_load(&context->waited_ns),
                            .busy_ns = counted.busy_ns,
                            .gradient_bytes = counted.gradient_bytes,
                            .named_count = names != NULL ? names->agreed + names->planned : 0};
}

static tutti_status end_step(tutti_context *context)
{
    tt_steps *steps = context->steps;
    tt_tuner_sample found[TT_TUNER_RECALLED_MAX];
    tt_drive_acquire(context);
    if (steps->is_ending) {
        tt_drive_release(context);
        return tt_error_set(TUTTI_ERR_WRONG_THREAD,
                            "another thread is in tutti_step; call it from one thread at a time");
    }
    steps->is_ending = true;
    const tt_step_moment moment = moment_now(context);
    tt_drive_drain(context);
    tt_control_codec_commit(context->control);
    tt_stepper_end(steps->stepper, &moment);
    const tutti_status status = carry_all(context);
    if (tt_stepper_count(steps->stepper).count == WHOLE_STEPS) {
        tell_unused(context, "in the first step");
    }
    const uint32_t found_count = steps->found_count;
    memcpy(found, steps->found, sizeof(found));
    steps->found_count = 0;
    steps->is_ending = false;
    tt_drive_release(context);
    if (found_count > 0) {
        profile_write(context, found, found_count);
    }
    return status;
}

tutti_status tutti_step(tutti_context *context)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_error_in_callback()) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD,
                            "a callback must not call tutti_step; call it from the program's loop");
    }
    atomic_store(&context->counts_waits, true);
    status = tt_enter(context);
    if (status == TUTTI_OK) {
        status = end_step(context);
        tt_leave(context);
    }
    return status;
}

tutti_status tutti_join(tutti_context *context, tutti_set set, int *last_rank_out)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (context->settings.tunes && context->size > 1 && set != 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "with TUTTI_TUNE a rank must join process set 0, not %u: the others "
                            "would wait for it in tutti_step",
                            set);
    }
    tutti_call call = TUTTI_CALL_INIT;
    const tt_call_extra extra = {.is_join = true, .last_out = last_rank_out};
    call.collective = TUTTI_BARRIER;
    call.set = set;
    status = tt_call_run(context, &call, &extra);
    if (status == TUTTI_OK && set == 0 && tt_enter(context) == TUTTI_OK) {
        tt_drive_acquire(context);
        tt_stepper_joined(context->steps->stepper);
        tt_drive_release(context);
        tt_leave(context);
    }
    return status;
}
