/* SPDX-License-Identifier: Apache-2.0
 *
 * expire_test.c - named calls end at their deadline, whatever the other ranks do.
 *
 * Goal: a call with a deadline ends at most SLACK_NS after it on every rank that runs, while others
 * are stopped for a while or for good; a call that succeeds sums one and the same occurrence on all
 * ranks; the call of a late rank returns TIMED_OUT. Method: simulated ranks that call a few names
 * over and over, each at its own pace, with random deadlines; every seed is another world.
 *
 * Labels: asan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "control/control.h"
#include "platform/sim.h"

enum { SIZE_MAX_HERE = 4, NAMES = 4, TURNS = 12, COUNT = 3, LARGE = 9000 };

#define MS UINT64_C(1000000)
#define SLACK_NS (200 * MS)
#define FOR_EVER (UINT64_C(3600) * 1000 * MS)

typedef struct job job;

static uint64_t seed_count = 40; /* or from the command line */

/* One name on one rank: its calls follow each other. */
typedef struct chain {
    job *all;
    uint32_t rank, name_index;
    int turn; /* of the call that is open; from 1 */
    char name[32], group[32];
    tt_request request;
    int32_t *values;
    uint64_t count;
    uint64_t submitted_ns;
    bool is_open;
} chain;

struct job {
    tt_sim *sim;
    tt_control *controls[SIZE_MAX_HERE];
    tt_random random;
    uint64_t seed;
    uint32_t size;
    bool has_stopped[SIZE_MAX_HERE];
    bool is_ending;
    bool is_calm; /* no deadlines any more */
    chain chains[SIZE_MAX_HERE][NAMES];
    uint32_t timed_out, succeeded;
};

#define CHECK(condition, one)                                                                     \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fail_msg("seed %llu, rank %u, %s, turn %d: %s: status %d, after %.3f s: %s",          \
                     (unsigned long long)(one)->all->seed, (one)->rank, (one)->name, (one)->turn, \
                     #condition, (int)(one)->request.status,                                      \
                     (double)(tt_sim_now((one)->all->sim) - (one)->submitted_ns) / 1e9,           \
                     (one)->request.error);                                                       \
        }                                                                                         \
    } while (0)

static void chain_call(void *argument);

static int32_t value_of(const chain *one, uint32_t rank)
{
    return (int32_t)(1000 * one->turn + 10 * (int)rank + (int)one->name_index);
}

static void check_sum(const chain *one)
{
    int32_t sum = 0;
    for (uint32_t rank = 0; rank < one->all->size; rank++) {
        sum += value_of(one, rank);
    }
    CHECK(one->values[0] == sum && one->values[one->count - 1] == sum, one);
}

static void check_end(chain *one)
{
    job *all = one->all;
    const tt_request *request = &one->request;
    const uint64_t took_ns = tt_sim_now(all->sim) - one->submitted_ns;
    if (request->status == TT_OK) {
        all->succeeded++;
        check_sum(one);
    } else if (!all->is_ending) {
        CHECK(request->status == TT_ERR_TIMED_OUT, one);
        CHECK(strstr(request->error, "rank ") != NULL || strstr(request->error, "group") != NULL,
              one);
        all->timed_out++;
    }
    if (request->deadline_ns > 0 && !all->has_stopped[one->rank] && !all->is_ending) {
        CHECK(took_ns <= request->deadline_ns + SLACK_NS, one);
    }
}

static void on_finished(tt_request *request)
{
    chain *one = request->owner;
    job *all = one->all;
    CHECK(one->is_open, one);
    one->is_open = false;
    check_end(one);
    if (one->turn < TURNS && !all->is_ending) {
        tt_sim_call(all->sim, one->rank,
                    tt_sim_now(all->sim) + tt_random_below(&all->random, 80 * MS), chain_call, one);
    }
}

