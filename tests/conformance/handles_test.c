/* SPDX-License-Identifier: Apache-2.0
 *
 * handles_test.c - started calls: waiting, callbacks, cancelling, restarting, sets, pairs.
 *
 * Labels: asan tsan
 * Timeout: 300
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "conformance/ranks.h"
#include "support/burnt.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

static tutti_call sum_call(void *values, uint64_t count)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.input = call.output = values;
    call.count = count;
    call.dtype = TUTTI_I32;
    return call;
}

/* 1 + 2 + ... + size */
static int32_t sum_of_ranks(const ranks_self *self)
{
    return self->size * (self->size + 1) / 2;
}

static void check_usable(ranks_self *self)
{
    int32_t value = self->rank + 1;
    EXPECT_STATUS(TUTTI_OK,
                  tutti_allreduce(self->context, &value, &value, 1, TUTTI_I32, TUTTI_SUM));
    EXPECT_SAY(value == sum_of_ranks(self), "%d", value);
}

/* ---- many at once ---- */

enum { MANY = 1500, MANY_COUNT = 3 };

static void start_many(ranks_self *self, int32_t *values, tutti_handle **handles)
{
    for (int i = 0; i < MANY; i++) {
        for (int j = 0; j < MANY_COUNT; j++) {
            values[MANY_COUNT * i + j] = self->rank + 1 + i;
        }
        const tutti_call call = sum_call(values + (ptrdiff_t)MANY_COUNT * i, MANY_COUNT);
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
}

static void check_one_of_many(ranks_self *self, const int32_t *values, int i)
{
    for (int j = 0; j < MANY_COUNT; j++) {
        EXPECT_SAY(values[MANY_COUNT * i + j] == sum_of_ranks(self) + self->size * i,
                   "call %d gave %d", i, values[MANY_COUNT * i + j]);
    }
}

static void many_body(ranks_self *self)
{
    int32_t *values = calloc(MANY * MANY_COUNT, sizeof(*values));
    tutti_handle **handles = calloc(MANY, sizeof(*handles));
    EXPECT(values != NULL && handles != NULL);
    start_many(self, values, handles);
    for (int i = MANY - 1; i >= 0; i--) {
        const int out_of_order = self->rank % 2 == 0 ? i : MANY - 1 - i;
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[out_of_order], -1.0));
        check_one_of_many(self, values, out_of_order);
        tutti_handle_free(handles[out_of_order]);
    }
    free(handles);
    free(values);
}

static void test_many_calls_can_be_in_flight(void **state)
{
    (void)state;
    ranks_run_both(4, many_body, NULL);
}

enum { WAITERS = 4 };

typedef struct waiter {
    ranks_self *self;
    const int32_t *values;
    tutti_handle **handles;
    int first;
} waiter;

static void *waiter_main(void *argument)
{
    waiter *waits = argument;
    for (int i = waits->first; i < MANY; i += WAITERS) {
        const int index = waits->first % 2 == 0
                              ? i
                              : MANY - 1 - (i - waits->first) - (WAITERS - 1 - waits->first);
        EXPECT_STATUS(TUTTI_OK, tutti_wait(waits->handles[index], -1.0));
        check_one_of_many(waits->self, waits->values, index);
        tutti_handle_free(waits->handles[index]);
    }
    return NULL;
}

static void waiters_body(ranks_self *self)
{
    int32_t *values = calloc(MANY * MANY_COUNT, sizeof(*values));
    tutti_handle **handles = calloc(MANY, sizeof(*handles));
    pthread_t threads[WAITERS];
    waiter waits[WAITERS];
    EXPECT(values != NULL && handles != NULL);
    start_many(self, values, handles);
    for (int i = 0; i < WAITERS; i++) {
        waits[i] = (waiter){.self = self, .values = values, .handles = handles, .first = i};
        EXPECT(pthread_create(&threads[i], NULL, waiter_main, &waits[i]) == 0);
    }
    for (int i = 0; i < WAITERS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
    }
    free(handles);
    free(values);
}

static void test_threads_can_wait_for_different_calls(void **state)
{
    (void)state;
    ranks_run_both(2, waiters_body, NULL);
}

