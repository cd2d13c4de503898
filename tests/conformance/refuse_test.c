/* SPDX-License-Identifier: Apache-2.0
 *
 * refuse_test.c - a call that a layer above refuses on one rank, or whose parts differ from those
 * expected there, fails on all ranks with that rank's text, and keeps its place in the order.
 *
 * Labels: asan tsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { RANKS = 3, ROOM = 64 };

static void check_usable(ranks_self *self)
{
    int32_t value = self->rank + 1;
    EXPECT_STATUS(TUTTI_OK,
                  tutti_allreduce(self->context, &value, &value, 1, TUTTI_I32, TUTTI_SUM));
    EXPECT_SAY(value == self->size * (self->size + 1) / 2, "%d", value);
}

static void expect_words(ranks_self *self, tutti_status status, const char *words)
{
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, status);
    const char *text = tutti_last_error(self->context);
    EXPECT_SAY(strstr(text, "rank 1") != NULL && strstr(text, words) != NULL, "%s", text);
}

/* ---- refused ---- */

static void refused_once(ranks_self *self, tutti_collective collective, const char *name)
{
    int32_t input[ROOM] = {0}, output[ROOM];
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = collective;
    call.dtype = TUTTI_I32;
    call.count = 4;
    call.name = name;
    call.input = input;
    call.output = output;
    const tutti_status status = self->rank == 1
                                    ? tutti_refuse(self->context, &call, "output has shape (7, 2)")
                                    : tutti_run(self->context, &call);
    expect_words(self, status, "output has shape (7, 2)");
    check_usable(self);
}

static void refused_body(ranks_self *self)
{
    static const tutti_collective collectives[] = {
        TUTTI_ALLREDUCE, TUTTI_ALLGATHER, TUTTI_REDUCESCATTER, TUTTI_ALLTOALL, TUTTI_BARRIER};
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
        refused_once(self, collectives[i], NULL);
        refused_once(self, collectives[i], "named");
    }
    tutti_call call = TUTTI_CALL_INIT;
    int32_t value = 0;
    call.collective = self->rank == 0 ? TUTTI_SEND : TUTTI_RECEIVE;
    call.count = 1;
    call.dtype = TUTTI_I32;
    call.input = call.output = &value;
    call.root = self->rank == 0 ? 1 : 0;
    if (self->rank == 1) {
        expect_words(self, tutti_refuse(self->context, &call, "no room"), "no room");
    } else if (self->rank == 0) { /* a short message may have been in flight */
        const tutti_status status = tutti_run(self->context, &call);
        EXPECT(status == TUTTI_OK || status == TUTTI_ERR_BAD_ARGUMENT);
    }
    check_usable(self);
}

static void test_a_call_that_one_rank_refuses_fails_everywhere(void **state)
{
    (void)state;
    ranks_run(RANKS, "shm", refused_body, NULL);
    ranks_run(RANKS, "tcp", refused_body, NULL);
}

/* ---- expected ---- */

static void expected_once(ranks_self *self, tutti_collective collective, bool is_right)
{
    int32_t input[ROOM] = {0}, output[ROOM];
    uint64_t input_counts[RANKS], output_counts[RANKS];
    const bool is_gather = collective == TUTTI_ALLGATHER;
    for (int peer = 0; peer < RANKS; peer++) { /* rank r sends r + 1, or peer + 1 to each peer */
        input_counts[peer] = (uint64_t)peer + 1;
        output_counts[peer] = is_gather ? (uint64_t)peer + 1 : (uint64_t)self->rank + 1;
    }
    for (int i = 0; i < ROOM; i++) {
        input[i] = self->rank;
    }
    if (!is_right && self->rank == 1) { /* the same total */
        output_counts[0]++;
        output_counts[2]--;
    }
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = collective;
    call.dtype = TUTTI_I32;
    call.input = input;
    call.output = output;
    call.count = (uint64_t)self->rank + 1;
    call.output_capacity = ROOM;
    call.input_counts = is_gather ? NULL : input_counts;
    call.output_counts = output_counts;
    call.flags = TUTTI_EXPECTED;
    const tutti_status status = tutti_run(self->context, &call);
    if (!is_right) {
        expect_words(self, status, "are expected");
        return;
    }
    EXPECT_STATUS(TUTTI_OK, status);
    for (int peer = 0, at = 0; peer < RANKS; at += (int)output_counts[peer], peer++) {
        EXPECT_SAY(output[at] == peer, "%d", output[at]);
    }
}

static void expected_body(ranks_self *self)
{
    for (int round = 0; round < 3; round++) {
        expected_once(self, TUTTI_ALLGATHER, true);
        expected_once(self, TUTTI_ALLGATHER, false);
        expected_once(self, TUTTI_ALLTOALL, false);
        expected_once(self, TUTTI_ALLTOALL, true);
        check_usable(self);
    }
}

static void test_parts_that_are_not_expected_fail_everywhere(void **state)
{
    (void)state;
    ranks_run(RANKS, "shm", expected_body, NULL);
    ranks_run(RANKS, "tcp", expected_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_that_one_rank_refuses_fails_everywhere),
        cmocka_unit_test(test_parts_that_are_not_expected_fail_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
