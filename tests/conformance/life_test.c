/* SPDX-License-Identifier: Apache-2.0
 *
 * life_test.c - joining, leaving, several contexts, forks, and errors of each rank and thread.
 *
 * Labels: asan tsan
 * Timeout: 300
 * Wrap: clock_gettime
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api_internal.h"
#include "conformance/ranks.h"

static void check_usable(tutti_context *context)
{
    int32_t value = tutti_rank(context) + 1;
    const int size = tutti_size(context);
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(context, &value, &value, 1, TUTTI_I32, TUTTI_SUM));
    EXPECT_SAY(value == size * (size + 1) / 2, "%d", value);
}

static void nothing_body(ranks_self *self)
{
    check_usable(self->context);
}

static void test_a_process_can_join_again_and_again(void **state)
{
    (void)state;
    for (int i = 0; i < 25; i++) {
        ranks_run(2, "shm", nothing_body, NULL);
        ranks_run(2, "tcp", nothing_body, NULL);
    }
}

static void nobody_stays(ranks_self *self)
{
    (void)self;
}

/* A rank may leave before another has read all that it was sent for joining. */
static void test_ranks_may_leave_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        ranks_run(4, "shm", nobody_stays, NULL);
    }
}

/* ---- measuring the costs of calls ---- */

/* Simulates a slow host: each of the first SLOW_LOOKS_MAX reads of the clock takes a millisecond.
 */
enum { SLOW_LOOKS_MAX = 400, NS_PER_MS = 1000 * 1000 };

static atomic_long slow_looks = SLOW_LOOKS_MAX;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    static atomic_long late_ms;
    if (atomic_load(&slow_looks) < SLOW_LOOKS_MAX) {
        atomic_fetch_add(&slow_looks, 1);
        atomic_fetch_add(&late_ms, 1);
    }
    const int result = __real_clock_gettime(clock, now);
    const long ns = now->tv_nsec + atomic_load(&late_ms) % 1000 * NS_PER_MS;
    now->tv_sec += atomic_load(&late_ms) / 1000 + ns / (1000 * NS_PER_MS);
    now->tv_nsec = ns % (1000 * NS_PER_MS);
    return result;
}

/* Number of calls that joining has made. */
static void count_body(ranks_self *self)
{
    uint64_t *calls = self->user;
    if (self->rank == 0) {
        tt_drive_acquire(self->context);
        *calls = tt_control_count(self->context->control).ops_finished;
        tt_drive_release(self->context);
    }
    check_usable(self->context); /* no rank leaves before all have joined */
}

static uint64_t calls_of_joining(void)
{
    uint64_t calls = 0;
    ranks_run(2, "shm", count_body, &calls);
    return calls;
}

/* 100 ms are enough for so many calls of 40 us; after 80 of them nothing more is ordered. */
static void test_measuring_costs_takes_few_calls(void **state)
{
    (void)state;
    enum { CALLS_MAX = 2500, CALLS_SLOW_MAX = 150 };
    char folder[] = "/tmp/tutti-costs-XXXXXX", command[64];
    const char *usual = getenv("XDG_CACHE_HOME");
    char *before = usual != NULL ? strdup(usual) : NULL;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    atomic_store(&slow_looks, 0);
    const uint64_t slow = calls_of_joining();
    atomic_store(&slow_looks, SLOW_LOOKS_MAX);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    const uint64_t usually = calls_of_joining();
    const uint64_t again = calls_of_joining();
    print_message("%llu calls, %llu where it is slow\n", (unsigned long long)usually,
                  (unsigned long long)slow);
    assert_in_range(usually, 1, CALLS_MAX);
    assert_in_range(slow, 1, CALLS_SLOW_MAX);
    assert_int_equal(again, 0); /* it was kept */
    assert_int_equal(system(command), 0);
    assert_int_equal(
        before != NULL ? setenv("XDG_CACHE_HOME", before, 1) : unsetenv("XDG_CACHE_HOME"), 0);
    free(before);
}

/* ---- aborting ---- */

static void giving_up_body(ranks_self *self)
{
    int32_t value = 1;
    check_usable(self->context);
    ranks_meet(self);
    if (self->rank == 1) {
        EXPECT_STATUS(TUTTI_OK, tutti_abort(self->context, "it raised ValueError: boom"));
        ranks_meet(self);
        return;
    }
    EXPECT(tutti_allreduce(self->context, &value, &value, 1, TUTTI_I32, TUTTI_SUM) ==
           TUTTI_ERR_PEER_DOWN);
    EXPECT_SAY(strstr(tutti_last_error(self->context), "rank 1") != NULL &&
                   strstr(tutti_last_error(self->context), "ValueError: boom") != NULL,
               "%s", tutti_last_error(self->context));
    ranks_meet(self); /* a rank that leaves first would be reported, too */
}

