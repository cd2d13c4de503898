/* SPDX-License-Identifier: Apache-2.0
 *
 * steps_test.c - counters, credit and tuning over the steps of real jobs.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "conformance/ranks.h"
#include "tutti/tutti.h"

enum { TENSORS = 12, COUNT = 20000, LARGE = 2 * 1024 * 1024 };

typedef struct model {
    int *values[TENSORS];
    tutti_handle *handles[TENSORS];
    char names[TENSORS][16];
} model;

/* Forward waits tensor by tensor and checks; backward starts them in reverse. */
static void model_step(ranks_self *self, model *it, int step)
{
    for (int i = 0; i < TENSORS; i++) {
        if (it->handles[i] != NULL) {
            int index = -1;
            EXPECT_STATUS(TUTTI_OK, tutti_wait_any(&it->handles[i], 1, -1.0, &index));
            EXPECT(index == 0);
            for (int at = 0; at < COUNT; at += COUNT - 1) {
                EXPECT(it->values[i][at] == (step - 1 + i) * self->size);
            }
            tutti_handle_free(it->handles[i]);
        }
    }
    for (int i = TENSORS; i-- > 0;) {
        tutti_call call = TUTTI_CALL_INIT;
        for (int at = 0; at < COUNT; at++) {
            it->values[i][at] = step + i;
        }
        call.dtype = TUTTI_I32;
        call.input = call.output = it->values[i];
        call.count = COUNT;
        call.name = it->names[i];
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &it->handles[i]));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
}

/* Checks that the current settings are equal on every rank. */
static void expect_one_setting(ranks_self *self)
{
    enum { WORDS = 3 };
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    const int64_t own[WORDS] = {(int64_t)counters.chunk_bytes, (int64_t)counters.credit_bytes,
                                (int64_t)counters.fuse_bytes};
    int64_t most[2 * WORDS];
    for (int i = 0; i < WORDS; i++) {
        most[i] = own[i];
        most[WORDS + i] = -own[i];
    }
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, most, most, 2 * (uint64_t)WORDS,
                                            TUTTI_I64, TUTTI_MAX));
    for (int i = 0; i < WORDS; i++) {
        EXPECT(most[i] == own[i] && most[WORDS + i] == -own[i]);
    }
}

static tutti_counters steps_run(ranks_self *self, int count)
{
    model it = {0};
    for (int i = 0; i < TENSORS; i++) {
        it.values[i] = calloc(COUNT, sizeof(int));
        EXPECT(it.values[i] != NULL);
        (void)snprintf(it.names[i], sizeof(it.names[i]), "t%d", i);
    }
    for (int step = 0; step < count; step++) {
        model_step(self, &it, step);
        expect_one_setting(self);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_all(it.handles, TENSORS, -1.0));
    for (int i = 0; i < TENSORS; i++) {
        tutti_handle_free(it.handles[i]);
        free(it.values[i]);
    }
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    return counters;
}