static void chain_call(void *argument)
{
    chain *one = argument;
    job *all = one->all;
    const bool has_deadline = !all->is_calm && tt_random_below(&all->random, 4) > 0;
    if (all->is_ending) {
        return;
    }
    one->turn++;
    one->is_open = true;
    one->submitted_ns = tt_sim_now(all->sim);
    for (uint64_t i = 0; i < one->count; i++) {
        one->values[i] = value_of(one, one->rank);
    }
    one->request = (tt_request){
        .collective = TT_ALLREDUCE,
        .dtype = TT_I32,
        .redop = TT_SUM,
        .name = one->name,
        .group = one->group[0] != 0 ? one->group : NULL,
        .group_size = one->group[0] != 0 ? 2 : 0,
        .input = one->values,
        .output = one->values,
        .count = one->count,
        .prescale = 1.0,
        .postscale = 1.0,
        .deadline_ns = has_deadline ? (30 + tt_random_below(&all->random, 300)) * MS : 0,
        .finished = on_finished,
        .owner = one,
    };
    tt_control_submit(all->controls[one->rank], &one->request);
}

/* ---- worlds ---- */

static void rank_create(job *all, uint32_t rank, const uint32_t *host_of)
{
    static const tt_negotiate_mode modes[] = {TT_NEGOTIATE_AUTO, TT_NEGOTIATE_COORDINATOR,
                                              TT_NEGOTIATE_BITVECTOR, TT_NEGOTIATE_AUTO};
    const tt_world world = {.rank = rank, .size = all->size, .epoch = 1, .host_of = host_of};
    tt_control_config config;
    tt_control_config_init(&config);
    config.negotiate.mode = modes[all->seed % 4];
    config.groups = all->seed % 5 == 0 ? 2 : 0;
    assert_int_equal(tt_control_create(tt_sim_platform(all->sim, rank), &world, &config,
                                       &(tt_control_listener){0}, &all->controls[rank]),
                     TT_OK);
    tt_sim_attach(all->sim, rank, tt_control_machine(all->controls[rank]));
}

static void chain_create(job *all, uint32_t rank, uint32_t index)
{
    chain *one = &all->chains[rank][index];
    *one = (chain){.all = all, .rank = rank, .name_index = index};
    (void)snprintf(one->name, sizeof(one->name), "tensor %u", index);
    if (index >= 2 && all->seed % 3 == 0) { /* the last two are a group */
        (void)snprintf(one->group, sizeof(one->group), "pair");
    }
    one->count = index == 1 ? LARGE : COUNT;
    one->values = calloc(one->count, sizeof(*one->values));
    assert_non_null(one->values);
}

static void job_create(job *all, uint64_t seed)
{
    uint32_t host_of[SIZE_MAX_HERE];
    tt_sim_config config;
    *all = (job){.seed = seed, .size = 2 + (uint32_t)(seed % 3)};
    tt_random_init(&all->random, seed, 77);
    tt_sim_config_init(&config);
    for (uint32_t rank = 0; rank < all->size; rank++) {
        host_of[rank] = (uint32_t)(seed / 3 % 2) * rank;
    }
    config.size = all->size;
    config.seed = seed;
    config.host_of = host_of;
    config.noise.spike = config.noise.reorder = 50;
    all->sim = tt_sim_create(&config);
    for (uint32_t rank = 0; rank < all->size; rank++) {
        rank_create(all, rank, host_of);
        for (uint32_t index = 0; index < NAMES; index++) {
            chain_create(all, rank, index);
        }
    }
}

static void start_all(job *all)
{
    for (uint32_t rank = 0; rank < all->size; rank++) {
        for (uint32_t index = 0; index < NAMES; index++) {
            tt_sim_call(all->sim, rank,
                        tt_sim_now(all->sim) + tt_random_below(&all->random, 50 * MS), chain_call,
                        &all->chains[rank][index]);
        }
    }
}

static void end_rank(void *argument)
{
    tt_control_shut_down(argument, TT_ERR_SHUT_DOWN, "the test is over");
    tt_control_shut_down(argument, TT_ERR_SHUT_DOWN, "the test is over");
}