static void group_body(ranks_self *self)
{
    enum { CALLS = 40, COUNT = 5000 };
    int32_t *values = calloc((size_t)CALLS * COUNT, sizeof(*values));
    tutti_call calls[CALLS];
    tutti_handle *handles[CALLS];
    EXPECT(values != NULL);
    for (int i = 0; i < CALLS; i++) {
        calls[i] = sum_call(values + (ptrdiff_t)i * COUNT, COUNT);
        calls[i].priority = i % 3;
        for (int j = 0; j < COUNT; j++) {
            values[i * COUNT + j] = self->rank + 1 + i;
        }
    }
    EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, calls, CALLS, handles));
    for (int i = 0; i < CALLS; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        EXPECT(values[i * COUNT] == sum_of_ranks(self) + self->size * i);
        EXPECT(values[i * COUNT + COUNT - 1] == sum_of_ranks(self) + self->size * i);
        tutti_handle_free(handles[i]);
    }
    calls[CALLS - 1].device = 3; /* whole or not at all */
    EXPECT(tutti_start_group(self->context, calls, 0, handles) == TUTTI_ERR_BAD_ARGUMENT);
    free(values);
}

static void test_a_group_starts_together(void **state)
{
    (void)state;
    ranks_run_both(3, group_body, NULL);
}

static void persistent_body(ranks_self *self)
{
    const int rounds = IS_SANITIZED ? 2000 : 10000;
    int32_t value = 0;
    const tutti_call call = sum_call(&value, 1);
    tutti_handle *handle;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
    for (int i = 0; i < rounds; i++) {
        value = self->rank + i;
        EXPECT_STATUS(TUTTI_OK, tutti_restart(handle));
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
        EXPECT(value == sum_of_ranks(self) - self->size + self->size * i);
    }
    tutti_handle_free(handle);
}

static void test_a_declared_call_restarts_many_times(void **state)
{
    (void)state;
    ranks_run_both(2, persistent_body, NULL);
}

static void rerun_body(ranks_self *self)
{
    const int rounds = IS_SANITIZED ? 2000 : 10000;
    int32_t value = 0;
    const tutti_call call = sum_call(&value, 1);
    tutti_handle *handle, *once;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
    for (int i = 0; i < rounds; i++) {
        value = self->rank + i;
        EXPECT_STATUS(TUTTI_OK, tutti_rerun(handle));
        EXPECT(value == sum_of_ranks(self) - self->size + self->size * i);
    }
    tutti_handle_free(handle);
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &once));
    EXPECT_STATUS(TUTTI_OK, tutti_wait(once, -1.0));
    EXPECT(tutti_rerun(once) == TUTTI_ERR_BAD_ARGUMENT); /* was not declared */
    tutti_handle_free(once);
    EXPECT(tutti_rerun(NULL) == TUTTI_ERR_BAD_ARGUMENT);
}

static void elsewhere_body(ranks_self *self)
{
    int32_t declared = 0, values[2] = {0};
    const tutti_call call = sum_call(&declared, 1);
    tutti_handle *handle;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
    for (int i = 0; i < 10; i++) {
        int32_t *value = &values[i % 2];
        *value = self->rank + i;
        EXPECT_STATUS(TUTTI_OK, tutti_restart_at(handle, value, value));
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
        EXPECT(*value == sum_of_ranks(self) - self->size + self->size * i);
    }
    EXPECT(declared == 0);
    EXPECT_STATUS(TUTTI_OK, tutti_restart_at(handle, NULL, values)); /* fails on every rank */
    EXPECT(tutti_wait(handle, -1.0) == TUTTI_ERR_BAD_ARGUMENT);
    tutti_handle_free(handle);
    EXPECT(tutti_restart_at(NULL, values, values) == TUTTI_ERR_BAD_ARGUMENT);
}

static void test_a_declared_call_restarts_on_other_buffers(void **state)
{
    (void)state;
    ranks_run_both(2, elsewhere_body, NULL);
}

static void test_a_declared_call_reruns_many_times(void **state)
{
    (void)state;
    ranks_run_both(2, rerun_body, NULL);
}