static bool is_close(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

/* rho = N / C, alpha = (N + C - T) / min(N, C), U = C / T. */
static void expect_definitions(const tutti_counters *counters)
{
    const double step = (double)counters->step_ns, compute = (double)counters->compute_ns;
    const double network = (double)counters->network_ns;
    const double least = network < compute ? network : compute;
    EXPECT(is_close(counters->rho, compute > 0 ? network / compute : 0));
    EXPECT(is_close(counters->alpha, least > 0 ? (network + compute - step) / least : 0));
    EXPECT(is_close(counters->utilisation, compute / step));
    EXPECT(counters->efficiency >= 0.0 && counters->efficiency <= 1.0);
}

static void steps_body(ranks_self *self)
{
    const tutti_counters counters = steps_run(self, 8);
    expect_definitions(&counters);
    EXPECT(counters.step_count == 8 && counters.step_ns > 0);
    EXPECT(counters.utilisation >= 0.0 && counters.utilisation <= 1.0);
    EXPECT(counters.network_ns <= counters.step_ns && counters.compute_ns <= counters.step_ns);
    EXPECT(counters.chunk_bytes == 256 * 1024 && counters.held == 0);
}

static void test_steps_cross_the_barrier_and_are_counted(void **state)
{
    (void)state;
    ranks_run(3, "shm", steps_body, NULL);
    (void)setenv("TUTTI_SCHEDULE", "priority", 1);
    ranks_run(2, "tcp", steps_body, NULL);
    (void)setenv("TUTTI_SCHEDULE", "off", 1);
    ranks_run(2, "tcp", steps_body, NULL);
    (void)unsetenv("TUTTI_SCHEDULE");
}

static void overlap_done(void *user, tutti_handle *handle, tutti_status status)
{
    (void)handle;
    EXPECT(status == TUTTI_OK);
    (void)sem_post(user);
}

/* A step of 10 ms of computation and a sum: before the computation, or during all of it. */
static tutti_counters overlap_step(ranks_self *self, int *values, bool is_under)
{
    sem_t over;
    tutti_handle *handle;
    tutti_call call = TUTTI_CALL_INIT;
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    EXPECT(sem_init(&over, 0, 0) == 0);
    call.dtype = TUTTI_I32;
    call.input = call.output = values;
    call.count = LARGE;
    call.done = is_under ? overlap_done : NULL;
    call.done_user = &over;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
    while (is_under && sem_wait(&over) != 0) {
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
    (void)usleep(10000);
    tutti_handle_free(handle);
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    expect_definitions(&counters);
    (void)sem_destroy(&over);
    return counters;
}

/* On a loaded host a rank that waits at once may show some overlap, and one that computes less than
 * it has, but not in all of many steps: steps are repeated until each rank has seen it. */
static void overlap_body(ranks_self *self)
{
    enum { STEPS_MAX = 100 };
    atomic_int *seen = self->user;
    int *values = calloc(LARGE, sizeof(int));
    EXPECT(values != NULL);
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
    double waiting = 1.0, computing = 0.0, order = 0.0;
    bool is_over = false;
    for (int i = 0; i < STEPS_MAX && !is_over; i++) {
        const tutti_counters before = overlap_step(self, values, false);
        const tutti_counters under = overlap_step(self, values, true);
        const bool was_seen = waiting < 0.5 && computing > 0.5 && order > 0.5;
        waiting = before.alpha < waiting ? before.alpha : waiting;
        computing = under.alpha > computing ? under.alpha : computing;
        order = under.efficiency > order ? under.efficiency : order;
        if (!was_seen && waiting < 0.5 && computing > 0.5 && order > 0.5) {
            atomic_fetch_add(seen, 1);
        }
        ranks_meet(self);
        is_over = atomic_load(seen) == self->size;
        ranks_meet(self);
    }
    EXPECT_SAY(waiting < 0.5, "alpha %g", waiting);
    EXPECT_SAY(computing > 0.5, "alpha %g", computing);
    EXPECT_SAY(order > 0.5, "E %g", order);
    free(values);
}

static void test_alpha_differs_between_waiting_and_computing(void **state)
{
    (void)state;
    atomic_int seen = 0;
    ranks_run(2, "tcp", overlap_body, &seen);
}

static void credit_body(ranks_self *self)
{
    const tutti_counters counters = steps_run(self, 12);
    EXPECT(counters.credit_bytes == 100000);
    int64_t held = (int64_t)counters.held; /* a rank that is always last is never held */
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, &held, &held, 1, TUTTI_I64, TUTTI_SUM));
    EXPECT(held > 0);
}

static void test_credit_holds_calls_back_and_results_stay_right(void **state)
{
    (void)state;
    (void)setenv("TUTTI_CREDIT", "100000", 1);
    (void)setenv("TUTTI_SCHEDULE", "fifo", 1);
    ranks_run(3, "tcp", credit_body, NULL);
    (void)unsetenv("TUTTI_SCHEDULE");
    (void)unsetenv("TUTTI_CREDIT");
}

/* Number of sockets with this bound on unsent bytes, of all ranks, as they are threads here. */
static int sockets_with_unsent(int bytes)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int unsent = 0;
        socklen_t length = sizeof(unsent);
        count += getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, &length) == 0 &&
                 unsent == bytes;
    }
    return count;
}

static void tune_body(ranks_self *self)
{
    const tutti_counters counters = steps_run(self, 60);
    EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context)); /* all have taken the last setting */
    const int unsent = (int)counters.chunk_bytes / 4;
    EXPECT(sockets_with_unsent(unsent > 8192 ? unsent : 8192) >= self->size * (self->size - 1));
    ranks_meet(self); /* no rank leaves, and closes its sockets, while others count */
    EXPECT(counters.chunk_bytes >= 16 * 1024 && counters.chunk_bytes <= 512 * 1024);
    EXPECT(counters.credit_bytes > 0);
    EXPECT(counters.fuse_bytes >= 1024 && counters.fuse_bytes <= 256 * 1024);
}

