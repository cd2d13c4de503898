/* SPDX-License-Identifier: Apache-2.0
 *
 * quorum_test.c - sums of a quorum whose servers die, frame by frame: what nobody may act on, what
 * a new keeper may not decide again, and pushes that are sent again late.
 *
 * Two workers, and two servers that own all: rank 2, the keeper, and rank 3.
 *
 * Labels: asan sync */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/small.h"

enum { WORKERS = 2, KEEPER = 2, OTHER = 3 };

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
    own->ends = 0;
    tt_sync_submit(world->machines[worker]->sync, &own->request);
}

static void all_call(small_world *world, tt_sync_request request)
{
    call calls[WORKERS];
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

/* A tensor at each server. */
static small_world *begin(const char *policy)
{
    small_world *world = small_create(WORKERS, WORKERS);
    all_call(world, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = policy, .update = "sum"});
    for (uint32_t i = 0; i < 2; i++) {
        all_call(world, (tt_sync_request){.verb = TT_STORE_ADD,
                                          .name = small_name(world, i),
                                          .dtype = TT_F32,
                                          .count = 1});
    }
    return world;
}

static call push_of(const small_world *world, uint32_t owner, const float *value)
{
    return (call){
        .request = {.verb = TT_STORE_PUSH, .name = small_name(world, owner), .input = value}};
}

static call pull_of(const small_world *world, uint32_t owner, float *value)
{
    return (call){
        .request = {.verb = TT_STORE_PULL, .name = small_name(world, owner), .output = value}};
}

static call clock_call(void)
{
    return (call){.request = {.verb = TT_STORE_CLOCK}};
}

typedef bool (*is_kept)(const small_frame *frame);

