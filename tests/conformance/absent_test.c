/* SPDX-License-Identifier: Apache-2.0
 *
 * absent_test.c - named calls that not every rank makes: some have joined, some are late.
 *
 * Labels: asan tsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { SIZE = 3, COUNT = 5, PLANNED_AFTER = 12 };

/* ---- ranks that have joined ---- */

typedef struct kind {
    tutti_collective collective;
    int root;
    const char *name;
    bool has_all; /* completes if begun before the join was known: rank 0 contributes nothing */
} kind;

static const kind kinds[] = {
    {TUTTI_BROADCAST, 0, "from the joined", false}, {TUTTI_BROADCAST, 1, "from another", true},
    {TUTTI_ALLGATHER, 0, "gathered", false},        {TUTTI_ALLTOALL, 0, "exchanged", false},
    {TUTTI_REDUCESCATTER, 0, "scattered", false},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

typedef struct buffers {
    int32_t input[SIZE * COUNT], output[SIZE * COUNT];
} buffers;

static tutti_call call_of(const kind *one, const char *prefix, char *name, buffers *memory)
{
    tutti_call call = TUTTI_CALL_INIT;
    (void)snprintf(name, 64, "%s %s", prefix, one->name);
    call.collective = one->collective;
    call.dtype = TUTTI_I32;
    call.count = COUNT;
    call.root = one->root;
    call.name = name;
    call.input = memory->input;
    call.output = one->collective == TUTTI_BROADCAST ? memory->input : memory->output;
    return call;
}

static void run_each(ranks_self *self, const char *prefix, bool fails)
{
    for (int i = 0; i < KINDS; i++) {
        char name[64];
        buffers memory = {.input = {self->rank}};
        const tutti_call call = call_of(&kinds[i], prefix, name, &memory);
        EXPECT_STATUS(fails ? TUTTI_ERR_PEER_LEFT : TUTTI_OK, tutti_run(self->context, &call));
        const char *error = tutti_last_error(self->context);
        EXPECT_SAY(!fails || (strstr(error, name) != NULL && strstr(error, "rank 0 has joined")),
                   "%s", error);
    }
}

/* Rank 0 joins after the others have begun planned calls, which need no message. */
static void begun_then_joined(ranks_self *self)
{
    tutti_handle *handles[KINDS];
    char names[KINDS][64];
    buffers memory[KINDS] = {0};
    for (int i = 0; i < KINDS && self->rank != 0; i++) {
        const tutti_call call = call_of(&kinds[i], "planned", names[i], &memory[i]);
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
    ranks_meet(self);
    if (self->rank == 0) {
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, NULL));
        return;
    }
    for (int i = 0; i < KINDS; i++) {
        const tutti_status status = tutti_wait(handles[i], -1.0);
        const char *error = tutti_handle_error(handles[i]);
        EXPECT_SAY(status == (kinds[i].has_all ? TUTTI_OK : TUTTI_ERR_PEER_LEFT), "%s: %s",
                   names[i], error);
        EXPECT_SAY(status == TUTTI_OK || strstr(error, "rank 0 has joined") != NULL, "%s", error);
        tutti_handle_free(handles[i]);
    }
}

static void others_need_all(ranks_self *self)
{
    run_each(self, "cached", false);
    for (int step = 0; step < PLANNED_AFTER; step++) {
        run_each(self, "planned", false);
    }
    const uint64_t before = ranks_counters(self).planned;
    run_each(self, "planned", false);
    EXPECT(ranks_counters(self).planned == before + KINDS);
    begun_then_joined(self);
    if (self->rank != 0) {
        run_each(self, "planned", true);
        run_each(self, "cached", true);
        run_each(self, "fresh", true);
        int32_t value = 1;
        tutti_call call = TUTTI_CALL_INIT;
        call.dtype = TUTTI_I32;
        call.count = 1;
        call.name = "sum";
        call.input = call.output = &value;
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        EXPECT(value == SIZE - 1);
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, NULL));
    }
    run_each(self, "planned", false);
    run_each(self, "cached", false);
    run_each(self, "fresh", false);
}

