/* SPDX-License-Identifier: Apache-2.0
 *
 * starved_test.c - a named call that lacks memory on one rank fails on the other ranks, too.
 *
 * Goal: whichever allocation fails, on any rank, every call ends on every rank, without a deadline.
 * Method: simulated ranks; the n-th allocation fails, for every n of a short program.
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

#include "control/control.h"
#include "platform/sim.h"

enum { SIZE = 3, CALLS = 10 };

#define SECOND UINT64_C(1000000000)

typedef struct one_call {
    tt_request request;
    tt_control *control;
    char name[32];
    int32_t value;
    int ends;
} one_call;

typedef struct job {
    tt_sim *sim;
    tt_control *controls[SIZE];
    one_call calls[SIZE][CALLS];
} job;

static void on_finished(tt_request *request)
{
    one_call *one = request->owner;
    one->ends++;
}

static void submit(void *argument)
{
    one_call *one = argument;
    one->request = (tt_request){.collective = TT_ALLREDUCE,
                                .dtype = TT_I32,
                                .redop = TT_SUM,
                                .name = one->name,
                                .input = &one->value,
                                .output = &one->value,
                                .count = 1,
                                .prescale = 1.0,
                                .postscale = 1.0,
                                .finished = on_finished,
                                .owner = one};
    tt_control_submit(one->control, &one->request);
}

/* False: a rank could not be created. */
static bool job_create(job *all, uint64_t fail_at)
{
    const uint32_t host_of[SIZE] = {0, 1, 2};
    tt_sim_config config;
    tt_control_config control;
    memset(all, 0, sizeof(*all));
    tt_sim_config_init(&config);
    tt_control_config_init(&control);
    config.size = SIZE;
    config.seed = 7;
    config.host_of = host_of;
    config.fail_at = fail_at;
    all->sim = tt_sim_create(&config);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        const tt_world world = {.rank = rank, .size = SIZE, .epoch = 1, .host_of = host_of};
        if (tt_control_create(tt_sim_platform(all->sim, rank), &world, &control,
                              &(tt_control_listener){0}, &all->controls[rank]) != TT_OK) {
            return false;
        }
        tt_sim_attach(all->sim, rank, tt_control_machine(all->controls[rank]));
    }
    return true;
}

static void job_run(job *all, uint64_t fail_at)
{
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        for (int i = 0; i < CALLS; i++) {
            one_call *one = &all->calls[rank][i];
            one->control = all->controls[rank];
            one->value = 1;
            (void)snprintf(one->name, sizeof(one->name), "tensor %d", i);
            tt_sim_call(all->sim, rank, (uint64_t)(i + 1) * SECOND / 100, submit, one);
        }
    }
    tt_sim_run(all->sim, 20 * SECOND);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        for (int i = 0; i < CALLS; i++) {
            const one_call *one = &all->calls[rank][i];
            const tt_status status = one->request.status;
            if (one->ends != 1 ||
                (status != TT_OK && status != TT_ERR_NO_MEMORY && status != TT_ERR_PEER_DOWN)) {
                fail_msg("allocation %u: rank %u, call %d: %d ends, status %d: %s",
                         (unsigned)fail_at, rank, i, one->ends, (int)status, one->request.error);
            }
            assert_true(status != TT_OK || one->value == SIZE);
        }
    }
}

static void job_destroy(job *all)
{
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        if (all->controls[rank] != NULL) {
            tt_control_shut_down(all->controls[rank], TT_ERR_SHUT_DOWN, "over");
            tt_control_shut_down(all->controls[rank], TT_ERR_SHUT_DOWN, "over");
            tt_control_destroy(all->controls[rank]);
        }
    }
    assert_true(tt_sim_destroy(all->sim));
}

static void test_every_call_ends_whichever_allocation_fails(void **state)
{
    static job all;
    (void)state;
    assert_true(job_create(&all, 0));
    job_run(&all, 0);
    const uint64_t allocations = tt_sim_allocations(all.sim);
    job_destroy(&all);
    for (uint64_t fail_at = 1; fail_at <= allocations; fail_at++) {
        if (job_create(&all, fail_at)) {
            job_run(&all, fail_at);
        }
        job_destroy(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_ends_whichever_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
