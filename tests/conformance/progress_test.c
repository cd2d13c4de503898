/* SPDX-License-Identifier: Apache-2.0
 *
 * progress_test.c - named calls over time: where time is counted, and progress while a call waits.
 *
 * No check depends on the speed of the host: times are bounded from below only, by naps.
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
#include <time.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { NAP_MS = 50, TRIES = 30, PLANNED_AFTER = 12 };

static tutti_call sum_of(const char *name, void *values, uint64_t count, tutti_dtype dtype)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.name = name;
    call.input = call.output = values;
    call.count = count;
    call.dtype = dtype;
    return call;
}

static tutti_handle *start(ranks_self *self, const tutti_call *call)
{
    tutti_handle *handle = NULL;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, call, &handle));
    return handle;
}

static void finish(tutti_handle *handle)
{
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
    tutti_handle_free(handle);
}

static void nap(void)
{
    const struct timespec time = {.tv_nsec = NAP_MS * 1000000L};
    EXPECT(nanosleep(&time, NULL) == 0);
}

/* ---- where the time goes ---- */

enum { LARGE = 50000 }; /* too large to share an exchange */

/* Rank 1 calls a nap after the others. Returns how much longer rank 0 waited before data moved. */
static uint64_t late_by_a_nap(ranks_self *self, const char *name, float *values)
{
    const tutti_call call = sum_of(name, values, LARGE, TUTTI_F32);
    const tutti_counters before = ranks_counters(self);
    tutti_handle *handle = self->rank != 1 ? start(self, &call) : NULL;
    EXPECT(handle == NULL || tutti_poll(handle) == TUTTI_IN_PROGRESS);
    ranks_meet(self);
    if (self->rank == 1) {
        nap();
        handle = start(self, &call);
    }
    finish(handle);
    const tutti_counters after = ranks_counters(self);
    return after.negotiation_ns + after.late_ns - before.negotiation_ns - before.late_ns;
}

/* A progress thread may begin a call late: then the next try counts. True on all ranks alike, when
 * rank 0 has measured a nap. */
static bool is_nap_seen(ranks_self *self, uint64_t best)
{
    int32_t is_seen = self->rank != 0 || best >= (NAP_MS - 10) * UINT64_C(1000000);
    tutti_call call = sum_of(NULL, &is_seen, 1, TUTTI_I32);
    call.op = TUTTI_MIN;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    return is_seen != 0;
}

static void expect_a_nap(ranks_self *self, const char *what, bool is_fresh, float *values)
{
    uint64_t best = 0;
    char name[64] = "gradient";
    for (int i = 0; i < TRIES; i++) {
        if (is_fresh) {
            (void)snprintf(name, sizeof(name), "fresh %d", i);
        }
        const uint64_t waited = late_by_a_nap(self, name, values);
        best = waited > best ? waited : best;
        ranks_meet(self);
        if (is_nap_seen(self, best)) {
            return;
        }
    }
    EXPECT_SAY(self->rank != 0, "%s, %s: %g ms of waiting in view", what,
               self->job->transport != NULL ? self->job->transport : "shm", (double)best / 1e6);
}

static void late_rank(ranks_self *self)
{
    float *values = calloc(LARGE, sizeof(*values));
    EXPECT(values != NULL);
    expect_a_nap(self, "new", true, values);
    const tutti_call call = sum_of("gradient", values, LARGE, TUTTI_F32);
    for (int i = 0; i < PLANNED_AFTER; i++) {
        finish(start(self, &call));
    }
    EXPECT_SAY(strcmp(ranks_counters(self).mode, "plan") == 0, "%s", ranks_counters(self).mode);
    const uint64_t messages = ranks_counters(self).messages;
    expect_a_nap(self, "planned", false, values);
    EXPECT(ranks_counters(self).messages == messages);
    EXPECT(ranks_counters(self).exchange_ns > 0);
    free(values);
}

