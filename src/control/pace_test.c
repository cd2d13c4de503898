/* SPDX-License-Identifier: Apache-2.0
 *
 * pace_test.c - an urgent tensor overtakes tensors in flight, and credit limits those in flight.
 *
 * Ranks over the simulated driver, whose clock is exact: times here are no measurements. A large
 * tensor is in flight when a small one is submitted on all ranks; the time of the small one, and
 * the frames of the large one that begin meanwhile, have bounds that do not grow with the large
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "control/control.h"
#include "platform/sim.h"

enum {
    RANKS = 4,
    CALLS = 40,
    BULK_BYTES = 4 * 1024 * 1024,
    URGENT_BYTES = 64 * 1024,
    CHUNK_BYTES = 64 * 1024,
    SUBMIT_NS = 2000 * 1000, /* the large ones are in flight */
};

typedef struct one_call {
    struct job *job;
    uint32_t rank;
    tt_request request;
    char name[16];
    uint8_t *memory;
    size_t bytes;
    uint64_t ended_ns;
    bool is_urgent;
} one_call;

typedef struct job {
    tt_sim *sim;
    tt_control *controls[RANKS];
    one_call calls[RANKS][CALLS];
    uint32_t call_count;
    bool is_shared, is_named;
    uint32_t urgent_open;        /* ranks on which an urgent call is in flight */
    uint64_t bulk_frames[RANKS]; /* to each rank, while an urgent call was */
} job;

typedef struct plan {
    tt_control_config config;
    bool is_one_host, is_shared, is_named;
    uint32_t bulk_count;
    size_t bulk_bytes;
    int32_t urgent; /* its urgency; the others have 0 */
    uint64_t submit_ns;
} plan;

static void seen(void *owner, uint32_t from, const tt_send *send)
{
    job *it = owner;
    (void)from;
    if (it->urgent_open > 0 && send->head->kind == TT_FRAME_DATA && send->urgency == 0 &&
        send->head->payload_bytes > 0) {
        it->bulk_frames[send->peer]++;
    }
}

static job *job_create(const plan *wanted)
{
    job *it = calloc(1, sizeof(*it));
    assert_non_null(it);
    tt_sim_config sim;
    tt_sim_config_init(&sim);
    uint32_t host_of[RANKS];
    for (uint32_t i = 0; i < RANKS; i++) {
        host_of[i] = wanted->is_one_host ? 0 : i;
    }
    sim.size = RANKS;
    sim.seed = 7;
    sim.host_of = host_of;
    sim.has_views = wanted->is_one_host;
    sim.borrow = 1000;
    sim.bytes_per_us = 125; /* 1 Gbit/s */
    it->sim = tt_sim_create(&sim);
    it->is_shared = wanted->is_shared;
    it->is_named = wanted->is_named;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const tt_world world = {.rank = rank,
                                .size = RANKS,
                                .epoch = 1,
                                .host_of = host_of,
                                .has_views = wanted->is_one_host};
        const tt_status status =
            tt_control_create(tt_sim_platform(it->sim, rank), &world, &wanted->config,
                              &(tt_control_listener){0}, &it->controls[rank]);
        assert_int_equal(status, TT_OK);
        tt_sim_attach(it->sim, rank, tt_control_machine(it->controls[rank]));
    }
    tt_sim_watch(it->sim, (tt_sim_spy){.owner = it, .seen = seen});
    return it;
}

static void job_destroy(job *it)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_platform *platform = tt_sim_platform(it->sim, rank);
        tt_control_destroy(it->controls[rank]);
        for (uint32_t i = 0; i < it->call_count; i++) {
            if (it->is_shared) {
                platform->ops->release(platform, TT_MEMORY_SHARED, it->calls[rank][i].memory,
                                       it->calls[rank][i].bytes);
            } else {
                free(it->calls[rank][i].memory);
            }
        }
    }
    assert_true(tt_sim_destroy(it->sim));
    free(it);
}