static void collectives_that_need_every_rank_fail_while_one_has_joined(void **state)
{
    (void)state;
    ranks_run_both(SIZE, others_need_all, NULL);
}

/* ---- groups too large for their claims ---- */

enum { MANY = 150, LONG = 20000 };

typedef struct many {
    char names[MANY][64];
    int32_t *values[MANY];
    tutti_handle *handles[MANY];
} many;

static uint64_t length_of(int i)
{
    return i % 50 == 7 ? LONG : 1;
}

static many *many_make(void)
{
    many *all = calloc(1, sizeof(*all));
    EXPECT(all != NULL);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(all->names[i], sizeof(all->names[i]), "one of many tensors in a group, %d",
                       i);
        all->values[i] = malloc(length_of(i) * sizeof(int32_t));
        EXPECT(all->values[i] != NULL);
    }
    return all;
}

static void many_free(many *all)
{
    for (int i = 0; i < MANY; i++) {
        free(all->values[i]);
    }
    free(all);
}

static void many_start(ranks_self *self, many *all)
{
    for (int i = 0; i < MANY; i++) {
        tutti_call call = TUTTI_CALL_INIT;
        for (uint64_t k = 0; k < length_of(i); k++) {
            all->values[i][k] = self->rank + 1 + i;
        }
        call.dtype = TUTTI_I32;
        call.count = length_of(i);
        call.name = all->names[i];
        call.group = "many";
        call.group_size = MANY;
        call.input = call.output = all->values[i];
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &all->handles[i]));
    }
}

/* Ranks `first` and later have contributed. */
static void many_end(many *all, int first)
{
    int32_t sum = 0;
    for (int rank = first; rank < SIZE; rank++) {
        sum += rank + 1;
    }
    for (int i = 0; i < MANY; i++) {
        const tutti_status status = tutti_wait(all->handles[i], -1.0);
        EXPECT_SAY(status == TUTTI_OK, "%s", tutti_handle_error(all->handles[i]));
        tutti_handle_free(all->handles[i]);
        const uint64_t last = length_of(i) - 1;
        const int32_t wanted = sum + (SIZE - first) * i;
        EXPECT_SAY(all->values[i][0] == wanted && all->values[i][last] == wanted,
                   "%d instead of %d in %d", all->values[i][last], wanted, i);
    }
}

static void join_out_of_many(ranks_self *self)
{
    many *all = many_make();
    for (int step = 0; step < PLANNED_AFTER; step++) {
        many_start(self, all);
        many_end(all, 0);
    }
    const bool is_auto = self->user == NULL;
    const uint64_t before = ranks_counters(self).planned;
    many_start(self, all);
    many_end(all, 0);
    EXPECT(!is_auto || ranks_counters(self).planned == before + 1);
    if (self->rank > 0) { /* begun without a message, before rank 0 joins */
        many_start(self, all);
    }
    ranks_meet(self);
    for (int step = 0; step < 3 && self->rank > 0; step++) {
        many_end(all, 1);
        many_start(self, all);
    }
    if (self->rank > 0) {
        many_end(all, 1);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, NULL));
    many_start(self, all);
    many_end(all, 0);
    many_free(all);
}

static void large_groups_go_on_without_a_rank_that_has_joined(void **state)
{
    static char *const modes[] = {"coordinator", "bitvector"};
    (void)state;
    ranks_run_both(SIZE, join_out_of_many, NULL);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(setenv("TUTTI_CONTROL", modes[i], 1), 0);
        ranks_run(SIZE, "shm", join_out_of_many, modes[i]);
    }
    assert_int_equal(unsetenv("TUTTI_CONTROL"), 0);
}

/* ---- ranks that are late ---- */

enum { NAMES = 4 };
static const char *const names[NAMES] = {"fresh", "cached", "planned with it", "planned"};

typedef struct sums {
    int32_t values[NAMES];
    tutti_handle *handles[NAMES];
} sums;

static void sum_start(ranks_self *self, sums *all, int which)
{
    tutti_call call = TUTTI_CALL_INIT;
    all->values[which] = self->rank + 1;
    call.dtype = TUTTI_I32;
    call.count = 1;
    call.name = names[which];
    call.input = call.output = &all->values[which];
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &all->handles[which]));
}

