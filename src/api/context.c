/* SPDX-License-Identifier: Apache-2.0
 *
 * context.c - joining, leaving, and getters of a context. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/api_internal.h"
#include "api/measure.h"
#include "api/store/store_calls.h"
#include "kernel/dtype.h"

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *tutti_version(void)
{
    return VERSION_TEXT(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
}

const char *tutti_status_text(tutti_status status)
{
    return tt_status_text((tt_status)status);
}

size_t tutti_dtype_bytes(tutti_dtype dtype)
{
    return tt_dtype_is_valid((int)dtype) ? tt_dtype_bytes((tt_dtype)dtype) : 0;
}

static void locks_init(tutti_context *context)
{
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&context->sleep_lock, NULL);
    (void)pthread_mutex_init(&context->set_lock, NULL);
    for (int i = 0; i < HANDLE_SHELVES; i++) {
        (void)pthread_mutex_init(&context->shelves[i].lock, NULL);
    }
    (void)pthread_cond_init(&context->changed, &monotonic);
    (void)pthread_cond_init(&context->progress_due, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    tt_queue_init(&context->submitted);
    context->finished_end = &context->finished;
    atomic_init(&context->event_fd, -1);
    atomic_init(&context->has_untold, false);
}

static void context_free(tutti_context *context)
{
    const int event_fd = atomic_load(&context->event_fd);
    tt_build_undo(context);
    tt_process_remove(context);
    tt_call_release_all(context);
    tt_steps_end(context);
    tt_codecs_end(context);
    tt_rules_end(context);
    free(context->sets);
    free(context->costs);
    free(context->known_peers);
    tt_own_updates_release(context);
    free(context->worker_hosts);
    if (event_fd >= 0) {
        (void)close(event_fd);
    }
    (void)pthread_cond_destroy(&context->progress_due);
    (void)pthread_cond_destroy(&context->changed);
    (void)pthread_mutex_destroy(&context->set_lock);
    for (int i = 0; i < HANDLE_SHELVES; i++) {
        (void)pthread_mutex_destroy(&context->shelves[i].lock);
    }
    (void)pthread_mutex_destroy(&context->sleep_lock);
    free(context);
}

/* A rank that fails in its first calls has not joined: tutti_init returns that error. */
static tutti_status measure_first(tutti_context *context, tutti_context **context_out)
{
    tutti_status status = tt_costs_measure(context);
    tt_error_about(context);
    if (status == TUTTI_OK) {
        status = tt_rules_begin(context);
    }
    if (status == TUTTI_OK) {
        status = tt_sums_begin(context);
    }
    if (status == TUTTI_OK) {
        status = tt_steps_begin(context);
    }
    if (status == TUTTI_OK) {
        *context_out = context;
        return TUTTI_OK;
    }
    tt_text text = {0};
    tt_text_add(&text, "%s", tutti_last_error(context));
    (void)tutti_shutdown(context);
    tt_error_about(NULL);
    return tt_error_set(status, "%s", text.bytes);
}

tutti_status tt_context_join(const tutti_options *options, bool is_server,
                             tutti_context **context_out)
{
    const tutti_options none = TUTTI_OPTIONS_INIT;
    const size_t first_bytes = offsetof(tutti_options, listen_fd); /* of older versions */
    const size_t second_bytes = offsetof(tutti_options, updates);
    if (options != NULL && options->struct_bytes != first_bytes &&
        options->struct_bytes != second_bytes &&
        !tt_struct_is_known(options, options->struct_bytes, sizeof(*options))) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "options are not initialised; begin with TUTTI_OPTIONS_INIT");
    }
    tutti_context *context = aligned_alloc(64, sizeof(*context));
    if (context == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a context");
    }
    memset(context, 0, sizeof(*context));
    context->is_server = is_server;
    locks_init(context);
    tt_process_add(context);
    tt_text why = {0};
    tutti_status status = (tutti_status)tt_build(context, options != NULL ? options : &none, &why);
    if (status == TUTTI_OK && !is_server) {
        status = tt_drive_start(context);
    } else if (status != TUTTI_OK) {
        (void)tt_error_set(status, "%s", why.length > 0 ? why.bytes : tutti_status_text(status));
    }
    if (status != TUTTI_OK) {
        context_free(context);
        return status;
    }
    tt_error_forget(context);
    *context_out = context;
    return TUTTI_OK;
}

tutti_status tutti_init(const tutti_options *options, tutti_context **context_out)
{
    tutti_context *context;
    tt_error_about(NULL);
    if (context_out == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "context_out is NULL");
    }
    const tutti_status status = tt_context_join(options, false, &context);
    return status == TUTTI_OK ? measure_first(context, context_out) : status;
}

