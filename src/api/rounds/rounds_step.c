/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds_step.c - steps and flushes: exchanges are started, awaited and merged; see rounds.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "api/rounds/rounds.h"
#include "base/assert.h"
#include "base/base.h"

/* ---- slices ---- */

bool tt_rounds_exchanges(const tutti_sync *sync, const rounds_tensor *tensor)
{
    return !tensor->is_state || sync->when.state == TT_STATE_AVERAGE;
}

tt_when_run tt_rounds_slice(const tutti_sync *sync, uint32_t tensor, const rounds_flight *flight)
{
    const rounds_tensor *own = &sync->tensors[tensor];
    const size_t size = tutti_dtype_bytes(own->dtype);
    uint64_t first = 0, from = 0, to = own->count;
    tt_when_run run = {.when = &sync->when, .dtype = (tt_dtype)own->dtype};
    if (!tt_rounds_exchanges(sync, own)) {
        return run;
    }
    if (!own->is_state) {
        const uint64_t count = tt_when_slice(&sync->when, flight->fragment, sync->elements, &first);
        from = tt_min_u64(first > own->first ? first - own->first : 0, own->count);
        to = tt_min_u64(first + count > own->first ? first + count - own->first : 0, own->count);
    }
    const size_t number = (size_t)(flight - sync->flights);
    run.count = to > from ? (size_t)(to - from) : 0;
    if (run.count == 0) {
        return run;
    }
    run.values = (uint8_t *)own->values + from * size;
    run.exchanged = own->exchanged + (number * own->count + from) * size;
    for (uint32_t i = 0; i < sync->when.policy->plane_count; i++) {
        run.planes[i] = (uint8_t *)own->planes[i] + from * size;
    }
    return run;
}

/* ---- flights ---- */

static void name_call(const tutti_sync *sync, const rounds_flight *flight, uint32_t tensor,
                      char *name)
{
    enum { CALL_NAME_BYTES = 256 };
    (void)snprintf(name, CALL_NAME_BYTES, "sync/%s", sync->tensors[tensor].name);
    const size_t length = strlen(name);
    if (sync->when.fragments > 1) {
        (void)snprintf(name + length, CALL_NAME_BYTES - length, "[%u]", flight->fragment);
    } else if (sync->flight_count > 1) {
        (void)snprintf(name + length, CALL_NAME_BYTES - length, "#%u",
                       (unsigned)(flight - sync->flights));
    }
}

static tutti_call make_call(const tutti_sync *sync, const rounds_flight *flight,
                            const tt_when_run *run, const char *name)
{
    const bool is_model = sync->when.policy->quantity == TT_QUANTITY_MODEL;
    tutti_call call = TUTTI_CALL_INIT;
    call.dtype = (tutti_dtype)run->dtype;
    call.op = TUTTI_AVERAGE;
    call.set = flight->level == TT_LEVEL_HOST ? sync->host_set : sync->set;
    call.name = name;
    call.input = run->exchanged;
    call.output = run->exchanged;
    call.count = run->count;
    call.flags = is_model ? 0 : TUTTI_GRADIENT;
    call.codec = is_model ? "none" : sync->codec[0] != '\0' ? sync->codec : NULL;
    return call;
}

/* What is to be exchanged is in the flight's room. */
static tutti_status launch(tutti_sync *sync, rounds_flight *flight)
{
    char(*names)[256] = calloc(sync->tensor_count + 1, sizeof(*names));
    tutti_call *calls = calloc(sync->tensor_count + 1, sizeof(*calls));
    flight->handles = calloc(sync->tensor_count + 1, sizeof(*flight->handles));
    flight->handle_count = 0;
    int count = 0;
    tutti_status status = TUTTI_OK;
    if (names == NULL || calls == NULL || flight->handles == NULL) {
        status = tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a round");
    }
    for (uint32_t i = 0; i < sync->tensor_count && status == TUTTI_OK; i++) {
        const tt_when_run run = tt_rounds_slice(sync, i, flight);
        if (run.count > 0) {
            name_call(sync, flight, i, names[count]);
            calls[count] = make_call(sync, flight, &run, names[count]);
            sync->counts.bytes += run.count * tt_dtype_bytes(run.dtype);
            count++;
        }
    }
    if (status == TUTTI_OK && count > 0) {
        status = tutti_start_group(sync->context, calls, count, flight->handles);
    }
    if (status == TUTTI_OK) {
        flight->handle_count = count;
        flight->is_open = true;
    } else {
        free(flight->handles);
        flight->handles = NULL;
    }
    free(names);
    free(calls);
    return status;
}