static void sum_end(sums *all, int which)
{
    const tutti_status status = tutti_wait(all->handles[which], -1.0);
    EXPECT_SAY(status == TUTTI_OK, "%s: %s", names[which], tutti_handle_error(all->handles[which]));
    EXPECT(all->values[which] == SIZE * (SIZE + 1) / 2);
    tutti_handle_free(all->handles[which]);
}

static void sums_run(ranks_self *self, int from, int to)
{
    sums all;
    for (int i = from; i < to; i++) {
        sum_start(self, &all, i);
    }
    for (int i = from; i < to; i++) {
        sum_end(&all, i);
    }
}

/* All but "fresh" are cached now, the last two planned. */
static void warm_up(ranks_self *self)
{
    for (int step = 0; step < PLANNED_AFTER; step++) {
        sums_run(self, 2, NAMES);
    }
    sums_run(self, 1, 2);
    const uint64_t before = ranks_counters(self).planned;
    sums_run(self, 2, NAMES);
    EXPECT(ranks_counters(self).planned == before + NAMES - 2);
}

/* Errors that name the late rank. A tensor that left the plan meanwhile, which a slow machine may
 * cause, has the negotiation's text, and that names ranks only if they answered in time. */
static atomic_uint errors_that_name;

static void expect_given_up(ranks_self *self, sums *all)
{
    for (int i = 0; i < NAMES; i++) {
        const tutti_status status = tutti_wait(all->handles[i], -1.0);
        const char *error = tutti_handle_error(all->handles[i]);
        EXPECT_SAY(status == TUTTI_ERR_TIMED_OUT, "%s on rank %d: %d", names[i], self->rank,
                   (int)status);
        EXPECT_SAY(strstr(error, names[i]) != NULL && strstr(error, "gave up after") != NULL, "%s",
                   error);
        EXPECT_SAY(strstr(error, "missing: rank") == NULL ||
                       strstr(error, "missing: rank 2") != NULL,
                   "%s", error);
        errors_that_name += strstr(error, "missing: rank 2") != NULL;
        tutti_handle_free(all->handles[i]);
    }
}

/* A barrier after which this rank has the errors of calls that the others ended before it: frames
 * of a peer arrive in order. */
static void meet_informed(ranks_self *self)
{
    EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context));
}

static void too_late(ranks_self *self)
{
    sums all;
    warm_up(self);
    if (self->rank == 2) {
        meet_informed(self);
    }
    for (int i = 0; i < NAMES; i++) {
        sum_start(self, &all, i);
    }
    expect_given_up(self, &all);
    if (self->rank != 2) {
        meet_informed(self);
    }
    sums_run(self, 0, NAMES);
}

static void *over_tcp(void *body)
{
    ranks_run(SIZE, "tcp", *(ranks_fn **)body, NULL);
    return NULL;
}

/* The jobs wait most of the time, so both transports run at once. */
static void on_both_at_once(ranks_fn *body)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, over_tcp, &body), 0);
    ranks_run(SIZE, "shm", body, NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void calls_that_a_rank_does_not_make_are_given_up_on_request(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUTTI_STALL_FAILURE", "0.8", 1), 0);
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "60", 1), 0); /* this machine may be slow */
    on_both_at_once(too_late);
    assert_true(errors_that_name > 0);
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
    assert_int_equal(unsetenv("TUTTI_STALL_FAILURE"), 0);
}

/* ---- reports to users ---- */

typedef struct hearing {
    pthread_mutex_t lock;
    pthread_cond_t heard;
    bool is_told[SIZE][NAMES];
    bool is_half[SIZE]; /* an incomplete group, by the rank that reports it */
} hearing;

static void listen_for_group(const ranks_self *self, hearing *all, const char *text)
{
    char wanted[64];
    (void)snprintf(wanted, sizeof(wanted), "rank %d has submitted 1 of its 2 members (\"left\")",
                   self->rank);
    (void)pthread_mutex_lock(&all->lock);
    all->is_half[self->rank] |=
        strstr(text, "group \"half\" has waited for ") != NULL && strstr(text, wanted) != NULL;
    (void)pthread_cond_broadcast(&all->heard);
    (void)pthread_mutex_unlock(&all->lock);
}

