/* SPDX-License-Identifier: Apache-2.0
 *
 * store_calls_test.c - options that change at a clock: values, and what is refused; counts.
 *
 * Two workers and a server over the simulated driver; calls are made one after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "platform/sim.h"
#include "sync/sync.h"
#include "sync/sync_internal.h"

enum { WORKERS = 2, PROCESSES = 3 };

typedef struct job {
    tt_sim *sim;
    tt_sync *syncs[PROCESSES];
} job;

typedef struct one_call {
    tt_sync *sync;
    tt_sync_request request;
    int finish_count;
} one_call;

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
    (void)machine;
    assert_true(token == TT_TOKEN_NONE);
}

static const tt_machine_ops nothing = {
    .frame = no_frame, .sent = no_sent, .step = no_step, .peer = no_peer};

static void drop_report(void *owner, int level, const char *text)
{
    (void)owner, (void)level, (void)text;
}

static void job_make(job *all)
{
    tt_sim_config config;
    tt_sim_config_init(&config);
    config.size = PROCESSES;
    config.seed = 5;
    *all = (job){.sim = tt_sim_create(&config)};
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        const tt_roles roles = {.rank = rank, .workers = WORKERS, .servers = 1, .epoch = 2};
        const tt_sync_listener listener = {.report = drop_report};
        const tt_machine inner = {.ops = &nothing};
        assert_int_equal(tt_sync_create(tt_sim_platform(all->sim, rank), &roles, inner, &listener,
                                        &all->syncs[rank]),
                         TT_OK);
        tt_sim_attach(all->sim, rank, tt_sync_machine(all->syncs[rank]));
    }
}

static void job_end(job *all)
{
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        tt_sync_shut_down(all->syncs[rank], TT_ERR_SHUT_DOWN, "over");
        tt_sync_destroy(all->syncs[rank]);
    }
    assert_true(tt_sim_destroy(all->sim));
}

static void take_end(tt_sync_request *request)
{
    one_call *own = request->owner;
    own->finish_count++;
}

static void submit(void *argument)
{
    one_call *own = argument;
    own->request.owner = own;
    own->request.finished = take_end;
    tt_sync_submit(own->sync, &own->request);
}

/* Make a call on workers [first, last], and wait for the end of all. */
static void make(job *all, uint32_t first, uint32_t last, one_call calls[WORKERS])
{
    for (uint32_t i = first; i <= last; i++) {
        calls[i].sync = all->syncs[i];
        calls[i].finish_count = 0;
        tt_sim_call(all->sim, i, tt_sim_now(all->sim), submit, &calls[i]);
    }
    tt_sim_run(all->sim, UINT64_MAX / 2);
    for (uint32_t i = first; i <= last; i++) {
        assert_int_equal(calls[i].finish_count, 1);
    }
}

static tt_status on_one(job *all, uint32_t rank, tt_sync_request request, const char *words)
{
    one_call calls[WORKERS] = {{.request = request}, {.request = request}};
    make(all, rank, rank, calls);
    if (words != NULL) {
        assert_non_null(strstr(calls[rank].request.error, words));
    }
    return calls[rank].request.status;
}

static void on_all(job *all, tt_sync_request request)
{
    one_call calls[WORKERS] = {{.request = request}, {.request = request}};
    make(all, 0, WORKERS - 1, calls);
    assert_int_equal(calls[0].request.status, TT_OK);
    assert_int_equal(calls[1].request.status, TT_OK);
}

static void open_with(job *all, const char *policy, const char *update, const float *first)
{
    job_make(all);
    on_all(all, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = policy, .update = update});
    on_all(all,
           (tt_sync_request){
               .verb = TT_STORE_ADD, .name = "t", .dtype = TT_F32, .count = 1, .input = first});
}

static tt_status set(job *all, uint32_t rank, double value, uint64_t clock, const char *words)
{
    return on_one(
        all, rank,
        (tt_sync_request){.verb = TT_STORE_SET, .name = "lr", .value = value, .clock = clock},
        words);
}

