/* SPDX-License-Identifier: Apache-2.0
 *
 * drive.c - the baton: which thread runs the machine, and how the others sleep.
 *
 * One thread at a time holds the baton and runs the machine. A thread that waits for a call takes
 * it if it is free, so that a blocking call costs no hand-off; otherwise it sleeps until its call
 * is done or the baton is free. When nobody waits, the progress thread looks after what is
 * outstanding.
 *
 *  (1) Nobody blocks holding the baton: sleeping lets it go first.
 *  (2) Who lets go looks at the queue afterwards: what was submitted meanwhile is not forgotten.
 *  (3) Who submits looks at the progress thread's state after the push; the progress thread looks
 *      at the queue after setting its state. One of them sees the other.
 *  (4) After a blocking call nobody may be polling (lingering); the progress thread looks every
 *      LINGER_NS while there is activity, and sleeps in epoll when there is none. While a waiter
 *      drives, also from within its own sleep, the progress thread only stands by.
 *  (5) Callbacks run without the baton.
 *  (6) Who stops driving while another thread sleeps in the driver wakes it: the word that tells
 *      peers whether to ring is no longer that of a sleeper.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/api_internal.h"
#include "base/assert.h"
#include "base/base.h"

enum {
    LINGER_NS = 2 * 1000 * 1000,
    LINGER_LOOKS = 5,               /* without any call before the progress thread sleeps */
    STAND_BY_NS = 50 * 1000 * 1000, /* between looks while a waiter drives */
    SEND_AWAY_NS = 100 * 1000,
};

uint64_t tt_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t tt_seconds_to_ns(double seconds)
{
    if (!(seconds > 0.0)) { /* NaN too */
        return 0;
    }
    return (uint64_t)((seconds < 1e9 ? seconds : 1e9) * 1e9);
}

/* ---- completion ---- */

void tt_drive_finished(tt_request *request)
{
    tutti_handle *handle = request->owner;
    if (request->has_strays) {
        atomic_store(&handle->context->keeps_memory, true);
    }
    handle->next = NULL;
    *handle->context->finished_end = handle;
    handle->context->finished_end = &handle->next;
}

/* Wake whoever waits for the baton or a handle. */
static void broadcast(tutti_context *context)
{
    (void)pthread_mutex_lock(&context->sleep_lock);
    (void)pthread_cond_broadcast(&context->changed);
    (void)pthread_mutex_unlock(&context->sleep_lock);
}

static void tell_event(tutti_context *context)
{
    const int fd = atomic_load(&context->event_fd);
    const uint64_t one = 1;
    if (fd >= 0) {
        (void)!write(fd, &one, sizeof(one)); /* full counts as told */
    }
}

/* The handle belongs to its owner from the exchange on: nothing of it is read afterwards. */
static void complete(tutti_context *context, tutti_handle *handle)
{
    void (*done)(void *, tutti_handle *, tutti_status) = handle->done;
    const bool has_event = handle->has_event;
    const tutti_status status = (tutti_status)handle->request.status;
    handle->status = status;
    if (handle->result_out != NULL && status == TUTTI_OK) {
        *handle->result_out = handle->request.output;
    } else if (handle->output == NULL && handle->request.output != NULL) {
        tt_memory_release(context, handle->request.output); /* was for a result there is not */
    }
    if (done != NULL) {
        int started = HANDLE_STARTED; /* or abandoned: then it stays so */
        (void)atomic_compare_exchange_strong(&handle->state, &started, HANDLE_CALLING);
        tt_error_enter_callback();
        done(handle->done_user, handle, status);
        tt_error_leave_callback();
    }
    if (atomic_exchange(&handle->state, HANDLE_DONE) == HANDLE_ABANDONED) {
        tt_call_recycle(handle);
    }
    if (has_event) {
        tell_event(context);
    }
}

