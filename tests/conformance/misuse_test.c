/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse_test.c - every case of misuse.h on real transports and in simulation: the same message on
 * every rank within two seconds, with the tensor and each rank's claim; the job continues.
 *
 * `test_conformance_misuse 8` runs 8 ranks instead of 2 and 4.
 *
 * Labels: asan tsan
 * Timeout: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/misuse.h"
#include "conformance/ranks.h"
#include "conformance/world.h"

enum { CASES_MIN = 200, SEEDS = 4, STALLS_MAX = 3 };
static const double seconds_max = 2.0, stall_seconds_max = 60.0;
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
    atomic_int stalls; /* late answers */
} board;

/* A shared host may stall for seconds once in a while: a few answers may be late. */
static void expect_in_time(const ranks_self *self, atomic_int *stalls, double before_s)
{
    const double took_s = ranks_clock_s() - before_s;
    const int late = took_s < seconds_max ? 0 : atomic_fetch_add(stalls, 1) + 1;
    EXPECT_SAY(late <= STALLS_MAX * self->size && took_s < stall_seconds_max,
               "%g s, late answer %d", took_s, late);
}

static void run_round(ranks_self *self, const misuse_case *one, int round, misuse_memory *memory)
{
    board *shared = self->user;
    tutti_call calls[MISUSE_CALLS_MAX];
    tutti_handle *handles[MISUSE_CALLS_MAX] = {NULL};
    const int count = misuse_calls(one, round, self->rank, memory, calls);
    const double before_s = ranks_clock_s();
    memset(shared->outcome.texts[self->rank], 0, sizeof(shared->outcome.texts[0]));
    memset(shared->outcome.statuses[self->rank], 0, sizeof(shared->outcome.statuses[0]));
    if (count == 1 && calls[0].group == NULL) {
        shared->outcome.statuses[self->rank][0] = tutti_run(self->context, &calls[0]);
        (void)snprintf(shared->outcome.texts[self->rank][0], MISUSE_TEXT_BYTES, "%s",
                       shared->outcome.statuses[self->rank][0] == TUTTI_OK
                           ? ""
                           : tutti_last_error(self->context));
        expect_in_time(self, &shared->stalls, before_s);
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
    expect_in_time(self, &shared->stalls, before_s);
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

static void test_real_ranks_get_the_same_error_and_continue(void **state)
{
    (void)state;
    run_real(is_eight ? 8 : 2, "shm");
    run_real(is_eight ? 8 : 4, "tcp");
}

/* ---- names, process sets, groups ---- */

typedef enum refused_what {
    REFUSED_NAME_LONG,
    REFUSED_GROUP_LONG,
    REFUSED_SET_UNKNOWN,
    REFUSED_SET_FOREIGN, /* its only member is rank 0 */
    REFUSED_SET_REMOVED,
    REFUSED_WHATS,
} refused_what;

typedef struct refused_board {
    char texts[MISUSE_SIZE_MAX][MISUSE_TEXT_BYTES];
    tutti_status statuses[MISUSE_SIZE_MAX];
    atomic_int stalls;
} refused_board;

typedef struct refused_sets {
    tutti_set first, removed;
} refused_sets;

static void plain_call(tutti_call *call, float *values, const char *name)
{
    const tutti_call plain = TUTTI_CALL_INIT;
    for (int i = 0; i < 8; i++) {
        values[i] = 1.0F;
    }
    *call = plain;
    call->name = name;
    call->input = values;
    call->output = values;
    call->count = 8;
}

static void run_into(ranks_self *self, const tutti_call *call)
{
    refused_board *shared = self->user;
    const double before_s = ranks_clock_s();
    const tutti_status status = tutti_run(self->context, call);
    expect_in_time(self, &shared->stalls, before_s);
    shared->statuses[self->rank] = status;
    (void)snprintf(shared->texts[self->rank], MISUSE_TEXT_BYTES, "%s",
                   status == TUTTI_OK ? "" : tutti_last_error(self->context));
}

/* A right call of all ranks, with the name that was refused. */
static void go_on(ranks_self *self, const char *name)
{
    float values[8];
    tutti_call call;
    plain_call(&call, values, name);
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT(values[7] == (float)self->size);
}

static void refused_call(const refused_sets *sets, refused_what what, const char *longer,
                         tutti_call *call)
{
    switch (what) {
    case REFUSED_NAME_LONG:
        call->name = longer;
        break;
    case REFUSED_GROUP_LONG:
        call->group = longer;
        call->group_size = 1;
        break;
    case REFUSED_SET_UNKNOWN:
        call->set = 4711;
        break;
    case REFUSED_SET_FOREIGN:
        call->set = sets->first;
        break;
    default:
        call->set = sets->removed;
        break;
    }
}

/* On all ranks, or on one: an error that a rank can detect alone is returned at once, with the same
 * text on every rank, and ranks with right calls are not affected. */
static void refuse(ranks_self *self, const refused_sets *sets, refused_what what, bool is_all)
{
    refused_board *shared = self->user;
    const bool is_wrong = what == REFUSED_SET_FOREIGN
                              ? self->rank > 0 && (is_all || self->rank == 1)
                              : is_all || self->rank == self->size - 1;
    float values[8];
    char name[32], longer[257];
    tutti_call call;
    (void)snprintf(name, sizeof(name), "refused %d.%d", (int)what, is_all);
    if (is_wrong) {
        plain_call(&call, values, name);
        memset(longer, 'n', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = 0;
        refused_call(sets, what, longer, &call);
        run_into(self, &call);
        EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, shared->statuses[self->rank]);
        EXPECT(shared->texts[self->rank][0] != 0);
    }
    ranks_meet(self);
    for (int rank = 2; is_all && rank < self->size; rank++) {
        if (strcmp(shared->texts[rank], shared->texts[1]) != 0) {
            (void)fprintf(stderr, "rank 1: %s\nrank %d: %s\n", shared->texts[1], rank,
                          shared->texts[rank]);
            abort();
        }
    }
    ranks_meet(self);
    go_on(self, name);
}

/* Lists of members differ: all ranks get the same error, and no set is created. */
static void refuse_sets_that_differ(ranks_self *self)
{
    refused_board *shared = self->user;
    const int ranks[2] = {0, self->rank == self->size - 1 ? 0 : 1};
    const int count = self->rank == self->size - 1 ? 1 : 2;
    tutti_set set;
    shared->statuses[self->rank] = tutti_set_create(self->context, ranks, count, &set);
    (void)snprintf(shared->texts[self->rank], MISUSE_TEXT_BYTES, "%s",
                   tutti_last_error(self->context));
    ranks_meet(self);
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, shared->statuses[self->rank]);
    EXPECT(strcmp(shared->texts[self->rank], shared->texts[0]) == 0);
    ranks_meet(self);
    go_on(self, "after sets that differ");
}

/* A name may have any bytes; an error text has no control characters. */
static void refuse_strange_names(ranks_self *self)
{
    static const char name[] = "bell \a line \n escape \x1b[2J \x7f";
    refused_board *shared = self->user;
    float values[8];
    tutti_call call;
    go_on(self, name);
    plain_call(&call, values, name);
    call.count = self->rank == 0 ? 7 : 8;
    run_into(self, &call);
    ranks_meet(self);
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, shared->statuses[self->rank]);
    EXPECT(strcmp(shared->texts[self->rank], shared->texts[0]) == 0);
    for (const char *at = shared->texts[self->rank]; *at != 0; at++) {
        EXPECT((unsigned char)*at >= ' ' && *at != 0x7f);
    }
    ranks_meet(self);
    go_on(self, name);
}