static void waiting_for_a_late_rank_is_counted_as_waiting(void **state)
{
    (void)state;
    ranks_run_both(2, late_rank, NULL);
}

enum { SMALL = 16, FIND_TRIES = 20 };

/* For `last` below: no rank naps; rank 1 naps, before all of them. */
enum { NOBODY = SMALL, WHO_IS_LATE };

/* One step of small tensors, all of the try's own names; before the `last` rank 0 naps. */
static void small_step(ranks_self *self, int attempt, int last)
{
    tutti_handle *handles[SMALL];
    int32_t values[SMALL];
    if (last == WHO_IS_LATE && self->rank == 1) {
        ranks_meet(self); /* the others have submitted theirs */
        nap();
    }
    for (int i = 0; i < SMALL; i++) {
        const int which = (last + 1 + i) % SMALL;
        char name[64];
        (void)snprintf(name, sizeof(name), "small %d.%d", attempt, which);
        values[which] = self->rank + 1;
        if (which == last && self->rank == 0) {
            nap();
        }
        const tutti_call call = sum_of(name, &values[which], 1, TUTTI_I32);
        handles[which] = start(self, &call);
    }
    if (last == WHO_IS_LATE && self->rank != 1) {
        EXPECT_STATUS(TUTTI_IN_PROGRESS, tutti_poll(handles[0]));
        ranks_meet(self);
    }
    for (int i = 0; i < SMALL; i++) {
        finish(handles[i]);
        EXPECT(values[i] == self->size * (self->size + 1) / 2);
    }
}

/* Tensors agreed in one round are fused: retries with new names until there are such tensors. All
 * ranks count the same. */
static int find_bundles(ranks_self *self)
{
    for (int attempt = 0; attempt < FIND_TRIES; attempt++) {
        for (int step = 0; step < PLANNED_AFTER; step++) {
            small_step(self, attempt, NOBODY);
        }
        const tutti_counters before = ranks_counters(self);
        small_step(self, attempt, NOBODY);
        const tutti_counters after = ranks_counters(self);
        if (after.bundles > before.bundles && after.planned == before.planned + SMALL) {
            return attempt;
        }
    }
    ranks_die(__FILE__, __LINE__, "bundles", "%s", "none was planned");
}

static void waiting_for_company(ranks_self *self)
{
    const int attempt = find_bundles(self);
    uint64_t best = 0;
    bool is_seen = false;
    int steps = 0;
    const tutti_counters first = ranks_counters(self);
    for (; !is_seen && steps < TRIES * SMALL; steps++) {
        const tutti_counters before = ranks_counters(self);
        small_step(self, attempt, steps % SMALL);
        const uint64_t queued = ranks_counters(self).queueing_ns - before.queueing_ns;
        best = queued > best ? queued : best;
        is_seen = is_nap_seen(self, best);
    }
    const tutti_counters after = ranks_counters(self);
    EXPECT(after.planned == first.planned + (uint64_t)steps * SMALL);
    EXPECT(after.copying_ns > first.copying_ns);
    EXPECT_SAY(is_seen, "%g ms of queueing in view", (double)best / 1e6);
    best = 0;
    is_seen = false;
    for (int i = 0; !is_seen && i < TRIES; i++) {
        const tutti_counters before = ranks_counters(self);
        small_step(self, attempt, WHO_IS_LATE);
        const uint64_t late = ranks_counters(self).late_ns - before.late_ns;
        best = late > best ? late : best;
        is_seen = is_nap_seen(self, best);
    }
    EXPECT_SAY(is_seen, "bundles: %g ms of waiting in view", (double)best / 1e6);
}

static void waiting_for_other_tensors_of_a_bundle_is_counted_as_queueing(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "60", 1), 0); /* this machine may be slow */
    ranks_run_both(2, waiting_for_company, NULL);
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
}

/* ---- process sets ---- */

enum { OTHER_STEPS = 100 };

