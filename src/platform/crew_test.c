/* SPDX-License-Identifier: Apache-2.0
 *
 * crew_test.c - every byte of a job is done once, by any thread; jobs follow each other at once or
 * after the helpers fell asleep; every task has run once when it is finished, whatever else is
 * open; helpers end with the crew, and receive no signal of the program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/crew.h"

enum { HANDS = 4, BYTES = 1024 * 1024 + 64, JOBS = 100 };

typedef struct sheet {
    uint8_t *marks;
    _Atomic uint32_t busy[HANDS]; /* parts of a hand that run now */
    _Atomic uint32_t doubled, strange;
    pthread_t caller;
    _Atomic uint32_t helped; /* parts by other threads than the caller */
} sheet;

static void mark(void *argument, uint32_t hand, uint64_t first, uint64_t bytes)
{
    sheet *self = argument;
    if (hand >= HANDS || first % TT_WORK_GRAIN != 0) {
        atomic_fetch_add(&self->strange, 1);
        return;
    }
    if (atomic_fetch_add(&self->busy[hand], 1) != 0) {
        atomic_fetch_add(&self->doubled, 1);
    }
    if (!pthread_equal(pthread_self(), self->caller)) {
        atomic_fetch_add(&self->helped, 1);
    }
    for (uint64_t i = first; i < first + bytes; i++) {
        self->marks[i]++; /* not atomic: a race detector sees a byte that two threads do */
    }
    atomic_fetch_sub(&self->busy[hand], 1);
}

static tt_crew *crew_make(uint32_t hand_count, bool spins)
{
    tt_crew_config config = {.hand_count = hand_count, .spins = spins};
    tt_crew *crew = NULL;
    assert_int_equal(sched_getaffinity(0, sizeof(config.cores), &config.cores), 0);
    assert_int_equal(tt_crew_create(&config, &crew), TT_OK);
    return crew;
}

static void run_jobs(bool spins)
{
    static uint8_t marks[BYTES];
    tt_crew *crew = crew_make(HANDS, spins);
    sheet self = {.marks = marks, .caller = pthread_self()};
    memset(marks, 0, sizeof(marks));
    for (uint32_t job = 0; job < JOBS; job++) {
        const tt_work_order order = {
            .part = mark, .argument = &self, .bytes = job % 3 == 0 ? BYTES : 200 * 1024 + job};
        memset(marks, 0, order.bytes);
        assert_int_equal(tt_crew_run(crew, &order), order.bytes);
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < order.bytes; i++) {
            wrong += marks[i] != 1;
        }
        assert_int_equal(wrong, 0);
    }
    assert_int_equal(self.doubled, 0);
    assert_int_equal(self.strange, 0);
    assert_int_equal(tt_crew_helpers(crew), HANDS - 1);
    tt_crew_destroy(crew);
}

static void test_every_byte_is_done_once(void **state)
{
    (void)state;
    run_jobs(true);
}

static void test_helpers_that_never_spin_do_the_same(void **state)
{
    (void)state;
    run_jobs(false);
}

/* The caller is called away after each of its parts: a front of the bytes is done, each once, and
 * no byte behind it was touched. */
static bool always(void *owner)
{
    (void)owner;
    return true;
}

static void check_front(const uint8_t *marks, uint64_t done)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < BYTES; i++) {
        wrong += marks[i] != (i < done);
    }
    assert_int_equal(wrong, 0);
}

