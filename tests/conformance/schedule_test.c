/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_test.c - scheduling in real jobs: what overtakes what, orders, credit, steps, tuning;
 * and the scheduler and proxies that outside engines use.
 *
 * Who is first is told by callbacks, not by clocks: of two calls that are started together the more
 * urgent must end before the large one does.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conformance/ranks.h"
#include "tutti/schedule.h"
#include "tutti/tutti.h"

enum { BULK = 16 * 1024 * 1024, SMALL = 16 * 1024, TENSORS = 12, COUNT = 20000 };

typedef struct finish {
    atomic_int next;
    int bulk, urgent; /* places in the order of ends */
} finish;

static void bulk_done(void *user, tutti_handle *handle, tutti_status status)
{
    finish *ends = user;
    (void)handle;
    EXPECT(status == TUTTI_OK);
    ends->bulk = atomic_fetch_add(&ends->next, 1);
}

static void urgent_done(void *user, tutti_handle *handle, tutti_status status)
{
    finish *ends = user;
    (void)handle;
    EXPECT(status == TUTTI_OK);
    ends->urgent = atomic_fetch_add(&ends->next, 1);
}

/* A large call and an urgent one behind it; true if the urgent one ended first. */
static bool overtakes(ranks_self *self, int priority, unsigned flags, const char *names[2])
{
    int *bulk = calloc(BULK, sizeof(int)), *urgent = calloc(SMALL, sizeof(int));
    finish ends = {0};
    tutti_call calls[2] = {TUTTI_CALL_INIT, TUTTI_CALL_INIT};
    tutti_handle *handles[2];
    EXPECT(bulk != NULL && urgent != NULL);
    bulk[BULK - 1] = urgent[SMALL - 1] = 1;
    calls[0].dtype = calls[1].dtype = TUTTI_I32;
    calls[0].input = calls[0].output = bulk;
    calls[0].count = BULK;
    calls[0].done = bulk_done;
    calls[1].input = calls[1].output = urgent;
    calls[1].count = SMALL;
    calls[1].done = urgent_done;
    calls[1].priority = priority;
    calls[1].flags = flags;
    calls[0].done_user = calls[1].done_user = &ends;
    calls[0].name = names[0];
    calls[1].name = names[1];
    if (names[0] != NULL) { /* apart: together they would be a group */
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &calls[0], &handles[0]));
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &calls[1], &handles[1]));
    } else {
        EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, calls, 2, handles));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_all(handles, 2, -1.0));
    EXPECT(bulk[BULK - 1] == self->size && urgent[SMALL - 1] == self->size);
    tutti_handle_free(handles[0]);
    tutti_handle_free(handles[1]);
    free(bulk);
    free(urgent);
    return ends.urgent < ends.bulk;
}

static void urgent_body(ranks_self *self)
{
    const char *none[2] = {NULL, NULL};
    EXPECT(overtakes(self, 5, 0, none));
    EXPECT(overtakes(self, 0, TUTTI_ACTIVATION, none));
    EXPECT(overtakes(self, -5, TUTTI_URGENT, none));
}

static void test_an_urgent_call_ends_before_a_large_one(void **state)
{
    (void)state;
    ranks_run(2, "tcp", urgent_body, NULL);
    ranks_run(3, "shm", urgent_body, NULL);
}

/* ---- ties ---- */

enum { TIES = 5, TIE_COUNT = 1 << 20 };

typedef struct ties {
    tutti_handle *handles[TIES];
    tutti_handle *order[TIES]; /* as they ended */
    int count;
    sem_t over;
} ties;

static void tie_done(void *user, tutti_handle *handle, tutti_status status)
{
    ties *it = user;
    EXPECT(status == TUTTI_OK);
    it->order[it->count++] = handle;
    (void)sem_post(&it->over);
}

