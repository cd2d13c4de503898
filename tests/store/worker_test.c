/* SPDX-License-Identifier: Apache-2.0
 *
 * worker_test.c - calls of workers in awkward places: behind a clock, while an owner dies in the
 * middle of an answer, on a tensor that cannot go on; pulls of a tensor with many parts.
 *
 * Labels: asan sync */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/small.h"

enum { WORKERS = 2 };

typedef struct call {
    tt_sync_request request;
    int ends;
} call;

static void finished(tt_sync_request *request)
{
    call *own = request->owner;
    own->ends++;
}

static void start(small_world *world, uint32_t worker, call *own)
{
    own->request.owner = own;
    own->request.finished = finished;
    tt_sync_submit(world->machines[worker]->sync, &own->request);
}

/* The same call of all workers, which succeeds. */
static void all_call(small_world *world, tt_sync_request request)
{
    call calls[WORKERS] = {{.ends = 0}};
    for (uint32_t i = 0; i < WORKERS; i++) {
        calls[i].request = request;
        start(world, i, &calls[i]);
    }
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(calls[i].ends, 1);
        assert_int_equal(calls[i].request.status, TT_OK);
    }
}

static small_world *begin(const char *policy, const char *update)
{
    static const float zero = 0.0f;
    small_world *world = small_create(WORKERS, WORKERS);
    all_call(world, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = policy, .update = update});
    for (uint32_t i = 0; i < 2; i++) {
        all_call(world, (tt_sync_request){.verb = TT_STORE_ADD,
                                          .name = small_name(world, i),
                                          .dtype = TT_F32,
                                          .count = 1,
                                          .input = &zero});
    }
    return world;
}

static call push_of(const small_world *world, uint32_t owner, const float *value)
{
    return (call){
        .request = {.verb = TT_STORE_PUSH, .name = small_name(world, owner), .input = value}};
}

/* ---- behind a clock ---- */

/* Worker 0 starts a push of its next iteration before its clock could be sent: the other worker,
 * which makes that push later, must not wait for it. */
static void test_a_push_behind_a_clock_is_of_the_next_iteration(void **state)
{
    static const float one = 1.0f;
    small_world *world = begin("bulk", "add");
    call clocks[WORKERS] = {{.request = {.verb = TT_STORE_CLOCK}},
                            {.request = {.verb = TT_STORE_CLOCK}}};
    call pushes[WORKERS][3];
    (void)state;
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t k = 0; k < 2; k++) { /* the second one waits for the first */
            pushes[i][k] = push_of(world, 1, &one);
            start(world, i, &pushes[i][k]);
        }
        start(world, i, &clocks[i]);
        pushes[i][2] = push_of(world, 0, &one); /* owner 0 decides about clocks */
        if (i == 0) {
            start(world, i, &pushes[i][2]);
        }
    }
    small_run(world);
    assert_int_equal(clocks[0].ends + clocks[1].ends, 2);
    assert_int_equal(clocks[0].request.clock, 1);
    assert_int_equal(pushes[0][2].ends, 0);
    start(world, 1, &pushes[1][2]);
    small_run(world);
    assert_int_equal(pushes[0][2].ends + pushes[1][2].ends, 2);
    small_destroy(world);
}

/* Calls behind a clock keep their order, with the clocks among them. */
static void test_clocks_and_pushes_keep_their_order(void **state)
{
    static const float one = 1.0f;
    small_world *world = begin("quorum:2", "add");
    float value = -1.0f;
    call pushes[WORKERS][3], clocks[WORKERS][3];
    call pull = {
        .request = {.verb = TT_STORE_PULL, .name = small_name(world, 0), .output = &value}};
    (void)state;
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            pushes[i][k] = push_of(world, 0, &one);
            clocks[i][k] = (call){.request = {.verb = TT_STORE_CLOCK}};
            start(world, i, &pushes[i][k]);
            start(world, i, &clocks[i][k]);
        }
    }
    start(world, 0, &pull);
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(pushes[i][k].ends + clocks[i][k].ends, 2);
            assert_int_equal(clocks[i][k].request.clock, k + 1);
            assert_false(pushes[i][k].request.is_uncounted);
        }
    }
    assert_int_equal(pull.ends, 1);
    assert_true(value == 6.0f);
    small_destroy(world);
}

/* ---- an answer that stops in the middle ---- */

static uint32_t find_frame(const small_world *world, uint32_t to, tt_sync_kind kind)
{
    uint32_t i = 0;
    while (i < world->frame_count &&
           !(world->frames[i].to == to && world->frames[i].head.kind == kind)) {
        i++;
    }
    return i;
}

