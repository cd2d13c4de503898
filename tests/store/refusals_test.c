/* SPDX-License-Identifier: Apache-2.0
 *
 * refusals_test.c - what a store cannot do is refused at once, in a text with the culprit and the
 * cure: combinations of settings, numbers out of range, memory that is short.
 *
 * Labels: asan sync */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/small.h"

enum { WORKERS = 2 };

static void finished(tt_sync_request *request)
{
    *(int *)request->owner += 1;
}

/* The same call of all workers fails on all of them, with these words. */
static void expect_refused(small_world *world, tt_sync_request request, const char *culprit,
                           const char *cure)
{
    tt_sync_request requests[WORKERS];
    int ends = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        requests[i] = request;
        requests[i].owner = &ends;
        requests[i].finished = finished;
        tt_sync_submit(world->machines[i]->sync, &requests[i]);
    }
    small_run(world);
    assert_int_equal(ends, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_true(requests[i].status < 0);
        if (strstr(requests[i].error, culprit) == NULL || strstr(requests[i].error, cure) == NULL) {
            fail_msg("\"%s\" lacks \"%s\" or \"%s\"", requests[i].error, culprit, cure);
        }
    }
}

static void test_settings_that_exclude_each_other(void **state)
{
    static const struct {
        const char *policy, *update, *codec, *culprit, *cure;
    } cases[] = {
        /* A sum of everyone's values is a collective: nobody can be late for it. */
        {"stale:1", "sum", NULL, "update sum is the sum of one iteration", "use update=add"},
        {"async", "sum", NULL, "policy async does not wait", "policy bulk"},
        /* Codecs whose rounds need all workers. */
        {"stale:1", "add", "int8sum", "codec int8sum needs scales", "use int8"},
        {"async", "add", "majority", "codec majority", "sign"},
        {"bulk", "sgd:lr=0.1,tau=1", NULL, "which policy bulk does not have", "leave them out"},
        {"quorum:1", "sgd:lr=0.1,dc=0.1", NULL, "tau and dc", "use async or stale"},
        {"quorum:3", "add", NULL, "quorum:3 needs more workers than the 2", "quorum:2 or less"},
        {"quorum:0", "add", NULL, "quorum:0", "K from 1"},
        {"stale:-1", "add", NULL, "stale:-1", "S from 0"},
    };
    small_world *world = small_create(WORKERS, WORKERS);
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        expect_refused(world,
                       (tt_sync_request){.verb = TT_STORE_OPEN,
                                         .policy = cases[i].policy,
                                         .update = cases[i].update,
                                         .codec = cases[i].codec},
                       cases[i].culprit, cases[i].cure);
    }
    assert_int_equal(world->sent, 0);
    small_destroy(world);
}

/* An owner that has no memory fails the tensor on all workers, and others work. */
static void test_memory_that_is_short(void **state)
{
    static const float values[SMALL_MEMORY_BYTES / sizeof(float)];
    small_world *world = small_create(WORKERS, WORKERS);
    tt_sync_request requests[WORKERS];
    int ends = 0;
    (void)state;
    for (uint32_t i = 0; i < WORKERS; i++) {
        requests[i] = (tt_sync_request){.verb = TT_STORE_OPEN,
                                        .policy = "bulk",
                                        .update = "add",
                                        .owner = &ends,
                                        .finished = finished};
        tt_sync_submit(world->machines[i]->sync, &requests[i]);
    }
    small_run(world);
    assert_int_equal(ends, WORKERS);
    const tt_sync_request add = {.verb = TT_STORE_ADD,
                                 .name = small_name(world, 1),
                                 .dtype = TT_F32,
                                 .count = sizeof(values) / sizeof(*values),
                                 .input = values};
    expect_refused(world, add, "server 0 (rank 2) has no memory for its part of tensor \"b\"",
                   "start more servers, or fewer workers");
    ends = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        requests[i] = add;
        requests[i].name = small_name(world, 0);
        requests[i].count = 1;
        requests[i].owner = &ends;
        requests[i].finished = finished;
        tt_sync_submit(world->machines[i]->sync, &requests[i]);
    }
    small_run(world);
    assert_int_equal(ends, WORKERS);
    assert_int_equal(requests[0].status, TT_OK);
    small_destroy(world);
}

/* Stores have no names: the first one that a worker opens is store 0. */
static void test_stores_in_another_order(void **state)
{
    static const char *const policies[] = {"bulk", "async"};
    small_world *world = small_create(WORKERS, WORKERS);
    tt_sync_request requests[2][WORKERS];
    int ends = 0;
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            requests[k][i] = (tt_sync_request){.verb = TT_STORE_OPEN,
                                               .policy = policies[(k + i) % 2],
                                               .update = "add",
                                               .owner = &ends,
                                               .finished = finished};
            tt_sync_submit(world->machines[i]->sync, &requests[k][i]);
        }
    }
    small_run(world);
    assert_int_equal(ends, 2 * WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(requests[1][i].status, TT_ERR_MISMATCH);
        assert_non_null(strstr(requests[1][i].error, "ranks open store 1 differently"));
        assert_non_null(strstr(requests[1][i].error, "open stores in one order"));
    }
    small_destroy(world);
}

static void test_servers_in_excess_are_reported(void **state)
{
    (void)state;
    small_world *world = small_create(WORKERS, WORKERS + 1);
    assert_non_null(strstr(world->report.bytes, "3 servers for 2 workers: the last 1 own nothing"));
    small_destroy(world);
    world = small_create(WORKERS, WORKERS);
    assert_int_equal(world->report.length, 0);
    small_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_that_exclude_each_other),
        cmocka_unit_test(test_memory_that_is_short),
        cmocka_unit_test(test_stores_in_another_order),
        cmocka_unit_test(test_servers_in_excess_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
