/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse_test.c - every case of misuse.h on real transports and in simulation: the same message on
 * every rank within two seconds, with the tensor and who said what; the job goes on.
 *
 * `test_conformance_misuse 8` runs 8 ranks instead of 2 and 4.
 *
 * Labels: asan tsan
 * Timeout: 300
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/misuse.h"
#include "conformance/ranks.h"
#include "conformance/world.h"

enum { CASES_MIN = 200 };
static const double seconds_max = 2.0;
static bool is_eight; /* set once, before the tests */

static void complain(const misuse_case *one, int round, const misuse_outcome *outcome,
                     const char *wrong)
{
    char text[160];
    misuse_describe(one, text, sizeof(text));
    (void)fprintf(stderr, "%s: round %d: %s\n", text, round, wrong);
    for (int rank = 0; rank < one->size; rank++) {
        for (int i = 0; i < MISUSE_CALLS_MAX; i++) {
            (void)fprintf(stderr, "  rank %d call %d: %s: %s\n", rank, i,
                          tutti_status_text(outcome->statuses[rank][i]), outcome->texts[rank][i]);
        }
    }
}

/* ---- real ranks ---- */

typedef struct board {
    misuse_outcome outcome;
    int cases;
} board;

static void run_round(ranks_self *self, const misuse_case *one, int round, misuse_memory *memory)
{
    board *shared = self->user;
    tutti_call calls[MISUSE_CALLS_MAX];
    tutti_handle *handles[MISUSE_CALLS_MAX] = {NULL};
    const int count = misuse_calls(one, round, self->rank, memory, calls);
    const double before_s = ranks_clock_s();
    memset(shared->outcome.texts[self->rank], 0, sizeof(shared->outcome.texts[0]));
    memset(shared->outcome.statuses[self->rank], 0, sizeof(shared->outcome.statuses[0]));
    if (count == 1 && one->state != MISUSE_GROUPED) {
        shared->outcome.statuses[self->rank][0] = tutti_run(self->context, &calls[0]);
        (void)snprintf(shared->outcome.texts[self->rank][0], MISUSE_TEXT_BYTES, "%s",
                       shared->outcome.statuses[self->rank][0] == TUTTI_OK
                           ? ""
                           : tutti_last_error(self->context));
        EXPECT(ranks_clock_s() - before_s < seconds_max);
        return;
    }
    for (int i = 0; i < count; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &calls[i], &handles[i]));
    }
    for (int i = 0; i < count; i++) {
        shared->outcome.statuses[self->rank][i] = tutti_wait(handles[i], -1.0);
        (void)snprintf(shared->outcome.texts[self->rank][i], MISUSE_TEXT_BYTES, "%s",
                       tutti_handle_error(handles[i]));
        tutti_handle_free(handles[i]);
    }
    EXPECT(ranks_clock_s() - before_s < seconds_max);
}

static void misuse_body(ranks_self *self)
{
    board *shared = self->user;
    misuse_memory *memory = aligned_alloc(64, sizeof(*memory));
    misuse_case one;
    EXPECT(memory != NULL);
    for (int number = 0; misuse_at(number, self->size, &one); number++) {
        for (int round = 0; round < misuse_rounds(&one); round++) {
            run_round(self, &one, round, memory);
            tutti_counters counters = TUTTI_COUNTERS_INIT;
            EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
            ranks_meet(self);
            const char *wrong = misuse_judge(&one, round, &shared->outcome, counters.mode);
            if (wrong != NULL) {
                complain(&one, round, &shared->outcome, wrong);
                abort();
            }
            EXPECT(misuse_is_wrong(&one, round) || misuse_is_right(&one, memory));
            ranks_meet(self);
        }
        if (self->rank == 0) {
            shared->cases = number + 1;
        }
    }
    free(memory);
}

static void run_real(int size, const char *transport)
{
    board *shared = calloc(1, sizeof(*shared));
    assert_non_null(shared);
    assert_int_equal(setenv("TUTTI_CONTROL", "plan", 1), 0);
    assert_int_equal(setenv("TUTTI_LOG", "error", 1), 0); /* that tensors leave the plan is meant */
    const double before_s = ranks_clock_s();
    ranks_run(size, transport, misuse_body, shared);
    assert_int_equal(unsetenv("TUTTI_CONTROL"), 0);
    print_message("%d cases of misuse, %d ranks over %s, %.1f s\n", shared->cases, size, transport,
                  ranks_clock_s() - before_s);
    assert_true(shared->cases >= CASES_MIN);
    free(shared);
}

static void test_real_ranks_are_told_the_same_and_go_on(void **state)
{
    (void)state;
    run_real(is_eight ? 8 : 2, "shm");
    run_real(is_eight ? 8 : 4, "tcp");
}