/* Nobody waits in the library, so that one thread drives and calls back, in the order of ends. */
static void ties_body(ranks_self *self)
{
    ties it = {.count = 0};
    float *memory = calloc((size_t)TIES * TIE_COUNT, sizeof(float));
    EXPECT(memory != NULL && sem_init(&it.over, 0, 0) == 0);
    tutti_call call = TUTTI_CALL_INIT;
    call.count = TIE_COUNT;
    call.done = tie_done;
    call.done_user = &it;
    for (int i = 0; i < TIES; i++) {
        call.input = call.output = memory + (size_t)i * TIE_COUNT;
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &it.handles[i]));
    }
    for (int i = 0; i < TIES; i++) {
        while (sem_wait(&it.over) != 0) {
        }
    }
    for (int i = 0; i < TIES; i++) {
        EXPECT(it.order[i] == it.handles[i]);
        tutti_handle_free(it.handles[i]);
    }
    (void)sem_destroy(&it.over);
    free(memory);
}

static void test_calls_of_one_priority_end_in_the_order_of_submission(void **state)
{
    (void)state;
    ranks_run(2, "tcp", ties_body, NULL);
    ranks_run(3, "tcp", ties_body, NULL);
    ranks_run(3, "shm", ties_body, NULL);
}

static void wrong_body(ranks_self *self)
{
    int value = 1;
    tutti_call call = TUTTI_CALL_INIT;
    call.dtype = TUTTI_I32;
    call.input = call.output = &value;
    call.count = 1;
    call.priority = TUTTI_PRIORITY_MAX + 1;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    EXPECT(strstr(tutti_last_error(self->context), "TUTTI_PRIORITY_MAX") != NULL);
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_use(self->context, ""));
}

static void test_a_priority_out_of_range_is_refused(void **state)
{
    (void)state;
    ranks_run(2, "shm", wrong_body, NULL);
}

/* ---- orders ---- */

static void order_body(ranks_self *self)
{
    const char *names[2] = {"large", "small"};
    EXPECT(overtakes(self, 0, 0, names)); /* the caller says nothing */
}

static void test_an_order_gives_named_calls_their_priority(void **state)
{
    (void)state;
    char path[] = "/tmp/tutti-order-XXXXXX";
    const int fd = mkstemp(path);
    const char text[] = "tutti order 1\n0\tsmall\n1\tlarge\n";
    assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
    (void)close(fd);
    (void)setenv("TUTTI_ORDER", path, 1);
    ranks_run(2, "tcp", order_body, NULL);
    (void)unsetenv("TUTTI_ORDER");
    (void)unlink(path);
}

static void test_an_order_that_is_missing_is_an_error_that_names_it(void **state)
{
    (void)state;
    (void)setenv("TUTTI_ORDER", "/nowhere/order", 1);
    tutti_context *context = NULL;
    tutti_options options = TUTTI_OPTIONS_INIT;
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_init(&options, &context), TUTTI_ERR_BAD_CONFIG);
    assert_non_null(strstr(tutti_last_error(NULL), "/nowhere/order"));
    (void)unsetenv("TUTTI_ORDER");
}

/* ---- steps ---- */

typedef struct model {
    int *values[TENSORS];
    tutti_handle *handles[TENSORS];
    char names[TENSORS][16];
} model;

/* Forward waits tensor by tensor and checks; backward starts them in reverse. */
static void model_step(ranks_self *self, model *it, int step)
{
    for (int i = 0; i < TENSORS; i++) {
        if (it->handles[i] != NULL) {
            int index = -1;
            EXPECT_STATUS(TUTTI_OK, tutti_wait_any(&it->handles[i], 1, -1.0, &index));
            EXPECT(index == 0);
            for (int at = 0; at < COUNT; at += COUNT - 1) {
                EXPECT(it->values[i][at] == (step - 1 + i) * self->size);
            }
            tutti_handle_free(it->handles[i]);
        }
    }
    for (int i = TENSORS; i-- > 0;) {
        tutti_call call = TUTTI_CALL_INIT;
        for (int at = 0; at < COUNT; at++) {
            it->values[i][at] = step + i;
        }
        call.dtype = TUTTI_I32;
        call.input = call.output = it->values[i];
        call.count = COUNT;
        call.name = it->names[i];
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &it->handles[i]));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
}

