/* SPDX-License-Identifier: Apache-2.0
 *
 * named_test.c - named calls: any order on any rank, from any thread; repeated steps need no
 * negotiation messages; groups, joins, wrong use.
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

#include "base/philox.h"
#include "conformance/ranks.h"

enum { TENSORS = 24, STEPS = 30, NAME_BYTES = 64, TENSOR_MAX = 20000 };

static int32_t sum_of_ranks(const ranks_self *self)
{
    return self->size * (self->size + 1) / 2;
}

/* ---- one model, many steps ---- */

typedef struct tensor {
    char name[NAME_BYTES];
    uint64_t count;
    int32_t *values;
    tutti_handle *handle;
} tensor;

static void model_make(tensor *model, int count)
{
    static const uint64_t counts[] = {1, 7, 100, 3000, TENSOR_MAX};
    for (int i = 0; i < count; i++) {
        (void)snprintf(model[i].name, sizeof(model[i].name), "layer.%d.weight", i);
        model[i].count = counts[i % 5];
        model[i].values = malloc(model[i].count * sizeof(int32_t));
        EXPECT(model[i].values != NULL);
    }
}

static void model_free(tensor *model, int count)
{
    for (int i = 0; i < count; i++) {
        free(model[i].values);
    }
}

static tutti_call call_of(tensor *one)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.input = call.output = one->values;
    call.count = one->count;
    call.dtype = TUTTI_I32;
    call.name = one->name;
    return call;
}

static void tensor_start(ranks_self *self, tensor *one, int step)
{
    for (uint64_t i = 0; i < one->count; i++) {
        one->values[i] = self->rank + 1 + step;
    }
    const tutti_call call = call_of(one);
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &one->handle));
}

static void tensor_check(ranks_self *self, tensor *one, int step)
{
    EXPECT_STATUS(TUTTI_OK, tutti_wait(one->handle, -1.0));
    tutti_handle_free(one->handle);
    for (uint64_t i = 0; i < one->count; i++) {
        EXPECT_SAY(one->values[i] == sum_of_ranks(self) + self->size * step,
                   "%s of step %d: %d at %llu", one->name, step, one->values[i],
                   (unsigned long long)i);
    }
}

static void shuffle(tt_random *random, int *order, int count)
{
    for (int i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int i = count; i > 1; i--) {
        const int j = (int)tt_random_below(random, (uint64_t)i);
        const int kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

/* One step: every tensor once, in an order that differs between ranks. */
static void step_run(ranks_self *self, tensor *model, tt_random *random, int step)
{
    int order[TENSORS];
    shuffle(random, order, TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        tensor_start(self, &model[order[i]], step);
    }
    for (int i = 0; i < TENSORS; i++) {
        tensor_check(self, &model[i], step);
    }
}

static void steps_in_any_order(ranks_self *self)
{
    tensor model[TENSORS];
    tt_random random;
    tt_random_init(&random, (uint64_t)self->rank, 5);
    model_make(model, TENSORS);
    for (int step = 0; step < STEPS; step++) {
        step_run(self, model, &random, step);
    }
    const tutti_counters before = ranks_counters(self);
    EXPECT_SAY(strcmp(before.mode, "plan") == 0 || self->size == 1, "mode %s", before.mode);
    for (int step = 0; step < 10; step++) {
        step_run(self, model, &random, step);
    }
    const tutti_counters after = ranks_counters(self);
    EXPECT_SAY(after.messages == before.messages, "%llu messages in ten planned steps",
               (unsigned long long)(after.messages - before.messages));
    EXPECT(after.planned - before.planned == (uint64_t)10 * TENSORS);
    model_free(model, TENSORS);
}

static void steps_in_any_order_need_no_messages(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUTTI_CONTROL", "plan", 1), 0);
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "60", 1), 0); /* this machine may be slow */
    for (int size = 1; size <= 5; size += 2) {
        ranks_run_both(size, steps_in_any_order, NULL);
    }
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
    assert_int_equal(unsetenv("TUTTI_CONTROL"), 0);
}