/* Tell the owners of finished calls. Takes the list with the baton, calls back without it. */
void tt_drive_deliver(tutti_context *context)
{
    tutti_handle *handle = context->finished;
    if (handle == NULL) {
        return;
    }
    context->finished = NULL;
    context->finished_end = &context->finished;
    bool has_callbacks = false;
    for (tutti_handle *look = handle; look != NULL; look = look->next) {
        has_callbacks = has_callbacks || look->done != NULL;
    }
    if (has_callbacks) {
        atomic_store(&context->baton, 0);
        if (atomic_load(&context->waiting) > 0) {
            broadcast(context);
        }
    }
    while (handle != NULL) {
        tutti_handle *next = handle->next;
        complete(context, handle);
        handle = next;
    }
    if (atomic_load(&context->waiting) > 0) {
        broadcast(context);
    }
    if (has_callbacks) {
        tt_drive_acquire(context);
    }
}

void tt_drive_send_away(tutti_context *context)
{
    tt_drive_deliver(context);
    while (atomic_load(&context->inside) > 0) {
        atomic_store(&context->baton, 0);
        tt_real_wake(context->real);
        broadcast(context);
        const struct timespec nap = {.tv_nsec = SEND_AWAY_NS};
        (void)nanosleep(&nap, NULL);
        tt_drive_acquire(context);
        tt_drive_drain(context);
        tt_drive_deliver(context);
    }
}

/* ---- the baton ---- */

bool tt_drive_try_acquire(tutti_context *context)
{
    return atomic_load_explicit(&context->baton, memory_order_relaxed) == 0 &&
           atomic_exchange(&context->baton, 1) == 0;
}

void tt_drive_acquire(tutti_context *context)
{
    if (tt_drive_try_acquire(context)) {
        return;
    }
    atomic_fetch_add(&context->waiting, 1);
    tt_real_wake(context->real); /* the holder may be about to sleep for long */
    (void)pthread_mutex_lock(&context->sleep_lock);
    while (!tt_drive_try_acquire(context)) {
        (void)pthread_cond_wait(&context->changed, &context->sleep_lock);
    }
    (void)pthread_mutex_unlock(&context->sleep_lock);
    atomic_fetch_sub(&context->waiting, 1);
}

void tt_drive_notify(tutti_context *context)
{
    const int state = atomic_load(&context->progress_state);
    if (state == PROGRESS_RUNNING ||
        atomic_exchange(&context->progress_state, PROGRESS_RUNNING) == PROGRESS_RUNNING) {
        return;
    }
    if (state == PROGRESS_ASLEEP) {
        tt_real_wake(context->real);
    }
    (void)pthread_mutex_lock(&context->sleep_lock);
    (void)pthread_cond_signal(&context->progress_due);
    (void)pthread_mutex_unlock(&context->sleep_lock);
}

void tt_drive_release(tutti_context *context)
{
    const bool is_outstanding = tt_control_pending(context->control) > 0;
    atomic_store(&context->baton, 0);
    if (atomic_load(&context->waiting) > 0) {
        broadcast(context);
    } else if (is_outstanding || tt_queue_has_pushed(&context->submitted)) {
        tt_drive_notify(context);
    }
}

void tt_drive_drain(tutti_context *context)
{
    tt_queue_node *node;
    while ((node = tt_queue_pop(&context->submitted)) != NULL) {
        tutti_handle *handle = TT_CONTAINER_OF(node, tutti_handle, node);
        tt_control_submit(context->control, &handle->request);
    }
}

/* ---- waiting ---- */

static bool is_done(void *handle)
{
    return atomic_load_explicit(&((tutti_handle *)handle)->state, memory_order_acquire) ==
           HANDLE_DONE;
}

/* What ends a spin: a call of this context is over, or another was submitted. */
static bool has_news(void *argument)
{
    tutti_context *context = argument;
    return context->finished != NULL || tt_queue_has_pushed(&context->submitted);
}