static void test_the_cause_of_an_abort_reaches_all_ranks(void **state)
{
    (void)state;
    ranks_run(3, "shm", giving_up_body, NULL);
    ranks_run(3, "tcp", giving_up_body, NULL);
}

/* ---- several contexts ---- */

enum { CONTEXTS = 6 };

typedef struct joint {
    ranks_place places[CONTEXTS];
    int rank;
} joint;

static void *joint_main(void *argument)
{
    const joint *own = argument;
    tutti_context *contexts[CONTEXTS];
    for (int i = 0; i < CONTEXTS; i++) {
        const tutti_options options =
            ranks_options(&own->places[i], own->rank, 2, i % 2 == 0 ? "shm" : "tcp");
        EXPECT_STATUS(TUTTI_OK, tutti_init(&options, &contexts[i]));
    }
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < CONTEXTS; i++) {
            check_usable(contexts[(i * 5 + turn) % CONTEXTS]);
        }
    }
    /* Each context keeps the text of its own failure. */
    int32_t value = 0;
    EXPECT(tutti_send(contexts[0], &value, 1, TUTTI_I32, own->rank) == TUTTI_ERR_BAD_ARGUMENT);
    EXPECT(tutti_send(contexts[1], &value, 1, TUTTI_I32, 7) == TUTTI_ERR_BAD_ARGUMENT);
    EXPECT(strstr(tutti_last_error(contexts[0]), "itself") != NULL);
    EXPECT(strstr(tutti_last_error(contexts[1]), "peer 7") != NULL);
    EXPECT(strcmp(tutti_last_error(contexts[2]), "") == 0);
    /* Memory that is held outlives its context. */
    int32_t *kept = tutti_alloc(contexts[0], sizeof(*kept));
    void *hold = tutti_arena_hold(contexts[0]);
    EXPECT(kept != NULL && hold != NULL);
    *kept = 7;
    for (int i = 0; i < CONTEXTS; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_shutdown(contexts[(i + 2) % CONTEXTS]));
    }
    EXPECT(*kept == 7);
    tutti_arena_drop(hold);
    tutti_arena_drop(NULL);
    return NULL;
}

static void test_a_process_can_be_in_several_jobs(void **state)
{
    (void)state;
    joint ends[2];
    pthread_t second;
    for (int i = 0; i < CONTEXTS; i++) {
        ends[0].places[i] = ranks_place_new(i % 3 == 0);
    }
    ends[1] = ends[0];
    ends[0].rank = 0;
    ends[1].rank = 1;
    assert_int_equal(pthread_create(&second, NULL, joint_main, &ends[1]), 0);
    (void)joint_main(&ends[0]);
    assert_int_equal(pthread_join(second, NULL), 0);
    for (int i = 0; i < CONTEXTS; i++) {
        ranks_place_drop(&ends[0].places[i]);
    }
}

static void test_a_job_of_one_rank_needs_no_peer(void **state)
{
    (void)state;
    const tutti_options plain = TUTTI_OPTIONS_INIT;
    tutti_options options = plain;
    tutti_context *context = NULL;
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_init(&options, &context), TUTTI_OK);
    check_usable(context);
    char text[512];
    const size_t length = tutti_describe(context, text, sizeof(text));
    assert_true(length > 0 && length < sizeof(text) && strstr(text, "rank 0 of 1") != NULL);
    assert_int_equal(tutti_describe(context, NULL, 0), length);
    assert_int_equal(tutti_shutdown(context), TUTTI_OK);
}

/* ---- errors of joining ---- */

static void test_the_error_names_settings_that_exclude_each_other(void **state)
{
    (void)state;
    static const char *const groups[] = {"5", "auto"};
    const tutti_options plain = TUTTI_OPTIONS_INIT;
    tutti_context *context = NULL;
    assert_int_equal(setenv("TUTTI_CONTROL", "plan", 1), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(setenv("TUTTI_GROUPS", groups[i], 1), 0);
        assert_int_equal(tutti_init(&plain, &context), TUTTI_ERR_BAD_CONFIG);
        assert_non_null(strstr(tutti_last_error(NULL), "TUTTI_CONTROL=plan"));
        assert_non_null(strstr(tutti_last_error(NULL), groups[i]));
        assert_non_null(strstr(tutti_last_error(NULL), "leave out one"));
    }
    assert_int_equal(unsetenv("TUTTI_GROUPS"), 0);
    assert_int_equal(unsetenv("TUTTI_CONTROL"), 0);
}