static void test_tuning_switches_all_ranks_at_the_same_step(void **state)
{
    (void)state;
    (void)setenv("TUTTI_TUNE", "1", 1);
    ranks_run(3, "tcp", tune_body, NULL);
    (void)unsetenv("TUTTI_TUNE");
}

/* A small sum, one that some settings fuse, and one that is never fused. Each rank contributes 1.
 */
static void some_step(ranks_self *self, int least)
{
    static const char *const names[3] = {"small", "middle", "alone"};
    enum { COUNTS = 3, MIDDLE = 10000 };
    int values[COUNTS][MIDDLE];
    tutti_handle *handles[COUNTS];
    for (int i = 0; i < COUNTS; i++) {
        tutti_call call = TUTTI_CALL_INIT;
        call.dtype = TUTTI_I32;
        call.input = call.output = values[i];
        call.count = i == 1 ? MIDDLE : 100;
        call.name = names[i];
        call.flags = i == 2 ? TUTTI_ALONE : 0;
        for (uint64_t at = 0; at < call.count; at++) {
            values[i][at] = 1;
        }
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait_all(handles, COUNTS, -1.0));
    for (int i = 0; i < COUNTS; i++) {
        tutti_handle_free(handles[i]);
        EXPECT(values[i][0] >= least && values[i][0] <= self->size);
        EXPECT(values[i][99] == values[i][0]);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
}

static void middle_body(ranks_self *self)
{
    tutti_counters first = TUTTI_COUNTERS_INIT, now = TUTTI_COUNTERS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &first));
    now.chunk_bytes = first.chunk_bytes;
    for (int step = 0; step < 50 && now.chunk_bytes == first.chunk_bytes; step++) {
        some_step(self, self->size);
        EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &now));
    }
    EXPECT(now.chunk_bytes / 1024 == 90);                  /* of 16K to 512K */
    EXPECT(now.credit_bytes == UINT64_C(8) * 1024 * 1024); /* of 256K to 256M */
    EXPECT(now.fuse_bytes == UINT64_C(16) * 1024);         /* of 1K to 256K */
}

/* The first setting of a job may lie in a corner from which the search finds nothing better. */
static void test_without_a_table_of_costs_the_middle_is_tried_first(void **state)
{
    (void)state;
    (void)setenv("TUTTI_TUNE", "1", 1);
    (void)setenv("TUTTI_COSTS", "none", 1);
    (void)setenv("TUTTI_CHUNK", "512K", 1);
    ranks_run(2, "shm", middle_body, NULL);
    (void)unsetenv("TUTTI_CHUNK");
    (void)unsetenv("TUTTI_COSTS");
    (void)unsetenv("TUTTI_TUNE");
}

enum { PROFILE_LINES = 6, PROFILE_CHUNK = 131072, PROFILE_CREDIT = 3000000 };

/* Lines of a profile that this run wrote: fastest first, none of those it began with. */
static int profile_lines(const char *path)
{
    FILE *file = fopen(path, "re");
    double chunk, credit, fuse, time_us, last_us = 0;
    int count = 0;
    EXPECT(file != NULL);
    while (fscanf(file, "%lf %lf %lf %lf", &chunk, &credit, &fuse, &time_us) == 4) {
        if (time_us >= 1e9) {
            (void)fclose(file);
            return 0;
        }
        EXPECT(chunk >= 16384 && credit >= 262144 && fuse >= 1024 && time_us > last_us);
        last_us = time_us;
        count++;
    }
    (void)fclose(file);
    return count;
}

/* The best setting of the profile is the first one tried; when all is tried, the best of this run
 * are written. */
static void profile_body(ranks_self *self)
{
    enum { STEPS_MAX = 3000 };
    bool is_tried = false;
    int64_t lines = 0;
    for (int step = 0; step < STEPS_MAX && lines == 0; step++) {
        some_step(self, self->size);
        tutti_counters counters = TUTTI_COUNTERS_INIT;
        EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
        is_tried |= counters.chunk_bytes == PROFILE_CHUNK &&
                    counters.credit_bytes / 10 == PROFILE_CREDIT / 10;
        if (step % 25 == 24) {
            lines = self->rank == 0 ? profile_lines(self->user) : 0;
            EXPECT_STATUS(TUTTI_OK,
                          tutti_allreduce(self->context, &lines, &lines, 1, TUTTI_I64, TUTTI_SUM));
        }
    }
    EXPECT(is_tried && lines == PROFILE_LINES);
}