/* A call that waits in set A does not delay set B, which has the same members. */
static void wait_in_one_set(ranks_self *self, tutti_set waiting, tutti_set other)
{
    int32_t value = self->rank + 1;
    tutti_call call = sum_of("waits", &value, 1, TUTTI_I32);
    call.set = waiting;
    tutti_handle *handle = self->rank != 1 ? start(self, &call) : NULL;
    for (int step = 0; step < OTHER_STEPS; step++) {
        int32_t values[2] = {self->rank + 1 + step, step};
        tutti_handle *handles[2];
        for (int i = 0; i < 2; i++) {
            tutti_call one = sum_of(i == 0 ? "waits" : "goes on", &values[i], 1, TUTTI_I32);
            one.set = other;
            handles[i] = start(self, &one);
        }
        finish(handles[0]);
        finish(handles[1]);
        EXPECT(values[0] == self->size * (self->size + 1) / 2 + self->size * step);
        EXPECT(values[1] == self->size * step);
    }
    EXPECT(handle == NULL || tutti_poll(handle) == TUTTI_IN_PROGRESS);
    ranks_meet(self);
    finish(handle != NULL ? handle : start(self, &call));
    EXPECT(value == self->size * (self->size + 1) / 2);
}

static void two_sets(ranks_self *self)
{
    static const int members[3] = {0, 1, 2};
    tutti_set sets[2];
    for (int i = 0; i < 2; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, members, 3, &sets[i]));
    }
    wait_in_one_set(self, sets[0], sets[1]); /* it is new there */
    wait_in_one_set(self, sets[0], sets[1]); /* cached */
    wait_in_one_set(self, sets[1], sets[0]); /* planned */
    wait_in_one_set(self, sets[0], TUTTI_WORLD);
}

static void process_sets_do_not_wait_for_each_other(void **state)
{
    (void)state;
    ranks_run_both(3, two_sets, NULL);
}

/* ---- the same bits ---- */

enum { FLOATS = 12, FLOATS_MAX = 4000, SAME_STEPS = 10 };

/* One rank's tensors; the results of its first planned step, compared with rank 0's. */
typedef struct floats {
    float values[FLOATS][FLOATS_MAX], first[FLOATS][FLOATS_MAX];
} floats;

static uint64_t length_of(int which)
{
    return (uint64_t)(which * 337 + 1) % FLOATS_MAX;
}

/* Values whose sums depend on the order of adding; submitted in an order that differs between
 * ranks. */
static void floats_step(ranks_self *self, floats *own, int attempt, int step)
{
    tutti_handle *handles[FLOATS];
    for (int i = 0; i < FLOATS; i++) {
        const int which = (5 * i + 7 * step * (self->rank + 1)) % FLOATS;
        char name[64];
        (void)snprintf(name, sizeof(name), "floats %d.%d", attempt, which);
        for (int k = 0; k < FLOATS_MAX; k++) {
            own->values[which][k] = 1.0f / (float)(k + 3 * which + 11 * self->rank + 1);
        }
        const tutti_call call = sum_of(name, own->values[which], length_of(which), TUTTI_F32);
        handles[which] = start(self, &call);
    }
    for (int i = 0; i < FLOATS; i++) {
        finish(handles[i]);
    }
}

/* Runs the tensors of a try until they are planned and some of them are fused. */
static int plan_floats(ranks_self *self, floats *own)
{
    for (int attempt = 0; attempt < FIND_TRIES; attempt++) {
        for (int step = 0; step < PLANNED_AFTER; step++) {
            floats_step(self, own, attempt, step);
        }
        const tutti_counters before = ranks_counters(self);
        floats_step(self, own, attempt, 0);
        const tutti_counters after = ranks_counters(self);
        if (after.bundles > before.bundles && after.planned == before.planned + FLOATS) {
            return attempt;
        }
    }
    ranks_die(__FILE__, __LINE__, "bundles", "%s", "none was planned");
}