static void one_at_a_time(ranks_self *self)
{
    tensor model[TENSORS];
    tutti_counters before = TUTTI_COUNTERS_INIT;
    model_make(model, TENSORS);
    for (int step = 0; step < STEPS + 10; step++) {
        if (step == STEPS) {
            before = ranks_counters(self);
        }
        for (int i = 0; i < TENSORS; i++) {
            tensor_start(self, &model[i], step);
            tensor_check(self, &model[i], step);
        }
    }
    EXPECT(ranks_counters(self).messages == before.messages);
    EXPECT(ranks_counters(self).planned - before.planned == (uint64_t)10 * TENSORS);
    model_free(model, TENSORS);
}

static void small_tensors_submitted_alone_are_planned(void **state)
{
    (void)state;
    ranks_run_both(3, one_at_a_time, NULL);
}

enum { FEW = 6 };

/* Members of a bundle that one rank does not submit until the first of them has ended. */
static void waiting_in_between(ranks_self *self)
{
    tensor model[TENSORS];
    model_make(model, TENSORS);
    for (int step = 0; step < 3 * STEPS; step++) {
        const bool is_slow = self->rank == 0 && step % STEPS > STEPS / 2;
        for (int i = 0; i < FEW; i++) {
            tensor_start(self, &model[i], step);
            if (is_slow) {
                tensor_check(self, &model[i], step);
            }
        }
        for (int i = 0; i < FEW && !is_slow; i++) {
            tensor_check(self, &model[i], step);
        }
    }
    model_free(model, TENSORS);
}

static void planned_bundles_are_split_where_a_rank_waits_in_between(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "0.002", 1), 0);
    ranks_run_both(3, waiting_in_between, NULL);
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
}

/* Eight small sums at once, step by step; returns the number of exchanges that fused several. */
static uint64_t bundles_with(ranks_self *self, unsigned flags, int attempt)
{
    enum { SMALL = 8, ROUNDS = 12 };
    static const char *const names[] = {"usual", "alone"};
    const uint64_t before = ranks_counters(self).bundles;
    for (int round = 0; round < ROUNDS; round++) {
        tutti_handle *handles[SMALL];
        int32_t values[SMALL];
        char name[NAME_BYTES];
        for (int i = 0; i < SMALL; i++) {
            values[i] = self->rank + 1;
            (void)snprintf(name, sizeof(name), "%s %d.%d", names[flags != 0], attempt, i);
            tutti_call call = TUTTI_CALL_INIT;
            call.dtype = TUTTI_I32;
            call.name = name;
            call.input = call.output = &values[i];
            call.count = 1;
            call.flags = flags;
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
        }
        for (int i = 0; i < SMALL; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
            tutti_handle_free(handles[i]);
            EXPECT(values[i] == sum_of_ranks(self));
        }
    }
    return ranks_counters(self).bundles - before;
}

/* Timing decides whether tensors are agreed in one round: new ones are tried until every rank has
 * seen a bundle. */
static void usual_and_alone(ranks_self *self)
{
    enum { ATTEMPTS = 20 };
    int64_t least = 0;
    for (int i = 0; i < ATTEMPTS && least == 0; i++) {
        least = (int64_t)bundles_with(self, 0, i);
        EXPECT_STATUS(TUTTI_OK,
                      tutti_allreduce(self->context, &least, &least, 1, TUTTI_I64, TUTTI_MIN));
    }
    EXPECT(least > 0);
    EXPECT(bundles_with(self, TUTTI_ALONE, 0) == 0);
}

static void tensors_marked_alone_are_never_fused(void **state)
{
    (void)state;
    ranks_run_both(3, usual_and_alone, NULL);
}

static void any_mode(ranks_self *self)
{
    tensor model[TENSORS];
    tt_random random;
    tt_random_init(&random, (uint64_t)self->rank, 6);
    model_make(model, TENSORS);
    for (int step = 0; step < STEPS; step++) {
        step_run(self, model, &random, step);
    }
    const char *mode = self->user;
    EXPECT_SAY(strcmp(ranks_counters(self).mode, mode) == 0, "%s instead of %s",
               ranks_counters(self).mode, mode);
    model_free(model, TENSORS);
}

static void every_mode_can_be_chosen(void **state)
{
    static char *const modes[] = {"coordinator", "bitvector", "plan", "original"};
    (void)state;
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "60", 1), 0); /* this machine may be slow */
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(setenv("TUTTI_CONTROL", modes[i], 1), 0);
        ranks_run(3, "shm", any_mode, modes[i]);
    }
    assert_int_equal(unsetenv("TUTTI_CONTROL"), 0);
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
}

