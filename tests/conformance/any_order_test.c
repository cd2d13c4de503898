/* SPDX-License-Identifier: Apache-2.0
 *
 * any_order_test.c - the message that a receive from any source takes.
 *
 * Goal: order, turns, cancel, deadline, death and lack of memory, as documented for
 * TUTTI_ANY_SOURCE. Method: machines on the shuffle and the simulated driver, for many orders of
 * frames and for messages that are eager or need a grant.
 *
 * Labels: asan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "conformance/world.h"

enum { RANKS = 4, MESSAGES_MAX = 640, COUNT = 50, SEEDS = 12, SETTLED = 3000 };

#define SECOND UINT64_C(1000000000)

typedef struct message {
    tt_request request;
    int32_t values[COUNT];
    int source;
    int ends;
} message;

typedef struct job {
    test_world *world;
    message messages[MESSAGES_MAX];
    int count;
    uint64_t send_count; /* elements of the next message */
    uint32_t tag_further;
} job;

static void on_finished(tt_request *request)
{
    message *one = request->owner;
    one->ends++;
}

static message *submit(job *self, uint32_t rank, tt_collective collective, uint32_t peer,
                       int32_t value)
{
    assert_true(self->count < MESSAGES_MAX);
    message *one = &self->messages[self->count++];
    *one = (message){.source = -7};
    for (int i = 0; i < COUNT; i++) {
        one->values[i] = collective == TT_SEND ? value : -1;
    }
    one->request = (tt_request){.collective = collective,
                                .dtype = TT_I32,
                                .root = peer,
                                .tag = 9 + self->tag_further,
                                .source_out = &one->source,
                                .input = one->values,
                                .output = one->values,
                                .count = collective == TT_SEND ? self->send_count : COUNT,
                                .prescale = 1.0,
                                .postscale = 1.0,
                                .finished = on_finished,
                                .owner = one};
    if (collective == TT_RECEIVE) {
        one->request.input = NULL;
    }
    world_submit(self->world, rank, &one->request);
    return one;
}

static message *send(job *self, uint32_t from, int32_t value)
{
    return submit(self, from, TT_SEND, 0, value);
}

static message *receive(job *self, uint32_t from)
{
    return submit(self, 0, TT_RECEIVE, from, 0);
}

/* Runs until all frames have arrived. */
static void settle(job *self)
{
    for (int i = 0; i < SETTLED && world_step(self->world); i++) {
    }
}

static void expect_message(const message *one, int32_t value, int source)
{
    assert_int_equal(one->ends, 1);
    assert_int_equal(one->request.status, TT_OK);
    assert_int_equal(one->values[0], value);
    assert_int_equal(one->values[COUNT - 1], value);
    assert_int_equal(one->source, source);
}

typedef void job_fn(job *self);

static void run_on(world_config config, job_fn *body)
{
    job self = {.world = world_create(&config), .send_count = COUNT};
    assert_non_null(self.world);
    body(&self);
    assert_true(world_run(self.world));
    for (int i = 0; i < self.count; i++) {
        assert_int_equal(self.messages[i].ends, 1);
    }
    assert_true(world_destroy(self.world));
}

/* Eager and granted, on both drivers, in many orders. */
static void run_all(job_fn *body)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (int i = 0; i < 4; i++) {
            run_on((world_config){.driver = i % 2 == 0 ? WORLD_SHUFFLE : WORLD_SIM,
                                  .size = RANKS,
                                  .host_count = 2,
                                  .seed = seed,
                                  .segment_bytes = 64,
                                  .eager_bytes_max = i < 2 ? 4096 : 0},
                   body);
        }
    }
}

/* ---- order ---- */