/* Deliver all frames but these, which stay. */
static void run_without(small_world *world, is_kept keeps)
{
    bool has_moved = true;
    while (has_moved) {
        uint32_t i = 0;
        while (i < world->frame_count && keeps(&world->frames[i])) {
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

static void kill_server(small_world *world, uint32_t rank)
{
    small_kill(world->machines[rank]);
    for (uint32_t i = 0; i < WORKERS + WORKERS; i++) {
        if (i != rank) {
            small_tell_gone(world->machines[i], rank);
        }
    }
}

/* ---- decisions ---- */

static bool is_decision(const small_frame *frame)
{
    return frame->head.kind == TT_SYNC_QUORUM;
}

static bool is_reply(const small_frame *frame)
{
    return frame->head.kind == TT_SYNC_HAVE;
}

static void test_nobody_acts_on_a_decision_that_an_owner_lacks(void **state)
{
    static const is_kept stages[] = {is_decision, is_reply};
    static const float value = 3.0f;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        small_world *world = begin("quorum:1");
        call push = push_of(world, 0, &value), clock = clock_call();
        start(world, 0, &push);
        start(world, 0, &clock);
        run_without(world, stages[i]);
        assert_int_equal(push.ends + clock.ends, 0);
        small_run(world);
        assert_int_equal(push.ends + clock.ends, 2);
        assert_false(push.request.is_uncounted);
        small_destroy(world);
    }
}

/* Worker 0 is the quorum, as the other server knows. The keeper dies; by then worker 1 has
 * completed the iteration, too, but the new keeper must not decide about it once more. */
static void test_a_new_keeper_decides_no_iteration_again(void **state)
{
    static const float value = 3.0f;
    small_world *world = begin("quorum:1");
    call pushes[WORKERS], clocks[WORKERS];
    (void)state;
    for (uint32_t i = 0; i < WORKERS; i++) {
        pushes[i] = push_of(world, 1, &value);
        clocks[i] = clock_call();
        start(world, i, &pushes[i]);
        start(world, i, &clocks[i]);
        run_without(world, is_reply);
    }
    assert_int_equal(pushes[0].ends + clocks[0].ends + pushes[1].ends + clocks[1].ends, 0);
    kill_server(world, KEEPER);
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(pushes[i].ends + clocks[i].ends, 2);
        assert_int_equal(pushes[i].request.status, TT_OK);
        assert_int_equal(pushes[i].request.is_uncounted, i == 1);
        assert_int_equal(clocks[i].request.clock, 1);
    }
    small_destroy(world);
}

/* A decision that nobody has acted on, and that died with the keeper, is made anew. */
static void test_a_decision_that_nobody_has_is_made_anew(void **state)
{
    static const float value = 3.0f;
    small_world *world = begin("quorum:1");
    call push = push_of(world, 1, &value), clock = clock_call();
    (void)state;
    start(world, 0, &push);
    start(world, 0, &clock);
    run_without(world, is_decision);
    kill_server(world, KEEPER);
    small_run(world);
    assert_int_equal(push.ends + clock.ends, 2);
    assert_int_equal(push.request.status, TT_OK);
    assert_false(push.request.is_uncounted);
    small_destroy(world);
}

/* ---- pushes that are sent again ---- */

static bool is_of_other(const small_frame *frame)
{
    return frame->from == OTHER && frame->to < WORKERS;
}

static bool is_push(const small_frame *frame)
{
    return frame->head.kind == TT_SYNC_PUSH;
}

/* The iteration has begun at the server left when the push of it comes there. */
static void test_a_pull_waits_for_pushes_that_are_sent_again(void **state)
{
    static const float value = 3.0f;
    float read = -1.0f;
    small_world *world = begin("quorum:1");
    call push = push_of(world, 1, &value), clocks[WORKERS] = {clock_call(), clock_call()};
    call pull = pull_of(world, 1, &read);
    (void)state;
    start(world, 0, &push);
    start(world, 0, &clocks[0]);
    start(world, 1, &clocks[1]);
    run_without(world, is_of_other);
    assert_int_equal(clocks[0].ends + clocks[1].ends, 2);
    assert_int_equal(push.ends, 0);
    start(world, 1, &pull);
    kill_server(world, OTHER);
    run_without(world, is_push);
    assert_int_equal(push.ends + pull.ends, 0);
    small_run(world);
    assert_int_equal(push.ends + pull.ends, 2);
    assert_int_equal(push.request.status, TT_OK);
    assert_false(push.request.is_uncounted);
    assert_int_equal(pull.request.status, TT_OK);
    assert_true(read == value);
    small_destroy(world);
}

/* Worker 1 has its answer, worker 0 has none: it fails, and so do pulls before the next sum. */
static void test_a_sum_that_one_worker_has_fails_on_the_others(void **state)
{
    static const float value = 3.0f;
    float read = -1.0f;
    small_world *world = begin("quorum:2");
    call pushes[WORKERS], clocks[WORKERS], pull = pull_of(world, 1, &read);
    (void)state;
    for (uint32_t i = 0; i < WORKERS; i++) {
        pushes[i] = push_of(world, 1, &value);
        clocks[i] = clock_call();
        start(world, i, &pushes[i]);
        start(world, i, &clocks[i]);
    }
    run_without(world, is_of_other);
    for (uint32_t i = world->frame_count; i-- > 0;) {
        if (world->frames[i].to == 1) {
            small_deliver(world, i, false);
        }
    }
    assert_int_equal(pushes[1].ends, 1);
    assert_int_equal(pushes[0].ends, 0);
    kill_server(world, OTHER);
    start(world, 1, &pull);
    small_run(world);
    assert_int_equal(pushes[0].ends + pull.ends, 2);
    assert_int_equal(pushes[0].request.status, TT_ERR_PEER_DOWN);
    assert_int_equal(pull.request.status, TT_ERR_PEER_DOWN);
    assert_non_null(strstr(pushes[0].request.error, "server 1 (rank 3) is gone"));
    assert_non_null(strstr(pushes[0].request.error, "a part of iteration 1 of tensor"));
    for (uint32_t i = 0; i < WORKERS; i++) {
        start(world, i, &pushes[i]);
        start(world, i, &clocks[i]);
    }
    small_run(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(pushes[i].ends + clocks[i].ends, 2);
        assert_int_equal(pushes[i].request.status, TT_OK);
    }
    start(world, 1, &pull);
    small_run(world);
    assert_int_equal(pull.request.status, TT_OK);
    assert_true(read == 2 * value);
    small_destroy(world);
}

static bool is_to_other(const small_frame *frame)
{
    return frame->to == OTHER && frame->from == 0 && frame->head.kind == TT_SYNC_PUSH;
}

/* Owners keep 64 decisions. Of a push from before that nobody knows whether it counts. */
static void test_a_push_of_a_forgotten_iteration_fails(void **state)
{
    static const float value = 3.0f;
    enum { ITERATIONS = 70 };
    small_world *world = begin("quorum:1");
    call push = push_of(world, 1, &value), clocks[WORKERS] = {clock_call(), clock_call()};
    (void)state;
    start(world, 0, &push);
    start(world, 0, &clocks[0]);
    run_without(world, is_to_other);
    assert_int_equal(clocks[0].ends, 1);
    for (int i = 0; i < ITERATIONS; i++) {
        start(world, 1, &clocks[1]);
        run_without(world, is_to_other);
        assert_int_equal(clocks[1].ends, 1);
    }
    assert_int_equal(push.ends, 0);
    kill_server(world, OTHER);
    small_run(world);
    assert_int_equal(push.ends, 1);
    assert_int_equal(push.request.status, TT_ERR_PEER_DOWN);
    small_destroy(world);
}

/* A worker's frames for a part that is being adopted are not what it could send: dropped. */
static void test_a_push_before_its_part_was_adopted_is_dropped(void **state)
{
    static const float value = 3.0f;
    small_world *world = begin("quorum:1");
    small_machine *keeper = world->machines[KEEPER];
    const tt_machine machine = tt_sync_machine(keeper->sync);
    const tt_owner_store *store = keeper->sync->owned[0];
    const tt_worker_key *key =
        tt_worker_find_name(world->machines[0]->sync->stores[0], small_name(world, 1));
    tt_head head = {.kind = TT_SYNC_ADOPT,
                    .flags = TT_SYNC_FLAG_REPEAT,
                    .set = store->id,
                    .op = key->id,
                    .epoch = SMALL_EPOCH};
    (void)state;
    (void)machine.ops->frame(machine.self, 0, &head, &value);
    assert_int_equal(store->quorum.adopting, 1);
    head = (tt_head){.kind = TT_SYNC_PUSH,
                     .set = store->id,
                     .op = key->id,
                     .descriptor = 1,
                     .argument = 1,
                     .payload_bytes = sizeof(value),
                     .epoch = SMALL_EPOCH};
    (void)machine.ops->frame(machine.self, 0, &head, &value);
    assert_int_equal(store->workers[0].arrived, 0);
    assert_int_equal(store->quorum.adopting, 1);
    small_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_acts_on_a_decision_that_an_owner_lacks),
        cmocka_unit_test(test_a_new_keeper_decides_no_iteration_again),
        cmocka_unit_test(test_a_decision_that_nobody_has_is_made_anew),
        cmocka_unit_test(test_a_pull_waits_for_pushes_that_are_sent_again),
        cmocka_unit_test(test_a_sum_that_one_worker_has_fails_on_the_others),
        cmocka_unit_test(test_a_push_of_a_forgotten_iteration_fails),
        cmocka_unit_test(test_a_push_before_its_part_was_adopted_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
