/* SPDX-License-Identifier: Apache-2.0
 *
 * stall_test.c - calls that wait long name whom they wait for.
 *
 * Three workers and a server over the simulated driver. A call is made on some workers only, or a
 * process is stopped; the last log line of each worker is compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "platform/sim.h"
#include "sync/sync_internal.h"

enum { WORKERS = 3, PROCESSES = 4, COUNT = 50 };

#define STALL_NS (UINT64_C(50) * 1000 * 1000)

typedef struct process {
    tt_platform *platform;
    tt_sync *sync;
    tt_sync_request request;
    float memory[COUNT];
    tt_text report; /* the last warning */
    uint32_t reports;
    bool is_over;
} process;

typedef struct job {
    tt_sim *sim;
    process processes[PROCESSES];
    uint64_t questions;
    uint64_t now_ns; /* the simulator's clock stands while there is no event */
} job;

static void *no_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    (void)machine, (void)peer, (void)head, (void)payload;
    return NULL;
}

static bool no_step(void *machine)
{
    (void)machine;
    return false;
}

static void no_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine, (void)peer, (void)event, (void)why;
}

static void no_sent(void *machine, uint64_t token)
{
    (void)machine, (void)token;
}

static void no_timer(void *machine)
{
    (void)machine;
}

static const tt_machine_ops nothing = {
    .frame = no_frame, .sent = no_sent, .step = no_step, .peer = no_peer, .timer = no_timer};

static void keep_report(void *owner, int level, const char *text)
{
    process *own = owner;
    if (level == LEVEL_WARN) {
        own->reports++;
        tt_text_clear(&own->report);
        tt_text_add(&own->report, "%s", text);
    }
}

static void set_alarm(void *owner, uint64_t at_ns)
{
    const process *own = owner;
    own->platform->ops->timer(own->platform, at_ns);
}

static void no_submit(void *owner, tt_request *request)
{
    (void)owner, (void)request;
    fail();
}

static void count_question(void *owner, uint32_t from, const tt_send *send)
{
    job *all = owner;
    (void)from;
    all->questions += send->head->kind == TT_SYNC_STALLED;
}

static void job_make(job *all)
{
    tt_sim_config config;
    tt_sim_config_init(&config);
    config.size = PROCESSES;
    config.seed = 11;
    config.silence_ns = UINT64_MAX / 4; /* the driver notices nothing, as over TCP */
    *all = (job){.sim = tt_sim_create(&config)};
    tt_sim_watch(all->sim, (tt_sim_spy){.owner = all, .seen = count_question});
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        process *own = &all->processes[rank];
        own->platform = tt_sim_platform(all->sim, rank);
        const tt_roles roles = {.rank = rank, .workers = WORKERS, .servers = 1, .epoch = 2};
        const tt_sync_listener listener = {.owner = own,
                                           .report = keep_report,
                                           .submit = no_submit,
                                           .alarm = set_alarm,
                                           .stall_ns = STALL_NS};
        const tt_machine inner = {.ops = &nothing};
        assert_int_equal(tt_sync_create(own->platform, &roles, inner, &listener, &own->sync),
                         TT_OK);
        tt_sim_attach(all->sim, rank, tt_sync_machine(own->sync));
    }
}

static void job_end(job *all)
{
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        tt_sync_shut_down(all->processes[rank].sync, TT_ERR_SHUT_DOWN, "over");
        tt_sync_destroy(all->processes[rank].sync);
    }
    assert_true(tt_sim_destroy(all->sim));
}

static void take_end(tt_sync_request *request)
{
    process *own = request->owner;
    own->is_over = true;
}

static void submit(void *argument)
{
    process *own = argument;
    own->is_over = false;
    own->request.owner = own;
    own->request.finished = take_end;
    own->request.input = own->request.output = own->memory;
    tt_sync_submit(own->sync, &own->request);
}

static void start(job *all, uint32_t rank, tt_sync_request request)
{
    all->processes[rank].request = request;
    tt_sim_call(all->sim, rank, all->now_ns, submit, &all->processes[rank]);
}

/* For so many times the time after which a call is reported. */
static void pass(job *all, double times)
{
    all->now_ns += (uint64_t)(times * (double)STALL_NS);
    tt_sim_run(all->sim, all->now_ns);
}

static void on_all(job *all, tt_sync_request request)
{
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        start(all, rank, request);
    }
    pass(all, 0.5);
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        assert_true(all->processes[rank].is_over);
        assert_int_equal(all->processes[rank].request.status, TT_OK);
    }
}

static void job_open(job *all, const char *policy, const char *update)
{
    job_make(all);
    on_all(all, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = policy, .update = update});
    on_all(all,
           (tt_sync_request){.verb = TT_STORE_ADD, .name = "w", .dtype = TT_F32, .count = COUNT});
}