static void all_senders(job *self)
{
    message *received[3 * (RANKS - 1)];
    int32_t next[RANKS] = {0};
    const int count = TT_ARRAY_COUNT(received);
    for (int i = 0; i < count; i++) {
        if (i % 2 == 0) { /* before and after */
            received[i] = receive(self, TT_ANY_SOURCE);
        }
        (void)send(self, 1 + (uint32_t)i % (RANKS - 1), i / (RANKS - 1));
    }
    for (int i = 1; i < count; i += 2) {
        received[i] = receive(self, TT_ANY_SOURCE);
    }
    assert_true(world_run(self->world));
    for (int i = 0; i < count; i += 2) { /* in the order of their calls */
        const int source = received[i]->source;
        assert_in_range(source, 1, RANKS - 1);
        expect_message(received[i], next[source]++, source);
    }
    for (int i = 1; i < count; i += 2) {
        const int source = received[i]->source;
        assert_in_range(source, 1, RANKS - 1);
        expect_message(received[i], next[source]++, source);
    }
}

static void test_messages_of_each_sender_arrive_in_its_order(void **state)
{
    (void)state;
    run_all(all_senders);
}

static void turns(job *self)
{
    for (int i = 0; i < 3; i++) {
        for (uint32_t rank = 1; rank < RANKS; rank++) {
            (void)send(self, rank, i);
        }
    }
    settle(self);
    message *first = receive(self, TT_ANY_SOURCE); /* long messages are offered after this one */
    settle(self);
    expect_message(first, 0, first->source);
    int taken[RANKS] = {0};
    taken[first->source]++;
    for (int i = 1; i < 3 * (RANKS - 1); i++) {
        const message *one = receive(self, TT_ANY_SOURCE);
        settle(self);
        expect_message(one, i / (RANKS - 1), one->source);
        assert_int_equal(taken[one->source]++, i / (RANKS - 1));
    }
}

static void test_senders_take_turns(void **state)
{
    (void)state;
    run_all(turns);
}

static void a_named_source_waits(job *self)
{
    const message *any = receive(self, TT_ANY_SOURCE), *named = receive(self, 1);
    const message *second = receive(self, TT_ANY_SOURCE), *last = receive(self, 2);
    settle(self);
    (void)send(self, 1, 10);
    settle(self);
    expect_message(any, 10, 1);
    assert_int_equal(named->ends, 0);
    (void)send(self, 2, 20);
    settle(self);
    expect_message(second, 20, 2);
    (void)send(self, 2, 21);
    (void)send(self, 1, 11);
    settle(self);
    expect_message(named, 11, 1);
    expect_message(last, 21, 2);
}

static void test_a_named_source_does_not_overtake(void **state)
{
    (void)state;
    run_all(a_named_source_waits);
}

/* ---- cost ---- */

static uint64_t frames(const job *self, uint32_t rank)
{
    return tt_control_count(world_control(self->world, rank)).frames_received;
}

/* A short message of a named source is one frame, also when others were received from any source. A
 * receive from any source that has to wait costs one more question to each member. */
static void costs(job *self)
{
    for (int i = 0; i < 3; i++) {
        const uint64_t before[RANKS] = {frames(self, 0), frames(self, 1), frames(self, 2)};
        const message *named = receive(self, 1);
        (void)send(self, 1, i);
        settle(self);
        assert_int_equal(named->ends, 1);
        assert_int_equal(frames(self, 0) - before[0], 1);
        assert_int_equal(frames(self, 1) - before[1], 0);
        const message *any = receive(self, TT_ANY_SOURCE);
        settle(self);
        (void)send(self, 1, i);
        settle(self);
        expect_message(any, i, 1);
        assert_int_equal(frames(self, 0) - before[0], 2);
        assert_int_equal(frames(self, 1) - before[1], 1);
        assert_int_equal(frames(self, 2) - before[2], i == 0 ? 1 : 0); /* asked before */
    }
}

static void test_named_sources_cost_no_additional_frame(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_on((world_config){.driver = WORLD_SHUFFLE,
                              .size = RANKS,
                              .seed = seed,
                              .segment_bytes = 256,
                              .eager_bytes_max = 4096},
               costs);
    }
}

/* ---- cancel, deadline ---- */