tutti_status tt_rounds_arrive(tutti_sync *sync, rounds_flight *flight)
{
    bool is_over = true;
    for (int i = 0; i < flight->handle_count; i++) {
        is_over = is_over && tutti_poll(flight->handles[i]) != TUTTI_IN_PROGRESS;
    }
    const uint64_t since_ns = tt_clock_ns();
    const tutti_status status = flight->handle_count > 0
                                    ? tutti_wait_all(flight->handles, flight->handle_count, -1.0)
                                    : TUTTI_OK;
    if (!is_over) {
        sync->counts.waits++;
        sync->counts.wait_ns += tt_clock_ns() - since_ns;
    }
    for (int i = 0; i < flight->handle_count; i++) {
        tutti_handle_free(flight->handles[i]);
    }
    free(flight->handles);
    flight->handles = NULL;
    flight->handle_count = 0;
    return status;
}

tutti_status tt_rounds_wait(tutti_sync *sync, rounds_flight *flight)
{
    TT_ASSERT(flight->is_open);
    flight->is_open = false;
    return tt_rounds_arrive(sync, flight);
}

void tt_rounds_drop(tutti_sync *sync)
{
    for (uint32_t i = 0; i < sync->flight_count && sync->flights != NULL; i++) {
        if (sync->flights[i].is_open) {
            (void)tt_rounds_wait(sync, &sync->flights[i]);
        }
    }
}

static void give(tutti_sync *sync, const rounds_flight *flight)
{
    for (uint32_t i = 0; i < sync->tensor_count; i++) {
        const tt_when_run run = tt_rounds_slice(sync, i, flight);
        if (run.count > 0) {
            sync->when.policy->give(&run);
        }
    }
}

static void reset_state(const rounds_tensor *tensor)
{
    if (tensor->count > 0) {
        memset(tensor->values, 0, tensor->count * tutti_dtype_bytes(tensor->dtype));
    }
}

static void merge(tutti_sync *sync, const rounds_flight *flight)
{
    double distance = 0.0;
    for (uint32_t i = 0; i < sync->tensor_count; i++) {
        tt_when_run run = tt_rounds_slice(sync, i, flight);
        if (run.count > 0) {
            sync->when.policy->merge(&run);
            distance += sync->tensors[i].is_state ? 0.0 : run.distance;
        } else if (sync->tensors[i].is_state && sync->when.state == TT_STATE_RESET) {
            reset_state(&sync->tensors[i]);
        }
    }
    sync->counts.distance = sqrt(distance);
    sync->counts.rounds++;
}

/* What all had in common last takes the place of the values. */
static void restore(tutti_sync *sync)
{
    for (uint32_t i = 0; i < sync->tensor_count; i++) {
        const rounds_tensor *own = &sync->tensors[i];
        if (own->planes[0] != NULL && own->count > 0) {
            memcpy(own->values, own->planes[0], own->count * tutti_dtype_bytes(own->dtype));
        }
    }
}