/* Let failing ops end: peers must confirm that they no longer touch their memory. */
static void settle_ops(tutti_context *context)
{
    enum { PASSES_MAX = 64 };
    /* A send may have failed before the end of its link was detected. This rank must report to its
     * peers which rank is down, and not only that it leaves. */
    for (int i = 0; i < PASSES_MAX && tt_real_poll(context->real); i++) {
    }
    tt_control_shut_down(context->control, TT_ERR_SHUT_DOWN, "the context was shut down");
    if (context->sync != NULL) {
        tt_sync_shut_down(context->sync, TT_ERR_SHUT_DOWN, "the context was shut down");
    }
    const uint64_t until_ns = tt_clock_ns() + context->settings.goodbye_ns;
    while ((tt_control_pending(context->control) > 0 ||
            (context->sync != NULL && tt_sync_owes(context->sync))) &&
           tt_clock_ns() < until_ns) {
        if (!tt_real_poll(context->real)) {
            tt_real_sleep(context->real, tt_clock_ns() + UINT64_C(1000000));
        }
    }
    tt_control_shut_down(context->control, TT_ERR_SHUT_DOWN, "the context was shut down");
}

tutti_status tutti_shutdown(tutti_context *context)
{
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_error_in_callback()) {
        return tt_error_set(
            TUTTI_ERR_WRONG_THREAD,
            "a callback must not shut down its context; call tutti_shutdown after it has returned");
    }
    if (atomic_exchange(&context->is_closing, true)) {
        return tt_error_set(
            TUTTI_ERR_SHUT_DOWN,
            "another thread is shutting the context down; call tutti_shutdown once");
    }
    tt_drive_stop(context);
    tt_drive_acquire(context);
    tt_drive_drain(context);
    settle_ops(context);
    tt_drive_send_away(context);
    tt_context_leave(context);
    return TUTTI_OK;
}

void tt_context_leave(tutti_context *context)
{
    struct tt_trace *trace = tt_trace_detach(context);
    tt_real_goodbye(context->real, tt_clock_ns() + context->settings.goodbye_ns);
    (void)tt_trace_close(trace); /* after goodbye: no peer waits for a slow disk */
    context_free(context);
}

tutti_status tutti_abort(tutti_context *context, const char *why)
{
    enum { WHY_BYTES = 200 };
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_error_in_callback()) {
        return tt_error_set(
            TUTTI_ERR_WRONG_THREAD,
            "a callback must not abort its context; call tutti_abort after it has returned");
    }
    tt_text text = {0};
    tt_text_add(&text, "%.*s", WHY_BYTES, why != NULL ? why : "no reason was given");
    tt_drive_acquire(context);
    tt_control_give_up(context->control, text.bytes);
    tt_drive_release(context);
    return TUTTI_OK;
}

int tutti_rank(const tutti_context *context)
{
    return context != NULL ? context->rank : -1;
}

int tutti_size(const tutti_context *context)
{
    return context != NULL ? context->size : -1;
}

int tutti_local_rank(const tutti_context *context)
{
    return context != NULL ? context->local_rank : -1;
}

int tutti_local_size(const tutti_context *context)
{
    return context != NULL ? context->local_size : -1;
}

int tutti_cross_rank(const tutti_context *context)
{
    return context != NULL ? context->cross_rank : -1;
}

int tutti_cross_size(const tutti_context *context)
{
    return context != NULL ? context->cross_size : -1;
}

int tutti_event_fd(tutti_context *context)
{
    if (tt_call_check(context) != TUTTI_OK) {
        return -1;
    }
    int fd = atomic_load(&context->event_fd);
    if (fd >= 0) {
        return fd;
    }
    const int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0) {
        (void)tt_error_set(TUTTI_ERR_NO_RESOURCE, "eventfd: %s", strerror(errno));
        return -1;
    }
    if (!atomic_compare_exchange_strong(&context->event_fd, &fd, made)) {
        (void)close(made);
        return fd;
    }
    const uint64_t one = 1;
    if (atomic_load(&context->has_untold)) {
        (void)!write(made, &one, sizeof(one));
    }
    return made;
}

tutti_status tutti_event_clear(tutti_context *context)
{
    const tutti_status status = tt_call_check(context);
    const int fd = status == TUTTI_OK ? atomic_load(&context->event_fd) : -1;
    uint64_t count;
    if (fd >= 0) {
        (void)!read(fd, &count, sizeof(count));
    }
    return status;
}

size_t tutti_describe(const tutti_context *context, char *buffer, size_t buffer_bytes)
{
    if (context == NULL) {
        const int bytes = snprintf(buffer, buffer_bytes, "tutti %s: no context", tutti_version());
        return bytes > 0 ? (size_t)bytes : 0;
    }
    const int length = snprintf(
        buffer, buffer_bytes,
        "tutti %s: rank %d of %d, local %d of %d, host %d of %d; %s; memory of this host is %s; "
        "segment %llu bytes, eager up to %llu bytes, algorithm %s%s%s%s%s",
        tutti_version(), context->rank, context->size, context->local_rank, context->local_size,
        context->cross_rank, context->cross_size, context->family,
        context->segment != NULL ? "shared" : "not shared",
        (unsigned long long)context->settings.segment_bytes,
        (unsigned long long)context->settings.eager_bytes,
        context->settings.algorithm[0] != 0 ? context->settings.algorithm : "by size",
        context->engine_plugin != NULL ? "; engine " : "",
        context->engine_plugin != NULL ? context->engine_plugin->name : "",
        context->engine_plugin != NULL ? ": " : "", context->engine_text);
    return length > 0 ? (size_t)length : 0;
}