/* How many of the jobs ended early. */
static uint32_t run_called_away(uint32_t hand_count)
{
    static uint8_t marks[BYTES];
    tt_crew_config config = {.hand_count = hand_count, .away = {.is_called = always}};
    tt_crew *crew = NULL;
    assert_int_equal(sched_getaffinity(0, sizeof(config.cores), &config.cores), 0);
    assert_int_equal(tt_crew_create(&config, &crew), TT_OK);
    sheet self = {.marks = marks, .caller = pthread_self()};
    const tt_work_order order = {.part = mark, .argument = &self, .bytes = BYTES};
    uint32_t early = 0;
    for (uint32_t job = 0; job < JOBS; job++) {
        memset(marks, 0, sizeof(marks));
        const uint64_t done = tt_crew_run(crew, &order);
        assert_true(done > 0 && (done == BYTES || done % TT_WORK_GRAIN == 0));
        early += done < BYTES;
        check_front(marks, done);
    }
    assert_int_equal(self.doubled, 0);
    tt_crew_destroy(crew);
    return early;
}

static void test_a_caller_called_away_leaves_a_front_that_is_done(void **state)
{
    (void)state;
    (void)run_called_away(HANDS); /* helpers may have done it all by then */
    assert_int_equal(run_called_away(1), JOBS);
}

static void test_a_caller_without_helpers_can_be_called_away(void **state)
{
    (void)state;
    static uint8_t marks[BYTES];
    const tt_call_away away = {.is_called = always}, never = {0};
    sheet self = {.marks = marks, .caller = pthread_self()};
    const tt_work_order order = {.part = mark, .argument = &self, .bytes = BYTES};
    memset(marks, 0, sizeof(marks));
    const uint64_t done = tt_crew_run_alone(&away, &order);
    assert_true(done > 0 && done < BYTES && done % TT_WORK_GRAIN == 0);
    check_front(marks, done);
    memset(marks, 0, sizeof(marks));
    assert_int_equal(tt_crew_run_alone(&never, &order), BYTES);
    check_front(marks, BYTES);
}

typedef struct gate {
    pthread_t caller;
    _Atomic uint32_t helped;
} gate;

/* The caller's part waits for a helper to have one. */
static void await_help(void *argument, uint32_t hand, uint64_t first, uint64_t bytes)
{
    gate *self = argument;
    (void)first;
    (void)bytes;
    if (hand > 0) {
        atomic_store(&self->helped, 1);
    }
    while (atomic_load(&self->helped) == 0) {
        (void)sched_yield();
    }
}

static void test_sleeping_helpers_wake(void **state)
{
    (void)state;
    tt_crew *crew = crew_make(2, false);
    for (int i = 0; i < 50; i++) {
        gate self = {.caller = pthread_self()};
        const tt_work_order order = {.part = await_help, .argument = &self, .bytes = BYTES};
        (void)tt_crew_run(crew, &order);
        assert_int_equal(self.helped, 1);
    }
    tt_crew_destroy(crew);
}

static uint32_t thread_count(void)
{
    DIR *folder = opendir("/proc/self/task");
    uint32_t count = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(folder);
    return count;
}

typedef struct chore {
    tt_task task;
    uint32_t runs; /* not atomic: a race detector sees a task that two threads do */
    pthread_t by;
} chore;

static void chore_run(tt_task *task)
{
    chore *self = (chore *)(void *)task; /* its first member */
    self->runs++;
    self->by = pthread_self();
}

static void post_chores(tt_crew *crew, chore *chores, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        chores[i] = (chore){.task = {.run = chore_run}};
        tt_crew_post(crew, &chores[i].task);
    }
}

/* More tasks than places, finished in any order, with jobs between post and finish. */
static void run_chores(bool spins)
{
    enum { ROUNDS = 200, CHORES = TT_CREW_TASKS_MAX + 10 };
    static chore chores[CHORES];
    static uint8_t marks[BYTES];
    tt_crew *crew = crew_make(HANDS, spins);
    sheet self = {.marks = marks, .caller = pthread_self()};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t count = round % 10 == 0 ? CHORES : 1 + round % 9;
        post_chores(crew, chores, count);
        if (round % 4 != 0) {
            tt_crew_call(crew);
        }
        if (round % 5 == 0) {
            const tt_work_order order = {.part = mark, .argument = &self, .bytes = 300 * 1024};
            memset(marks, 0, order.bytes);
            assert_int_equal(tt_crew_run(crew, &order), order.bytes);
        }
        for (uint32_t i = 0; i < count; i++) {
            chore *each = &chores[round % 2 == 0 ? i : count - 1 - i];
            tt_crew_finish(crew, &each->task);
            assert_int_equal(each->runs, 1);
        }
    }
    assert_int_equal(self.doubled, 0);
    tt_crew_destroy(crew);
}

