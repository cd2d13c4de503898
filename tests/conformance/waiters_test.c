/* SPDX-License-Identifier: Apache-2.0
 *
 * waiters_test.c - many threads of one rank wait at once: every wait ends, none is delayed by
 * others; waits inside a call; a call that is cancelled while others wait.
 *
 * Labels: asan tsan
 * Timeout: 600
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { WAITERS = 6, ROUNDS = 10 };

static void nap_s(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&time, NULL);
}

static tutti_call sum_call(int32_t *value, tutti_set set)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.input = call.output = value;
    call.count = 1;
    call.dtype = TUTTI_I32;
    call.set = set;
    return call;
}

/* ---- shutdown ---- */

typedef struct waiter {
    tutti_handle *handle;
    atomic_int id; /* of its thread, when it is about to wait */
} waiter;

static void *wait_main(void *argument)
{
    waiter *self = argument;
    atomic_store(&self->id, (int)syscall(SYS_gettid));
    EXPECT_STATUS(TUTTI_ERR_SHUT_DOWN, tutti_wait(self->handle, -1.0));
    return NULL;
}

/* Shutdown frees the handles, so no thread may begin to wait after it. */
static void await_asleep(waiter *one)
{
    char state = 0;
    while (state != 'S') {
        char path[64];
        nap_s(0.002);
        (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&one->id));
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            EXPECT(fscanf(file, "%*d %*s %c", &state) == 1);
            (void)fclose(file);
        }
    }
}

static void shutdown_body(ranks_self *self)
{
    pthread_t threads[WAITERS];
    waiter waiters[WAITERS] = {{0}};
    int32_t values[WAITERS] = {0};
    nap_s(0.05); /* the progress thread sleeps before the first of the waiters */
    if (self->rank == 0) {
        for (int i = 0; i < WAITERS; i++) {
            const tutti_call call = sum_call(&values[i], TUTTI_WORLD);
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &waiters[i].handle));
            EXPECT(pthread_create(&threads[i], NULL, wait_main, &waiters[i]) == 0);
        }
        for (int i = 0; i < WAITERS; i++) {
            await_asleep(&waiters[i]);
        }
        EXPECT_STATUS(TUTTI_OK, tutti_shutdown(self->context));
        self->context = NULL;
        for (int i = 0; i < WAITERS; i++) {
            EXPECT(pthread_join(threads[i], NULL) == 0);
        }
    }
    ranks_meet(self);
}

static void test_shutdown_ends_all_waits(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        ranks_run_both(2, shutdown_body, NULL);
    }
}

/* ---- a busy thread ---- */

typedef struct busy {
    ranks_self *self;
    tutti_set set;
    atomic_bool is_over;
} busy;

/* Calls without pause on a set of its own until the other thread's call has returned. */
static void *busy_main(void *argument)
{
    busy *work = argument;
    for (int32_t goes_on = 1; goes_on > 0;) {
        goes_on = work->self->rank == 0 && atomic_load(&work->is_over) ? 0 : 1;
        int32_t value = goes_on;
        tutti_call call = sum_call(&value, work->set);
        call.op = TUTTI_MIN;
        EXPECT_STATUS(TUTTI_OK, tutti_run(work->self->context, &call));
        goes_on = value;
    }
    return NULL;
}

/* Rank 0 waits for a call that rank 1 makes late, while other threads are busy. */
static void busy_body(ranks_self *self)
{
    busy work = {.self = self};
    pthread_t thread;
    int32_t value = 1;
    const int ranks[] = {0, 1};
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, ranks, 2, &work.set));
    EXPECT(pthread_create(&thread, NULL, busy_main, &work) == 0);
    for (int i = 0; i < 20; i++) {
        if (self->rank == 1) {
            nap_s(0.005);
        }
        const double began_s = ranks_clock_s();
        value = 1;
        EXPECT_STATUS(TUTTI_OK,
                      tutti_allreduce(self->context, &value, &value, 1, TUTTI_I32, TUTTI_SUM));
        EXPECT_SAY(ranks_clock_s() - began_s < 30.0, "rank %d", self->rank);
    }
    atomic_store(&work.is_over, true);
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void test_a_busy_thread_does_not_block_a_waiter(void **state)
{
    (void)state;
    ranks_run_both(2, busy_body, NULL);
}

