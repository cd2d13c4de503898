/* SPDX-License-Identifier: Apache-2.0
 *
 * modelled_engine_test.c - all ranks' control over an outside engine that is modelled by the
 * simulated driver: calls land when the model says, late and dead ranks, order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "control/control.h"
#include "platform/sim.h"

enum {
    RANKS = 4,
    CALLS_MAX = 8,
    COUNT = 1000,
    START_NS = 1000000,
    COST_NS = 500000, /* and one per byte */
    FOREVER_NS = 1000 * 1000 * 1000,
};

typedef struct world world;

typedef struct call {
    world *world;
    uint32_t rank, index;
    tt_request request;
    char name[16];
    float values[COUNT];
    uint64_t ended_ns; /* 0: it is open */
} call;

struct world {
    tt_sim *sim;
    tt_control *controls[RANKS];
    call calls[RANKS][CALLS_MAX];
    bool is_named, is_phantom;
};

/* Sums of floats alone. */
static uint64_t collective_ns(const void *owner, const tt_sim_collective *what)
{
    (void)owner;
    return what->dtype == TT_F32 ? COST_NS + what->bytes : UINT64_MAX;
}

static void world_init(world *it, uint64_t phantom_bytes)
{
    static const uint32_t host_of[RANKS] = {0, 1, 2, 3};
    tt_sim_config sim;
    tt_control_config config;
    memset(it, 0, sizeof(*it));
    it->is_phantom = phantom_bytes > 0;
    tt_sim_config_init(&sim);
    tt_control_config_init(&config);
    sim.size = RANKS;
    sim.host_of = host_of;
    sim.upcall_ns = 0;
    sim.jitter_ns = 0;
    sim.detect_ns = COST_NS / 5;
    sim.phantom_bytes = phantom_bytes;
    sim.engine = (tt_sim_engine){.owner = it, .collective_ns = collective_ns};
    it->sim = tt_sim_create(&sim);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const tt_world job = {.rank = rank, .size = RANKS, .epoch = 1, .host_of = host_of};
        assert_int_equal(tt_control_create(tt_sim_platform(it->sim, rank), &job, &config,
                                           &(tt_control_listener){0}, &it->controls[rank]),
                         TT_OK);
        tt_sim_attach(it->sim, rank, tt_control_machine(it->controls[rank]));
    }
}

static void world_fini(world *it)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_control_shut_down(it->controls[rank], TT_ERR_SHUT_DOWN, "over");
        tt_control_destroy(it->controls[rank]);
    }
    assert_true(tt_sim_destroy(it->sim));
}

static void on_finished(tt_request *request)
{
    call *one = request->owner;
    one->ended_ns = tt_sim_now(one->world->sim);
}

static void submit(void *self)
{
    call *one = self;
    void *values = one->world->is_phantom ? tt_sim_phantom(one->world->sim, TT_MEMORY_PRIVATE)
                                          : (void *)one->values;
    const tt_dtype dtype = one->request.dtype;
    one->request = (tt_request){.collective = TT_ALLREDUCE,
                                .dtype = dtype,
                                .redop = TT_SUM,
                                .count = dtype == TT_F32 ? COUNT : 1,
                                .prescale = 1.0,
                                .postscale = 0.5,
                                .name = one->world->is_named ? one->name : NULL,
                                .is_alone = true,
                                .input = values,
                                .output = values,
                                .finished = on_finished,
                                .owner = one,
                                .status = TT_IN_PROGRESS};
    for (uint32_t i = 0; i < COUNT; i++) {
        one->values[i] = (float)(one->rank + one->index);
    }
    tt_control_submit(one->world->controls[one->rank], &one->request);
}

/* The rank makes its index-th call at some time. */
static void plan(world *it, uint32_t rank, uint32_t index, uint64_t at_ns)
{
    call *one = &it->calls[rank][index];
    *one = (call){.world = it, .rank = rank, .index = index, .request.dtype = TT_F32};
    (void)snprintf(one->name, sizeof(one->name), "tensor %u", index);
    tt_sim_call(it->sim, rank, at_ns, submit, one);
}

static void run(world *it, uint64_t until_ns)
{
    tt_sim_run(it->sim, until_ns);
}

/* All ranks ended it at this time, with the sum. */
static void check_landing(const world *it, uint32_t index, uint64_t at_ns)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const call *one = &it->calls[rank][index];
        assert_int_equal(one->request.status, TT_OK);
        assert_int_equal(one->ended_ns, at_ns);
        if (!it->is_phantom) {
            assert_true(one->values[COUNT - 1] == 0.5f * (float)(6 + RANKS * index));
        }
    }
}

/* Between the last call and the launch is the agreement: a byte to every rank and back. */
enum { AGREED_NS_MAX = 200 * 1000, CALL_NS = COST_NS + COUNT * sizeof(float) };

static void test_calls_land_when_the_model_says(void **state)
{
    (void)state;
    for (int is_phantom = 0; is_phantom < 2; is_phantom++) {
        world it;
        world_init(&it, is_phantom == 1 ? 1 << 20 : 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            plan(&it, rank, 0, START_NS + rank);
        }
        run(&it, FOREVER_NS);
        const uint64_t ended_ns = it.calls[0][0].ended_ns;
        assert_in_range(ended_ns, START_NS + CALL_NS, START_NS + CALL_NS + AGREED_NS_MAX);
        check_landing(&it, 0, ended_ns);
        world_fini(&it);
    }
}

