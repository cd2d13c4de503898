/* SPDX-License-Identifier: Apache-2.0
 *
 * any_source_test.c - TUTTI_ANY_SOURCE on real ranks.
 *
 * Goal: messages of several ranks, short and long, that arrive before the receive or after it, are
 * received once each, in each sender's order, and the sender is reported; process sets, persistent
 * calls, ranks that leave, wrong calls. Method: real ranks; the order of sends is not controlled.
 *
 * Labels: asan tsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { SIZE = 4, EACH = 12, LONG = 60000, SHORT = 3 };

static tutti_call call_of(tutti_collective collective, int peer, int tag, int32_t *values,
                          uint64_t count)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = collective;
    call.dtype = TUTTI_I32;
    call.root = peer;
    call.tag = tag;
    call.count = count;
    call.input = call.output = values;
    return call;
}

/* Values of message `number` from `rank`. */
static int32_t *filled(int rank, int number, uint64_t count)
{
    int32_t *values = malloc(count * sizeof(*values));
    EXPECT(values != NULL);
    for (uint64_t i = 0; i < count; i++) {
        values[i] = 1000 * rank + number;
    }
    return values;
}

/* ---- several senders ---- */

static void send_all(ranks_self *self, int tag, uint64_t count)
{
    tutti_handle *handles[EACH];
    int32_t *values[EACH];
    for (int i = 0; i < EACH; i++) {
        values[i] = filled(self->rank, i, count);
        const tutti_call call = call_of(TUTTI_SEND, 0, tag, values[i], count);
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
    for (int i = 0; i < EACH; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        tutti_handle_free(handles[i]);
        free(values[i]);
    }
}

/* Half of them posted at once, the others one by one. */
static void receive_all(ranks_self *self, int tag, uint64_t count)
{
    enum { TOTAL = EACH * (SIZE - 1), POSTED = TOTAL / 2 };
    tutti_handle *handles[POSTED];
    int32_t *values[TOTAL];
    int sources[TOTAL], next[SIZE] = {0};
    for (int i = 0; i < TOTAL; i++) {
        values[i] = filled(0, -1, count);
        tutti_call call = call_of(TUTTI_RECEIVE, TUTTI_ANY_SOURCE, tag, values[i], count);
        call.source_out = &sources[i];
        if (i < POSTED) {
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
        } else {
            EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        }
    }
    for (int i = 0; i < TOTAL; i++) {
        if (i < POSTED) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
            tutti_handle_free(handles[i]);
        }
        const int source = sources[i];
        EXPECT_SAY(source > 0 && source < SIZE, "%d", source);
        const int32_t value = 1000 * source + next[source]++;
        EXPECT_SAY(values[i][0] == value && values[i][count - 1] == value, "%d, not %d",
                   values[i][0], value);
        free(values[i]);
    }
}

static void several_senders(ranks_self *self)
{
    static const uint64_t counts[] = {SHORT, LONG, 0x1000 / sizeof(int32_t)};
    for (int i = 0; i < 6; i++) {
        const int tag = 13 * i; /* a rank that is done begins the next round */
        if (i < 3) {
            ranks_meet(self); /* receives are posted first, or messages arrive first, or both */
        }
        if (self->rank == 0) {
            receive_all(self, tag, counts[i % 3]);
        } else {
            send_all(self, tag, counts[i % 3]);
        }
    }
    EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context));
}

static void test_messages_of_several_senders(void **state)
{
    (void)state;
    ranks_run_both(SIZE, several_senders, NULL);
}

/* ---- beside other calls ---- */

/* Every rank receives from any rank and from a named one, under two tags, while sums run. */
static void beside_others(ranks_self *self)
{
    for (int round = 0; round < 8; round++) {
        const uint64_t count = round % 2 == 0 ? SHORT : LONG;
        const int there = (self->rank + 1) % self->size;
        const int back = (self->rank + self->size - 1) % self->size;
        int32_t *buffers[6];
        tutti_handle *handles[6];
        int source = -1, named = -1;
        for (int i = 0; i < 6; i++) {
            buffers[i] = filled(self->rank, i, count);
        }
        tutti_call calls[6] = {
            call_of(TUTTI_RECEIVE, TUTTI_ANY_SOURCE, 5, buffers[0], count),
            call_of(TUTTI_RECEIVE, back, 5, buffers[1], count),
            call_of(TUTTI_RECEIVE, back, 6, buffers[2], count),
            call_of(TUTTI_SEND, there, 6, buffers[3], count),
            call_of(TUTTI_SEND, there, 5, buffers[4], count),
            call_of(TUTTI_SEND, there, 5, buffers[5], count),
        };
        calls[0].source_out = &source;
        calls[1].source_out = &named;
        for (int i = 0; i < 6; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &calls[i], &handles[i]));
        }
        int32_t sum = 1;
        EXPECT_STATUS(TUTTI_OK,
                      tutti_allreduce(self->context, &sum, &sum, 1, TUTTI_I32, TUTTI_SUM));
        EXPECT(sum == self->size);
        for (int i = 0; i < 6; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
            tutti_handle_free(handles[i]);
        }
        EXPECT(source == back && named == back);
        EXPECT_SAY(buffers[0][count - 1] == 1000 * back + 4, "%d", buffers[0][count - 1]);
        EXPECT_SAY(buffers[1][count - 1] == 1000 * back + 5, "%d", buffers[1][count - 1]);
        EXPECT_SAY(buffers[2][count - 1] == 1000 * back + 3, "%d", buffers[2][count - 1]);
        for (int i = 0; i < 6; i++) {
            free(buffers[i]);
        }
    }
}

static void test_any_source_beside_named_ones(void **state)
{
    (void)state;
    ranks_run_both(3, beside_others, NULL);
}