static void finished(tt_request *request)
{
    one_call *call = request->owner;
    assert_int_equal(request->status, TT_OK);
    call->ended_ns = tt_now(tt_sim_platform(call->job->sim, call->rank));
    call->job->urgent_open -= call->is_urgent ? 1 : 0;
}

static void submit(void *argument)
{
    one_call *call = argument;
    call->job->urgent_open += call->is_urgent ? 1 : 0;
    tt_control_submit(call->job->controls[call->rank], &call->request);
}

/* The same call on every rank at `at_ns`. */
static uint32_t job_call(job *it, uint64_t at_ns, size_t bytes, int32_t urgency)
{
    const uint32_t index = it->call_count++;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        one_call *call = &it->calls[rank][index];
        tt_platform *platform = tt_sim_platform(it->sim, rank);
        call->job = it;
        call->rank = rank;
        call->bytes = bytes;
        call->is_urgent = urgency > 0;
        call->memory = it->is_shared ? platform->ops->allocate(platform, TT_MEMORY_SHARED, bytes)
                                     : malloc(bytes);
        assert_non_null(call->memory);
        memset(call->memory, (int)(rank + index), bytes);
        (void)snprintf(call->name, sizeof(call->name), "t%u", index);
        call->request = (tt_request){.collective = TT_ALLREDUCE,
                                     .dtype = TT_U8,
                                     .redop = TT_SUM,
                                     .urgency = urgency,
                                     .name = it->is_named ? call->name : NULL,
                                     .input = call->memory,
                                     .output = call->memory,
                                     .count = bytes,
                                     .prescale = 1.0,
                                     .postscale = 1.0,
                                     .finished = finished,
                                     .owner = call};
        tt_sim_call(it->sim, rank, at_ns, submit, call);
    }
    return index;
}

static uint64_t job_end(const job *it, uint32_t index)
{
    uint64_t last = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_true(it->calls[rank][index].ended_ns > 0);
        last = tt_max_u64(last, it->calls[rank][index].ended_ns);
    }
    return last;
}

static void job_run(job *it)
{
    while (tt_sim_step(it->sim)) {
    }
    for (uint32_t i = 0; i < it->call_count; i++) {
        (void)job_end(it, i);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            const one_call *call = &it->calls[rank][i];
            const uint8_t sum = (uint8_t)(0 + 1 + 2 + 3 + 4 * i);
            assert_int_equal(call->memory[0], sum);
            assert_int_equal(call->memory[call->bytes - 1], sum);
        }
    }
}

typedef struct outcome {
    uint64_t urgent_ns;   /* from submission to the last rank's end */
    uint64_t bulk_frames; /* of the rank that received most of them meanwhile */
    uint64_t held;
} outcome;

static outcome run(const plan *wanted)
{
    job *it = job_create(wanted);
    for (uint32_t i = 0; i < wanted->bulk_count; i++) {
        (void)job_call(it, 1, wanted->bulk_bytes, 0);
    }
    const uint32_t urgent = job_call(it, wanted->submit_ns, URGENT_BYTES, wanted->urgent);
    job_run(it);
    outcome got = {.urgent_ns = job_end(it, urgent) - wanted->submit_ns};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        got.bulk_frames = tt_max_u64(got.bulk_frames, it->bulk_frames[rank]);
        got.held += tt_control_count(it->controls[rank]).held;
    }
    job_destroy(it);
    return got;
}

static plan plan_make(const char *algorithm)
{
    plan wanted = {.bulk_count = 1, .bulk_bytes = BULK_BYTES, .urgent = 1, .submit_ns = SUBMIT_NS};
    tt_control_config_init(&wanted.config);
    wanted.config.segment_bytes = CHUNK_BYTES;
    wanted.config.algorithm = algorithm;
    wanted.config.probe_ns = UINT64_C(1000000000000);
    return wanted;
}

/* A chunk on the simulated wire. */
static uint64_t chunk_ns(void)
{
    return (uint64_t)CHUNK_BYTES * 1000 / 125;
}

enum { RING_HOPS = 2 * (RANKS - 1) };

