/* SPDX-License-Identifier: Apache-2.0
 *
 * drive_test.c - when a start wakes the progress thread: counted on a context that has no thread,
 * whose part is played here.
 *
 * No time is asserted. A start that this machine left alone for longer than "at once" counts
 * against the caller; so the claims are about most of many starts, or about none of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/api_internal.h"

enum { STARTS = 1000, AHEAD_NS = 1000 * 1000 };

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
    assert_int_equal(pthread_cond_init(&self->context.progress_due, NULL), 0);
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
    atomic_store(&context->linger_ns, tt_clock_ns() + AHEAD_NS);
    atomic_store(&context->progress_state, PROGRESS_LINGERING);
    tt_drive_started(context);
    return atomic_load(&context->progress_state) == PROGRESS_RUNNING;
}

static void test_waits_for_calls_that_are_over_spare_the_progress_thread(void **state)
{
    (void)state;
    stage *self = begin();
    int wakes = 0;
    for (int i = 0; i < STARTS; i++) {
        wakes += start_wakes(self) ? 1 : 0;
        assert_int_equal(tutti_wait(&self->handle, -1.0), TUTTI_OK);
    }
    assert_in_range(wakes, 1, STARTS / 2); /* the first ones: nothing is known of the caller yet */
    end(self);
}

static void test_starts_without_a_wait_wake_it_each_time(void **state)
{
    (void)state;
    stage *self = begin();
    for (int i = 0; i < STARTS; i++) {
        assert_true(start_wakes(self));
    }
    end(self);
}

/* Its own call is the one before: it says nothing of what was started since. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_calls_that_are_over_spare_the_progress_thread),
        cmocka_unit_test(test_starts_without_a_wait_wake_it_each_time),
        cmocka_unit_test(test_a_wait_for_an_earlier_start_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
