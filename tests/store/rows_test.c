/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_test.c - frames of chosen rows, delivered one by one: in either order, twice, and wrong
 * ones.
 *
 * Two workers and two servers; one table of four rows, owned by server 1 (rank 3).
 *
 * Labels: asan sync */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/small.h"

enum { WORKERS = 2, OWNER = 3, ROWS = 4, LENGTH = 2, COUNT = ROWS * LENGTH };

typedef struct call {
    tt_sync_request request;
    int ends;
} call;

static void finished(tt_sync_request *request)
{
    ((call *)request->owner)->ends++;
}

static void submit(small_world *world, uint32_t rank, call *made, tt_sync_request request)
{
    *made = (call){.request = request};
    made->request.owner = made;
    made->request.finished = finished;
    tt_sync_submit(world->machines[rank]->sync, &made->request);
}

/* The same call of all workers works. */
static void all(small_world *world, tt_sync_request request)
{
    call calls[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        submit(world, i, &calls[i], request);
    }
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(calls[i].ends, 1);
        assert_int_equal(calls[i].request.status, TT_OK);
    }
}

static const char *name_of(const small_world *world)
{
    return small_name(world, OWNER - WORKERS);
}

static small_world *begin(const char *policy, const char *update)
{
    static const float first[COUNT] = {0, 1, 2, 3, 4, 5, 6, 7};
    small_world *world = small_create(WORKERS, WORKERS);
    all(world, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = policy, .update = update});
    all(world, (tt_sync_request){.verb = TT_STORE_ADD,
                                 .name = name_of(world),
                                 .dtype = TT_F32,
                                 .count = COUNT,
                                 .row_elements = LENGTH,
                                 .input = first});
    return world;
}

static tt_sync_request rows_call(const small_world *world, tt_sync_verb verb, const uint64_t *rows,
                                 uint64_t count)
{
    return (tt_sync_request){
        .verb = verb, .name = name_of(world), .is_rows = true, .rows = rows, .row_count = count};
}

/* The index of a frame that is in flight. */
static uint32_t find(const small_world *world, tt_sync_kind kind)
{
    uint32_t index = 0;
    while (index < world->frame_count && world->frames[index].head.kind != kind) {
        index++;
    }
    assert_true(index < world->frame_count);
    return index;
}

static void step(small_world *world, uint32_t rank)
{
    while (small_has_step(world->machines[rank])) {
        small_step(world->machines[rank]);
    }
}

static void expect_values(small_world *world, const float *wanted)
{
    float read[COUNT] = {0};
    call pull;
    submit(world, 1, &pull,
           (tt_sync_request){.verb = TT_STORE_PULL, .name = name_of(world), .output = read});
    small_run(world);
    assert_int_equal(pull.request.status, TT_OK);
    assert_memory_equal(read, wanted, sizeof(read));
}

/* Numbers and values in either order, each twice and also behind the end: added once. */
static void test_halves_in_any_order(void **state)
{
    static const uint64_t rows[] = {1, 3};
    static const float values[] = {10, 20, 30, 40};
    static const float wanted[COUNT] = {0, 1, 12, 23, 4, 5, 36, 47};
    (void)state;
    for (int order = 0; order < 2; order++) {
        small_world *world = begin("async", "add");
        call push;
        tt_sync_request request = rows_call(world, TT_STORE_PUSH, rows, 2);
        request.input = values;
        submit(world, 0, &push, request);
        assert_int_equal(world->frame_count, 2);
        const tt_sync_kind first = order == 0 ? TT_SYNC_ROWS : TT_SYNC_PUSH;
        const tt_sync_kind second = order == 0 ? TT_SYNC_PUSH : TT_SYNC_ROWS;
        small_deliver(world, find(world, first), true);
        small_deliver(world, find(world, first), true);
        step(world, OWNER);
        assert_int_equal(push.ends, 0);
        small_deliver(world, find(world, second), true);
        small_deliver(world, find(world, second), true);
        step(world, OWNER);
        small_run(world); /* and the copies that are left */
        assert_int_equal(push.ends, 1);
        assert_int_equal(push.request.status, TT_OK);
        expect_values(world, wanted);
        small_destroy(world);
    }
}

