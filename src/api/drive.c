/* SPDX-License-Identifier: Apache-2.0
 *
 * drive.c - the baton: which thread runs the machine, and how the others sleep.
 *
 * One thread at a time holds the baton and runs the machine. A thread that waits for a call takes
 * it if it is free, so that a blocking call costs no hand-off; otherwise it sleeps until its call
 * is done or the baton is free. When no thread waits, the progress thread drives calls in flight.
 *
 *  (1) No thread blocks while it holds the baton: it releases the baton before it sleeps.
 *  (2) A thread that releases the baton checks the queue afterwards: no call submitted meanwhile is
 *      lost.
 *  (3) A submitting thread checks the progress thread's state after the push; the progress thread
 *      checks the queue after setting its state. At least one of them sees the other.
 *  (4) After a blocking call no thread may be polling (lingering); the progress thread polls every
 *      LINGER_NS while there is activity, and sleeps in epoll when there is none. While a waiter
 *      drives, or sleeps in the driver, the progress thread only stands by.
 *  (5) Callbacks run without the baton.
 *  (6) A thread that stops driving while another sleeps in the driver wakes the sleeper: the word
 *      by which peers decide whether to ring no longer marks a sleeper. A thread that ends a
 *      sleeper's call wakes it, too.
 *  (7) A waiter whose call is over returns, whichever thread drives; if none does, it first hands
 *      over the calls still in flight.
 *  (8) A program that waited at once for each of its last calls will wait for the next one, too: a
 *      progress thread that polls again soon is not woken for it. It would only take the core and
 *      the baton from the waiter. So would polling while the waiter drives: "soon" is as long as
 *      some calls take (tt_drive_patience_ns).
 *  (9) Calls are submitted in bursts. After the first of one the progress thread naps for NAP_NS
 *      before it sleeps: its state stays RUNNING, so that the next submissions need not wake it. A
 *      wake-up costs more than all the rest of a submission. Peers ring as if it slept; a thread
 *      that waits for a call drives it at once.
 * (10) A progress thread that has work keeps the baton although others wait for calls: on busy
 *      cores a waiter may be woken milliseconds later, and no thread would drive until then.
 * (11) Where a rank has cores for both, a thread that waits while another drives polls for a moment
 *      before it sleeps: a wake-up takes longer than many calls.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/api_internal.h"
#include "api/store/store_calls.h"
#include "base/assert.h"
#include "base/base.h"

enum {
    LINGER_NS = 2 * 1000 * 1000,
    LINGER_LOOKS = 5,               /* polls without any call before the progress thread sleeps */
    STAND_BY_NS = 50 * 1000 * 1000, /* between polls while a waiter drives */
    NAP_NS = 20 * 1000,             /* after calls were submitted: more of them follow */
    SEND_AWAY_NS = 100 * 1000,
    PROMPT_NS = 20 * 1000, /* from a start to its wait: "at once" */
    PROMPT_MIN = 8,        /* such starts in a row before (8) holds; */
    PROMPT_MAX = 1 << 20,  /* twice as many after each wrong guess */
    LEFT_CALLS = 4,        /* such a call may stay queued as long as this many calls take, at */
    LEFT_NS_MIN = 10 * 1000 * 1000, /* least this long, at most STAND_BY_NS */
    WATCH_NS_MIN = 2 * 1000,        /* see (11); an unsuccessful watch makes the next one shorter */
    WATCH_NS_MAX = 100 * 1000,
    WATCH_LOOKS = 32, /* polls between two reads of the clock */
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
    if (request->status == TT_ERR_PEER_DOWN && tt_control_lost_engine(handle->context->control)) {
        tt_real_engine_leave(handle->context->real); /* before the owner has its memory back */
    }
    handle->next = NULL;
    *handle->context->finished_end = handle;
    handle->context->finished_end = &handle->next;
}

/* Wake all threads that wait for the baton or a handle. */
static void broadcast(tutti_context *context)
{
    (void)pthread_mutex_lock(&context->sleep_lock);
    (void)pthread_cond_broadcast(&context->changed);
    (void)pthread_mutex_unlock(&context->sleep_lock);
}

