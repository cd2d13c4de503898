/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe_calls_test.c - the number of idle ops is bounded, in any order of ends; an invalid call
 * does not match an earlier one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/control_internal.h"
#include "platform/sim.h"

enum { RANKS = 2, KINDS = 600, AT_ONCE = 16, ROUNDS = 200 };

typedef struct job {
    tt_sim *sim;
    tt_control *controls[RANKS];
    tt_request requests[RANKS][AT_ONCE];
    float values[RANKS][AT_ONCE][KINDS];
    uint32_t ends;
} job;

static void on_finished(tt_request *request)
{
    job *all = request->owner;
    all->ends++;
}

/* Frames overtake each other, so that concurrent calls end in any order. */
static void job_create(job *all)
{
    const uint32_t host_of[RANKS] = {0, 1};
    tt_sim_config sim;
    tt_control_config config;
    memset(all, 0, sizeof(*all));
    tt_sim_config_init(&sim);
    tt_control_config_init(&config);
    sim.size = RANKS;
    sim.seed = 11;
    sim.host_of = host_of;
    sim.noise.spike = sim.noise.reorder = 300;
    all->sim = tt_sim_create(&sim);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const tt_world world = {.rank = rank, .size = RANKS, .epoch = 1, .host_of = host_of};
        assert_int_equal(tt_control_create(tt_sim_platform(all->sim, rank), &world, &config,
                                           &(tt_control_listener){0}, &all->controls[rank]),
                         TT_OK);
        tt_sim_attach(all->sim, rank, tt_control_machine(all->controls[rank]));
    }
}

/* Every other call repeats in each round. */
static uint64_t count_of(uint32_t round, uint32_t i)
{
    return i % 2 == 0 ? 1 + i : 1 + AT_ONCE + (round * AT_ONCE + i) % (KINDS - AT_ONCE);
}

static void run_some(job *all, uint32_t round)
{
    all->ends = 0;
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            float *values = all->values[rank][i];
            all->requests[rank][i] = (tt_request){.collective = TT_ALLREDUCE,
                                                  .dtype = TT_F32,
                                                  .redop = TT_SUM,
                                                  .input = values,
                                                  .output = values,
                                                  .count = count_of(round, i),
                                                  .prescale = 1.0,
                                                  .postscale = 1.0,
                                                  .finished = on_finished,
                                                  .owner = all};
            tt_control_submit(all->controls[rank], &all->requests[rank][i]);
        }
    }
    while (all->ends < RANKS * AT_ONCE && tt_sim_step(all->sim)) {
    }
    assert_int_equal(all->ends, RANKS * AT_ONCE);
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        assert_int_equal(all->requests[0][i].status, TT_OK);
        assert_int_equal(all->requests[1][i].status, TT_OK);
    }
}

static tt_status run_one(job *all, const char *name, tt_dtype dtype, tt_redop redop)
{
    all->ends = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        all->requests[rank][0] = (tt_request){.collective = TT_ALLREDUCE,
                                              .dtype = dtype,
                                              .redop = redop,
                                              .name = name,
                                              .input = all->values[rank][0],
                                              .output = all->values[rank][1],
                                              .count = 8,
                                              .prescale = 1.0,
                                              .postscale = 1.0,
                                              .finished = on_finished,
                                              .owner = all};
        tt_control_submit(all->controls[rank], &all->requests[rank][0]);
    }
    while (all->ends < RANKS && tt_sim_step(all->sim)) {
    }
    assert_int_equal(all->ends, RANKS);
    assert_int_equal(all->requests[0][0].status, all->requests[1][0].status);
    return all->requests[0][0].status;
}

static void job_destroy(job *all)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_control_destroy(all->controls[rank]);
    }
    assert_true(tt_sim_destroy(all->sim));
}

static void test_an_unknown_dtype_is_found_after_any_call(void **state)
{
    static job all;
    (void)state;
    job_create(&all);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_one(&all, NULL, TT_F32, TT_MAX), TT_OK);
        const tt_dtype beyond = (tt_dtype)(TT_F32 | TT_MAX << 8);
        assert_int_equal(run_one(&all, NULL, beyond, (tt_redop)0), TT_ERR_BAD_ARGUMENT);
    }
    for (int i = 0; i < 20; i++) { /* soon it is planned */
        assert_int_equal(run_one(&all, "tensor", TT_F32, TT_SUM), TT_OK);
    }
    const tt_dtype beyond = (tt_dtype)(TT_F32 + 256);
    assert_int_equal(run_one(&all, "tensor", beyond, TT_SUM), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(run_one(&all, "tensor", TT_F32, TT_SUM), TT_OK);
    job_destroy(&all);
}

static void test_idle_ops_are_bounded(void **state)
{
    static job all;
    (void)state;
    job_create(&all);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        run_some(&all, round);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_true(all.controls[rank]->recipes.idle_count <= IDLE_MAX);
        }
    }
    job_destroy(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_ops_are_bounded),
        cmocka_unit_test(test_an_unknown_dtype_is_found_after_any_call),
    };
    return cmocka_run_group_tests_name("recipe", tests, NULL, NULL);
}