/* Frames of an older push, when the next one is half there, or a pull waits. */
static void test_late_copies_change_nothing(void **state)
{
    static const uint64_t old[] = {0}, new[] = {1, 2};
    static const float values[] = {10, 20, 30, 40};
    static const float wanted[COUNT] = {10, 21, 12, 23, 34, 45, 6, 7};
    float read[2 * LENGTH] = {0};
    (void)state;
    small_world *world = begin("async", "add");
    call made;
    tt_sync_request request = rows_call(world, TT_STORE_PUSH, old, 1);
    request.input = values;
    submit(world, 0, &made, request);
    small_frame copies[2];
    memcpy(copies, world->frames, sizeof(copies));
    small_run(world);
    request = rows_call(world, TT_STORE_PUSH, new, 2);
    request.input = values;
    submit(world, 0, &made, request);
    const tt_machine owner = tt_sync_machine(world->machines[OWNER]->sync);
    for (uint32_t i = 0; i < 4; i++) {
        const small_frame *copy = &copies[i % 2];
        (void)owner.ops->frame(owner.self, 0, &copy->head, copy->bytes);
        if (i == 1) {
            small_deliver(world, find(world, TT_SYNC_PUSH), false);
        }
    }
    small_run(world);
    assert_int_equal(made.ends, 1);
    expect_values(world, wanted);
    request = rows_call(world, TT_STORE_PULL, new, 2);
    request.output = read;
    submit(world, 0, &made, request);
    small_deliver(world, find(world, TT_SYNC_ROWS), true);
    for (uint32_t i = 0; i < 2; i++) {
        (void)owner.ops->frame(owner.self, 0, &copies[i].head, copies[i].bytes);
    }
    small_run(world);
    assert_int_equal(made.ends, 1);
    assert_memory_equal(read, wanted + LENGTH, sizeof(read));
    small_destroy(world);
}

/* The answer is still lent when the worker has read it and pushes: small.c checks that nobody
 * writes to what is lent. */
static void test_an_answer_is_recalled_by_the_next_push(void **state)
{
    static const uint64_t rows[] = {0, 2};
    static const float values[] = {1, 1, 1, 1};
    static const float wanted[COUNT] = {1, 2, 2, 3, 5, 6, 6, 7};
    float read[2 * LENGTH] = {0};
    (void)state;
    small_world *world = begin("async", "add");
    call made;
    tt_sync_request request = rows_call(world, TT_STORE_PULL, rows, 2);
    request.output = read;
    submit(world, 0, &made, request);
    small_deliver(world, find(world, TT_SYNC_ROWS), false);
    step(world, OWNER);
    const small_frame answer = world->frames[find(world, TT_SYNC_VALUE)];
    assert_int_equal(answer.head.payload_bytes, sizeof(read));
    const tt_machine worker = tt_sync_machine(world->machines[0]->sync);
    (void)worker.ops->frame(worker.self, OWNER, &answer.head, answer.bytes); /* before `sent` */
    assert_int_equal(made.ends, 1);
    request = rows_call(world, TT_STORE_PUSH, rows, 2);
    request.input = values;
    submit(world, 0, &made, request);
    small_run(world);
    assert_int_equal(made.ends, 1);
    expect_values(world, wanted);
    small_destroy(world);
}

static void test_no_rows_at_all(void **state)
{
    static const float wanted[COUNT] = {0};
    (void)state;
    small_world *world = begin("bulk", "sum");
    for (int i = 0; i < 2; i++) {
        all(world, rows_call(world, TT_STORE_PUSH, NULL, 0));
        all(world, rows_call(world, TT_STORE_PULL, NULL, 0));
        all(world, rows_call(world, TT_STORE_PUSH_PULL, NULL, 0));
        all(world, (tt_sync_request){.verb = TT_STORE_CLOCK});
    }
    expect_values(world, wanted);
    small_destroy(world);
}