static void patient_body(ranks_self *self)
{
    int32_t value = self->rank + 1;
    const tutti_call call = sum_call(&value, 1);
    tutti_handle *handle;
    EXPECT_STATUS(TUTTI_OK, tutti_run_for(self->context, &call, 60.0, &handle));
    EXPECT(handle == NULL && value == sum_of_ranks(self));
    if (self->rank == 0) { /* the others have not called yet: it continues without this thread */
        value = 1;
        EXPECT_STATUS(TUTTI_IN_PROGRESS, tutti_run_for(self->context, &call, 0.001, &handle));
        EXPECT(handle != NULL);
        ranks_meet(self);
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
        tutti_handle_free(handle);
    } else {
        ranks_meet(self);
        value = 1;
        EXPECT_STATUS(TUTTI_OK, tutti_run_for(self->context, &call, 60.0, &handle));
    }
    EXPECT(value == self->size);
    EXPECT(tutti_run_for(self->context, &call, 1.0, NULL) == TUTTI_ERR_BAD_ARGUMENT);
}

static void test_running_for_a_time_leaves_a_handle(void **state)
{
    (void)state;
    ranks_run_both(3, patient_body, NULL);
}

/* The caller frees the output that the library allocates at each start. */
static void persistent_result_body(ranks_self *self)
{
    int32_t own[2] = {self->rank, 7};
    uint64_t counts[8];
    void *result = NULL;
    tutti_call call = sum_call(own, (uint64_t)(1 + self->rank % 2));
    tutti_handle *handle;
    call.collective = TUTTI_ALLGATHER;
    call.output = NULL;
    call.output_counts = counts;
    call.result_out = &result;
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
    for (int i = 0; i < 20; i++) {
        result = NULL;
        EXPECT_STATUS(TUTTI_OK, tutti_restart(handle));
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
        EXPECT(result != NULL && ((int32_t *)result)[0] == 0 && ((int32_t *)result)[1] == 1);
        memset(result, 0xff, 3 * sizeof(int32_t));
        tutti_free(self->context, result);
    }
    tutti_handle_free(handle);
}

static void test_a_declared_call_allocates_each_time(void **state)
{
    (void)state;
    ranks_run_both(2, persistent_result_body, NULL);
}

/* ---- waiting ---- */

static void late_body(ranks_self *self)
{
    int32_t value = self->rank + 1;
    const tutti_call call = sum_call(&value, 1);
    tutti_handle *handle;
    if (self->rank != 0) {
        ranks_meet(self);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
    if (self->rank == 0) {
        EXPECT(tutti_poll(handle) == TUTTI_IN_PROGRESS);
        EXPECT(tutti_wait(handle, 0.0) == TUTTI_IN_PROGRESS);
        EXPECT(tutti_wait(handle, 0.03) == TUTTI_IN_PROGRESS);
        EXPECT(strcmp(tutti_handle_error(handle), "") == 0);
        ranks_meet(self);
    }
    while (tutti_poll(handle) == TUTTI_IN_PROGRESS) { /* the progress thread drives it */
        const struct timespec nap = {.tv_nsec = 1000000};
        (void)nanosleep(&nap, NULL);
    }
    EXPECT(tutti_poll(handle) == TUTTI_OK && value == sum_of_ranks(self));
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, 0.0));
    tutti_handle_free(handle);
}

static void test_waiting_can_time_out_and_the_call_goes_on(void **state)
{
    (void)state;
    ranks_run_both(3, late_body, NULL);
}

static void nap_s(double seconds)
{
    const struct timespec nap = {.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&nap, NULL);
}

static void *barrier_main(void *argument)
{
    tutti_handle **handles = argument;
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[1], -1.0));
    return NULL;
}

static void nap_of(void *seconds)
{
    nap_s(*(const double *)seconds);
}

/* Processor time of the process while this thread sleeps. */
static double least_burnt_s(double seconds, double enough_s)
{
    const uint64_t enough_ns = (uint64_t)(enough_s * 1e9);
    return 1e-9 * (double)burnt_least_ns(CLOCK_PROCESS_CPUTIME_ID, nap_of, &seconds, enough_ns);
}