static void test_every_task_is_done_once(void **state)
{
    (void)state;
    run_chores(true);
    run_chores(false);
}

static void test_a_task_that_has_not_begun_runs_in_its_finish(void **state)
{
    (void)state;
    const uint32_t before = thread_count();
    chore single;
    tt_crew *crew = crew_make(HANDS, true);
    post_chores(crew, &single, 1);
    tt_crew_call(crew); /* a single one is not worth a thread */
    assert_int_equal(thread_count(), before);
    assert_false(tt_crew_is_done(crew, &single.task));
    tt_crew_finish(crew, &single.task);
    assert_int_equal(single.runs, 1);
    assert_true(pthread_equal(single.by, pthread_self()));
    tt_crew_destroy(crew);
}

static void test_sleeping_helpers_wake_for_tasks(void **state)
{
    (void)state;
    tt_crew *crew = crew_make(2, false);
    int by_helper = 0;
    for (int i = 0; i < 50; i++) {
        chore both[2];
        post_chores(crew, both, 2);
        tt_crew_call(crew);
        /* A helper runs one of them. The other may be posted when all sleep again: a single task
         * wakes no helper. */
        while (!tt_crew_is_done(crew, &both[0].task) && !tt_crew_is_done(crew, &both[1].task)) {
            (void)sched_yield();
        }
        for (int k = 0; k < 2; k++) {
            tt_crew_finish(crew, &both[k].task);
            by_helper += pthread_equal(both[k].by, pthread_self()) ? 0 : 1;
        }
    }
    assert_true(by_helper >= 50);
    tt_crew_destroy(crew);
}

static void nothing(void *argument, uint32_t hand, uint64_t first, uint64_t bytes)
{
    (void)argument;
    (void)hand;
    (void)first;
    (void)bytes;
}

static void test_threads_begin_with_the_first_job_and_end_with_the_crew(void **state)
{
    (void)state;
    const uint32_t before = thread_count();
    tt_crew *crew = crew_make(HANDS, true);
    assert_int_equal(thread_count(), before);
    const tt_work_order order = {.part = nothing, .bytes = BYTES};
    (void)tt_crew_run(crew, &order);
    assert_int_equal(thread_count(), before + HANDS - 1);
    tt_crew_destroy(crew);
    tt_crew_destroy(NULL);
    crew = crew_make(HANDS, true);
    tt_crew_destroy(crew);
}

static void test_a_child_may_leave_with_the_crew_as_it_is(void **state)
{
    (void)state;
    tt_crew *crew = crew_make(HANDS, true);
    const tt_work_order order = {.part = nothing, .bytes = BYTES};
    (void)tt_crew_run(crew, &order);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)tt_crew_run(crew, &order);
    tt_crew_destroy(crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_is_done_once),
        cmocka_unit_test(test_helpers_that_never_spin_do_the_same),
        cmocka_unit_test(test_a_caller_called_away_leaves_a_front_that_is_done),
        cmocka_unit_test(test_a_caller_without_helpers_can_be_called_away),
        cmocka_unit_test(test_sleeping_helpers_wake),
        cmocka_unit_test(test_every_task_is_done_once),
        cmocka_unit_test(test_a_task_that_has_not_begun_runs_in_its_finish),
        cmocka_unit_test(test_sleeping_helpers_wake_for_tasks),
        cmocka_unit_test(test_threads_begin_with_the_first_job_and_end_with_the_crew),
        cmocka_unit_test(test_a_child_may_leave_with_the_crew_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