/* ---- more than fit ---- */

enum { QUEUED = 30000 };

/* Rank 1 leaves while rank 0 has many more calls in the queue than may be in flight. */
static void queue_body(ranks_self *self)
{
    if (self->rank == 0) {
        int32_t *values = calloc(QUEUED, sizeof(*values));
        tutti_handle **handles = calloc(QUEUED, sizeof(tutti_handle *));
        EXPECT(values != NULL && handles != NULL);
        for (int i = 0; i < QUEUED; i++) {
            const tutti_call call = sum_call(&values[i], TUTTI_WORLD);
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
        }
        ranks_meet(self);
        for (int i = 0; i < QUEUED; i++) {
            EXPECT_STATUS(TUTTI_ERR_PEER_LEFT, tutti_wait(handles[i], -1.0));
            tutti_handle_free(handles[i]);
        }
        free(handles);
        free(values);
    } else {
        ranks_meet(self);
    }
}

static void test_a_long_queue_ends_when_a_rank_leaves(void **state)
{
    (void)state;
    ranks_run_both(2, queue_body, NULL);
}

enum { MESSAGES = 5000, MESSAGE_COUNT = 4096 };

/* All receives are posted before the first send; each message is too long to be eager. */
static void messages_body(ranks_self *self)
{
    const bool is_sender = self->rank == 1;
    int32_t *values = calloc(MESSAGE_COUNT, sizeof(*values));
    tutti_handle **handles = calloc(MESSAGES, sizeof(tutti_handle *));
    EXPECT(values != NULL && handles != NULL);
    if (is_sender) {
        ranks_meet(self);
    }
    for (int i = 0; i < MESSAGES; i++) {
        tutti_call call = sum_call(values, TUTTI_WORLD);
        call.collective = is_sender ? TUTTI_SEND : TUTTI_RECEIVE;
        call.root = 1 - self->rank;
        call.count = MESSAGE_COUNT;
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
    if (!is_sender) {
        EXPECT_STATUS(TUTTI_IN_PROGRESS, tutti_wait(handles[MESSAGES - 1], 0.1));
        ranks_meet(self);
    }
    for (int i = 0; i < MESSAGES; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        tutti_handle_free(handles[i]);
    }
    free(handles);
    free(values);
}

static void test_any_number_of_receives_can_be_posted_first(void **state)
{
    (void)state;
    ranks_run_both(2, messages_body, NULL);
}

/* ---- handles that were never started ---- */

static void unstarted_body(ranks_self *self)
{
    tutti_handle *handle;
    int32_t value = 0;
    const tutti_call call = sum_call(&value, TUTTI_WORLD);
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
    tutti_handle_free(handle);
}

static void test_a_call_that_was_never_started_can_be_freed(void **state)
{
    (void)state;
    ranks_run(1, NULL, unstarted_body, NULL);
}

/* ---- one of several ---- */

/* Rank 1 starts the first call only when rank 0 has seen the end of the second. */
static void any_body(ranks_self *self)
{
    int32_t values[3] = {1, 1, 1};
    const int ranks[] = {0, 1};
    tutti_set sets[2];
    tutti_handle *handles[3] = {NULL, NULL, NULL};
    int index = -1;
    for (int i = 0; i < 2; i++) { /* calls of one set would be in order */
        EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, ranks, 2, &sets[i]));
    }
    for (int i = self->rank; i < 2; i++) {
        const tutti_call call = sum_call(&values[i], sets[i]);
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i + 1]));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_any(handles, 3, -1.0, &index)); /* NULL is passed over */
    EXPECT(index == 2 && values[1] == 2);
    tutti_handle_free(handles[2]);
    handles[2] = NULL;
    if (self->rank == 0) {
        index = -1;
        EXPECT_STATUS(TUTTI_IN_PROGRESS, tutti_wait_any(handles, 3, 0.0, &index));
        EXPECT(index == -1);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context));
    if (self->rank == 1) {
        const tutti_call call = sum_call(&values[0], sets[0]);
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[1]));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_any(handles, 3, -1.0, &index));
    EXPECT(index == 1 && values[0] == 2);
    tutti_handle_free(handles[1]);
    handles[1] = NULL;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_wait_any(handles, 3, -1.0, &index));
}