/* Rank 0 waits in two threads for a late peer; then no rank calls. Both must use little processor
 * time. */
static void idle_body(ranks_self *self)
{
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handles[2];
    pthread_t second;
    call.collective = TUTTI_BARRIER;
    if (self->rank == 0) {
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[0]));
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[1]));
        EXPECT(pthread_create(&second, NULL, barrier_main, handles) == 0);
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[0], -1.0));
        EXPECT(pthread_join(second, NULL) == 0);
        tutti_handle_free(handles[0]);
        tutti_handle_free(handles[1]);
    } else {
        const double burnt_s = least_burnt_s(0.6, 0.06);
        EXPECT_SAY(burnt_s < 0.06, "%g s of 0.6 s while waiting", burnt_s);
        EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context));
        EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context));
    }
    ranks_meet(self);
    if (self->rank == 0) {
        nap_s(0.1);
        const double burnt_s = least_burnt_s(0.5, 0.01);
        EXPECT_SAY(burnt_s < 0.01, "%g s of 0.5 s while idle", burnt_s);
    }
    ranks_meet(self);
}

static void test_waiting_and_idling_use_little_processor_time(void **state)
{
    (void)state;
    ranks_run_both(2, idle_body, NULL);
}

static void event_body(ranks_self *self)
{
    struct pollfd watch = {.fd = tutti_event_fd(self->context), .events = POLLIN};
    int32_t value = self->rank + 1;
    const tutti_call call = sum_call(&value, 1);
    tutti_handle *handle;
    EXPECT(watch.fd >= 0 && tutti_event_fd(self->context) == watch.fd);
    for (int i = 0; i < 50; i++) {
        value = self->rank + 1;
        EXPECT(poll(&watch, 1, 0) == 0);
        if (i % 2 == self->rank % 2) {
            ranks_meet(self);
        }
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
        if (i % 2 != self->rank % 2) {
            ranks_meet(self);
        }
        EXPECT(poll(&watch, 1, 20000) == 1);
        EXPECT(tutti_poll(handle) == TUTTI_OK && value == sum_of_ranks(self));
        EXPECT_STATUS(TUTTI_OK, tutti_event_clear(self->context));
        tutti_handle_free(handle);
    }
}

static void test_the_event_descriptor_is_readable_when_calls_end(void **state)
{
    (void)state;
    ranks_run_both(2, event_body, NULL);
}

/* ---- callbacks ---- */

enum { CHAIN = 100 };

typedef struct chain {
    ranks_self *self;
    int32_t values[CHAIN];
    atomic_int done;
    atomic_int is_over;
} chain;

static void chain_start(chain *links, int index);

static void chain_done(void *user, tutti_handle *handle, tutti_status status)
{
    chain *links = user;
    const int index = atomic_fetch_add(&links->done, 1);
    EXPECT(status == TUTTI_OK && tutti_poll(handle) == TUTTI_OK);
    EXPECT(links->values[index] == sum_of_ranks(links->self));
    EXPECT(tutti_barrier(links->self->context) == TUTTI_ERR_WRONG_THREAD);
    if (index + 1 < CHAIN) {
        chain_start(links, index + 1);
    }
    tutti_handle_free(handle);
    if (index + 1 == CHAIN) {
        atomic_store(&links->is_over, 1);
    }
}

static void chain_start(chain *links, int index)
{
    tutti_call call = sum_call(&links->values[index], 1);
    tutti_handle *handle;
    links->values[index] = links->self->rank + 1;
    call.done = chain_done;
    call.done_user = links;
    EXPECT_STATUS(TUTTI_OK, tutti_start(links->self->context, &call, &handle));
    if (index > 0) {
        EXPECT(tutti_wait(handle, 1.0) == TUTTI_ERR_WRONG_THREAD || tutti_poll(handle) == TUTTI_OK);
    }
}

static void chain_body(ranks_self *self)
{
    chain links = {.self = self};
    chain_start(&links, 0);
    while (atomic_load(&links.is_over) == 0) {
        nap_s(0.001);
    }
    check_usable(self);
}

static void test_callbacks_start_calls_and_free_handles(void **state)
{
    (void)state;
    ranks_run_both(2, chain_body, NULL);
}