static void same_bits(ranks_self *self)
{
    floats *all = self->user, *own = &all[self->rank];
    const int attempt = plan_floats(self, own);
    memcpy(own->first, own->values, sizeof(own->first));
    ranks_meet(self);
    const uint64_t planned = ranks_counters(self).planned;
    for (int step = 0; step < SAME_STEPS; step++) {
        floats_step(self, own, attempt, step);
        for (int i = 0; i < FLOATS; i++) {
            EXPECT_SAY(memcmp(own->values[i], all[0].first[i], length_of(i) * sizeof(float)) == 0,
                       "tensor %d of step %d", i, step);
        }
    }
    EXPECT(ranks_counters(self).planned == planned + (uint64_t)SAME_STEPS * FLOATS);
    ranks_meet(self);
}

static void planned_steps_give_the_same_bits_on_every_rank(void **state)
{
    (void)state;
    floats *all = calloc(3, sizeof(*all));
    assert_non_null(all);
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "60", 1), 0); /* this machine may be slow */
    ranks_run_both(3, same_bits, all);
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
    free(all);
}

/* ---- a cache that is too small ---- */

enum { NAMES = 24, EVICTING_STEPS = 20 };

static void more_names_than_places(ranks_self *self)
{
    for (int step = 0; step < EVICTING_STEPS; step++) {
        tutti_handle *handles[NAMES];
        int32_t values[NAMES];
        for (int i = 0; i < NAMES; i++) {
            const int which = (5 * i + step * (self->rank + 1)) % NAMES; /* in any order */
            char name[64];
            (void)snprintf(name, sizeof(name), "one of many, %d", which);
            values[which] = self->rank + 1 + which + step;
            const tutti_call call = sum_of(name, &values[which], 1, TUTTI_I32);
            handles[which] = start(self, &call);
        }
        for (int i = 0; i < NAMES; i++) {
            finish(handles[i]);
            EXPECT(values[i] == self->size * (self->size + 1) / 2 + self->size * (i + step));
        }
    }
    const tutti_counters counters = ranks_counters(self);
    EXPECT(counters.evictions > 0);
    EXPECT(counters.failed == 0);
}

static void names_evicted_from_a_small_cache_return(void **state)
{
    static const char *const modes[] = {"auto", "bitvector", "plan"};
    (void)state;
    assert_int_equal(setenv("TUTTI_CACHE_CAPACITY", "5", 1), 0);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(setenv("TUTTI_CONTROL", modes[i], 1), 0);
        ranks_run_both(3, more_names_than_places, NULL);
    }
    assert_int_equal(unsetenv("TUTTI_CONTROL"), 0);
    assert_int_equal(unsetenv("TUTTI_CACHE_CAPACITY"), 0);
}

/* ---- groups that become visible over three rounds ---- */

enum { TASKS = 6 };

/* A task graph shows T1 to T6 in three bursts: T1 T2 T3, then T4 T5, then T6. Blue is T1 T2 T4,
 * green T3 T5 T6: after the first burst nothing has moved, after the second blue alone. */
static void three_bursts(ranks_self *self)
{
    static const bool is_blue[TASKS] = {true, true, false, true, false, false};
    static const int ends[3] = {3, 5, 6};
    for (int step = 0; step < PLANNED_AFTER; step++) {
        tutti_handle *handles[TASKS];
        int32_t values[TASKS];
        for (int burst = 0, i = 0; burst < 3; burst++) {
            for (; i < ends[burst]; i++) {
                char name[16];
                (void)snprintf(name, sizeof(name), "T%d", i + 1);
                values[i] = self->rank + 1 + i;
                tutti_call call = sum_of(name, &values[i], 1, TUTTI_I32);
                call.group = is_blue[i] ? "blue" : "green";
                call.group_size = TASKS / 2;
                handles[i] = start(self, &call);
            }
            for (int k = 0; k < i && burst == 1; k++) {
                if (is_blue[k]) {
                    EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[k], -1.0));
                }
            }
            ranks_meet(self); /* gives tensors that can move the time to do so */
            for (int k = 0; k < i && burst < 2; k++) {
                EXPECT_STATUS(burst == 1 && is_blue[k] ? TUTTI_OK : TUTTI_IN_PROGRESS,
                              tutti_poll(handles[k]));
            }
            ranks_meet(self);
        }
        for (int i = 0; i < TASKS; i++) {
            finish(handles[i]);
            EXPECT(values[i] == self->size * (self->size + 1) / 2 + self->size * i);
        }
    }
    EXPECT_SAY(strcmp(ranks_counters(self).mode, "plan") == 0, "%s", ranks_counters(self).mode);
}