static float pull(job *all, uint32_t rank)
{
    float value = -1.0f;
    assert_int_equal(on_one(all, rank,
                            (tt_sync_request){.verb = TT_STORE_PULL, .name = "t", .output = &value},
                            NULL),
                     TT_OK);
    return value;
}

static const float one = 1.0f, two = 2.0f, zero = 0.0f;

static void push(job *all, uint32_t rank, const float *value)
{
    assert_int_equal(on_one(all, rank,
                            (tt_sync_request){.verb = TT_STORE_PUSH, .name = "t", .input = value},
                            NULL),
                     TT_OK);
}

static void test_a_rate_holds_from_its_clock_on(void **state)
{
    job all;
    (void)state;
    open_with(&all, "bulk", "sgd:lr=1", &zero);
    const tt_sync_request pushes = {.verb = TT_STORE_PUSH, .name = "t", .input = &one};
    const tt_sync_request clock = {.verb = TT_STORE_CLOCK};
    assert_int_equal(set(&all, 1, 0.5, 2, NULL), TT_OK);
    assert_int_equal(set(&all, 0, 0.25, 3, NULL), TT_OK);
    assert_int_equal(set(&all, 1, 0.125, 1, NULL), TT_OK);
    static const float wanted[] = {-1.0f, -1.125f, -1.625f, -1.875f, -2.875f};
    for (uint32_t i = 0; i < 5; i++) {
        if (i == 4) {
            assert_int_equal(set(&all, 0, 1.0, UINT64_MAX, NULL), TT_OK);
        }
        on_all(&all, pushes);
        assert_true(pull(&all, 0) == wanted[i]);
        on_all(&all, clock);
    }
    job_end(&all);
}