static void job_destroy(job *all)
{
    all->is_ending = true;
    for (uint32_t rank = 0; rank < all->size; rank++) {
        end_rank(all->controls[rank]);
        tt_control_destroy(all->controls[rank]);
        for (uint32_t index = 0; index < NAMES; index++) {
            assert_false(all->chains[rank][index].is_open);
            free(all->chains[rank][index].values);
        }
    }
    assert_true(tt_sim_destroy(all->sim));
}

static void stop(job *all, uint32_t rank, uint64_t for_ns)
{
    all->has_stopped[rank] = true;
    tt_sim_stop(all->sim, rank, tt_sim_now(all->sim) + for_ns);
}

/* ---- claims ---- */

/* All calls have ended: each rank calls each name again. */
static void once_more(job *all)
{
    for (uint32_t rank = 0; rank < all->size; rank++) {
        for (uint32_t index = 0; index < NAMES; index++) {
            chain *one = &all->chains[rank][index];
            CHECK(!one->is_open && one->turn == TURNS, one);
            one->turn = TURNS - 1;
        }
    }
    start_all(all);
    tt_sim_run(all->sim, tt_sim_now(all->sim) + 10000 * MS);
    for (uint32_t rank = 0; rank < all->size; rank++) {
        for (uint32_t index = 0; index < NAMES; index++) {
            CHECK(!all->chains[rank][index].is_open, &all->chains[rank][index]);
        }
    }
}

/* A rank is stopped now and then, and continues. After the last stop, all calls succeed: the n-th
 * of a name still matches the n-th. */
static void test_calls_match_again_after_stops(void **state)
{
    uint32_t timed_out = 0, succeeded = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count; seed++) {
        job all;
        job_create(&all, seed);
        start_all(&all);
        for (int i = 0; i < 3; i++) {
            tt_sim_run(all.sim, tt_sim_now(all.sim) + 300 * MS);
            stop(&all, (uint32_t)tt_random_below(&all.random, all.size),
                 (50 + tt_random_below(&all.random, 900)) * MS);
        }
        tt_sim_run(all.sim, tt_sim_now(all.sim) + 30000 * MS);
        timed_out += all.timed_out;
        all.is_calm = true;
        once_more(&all); /* on some ranks only this call returns a failure of another rank */
        all.timed_out = all.succeeded = 0;
        once_more(&all);
        assert_int_equal(all.timed_out, 0);
        succeeded += all.succeeded;
        job_destroy(&all);
    }
    assert_true(timed_out > seed_count);
    assert_true(succeeded > seed_count);
}

/* A rank is stopped for good: calls of the others that have a deadline still end, one after the
 * other, and their errors name the missing rank. */
static void test_a_rank_stopped_for_good_blocks_no_other(void **state)
{
    uint32_t timed_out = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count; seed++) {
        job all;
        job_create(&all, seed);
        start_all(&all);
        const uint32_t victim = (uint32_t)tt_random_below(&all.random, all.size);
        tt_sim_run(all.sim, tt_sim_now(all.sim) + tt_random_below(&all.random, 400) * MS);
        for (uint32_t index = 0; index < NAMES; index++) {
            all.chains[victim][index].turn = TURNS; /* it makes no more calls */
        }
        stop(&all, victim, FOR_EVER);
        tt_sim_run(all.sim, tt_sim_now(all.sim) + 10000 * MS);
        for (uint32_t rank = 0; rank < all.size; rank++) {
            for (uint32_t index = 0; index < NAMES; index++) {
                const chain *one = &all.chains[rank][index];
                CHECK(rank == victim || !one->is_open || one->request.deadline_ns == 0, one);
            }
        }
        timed_out += all.timed_out;
        job_destroy(&all);
    }
    assert_true(timed_out > seed_count);
}

int main(int argc, char **argv)
{
    seed_count = argc > 1 ? strtoull(argv[1], NULL, 10) : seed_count;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_match_again_after_stops),
        cmocka_unit_test(test_a_rank_stopped_for_good_blocks_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
