/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_test.c - scheduling in real jobs: overtaking, orders, bits; and the scheduler and
 * proxies that outside engines use.
 *
 * Callbacks, not clocks, show which call is first: of two calls that are started together the more
 * urgent must end before the large one does.
 */
#include <pthread.h>
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

enum { BULK = 16 * 1024 * 1024, SMALL = 16 * 1024 };

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
static bool overtakes(ranks_self *self, int priority, unsigned flags)
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
    EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, calls, 2, handles));
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
    EXPECT(overtakes(self, 5, 0));
    EXPECT(overtakes(self, 0, TUTTI_ACTIVATION));
    EXPECT(overtakes(self, -5, TUTTI_URGENT));
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

/* No thread waits in the library, so that one thread drives and calls back, in the order of ends.
 * Later calls are more urgent, where the user sets a step of the priority. */
static void ties_body(ranks_self *self)
{
    const int *priority_step = self->user;
    ties it = {.count = 0};
    float *memory = calloc((size_t)TIES * TIE_COUNT, sizeof(float));
    EXPECT(memory != NULL && sem_init(&it.over, 0, 0) == 0);
    tutti_call call = TUTTI_CALL_INIT;
    call.count = TIE_COUNT;
    call.done = tie_done;
    call.done_user = &it;
    for (int i = 0; i < TIES; i++) {
        call.input = call.output = memory + (size_t)i * TIE_COUNT;
        call.priority = priority_step != NULL ? i * *priority_step : 0;
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

/* Steps that send nothing cannot gain from an order. */
static void idle_ties_body(ranks_self *self)
{
    for (int step = 0; step < 4; step++) {
        EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    }
    ties_body(self);
}

static void test_off_is_off_and_auto_reports_off_where_nothing_is_gained(void **state)
{
    (void)state;
    int priority_step = 1;
    ranks_run(2, "tcp", idle_ties_body, &priority_step);
    (void)setenv("TUTTI_SCHEDULE", "off", 1);
    ranks_run(2, "tcp", ties_body, &priority_step);
    (void)unsetenv("TUTTI_SCHEDULE");
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

enum { EQUAL = 2 * 1024 * 1024, ATTEMPTS = 30 };

/* Two tensors of one size and no priority, started one after the other. True: the second ended
 * before the first, which only an order can cause, for ties keep the order of submission. */
static bool second_is_first(ranks_self *self, const char *first, const char *second)
{
    int *values = calloc(2 * EQUAL, sizeof(int));
    finish ends = {0};
    tutti_call calls[2] = {TUTTI_CALL_INIT, TUTTI_CALL_INIT};
    tutti_handle *handles[2];
    EXPECT(values != NULL);
    for (int i = 0; i < 2; i++) {
        calls[i].dtype = TUTTI_I32;
        calls[i].input = calls[i].output = values + (size_t)i * EQUAL;
        calls[i].count = EQUAL;
        calls[i].name = i == 0 ? first : second;
        calls[i].done = i == 0 ? bulk_done : urgent_done;
        calls[i].done_user = &ends;
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &calls[i], &handles[i]));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_all(handles, 2, -1.0));
    tutti_handle_free(handles[0]);
    tutti_handle_free(handles[1]);
    free(values);
    return ends.urgent < ends.bulk;
}

/* A rank that is not scheduled between its two starts may be too late: once on all of them is
 * enough. */
static void expect_passing(ranks_self *self, const char *first, const char *second)
{
    int64_t passed = 0;
    for (int i = 0; i < ATTEMPTS && passed < self->size; i++) {
        const int64_t own = second_is_first(self, first, second) ? 1 : 0;
        EXPECT_STATUS(TUTTI_OK,
                      tutti_allreduce(self->context, &own, &passed, 1, TUTTI_I64, TUTTI_SUM));
    }
    EXPECT(passed == self->size);
}

static void order_body(ranks_self *self)
{
    expect_passing(self, "later", "sooner"); /* the caller sets no priority */
}

static void test_an_order_gives_named_calls_their_priority(void **state)
{
    (void)state;
    char path[] = "/tmp/tutti-order-XXXXXX";
    const int fd = mkstemp(path);
    const char text[] = "tutti order 1\n0\tsooner\n1\tlater\n";
    assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
    (void)close(fd);
    (void)setenv("TUTTI_ORDER", path, 1);
    ranks_run(2, "tcp", order_body, NULL);
    (void)unsetenv("TUTTI_ORDER");
    (void)unlink(path);
}

/* The order of uses equals the order in which they became ready, which alone would give the
 * opposite order. */
static void told_body(ranks_self *self)
{
    EXPECT_STATUS(TUTTI_OK, tutti_use(self->context, "used first"));
    EXPECT_STATUS(TUTTI_OK, tutti_use(self->context, "used last"));
    (void)second_is_first(self, "used first", "used last");
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    expect_passing(self, "used last", "used first");
}

static void learnt_body(ranks_self *self)
{
    (void)second_is_first(self, "used last", "used first");
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    expect_passing(self, "used last", "used first");
}

static void test_the_order_is_learnt_from_the_first_step(void **state)
{
    (void)state;
    ranks_run(2, "tcp", told_body, NULL);
    ranks_run(2, "tcp", learnt_body, NULL);
}

static void test_the_error_of_a_missing_order_names_the_file(void **state)
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

/* ---- bits ---- */

enum { SUMS = 6, SUM_MOST = 100000 };

/* Sums that round: named and not, started in another order where priorities differ. */
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
        {"TUTTI_FUSE", "0"},        {"TUTTI_FUSE", "1K"},        {"TUTTI_FUSE", "16K"},
        {"TUTTI_FUSE", "256K"},
    };
    (void)setenv("TUTTI_COSTS", "none", 1); /* the choice of algorithm is not under test */
    for (int turn = 0; turn < 3; turn++) {
        const int size = turn == 0 ? 3 : 4;
        uint64_t first = 0;
        for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
            uint64_t hash = 0;
            (void)setenv(variants[i][0], variants[i][1], 1);
            ranks_run(size, turn == 2 ? "shm" : "tcp", bits_body, &hash);
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

/* Two tasks of three chunks; the urgent one becomes ready second. Returns the number of chunks of
 * the other that were sent before its last. */
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

/* An engine's thread pays the proxy that another thread waits for. */
static void *pay_later(void *user)
{
    (void)usleep(10000);
    return tutti_proxy_pay(user, TUTTI_ERR_CANCELLED) == TUTTI_OK ? user : NULL;
}

static void test_a_proxy_wait_blocks_until_another_thread_pays(void **state)
{
    (void)state;
    tutti_proxy *proxy;
    pthread_t payer;
    void *paid;
    assert_int_equal(tutti_proxy_create(&proxy), TUTTI_OK);
    assert_int_equal(tutti_proxy_post(proxy, 1), TUTTI_OK);
    assert_int_equal(pthread_create(&payer, NULL, pay_later, proxy), 0);
    assert_int_equal(tutti_proxy_wait(proxy), TUTTI_ERR_CANCELLED); /* only pay_later has this */
    assert_int_equal(pthread_join(payer, &paid), 0);
    assert_ptr_equal(paid, proxy);
    tutti_proxy_destroy(proxy);
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
        cmocka_unit_test(test_off_is_off_and_auto_reports_off_where_nothing_is_gained),
        cmocka_unit_test(test_a_priority_out_of_range_is_refused),
        cmocka_unit_test(test_an_order_gives_named_calls_their_priority),
        cmocka_unit_test(test_the_order_is_learnt_from_the_first_step),
        cmocka_unit_test(test_the_error_of_a_missing_order_names_the_file),
        cmocka_unit_test(test_no_order_batch_chunk_or_credit_changes_a_bit),
        cmocka_unit_test(test_over_a_fifo_stack_credit_decides_what_can_be_overtaken),
        cmocka_unit_test(test_a_proxy_wait_blocks_until_another_thread_pays),
        cmocka_unit_test(test_wrong_tasks_and_configurations_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