/* Long tensors at once, until several of them were fused, or never. */
static void long_ones_together(ranks_self *self)
{
    enum { LONG = 4, LONG_COUNT = 40000, ROUNDS_MAX = 200 };
    const bool is_wanted = *(const bool *)self->user;
    const int rounds_max = is_wanted ? ROUNDS_MAX : 5;
    tensor model[LONG];
    int32_t *memory = malloc(LONG * LONG_COUNT * sizeof(int32_t));
    EXPECT(memory != NULL);
    for (int i = 0; i < LONG; i++) {
        (void)snprintf(model[i].name, sizeof(model[i].name), "long.%d", i);
        model[i].count = LONG_COUNT;
        model[i].values = memory + i * LONG_COUNT;
    }
    int64_t least = 0;
    for (int round = 0; round < rounds_max && least == 0; round++) {
        for (int i = 0; i < LONG; i++) {
            tensor_start(self, &model[i], round);
        }
        for (int i = 0; i < LONG; i++) {
            tensor_check(self, &model[i], round);
        }
        least = (int64_t)ranks_counters(self).bundles; /* the same number of rounds on all */
        tutti_call call = TUTTI_CALL_INIT;
        call.dtype = TUTTI_I64;
        call.op = TUTTI_MIN;
        call.input = call.output = &least;
        call.count = 1;
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    }
    EXPECT((least > 0) == is_wanted);
    free(memory);
}

static void the_original_mode_fuses_up_to_its_threshold(void **state)
{
    (void)state;
    bool is_wanted = true;
    assert_int_equal(setenv("TUTTI_CONTROL", "original", 1), 0);
    ranks_run(2, "shm", long_ones_together, &is_wanted);
    is_wanted = false;
    assert_int_equal(setenv("TUTTI_FUSE", "64K", 1), 0);
    ranks_run(2, "shm", long_ones_together, &is_wanted);
    assert_int_equal(unsetenv("TUTTI_FUSE"), 0);
    assert_int_equal(setenv("TUTTI_CONTROL", "bitvector", 1), 0);
    ranks_run(2, "shm", long_ones_together, &is_wanted);
    assert_int_equal(unsetenv("TUTTI_CONTROL"), 0);
}

/* ---- threads ---- */

enum { THREADS = 16, THREAD_STEPS = 12, THREAD_TENSORS = 3 };

typedef struct worker {
    ranks_self *self;
    int number;
} worker;

/* Threads of a rank share a process set; only the names distinguish their calls. */
static void *worker_main(void *argument)
{
    const worker *own = argument;
    ranks_self *self = own->self;
    for (int step = 0; step < THREAD_STEPS; step++) {
        for (int i = 0; i < THREAD_TENSORS; i++) {
            int32_t value[5];
            tensor one = {.count = 5, .values = value};
            (void)snprintf(one.name, sizeof(one.name), "thread %d tensor %d", own->number, i);
            tensor_start(self, &one, step + i);
            tensor_check(self, &one, step + i);
        }
    }
    return NULL;
}

static void many_threads(ranks_self *self)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.self = self, .number = (i + self->rank) % THREADS};
        EXPECT(pthread_create(&threads[i], NULL, worker_main, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
    }
}

static void sixteen_threads_submit_at_once(void **state)
{
    (void)state;
    ranks_run(2, "shm", many_threads, NULL);
    ranks_run(3, "tcp", many_threads, NULL);
}

/* ---- names ---- */

static void one_name_twice(ranks_self *self)
{
    int32_t value = self->rank + 1, other = 7;
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *first, *second;
    call.dtype = TUTTI_I32;
    call.count = 1;
    call.name = "the one";
    call.input = call.output = &value;
    ranks_meet(self);
    if (self->rank == 0) {
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &first));
        call.input = call.output = &other;
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &second));
        EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_wait(second, -1.0));
        EXPECT(strstr(tutti_handle_error(second), "the one") != NULL);
        EXPECT(other == 7);
        tutti_handle_free(second);
        ranks_meet(self);
    } else {
        ranks_meet(self);
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &first));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait(first, -1.0));
    EXPECT(value == sum_of_ranks(self));
    tutti_handle_free(first);
}