static void test_a_profile_is_read_tried_and_written(void **state)
{
    (void)state;
    char path[] = "/tmp/tutti-profile-XXXXXX";
    const int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    for (int i = 0; i < PROFILE_LINES; i++) { /* very slow ones */
        (void)fprintf(file, "%d %d %d %d\n", PROFILE_CHUNK >> i % 3, PROFILE_CREDIT + i * 100000,
                      8192 << i % 4, 1000000000 + i);
    }
    (void)fclose(file);
    (void)setenv("TUTTI_TUNE", "1", 1);
    (void)setenv("TUTTI_PROFILE", path, 1);
    ranks_run(2, "shm", profile_body, path);
    (void)unsetenv("TUTTI_PROFILE");
    (void)unsetenv("TUTTI_TUNE");
    (void)unlink(path);
}

static void joining_body(ranks_self *self)
{
    const int *counts = self->user;
    for (int turn = 0; turn < 2; turn++) {
        for (int step = 0; step < counts[self->rank]; step++) {
            some_step(self, 1);
        }
        int last = -1;
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, &last));
        for (int step = 0; step < 40; step++) {
            some_step(self, self->size);
        }
        expect_one_setting(self);
    }
}

static void test_a_rank_that_has_joined_delays_no_step(void **state)
{
    (void)state;
    int first[3] = {0, 25, 60}, last[3] = {70, 33, 0};
    ranks_run(3, "shm", joining_body, first);
    (void)setenv("TUTTI_TUNE", "1", 1);
    ranks_run(3, "shm", joining_body, first);
    ranks_run(3, "tcp", joining_body, last);
    (void)unsetenv("TUTTI_TUNE");
}

static void join_elsewhere_body(ranks_self *self)
{
    const int all[2] = {0, 1};
    tutti_set set;
    EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, all, 2, &set));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_join(self->context, set, NULL));
    EXPECT(strstr(tutti_last_error(self->context), "TUTTI_TUNE") != NULL);
}

static void test_while_tuning_only_the_world_can_be_joined(void **state)
{
    (void)state;
    (void)setenv("TUTTI_TUNE", "1", 1);
    ranks_run(2, "shm", join_elsewhere_body, NULL);
    (void)unsetenv("TUTTI_TUNE");
}

/* ---- auto ---- */

enum { HELD_CALLS = 8, AUTO_CALLS = HELD_CALLS + 2, AUTO_COUNT = 16 * 1024, AUTO_STEPS = 60 };

/* One in flight, those that credit holds back behind it, and an urgent one last. */
static tutti_handle *auto_start(ranks_self *self, int *values, int number, sem_t *over)
{
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handle;
    call.dtype = TUTTI_I32;
    call.input = call.output = values + (size_t)number * AUTO_COUNT;
    call.count = AUTO_COUNT;
    call.priority = number == AUTO_CALLS - 1 ? 1 : 0;
    call.done = over != NULL ? overlap_done : NULL;
    call.done_user = over;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handle));
    return handle;
}

/* Rank 0, whose step is judged, starts all before rank 1 starts any. It computes until they have
 * ended, and then `idle` times as long again, while its wire is idle. */
static void auto_step(ranks_self *self, int *values, double idle)
{
    tutti_handle *handles[AUTO_CALLS];
    sem_t over;
    EXPECT(sem_init(&over, 0, 0) == 0);
    const double begin_s = ranks_clock_s();
    for (int i = 0; i < AUTO_CALLS; i++) {
        handles[i] = auto_start(self, values, i, &over);
    }
    ranks_meet(self);
    for (int i = 0; i < AUTO_CALLS; i++) {
        while (sem_wait(&over) != 0) {
        }
    }
    for (int i = 0; i < AUTO_CALLS; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        tutti_handle_free(handles[i]);
    }
    (void)sem_destroy(&over);
    (void)usleep((useconds_t)(idle * (ranks_clock_s() - begin_s) * 1e6));
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
}

/* One after the other, in rank 0's order: a call without frames of a peer stays held there. */
static void auto_step_of_peer(ranks_self *self, int *values)
{
    ranks_meet(self);
    for (int i = 0; i < AUTO_CALLS; i++) {
        tutti_handle *handle = auto_start(self, values, i, NULL);
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
        tutti_handle_free(handle);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_step(self->context));
}