static void a_group_moves_with_its_last_tensor(void **state)
{
    (void)state;
    ranks_run_both(3, three_bursts, NULL);
}

/* ---- planned groups in one exchange ---- */

enum { GROUPS = 4, EACH = 5 };

/* With `waits` rank 0 submits a group when the one before it has ended. */
static void group_step(ranks_self *self, int attempt, bool waits)
{
    tutti_handle *handles[GROUPS * EACH];
    int32_t values[GROUPS * EACH];
    const bool is_waiting = waits && self->rank == 0;
    for (int i = 0; i < GROUPS * EACH; i++) {
        char name[64], group[64];
        (void)snprintf(name, sizeof(name), "in a group %d.%d", attempt, i);
        (void)snprintf(group, sizeof(group), "group %d.%d", attempt, i / EACH);
        values[i] = self->rank + 1 + i;
        tutti_call call = sum_of(name, &values[i], 1, TUTTI_I32);
        call.group = group;
        call.group_size = EACH;
        handles[i] = start(self, &call);
        for (int k = i + 1 - EACH; is_waiting && (i + 1) % EACH == 0 && k <= i; k++) {
            finish(handles[k]);
        }
    }
    for (int i = 0; i < GROUPS * EACH; i++) {
        if (!is_waiting) {
            finish(handles[i]);
        }
        EXPECT(values[i] == self->size * (self->size + 1) / 2 + self->size * i);
    }
}

/* As find_bundles: groups agreed in one round are fused. */
static void groups_together(ranks_self *self)
{
    bool is_found = false;
    int attempt = -1;
    while (!is_found) {
        EXPECT_SAY(++attempt < FIND_TRIES, "%s", "groups were never fused");
        for (int step = 0; step < PLANNED_AFTER; step++) {
            group_step(self, attempt, false);
        }
        const tutti_counters before = ranks_counters(self);
        group_step(self, attempt, false);
        const tutti_counters after = ranks_counters(self);
        is_found = after.planned == before.planned + GROUPS && after.messages == before.messages &&
                   after.bundles > before.bundles && after.bundles < before.bundles + GROUPS;
    }
    for (int step = 0; step < 3; step++) { /* the bundle is incomplete: groups run one by one */
        group_step(self, attempt, true);
    }
    group_step(self, attempt, false);
}

static void planned_groups_run_fused_or_one_by_one(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUTTI_FUSE_WAIT", "0.1", 1), 0);
    ranks_run_both(3, groups_together, NULL);
    assert_int_equal(unsetenv("TUTTI_FUSE_WAIT"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_a_late_rank_is_counted_as_waiting),
        cmocka_unit_test(waiting_for_other_tensors_of_a_bundle_is_counted_as_queueing),
        cmocka_unit_test(process_sets_do_not_wait_for_each_other),
        cmocka_unit_test(planned_steps_give_the_same_bits_on_every_rank),
        cmocka_unit_test(names_evicted_from_a_small_cache_return),
        cmocka_unit_test(a_group_moves_with_its_last_tensor),
        cmocka_unit_test(planned_groups_run_fused_or_one_by_one),
    };
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