static void a_name_in_use_is_refused_on_its_rank_only(void **state)
{
    (void)state;
    ranks_run_both(2, one_name_twice, NULL);
}

/* They differ in the last byte alone. */
static void long_names(ranks_self *self)
{
    tutti_handle *handles[3];
    int32_t values[3];
    for (int i = 0; i < 3; i++) {
        const int which = (i + self->rank) % 3;
        char name[256];
        tutti_call call = TUTTI_CALL_INIT;
        memset(name, 'n', sizeof(name) - 1);
        name[255] = 0;
        name[254] = (char)('a' + which);
        values[which] = self->rank + 1 + which;
        call.dtype = TUTTI_I32;
        call.count = 1;
        call.name = name;
        call.input = call.output = &values[which];
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[which]));
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        tutti_handle_free(handles[i]);
        EXPECT(values[i] == sum_of_ranks(self) + self->size * i);
    }
}

static void names_have_up_to_255_bytes(void **state)
{
    (void)state;
    ranks_run_both(3, long_names, NULL);
}

/* ---- groups ---- */

enum { MEMBERS = 7 };

static void group_members(ranks_self *self)
{
    tutti_handle *handles[MEMBERS];
    int32_t values[MEMBERS][40];
    char names[MEMBERS][NAME_BYTES];
    for (int step = 0; step < 12; step++) {
        for (int i = 0; i < MEMBERS; i++) {
            const int which = (i + self->rank + step) % MEMBERS; /* in any order */
            tutti_call call = TUTTI_CALL_INIT;
            (void)snprintf(names[which], sizeof(names[which]), "member %d", which);
            for (int j = 0; j < 40; j++) {
                values[which][j] = self->rank + 1 + which + step;
            }
            call.dtype = TUTTI_I32;
            call.count = 5 * (uint64_t)which;
            call.name = names[which];
            call.group = "all of them";
            call.group_size = MEMBERS;
            call.input = call.output = values[which];
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[which]));
            if (i + 1 < MEMBERS) {
                EXPECT_STATUS(TUTTI_IN_PROGRESS, tutti_poll(handles[which]));
            }
        }
        for (int i = 0; i < MEMBERS; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
            tutti_handle_free(handles[i]);
            for (int j = 0; j < 5 * i; j++) {
                EXPECT(values[i][j] == sum_of_ranks(self) + self->size * (i + step));
            }
        }
    }
    EXPECT_SAY(strcmp(ranks_counters(self).mode, "plan") == 0, "%s", ranks_counters(self).mode);
}

static void groups_run_when_they_are_complete(void **state)
{
    (void)state;
    ranks_run_both(3, group_members, NULL);
}

static void broken_group(ranks_self *self)
{
    tutti_call calls[3];
    tutti_handle *handles[3];
    int32_t values[3] = {1, 2, 3};
    static const char *const names[3] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        const tutti_call plain = TUTTI_CALL_INIT;
        calls[i] = plain;
        calls[i].dtype = TUTTI_I32;
        calls[i].count = 1;
        calls[i].name = names[i];
        calls[i].input = calls[i].output = &values[i];
    }
    if (self->rank == 1) {
        calls[1].op = TUTTI_MAX;
    }
    EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, calls, 3, handles));
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_wait(handles[i], -1.0));
        EXPECT_SAY(strstr(tutti_handle_error(handles[i]), "\"b\"") != NULL, "%s",
                   tutti_handle_error(handles[i]));
        tutti_handle_free(handles[i]);
    }
    calls[1].op = TUTTI_SUM;
    EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, calls, 3, handles));
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        tutti_handle_free(handles[i]);
        EXPECT(values[i] == (i + 1) * self->size);
    }
}

static void an_error_in_a_member_fails_the_group(void **state)
{
    (void)state;
    ranks_run_both(3, broken_group, NULL);
}

/* ---- automatic groups ---- */

static void grouped(ranks_self *self, const tutti_counters *from, int steps, uint64_t least,
                    uint64_t most)
{
    const uint64_t requests = ranks_counters(self).agreed - from->agreed;
    EXPECT_SAY(requests >= least * (uint64_t)steps && requests <= most * (uint64_t)steps,
               "%llu requests in %d steps", (unsigned long long)requests, steps);
}