/* What a worker sends is not believed: the tensor fails on all workers, which get its name. */
static void test_rows_that_no_worker_sends(void **state)
{
    static const struct {
        const char *what;
        uint64_t numbers[3];
        uint32_t number_bytes, value_bytes;
    } cases[] = {
        {"beyond the table", {1, 4}, 16, 16},
        {"descending", {2, 1}, 16, 16},
        {"twice", {2, 2}, 16, 16},
        {"no whole number", {1, 2}, 12, 16},
        {"fewer values", {1, 2}, 16, 8},
        {"more values", {1, 2}, 16, 24},
        {"no whole row", {1, 2}, 16, 12},
        {"no values", {1, 2}, 16, 0},
        {"more numbers than rows", {0}, 40, 16},
        {"more values than rows", {0}, 8, 40},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const int orders = cases[i].value_bytes > 0 ? 2 : 1; /* without values, numbers are late */
        for (int order = 0; order < orders; order++) {
            static const uint64_t rows[] = {0};
            const uint8_t bytes[64] = {0};
            small_world *world = begin("async", "add");
            call push;
            tt_sync_request request = rows_call(world, TT_STORE_PUSH, rows, 1);
            request.input = bytes;
            submit(world, 0, &push, request);
            for (uint32_t k = 0; k < 2; k++) {
                const tt_sync_kind kind = (k == 0) == (order == 0) ? TT_SYNC_ROWS : TT_SYNC_PUSH;
                small_frame frame = world->frames[find(world, kind)];
                uint8_t payload[64] = {0};
                small_drop(world, find(world, kind));
                memcpy(payload, cases[i].numbers, sizeof(cases[i].numbers));
                frame.head.payload_bytes =
                    kind == TT_SYNC_ROWS ? cases[i].number_bytes : cases[i].value_bytes;
                const tt_machine owner = tt_sync_machine(world->machines[OWNER]->sync);
                (void)owner.ops->frame(owner.self, 0, &frame.head, payload);
            }
            small_run(world);
            if (push.ends != 1 || push.request.status != TT_ERR_BAD_WIRE ||
                strstr(push.request.error, "worker 0 (rank 0) sent rows of table") == NULL) {
                fail_msg("%s: status %d, %s", cases[i].what, (int)push.request.status,
                         push.request.error);
            }
            call other;
            request.input = bytes;
            submit(world, 1, &other, request);
            assert_int_equal(other.request.status, TT_ERR_BAD_WIRE);
            small_destroy(world);
        }
    }
}

/* A pull whose numbers are wrong; and rows of what is no table, which are dropped. */
static void test_pulls_that_no_worker_sends(void **state)
{
    static const uint64_t rows[] = {1};
    float read[LENGTH];
    (void)state;
    small_world *world = begin("async", "add");
    call pull;
    tt_sync_request request = rows_call(world, TT_STORE_PULL, rows, 1);
    request.output = read;
    submit(world, 0, &pull, request);
    const uint64_t beyond = ROWS;
    const small_frame frame = world->frames[find(world, TT_SYNC_ROWS)];
    small_drop(world, find(world, TT_SYNC_ROWS));
    const tt_machine owner = tt_sync_machine(world->machines[OWNER]->sync);
    (void)owner.ops->frame(owner.self, 0, &frame.head, &beyond);
    small_run(world);
    assert_int_equal(pull.ends, 1);
    assert_int_equal(pull.request.status, TT_ERR_BAD_WIRE);
    small_destroy(world);
}