/* Members may be in another order on every rank. */
static void groups_have_no_order(ranks_self *self)
{
    float values[2][8];
    tutti_handle *handles[2];
    for (int i = 0; i < 2; i++) {
        tutti_call call;
        const int which = (i + self->rank) % 2;
        plain_call(&call, values[which], which == 0 ? "member 0" : "member 1");
        call.group = "either way";
        call.group_size = 2;
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        tutti_handle_free(handles[i]);
        EXPECT(values[i][0] == (float)self->size);
    }
}

static void refused_body(ranks_self *self)
{
    const int first[1] = {0};
    refused_sets sets;
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, first, 1, &sets.first));
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, first, 1, &sets.removed));
    EXPECT_STATUS(TUTTI_OK, tutti_set_remove(self->context, sets.removed));
    for (int what = 0; what < REFUSED_WHATS; what++) {
        refuse(self, &sets, (refused_what)what, false);
        refuse(self, &sets, (refused_what)what, true);
    }
    refuse_sets_that_differ(self);
    refuse_strange_names(self);
    groups_have_no_order(self);
}

static void run_refused(int size, const char *transport)
{
    refused_board *shared = calloc(1, sizeof(*shared));
    assert_non_null(shared);
    ranks_run(size, transport, refused_body, shared);
    free(shared);
}

static void test_wrong_names_and_sets_are_refused_alike(void **state)
{
    (void)state;
    run_refused(is_eight ? 8 : 2, "shm");
    run_refused(is_eight ? 8 : 4, "tcp");
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
    if (!world_run(world)) {
        complain(one, round, &outcome, "it does not end");
        fail();
    }
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

static void run_simulated(int size, uint64_t seed)
{
    const world_config config = {.driver = WORLD_SIM,
                                 .size = (uint32_t)size,
                                 .host_count = 2,
                                 .seed = seed,
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

static void test_simulated_ranks_get_the_same_error_and_continue(void **state)
{
    (void)state;
    for (int size = 2; size <= 8; size *= 2) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            run_simulated(size, seed);
        }
    }
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated_ranks_get_the_same_error_and_continue),
        cmocka_unit_test(test_wrong_names_and_sets_are_refused_alike),
        cmocka_unit_test(test_real_ranks_get_the_same_error_and_continue),
    };
    is_eight = count > 1 && strcmp(words[1], "8") == 0;
    return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