/* One rank disagrees about a tensor: its group, and no other, fails on every rank. */
static void break_one(ranks_self *self, tensor *model)
{
    int failed = 0;
    model[3].count -= self->rank == 1 ? 1 : 0;
    for (int i = 0; i < TENSORS; i++) {
        tensor_start(self, &model[i], 0);
    }
    for (int i = 0; i < TENSORS; i++) {
        const tutti_status status = tutti_wait(model[i].handle, -1.0);
        const char *error = tutti_handle_error(model[i].handle);
        failed += status == TUTTI_ERR_MISMATCH ? 1 : 0;
        EXPECT_SAY(status == TUTTI_OK || strstr(error, "layer.3.weight") != NULL, "%s", error);
        EXPECT(i != 3 || status == TUTTI_ERR_MISMATCH);
        tutti_handle_free(model[i].handle);
    }
    EXPECT_SAY(failed > 1 && failed < TENSORS, "%d failed", failed);
    model[3].count += self->rank == 1 ? 1 : 0;
}

static void in_groups(ranks_self *self)
{
    const bool is_auto = strcmp(getenv("TUTTI_GROUPS"), "auto") == 0;
    const uint64_t least = is_auto ? 2 : 3, most = is_auto ? 12 : 3;
    tensor model[TENSORS];
    tt_random random;
    tt_random_init(&random, (uint64_t)self->rank, 6);
    model_make(model, TENSORS);
    for (int step = 0; step < 6; step++) {
        step_run(self, model, &random, step);
    }
    tutti_counters from = ranks_counters(self);
    for (int step = 0; step < 10; step++) {
        step_run(self, model, &random, step);
    }
    grouped(self, &from, 10, least, most);
    break_one(self, model);
    model[6].count = model[5].count; /* on all ranks: no error */
    step_run(self, model, &random, 1);
    from = ranks_counters(self);
    for (int step = 0; step < 10; step++) {
        step_run(self, model, &random, step);
    }
    grouped(self, &from, 10, least, most);
    model_free(model, TENSORS);
}

static void tensors_are_put_into_groups_on_request(void **state)
{
    static const char *const modes[] = {"bitvector", "coordinator", "original", "auto"};
    (void)state;
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "60", 1), 0); /* this machine may be slow */
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(setenv("TUTTI_CONTROL", modes[i], 1), 0);
        assert_int_equal(setenv("TUTTI_GROUPS", "3", 1), 0);
        ranks_run(3, i % 2 == 0 ? "shm" : "tcp", in_groups, NULL);
        assert_int_equal(setenv("TUTTI_GROUPS", "auto", 1), 0);
        ranks_run(3, i % 2 == 0 ? "tcp" : "shm", in_groups, NULL);
    }
    assert_int_equal(unsetenv("TUTTI_GROUPS"), 0);
    assert_int_equal(unsetenv("TUTTI_CONTROL"), 0);
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
}

/* One tensor is not submitted, then a rank waits for each before it submits the next. */
static void not_in_groups(ranks_self *self)
{
    tensor model[TENSORS];
    tt_random random;
    tt_random_init(&random, (uint64_t)self->rank, 6);
    model_make(model, TENSORS);
    for (int step = 0; step < 6; step++) {
        step_run(self, model, &random, step);
    }
    for (int i = 1; i < TENSORS; i++) {
        tensor_start(self, &model[i], 1);
    }
    for (int i = 1; i < TENSORS; i++) {
        tensor_check(self, &model[i], 1);
    }
    for (int i = 0; i < TENSORS; i++) {
        tensor_start(self, &model[i], 2);
        if (self->rank == 1) {
            tensor_check(self, &model[i], 2);
        }
    }
    for (int i = 0; i < TENSORS && self->rank != 1; i++) {
        tensor_check(self, &model[i], 2);
    }
    const tutti_counters from = ranks_counters(self);
    step_run(self, model, &random, 3);
    EXPECT(ranks_counters(self).agreed + ranks_counters(self).planned - from.agreed -
               from.planned ==
           TENSORS);
    model_free(model, TENSORS);
}

