/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_test.c - servers stay out of the workers' collectives.
 *
 * Workers and servers over the simulated driver, each with a machine of collectives that sync
 * wraps. Workers sum while servers die or leave; the sums succeed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/control.h"
#include "platform/sim.h"
#include "sync/sync.h"

enum { WORKERS = 3, SERVERS = 2, PROCESSES = WORKERS + SERVERS, COUNT = 40000 };

typedef struct process {
    tt_control *control;
    tt_sync *sync;
    tt_request request;
    float *values;
    uint32_t reports, deserted;
    bool is_over;
} process;

typedef struct job {
    tt_sim *sim;
    process processes[PROCESSES];
} job;

static void take_report(void *owner, int level, const char *text)
{
    process *own = owner;
    (void)level;
    assert_non_null(strstr(text, "rank"));
    own->reports++;
}

static void take_desertion(void *owner)
{
    process *own = owner;
    own->deserted++;
}

static void process_make(job *all, uint32_t rank)
{
    static const uint32_t hosts[PROCESSES] = {0};
    process *own = &all->processes[rank];
    const bool is_server = rank >= WORKERS;
    const tt_world world = {.rank = is_server ? 0 : rank,
                            .size = is_server ? 1 : WORKERS,
                            .epoch = 7,
                            .host_of = hosts};
    tt_control_config config;
    tt_control_config_init(&config);
    const tt_control_listener listener = {.owner = own};
    tt_platform *platform = tt_sim_platform(all->sim, rank);
    assert_int_equal(tt_control_create(platform, &world, &config, &listener, &own->control), TT_OK);
    const tt_roles roles = {.rank = rank, .workers = WORKERS, .servers = SERVERS, .epoch = 7};
    const tt_sync_listener heard = {
        .owner = own, .report = take_report, .deserted = take_desertion};
    assert_int_equal(
        tt_sync_create(platform, &roles, tt_control_machine(own->control), &heard, &own->sync),
        TT_OK);
    tt_sim_attach(all->sim, rank, tt_sync_machine(own->sync));
    own->values = calloc(COUNT, sizeof(float));
}

static void job_make(job *all)
{
    tt_sim_config config;
    tt_sim_config_init(&config);
    config.size = PROCESSES;
    config.seed = 11;
    *all = (job){.sim = tt_sim_create(&config)};
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        process_make(all, rank);
    }
}

static void job_end(job *all)
{
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        tt_sync_destroy(all->processes[rank].sync);
        tt_control_destroy(all->processes[rank].control);
        free(all->processes[rank].values);
    }
    assert_true(tt_sim_destroy(all->sim));
}

static void take_end(tt_request *request)
{
    process *own = request->owner;
    assert_int_equal(request->status, TT_OK);
    own->is_over = true;
}

static void submit(void *argument)
{
    process *own = argument;
    for (uint32_t i = 0; i < COUNT; i++) {
        own->values[i] = 2.0f;
    }
    own->is_over = false;
    own->request = (tt_request){.collective = TT_ALLREDUCE,
                                .dtype = TT_F32,
                                .redop = TT_SUM,
                                .count = COUNT,
                                .prescale = 1.0,
                                .postscale = 1.0,
                                .input = own->values,
                                .output = own->values,
                                .finished = take_end,
                                .owner = own};
    tt_control_submit(own->control, &own->request);
}

static void sum_on_workers(job *all)
{
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        tt_sim_call(all->sim, rank, tt_sim_now(all->sim), submit, &all->processes[rank]);
    }
}

static void assert_summed(const job *all)
{
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        assert_true(all->processes[rank].is_over);
        assert_true(all->processes[rank].values[COUNT - 1] == 2.0f * WORKERS);
    }
}

static void test_a_server_that_dies_breaks_no_sum(void **state)
{
    job all;
    (void)state;
    job_make(&all);
    sum_on_workers(&all);
    for (int i = 0; i < 20; i++) {
        (void)tt_sim_step(all.sim);
    }
    tt_sim_kill(all.sim, WORKERS);
    tt_sim_run(all.sim, UINT64_MAX / 2);
    assert_summed(&all);
    sum_on_workers(&all);
    tt_sim_leave(all.sim, WORKERS + 1);
    tt_sim_run(all.sim, UINT64_MAX / 2);
    assert_summed(&all);
    assert_int_equal(all.processes[0].reports, 2);
    assert_int_equal(tt_sync_workers_left(all.processes[0].sync), WORKERS);
    job_end(&all);
}

static void test_a_server_notices_when_the_last_worker_is_gone(void **state)
{
    job all;
    (void)state;
    job_make(&all);
    const process *server = &all.processes[WORKERS];
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        assert_int_equal(server->deserted, 0);
        if (rank == 1) {
            tt_sim_kill(all.sim, rank);
        } else {
            tt_sim_leave(all.sim, rank);
        }
        tt_sim_run(all.sim, UINT64_MAX / 2);
        assert_int_equal(tt_sync_workers_left(server->sync), WORKERS - rank - 1);
    }
    assert_int_equal(server->deserted, 1);
    assert_int_equal(server->reports, WORKERS);
    job_end(&all);
}

/* A frame of a server that claims to be of a collective is dropped. */
static void test_frames_of_servers_reach_no_collective(void **state)
{
    job all;
    (void)state;
    job_make(&all);
    sum_on_workers(&all);
    for (uint32_t kind = 0; kind < 64; kind++) {
        const tt_head head = {.kind = (uint8_t)kind, .epoch = 7, .argument = 1};
        const tt_send forged = {.peer = 0, .head = &head, .token = TT_TOKEN_NONE};
        tt_sim_forge(all.sim, WORKERS, &forged);
    }
    tt_sim_run(all.sim, UINT64_MAX / 2);
    assert_summed(&all);
    job_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_that_dies_breaks_no_sum),
        cmocka_unit_test(test_a_server_notices_when_the_last_worker_is_gone),
        cmocka_unit_test(test_frames_of_servers_reach_no_collective),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