/* The thread's text of the failure outlives what is dropped. */
tutti_status tt_rounds_fail(tutti_sync *sync, tutti_status status)
{
    char text[TT_TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s", tutti_last_error(sync->context));
    tt_rounds_drop(sync);
    restore(sync);
    return tt_error_set(status, "%s", text);
}

/* ---- models and deltas ---- */

static tutti_status begin_round(tutti_sync *sync, uint32_t fragment, tt_when_level level)
{
    rounds_flight *flight = &sync->flights[0];
    TT_ASSERT(!flight->is_open);
    flight->fragment = fragment;
    flight->level = level;
    flight->merge_at = sync->step + sync->when.delay;
    give(sync, flight);
    if (level == TT_LEVEL_ALL) {
        sync->last_round[fragment] = sync->step;
    }
    return launch(sync, flight);
}

static tutti_status end_round(tutti_sync *sync)
{
    const tutti_status status = tt_rounds_wait(sync, &sync->flights[0]);
    if (status == TUTTI_OK) {
        merge(sync, &sync->flights[0]);
    }
    return status;
}

static tutti_status step_rounds(tutti_sync *sync, int *ready_out)
{
    tutti_status status = TUTTI_OK;
    const rounds_flight *flight = &sync->flights[0];
    if (flight->is_open && flight->merge_at <= sync->step) {
        status = end_round(sync);
        *ready_out = 1;
    }
    for (uint32_t i = 0; i < sync->when.fragments && status == TUTTI_OK; i++) {
        const tt_when_level level = tt_when_due(&sync->when, i, sync->step);
        if (level == TT_LEVEL_NONE) {
            continue;
        }
        status = begin_round(sync, i, level);
        if (status == TUTTI_OK && sync->when.delay == 0) {
            status = end_round(sync);
            *ready_out = 1;
        }
    }
    return status == TUTTI_OK ? status : tt_rounds_fail(sync, status);
}

static tutti_status flush_rounds(tutti_sync *sync, int *ready_out)
{
    tutti_status status = TUTTI_OK;
    if (sync->flights[0].is_open) {
        status = end_round(sync);
        *ready_out = 1;
    }
    for (uint32_t i = 0; i < sync->when.fragments && status == TUTTI_OK; i++) {
        if (sync->last_round[i] < sync->step) {
            status = begin_round(sync, i, TT_LEVEL_ALL);
            status = status == TUTTI_OK ? end_round(sync) : status;
            *ready_out = 1;
        }
    }
    if (status != TUTTI_OK) {
        return tt_rounds_fail(sync, status);
    }
    restore(sync); /* shares of local models, which alpha keeps, too */
    return TUTTI_OK;
}

/* ---- gradients ---- */

/* Leaves the flight's mean gradient in the values, and what they were in its room. */
static tutti_status take_gradient(tutti_sync *sync, rounds_flight *flight, int *ready_out)
{
    const tutti_status status = tt_rounds_wait(sync, flight);
    if (status == TUTTI_OK) {
        merge(sync, flight);
        *ready_out = 1;
    }
    return status;
}

static tutti_status step_pipeline(tutti_sync *sync, int *ready_out)
{
    rounds_flight *flight = &sync->flights[sync->step % sync->flight_count];
    tutti_status status = TUTTI_OK;
    flight->level = TT_LEVEL_ALL;
    if (flight->is_open) {
        status = take_gradient(sync, flight, ready_out);
    } else {
        give(sync, flight);
    }
    if (status == TUTTI_OK) {
        status = launch(sync, flight);
    }
    if (status == TUTTI_OK && sync->when.delay == 0) {
        status = take_gradient(sync, flight, ready_out);
    }
    return status == TUTTI_OK ? status : tt_rounds_fail(sync, status);
}

static tutti_status flush_pipeline(tutti_sync *sync, int *ready_out)
{
    for (uint32_t i = 1; i <= sync->flight_count; i++) {
        rounds_flight *flight = &sync->flights[(sync->step + i) % sync->flight_count];
        if (flight->is_open) {
            const tutti_status status = take_gradient(sync, flight, ready_out);
            return status == TUTTI_OK ? status : tt_rounds_fail(sync, status);
        }
    }
    return TUTTI_OK;
}

/* ---- calls ---- */

static tutti_status compare_steps(tutti_sync *sync)
{
    const int size = tutti_set_size(sync->context, sync->set);
    const int64_t step = (int64_t)sync->step;
    int64_t *steps = calloc((size_t)size, sizeof(*steps));
    int most = 0, least = 0;
    if (steps == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a round");
    }
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = TUTTI_ALLGATHER;
    call.dtype = TUTTI_I64;
    call.set = sync->set;
    call.name = "sync/steps";
    call.input = &step;
    call.output = steps;
    call.count = 1;
    tutti_status status = tutti_run(sync->context, &call);
    for (int i = 0; i < size && status == TUTTI_OK; i++) {
        most = steps[i] > steps[most] ? i : most;
        least = steps[i] < steps[least] ? i : least;
    }
    if (status == TUTTI_OK && steps[most] != steps[least]) {
        status =
            tt_error_set(TUTTI_ERR_MISMATCH,
                         "rank %d of set %u has made %lld steps, rank %d %lld; call "
                         "tutti_sync_step equally often on all",
                         most, sync->set, (long long)steps[most], least, (long long)steps[least]);
    }
    free(steps);
    sync->must_meet = sync->must_meet && status != TUTTI_OK;
    return status;
}

tutti_status tutti_sync_step(tutti_sync *sync, int *ready_out)
{
    int ready = 0;
    tutti_status status = tt_rounds_check(sync);
    if (status != TUTTI_OK) {
        return status;
    }
    sync->step++;
    if (sync->must_meet) {
        status = compare_steps(sync);
    }
    if (status == TUTTI_OK) {
        status = sync->when.policy->quantity == TT_QUANTITY_GRADIENT ? step_pipeline(sync, &ready)
                                                                     : step_rounds(sync, &ready);
    }
    if (ready_out != NULL) {
        *ready_out = status == TUTTI_OK ? ready : 0;
    }
    return status;
}

tutti_status tutti_sync_flush(tutti_sync *sync, int *ready_out)
{
    int ready = 0;
    tutti_status status = tt_rounds_check(sync);
    if (status == TUTTI_OK) {
        status = compare_steps(sync);
    }
    if (status == TUTTI_OK) {
        status = sync->when.policy->quantity == TT_QUANTITY_GRADIENT ? flush_pipeline(sync, &ready)
                                                                     : flush_rounds(sync, &ready);
    }
    if (ready_out != NULL) {
        *ready_out = status == TUTTI_OK ? ready : 0;
    }
    return status;
}