static void cancelled(job *self)
{
    tt_control *control = world_control(self->world, 0);
    message *any = receive(self, TT_ANY_SOURCE), *behind = receive(self, 1);
    settle(self); /* all were asked */
    assert_true(tt_control_cancel(control, &behind->request));
    assert_true(tt_control_cancel(control, &any->request));
    assert_int_equal(any->request.status, TT_ERR_CANCELLED);
    assert_int_equal(behind->request.status, TT_ERR_CANCELLED);
    (void)send(self, 1, 10);
    (void)send(self, 2, 20);
    settle(self);
    const message *named = receive(self, 2); /* was offered to the cancelled receive */
    settle(self);
    expect_message(named, 20, 2);
    message *again = receive(self, TT_ANY_SOURCE), *released = receive(self, 3);
    settle(self);
    expect_message(again, 10, 1);
    (void)send(self, 3, 30);
    settle(self);
    expect_message(released, 30, 3);
}

static void test_a_cancelled_receive_takes_no_message(void **state)
{
    (void)state;
    run_all(cancelled);
}

/* A receive behind a cancelled one continues. */
static void cancelled_first(job *self)
{
    message *any = receive(self, TT_ANY_SOURCE), *named = receive(self, 3);
    settle(self);
    (void)send(self, 3, 30);
    world_step(self->world);
    if (any->ends == 0 && tt_control_cancel(world_control(self->world, 0), &any->request)) {
        assert_int_equal(named->source, 3); /* at once, not when its message arrives */
        settle(self);
        expect_message(named, 30, 3);
        return;
    }
    settle(self); /* too late: it has taken the message */
    expect_message(any, 30, 3);
    (void)send(self, 3, 31);
    settle(self);
    expect_message(named, 31, 3);
}

static void test_a_cancelled_receive_lets_others_pass(void **state)
{
    (void)state;
    run_all(cancelled_first);
}

static void too_late(job *self)
{
    message *any = receive(self, TT_ANY_SOURCE);
    (void)send(self, 2, 20);
    int tried = 0;
    while (any->ends == 0 && tried++ < SETTLED) {
        if (any->source == 2) { /* it has taken the message, which is still to come */
            assert_false(tt_control_cancel(world_control(self->world, 0), &any->request));
        }
        world_step(self->world);
    }
    expect_message(any, 20, 2);
}

static void test_a_message_that_was_taken_is_not_given_back(void **state)
{
    (void)state;
    run_all(too_late);
}

static void sender_cancels(job *self)
{
    message *sent = submit(self, 1, TT_SEND, 0, 10);
    if (sent->ends == 0 && tt_control_cancel(world_control(self->world, 1), &sent->request)) {
        settle(self);
        const message *any = receive(self, TT_ANY_SOURCE);
        settle(self);
        assert_int_equal(any->request.status, TT_ERR_CANCELLED);
        assert_non_null(strstr(any->request.error, "rank 1"));
    } else {
        (void)receive(self, TT_ANY_SOURCE);
    }
    (void)send(self, 1, 11);
    const message *next = receive(self, TT_ANY_SOURCE);
    settle(self);
    expect_message(next, 11, 1);
}

static void test_a_send_that_was_cancelled_keeps_its_place(void **state)
{
    (void)state;
    run_all(sender_cancels);
}

static void test_a_deadline_takes_no_message(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        job self = {.world = world_create(&(world_config){.driver = WORLD_SIM,
                                                          .size = RANKS,
                                                          .host_count = 2,
                                                          .seed = 5,
                                                          .segment_bytes = 64,
                                                          .eager_bytes_max = i == 0 ? 4096 : 0}),
                    .send_count = COUNT};
        message *any = &self.messages[self.count++];
        any->request = (tt_request){.collective = TT_RECEIVE,
                                    .dtype = TT_I32,
                                    .root = TT_ANY_SOURCE,
                                    .tag = 9,
                                    .output = any->values,
                                    .count = COUNT,
                                    .prescale = 1.0,
                                    .postscale = 1.0,
                                    .deadline_ns = SECOND,
                                    .finished = on_finished,
                                    .owner = any};
        world_submit(self.world, 0, &any->request);
        assert_true(world_run(self.world));
        assert_int_equal(any->request.status, TT_ERR_TIMED_OUT);
        assert_non_null(strstr(any->request.error, "tag 9 from any rank"));
        assert_in_range(world_now(self.world), SECOND, 2 * SECOND);
        (void)send(&self, 3, 30);
        message *again = receive(&self, TT_ANY_SOURCE);
        assert_true(world_run(self.world));
        expect_message(again, 30, 3);
        assert_true(world_destroy(self.world));
    }
}