static tutti_counters steps_run(ranks_self *self, int count)
{
    model it = {0};
    for (int i = 0; i < TENSORS; i++) {
        it.values[i] = calloc(COUNT, sizeof(int));
        EXPECT(it.values[i] != NULL);
        (void)snprintf(it.names[i], sizeof(it.names[i]), "t%d", i);
    }
    for (int step = 0; step < count; step++) {
        model_step(self, &it, step);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_all(it.handles, TENSORS, -1.0));
    for (int i = 0; i < TENSORS; i++) {
        tutti_handle_free(it.handles[i]);
        free(it.values[i]);
    }
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    return counters;
}

static void steps_body(ranks_self *self)
{
    const tutti_counters counters = steps_run(self, 8);
    EXPECT(counters.step_count == 8 && counters.step_ns > 0);
    EXPECT(counters.utilisation >= 0.0 && counters.utilisation <= 1.0);
    EXPECT(counters.network_ns <= counters.step_ns && counters.compute_ns <= counters.step_ns);
    EXPECT(counters.efficiency >= 0.0 && counters.efficiency <= 1.0);
    EXPECT(counters.chunk_bytes == 256 * 1024 && counters.held == 0);
}

static void test_steps_cross_the_barrier_and_are_counted(void **state)
{
    (void)state;
    ranks_run(3, "shm", steps_body, NULL);
    (void)setenv("TUTTI_SCHEDULE", "priority", 1);
    ranks_run(2, "tcp", steps_body, NULL);
    (void)setenv("TUTTI_SCHEDULE", "off", 1);
    ranks_run(2, "tcp", steps_body, NULL);
    (void)unsetenv("TUTTI_SCHEDULE");
}

static void credit_body(ranks_self *self)
{
    const tutti_counters counters = steps_run(self, 12);
    EXPECT(counters.credit_bytes == 100000);
    int64_t held = (int64_t)counters.held; /* a rank that is always last is never held */
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, &held, &held, 1, TUTTI_I64, TUTTI_SUM));
    EXPECT(held > 0);
}

static void test_credit_holds_calls_back_and_results_stay_right(void **state)
{
    (void)state;
    (void)setenv("TUTTI_CREDIT", "100000", 1);
    (void)setenv("TUTTI_SCHEDULE", "fifo", 1);
    ranks_run(3, "tcp", credit_body, NULL);
    (void)unsetenv("TUTTI_SCHEDULE");
    (void)unsetenv("TUTTI_CREDIT");
}

/* What is set now, on every rank alike. */
static void expect_one_setting(ranks_self *self)
{
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    const int64_t own[3] = {(int64_t)counters.chunk_bytes, (int64_t)counters.credit_bytes,
                            (int64_t)counters.fuse_bytes};
    int64_t least[3], most[3];
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, own, least, 3, TUTTI_I64, TUTTI_MIN));
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, own, most, 3, TUTTI_I64, TUTTI_MAX));
    EXPECT(memcmp(least, most, sizeof(least)) == 0);
}

static void tune_body(ranks_self *self)
{
    const tutti_counters counters = steps_run(self, 180);
    EXPECT(counters.chunk_bytes >= 16 * 1024 && counters.chunk_bytes <= 512 * 1024);
    EXPECT(counters.credit_bytes > 0);
    EXPECT(counters.fuse_bytes >= 1024 && counters.fuse_bytes <= 256 * 1024);
    expect_one_setting(self);
}

static void test_tuning_switches_all_ranks_at_the_same_step(void **state)
{
    (void)state;
    (void)setenv("TUTTI_TUNE", "1", 1);
    ranks_run(3, "tcp", tune_body, NULL);
    (void)unsetenv("TUTTI_TUNE");
}