/* The decision of auto that follows from the measured rho: on a loaded host a step may differ from
 * the planned one. By the formula an order is worth 1 and 2 % at 0.59 and 0.6. */
static int auto_wanted(const tutti_counters *counters)
{
    const bool has_decided = counters->step_count >= 3;
    return !has_decided || counters->rho > 0.7 ? 1 : (counters->rho < 0.5 ? 0 : -1);
}

static void auto_body(ranks_self *self)
{
    int *values = calloc((size_t)AUTO_CALLS * AUTO_COUNT, sizeof(int));
    int seen[2] = {0, 0};
    EXPECT(values != NULL);
    tutti_counters before = ranks_counters(self);
    for (int step = 0; step < AUTO_STEPS; step++) {
        if (self->rank != 0) {
            auto_step_of_peer(self, values);
            continue;
        }
        auto_step(self, values, step % 20 < 10 ? 0.0 : 9.0);
        const tutti_counters now = ranks_counters(self);
        const int wanted = auto_wanted(&before);
        const bool has_order = now.overtaken > before.overtaken;
        EXPECT_SAY(wanted < 0 || has_order == (wanted == 1), "step %d after rho %g", step,
                   before.rho);
        seen[wanted == 1] += wanted >= 0 && before.step_count >= 3 ? 1 : 0;
        before = now;
    }
    EXPECT_SAY(self->rank != 0 || (seen[0] > 0 && seen[1] > 0), "plain %d, order %d", seen[0],
               seen[1]);
    free(values);
}

/* Under credit an urgent call overtakes held calls, which is impossible on the plain path: so
 * `overtaken` shows the path of a step. Without a table of costs N is measured. */
static void test_auto_keeps_the_order_near_rho_1_and_drops_it_far_below(void **state)
{
    (void)state;
    (void)setenv("TUTTI_CREDIT", "1", 1);
    (void)setenv("TUTTI_COSTS", "none", 1);
    ranks_run(2, "tcp", auto_body, NULL);
    (void)unsetenv("TUTTI_COSTS");
    (void)unsetenv("TUTTI_CREDIT");
}

/* ---- the chunk ---- */

static void expect_chunk(ranks_self *self, uint64_t bytes)
{
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    EXPECT(counters.chunk_bytes == bytes);
    int *values = calloc(COUNT, sizeof(int));
    EXPECT(values != NULL);
    EXPECT_STATUS(TUTTI_OK,
                  tutti_allreduce(self->context, values, values, COUNT, TUTTI_I32, TUTTI_SUM));
    free(values);
}

static void chunk_chosen_body(ranks_self *self)
{
    expect_chunk(self, 64 * 1024);
}

static void chunk_given_body(ranks_self *self)
{
    expect_chunk(self, 16 * 1024);
}

static void test_chunk_0_is_the_segment(void **state)
{
    (void)state;
    (void)setenv("TUTTI_SEGMENT", "64K", 1);
    ranks_run(2, "tcp", chunk_chosen_body, NULL);
    (void)setenv("TUTTI_CHUNK", "0", 1);
    ranks_run(2, "tcp", chunk_chosen_body, NULL);
    (void)setenv("TUTTI_CHUNK", "16K", 1);
    ranks_run(2, "tcp", chunk_given_body, NULL);
    (void)unsetenv("TUTTI_CHUNK");
    (void)unsetenv("TUTTI_SEGMENT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_cross_the_barrier_and_are_counted),
        cmocka_unit_test(test_alpha_differs_between_waiting_and_computing),
        cmocka_unit_test(test_credit_holds_calls_back_and_results_stay_right),
        cmocka_unit_test(test_tuning_switches_all_ranks_at_the_same_step),
        cmocka_unit_test(test_without_a_table_of_costs_the_middle_is_tried_first),
        cmocka_unit_test(test_a_profile_is_read_tried_and_written),
        cmocka_unit_test(test_a_rank_that_has_joined_delays_no_step),
        cmocka_unit_test(test_while_tuning_only_the_world_can_be_joined),
        cmocka_unit_test(test_auto_keeps_the_order_near_rho_1_and_drops_it_far_below),
        cmocka_unit_test(test_chunk_0_is_the_segment),
    };
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