/* Deliver all but answers with values. */
static void run_up_to_values(small_world *world)
{
    bool has_moved = true;
    while (has_moved) {
        uint32_t i = 0;
        while (i < world->frame_count && world->frames[i].head.kind == TT_SYNC_VALUE) {
            i++;
        }
        has_moved = i < world->frame_count;
        if (has_moved) {
            small_deliver(world, i, false);
        }
        for (uint32_t k = 0; k < world->workers + world->servers; k++) {
            while (small_has_step(world->machines[k])) {
                small_step(world->machines[k]);
                has_moved = true;
            }
        }
    }
}

/* Then the input, which is the output, is neither what was pushed nor the sum. */
static void test_a_push_in_place_is_not_repeated_from_half_an_answer(void **state)
{
    small_world *world = begin("bulk", "sum");
    float values[WORKERS] = {1.0f, 2.0f};
    call calls[WORKERS];
    (void)state;
    for (uint32_t i = 0; i < WORKERS; i++) {
        calls[i] = (call){.request = {.verb = TT_STORE_PUSH_PULL,
                                      .name = small_name(world, 1),
                                      .input = &values[i],
                                      .output = &values[i]}};
        start(world, i, &calls[i]);
    }
    run_up_to_values(world);
    const uint32_t at = find_frame(world, 0, TT_SYNC_VALUE);
    assert_true(at < world->frame_count);
    const small_frame answer = world->frames[at];
    const tt_machine machine = tt_sync_machine(world->machines[0]->sync);
    void *room = machine.ops->frame(machine.self, answer.from, &answer.head, NULL);
    assert_ptr_equal(room, &values[0]);
    values[0] = 99.0f;
    small_kill(world->machines[answer.from]);
    for (uint32_t i = 0; i < WORKERS + WORKERS; i++) {
        if (i != answer.from) {
            small_tell_gone(world->machines[i], answer.from);
        }
    }
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(calls[i].ends, 1);
        assert_int_equal(calls[i].request.status, TT_ERR_PEER_DOWN);
        assert_non_null(strstr(calls[i].request.error, "server 1 (rank 3) is gone"));
        values[i] = 1.0f;
        calls[i].ends = 0;
        start(world, i, &calls[i]);
    }
    small_run(world);
    assert_int_equal(calls[0].request.status, TT_OK);
    assert_true(values[0] == 2.0f && values[1] == 2.0f);
    small_destroy(world);
}

/* ---- a tensor that cannot go on ---- */

/* Clocks would wait for its pushes: the store fails, on all workers. */
static void test_a_tensor_that_fails_later_fails_its_store(void **state)
{
    static const float first[4] = {0};
    static const uint64_t descending[] = {1, 0};
    small_world *world = small_create(WORKERS, WORKERS);
    call clock = {.request = {.verb = TT_STORE_CLOCK}};
    call push = {.request = {.verb = TT_STORE_PUSH,
                             .name = small_name(world, 1),
                             .input = first,
                             .is_rows = true,
                             .row_count = 2}};
    uint64_t rows[] = {0, 1};
    (void)state;
    all_call(world, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "stale:1", .update = "add"});
    all_call(world, (tt_sync_request){.verb = TT_STORE_ADD,
                                      .name = small_name(world, 1),
                                      .dtype = TT_F32,
                                      .count = 4,
                                      .row_elements = 2,
                                      .input = first});
    push.request.rows = rows;
    start(world, 0, &push);
    start(world, 0, &clock);
    for (uint32_t i = 0; i < world->frame_count; i++) { /* as if the program changed them */
        small_frame *frame = &world->frames[i];
        if (frame->head.kind == TT_SYNC_ROWS) {
            memcpy(frame->lent != NULL ? (void *)rows : (void *)frame->bytes, descending,
                   sizeof(descending));
            memcpy(frame->bytes, descending, sizeof(descending));
        }
    }
    small_run(world);
    assert_int_equal(push.ends + clock.ends, 2);
    assert_int_equal(push.request.status, TT_ERR_BAD_WIRE);
    call others = {.request = {.verb = TT_STORE_CLOCK}};
    start(world, 1, &others);
    small_run(world);
    assert_int_equal(others.ends, 1);
    assert_int_equal(others.request.status, TT_ERR_BAD_WIRE);
    assert_non_null(strstr(others.request.error, "worker 0 (rank 0) sent rows"));
    small_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_behind_a_clock_is_of_the_next_iteration),
        cmocka_unit_test(test_clocks_and_pushes_keep_their_order),
        cmocka_unit_test(test_a_push_in_place_is_not_repeated_from_half_an_answer),
        cmocka_unit_test(test_a_tensor_that_fails_later_fails_its_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