/* ---- ranks that differ, die, lack memory ---- */

static void unlike(job *self)
{
    const message *any = receive(self, TT_ANY_SOURCE);
    self->send_count = COUNT - 1;
    (void)send(self, 1, 10);
    self->send_count = COUNT;
    (void)send(self, 1, 11);
    const message *next = receive(self, TT_ANY_SOURCE);
    assert_true(world_run(self->world));
    assert_int_equal(any->request.status, TT_ERR_MISMATCH);
    assert_non_null(strstr(any->request.error, "disagree"));
    expect_message(next, 11, 1);
}

static void test_an_unlike_message_fails_only_its_receive(void **state)
{
    (void)state;
    run_all(unlike);
}

/* From rank 1, without memory to receive to. */
static message *receive_wrong(job *self)
{
    assert_true(self->count < MESSAGES_MAX);
    message *one = &self->messages[self->count++];
    *one = (message){.request = {.collective = TT_RECEIVE,
                                 .dtype = TT_I32,
                                 .root = 1,
                                 .tag = 9,
                                 .count = COUNT,
                                 .prescale = 1.0,
                                 .postscale = 1.0,
                                 .finished = on_finished,
                                 .owner = one}};
    world_submit(self->world, 0, &one->request);
    return one;
}

/* A wrong receive waits for its turn, and fails then. */
static void wrong(job *self)
{
    const message *any = receive(self, TT_ANY_SOURCE);
    const message *behind = receive_wrong(self);
    settle(self);
    assert_int_equal(behind->ends, 0);
    (void)send(self, 2, 20);
    settle(self);
    expect_message(any, 20, 2);
    const message *sent = send(self, 1, 10);
    assert_true(world_run(self->world));
    assert_int_equal(sent->ends, 1);
    assert_int_equal(behind->request.status, TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(behind->request.error, "output is NULL"));
}

static void test_a_wrong_receive_fails_at_its_turn(void **state)
{
    (void)state;
    run_all(wrong);
}

/* Its turn comes when the pair has no place left. */
static void crowded(job *self)
{
    enum { PAIRS_AHEAD = 256 };
    const message *any = receive(self, TT_ANY_SOURCE);
    self->tag_further = 1;
    for (int i = 0; i < PAIRS_AHEAD; i++) {
        (void)receive(self, 1);
    }
    self->tag_further = 0;
    (void)send(self, 1, 10);
    settle(self);
    assert_int_equal(any->ends, 0);
    self->tag_further = 1;
    for (int i = 0; i < PAIRS_AHEAD; i++) {
        (void)send(self, 1, i);
    }
    assert_true(world_run(self->world));
    expect_message(any, 10, 1);
}

static void test_a_receive_waits_for_its_turn_and_its_place(void **state)
{
    (void)state;
    run_all(crowded);
}

static void a_member_dies(job *self)
{
    message *any = receive(self, TT_ANY_SOURCE), *behind = receive(self, 1);
    settle(self);
    world_lose(self->world, 3);
    settle(self);
    assert_int_equal(any->request.status, TT_ERR_PEER_DOWN);
    assert_non_null(strstr(any->request.error, "rank 3"));
    assert_int_equal(behind->request.status, TT_ERR_PEER_DOWN);
    const message *later = receive(self, TT_ANY_SOURCE);
    settle(self);
    assert_int_equal(later->request.status, TT_ERR_PEER_DOWN);
}

static void test_a_death_is_named(void **state)
{
    (void)state;
    run_all(a_member_dies);
}

