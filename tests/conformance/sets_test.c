/* SPDX-License-Identifier: Apache-2.0
 *
 * sets_test.c - process sets are created and removed: memory of removed ones, and calls in flight.
 *
 * Labels: asan tsan
 * Timeout: 300
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "api/api_internal.h"
#include "conformance/ranks.h"
#include "control/control_internal.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

enum { SIZE = 3, CYCLES = IS_SANITIZED ? 300 : 3000, WARM_UP = 100, PATIENCE_S = 60 };

static tutti_call sum_on(tutti_set set, int32_t *value, const char *name)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.input = call.output = value;
    call.count = 1;
    call.dtype = TUTTI_I32;
    call.set = set;
    call.name = name;
    return call;
}

static uint32_t count_sets(tutti_context *context)
{
    uint32_t count = 0;
    tt_drive_acquire(context);
    for (const tt_set *set = context->control->sets; set != NULL; set = set->next) {
        count++;
    }
    tt_drive_release(context);
    return count;
}

/* Waits until the members have agreed that none has an open call; how long that takes is open. */
static void await_release(ranks_self *self)
{
    for (int i = 0; i < PATIENCE_S * 1000 && count_sets(self->context) > 1; i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    EXPECT_SAY(count_sets(self->context) == 1, "%u sets are left", count_sets(self->context));
}

/* A barrier of both members, in place of a key-value store. */
static tutti_status pair_meet(ranks_self *self)
{
    int32_t word = 0, answer = 0;
    tutti_call send = sum_on(TUTTI_WORLD, &word, NULL),
               receive = sum_on(TUTTI_WORLD, &answer, NULL);
    send.collective = TUTTI_SEND;
    receive.collective = TUTTI_RECEIVE;
    send.root = receive.root = 1 - self->rank;
    tutti_handle *sent;
    tutti_status status = tutti_start(self->context, &send, &sent);
    status = status == TUTTI_OK ? tutti_run(self->context, &receive) : status;
    status = status == TUTTI_OK ? tutti_wait(sent, -1.0) : status;
    tutti_handle_free(sent);
    return status;
}

/* A set of the first two, an unnamed and a named call on it, and its removal. */
static void cycle(ranks_self *self)
{
    const int ranks[] = {0, 1};
    tutti_set set;
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, ranks, 2, &set));
    for (int i = 0; i < 2 && self->rank < 2; i++) {
        int32_t value = self->rank + 1;
        const tutti_call call = sum_on(set, &value, i == 1 ? "tensor" : NULL);
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        EXPECT_SAY(value == 3, "%d", value);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_set_remove(self->context, set));
}

static void note_used(const ranks_self *self, size_t *used_out)
{
    if (self->rank == 0) {
        *used_out = mallinfo2().uordblks;
    }
}

static void memory_body(ranks_self *self)
{
    size_t *used = self->user;
    for (int i = 0; i < CYCLES; i++) {
        if (i == WARM_UP) {
            await_release(self);
            ranks_meet(self);
            note_used(self, &used[0]);
            ranks_meet(self);
        }
        cycle(self);
    }
    await_release(self);
    ranks_meet(self);
    note_used(self, &used[1]);
    ranks_meet(self);
}

static void test_removed_sets_leave_no_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        size_t used[2] = {0};
        ranks_run(SIZE, i == 0 ? "shm" : "tcp", memory_body, used);
        /* One set takes some ten thousand bytes, and the last calls on the world are remembered; in
         * sanitized builds both are 0. */
        assert_true(used[1] < used[0] + 4 * 1024 * 1024);
    }
}

/* Members remove the set at different times, with calls at different stages. */
static void in_flight_body(ranks_self *self)
{
    enum { CALLS = 20 };
    const int ranks[] = {2, 0, 1};
    for (int round = 0; round < 20; round++) {
        int32_t values[2 * CALLS];
        tutti_handle *handles[2 * CALLS];
        tutti_set set;
        EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, ranks, SIZE, &set));
        for (int i = 0; i < 2 * CALLS; i++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "tensor %d", i);
            values[i] = self->rank + i;
            const tutti_call call = sum_on(set, &values[i], i < CALLS ? NULL : name);
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
        }
        EXPECT_STATUS(TUTTI_OK, tutti_set_remove(self->context, set));
        int32_t late = 0;
        const tutti_call call = sum_on(set, &late, NULL);
        EXPECT(tutti_run(self->context, &call) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(strstr(tutti_last_error(self->context), "does not exist") != NULL);
        for (int i = 0; i < 2 * CALLS; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
            EXPECT_SAY(values[i] == 3 + 3 * i, "call %d gave %d", i, values[i]);
            tutti_handle_free(handles[i]);
        }
    }
    await_release(self);
}

static void test_calls_in_flight_outlive_their_set(void **state)
{
    (void)state;
    ranks_run_both(SIZE, in_flight_body, NULL);
}

/* Without a message: rank 2 is no member, and does nothing. */
static void keyed_body(ranks_self *self)
{
    const int ranks[] = {1, 0};
    tutti_set set = 0, other = 0;
    for (uint32_t key = 7; key < 27 && self->rank < 2; key++) {
        EXPECT_STATUS(TUTTI_OK, tutti_set_create_keyed(self->context, ranks, 2, key, &set));
        EXPECT(tutti_set_rank(self->context, set) == 1 - self->rank);
        EXPECT(tutti_set_create_keyed(self->context, ranks, 2, key, &other) ==
               TUTTI_ERR_BAD_ARGUMENT);
        int32_t values[2] = {0};
        EXPECT_STATUS(TUTTI_OK, pair_meet(self));
        tutti_call call = sum_on(set, &values[0], NULL);
        values[0] = values[1] = self->rank + 1;
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        call = sum_on(set, &values[1], "tensor");
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        EXPECT(values[0] == 3 && values[1] == 3);
        EXPECT_STATUS(TUTTI_OK, tutti_set_remove(self->context, set));
        EXPECT(tutti_set_size(self->context, set) == -1);
    }
    EXPECT(tutti_set_create_keyed(self->context, ranks, 2, UINT32_MAX, &other) ==
           TUTTI_ERR_BAD_ARGUMENT);
    await_release(self);
    ranks_meet(self);
}

static void test_members_alone_create_keyed_sets(void **state)
{
    (void)state;
    ranks_run_both(SIZE, keyed_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_removed_sets_leave_no_memory),
        cmocka_unit_test(test_calls_in_flight_outlive_their_set),
        cmocka_unit_test(test_members_alone_create_keyed_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