/* Sleep in the driver without the baton. */
static void sleep_apart(tutti_context *context, uint64_t until_ns)
{
    atomic_fetch_add(&context->sleepers, 1);
    atomic_store(&context->baton, 0);
    if (atomic_load(&context->waiting) > 0) {
        broadcast(context);
    }
    if (!tt_queue_has_pushed(&context->submitted)) {
        tt_real_sleep_block(context->real, until_ns);
    }
    tt_drive_acquire(context);
    atomic_fetch_sub(&context->sleepers, 1);
    tt_real_sleep_end(context->real);
}

/* Nobody polls from here on, for a while: see (4) and (6). */
static void stop_driving(tutti_context *context)
{
    tt_real_linger(context->real);
    if (atomic_load(&context->sleepers) > 0) {
        tt_real_wake(context->real);
    }
}

/* Drive with the baton in hand until the handle is done or time is out. */
static void drive_for(tutti_handle *handle, uint64_t until_ns)
{
    tutti_context *context = handle->context;
    tt_real *real = context->real;
    tt_real_drive(real);
    while (!is_done(handle)) {
        tt_drive_drain(context);
        if (context->finished == NULL) {
            (void)tt_real_poll(real);
        }
        tt_drive_deliver(context);
        if (is_done(handle) || has_news(context)) {
            continue;
        }
        if (tt_real_spin(real, has_news, context, until_ns)) {
            continue;
        }
        if (until_ns != UINT64_MAX && tt_clock_ns() >= until_ns) {
            break;
        }
        uint64_t wake_ns = tt_real_watch(real);
        wake_ns = wake_ns < until_ns ? wake_ns : until_ns;
        if (tt_real_sleep_begin(real, wake_ns, &wake_ns)) {
            sleep_apart(context, wake_ns);
        }
        tt_drive_deliver(context);
    }
    stop_driving(context);
}

static void deadline_of(uint64_t until_ns, struct timespec *time_out)
{
    const uint64_t now = tt_clock_ns();
    const uint64_t limit = now + UINT64_C(3600000000000);
    const uint64_t at = until_ns < limit ? until_ns : limit;
    time_out->tv_sec = (time_t)(at / UINT64_C(1000000000));
    time_out->tv_nsec = (long)(at % UINT64_C(1000000000));
}

/* Another thread drives: sleep until it is done, or stops driving. */
static void sleep_for(tutti_handle *handle, uint64_t until_ns)
{
    tutti_context *context = handle->context;
    struct timespec deadline;
    deadline_of(until_ns, &deadline);
    atomic_fetch_add(&context->waiting, 1);
    (void)pthread_mutex_lock(&context->sleep_lock);
    if (!is_done(handle) && atomic_load(&context->baton) != 0) {
        (void)pthread_cond_timedwait(&context->changed, &context->sleep_lock, &deadline);
    }
    (void)pthread_mutex_unlock(&context->sleep_lock);
    atomic_fetch_sub(&context->waiting, 1);
}

bool tt_drive_wait(tutti_handle *handle, uint64_t until_ns)
{
    tutti_context *context = handle->context;
    atomic_fetch_add_explicit(&context->calls, 1, memory_order_relaxed);
    while (!is_done(handle)) {
        if (tt_drive_try_acquire(context)) {
            atomic_fetch_add(&context->drivers, 1);
            drive_for(handle, until_ns);
            atomic_fetch_sub(&context->drivers, 1);
            tt_drive_release(context);
        } else {
            sleep_for(handle, until_ns);
        }
        if (until_ns != UINT64_MAX && tt_clock_ns() >= until_ns) {
            break;
        }
    }
    return is_done(handle);
}

/* ---- the progress thread ---- */

/* Run the machine until nothing moves; true if a call is still outstanding. */
static bool progress_drive(tutti_context *context)
{
    tt_real_drive(context->real);
    do {
        tt_drive_drain(context);
        while (context->finished == NULL && tt_real_poll(context->real) &&
               atomic_load(&context->waiting) == 0 && !tt_queue_has_pushed(&context->submitted)) {
        }
        tt_drive_deliver(context);
    } while (tt_queue_has_pushed(&context->submitted));
    return tt_control_pending(context->control) > 0;
}