static void check_bound(plan wanted)
{
    const outcome busy = run(&wanted);
    wanted.bulk_count = 0;
    const outcome alone = run(&wanted);
    assert_true(busy.urgent_ns <= alone.urgent_ns + RING_HOPS * 2 * chunk_ns());
    assert_true(busy.bulk_frames <= RING_HOPS * 2);
}

static void test_an_urgent_tensor_waits_for_two_chunks_a_hop_at_most(void **state)
{
    (void)state;
    check_bound(plan_make("ring"));
}

static void test_without_urgency_it_waits_for_much_of_the_large_one(void **state)
{
    (void)state;
    plan wanted = plan_make("ring");
    wanted.urgent = 0;
    const outcome busy = run(&wanted);
    wanted.bulk_count = 0;
    const outcome alone = run(&wanted);
    assert_true(busy.urgent_ns > alone.urgent_ns + RING_HOPS * 2 * chunk_ns());
}

static void test_the_bound_holds_behind_many_tensors_and_for_named_ones(void **state)
{
    (void)state;
    for (int is_named = 0; is_named < 2; is_named++) {
        plan wanted = plan_make("ring");
        wanted.is_named = is_named != 0;
        wanted.bulk_count = 32;
        wanted.bulk_bytes = 256 * 1024;
        check_bound(wanted);
    }
}

static void test_the_bound_holds_under_credit(void **state)
{
    (void)state;
    plan wanted = plan_make("ring");
    wanted.bulk_count = 16;
    wanted.bulk_bytes = 512 * 1024;
    wanted.config.is_paced = true;
    wanted.config.credit_bytes = 600 * 1024;
    check_bound(wanted);
    assert_true(run(&wanted).held > 0);
}

enum { TIES = 4 };

/* Tensors of one urgency, submitted one after the other at once. */
static void call_ties(job *it, uint64_t at_ns, size_t bytes, uint32_t calls_out[TIES])
{
    for (uint32_t i = 0; i < TIES; i++) {
        calls_out[i] = job_call(it, at_ns + i, bytes, 3);
    }
}

/* The wire serves them one by one: each has arrived when the bytes up to its own have passed. */
static void test_at_equal_urgency_the_first_submitted_is_sent_first(void **state)
{
    (void)state;
    const plan wanted = plan_make("ring");
    job *it = job_create(&wanted);
    uint32_t calls[TIES];
    call_ties(it, 1, BULK_BYTES, calls);
    job_run(it);
    const uint64_t last_ns = job_end(it, calls[TIES - 1]);
    for (uint32_t i = 0; i + 1 < TIES; i++) {
        assert_true(job_end(it, calls[i]) <= last_ns * (i + 1) / TIES + last_ns / 50);
    }
    job_destroy(it);
}

/* The same for pieces of summing. The first calls end before, so that the others take their records
 * in reverse: the record's number must not matter. */
static void test_at_equal_urgency_the_first_submitted_is_summed_first(void **state)
{
    (void)state;
    plan wanted = plan_make(NULL);
    wanted.is_one_host = wanted.is_shared = true;
    job *it = job_create(&wanted);
    uint32_t calls[TIES];
    call_ties(it, 1, BULK_BYTES, calls);
    call_ties(it, SUBMIT_NS, BULK_BYTES, calls);
    job_run(it);
    for (uint32_t i = 0; i + 1 < TIES; i++) {
        assert_true(job_end(it, calls[i]) <= job_end(it, calls[i + 1]));
    }
    assert_true(job_end(it, calls[0]) < job_end(it, calls[TIES - 1]));
    job_destroy(it);
}

/* ---- short ones ---- */

enum { SHORT_BYTES = CHUNK_BYTES / TT_SHORT_PARTS };