typedef struct failure_note {
    atomic_int is_over;
    tutti_status status;
    char text[512];
} failure_note;

static void note_failure(void *user, tutti_handle *handle, tutti_status status)
{
    failure_note *note = user;
    note->status = status;
    (void)strncpy(note->text, tutti_handle_error(handle), sizeof(note->text) - 1);
    atomic_store(&note->is_over, 1);
}

static void failing_callback_body(ranks_self *self)
{
    int32_t values[2] = {0};
    failure_note note = {.status = TUTTI_OK};
    tutti_call call = sum_call(values, self->rank == 0 ? 1 : 2);
    tutti_handle *handle;
    call.done = note_failure;
    call.done_user = &note;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
    EXPECT(tutti_wait(handle, -1.0) == TUTTI_ERR_MISMATCH);
    EXPECT(atomic_load(&note.is_over) == 1 && note.status == TUTTI_ERR_MISMATCH);
    EXPECT_SAY(strstr(note.text, "disagree") != NULL, "\"%s\"", note.text);
    EXPECT(strcmp(note.text, tutti_handle_error(handle)) == 0);
    tutti_handle_free(handle);
    check_usable(self);
}

static void test_a_callback_can_read_the_error(void **state)
{
    (void)state;
    ranks_run_both(2, failing_callback_body, NULL);
}

/* ---- cancel ---- */

typedef struct verdict {
    atomic_int status, early_count; /* count: cancelled before another rank had begun */
} verdict;

static void cancel_body(ranks_self *self)
{
    enum { COUNT = 100000 };
    verdict *shared = self->user;
    int32_t *values = calloc(COUNT, sizeof(*values));
    tutti_call call = sum_call(values, COUNT);
    tutti_handle *handle;
    EXPECT(values != NULL);
    for (int i = 0; i < 10; i++) {
        const bool is_early = i % 2 == 0;
        if (self->rank != 0) {
            ranks_meet(self);
        }
        for (int j = 0; j < COUNT; j++) {
            values[j] = self->rank + 1;
        }
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
        if (self->rank == 0) {
            if (!is_early) {
                ranks_meet(self);
            }
            atomic_store(&shared->status, tutti_cancel(handle));
            if (is_early) { /* a thread that was not scheduled may still be too late */
                atomic_fetch_add(&shared->early_count, atomic_load(&shared->status) == TUTTI_OK);
                ranks_meet(self);
            }
        }
        const tutti_status status = tutti_wait(handle, -1.0);
        ranks_meet(self);
        const bool is_cancelled = atomic_load(&shared->status) == TUTTI_OK;
        EXPECT_SAY(status == (is_cancelled ? TUTTI_ERR_CANCELLED : TUTTI_OK), "round %d: %s", i,
                   tutti_status_text(status));
        EXPECT(is_cancelled == (strstr(tutti_handle_error(handle), "rank 0") != NULL));
        EXPECT(is_cancelled || values[COUNT - 1] == sum_of_ranks(self));
        tutti_handle_free(handle);
        check_usable(self);
        ranks_meet(self);
    }
    free(values);
}

static void test_a_cancelled_call_ends_everywhere(void **state)
{
    (void)state;
    verdict shared = {0};
    ranks_run(3, "shm", cancel_body, &shared);
    ranks_run(3, "tcp", cancel_body, &shared);
    assert_true(atomic_load(&shared.early_count) > 0);
}

static void finished_cancel_body(ranks_self *self)
{
    int32_t value = 1;
    const tutti_call call = sum_call(&value, 1);
    tutti_handle *handle;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
    EXPECT(tutti_cancel(handle) != TUTTI_ERR_CANCELLED && value == self->size);
    tutti_handle_free(handle);
}

static void test_a_finished_call_cannot_be_cancelled(void **state)
{
    (void)state;
    ranks_run_both(2, finished_cancel_body, NULL);
}

/* ---- process sets ---- */