/* Sleep in epoll without the baton. */
static void progress_sleep(tutti_context *context)
{
    uint64_t until_ns =
        tt_control_pending(context->control) > 0 ? tt_real_watch(context->real) : UINT64_MAX;
    atomic_store(&context->progress_state, PROGRESS_ASLEEP);
    if (!tt_queue_has_pushed(&context->submitted) && !atomic_load(&context->stops) &&
        tt_real_sleep_begin(context->real, until_ns, &until_ns)) {
        sleep_apart(context, until_ns);
    }
    atomic_store(&context->progress_state, PROGRESS_RUNNING);
}

/* A waiter drives, or did a moment ago: look again in a while. */
static void progress_linger(tutti_context *context)
{
    struct timespec deadline;
    const uint64_t pause_ns = atomic_load(&context->drivers) > 0 ? STAND_BY_NS : LINGER_NS;
    deadline_of(tt_clock_ns() + pause_ns, &deadline);
    (void)pthread_mutex_lock(&context->sleep_lock);
    atomic_store(&context->progress_state, PROGRESS_LINGERING);
    if (!tt_queue_has_pushed(&context->submitted) && !atomic_load(&context->stops)) {
        (void)pthread_cond_timedwait(&context->progress_due, &context->sleep_lock, &deadline);
    }
    atomic_store(&context->progress_state, PROGRESS_RUNNING);
    (void)pthread_mutex_unlock(&context->sleep_lock);
}

/* Some waiter drives, or is about to. */
static bool is_driven(tutti_context *context)
{
    return atomic_load(&context->waiting) > 0 || atomic_load(&context->drivers) > 0;
}

static void progress_release(tutti_context *context)
{
    atomic_store(&context->baton, 0);
    if (atomic_load(&context->waiting) > 0) {
        broadcast(context);
    }
}

static void *progress_main(void *argument)
{
    tutti_context *context = argument;
    unsigned seen = 0, quiet = 0;
    while (!atomic_load(&context->stops)) {
        const unsigned calls = atomic_load_explicit(&context->calls, memory_order_relaxed);
        quiet = calls == seen ? quiet + 1 : 0;
        seen = calls;
        /* A waiter asleep in the driver does not see the queue: then it is looked after here. */
        if ((is_driven(context) && !tt_queue_has_pushed(&context->submitted)) ||
            !tt_drive_try_acquire(context)) {
            progress_linger(context);
            continue;
        }
        const bool is_outstanding = progress_drive(context);
        if (!is_driven(context) && (is_outstanding || quiet >= LINGER_LOOKS)) {
            progress_sleep(context);
            tt_drive_deliver(context);
            progress_release(context);
            continue;
        }
        stop_driving(context);
        progress_release(context);
        progress_linger(context);
    }
    return NULL;
}

tutti_status tt_drive_start(tutti_context *context)
{
    const int error = pthread_create(&context->progress, NULL, progress_main, context);
    if (error != 0) {
        return tt_error_set(TUTTI_ERR_NO_RESOURCE,
                            "cannot start a thread: %s; raise the limits of processes and memory "
                            "(ulimit -u, ulimit -v)",
                            strerror(error));
    }
    context->has_progress = true;
    return TUTTI_OK;
}

void tt_drive_stop(tutti_context *context)
{
    if (!context->has_progress) {
        return;
    }
    atomic_store(&context->stops, true);
    tt_real_wake(context->real);
    (void)pthread_mutex_lock(&context->sleep_lock);
    (void)pthread_cond_broadcast(&context->progress_due);
    (void)pthread_mutex_unlock(&context->sleep_lock);
    (void)pthread_join(context->progress, NULL);
    context->has_progress = false;
}