static void expect(const job *all, uint32_t rank, const char *words)
{
    const process *own = &all->processes[rank];
    if (strstr(own->report.bytes, words) == NULL) {
        fail_msg("rank %u reported '%s', not '%s'", rank, own->report.bytes, words);
    }
}

/* Workers 0 and 2 make a call that waits for worker 1, whose call then ends the wait. */
static void wait_for_worker_1(job *all, tt_sync_request request, const char *words)
{
    start(all, 0, request);
    start(all, 2, request);
    pass(all, 0.9);
    assert_int_equal(all->processes[0].reports, 0);
    pass(all, 0.6);
    expect(all, 0, words);
    expect(all, 2, words);
    assert_int_equal(all->processes[0].reports, 1);
    assert_int_equal(all->processes[1].reports, 0);
    pass(all, 1.0);
    assert_int_equal(all->processes[0].reports, 2); /* repeatedly */
    start(all, 1, request);
    pass(all, 3.0);
    assert_int_equal(all->processes[0].reports, 2);
    assert_true(all->processes[0].is_over && all->processes[2].is_over);
}

static void test_a_worker_that_does_not_push_is_named(void **state)
{
    (void)state;
    job all;
    job_open(&all, "bulk", "sum");
    wait_for_worker_1(&all, (tt_sync_request){.verb = TT_STORE_PUSH_PULL, .name = "w"},
                      "a push and pull of tensor \"w\" of store 0 has waited for 0.1 s: worker 1 "
                      "(rank 1) has not "
                      "pushed");
    job_end(&all);
}

static void test_a_worker_that_does_not_open_is_named(void **state)
{
    (void)state;
    job all;
    job_make(&all);
    wait_for_worker_1(
        &all, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "bulk", .update = "sum"},
        "opening store 0 has waited for 0.1 s: worker 1 (rank 1) has not opened the store");
    job_end(&all);
}

static void test_a_worker_that_does_not_add_or_close_is_named(void **state)
{
    (void)state;
    job all;
    job_open(&all, "async", "add");
    wait_for_worker_1(
        &all, (tt_sync_request){.verb = TT_STORE_ADD, .name = "b", .dtype = TT_F32, .count = COUNT},
        "adding tensor \"b\" of store 0 has waited for 0.1 s: worker 1 (rank 1) has not "
        "added it");
    all.processes[0].reports = 0;
    wait_for_worker_1(&all, (tt_sync_request){.verb = TT_STORE_CLOSE},
                      "closing store 0 has waited for 0.1 s: worker 1 (rank 1) has not closed it");
    job_end(&all);
}

static void test_a_worker_whose_clock_is_behind_is_named(void **state)
{
    (void)state;
    job all;
    job_open(&all, "stale:2", "add");
    for (int i = 0; i < 2; i++) { /* as far as it may */
        start(&all, 0, (tt_sync_request){.verb = TT_STORE_CLOCK});
        start(&all, 2, (tt_sync_request){.verb = TT_STORE_CLOCK});
        pass(&all, 0.2);
        assert_true(all.processes[0].is_over && all.processes[2].is_over);
    }
    wait_for_worker_1(
        &all, (tt_sync_request){.verb = TT_STORE_CLOCK},
        "the clock of store 0 has waited for 0.1 s: worker 1 (rank 1) has completed 0 of 1");
    job_end(&all);
}

static void test_a_stopped_server_is_named(void **state)
{
    (void)state;
    job all;
    job_open(&all, "async", "add");
    tt_sim_stop(all.sim, 3, all.now_ns + STALL_NS * 14 / 5);
    start(&all, 1, (tt_sync_request){.verb = TT_STORE_PULL, .name = "w"});
    pass(&all, 2.5);
    expect(&all, 1,
           "a pull of tensor \"w\" of store 0 has waited for 0.1 s: server 0 (rank 3) does "
           "not reply; is it stopped");
    pass(&all, 2.0);
    assert_true(all.processes[1].is_over);
    assert_int_equal(all.processes[1].reports, 1);
    job_end(&all);
}

static void test_calls_that_end_in_time_cost_no_frame(void **state)
{
    (void)state;
    job all;
    job_open(&all, "bulk", "sum");
    for (int i = 0; i < 20; i++) {
        on_all(&all, (tt_sync_request){.verb = TT_STORE_PUSH_PULL, .name = "w"});
    }
    assert_int_equal(all.questions, 0);
    pass(&all, 10.0);
    assert_false(tt_sim_step(all.sim)); /* nothing looks at calls that are over */
    job_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worker_that_does_not_push_is_named),
        cmocka_unit_test(test_a_worker_that_does_not_open_is_named),
        cmocka_unit_test(test_a_worker_that_does_not_add_or_close_is_named),
        cmocka_unit_test(test_a_worker_whose_clock_is_behind_is_named),
        cmocka_unit_test(test_a_stopped_server_is_named),
        cmocka_unit_test(test_calls_that_end_in_time_cost_no_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