static void groups_that_stay_incomplete_are_dissolved(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUTTI_GROUPS", "2", 1), 0);
    ranks_run_both(3, not_in_groups, NULL);
    assert_int_equal(unsetenv("TUTTI_GROUPS"), 0);
}

/* ---- wrong calls ---- */

/* Rank 1's first call fails in tutti_start; it has no handle to wait for, and continues at once. */
static void wrong_then_right(ranks_self *self)
{
    int32_t values[2];
    for (int step = 0; step < 40; step++) {
        tutti_call calls[2] = {TUTTI_CALL_INIT, TUTTI_CALL_INIT};
        tutti_handle *handles[2];
        const int count = step % 2 + 1; /* alone, and in a group */
        for (int i = 0; i < 2; i++) {
            values[i] = self->rank + 1;
            calls[i].dtype = TUTTI_I32;
            calls[i].count = 1;
            calls[i].name = i == 0 ? "wrong" : "right";
            calls[i].input = calls[i].output = self->rank == 1 ? NULL : &values[i];
        }
        tutti_status status = tutti_start_group(self->context, calls, count, handles);
        for (int i = 0; i < count && self->rank != 1; i++) {
            status = tutti_wait(handles[i], -1.0);
            tutti_handle_free(handles[i]);
        }
        EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, status);
        for (int i = 0; i < 2; i++) {
            values[i] = self->rank + 1;
            calls[i].input = calls[i].output = &values[i];
        }
        EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, calls, count, handles));
        for (int i = 0; i < count; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
            tutti_handle_free(handles[i]);
            EXPECT(values[i] == sum_of_ranks(self));
        }
    }
}

static void a_name_can_be_started_again_after_a_wrong_start(void **state)
{
    (void)state;
    ranks_run_both(3, wrong_then_right, NULL);
}

/* ---- join ---- */

static void uneven_steps(ranks_self *self)
{
    for (int turn = 0; turn < 3; turn++) {
        const int steps = 4 + 3 * self->rank;
        for (int step = 0; step < steps; step++) {
            float value[3] = {1.0f, 1.0f, 1.0f};
            tutti_call call = TUTTI_CALL_INIT;
            call.op = TUTTI_AVERAGE;
            call.count = 3;
            call.name = "gradient";
            call.flags = turn == 1 ? TUTTI_BY_ACTIVE : 0;
            call.input = call.output = value;
            EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
            int active = 0;
            for (int rank = 0; rank < self->size; rank++) {
                active += step < 4 + 3 * rank ? 1 : 0;
            }
            const float wanted = turn == 1 ? 1.0f : (float)active / (float)self->size;
            EXPECT_SAY(value[0] == wanted && value[2] == wanted, "%g instead of %g in step %d",
                       (double)value[0], (double)wanted, step);
        }
        int last = -1;
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, &last));
        EXPECT_SAY(last == self->size - 1, "%d", last);
    }
}

static void ranks_with_fewer_steps_join(void **state)
{
    (void)state;
    ranks_run_both(4, uneven_steps, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_in_any_order_need_no_messages),
        cmocka_unit_test(small_tensors_submitted_alone_are_planned),
        cmocka_unit_test(planned_bundles_are_split_where_a_rank_waits_in_between),
        cmocka_unit_test(tensors_marked_alone_are_never_fused),
        cmocka_unit_test(every_mode_can_be_chosen),
        cmocka_unit_test(the_original_mode_fuses_up_to_its_threshold),
        cmocka_unit_test(sixteen_threads_submit_at_once),
        cmocka_unit_test(a_name_in_use_is_refused_on_its_rank_only),
        cmocka_unit_test(names_have_up_to_255_bytes),
        cmocka_unit_test(groups_run_when_they_are_complete),
        cmocka_unit_test(an_error_in_a_member_fails_the_group),
        cmocka_unit_test(tensors_are_put_into_groups_on_request),
        cmocka_unit_test(groups_that_stay_incomplete_are_dissolved),
        cmocka_unit_test(a_name_can_be_started_again_after_a_wrong_start),
        cmocka_unit_test(ranks_with_fewer_steps_join),
    };
    return cmocka_run_group_tests_name("named", tests, NULL, NULL);
}