/* A small sum, one that some settings call small, and one that goes alone. Each rank gives 1. */
static void some_step(ranks_self *self, int least)
{
    static const char *const names[3] = {"small", "middle", "alone"};
    enum { COUNTS = 3, MIDDLE = 10000 };
    int values[COUNTS][MIDDLE];
    tutti_handle *handles[COUNTS];
    for (int i = 0; i < COUNTS; i++) {
        tutti_call call = TUTTI_CALL_INIT;
        call.dtype = TUTTI_I32;
        call.input = call.output = values[i];
        call.count = i == 1 ? MIDDLE : 100;
        call.name = names[i];
        call.flags = i == 2 ? TUTTI_ALONE : 0;
        for (uint64_t at = 0; at < call.count; at++) {
            values[i][at] = 1;
        }
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_all(handles, COUNTS, -1.0));
    for (int i = 0; i < COUNTS; i++) {
        tutti_handle_free(handles[i]);
        EXPECT(values[i][0] >= least && values[i][0] <= self->size);
        EXPECT(values[i][99] == values[i][0]);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
}

static void joining_body(ranks_self *self)
{
    const int *counts = self->user;
    for (int turn = 0; turn < 2; turn++) {
        for (int step = 0; step < counts[self->rank]; step++) {
            some_step(self, 1);
        }
        int last = -1;
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, &last));
        for (int step = 0; step < 40; step++) {
            some_step(self, self->size);
        }
        expect_one_setting(self);
    }
}

static void test_a_rank_that_has_joined_holds_up_no_step(void **state)
{
    (void)state;
    int first[3] = {0, 25, 60}, last[3] = {70, 33, 0};
    ranks_run(3, "shm", joining_body, first);
    (void)setenv("TUTTI_TUNE", "1", 1);
    ranks_run(3, "shm", joining_body, first);
    ranks_run(3, "tcp", joining_body, last);
    (void)unsetenv("TUTTI_TUNE");
}

static void join_elsewhere_body(ranks_self *self)
{
    const int all[2] = {0, 1};
    tutti_set set;
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, all, 2, &set));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_join(self->context, set, NULL));
    EXPECT(strstr(tutti_last_error(self->context), "TUTTI_TUNE") != NULL);
}

static void test_while_tuning_only_the_world_can_be_joined(void **state)
{
    (void)state;
    (void)setenv("TUTTI_TUNE", "1", 1);
    ranks_run(2, "shm", join_elsewhere_body, NULL);
    (void)unsetenv("TUTTI_TUNE");
}

/* ---- bits ---- */

enum { SUMS = 6, SUM_MOST = 100000 };

/* Sums that round: named and not, started in another order where the priority is another. */
static void bits_body(ranks_self *self)
{
    static const uint64_t counts[SUMS] = {5, 900, 3000, 20000, 30000, SUM_MOST};
    const bool is_reversed = getenv("TEST_REVERSED") != NULL;
    float *values = malloc(2 * SUMS * SUM_MOST * sizeof(float));
    tutti_handle *handles[2 * SUMS];
    EXPECT(values != NULL);
    for (int at = 0; at < 2 * SUMS; at++) { /* those without a name in one order on all ranks */
        const int i = is_reversed && at >= SUMS ? 3 * SUMS - 1 - at : at;
        float *own = values + (size_t)i * SUM_MOST;
        char name[16];
        tutti_call call = TUTTI_CALL_INIT;
        (void)snprintf(name, sizeof(name), "t%d", i);
        call.input = call.output = own;
        call.count = counts[i % SUMS];
        call.name = i < SUMS ? NULL : name;
        call.priority = is_reversed ? -i : i;
        for (uint64_t k = 0; k < call.count; k++) {
            own[k] = 1.0F / (float)(1 + (k * 7 + (uint64_t)i * 13) % 1009 + (uint64_t)self->rank);
        }
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_all(handles, 2 * SUMS, -1.0));
    uint64_t hash = 0;
    for (int i = 0; i < 2 * SUMS; i++) {
        const uint8_t *bytes = (const uint8_t *)(values + (size_t)i * SUM_MOST);
        for (uint64_t k = 0; k < counts[i % SUMS] * sizeof(float); k++) {
            hash = (hash ^ bytes[k]) * UINT64_C(0x100000001b3);
        }
        tutti_handle_free(handles[i]);
    }
    if (self->rank == 0) {
        *(uint64_t *)self->user = hash;
    }
    free(values);
}