/* How long a short gradient takes behind a long one that is more urgent. */
static uint64_t short_ns(bool is_fifo)
{
    plan wanted = plan_make(NULL);
    wanted.config.is_fifo = is_fifo;
    job *it = job_create(&wanted);
    const uint32_t large = job_call(it, 1, BULK_BYTES, 5);
    const uint32_t small = job_call(it, SUBMIT_NS, SHORT_BYTES, -5);
    job_run(it);
    assert_true(job_end(it, small) < job_end(it, large) || is_fifo);
    const uint64_t took_ns = job_end(it, small) - SUBMIT_NS;
    job_destroy(it);
    return took_ns;
}

static void test_a_short_gradient_overtakes_long_ones_that_are_more_urgent(void **state)
{
    (void)state;
    assert_true(short_ns(false) <= 3 * 2 * chunk_ns()); /* two hops */
    assert_true(short_ns(true) > 3 * 2 * chunk_ns());
}

static void test_short_gradients_delay_an_urgent_tensor_by_a_chunk_at_most(void **state)
{
    (void)state;
    plan wanted = plan_make("ring");
    wanted.bulk_count = CALLS - 1;
    wanted.bulk_bytes = SHORT_BYTES;
    wanted.submit_ns = 2;
    const outcome busy = run(&wanted);
    wanted.bulk_count = 0;
    assert_true(busy.urgent_ns <= run(&wanted).urgent_ns + 3 * chunk_ns());
}

/* Over shared memory a chunk is one piece of summing: TT_WORK_STEP_BYTES at the simulated rate. */
static void check_shared(plan wanted, uint64_t pieces)
{
    const uint64_t piece_ns = (uint64_t)256 * 1024 * 1000 / 8000;
    wanted.is_one_host = true;
    wanted.submit_ns = SUBMIT_NS / 10;
    wanted.bulk_bytes = (size_t)16 * 1024 * 1024 / wanted.bulk_count;
    const outcome busy = run(&wanted);
    wanted.bulk_count = 0;
    const outcome alone = run(&wanted);
    assert_true(busy.urgent_ns <= alone.urgent_ns + pieces * piece_ns);
}

static void test_in_shared_memory_it_waits_for_three_pieces_at_most(void **state)
{
    (void)state;
    plan wanted = plan_make(NULL);
    wanted.is_shared = true;
    check_shared(wanted, 3);
}

static uint64_t worked_bytes; /* by all ranks, since an urgent call ended */
static const tt_platform_ops *simulated;

static void count_work(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    simulated->spend(platform, kind, bytes, times);
    worked_bytes += bytes;
}

static void note_work(tt_request *request)
{
    finished(request);
    worked_bytes = 0;
}

/* The waiter of the urgent call is notified at once: before the next piece of the large one. */
static void test_a_finished_call_is_reported_before_the_next_piece(void **state)
{
    (void)state;
    plan wanted = plan_make(NULL);
    wanted.is_one_host = wanted.is_shared = true;
    job *it = job_create(&wanted);
    (void)job_call(it, 1, (size_t)16 * 1024 * 1024, 0);
    const uint32_t urgent = job_call(it, SUBMIT_NS / 10, URGENT_BYTES, 1);
    simulated = tt_sim_platform(it->sim, 0)->ops;
    tt_platform_ops counting = *simulated;
    counting.spend = count_work;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_sim_platform(it->sim, rank)->ops = &counting;
        it->calls[rank][urgent].request.finished = note_work;
    }
    uint32_t ended = 0;
    while (tt_sim_step(it->sim)) {
        uint32_t count = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            count += it->calls[rank][urgent].ended_ns > 0 ? 1 : 0;
        }
        assert_true(count == ended || worked_bytes == 0);
        ended = count;
    }
    assert_int_equal(ended, RANKS);
    assert_true(job_end(it, urgent) < job_end(it, 0));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_sim_platform(it->sim, rank)->ops = simulated;
    }
    job_destroy(it);
}

/* Private buffers are copied in, summed and copied out, in lanes, and the simulated machine works a
 * little after every frame; all large tensors together are at least 120 pieces. */