/* ---- process sets, persistent calls ---- */

/* Member numbers differ from ranks. */
static void in_a_set(ranks_self *self)
{
    static const int members[] = {3, 1, 0};
    tutti_set set;
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, members, 3, &set));
    if (self->rank == 3) { /* member 0 */
        int32_t values[SHORT] = {0};
        int source = -1, seen = 0;
        tutti_call call = call_of(TUTTI_RECEIVE, TUTTI_ANY_SOURCE, 1, values, SHORT);
        call.set = set;
        call.source_out = &source;
        tutti_handle *handle;
        EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
        for (int i = 0; i < 2; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_restart(handle));
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
            EXPECT_SAY(source == 1 || source == 2, "%d", source);
            EXPECT_SAY(values[0] == 1000 * members[source], "%d", values[0]);
            seen |= source;
        }
        EXPECT(seen == 3);
        tutti_handle_free(handle);
    } else if (self->rank != 2) {
        int32_t *values = filled(self->rank, 0, SHORT);
        tutti_call call = call_of(TUTTI_SEND, 0, 1, values, SHORT);
        call.set = set;
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        free(values);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_set_remove(self->context, set));
}

static void test_sources_are_members_of_the_set(void **state)
{
    (void)state;
    ranks_run_both(4, in_a_set, NULL);
}

/* ---- ends ---- */

static void cancelled_and_late(ranks_self *self)
{
    int32_t values[SHORT] = {0};
    int source = -1;
    if (self->rank == 0) {
        tutti_handle *handle;
        tutti_call call = call_of(TUTTI_RECEIVE, TUTTI_ANY_SOURCE, 3, values, SHORT);
        call.source_out = &source;
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
        EXPECT_STATUS(TUTTI_OK, tutti_cancel(handle));
        EXPECT_STATUS(TUTTI_ERR_CANCELLED, tutti_wait(handle, -1.0));
        tutti_handle_free(handle);
        call.timeout_s = 0.05;
        EXPECT_STATUS(TUTTI_ERR_TIMED_OUT, tutti_run(self->context, &call));
        EXPECT_SAY(strstr(tutti_last_error(self->context), "tag 3 from any rank") != NULL, "%s",
                   tutti_last_error(self->context));
    }
    ranks_meet(self);
    if (self->rank == 1) {
        values[0] = 11;
        const tutti_call call = call_of(TUTTI_SEND, 0, 3, values, SHORT);
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    } else if (self->rank == 0) {
        tutti_call call = call_of(TUTTI_RECEIVE, TUTTI_ANY_SOURCE, 3, values, SHORT);
        call.source_out = &source;
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        EXPECT(values[0] == 11 && source == 1);
    }
}

static void test_cancel_and_deadline_take_no_message(void **state)
{
    (void)state;
    ranks_run_both(3, cancelled_and_late, NULL);
}

/* Messages sent before the goodbye are received; after them no member is left. */
static void they_leave(ranks_self *self)
{
    int32_t value = self->rank;
    ranks_meet(self); /* all have joined */
    if (self->rank != 0) {
        EXPECT_STATUS(TUTTI_OK, tutti_send(self->context, &value, 1, TUTTI_I32, 0));
        EXPECT_STATUS(TUTTI_OK, tutti_shutdown(self->context));
        self->context = NULL;
        return;
    }
    int32_t sum = 0;
    for (int i = 1; i < self->size; i++) {
        EXPECT_STATUS(TUTTI_OK,
                      tutti_receive(self->context, &value, 1, TUTTI_I32, TUTTI_ANY_SOURCE));
        sum += value;
    }
    EXPECT_SAY(sum == 3, "%d", sum);
    EXPECT_STATUS(TUTTI_ERR_PEER_LEFT,
                  tutti_receive(self->context, &value, 1, TUTTI_I32, TUTTI_ANY_SOURCE));
    EXPECT_SAY(strstr(tutti_last_error(self->context), "has left") != NULL, "%s",
               tutti_last_error(self->context));
}

static void test_a_receive_fails_when_all_members_have_left(void **state)
{
    (void)state;
    ranks_run_both(3, they_leave, NULL);
}

static void wrong_calls(ranks_self *self)
{
    int32_t value = 1;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT,
                  tutti_send(self->context, &value, 1, TUTTI_I32, TUTTI_ANY_SOURCE));
    EXPECT_SAY(strstr(tutti_last_error(self->context), "any source") != NULL, "%s",
               tutti_last_error(self->context));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT,
                  tutti_receive(self->context, NULL, 1, TUTTI_I32, TUTTI_ANY_SOURCE));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_receive(self->context, &value, 1, TUTTI_I32, -2));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT,
                  tutti_broadcast(self->context, &value, 1, TUTTI_I32, TUTTI_ANY_SOURCE));
    tutti_set sets[2];
    for (int i = 0; i < self->size; i++) {
        const int member[] = {i};
        EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, member, 1, &sets[i]));
    }
    tutti_call call = call_of(TUTTI_RECEIVE, TUTTI_ANY_SOURCE, 0, &value, 1);
    call.set = sets[self->rank];
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_run(self->context, &call));
    EXPECT_SAY(strstr(tutti_last_error(self->context), "no other rank") != NULL, "%s",
               tutti_last_error(self->context));
    EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context));
}

static void test_wrong_calls_are_refused(void **state)
{
    (void)state;
    ranks_run_both(2, wrong_calls, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_of_several_senders),
        cmocka_unit_test(test_any_source_beside_named_ones),
        cmocka_unit_test(test_sources_are_members_of_the_set),
        cmocka_unit_test(test_cancel_and_deadline_take_no_message),
        cmocka_unit_test(test_a_receive_fails_when_all_members_have_left),
        cmocka_unit_test(test_wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