static void test_wait_any_returns_the_first_call_that_ends(void **state)
{
    (void)state;
    ranks_run_both(2, any_body, NULL);
}

/* ---- events ---- */

/* Otherwise a program that asks for the descriptor after it started calls would wait for ever. */
static void late_event_body(ranks_self *self)
{
    int32_t value = 1;
    const tutti_call call = sum_call(&value, TUTTI_WORLD);
    tutti_handle *handle;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
    struct pollfd watch = {.fd = tutti_event_fd(self->context), .events = POLLIN};
    EXPECT(poll(&watch, 1, 20000) == 1);
    EXPECT_STATUS(TUTTI_OK, tutti_event_clear(self->context));
    EXPECT(poll(&watch, 1, 0) == 0);
    tutti_handle_free(handle);
}

static void test_the_event_descriptor_shows_calls_that_ended_before_it_was_made(void **state)
{
    (void)state;
    ranks_run_both(2, late_event_body, NULL);
}

/* ---- rerun ---- */

/* The end of a rerun is no event; that of the same call, restarted, is. */
static void quiet_rerun_body(ranks_self *self)
{
    struct pollfd watch = {.fd = tutti_event_fd(self->context), .events = POLLIN};
    int32_t value = 1;
    const tutti_call call = sum_call(&value, TUTTI_WORLD);
    tutti_handle *handle;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
    for (int i = 0; i < 20; i++) {
        value = 1;
        EXPECT_STATUS(TUTTI_OK, tutti_rerun(handle));
        EXPECT(value == self->size && poll(&watch, 1, 0) == 0);
        value = 1;
        EXPECT_STATUS(TUTTI_OK, tutti_restart(handle));
        EXPECT(poll(&watch, 1, 20000) == 1);
        EXPECT(tutti_poll(handle) == TUTTI_OK && value == self->size);
        EXPECT_STATUS(TUTTI_OK, tutti_event_clear(self->context));
    }
    tutti_handle_free(handle);
}

static void test_the_end_of_a_rerun_is_no_event(void **state)
{
    (void)state;
    ranks_run_both(2, quiet_rerun_body, NULL);
}

/* End the step. True: it counted waiting time. */
static bool step_has_waited(ranks_self *self)
{
    tutti_counters counters = {.struct_bytes = sizeof(counters)};
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    EXPECT(counters.step_ns > 0 && counters.compute_ns <= counters.step_ns);
    return counters.compute_ns < counters.step_ns;
}

static void timed_wait_body(ranks_self *self)
{
    int32_t value = 1;
    const tutti_call call = sum_call(&value, TUTTI_WORLD);
    tutti_handle *handle, *late;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
    for (int i = 0; i < 3; i++) { /* the first ones wait for the learnt order */
        EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    }
    EXPECT(!step_has_waited(self));
    EXPECT_STATUS(TUTTI_OK, tutti_rerun(handle));
    EXPECT(step_has_waited(self));
    EXPECT_STATUS(TUTTI_OK, tutti_run_for(self->context, &call, 1e6, &late));
    EXPECT(step_has_waited(self));
    tutti_handle_free(handle);
}

static void test_every_call_that_waits_is_counted_as_waiting(void **state)
{
    (void)state;
    ranks_run_both(2, timed_wait_body, NULL);
}

/* ---- cancel ---- */

/* A small call is in flight at once: a peer that has its data may have ended, so it cannot be
 * cancelled. The other rank begins after the cancel in even rounds, and has ended before it in odd
 * ones. */