static void sets_body(ranks_self *self)
{
    const int even[] = {0, 2}, odd[] = {3, 1}, all[] = {3, 2, 1, 0};
    tutti_set evens, odds, reversed;
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, even, 2, &evens));
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, odd, 2, &odds));
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, all, 4, &reversed));
    const bool is_even = self->rank % 2 == 0;
    const tutti_set own = is_even ? evens : odds, other = is_even ? odds : evens;
    EXPECT(tutti_set_size(self->context, own) == 2 && tutti_set_rank(self->context, other) == -1);
    EXPECT(tutti_set_rank(self->context, evens) == (is_even ? self->rank / 2 : -1));
    EXPECT(tutti_set_rank(self->context, odds) == (is_even ? -1 : self->rank == 3 ? 0 : 1));
    EXPECT(tutti_set_rank(self->context, reversed) == 3 - self->rank);
    if (!is_even) {
        ranks_meet(self); /* the even ranks continue without the odd ones */
    }
    for (int i = 0; i < 100; i++) {
        int32_t value = self->rank + i;
        tutti_call call = sum_call(&value, 1);
        call.set = own;
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        EXPECT(value == (is_even ? 2 : 4) + 2 * i);
    }
    if (is_even) {
        ranks_meet(self);
    }
    int32_t parts[4] = {0}, part = self->rank;
    tutti_call gather = sum_call(NULL, 1);
    gather.collective = TUTTI_ALLGATHER;
    gather.input = &part;
    gather.output = parts;
    gather.set = reversed;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &gather));
    EXPECT(parts[0] == 3 && parts[1] == 2 && parts[2] == 1 && parts[3] == 0);
    gather.set = other;
    EXPECT(tutti_run(self->context, &gather) == TUTTI_ERR_BAD_ARGUMENT);
    EXPECT(strstr(tutti_last_error(self->context), "not a member") != NULL);
    EXPECT_STATUS(TUTTI_OK, tutti_set_remove(self->context, evens));
    EXPECT(tutti_set_size(self->context, evens) == -1);
    EXPECT(tutti_set_remove(self->context, evens) == TUTTI_ERR_BAD_ARGUMENT);
    EXPECT(tutti_set_remove(self->context, TUTTI_WORLD) == TUTTI_ERR_BAD_ARGUMENT);
    check_usable(self);
}

static void test_process_sets_work_independently(void **state)
{
    (void)state;
    ranks_run_both(4, sets_body, NULL);
}

static void wrong_set_body(ranks_self *self)
{
    const int right[] = {0, 1}, wrong[] = {0, 2}, twice[] = {1, 1}, beyond[] = {0, 3};
    const int *const lists[] = {wrong, twice, beyond};
    tutti_set set = 77;
    for (int i = 0; i < 3; i++) {
        const bool is_culprit = self->rank == i % 3;
        const tutti_status status =
            tutti_set_create(self->context, is_culprit ? lists[i] : right, 2, &set);
        EXPECT_SAY(status == (i == 0 ? TUTTI_ERR_MISMATCH : TUTTI_ERR_BAD_ARGUMENT), "list %d: %s",
                   i, tutti_status_text(status));
        EXPECT(set == 77);
        check_usable(self);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, right, 2, &set));
    EXPECT(tutti_set_size(self->context, set) == 2);
}

static void test_ranks_that_disagree_about_a_set_all_fail(void **state)
{
    (void)state;
    ranks_run_both(3, wrong_set_body, NULL);
}

/* ---- pairs ---- */