/* ---- simulated ranks ---- */

typedef struct sim_rank {
    misuse_memory *memory;
    tt_request requests[MISUSE_CALLS_MAX];
    bool is_over[MISUSE_CALLS_MAX];
    int count;
} sim_rank;

static void on_finished(tt_request *request)
{
    *(bool *)request->owner = true;
}

static void request_of(const tutti_call *call, tt_request *request)
{
    *request = (tt_request){.collective = (tt_collective)call->collective,
                            .dtype = (tt_dtype)call->dtype,
                            .redop = (tt_redop)call->op,
                            .root = (uint32_t)call->root,
                            .name = call->name,
                            .group = call->group,
                            .group_size = (uint32_t)call->group_size,
                            .is_by_active = (call->flags & TUTTI_BY_ACTIVE) != 0,
                            .input = call->input,
                            .output = call->output,
                            .count = call->count,
                            .output_capacity = call->output_capacity,
                            .input_counts = call->input_counts,
                            .output_counts = call->output_counts,
                            .is_uneven = call->output_counts != NULL,
                            .prescale = call->prescale,
                            .postscale = call->postscale,
                            .finished = on_finished,
                            .status = TT_IN_PROGRESS};
    if (call->device >= 0) { /* control knows no devices: the door objects */
        request->objection = TT_ERR_UNSUPPORTED;
        (void)snprintf(request->error, sizeof(request->error), "device %d", call->device);
    }
}

static void sim_round(test_world *world, const misuse_case *one, int round, sim_rank *ranks)
{
    misuse_outcome outcome = {0};
    const uint64_t before_ns = world_now(world);
    for (int rank = 0; rank < one->size; rank++) {
        tutti_call calls[MISUSE_CALLS_MAX];
        sim_rank *self = &ranks[rank];
        self->count = misuse_calls(one, round, rank, self->memory, calls);
        for (int i = 0; i < self->count; i++) {
            request_of(&calls[i], &self->requests[i]);
            self->is_over[i] = false;
            self->requests[i].owner = &self->is_over[i];
            world_submit(world, (uint32_t)rank, &self->requests[i]);
        }
    }
    assert_true(world_run(world));
    assert_true(world_now(world) - before_ns < (uint64_t)(seconds_max * 1e9));
    for (int rank = 0; rank < one->size; rank++) {
        for (int i = 0; i < ranks[rank].count; i++) {
            assert_true(ranks[rank].is_over[i]);
            outcome.statuses[rank][i] = (tutti_status)ranks[rank].requests[i].status;
            (void)snprintf(outcome.texts[rank][i], MISUSE_TEXT_BYTES, "%s",
                           ranks[rank].requests[i].error);
        }
        assert_true(misuse_is_wrong(one, round) || misuse_is_right(one, ranks[rank].memory));
    }
    const char *mode = "";
    assert_non_null(tt_control_set_count(world_control(world, 0), 0, &mode));
    const char *wrong = misuse_judge(one, round, &outcome, mode);
    if (wrong != NULL) {
        complain(one, round, &outcome, wrong);
        fail();
    }
}

static void run_simulated(int size)
{
    const world_config config = {.driver = WORLD_SIM,
                                 .size = (uint32_t)size,
                                 .host_count = 2,
                                 .seed = (uint64_t)size,
                                 .segment_bytes = 1024,
                                 .eager_bytes_max = 1024,
                                 .negotiate_mode = TT_NEGOTIATE_PLAN};
    test_world *world = world_create(&config);
    sim_rank ranks[MISUSE_SIZE_MAX];
    misuse_case one;
    int number = 0;
    for (int rank = 0; rank < size; rank++) {
        ranks[rank].memory = aligned_alloc(64, sizeof(misuse_memory));
        assert_non_null(ranks[rank].memory);
    }
    for (; misuse_at(number, size, &one); number++) {
        for (int round = 0; round < misuse_rounds(&one); round++) {
            sim_round(world, &one, round, ranks);
        }
    }
    for (int rank = 0; rank < size; rank++) {
        free(ranks[rank].memory);
    }
    assert_true(world_destroy(world));
    print_message("%d cases of misuse, %d ranks simulated\n", number, size);
    assert_true(number >= CASES_MIN);
}

static void test_simulated_ranks_are_told_the_same_and_go_on(void **state)
{
    (void)state;
    run_simulated(2);
    run_simulated(4);
    run_simulated(8);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated_ranks_are_told_the_same_and_go_on),
        cmocka_unit_test(test_real_ranks_are_told_the_same_and_go_on),
    };
    is_eight = count > 1 && strcmp(words[1], "8") == 0;
    return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
