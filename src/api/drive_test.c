/* SPDX-License-Identifier: Apache-2.0
 *
 * drive_test.c - how often starts wake the progress thread, counted on a context without one, whose
 * state the test sets; and how long it stands by.
 *
 * No time is asserted. A busy host may delay a wait for longer than "at once"; so the claims are
 * about most of many starts, or about none of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "api/api_internal.h"

enum { STARTS = 1000, AHEAD_NS = 1000 * 1000, PATIENT_LOOKS = 5000 };

typedef struct stage {
    tutti_context context;
    tutti_handle handle;
} stage;

static stage *begin(void)
{
    stage *self = aligned_alloc(_Alignof(stage), sizeof(*self));
    assert_non_null(self);
    *self = (stage){.handle = {.context = &self->context, .status = TUTTI_OK}};
    assert_int_equal(pthread_mutex_init(&self->context.sleep_lock, NULL), 0);
    pthread_condattr_t monotonic;
    assert_int_equal(pthread_condattr_init(&monotonic), 0);
    assert_int_equal(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC), 0);
    assert_int_equal(pthread_cond_init(&self->context.progress_due, &monotonic), 0);
    assert_int_equal(pthread_condattr_destroy(&monotonic), 0);
    atomic_store(&self->handle.state, HANDLE_DONE); /* the progress thread was quick */
    return self;
}

static void end(stage *self)
{
    assert_int_equal(pthread_cond_destroy(&self->context.progress_due), 0);
    assert_int_equal(pthread_mutex_destroy(&self->context.sleep_lock), 0);
    free(self);
}

/* The progress thread lingers, a call is started: was it woken for that? */
static bool start_wakes(stage *self)
{
    tutti_context *context = &self->context;
    self->handle.start = atomic_load(&context->starts); /* as its submission does */
    atomic_store(&context->left_ns, AHEAD_NS);
    atomic_store(&context->linger_ns, tt_clock_ns() + AHEAD_NS);
    atomic_store(&context->progress_state, PROGRESS_LINGERING);
    tt_drive_started(context);
    return atomic_load(&context->progress_state) == PROGRESS_RUNNING;
}

static void test_waits_for_completed_calls_do_not_wake_the_progress_thread(void **state)
{
    (void)state;
    stage *self = begin();
    int wakes = 0;
    for (int i = 0; i < STARTS; i++) {
        wakes += start_wakes(self) ? 1 : 0;
        assert_int_equal(tutti_wait(&self->handle, -1.0), TUTTI_OK);
    }
    assert_in_range(wakes, 1, STARTS / 2); /* the first ones: the caller's habit is not known yet */
    end(self);
}

static void test_starts_without_a_wait_wake_the_progress_thread_each_time(void **state)
{
    (void)state;
    stage *self = begin();
    for (int i = 0; i < STARTS; i++) {
        assert_true(start_wakes(self));
    }
    end(self);
}

/* The wait is for the call before: it says nothing about the call started since. */
static void test_a_wait_for_an_earlier_start_does_not_count(void **state)
{
    (void)state;
    stage *self = begin();
    for (int i = 0; i < STARTS; i++) {
        assert_true(start_wakes(self));
        self->handle.start--;
        assert_int_equal(tutti_wait(&self->handle, -1.0), TUTTI_OK);
    }
    end(self);
}

static void test_a_started_call_is_queued_no_longer_than_a_few_calls_take(void **state)
{
    (void)state;
    const uint64_t ms = 1000 * 1000;
    assert_int_equal(tt_drive_patience_ns(10 * ms, 100), 10 * ms); /* short calls: at least */
    assert_int_equal(tt_drive_patience_ns(10 * ms, 3), 10 * ms);
    assert_int_equal(tt_drive_patience_ns(10 * ms, 1), 20 * ms);
    assert_int_equal(tt_drive_patience_ns(10 * ms, 0), 40 * ms);
    assert_int_equal(tt_drive_patience_ns(50 * ms, 1), 50 * ms); /* long ones: at most */
    assert_int_equal(tt_drive_patience_ns(UINT64_MAX, 0), 50 * ms);
    assert_int_equal(tt_drive_patience_ns(0, UINT32_MAX), 10 * ms);
}

/* A waiter drives one long call after the other. The real progress thread runs. */
static void test_during_long_calls_the_progress_thread_stands_by_for_longer(void **state)
{
    (void)state;
    stage *self = begin();
    tutti_context *context = &self->context;
    tt_queue_init(&context->submitted);
    atomic_store(&context->drivers, 1);
    atomic_store(&context->prompt, 1000);
    assert_int_equal(tt_drive_start(context), TUTTI_OK);
    bool is_patient = false;
    for (int i = 0; i < PATIENT_LOOKS && !is_patient; i++) {
        const struct timespec pause = {.tv_nsec = AHEAD_NS};
        (void)nanosleep(&pause, NULL);
        is_patient = atomic_load(&context->linger_ns) > tt_clock_ns() + 15 * AHEAD_NS;
    }
    assert_true(is_patient);
    atomic_store(&context->stops, true);
    assert_int_equal(pthread_mutex_lock(&context->sleep_lock), 0);
    assert_int_equal(pthread_cond_broadcast(&context->progress_due), 0);
    assert_int_equal(pthread_mutex_unlock(&context->sleep_lock), 0);
    assert_int_equal(pthread_join(context->progress, NULL), 0);
    end(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_completed_calls_do_not_wake_the_progress_thread),
        cmocka_unit_test(test_starts_without_a_wait_wake_the_progress_thread_each_time),
        cmocka_unit_test(test_a_wait_for_an_earlier_start_does_not_count),
        cmocka_unit_test(test_a_started_call_is_queued_no_longer_than_a_few_calls_take),
        cmocka_unit_test(test_during_long_calls_the_progress_thread_stands_by_for_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