static void test_errors_of_joining_name_the_cause(void **state)
{
    (void)state;
    const tutti_options plain = TUTTI_OPTIONS_INIT;
    tutti_context *context = (void *)&plain;
    tutti_options options = plain;
    assert_int_equal(tutti_init(&options, NULL), TUTTI_ERR_BAD_ARGUMENT);
    options.struct_bytes = 3;
    assert_int_equal(tutti_init(&options, &context), TUTTI_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(tutti_last_error(NULL), "TUTTI_OPTIONS_INIT"));
    options = plain;
    options.rank = 5;
    options.size = 2;
    assert_true(tutti_init(&options, &context) < 0);
    assert_true(strlen(tutti_last_error(NULL)) > 0);
    options.rank = 0;
    options.transport = "pigeon";
    assert_int_equal(tutti_init(&options, &context), TUTTI_ERR_BAD_CONFIG);
    assert_non_null(strstr(tutti_last_error(NULL), "pigeon"));
    options.transport = NULL;
    options.rendezvous = "nowhere";
    assert_true(tutti_init(&options, &context) < 0);
    assert_non_null(strstr(tutti_last_error(NULL), "nowhere"));
    const ranks_place place = ranks_place_new(true);
    options = ranks_options(&place, 0, 2, "tcp");
    options.timeout_s = 0.3;
    assert_int_equal(tutti_init(&options, &context), TUTTI_ERR_TIMED_OUT);
    assert_non_null(strstr(tutti_last_error(NULL), "1"));
    assert_ptr_equal(context, &plain);
}

/* ---- leaving ---- */

typedef struct pending_wait {
    ranks_self *self;
    tutti_handle *handle;
    atomic_int waits;
} pending_wait;

static void *blocked_main(void *argument)
{
    pending_wait *pending = argument;
    float values[4] = {0};
    atomic_fetch_add(&pending->waits, 1);
    EXPECT(tutti_allreduce(pending->self->context, values, values, 4, TUTTI_F32, TUTTI_SUM) ==
           TUTTI_ERR_SHUT_DOWN);
    return NULL;
}

static void *waiting_main(void *argument)
{
    pending_wait *pending = argument;
    atomic_fetch_add(&pending->waits, 1);
    EXPECT(tutti_wait(pending->handle, -1.0) == TUTTI_ERR_SHUT_DOWN);
    return NULL;
}

/* Rank 0 leaves while its threads wait for rank 1, which calls only then. */
static void leave_body(ranks_self *self)
{
    int32_t *values = calloc(100000, sizeof(*values));
    EXPECT(values != NULL);
    if (self->rank == 0) {
        pending_wait pending = {.self = self};
        tutti_call call = TUTTI_CALL_INIT;
        call.input = call.output = values;
        call.count = 100000;
        tutti_handle *loose;
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &pending.handle));
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &loose)); /* never freed */
        pthread_t threads[2];
        EXPECT(pthread_create(&threads[0], NULL, blocked_main, &pending) == 0);
        EXPECT(pthread_create(&threads[1], NULL, waiting_main, &pending) == 0);
        while (atomic_load(&pending.waits) < 2) {
            (void)sched_yield();
        }
        const struct timespec nap = {.tv_nsec = 20000000}; /* sleeping waits must end, too */
        (void)nanosleep(&nap, NULL);
        EXPECT_STATUS(TUTTI_OK, tutti_shutdown(self->context));
        self->context = NULL;
        EXPECT(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
        ranks_meet(self);
    } else {
        ranks_meet(self);
        for (int i = 0; i < 5; i++) { /* three were pending there */
            const uint64_t count = i == 2 ? 4 : 100000;
            const tutti_status status =
                tutti_allreduce(self->context, values, values, count, TUTTI_F32, TUTTI_SUM);
            if (i == 2 && status == TUTTI_OK) {
                continue; /* short: rank 0 had sent its part before it left */
            }
            EXPECT_SAY(status == TUTTI_ERR_PEER_LEFT, "call %d: %s: %s", i,
                       tutti_status_text(status), tutti_last_error(self->context));
            EXPECT_SAY(strstr(tutti_last_error(self->context), "rank 0") != NULL, "\"%s\"",
                       tutti_last_error(self->context));
        }
    }
    free(values);
}