/* Which calls end well depends on who has no memory; none ends twice, and nothing is left behind.
 */
static bool starve(world_config config)
{
    job self = {.world = world_create(&config), .send_count = COUNT};
    if (self.world == NULL) {
        return true;
    }
    for (int i = 0; i < 3; i++) {
        (void)receive(&self, TT_ANY_SOURCE);
        (void)send(&self, 1 + (uint32_t)i, i);
    }
    (void)receive(&self, 1);
    (void)send(&self, 1, 3);
    settle(&self);
    const bool has_failed = world_allocations(self.world) >= config.fail_at;
    for (uint32_t rank = 0; rank < RANKS; rank++) { /* a receive that failed leaves its message */
        tt_control_shut_down(world_control(self.world, rank), TT_ERR_SHUT_DOWN, "over");
    }
    for (int i = 0; i < self.count; i++) {
        assert_int_equal(self.messages[i].ends, 1);
        assert_true(has_failed || self.messages[i].request.status == TT_OK);
    }
    assert_true(world_destroy(self.world));
    return has_failed;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        world_config config = {.driver = i % 2 == 0 ? WORLD_SHUFFLE : WORLD_SIM,
                               .size = RANKS,
                               .host_count = 2,
                               .seed = 3,
                               .segment_bytes = 64,
                               .eager_bytes_max = i < 2 ? 4096 : 0,
                               .fail_at = 1};
        while (starve(config)) {
            config.fail_at++;
        }
        assert_true(config.fail_at > 20);
    }
}

/* Wrong ones that wait, when memory is out from some allocation on. */
static bool starve_wrong(world_config config)
{
    job self = {.world = world_create(&config), .send_count = COUNT};
    if (self.world == NULL) {
        return true;
    }
    for (int i = 0; i < 8; i++) {
        (void)receive(&self, 1);
    }
    for (int i = 0; i < 8; i++) {
        (void)send(&self, 1, i);
    }
    settle(&self);
    (void)receive(&self, TT_ANY_SOURCE);
    for (int i = 0; i < 3; i++) {
        (void)receive_wrong(&self);
    }
    settle(&self);
    const bool has_failed = world_allocations(self.world) >= config.fail_at;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_control_shut_down(world_control(self.world, rank), TT_ERR_SHUT_DOWN, "over");
    }
    for (int i = 0; i < self.count; i++) {
        assert_int_equal(self.messages[i].ends, 1);
    }
    assert_true(world_destroy(self.world));
    return has_failed;
}

static void test_wrong_receives_need_no_memory_to_fail(void **state)
{
    (void)state;
    bool has_failed = true;
    for (uint64_t fail_at = 1; has_failed; fail_at++) {
        has_failed = starve_wrong((world_config){.driver = WORLD_SHUFFLE,
                                                 .size = RANKS,
                                                 .host_count = 2,
                                                 .seed = 3,
                                                 .segment_bytes = 64,
                                                 .eager_bytes_max = 4096,
                                                 .fail_at = fail_at,
                                                 .fails_forever = true});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_of_each_sender_arrive_in_its_order),
        cmocka_unit_test(test_senders_take_turns),
        cmocka_unit_test(test_a_named_source_does_not_overtake),
        cmocka_unit_test(test_named_sources_cost_no_additional_frame),
        cmocka_unit_test(test_a_cancelled_receive_takes_no_message),
        cmocka_unit_test(test_a_cancelled_receive_lets_others_pass),
        cmocka_unit_test(test_a_message_that_was_taken_is_not_given_back),
        cmocka_unit_test(test_a_send_that_was_cancelled_keeps_its_place),
        cmocka_unit_test(test_a_deadline_takes_no_message),
        cmocka_unit_test(test_an_unlike_message_fails_only_its_receive),
        cmocka_unit_test(test_a_wrong_receive_fails_at_its_turn),
        cmocka_unit_test(test_a_receive_waits_for_its_turn_and_its_place),
        cmocka_unit_test(test_a_death_is_named),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_wrong_receives_need_no_memory_to_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