static void test_rows_that_are_refused(void **state)
{
    static const struct {
        uint64_t rows[3];
        uint64_t count;
        const char *culprit, *cure;
    } cases[] = {
        {{0, 4}, 2, "rows[1] is 4, beyond its 4 rows", "numbers below that"},
        {{1, 3, 2}, 3, "rows[1] is 3 and rows[2] is 2", "sort them, each row once"},
        {{3, 3}, 2, "rows[0] is 3 and rows[1] is 3", "each row once"},
    };
    const float first = 0.0f;
    (void)state;
    small_world *world = begin("stale:1", "add");
    call made;
    all(world,
        (tt_sync_request){
            .verb = TT_STORE_ADD, .name = "plain", .dtype = TT_F32, .count = 1, .input = &first});
    const uint64_t sent = world->sent;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        submit(world, 0, &made, rows_call(world, TT_STORE_PUSH, cases[i].rows, cases[i].count));
        assert_int_equal(made.request.status, TT_ERR_BAD_ARGUMENT);
        assert_non_null(strstr(made.request.error, cases[i].culprit));
        assert_non_null(strstr(made.request.error, cases[i].cure));
    }
    submit(world, 0, &made, rows_call(world, TT_STORE_PULL, NULL, 3));
    assert_non_null(strstr(made.request.error, "rows is NULL and their count 3"));
    tt_sync_request request = rows_call(world, TT_STORE_PULL, cases[0].rows, 1);
    request.name = "plain";
    submit(world, 0, &made, request);
    assert_non_null(strstr(made.request.error, "tensor 'plain' is no table"));
    assert_non_null(strstr(made.request.error, "add it with tutti_store_add_table"));
    assert_int_equal(world->sent, sent);
    small_destroy(world);
}

/* Rows that are too short or too long, and an update that needs what was read. */
static void test_tables_that_are_refused(void **state)
{
    (void)state;
    small_world *world = small_create(WORKERS, WORKERS);
    all(world,
        (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "async", .update = "sgd:lr=1,dc=0.5"});
    call made;
    tt_sync_request request = {
        .verb = TT_STORE_ADD, .name = "t", .dtype = TT_F32, .count = 8, .row_elements = 2};
    submit(world, 0, &made, request);
    assert_non_null(strstr(made.request.error, "option dc of update sgd"));
    assert_non_null(strstr(made.request.error, "leave out dc"));
    request.count = request.row_elements = 65537;
    submit(world, 0, &made, request);
    assert_non_null(strstr(made.request.error, "a row has 262148 bytes"));
    small_destroy(world);
}

static void test_workers_that_differ_in_rows(void **state)
{
    static const float first[COUNT];
    (void)state;
    small_world *world = small_create(WORKERS, WORKERS);
    all(world, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "bulk", .update = "add"});
    call calls[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        submit(world, i, &calls[i],
               (tt_sync_request){.verb = TT_STORE_ADD,
                                 .name = name_of(world),
                                 .dtype = TT_F32,
                                 .count = COUNT,
                                 .row_elements = i == 0 ? LENGTH : 0,
                                 .input = first});
    }
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(calls[i].request.status, TT_ERR_MISMATCH);
        assert_non_null(strstr(calls[i].request.error,
                               "rank 0 adds 8 elements of f32 in rows of 2, rank 1 adds 8 "
                               "elements of f32"));
    }
    small_destroy(world);
}

static void test_bytes_of_rows_are_counted(void **state)
{
    static const uint64_t rows[] = {1, 2, 3};
    float values[3 * LENGTH] = {0};
    tt_sync_counts counts;
    (void)state;
    small_world *world = begin("async", "add");
    call made;
    tt_sync_request request = rows_call(world, TT_STORE_PUSH_PULL, rows, 3);
    request.input = request.output = values;
    submit(world, 0, &made, request);
    small_run(world);
    submit(world, 0, &made, (tt_sync_request){.verb = TT_STORE_COUNT, .counts = &counts});
    small_run(world);
    assert_int_equal(made.ends, 1);
    assert_int_equal(counts.pushed_bytes, sizeof(values));
    assert_int_equal(counts.pulled_bytes, sizeof(values));
    assert_memory_equal(values, ((float[]){2, 3, 4, 5, 6, 7}), sizeof(values));
    small_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_in_any_order),
        cmocka_unit_test(test_late_copies_change_nothing),
        cmocka_unit_test(test_an_answer_is_recalled_by_the_next_push),
        cmocka_unit_test(test_no_rows_at_all),
        cmocka_unit_test(test_rows_that_no_worker_sends),
        cmocka_unit_test(test_pulls_that_no_worker_sends),
        cmocka_unit_test(test_rows_that_are_refused),
        cmocka_unit_test(test_tables_that_are_refused),
        cmocka_unit_test(test_workers_that_differ_in_rows),
        cmocka_unit_test(test_bytes_of_rows_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