static void small_cancel_body(ranks_self *self)
{
    atomic_int *cancelled = self->user;
    for (int i = 0; i < 20; i++) {
        const bool is_early = i % 2 == 0;
        int32_t value = 1;
        const tutti_call call = sum_call(&value, TUTTI_WORLD);
        tutti_handle *handle;
        if (self->rank == 0) {
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
            if (!is_early) {
                ranks_meet(self);
            }
            atomic_store(cancelled, tutti_cancel(handle));
            EXPECT_SAY(is_early || atomic_load(cancelled) == TUTTI_IN_PROGRESS, "round %d", i);
            if (is_early) {
                ranks_meet(self);
            }
        } else {
            if (is_early) {
                ranks_meet(self);
            }
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
        }
        const tutti_status status = tutti_wait(handle, -1.0);
        if (!is_early && self->rank != 0) {
            ranks_meet(self);
        }
        ranks_meet(self);
        const bool is_cancelled = atomic_load(cancelled) == TUTTI_OK;
        EXPECT_SAY(status == (is_cancelled ? TUTTI_ERR_CANCELLED : TUTTI_OK), "round %d: %s", i,
                   tutti_status_text(status));
        EXPECT(is_cancelled || value == self->size);
        tutti_handle_free(handle);
        EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context));
    }
}

static void test_a_small_call_in_flight_cannot_be_cancelled(void **state)
{
    (void)state;
    atomic_int cancelled = TUTTI_IN_PROGRESS;
    ranks_run(2, "shm", small_cancel_body, &cancelled);
    ranks_run(2, "tcp", small_cancel_body, &cancelled);
}

/* ---- a long sum that others interrupt ---- */

enum { LONG_COUNT = 4 * 1024 * 1024 + 3, BETWEEN = 200 };

/* Work on the long sum pauses whenever a call waits, and resumes where it stopped. */
static void interrupted_body(ranks_self *self)
{
    int32_t *values = malloc(LONG_COUNT * sizeof(*values));
    tutti_call call = sum_call(values, TUTTI_WORLD);
    tutti_handle *handle = NULL;
    EXPECT(values != NULL);
    for (int i = 0; i < LONG_COUNT; i++) {
        values[i] = i + self->rank;
    }
    call.count = LONG_COUNT;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
    for (int i = 0; i < BETWEEN; i++) {
        int32_t value = i;
        call = sum_call(&value, TUTTI_WORLD);
        call.priority = 1;
        tutti_handle *small = NULL;
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &small));
        EXPECT_STATUS(TUTTI_OK, tutti_wait(small, -1.0));
        EXPECT(value == i * self->size);
        tutti_handle_free(small);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
    tutti_handle_free(handle);
    const int ranks_sum = self->size * (self->size - 1) / 2;
    int wrong = 0;
    for (int i = 0; i < LONG_COUNT; i++) {
        wrong += values[i] != i * self->size + ranks_sum;
    }
    EXPECT(wrong == 0);
    free(values);
}

static void test_a_sum_that_others_interrupt_is_complete(void **state)
{
    (void)state;
    static const char *const threads[] = {"1", "3"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(setenv("TUTTI_THREADS", threads[i], 1), 0);
        ranks_run(2, "shm", interrupted_body, NULL);
        assert_int_equal(unsetenv("TUTTI_THREADS"), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_busy_thread_does_not_block_a_waiter),
        cmocka_unit_test(test_shutdown_ends_all_waits),
        cmocka_unit_test(test_wait_any_returns_the_first_call_that_ends),
        cmocka_unit_test(test_a_long_queue_ends_when_a_rank_leaves),
        cmocka_unit_test(test_any_number_of_receives_can_be_posted_first),
        cmocka_unit_test(test_a_call_that_was_never_started_can_be_freed),
        cmocka_unit_test(test_the_event_descriptor_shows_calls_that_ended_before_it_was_made),
        cmocka_unit_test(test_the_end_of_a_rerun_is_no_event),
        cmocka_unit_test(test_every_call_that_waits_is_counted_as_waiting),
        cmocka_unit_test(test_a_small_call_in_flight_cannot_be_cancelled),
        cmocka_unit_test(test_a_sum_that_others_interrupt_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