static void pair_body(ranks_self *self)
{
    static const uint64_t counts[] = {0, 1, 1000, 50000};
    int32_t *out = calloc(50000, sizeof(*out)), *in = calloc(50000, sizeof(*in));
    EXPECT(out != NULL && in != NULL);
    const int next = (self->rank + 1) % self->size,
              last = (self->rank + self->size - 1) % self->size;
    for (int round = 0; round < 8; round++) {
        const uint64_t count = counts[round % 4];
        for (uint64_t i = 0; i < count; i++) {
            out[i] = self->rank * 100000 + (int32_t)i + round;
            in[i] = -1;
        }
        tutti_call calls[2] = {sum_call(NULL, count), sum_call(NULL, count)};
        tutti_handle *handles[2];
        const int sends = round < 4 ? 0 : 1; /* index of the send; 0 is started first */
        calls[sends].collective = TUTTI_SEND;
        calls[sends].input = out;
        calls[sends].root = next;
        calls[1 - sends].collective = TUTTI_RECEIVE;
        calls[1 - sends].output = in;
        calls[1 - sends].root = last;
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &calls[0], &handles[0]));
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &calls[1], &handles[1]));
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[1], -1.0));
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[0], -1.0));
        for (uint64_t i = 0; i < count; i++) {
            EXPECT_SAY(in[i] == last * 100000 + (int32_t)i + round, "%d at %llu", in[i],
                       (unsigned long long)i);
        }
        tutti_handle_free(handles[0]);
        tutti_handle_free(handles[1]);
    }
    /* Blocking, in the two orders that must both work. */
    if (self->rank == 0) {
        EXPECT_STATUS(TUTTI_OK, tutti_send(self->context, out, 10, TUTTI_I32, 1));
        EXPECT_STATUS(TUTTI_OK, tutti_receive(self->context, in, 20, TUTTI_I32, 1));
    } else if (self->rank == 1) {
        EXPECT_STATUS(TUTTI_OK, tutti_receive(self->context, in, 10, TUTTI_I32, 0));
        EXPECT_STATUS(TUTTI_OK, tutti_send(self->context, out, 20, TUTTI_I32, 0));
    }
    check_usable(self);
    free(in);
    free(out);
}

static void test_pairs_exchange_in_either_order(void **state)
{
    (void)state;
    ranks_run_both(2, pair_body, NULL);
    ranks_run_both(3, pair_body, NULL);
}

/* ---- structs of a later header ---- */

typedef struct later_call {
    tutti_call call;
    uint64_t news; /* a field that this library does not know */
} later_call;

static void later_body(ranks_self *self)
{
    int32_t values[2] = {1, 2};
    later_call calls[2];
    tutti_handle *handles[2];
    memset(calls, 0, sizeof(calls));
    for (int i = 0; i < 2; i++) {
        calls[i].call = sum_call(&values[i], 1);
        calls[i].call.struct_bytes = sizeof(later_call);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, &calls[0].call, 2, handles));
    for (int i = 0; i < 2; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        EXPECT(values[i] == (i + 1) * self->size);
        tutti_handle_free(handles[i]);
    }
    calls[0].news = 1;
    EXPECT(tutti_run(self->context, &calls[0].call) == TUTTI_ERR_BAD_ARGUMENT);
    calls[0].call.struct_bytes = 8;
    EXPECT(tutti_run(self->context, &calls[0].call) == TUTTI_ERR_BAD_ARGUMENT);
}

static void test_structs_may_grow(void **state)
{
    (void)state;
    ranks_run(2, "shm", later_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_calls_can_be_in_flight),
        cmocka_unit_test(test_threads_can_wait_for_different_calls),
        cmocka_unit_test(test_a_group_starts_together),
        cmocka_unit_test(test_a_declared_call_restarts_many_times),
        cmocka_unit_test(test_a_declared_call_restarts_on_other_buffers),
        cmocka_unit_test(test_a_declared_call_reruns_many_times),
        cmocka_unit_test(test_running_for_a_time_leaves_a_handle),
        cmocka_unit_test(test_a_declared_call_allocates_each_time),
        cmocka_unit_test(test_waiting_can_time_out_and_the_call_goes_on),
        cmocka_unit_test(test_waiting_and_idling_use_little_processor_time),
        cmocka_unit_test(test_the_event_descriptor_is_readable_when_calls_end),
        cmocka_unit_test(test_callbacks_start_calls_and_free_handles),
        cmocka_unit_test(test_a_callback_can_read_the_error),
        cmocka_unit_test(test_a_cancelled_call_ends_everywhere),
        cmocka_unit_test(test_a_finished_call_cannot_be_cancelled),
        cmocka_unit_test(test_process_sets_work_independently),
        cmocka_unit_test(test_ranks_that_disagree_about_a_set_all_fail),
        cmocka_unit_test(test_pairs_exchange_in_either_order),
        cmocka_unit_test(test_structs_may_grow),
    };
    return cmocka_run_group_tests_name("handles", tests, NULL, NULL);
}