static void test_what_cannot_be_set_is_refused(void **state)
{
    job all;
    (void)state;
    open_with(&all, "async", "sgd:lr=1", &zero);
    assert_int_equal(on_one(&all, 0, (tt_sync_request){.verb = TT_STORE_SET, .name = "rate"},
                            "has no option \"rate\"; it has lr"),
                     TT_ERR_BAD_ARGUMENT);
    assert_int_equal(set(&all, 0, 1e300, 0, "not a finite number"), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(set(&all, 0, -1.0, 0, "from 0 on"), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(set(&all, 0, 1.0, UINT64_C(1) << 40, "no clock"), TT_ERR_BAD_ARGUMENT);
    on_all(&all, (tt_sync_request){.verb = TT_STORE_CLOCK});
    assert_int_equal(set(&all, 0, 1.0, 0, "past clock 0: this worker is at clock 1"),
                     TT_ERR_BAD_ARGUMENT);
    /* Worker 1 goes on; one owner has applied its push of clock 1. */
    push(&all, 1, &two);
    assert_int_equal(set(&all, 0, 0.5, 1, "use clock 2 or more"), TT_ERR_BAD_ARGUMENT);
    push(&all, 1, &two);
    assert_true(pull(&all, 1) == -2.0f); /* as before at all owners, and nobody waits */
    assert_int_equal(set(&all, 0, 0.5, UINT64_MAX, NULL), TT_OK);
    push(&all, 0, &two); /* of clock 1: the old rate */
    assert_true(pull(&all, 0) == -3.0f);
    assert_int_equal(on_one(&all, 0, (tt_sync_request){.verb = TT_STORE_CLOCK}, NULL), TT_OK);
    push(&all, 0, &two);
    assert_true(pull(&all, 0) == -3.5f);
    for (uint32_t i = 0; i < 31; i++) {
        assert_int_equal(set(&all, 0, 0.5, 100 + i, NULL), TT_OK);
    }
    assert_int_equal(set(&all, 0, 0.5, 200, "at most 32 values"), TT_ERR_NO_RESOURCE);
    job_end(&all);
}

static tt_sync_counts count(job *all, uint32_t rank)
{
    tt_sync_counts counts;
    assert_int_equal(
        on_one(all, rank, (tt_sync_request){.verb = TT_STORE_COUNT, .counts = &counts}, NULL),
        TT_OK);
    return counts;
}

/* Worker 0 reads, worker 1 pushes twice, worker 0 pushes: 0, 1, 2. */
static void test_staleness_is_counted(void **state)
{
    job all;
    (void)state;
    open_with(&all, "async", "add", &zero);
    (void)pull(&all, 0);
    push(&all, 1, &one);
    push(&all, 1, &one);
    push(&all, 0, &one);
    assert_int_equal(on_one(&all, 1, (tt_sync_request){.verb = TT_STORE_CLOCK}, NULL), TT_OK);
    const tt_sync_counts counts = count(&all, 1);
    assert_int_equal(counts.staleness[0], 1);
    assert_int_equal(counts.staleness[1], 1);
    assert_int_equal(counts.staleness[2], 1);
    assert_int_equal(counts.staleness[3], 0);
    assert_int_equal(counts.clock, 1);
    assert_int_equal(counts.least, 0);
    assert_int_equal(counts.pushes, 2);
    assert_int_equal(counts.pushed_bytes, 8);
    assert_int_equal(counts.pulls, 0);
    assert_int_equal(counts.dropped, 0);
    assert_int_equal(count(&all, 0).pulls, 1);
    job_end(&all);
}

/* ---- waits ---- */

enum { LATE_NS = 1000000, LATENCY_NS = 200000 }; /* of simulated time; the second: at most */

static void submit_later(job *all, one_call *call, uint32_t rank, uint64_t at_ns)
{
    call->sync = all->syncs[rank];
    tt_sim_call(all->sim, rank, at_ns, submit, call);
}

/* Worker 1 ends its iteration 1 ms after worker 0. */
static void test_clocks_that_wait_are_counted(void **state)
{
    job all;
    one_call clocks[WORKERS] = {{.request = {.verb = TT_STORE_CLOCK}},
                                {.request = {.verb = TT_STORE_CLOCK}}};
    (void)state;
    open_with(&all, "stale:1", "add", &zero);
    assert_int_equal(on_one(&all, 0, clocks[0].request, NULL), TT_OK);
    tt_sync_counts counts = count(&all, 0);
    assert_int_equal(counts.clock, 1); /* one ahead, which it may be */
    assert_int_equal(counts.clock_waits, 0);
    assert_int_equal(counts.clock_wait_ns, 0);
    const uint64_t now = tt_sim_now(all.sim);
    submit_later(&all, &clocks[0], 0, now);
    submit_later(&all, &clocks[1], 1, now + LATE_NS);
    tt_sim_run(all.sim, UINT64_MAX / 2);
    assert_int_equal(clocks[0].finish_count + clocks[1].finish_count, 2);
    counts = count(&all, 0);
    assert_int_equal(counts.clock, 2);
    assert_int_equal(counts.clock_waits, 1);
    assert_in_range(counts.clock_wait_ns, LATE_NS, LATE_NS + LATENCY_NS);
    assert_int_equal(counts.pull_waits, 0);
    counts = count(&all, 1);
    assert_int_equal(counts.clock_waits, 0);
    assert_int_equal(counts.clock_wait_ns, 0);
    job_end(&all);
}

/* A pull that is started behind a clock reaches its owner before worker 1's iteration is over. */
static void test_pulls_that_wait_are_counted(void **state)
{
    job all;
    float value = -1.0f;
    one_call clocks[WORKERS] = {{.request = {.verb = TT_STORE_CLOCK}},
                                {.request = {.verb = TT_STORE_CLOCK}}};
    one_call pull_call = {.request = {.verb = TT_STORE_PULL, .name = "t", .output = &value}};
    (void)state;
    open_with(&all, "bulk", "add", &one);
    (void)pull(&all, 0);
    assert_int_equal(count(&all, 0).pull_waits, 0);
    const uint64_t now = tt_sim_now(all.sim);
    submit_later(&all, &clocks[0], 0, now);
    submit_later(&all, &pull_call, 0, now);
    submit_later(&all, &clocks[1], 1, now + LATE_NS);
    tt_sim_run(all.sim, UINT64_MAX / 2);
    assert_int_equal(clocks[0].finish_count + pull_call.finish_count + clocks[1].finish_count, 3);
    assert_true(value == 1.0f);
    const tt_sync_counts counts = count(&all, 0);
    assert_int_equal(counts.pulls, 2);
    assert_int_equal(counts.pull_waits, 1);
    assert_in_range(counts.pull_wait_ns, LATE_NS, LATE_NS + LATENCY_NS);
    assert_int_equal(count(&all, 1).pull_waits, 0);
    job_end(&all);
}

/* Two workers, so gradients are halved. Worker 0 reads 0; worker 1 makes two steps of -1 each; the
 * push of worker 0 has staleness 2. */
static float corrected(const char *update)
{
    job all;
    open_with(&all, "async", update, &zero);
    (void)pull(&all, 0);
    push(&all, 1, &two);
    (void)pull(&all, 1);
    push(&all, 1, &two);
    push(&all, 0, &two);
    const float value = pull(&all, 0);
    job_end(&all);
    return value;
}

static void test_corrections_have_golden_values(void **state)
{
    (void)state;
    assert_true(corrected("sgd:lr=1") == -3.0f);
    assert_true(corrected("sgd:lr=1,tau=1") == -2.5f);
    /* g: 2; 2, as its worker had read the value; 2 + 4 / 8 * -2 = 1 */
    assert_true(corrected("sgd:lr=1,dc=0.125") == -2.5f);
    assert_true(corrected("sgd:lr=1,dc=0.125,tau=1") == -2.25f);
    /* m: 1, 1.5, 0.75 + 0.5 */
    assert_true(corrected("momentum:lr=1,momentum=0.5,tau=1") == -3.75f);
}

static void test_corrections_need_stale_gradients(void **state)
{
    job all;
    (void)state;
    job_make(&all);
    assert_int_equal(
        on_one(&all, 0,
               (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "bulk", .update = "sgd:dc=1"},
               "leave them out, or use async"),
        TT_ERR_BAD_ARGUMENT);
    job_end(&all);
}

static void test_a_caller_that_dies_holds_nothing_back(void **state)
{
    job all;
    one_call call = {.request = {.verb = TT_STORE_SET, .name = "lr", .clock = 0}};
    (void)state;
    open_with(&all, "async", "sgd:lr=1", &zero);
    call.sync = all.syncs[1];
    tt_sim_call(all.sim, 1, tt_sim_now(all.sim), submit, &call);
    for (int i = 0; i < 3; i++) {
        (void)tt_sim_step(all.sim);
    }
    tt_sim_kill(all.sim, 1);
    one_call pushes[WORKERS] = {{.request = {.verb = TT_STORE_PUSH, .name = "t", .input = &two}}};
    make(&all, 0, 0, pushes); /* it ends: well, or because worker 1 was the tensor's owner */
    job_end(&all);
}

/* ---- many parts ---- */

static const tt_platform_ops *plain_ops;
static uint32_t pulls_sent;

static tt_status count_pulls(tt_platform *platform, const tt_send *send)
{
    pulls_sent += send->head->kind == TT_SYNC_PULL ? 1 : 0;
    return plain_ops->send(platform, send);
}

/* A link has a bounded number of frames: a pull of a long tensor does not ask for all parts at
 * once. */
static void test_a_long_tensor_is_pulled_part_by_part(void **state)
{
    enum { COUNT = 2 * 1024 * 1024, PARTS = COUNT / 8192, AT_ONCE = 16 * 3 };
    job all;
    float *first = calloc(COUNT, sizeof(*first)), *values = calloc(COUNT, sizeof(*values));
    (void)state;
    assert_true(first != NULL && values != NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        first[i] = (float)(i % 1000);
    }
    job_make(&all);
    on_all(&all, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "async", .update = "add"});
    on_all(&all,
           (tt_sync_request){
               .verb = TT_STORE_ADD, .name = "t", .dtype = TT_F32, .count = COUNT, .input = first});
    tt_platform *platform = tt_sim_platform(all.sim, 1);
    plain_ops = platform->ops;
    tt_platform_ops counting_ops = *plain_ops;
    counting_ops.send = count_pulls;
    platform->ops = &counting_ops;
    pulls_sent = 0;
    one_call pull_call = {.request = {.verb = TT_STORE_PULL, .name = "t", .output = values}};
    submit_later(&all, &pull_call, 1, tt_sim_now(all.sim));
    while (pulls_sent == 0) {
        assert_true(tt_sim_step(all.sim));
    }
    assert_in_range(pulls_sent, 1, AT_ONCE);
    tt_sim_run(all.sim, UINT64_MAX / 2);
    platform->ops = plain_ops;
    assert_int_equal(pull_call.finish_count, 1);
    assert_in_range(pulls_sent, PARTS / 2, PARTS + 2); /* but for those that are its own */
    assert_memory_equal(values, first, COUNT * sizeof(*first));
    job_end(&all);
    free(first);
    free(values);
}

/* ---- a worker without memory ---- */

static const tt_platform_ops *full_ops;

static void *no_texts(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    return bytes == sizeof(tt_sync_note) ? NULL : full_ops->allocate(platform, kind, bytes);
}

static void test_a_failure_arrives_when_memory_is_short(void **state)
{
    job all;
    (void)state;
    open_with(&all, "bulk", "sum", &zero);
    full_ops = tt_sim_platform(all.sim, 0)->ops;
    tt_platform_ops short_ops = *full_ops;
    short_ops.allocate = no_texts;
    one_call calls[WORKERS] = {
        {.request = {.verb = TT_STORE_ADD, .name = "u", .dtype = TT_F32, .count = 1}},
        {.request = {.verb = TT_STORE_ADD, .name = "u", .dtype = TT_F32, .count = 2}}};
    calls[0].sync = all.syncs[0];
    tt_sim_call(all.sim, 0, tt_sim_now(all.sim), submit, &calls[0]);
    tt_sim_run(all.sim, UINT64_MAX / 2);
    assert_int_equal(calls[0].finish_count, 0); /* owners wait for worker 1 */
    for (uint32_t i = 0; i < PROCESSES; i++) {
        tt_sim_platform(all.sim, i)->ops = &short_ops;
    }
    calls[1].sync = all.syncs[1];
    tt_sim_call(all.sim, 1, tt_sim_now(all.sim), submit, &calls[1]); /* its claim cannot be sent */
    tt_sim_run(all.sim, UINT64_MAX / 2);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        tt_sim_platform(all.sim, i)->ops = full_ops;
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(calls[i].finish_count, 1);
        assert_int_equal(calls[i].request.status, TT_ERR_NO_MEMORY);
    }
    assert_non_null(strstr(calls[0].request.error, "needs more memory"));
    assert_non_null(strstr(calls[1].request.error, "worker 1 (rank 1) has no memory for tensor"));
    job_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rate_holds_from_its_clock_on),
        cmocka_unit_test(test_what_cannot_be_set_is_refused),
        cmocka_unit_test(test_staleness_is_counted),
        cmocka_unit_test(test_clocks_that_wait_are_counted),
        cmocka_unit_test(test_pulls_that_wait_are_counted),
        cmocka_unit_test(test_corrections_have_golden_values),
        cmocka_unit_test(test_corrections_need_stale_gradients),
        cmocka_unit_test(test_a_caller_that_dies_holds_nothing_back),
        cmocka_unit_test(test_a_long_tensor_is_pulled_part_by_part),
        cmocka_unit_test(test_a_failure_arrives_when_memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