static void test_a_late_rank_delays_all(void **state)
{
    (void)state;
    static const uint64_t late_ns = 10 * 1000 * 1000;
    uint64_t ended_ns[2];
    for (uint32_t i = 0; i < 2; i++) {
        world it;
        world_init(&it, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            plan(&it, rank, 0, START_NS + (rank == 2 ? i * late_ns : 0));
        }
        run(&it, FOREVER_NS);
        ended_ns[i] = it.calls[0][0].ended_ns;
        check_landing(&it, 0, ended_ns[i]);
        world_fini(&it);
    }
    /* The agreement waits for it alone then, and is no slower. */
    assert_in_range(ended_ns[1], START_NS + late_ns + CALL_NS, ended_ns[0] + late_ns);
}

static void test_an_engine_runs_one_call_after_the_other(void **state)
{
    (void)state;
    world it;
    world_init(&it, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t i = 0; i < CALLS_MAX; i++) {
            plan(&it, rank, i, START_NS + i);
        }
    }
    run(&it, FOREVER_NS);
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        check_landing(&it, i, it.calls[0][0].ended_ns + i * CALL_NS);
    }
    world_fini(&it);
}

/* Ranks submit in different orders; all launch the agreed one. */
static void test_named_calls_land_one_after_the_other_in_the_agreed_order(void **state)
{
    (void)state;
    world it;
    world_init(&it, 0);
    it.is_named = true;
    for (uint32_t step = 0; step < 3; step++) {
        const uint64_t at_ns = START_NS + step * (uint64_t)FOREVER_NS / 10;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            for (uint32_t i = 0; i < CALLS_MAX; i++) {
                plan(&it, rank, (i + rank) % CALLS_MAX, at_ns);
            }
        }
        run(&it, at_ns + FOREVER_NS / 20);
        uint64_t last_ns = 0, first_ns = UINT64_MAX;
        for (uint32_t i = 0; i < CALLS_MAX; i++) {
            check_landing(&it, i, it.calls[0][i].ended_ns);
            last_ns = tt_max_u64(last_ns, it.calls[0][i].ended_ns);
            first_ns = tt_min_u64(first_ns, it.calls[0][i].ended_ns);
        }
        assert_true(last_ns - first_ns >= (CALLS_MAX - 1) * CALL_NS);
        assert_int_equal(tt_control_count(it.controls[0]).launched, (step + 1) * CALLS_MAX);
    }
    world_fini(&it);
}

static void test_what_the_engine_cannot_run_goes_over_links(void **state)
{
    (void)state;
    world it;
    world_init(&it, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        plan(&it, rank, 0, START_NS);
        it.calls[rank][0].request.dtype = TT_F64;
    }
    run(&it, FOREVER_NS);
    assert_int_equal(tt_control_count(it.controls[0]).launched, 0);
    assert_int_equal(it.calls[0][0].request.status, TT_OK);
    assert_in_range(it.calls[0][0].ended_ns, START_NS, START_NS + COST_NS - 1);
    world_fini(&it);
}

static void check_failure(const world *it, uint32_t index)
{
    for (uint32_t rank = 0; rank < 3; rank++) {
        const call *one = &it->calls[rank][index];
        assert_int_equal(one->request.status, TT_ERR_PEER_DOWN);
        assert_non_null(strstr(one->request.error, "rank 3"));
    }
}

/* It died before it launched the second call: nothing was launched. */
static void test_a_dead_rank_fails_calls(void **state)
{
    (void)state;
    world it;
    world_init(&it, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        plan(&it, rank, 0, START_NS);
    }
    run(&it, START_NS + FOREVER_NS / 10);
    check_landing(&it, 0, it.calls[0][0].ended_ns);
    for (uint32_t rank = 0; rank < 3; rank++) {
        plan(&it, rank, 1, START_NS + FOREVER_NS / 5);
    }
    run(&it, START_NS + FOREVER_NS / 5 + 1000);
    tt_sim_kill(it.sim, 3);
    run(&it, FOREVER_NS);
    check_failure(&it, 1);
    assert_int_equal(tt_control_count(it.controls[0]).launched, 1);
    assert_false(tt_control_lost_engine(it.controls[0]));
    world_fini(&it);
}

/* It died while the engine ran the call: the buffers are the engine's for good. */
static void test_a_death_while_the_engine_works_loses_it(void **state)
{
    (void)state;
    world it;
    world_init(&it, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        plan(&it, rank, 0, START_NS);
    }
    while (tt_control_count(it.controls[3]).launched == 0) {
        assert_true(tt_sim_step(it.sim));
    }
    tt_sim_kill(it.sim, 3);
    run(&it, FOREVER_NS);
    check_failure(&it, 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_true(it.calls[rank][0].request.has_strays);
        assert_true(tt_control_lost_engine(it.controls[rank]));
    }
    world_fini(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_land_when_the_model_says),
        cmocka_unit_test(test_a_late_rank_delays_all),
        cmocka_unit_test(test_an_engine_runs_one_call_after_the_other),
        cmocka_unit_test(test_named_calls_land_one_after_the_other_in_the_agreed_order),
        cmocka_unit_test(test_what_the_engine_cannot_run_goes_over_links),
        cmocka_unit_test(test_a_dead_rank_fails_calls),
        cmocka_unit_test(test_a_death_while_the_engine_works_loses_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