static void test_a_staged_urgent_tensor_waits_for_pieces_and_not_for_tensors(void **state)
{
    (void)state;
    plan wanted = plan_make(NULL);
    check_shared(wanted, 8);
    wanted.bulk_count = 32;
    wanted.config.staged_max = 4; /* 28 wait for the staging that the first four hold */
    check_shared(wanted, 16);
}

/* ---- credit ---- */

static void test_credit_holds_less_urgent_gradients_and_is_returned(void **state)
{
    (void)state;
    plan wanted = plan_make("ring");
    wanted.config.is_paced = true;
    wanted.config.credit_bytes = 1;
    job *it = job_create(&wanted);
    /* Submitted in this order; the first begins at once, the others when it is over. */
    const uint32_t first = job_call(it, 1, 200 * 1024, 9);
    const uint32_t low = job_call(it, 2, 200 * 1024, -5);
    const uint32_t middle = job_call(it, 3, 200 * 1024, 3);
    const uint32_t next = job_call(it, 4, 200 * 1024, 3);
    const uint32_t high = job_call(it, 5, 200 * 1024, 4);
    job_run(it);
    assert_true(job_end(it, first) < job_end(it, high));
    assert_true(job_end(it, high) < job_end(it, middle));
    assert_true(job_end(it, middle) < job_end(it, next));
    assert_true(job_end(it, next) < job_end(it, low));
    job_destroy(it);
}

static void test_in_fifo_credit_goes_to_the_oldest(void **state)
{
    (void)state;
    plan wanted = plan_make("ring");
    wanted.config.is_paced = wanted.config.is_fifo = true;
    wanted.config.credit_bytes = 1;
    job *it = job_create(&wanted);
    uint32_t calls[4];
    for (uint32_t i = 0; i < 4; i++) {
        calls[i] = job_call(it, 1 + i, 200 * 1024, (int32_t)i);
    }
    job_run(it);
    for (uint32_t i = 1; i < 4; i++) {
        assert_true(job_end(it, calls[i - 1]) < job_end(it, calls[i]));
    }
    job_destroy(it);
}

static void test_a_class_precedes_every_priority_of_the_next(void **state)
{
    (void)state;
    plan wanted = plan_make("ring");
    wanted.config.is_paced = true;
    wanted.config.credit_bytes = 1;
    job *it = job_create(&wanted);
    const uint32_t gradient = job_call(it, 1, 400 * 1024, TT_URGENCY_PRIORITY_MAX);
    const uint32_t activation =
        job_call(it, 2, 400 * 1024, TT_URGENCY_ACTIVATION - TT_URGENCY_PRIORITY_MAX);
    job_run(it);
    assert_true(job_end(it, activation) < job_end(it, gradient));
    assert_int_equal(tt_control_count(it->controls[0]).held, 0);
    job_destroy(it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_urgent_tensor_waits_for_two_chunks_a_hop_at_most),
        cmocka_unit_test(test_without_urgency_it_waits_for_much_of_the_large_one),
        cmocka_unit_test(test_the_bound_holds_behind_many_tensors_and_for_named_ones),
        cmocka_unit_test(test_the_bound_holds_under_credit),
        cmocka_unit_test(test_at_equal_urgency_the_first_submitted_is_sent_first),
        cmocka_unit_test(test_at_equal_urgency_the_first_submitted_is_summed_first),
        cmocka_unit_test(test_a_short_gradient_overtakes_long_ones_that_are_more_urgent),
        cmocka_unit_test(test_short_gradients_delay_an_urgent_tensor_by_a_chunk_at_most),
        cmocka_unit_test(test_in_shared_memory_it_waits_for_three_pieces_at_most),
        cmocka_unit_test(test_a_finished_call_is_reported_before_the_next_piece),
        cmocka_unit_test(test_a_staged_urgent_tensor_waits_for_pieces_and_not_for_tensors),
        cmocka_unit_test(test_credit_holds_less_urgent_gradients_and_is_returned),
        cmocka_unit_test(test_in_fifo_credit_goes_to_the_oldest),
        cmocka_unit_test(test_a_class_precedes_every_priority_of_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