/* Either this thread sees the descriptor, or its creator sees the mark: see tutti_event_fd. */
static void tell_event(tutti_context *context)
{
    if (atomic_load(&context->event_fd) < 0 && !atomic_load(&context->has_untold)) {
        atomic_store(&context->has_untold, true);
    }
    const int fd = atomic_load(&context->event_fd);
    const uint64_t one = 1;
    if (fd >= 0) {
        (void)!write(fd, &one, sizeof(one)); /* a full counter is signalled already */
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
        tt_memory_release(context, handle->request.output); /* allocated for a result that failed */
    }
    if (done != NULL) {
        int started = HANDLE_STARTED; /* or abandoned, which stays */
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

/* No thread polls from here on, for a while: see (4) and (6). */
static void let_go(tutti_context *context)
{
    tt_real_linger(context->real);
    atomic_store(&context->baton, 0);
    if (atomic_load(&context->waiting) > 0) {
        broadcast(context);
    }
}

/* Takes the list with the baton, calls back without it. */
void tt_drive_deliver(tutti_context *context)
{
    tutti_handle *handle = context->finished;
    if (handle == NULL) {
        return;
    }
    context->finished = NULL;
    context->finished_end = &context->finished;
    bool has_callbacks = false, has_sleepers = false;
    for (tutti_handle *look = handle; look != NULL; look = look->next) {
        has_callbacks = has_callbacks || look->done != NULL;
    }
    if (has_callbacks) {
        let_go(context);
    }
    while (handle != NULL) {
        tutti_handle *next = handle->next;
        has_sleepers = has_sleepers || atomic_load(&handle->sleepers) > 0;
        complete(context, handle);
        handle = next;
    }
    if (atomic_load(&context->waiting) > 0) {
        broadcast(context);
    }
    if (has_callbacks) {
        tt_drive_acquire(context);
        tt_real_linger(context->real); /* an owner may have gone to sleep meanwhile */
    }
    if (has_sleepers && !has_callbacks) {
        tt_real_wake(context->real);
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

/* The calls that a thread waits for: until the first of them is over. */
typedef struct waited {
    tutti_context *context;
    tutti_handle *const *handles; /* NULL among them: none */
    int count;
} waited;

static bool is_done(const waited *it)
{
    for (int i = 0; i < it->count; i++) {
        if (it->handles[i] != NULL &&
            atomic_load_explicit(&it->handles[i]->state, memory_order_acquire) == HANDLE_DONE) {
            return true;
        }
    }
    return false;
}

/* The thread that ends one of them wakes this one. */
static void add_sleeper(const waited *it, int change)
{
    for (int i = 0; i < it->count; i++) {
        if (it->handles[i] != NULL) {
            atomic_fetch_add(&it->handles[i]->sleepers, change);
        }
    }
}

/* Take the baton. False: another thread has it, and a call of `it` (may be NULL) is over. */
static bool acquire_unless_done(tutti_context *context, const waited *it)
{
    bool has_baton = tt_drive_try_acquire(context);
    if (has_baton) {
        return true;
    }
    atomic_fetch_add(&context->waiting, 1);
    atomic_fetch_add(&context->asking, 1);
    (void)pthread_mutex_lock(&context->sleep_lock);
    while (!(has_baton = tt_drive_try_acquire(context)) && (it == NULL || !is_done(it))) {
        (void)pthread_cond_wait(&context->changed, &context->sleep_lock);
    }
    (void)pthread_mutex_unlock(&context->sleep_lock);
    atomic_fetch_sub(&context->asking, 1);
    atomic_fetch_sub(&context->waiting, 1);
    return has_baton;
}

bool tt_drive_is_called(void *context_in)
{
    tutti_context *context = context_in;
    return tt_queue_has_pushed(&context->submitted) || atomic_load(&context->asking) > 0;
}

void tt_drive_acquire(tutti_context *context)
{
    (void)acquire_unless_done(context, NULL);
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

/* ---- calls that are waited for at once: see (8). All of this is hints ---- */

static bool is_prompt(tutti_context *context)
{
    const unsigned needed = atomic_load_explicit(&context->prompt_needed, memory_order_relaxed);
    return atomic_load_explicit(&context->prompt, memory_order_relaxed) >= PROMPT_MIN + needed;
}

/* The last started call was not waited for at once; if it did not wake the progress thread, that
 * was wrong. */
static void prompt_ends(tutti_context *context)
{
    const unsigned needed = atomic_load_explicit(&context->prompt_needed, memory_order_relaxed);
    if (atomic_load_explicit(&context->is_left, memory_order_relaxed) && needed < PROMPT_MAX) {
        atomic_store_explicit(&context->prompt_needed, 2 * needed + PROMPT_MIN,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&context->prompt, 0, memory_order_relaxed);
}

uint64_t tt_drive_patience_ns(uint64_t passed_ns, unsigned starts)
{
    const uint64_t each_ns = passed_ns / ((uint64_t)starts + 1);
    return tt_max_u64(LEFT_NS_MIN,
                      each_ns < STAND_BY_NS / LEFT_CALLS ? LEFT_CALLS * each_ns : STAND_BY_NS);
}

/* When the progress thread last measured how long calls take. */
typedef struct last_look {
    uint64_t at_ns;
    unsigned starts;
} last_look;

/* The progress thread is about to linger. */
static void learn_patience(tutti_context *context, last_look *last)
{
    const uint64_t passed_ns = tt_clock_ns() - last->at_ns;
    const unsigned starts = atomic_load_explicit(&context->starts, memory_order_relaxed);
    if (passed_ns >= LEFT_NS_MIN) { /* a shorter time says little about long calls */
        atomic_store_explicit(&context->left_ns,
                              tt_drive_patience_ns(passed_ns, starts - last->starts),
                              memory_order_relaxed);
        *last = (last_look){.at_ns = last->at_ns + passed_ns, .starts = starts};
    }
}

/* Will the caller wait at once, judging by its last calls, and will the progress thread poll soon
 * if not? */
static bool can_be_left(tutti_context *context, uint64_t now_ns)
{
    const uint64_t linger_ns = atomic_load(&context->linger_ns);
    return is_prompt(context) && atomic_load(&context->progress_state) == PROGRESS_LINGERING &&
           atomic_load(&context->drivers) == 0 && linger_ns > now_ns &&
           linger_ns - now_ns <= atomic_load_explicit(&context->left_ns, memory_order_relaxed);
}

void tt_drive_started(tutti_context *context)
{
    uint64_t now_ns = tt_clock_ns();
    if (atomic_load_explicit(&context->started_ns, memory_order_relaxed) != 0) {
        prompt_ends(context); /* two starts without a wait */
    }
    const bool is_left = can_be_left(context, now_ns);
    if (!is_left) {
        tt_drive_notify(context);
        now_ns = tt_clock_ns(); /* the progress thread may have had this core meanwhile */
    }
    atomic_store_explicit(&context->is_left, is_left, memory_order_relaxed);
    const unsigned starts = atomic_load_explicit(&context->starts, memory_order_relaxed);
    atomic_store_explicit(&context->starts, starts + 1, memory_order_relaxed);
    atomic_store_explicit(&context->started_ns, now_ns, memory_order_relaxed);
}

/* A thread waits: did it wait at once? */
static void note_wait(tutti_context *context)
{
    const uint64_t started_ns = atomic_load_explicit(&context->started_ns, memory_order_relaxed);
    if (started_ns == 0) {
        return;
    }
    atomic_store_explicit(&context->started_ns, 0, memory_order_relaxed);
    if (tt_clock_ns() - started_ns > PROMPT_NS) {
        prompt_ends(context);
    } else {
        const unsigned prompt = atomic_load_explicit(&context->prompt, memory_order_relaxed);
        atomic_store_explicit(&context->prompt, prompt < 2 * PROMPT_MAX ? prompt + 1 : prompt,
                              memory_order_relaxed);
    }
}

void tt_drive_note_over(tutti_handle *handle)
{
    tutti_context *context = handle->context;
    const unsigned starts = atomic_load_explicit(&context->starts, memory_order_relaxed);
    if (handle->start + 1 == starts) {
        note_wait(context);
    }
}

static bool has_calls(const tutti_context *context)
{
    return tt_control_pending(context->control) > 0 ||
           (context->sync != NULL && tt_sync_pending(context->sync) > 0);
}

void tt_drive_release(tutti_context *context)
{
    const bool is_outstanding = has_calls(context);
    let_go(context);
    if (atomic_load(&context->waiting) == 0 &&
        (is_outstanding || tt_queue_has_pushed(&context->submitted))) {
        tt_drive_started(context);
    }
}

static void submit(tutti_context *context, tutti_handle *handle)
{
    if (handle->urgency != 0 || handle->name[0] != 0) {
        if (handle->store_call != NULL) { /* has a name, so that others need not look */
            tt_store_submit(handle);
            return;
        }
        if (!handle->request.is_join) {
            tt_steps_place(context, handle);
        }
        if (context->has_sums) { /* some members may not be the workers' */
            handle->request.group = NULL;
        }
        handle->is_with_workers = false;
        if (handle->is_by_owners && tt_sums_submit(handle)) {
            return;
        }
    }
    tt_control_submit(context->control, &handle->request);
}

void tt_drive_drain(tutti_context *context)
{
    tt_queue_node *node;
    while (!tt_queue_is_empty(&context->submitted) &&
           (node = tt_queue_pop(&context->submitted)) != NULL) {
        submit(context, TT_CONTAINER_OF(node, tutti_handle, node));
    }
}

/* ---- waiting ---- */

/* Ends a spin: a call of this context is over, or another was submitted. */
static bool has_news(void *argument)
{
    tutti_context *context = argument;
    return context->finished != NULL || tt_queue_has_pushed(&context->submitted);
}

/* Sleep in the driver without the baton, and take it again. False as in acquire_unless_done. */
static bool sleep_apart(tutti_context *context, const waited *it, uint64_t until_ns)
{
    atomic_store(&context->baton, 0);
    if (atomic_load(&context->waiting) > 0) {
        broadcast(context);
    }
    tt_real_sleep_block(context->real, tt_queue_has_pushed(&context->submitted) ? 0 : until_ns);
    const bool has_baton = acquire_unless_done(context, it);
    if (has_baton) {
        tt_real_sleep_end(context->real);
    }
    return has_baton;
}

/* Drive with the baton until one is done or the deadline has passed. False: the baton is lost. */
static bool drive_for(const waited *it, uint64_t until_ns)
{
    tutti_context *context = it->context;
    tt_real *real = context->real;
    tt_real_drive(real);
    while (!is_done(it)) {
        tt_control_set_waited(context->control, until_ns == UINT64_MAX);
        tt_drive_drain(context);
        if (context->finished == NULL) {
            (void)tt_real_poll(real);
        }
        tt_drive_deliver(context);
        if (is_done(it) || has_news(context)) {
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
            add_sleeper(it, 1);
            const bool has_baton = sleep_apart(context, it, wake_ns);
            add_sleeper(it, -1);
            if (!has_baton) {
                return false;
            }
        }
        tt_drive_deliver(context);
    }
    return true;
}

static void deadline_of(uint64_t until_ns, struct timespec *time_out)
{
    const uint64_t now = tt_clock_ns();
    const uint64_t limit = now + UINT64_C(3600000000000);
    const uint64_t at = until_ns < limit ? until_ns : limit;
    time_out->tv_sec = (time_t)(at / UINT64_C(1000000000));
    time_out->tv_nsec = (long)(at % UINT64_C(1000000000));
}

static bool is_over_or_free(const waited *it)
{
    return is_done(it) || atomic_load(&it->context->baton) == 0;
}

/* See (11). True: one is done, or no thread drives. */
static bool watch(const waited *it)
{
    const uint64_t watch_ns = atomic_load_explicit(&it->context->watch_ns, memory_order_relaxed);
    const uint64_t until_ns = tt_clock_ns() + tt_max_u64(WATCH_NS_MIN, watch_ns);
    bool is_over = is_over_or_free(it);
    while (!is_over && tt_clock_ns() < until_ns) {
        for (int i = 0; i < WATCH_LOOKS && !(is_over = is_over_or_free(it)); i++) {
            tt_relax();
        }
    }
    return is_over;
}

/* The wait took `passed_ns`, wake-up included: would a watch have been enough? */
static void learn_watch(tutti_context *context, uint64_t passed_ns)
{
    const uint64_t watch_ns = atomic_load_explicit(&context->watch_ns, memory_order_relaxed);
    const uint64_t next_ns =
        passed_ns < WATCH_NS_MAX ? tt_min_u64(WATCH_NS_MAX, 2 * watch_ns) : watch_ns * 3 / 4;
    atomic_store_explicit(&context->watch_ns, tt_max_u64(WATCH_NS_MIN, next_ns),
                          memory_order_relaxed);
}

static void sleep_until_told(const waited *it, uint64_t until_ns)
{
    tutti_context *context = it->context;
    struct timespec deadline;
    deadline_of(until_ns, &deadline);
    (void)pthread_mutex_lock(&context->sleep_lock);
    if (!is_over_or_free(it)) {
        (void)pthread_cond_timedwait(&context->changed, &context->sleep_lock, &deadline);
    }
    (void)pthread_mutex_unlock(&context->sleep_lock);
}

/* Another thread drives: wait until one is done, or it stops driving. */
static void sleep_for(const waited *it, uint64_t until_ns)
{
    tutti_context *context = it->context;
    const uint64_t begin_ns = context->can_watch ? tt_clock_ns() : 0;
    atomic_fetch_add(&context->waiting, 1);
    if (!context->can_watch || !watch(it)) {
        sleep_until_told(it, until_ns);
    }
    atomic_fetch_sub(&context->waiting, 1);
    if (context->can_watch) {
        learn_watch(context, tt_clock_ns() - begin_ns);
    }
}

/* Drive, with the baton, until the call is over or the deadline has passed; false as drive_for. */
static bool drive_and_release(const waited *it, uint64_t until_ns)
{
    tutti_context *context = it->context;
    atomic_fetch_add(&context->drivers, 1);
    const bool has_baton = drive_for(it, until_ns);
    atomic_fetch_sub(&context->drivers, 1);
    if (has_baton) {
        tt_drive_release(context);
    }
    return has_baton;
}

/* `is_owing`: this thread may have been woken to drive, and has not driven. */
static bool wait_on(const waited *it, uint64_t until_ns, bool is_owing)
{
    tutti_context *context = it->context;
    while (!is_done(it)) {
        if (tt_drive_try_acquire(context)) {
            is_owing = !drive_and_release(it, until_ns);
        } else {
            sleep_for(it, until_ns);
            is_owing = true;
        }
        if (until_ns != UINT64_MAX && tt_clock_ns() >= until_ns) {
            break;
        }
    }
    const bool is_over = is_done(it);
    if (is_owing && tt_drive_try_acquire(context)) {
        tt_drive_release(context); /* (7) */
    }
    return is_over;
}

/* A hint for the progress thread: a lost update does no harm. */
static void count_call(tutti_context *context)
{
    const unsigned calls = atomic_load_explicit(&context->calls, memory_order_relaxed);
    atomic_store_explicit(&context->calls, calls + 1, memory_order_relaxed);
}

/* The call is over, no other is, and only the caller needs to see it. */
static bool is_over_alone(const tutti_context *context, tutti_handle *handle)
{
    return context->finished == handle && handle->next == NULL && handle->done == NULL &&
           handle->result_out == NULL && handle->output == handle->request.output &&
           !handle->has_event &&
           atomic_load_explicit(&handle->state, memory_order_relaxed) == HANDLE_STARTED &&
           atomic_load_explicit(&handle->sleepers, memory_order_relaxed) == 0;
}

/* Fast path: most calls are over within one spin. */
static bool run_at_once(tutti_handle *handle, uint64_t until_ns)
{
    tutti_context *context = handle->context;
    if (!has_news(context)) {
        (void)tt_real_spin(context->real, has_news, context, until_ns);
    }
    if (!is_over_alone(context, handle)) {
        return false;
    }
    context->finished = NULL;
    context->finished_end = &context->finished;
    handle->status = (tutti_status)handle->request.status;
    atomic_store_explicit(&handle->state, HANDLE_DONE, memory_order_release);
    tt_drive_release(context);
    return true;
}

bool tt_drive_run(tutti_handle *handle, uint64_t until_ns)
{
    tutti_context *context = handle->context;
    if (!tt_drive_try_acquire(context)) {
        (void)tt_queue_push(&context->submitted, &handle->node);
        return tt_drive_wait(handle, until_ns);
    }
    tt_real_drive(context->real);
    count_call(context);
    if (atomic_load_explicit(&context->started_ns, memory_order_relaxed) != 0) {
        note_wait(context);
    }
    if (!tt_queue_is_empty(&context->submitted)) {
        tt_drive_drain(context); /* calls keep the order of submission */
    }
    submit(context, handle);
    if (run_at_once(handle, until_ns)) {
        return true;
    }
    const waited it = {.context = context, .handles = &handle, .count = 1};
    if (!drive_and_release(&it, until_ns)) {
        return wait_on(&it, until_ns, true);
    }
    return is_done(&it);
}

bool tt_drive_wait_any(tutti_context *context, tutti_handle *const *handles, int count,
                       uint64_t until_ns)
{
    const waited it = {.context = context, .handles = handles, .count = count};
    count_call(context);
    note_wait(context);
    return wait_on(&it, until_ns, false);
}

bool tt_drive_wait(tutti_handle *handle, uint64_t until_ns)
{
    return tt_drive_wait_any(handle->context, &handle, 1, until_ns);
}

/* ---- the progress thread ---- */

/* Run the machine until it makes no progress; true if a call is still in flight. */
static bool progress_drive(tutti_context *context)
{
    bool has_moved = false;
    tt_real_drive(context->real);
    do {
        tt_drive_drain(context);
        while (context->finished == NULL && (has_moved = tt_real_poll(context->real)) &&
               !tt_drive_is_called(context)) {
        }
        has_moved = context->finished != NULL || has_moved;
        if (context->finished != NULL && atomic_load(&context->waiting) == 0) {
            tt_control_set_waited(context->control, false); /* a call ended without a waiter */
        }
        tt_drive_deliver(context);
    } while (tt_queue_has_pushed(&context->submitted) ||
             (has_moved && atomic_load(&context->asking) == 0)); /* (10) */
    return has_calls(context);
}

/* Sleep in epoll without the baton; or nap, see (9). */
static void progress_sleep(tutti_context *context, bool naps)
{
    uint64_t until_ns = has_calls(context) ? tt_real_watch(context->real) : UINT64_MAX;
    if (naps) {
        until_ns = tt_min_u64(until_ns, tt_clock_ns() + NAP_NS);
    } else {
        atomic_store(&context->progress_state, PROGRESS_ASLEEP);
    }
    if (!tt_queue_has_pushed(&context->submitted) && !atomic_load(&context->stops) &&
        tt_real_sleep_begin(context->real, until_ns, &until_ns)) {
        (void)sleep_apart(context, NULL, until_ns);
    }
    atomic_store(&context->progress_state, PROGRESS_RUNNING);
}

/* A waiter drives, or did a moment ago: poll again later. */
static void progress_linger(tutti_context *context, bool naps, last_look *last)
{
    struct timespec deadline;
    const bool has_driver = atomic_load(&context->drivers) > 0 || atomic_load(&context->baton) != 0;
    learn_patience(context, last);
    const uint64_t stand_by_ns = is_prompt(context)
                                     ? atomic_load_explicit(&context->left_ns, memory_order_relaxed)
                                     : STAND_BY_NS;
    const uint64_t pause_ns = naps ? NAP_NS : has_driver ? stand_by_ns : LINGER_NS;
    const uint64_t until_ns = tt_clock_ns() + pause_ns;
    deadline_of(until_ns, &deadline);
    (void)pthread_mutex_lock(&context->sleep_lock);
    if (!naps) {
        atomic_store(&context->linger_ns, until_ns);
        atomic_store(&context->progress_state, PROGRESS_LINGERING);
    }
    if (!tt_queue_has_pushed(&context->submitted) && !atomic_load(&context->stops)) {
        (void)pthread_cond_timedwait(&context->progress_due, &context->sleep_lock, &deadline);
    }
    atomic_store(&context->progress_state, PROGRESS_RUNNING);
    (void)pthread_mutex_unlock(&context->sleep_lock);
}

/* A waiter drives, or is about to. */
static bool is_driven(tutti_context *context)
{
    return atomic_load(&context->waiting) > 0 || atomic_load(&context->drivers) > 0;
}

static void *progress_main(void *argument)
{
    tutti_context *context = argument;
    unsigned seen = 0, quiet = 0;
    last_look last = {.at_ns = tt_clock_ns()};
    atomic_store(&context->left_ns, LEFT_NS_MIN);
    while (!atomic_load(&context->stops)) {
        const unsigned calls = atomic_load_explicit(&context->calls, memory_order_relaxed);
        quiet = calls == seen ? quiet + 1 : 0;
        seen = calls;
        /* A waiter asleep in the driver does not see the queue: then this thread drains it. */
        if ((is_driven(context) && !tt_queue_has_pushed(&context->submitted)) ||
            !tt_drive_try_acquire(context)) {
            progress_linger(context, false, &last);
            continue;
        }
        const bool naps = tt_queue_has_pushed(&context->submitted);
        const bool is_outstanding = progress_drive(context);
        if (!is_driven(context) && (is_outstanding || quiet >= LINGER_LOOKS)) {
            progress_sleep(context, naps);
            tt_drive_deliver(context);
            let_go(context);
            continue;
        }
        let_go(context);
        progress_linger(context, naps, &last);
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