static void test_no_order_batch_chunk_or_credit_changes_a_bit(void **state)
{
    (void)state;
    static const char *const variants[][2] = {
        {"TUTTI_INTEGRITY", "crc"}, {"TUTTI_CHUNK", "16K"},      {"TUTTI_CHUNK", "512K"},
        {"TUTTI_CHUNK", "4K"},      {"TUTTI_CREDIT", "100000"},  {"TUTTI_SCHEDULE", "off"},
        {"TEST_REVERSED", "yes"},   {"TUTTI_FUSE_BATCH", "16K"}, {"TUTTI_CONTROL", "coordinator"},
    };
    (void)setenv("TUTTI_COSTS", "none", 1); /* which algorithm runs is not what is tried here */
    for (int size = 3; size <= 4; size++) {
        uint64_t first = 0;
        for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
            uint64_t hash = 0;
            (void)setenv(variants[i][0], variants[i][1], 1);
            ranks_run(size, "tcp", bits_body, &hash);
            (void)unsetenv(variants[i][0]);
            first = i == 0 ? hash : first;
            if (hash != first) {
                fail_msg("%d ranks, %s=%s: other bits", size, variants[i][0], variants[i][1]);
            }
        }
    }
    (void)unsetenv("TUTTI_COSTS");
}

/* ---- for outside engines ---- */

typedef struct outside {
    tutti_scheduler *scheduler;
    tutti_chunk fifo[64]; /* a stack that carries chunks in the order it gets them */
    int started, carried;
    tutti_proxy *proxy;
    int passes;
} outside;

static void outside_start(void *user, const tutti_chunk *chunk)
{
    outside *it = user;
    it->fifo[it->started++] = *chunk;
}

static void outside_finished(void *user, tutti_task task, tutti_status status)
{
    outside *it = user;
    if (task == 0) {
        assert_int_equal(tutti_proxy_pay(it->proxy, status), TUTTI_OK);
    }
}

static void outside_passed(void *user, tutti_status status)
{
    assert_int_equal(status, TUTTI_OK);
    ((outside *)user)->passes++;
}

static void carry(outside *it)
{
    while (it->carried < it->started) {
        const tutti_chunk chunk = it->fifo[it->carried++];
        assert_int_equal(tutti_task_finish(it->scheduler, chunk.task, chunk.index, TUTTI_OK),
                         TUTTI_OK);
    }
}

/* Two tasks of three chunks; the urgent one becomes ready second. How many chunks of the other went
 * before its last. */