static void test_leaving_ends_pending_calls(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        ranks_run(2, "shm", leave_body, NULL);
        ranks_run(2, "tcp", leave_body, NULL);
    }
}

/* ---- forks ---- */

static int child_main(tutti_context *context)
{
    int32_t value = 1;
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handle;
    int wrong = 0;
    wrong += tutti_barrier(context) != TUTTI_ERR_FORKED;
    wrong += strstr(tutti_last_error(context), "fork") == NULL;
    wrong += tutti_start(context, &call, &handle) != TUTTI_ERR_FORKED;
    wrong += tutti_allreduce(context, &value, &value, 1, TUTTI_I32, TUTTI_SUM) != TUTTI_ERR_FORKED;
    wrong += tutti_alloc(context, 64) != NULL;
    wrong += tutti_event_fd(context) != -1;
    wrong += tutti_shutdown(context) != TUTTI_ERR_FORKED;
    return wrong;
}

static void fork_body(ranks_self *self)
{
    check_usable(self->context);
    for (int i = 0; i < 5; i++) {
        if (self->rank == 0) {
            const pid_t child = fork();
            EXPECT(child >= 0);
            if (child == 0) {
                _exit(child_main(self->context));
            }
            int status = -1;
            EXPECT(waitpid(child, &status, 0) == child);
            EXPECT_SAY(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
        }
        check_usable(self->context);
    }
}

static void test_a_forked_child_is_refused_and_its_parent_goes_on(void **state)
{
    (void)state;
    ranks_run(2, "shm", fork_body, NULL);
    ranks_run(2, "tcp", fork_body, NULL);
}

/* ---- errors by thread ---- */

static void *other_thread(void *argument)
{
    const tutti_context *context = argument;
    EXPECT(strcmp(tutti_last_error(context), "") == 0);
    return NULL;
}

static void errors_body(ranks_self *self)
{
    int32_t value = 0;
    pthread_t other;
    EXPECT(strcmp(tutti_last_error(self->context), "") == 0);
    EXPECT(tutti_send(self->context, &value, 1, TUTTI_I32, self->rank) == TUTTI_ERR_BAD_ARGUMENT);
    EXPECT(tutti_init(NULL, NULL) == TUTTI_ERR_BAD_ARGUMENT);
    EXPECT(strstr(tutti_last_error(self->context), "itself") != NULL);
    EXPECT(strstr(tutti_last_error(NULL), "context_out") != NULL);
    check_usable(self->context); /* success does not change it */
    EXPECT(strstr(tutti_last_error(self->context), "itself") != NULL);
    EXPECT(pthread_create(&other, NULL, other_thread, self->context) == 0);
    EXPECT(pthread_join(other, NULL) == 0);
}

static void test_the_last_error_is_kept_per_thread_and_context(void **state)
{
    (void)state;
    ranks_run(2, "shm", errors_body, NULL);
}

static void test_before_joining_there_is_neither_rank_nor_size(void **state)
{
    (void)state;
    int (*const questions[])(const tutti_context *) = {tutti_rank,       tutti_size,
                                                       tutti_local_rank, tutti_local_size,
                                                       tutti_cross_rank, tutti_cross_size};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        assert_int_equal(questions[i](NULL), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process_can_join_again_and_again),
        cmocka_unit_test(test_ranks_may_leave_at_once),
        cmocka_unit_test(test_measuring_costs_takes_few_calls),
        cmocka_unit_test(test_the_cause_of_an_abort_reaches_all_ranks),
        cmocka_unit_test(test_a_process_can_be_in_several_jobs),
        cmocka_unit_test(test_a_job_of_one_rank_needs_no_peer),
        cmocka_unit_test(test_errors_of_joining_name_the_cause),
        cmocka_unit_test(test_the_error_names_settings_that_exclude_each_other),
        cmocka_unit_test(test_leaving_ends_pending_calls),
        cmocka_unit_test(test_a_forked_child_is_refused_and_its_parent_goes_on),
        cmocka_unit_test(test_the_last_error_is_kept_per_thread_and_context),
        cmocka_unit_test(test_before_joining_there_is_neither_rank_nor_size),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