/* Counts only reports with the tensor, the late rank, and the fact that it waits. */
static void listen(void *user, int level, const char *text)
{
    const ranks_self *self = user;
    hearing *all = self->user;
    (void)level;
    listen_for_group(self, all, text);
    if (strstr(text, " has waited ") == NULL || strstr(text, "rank 2") == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&all->lock);
    for (int i = 0; i < NAMES; i++) {
        char quoted[64];
        (void)snprintf(quoted, sizeof(quoted), "\"%s\"", names[i]);
        all->is_told[self->rank][i] |= strstr(text, quoted) != NULL;
    }
    (void)pthread_cond_broadcast(&all->heard);
    (void)pthread_mutex_unlock(&all->lock);
}

/* Waits until ranks 0 and 1 have reported all tensors; of two that are planned together one is
 * enough. */
static void await_reports(hearing *all)
{
    (void)pthread_mutex_lock(&all->lock);
    for (int rank = 0; rank < 2; rank++) {
        const bool *told = all->is_told[rank];
        while (!told[0] || !told[1] || !(told[2] || told[3])) {
            (void)pthread_cond_wait(&all->heard, &all->lock);
        }
    }
    (void)pthread_mutex_unlock(&all->lock);
}

static void late(ranks_self *self)
{
    warm_up(self);
    if (self->rank == 2) {
        await_reports(self->user);
    }
    sums_run(self, 0, NAMES);
}

/* On no rank the group is complete before all have reported it. */
static void half_a_group(ranks_self *self)
{
    static const char *const members[2] = {"left", "right"};
    hearing *all = self->user;
    int32_t values[2] = {1, 2};
    tutti_handle *handles[2];
    for (int i = 0; i < 2; i++) {
        tutti_call call = TUTTI_CALL_INIT;
        call.dtype = TUTTI_I32;
        call.count = 1;
        call.name = members[i];
        call.group = "half";
        call.group_size = 2;
        call.input = call.output = &values[i];
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
        (void)pthread_mutex_lock(&all->lock);
        while (!all->is_half[self->rank]) {
            (void)pthread_cond_wait(&all->heard, &all->lock);
        }
        (void)pthread_mutex_unlock(&all->lock);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        EXPECT(values[i] == SIZE * (i + 1));
        tutti_handle_free(handles[i]);
    }
}

static void *listen_over_tcp(void *body)
{
    hearing all = {.lock = PTHREAD_MUTEX_INITIALIZER, .heard = PTHREAD_COND_INITIALIZER};
    ranks_run_logged(SIZE, "tcp", *(ranks_fn **)body, &all, listen);
    return NULL;
}

static void listen_on_both(ranks_fn *body)
{
    hearing all = {.lock = PTHREAD_MUTEX_INITIALIZER, .heard = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    assert_int_equal(setenv("TUTTI_STALL_WARNING", "0.3", 1), 0);
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "60", 1), 0); /* this machine may be slow */
    assert_int_equal(pthread_create(&thread, NULL, listen_over_tcp, &body), 0);
    ranks_run_logged(SIZE, "shm", body, &all, listen);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
    assert_int_equal(unsetenv("TUTTI_STALL_WARNING"), 0);
}

static void ranks_that_delay_a_named_call_are_reported(void **state)
{
    (void)state;
    listen_on_both(late);
}

static void a_group_that_lacks_members_everywhere_is_reported(void **state)
{
    (void)state;
    listen_on_both(half_a_group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_that_need_every_rank_fail_while_one_has_joined),
        cmocka_unit_test(large_groups_go_on_without_a_rank_that_has_joined),
        cmocka_unit_test(calls_that_a_rank_does_not_make_are_given_up_on_request),
        cmocka_unit_test(ranks_that_delay_a_named_call_are_reported),
        cmocka_unit_test(a_group_that_lacks_members_everywhere_is_reported),
    };
    return cmocka_run_group_tests_name("absent", tests, NULL, NULL);
}