static int others_before(uint64_t credit_bytes)
{
    outside it = {0};
    tutti_scheduler_config config = TUTTI_SCHEDULER_INIT;
    tutti_task_config task = TUTTI_TASK_INIT;
    tutti_task urgent, other;
    config.chunk_bytes = 10;
    config.credit_bytes = credit_bytes;
    config.start = outside_start;
    config.finished = outside_finished;
    config.user = &it;
    assert_int_equal(tutti_scheduler_create(&config, &it.scheduler), TUTTI_OK);
    assert_int_equal(tutti_proxy_create(&it.proxy), TUTTI_OK);
    task.bytes = 30;
    assert_int_equal(tutti_task_declare(it.scheduler, &task, &urgent), TUTTI_OK);
    task.priority = 1;
    assert_int_equal(tutti_task_declare(it.scheduler, &task, &other), TUTTI_OK);
    assert_int_equal(tutti_proxy_post(it.proxy, 1), TUTTI_OK);
    assert_int_equal(tutti_proxy_defer(it.proxy, outside_passed, &it), TUTTI_IN_PROGRESS);
    assert_int_equal(tutti_task_ready(it.scheduler, other), TUTTI_OK);
    assert_int_equal(tutti_task_ready(it.scheduler, urgent), TUTTI_OK);
    carry(&it);
    assert_int_equal(it.carried, 6);
    assert_int_equal(it.passes, 1);
    assert_int_equal(tutti_proxy_wait(it.proxy), TUTTI_OK); /* nothing is owed */
    int count = 0, seen = 0;
    for (int i = 0; i < 6 && seen < 3; i++) {
        seen += it.fifo[i].task == urgent ? 1 : 0;
        count += it.fifo[i].task == other ? 1 : 0;
    }
    tutti_proxy_destroy(it.proxy);
    tutti_scheduler_destroy(it.scheduler);
    return count;
}

static void test_over_a_fifo_stack_credit_decides_what_can_be_overtaken(void **state)
{
    (void)state;
    assert_int_equal(others_before(1), 1);          /* stop and wait: the one that had begun */
    assert_int_equal(others_before(15), 2);         /* two in flight */
    assert_int_equal(others_before(UINT64_MAX), 3); /* endless credit is FIFO */
}

static void test_wrong_tasks_and_configurations_are_refused_with_a_reason(void **state)
{
    (void)state;
    outside it = {0};
    tutti_scheduler_config config = TUTTI_SCHEDULER_INIT;
    tutti_task_config task = TUTTI_TASK_INIT;
    tutti_task id;
    assert_int_equal(tutti_scheduler_create(&config, &it.scheduler), TUTTI_ERR_BAD_ARGUMENT);
    config.start = outside_start;
    config.user = &it;
    config.chunk_bytes = 0;
    assert_int_equal(tutti_scheduler_create(&config, &it.scheduler), TUTTI_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(tutti_last_error(NULL), "0 bytes"));
    config.chunk_bytes = 10;
    assert_int_equal(tutti_scheduler_create(&config, &it.scheduler), TUTTI_OK);
    task.priority = 1 << 24;
    assert_int_equal(tutti_task_declare(it.scheduler, &task, &id), TUTTI_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(tutti_last_error(NULL), "priority"));
    tutti_scheduler_destroy(it.scheduler);
    assert_int_equal(tutti_proxy_create(&it.proxy), TUTTI_OK);
    assert_int_equal(tutti_proxy_pay(it.proxy, TUTTI_OK), TUTTI_ERR_BAD_ARGUMENT);
    tutti_proxy_destroy(it.proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_urgent_call_ends_before_a_large_one),
        cmocka_unit_test(test_calls_of_one_priority_end_in_the_order_of_submission),
        cmocka_unit_test(test_a_priority_out_of_range_is_refused),
        cmocka_unit_test(test_an_order_gives_named_calls_their_priority),
        cmocka_unit_test(test_an_order_that_is_missing_is_an_error_that_names_it),
        cmocka_unit_test(test_steps_cross_the_barrier_and_are_counted),
        cmocka_unit_test(test_credit_holds_calls_back_and_results_stay_right),
        cmocka_unit_test(test_tuning_switches_all_ranks_at_the_same_step),
        cmocka_unit_test(test_a_rank_that_has_joined_holds_up_no_step),
        cmocka_unit_test(test_while_tuning_only_the_world_can_be_joined),
        cmocka_unit_test(test_no_order_batch_chunk_or_credit_changes_a_bit),
        cmocka_unit_test(test_over_a_fifo_stack_credit_decides_what_can_be_overtaken),
        cmocka_unit_test(test_wrong_tasks_and_configurations_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
