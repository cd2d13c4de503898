/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_test.c - members of a planned batch do not wait for one that left the plan; the fusion
 * threshold may change.
 *
 * Ranks over the simulated driver, whose clock is exact: times here are no measurements. Steps of
 * small named tensors are repeated until a plan puts them into bundles.
 */
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
    TENSORS = 12,
    STEPS = 20,
    PLANNED_STEPS = 6, /* after which the plan is in use */
    SMALL_BYTES = 1000,
    LARGE_BYTES = 40 * 1000, /* small by the first threshold, not by the second */
    FUSE_BYTES = 64 * 1024,
    FUSE_LATER_BYTES = 16 * 1024,
};

#define MS UINT64_C(1000000)
static const uint64_t step_ns = 5000 * MS, late_ns = 50 * MS;

typedef struct one_call {
    struct job *job;
    uint32_t rank, tensor, step;
    tt_request request;
    char name[16];
    uint8_t *memory;
    size_t bytes;
    uint64_t ended_ns;
} one_call;

typedef struct job {
    tt_sim *sim;
    tt_control *controls[RANKS];
    uint32_t tuned_step; /* from this step on the second threshold applies */
    one_call calls[RANKS][STEPS][TENSORS];
} job;

static job *job_create(uint64_t seed)
{
    job *it = calloc(1, sizeof(*it));
    assert_non_null(it);
    static const uint32_t host_of[RANKS] = {0, 1, 2, 3};
    tt_sim_config sim;
    tt_control_config config;
    tt_sim_config_init(&sim);
    tt_control_config_init(&config);
    sim.size = RANKS;
    sim.seed = seed;
    sim.host_of = host_of;
    sim.bytes_per_us = 125; /* 1 Gbit/s */
    config.fuse_bytes = FUSE_BYTES;
    config.late_ns = late_ns;
    it->sim = tt_sim_create(&sim);
    it->tuned_step = UINT32_MAX;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const tt_world world = {.rank = rank, .size = RANKS, .epoch = 1, .host_of = host_of};
        assert_int_equal(tt_control_create(tt_sim_platform(it->sim, rank), &world, &config,
                                           &(tt_control_listener){0}, &it->controls[rank]),
                         TT_OK);
        tt_sim_attach(it->sim, rank, tt_control_machine(it->controls[rank]));
    }
    return it;
}

static void job_destroy(job *it)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_control_destroy(it->controls[rank]);
        for (uint32_t i = 0; i < STEPS * TENSORS; i++) {
            free(it->calls[rank][i / TENSORS][i % TENSORS].memory);
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
    for (size_t i = 0; i < call->bytes; i++) { /* no byte carries */
        assert_int_equal(call->memory[i], RANKS * call->tensor + 0 + 1 + 2 + 3);
    }
}

static void submit(void *argument)
{
    one_call *call = argument;
    tt_control *control = call->job->controls[call->rank];
    const bool is_tuned = call->step >= call->job->tuned_step;
    tt_control_set_fuse(control, is_tuned ? FUSE_LATER_BYTES : FUSE_BYTES);
    tt_control_submit(control, &call->request);
}

/* A tensor of a step, `after_ns` after its start; each rank `skew_ns` after the one before. */
typedef struct wanted {
    uint32_t step, tensor;
    tt_dtype dtype; /* those of one type may share a bundle */
    size_t bytes;
    uint64_t after_ns, skew_ns;
} wanted;

static void job_call(job *it, const wanted *what)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        one_call *call = &it->calls[rank][what->step][what->tensor];
        call->job = it;
        call->rank = rank;
        call->tensor = what->tensor;
        call->step = what->step;
        call->bytes = what->bytes;
        call->memory = malloc(what->bytes);
        assert_non_null(call->memory);
        memset(call->memory, (int)(rank + what->tensor), what->bytes);
        (void)snprintf(call->name, sizeof(call->name), "t%u", what->tensor);
        call->request = (tt_request){.collective = TT_ALLREDUCE,
                                     .dtype = what->dtype,
                                     .redop = TT_SUM,
                                     .name = call->name,
                                     .input = call->memory,
                                     .output = call->memory,
                                     .count = what->bytes / tt_dtype_bytes(what->dtype),
                                     .prescale = 1.0,
                                     .postscale = 1.0,
                                     .finished = finished,
                                     .owner = call};
        tt_sim_call(it->sim, rank, what->step * step_ns + what->after_ns + rank * what->skew_ns + 1,
                    submit, call);
    }
}

static void job_run(job *it)
{
    while (tt_sim_step(it->sim)) {
    }
}

/* From the start of its step until it is over on the last rank. */
static uint64_t time_of(const job *it, uint32_t step, uint32_t tensor)
{
    uint64_t last_ns = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_true(it->calls[rank][step][tensor].ended_ns > 0);
        last_ns = tt_max_u64(last_ns, it->calls[rank][step][tensor].ended_ns);
    }
    return last_ns - step * step_ns;
}

/* ---- a member leaves the plan ---- */

/* The tensor at `place` crosses the threshold; the ranks start `skew_ns` apart, so that some have
 * begun occurrences that others owe. */
static void run_tuned(uint32_t place, uint64_t skew_ns, uint64_t seed)
{
    job *it = job_create(seed);
    it->tuned_step = PLANNED_STEPS;
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t tensor = 0; tensor < TENSORS; tensor++) {
            job_call(it, &(wanted){.step = step,
                                   .tensor = tensor,
                                   .dtype = TT_U8,
                                   .bytes = tensor == place ? LARGE_BYTES : SMALL_BYTES,
                                   .after_ns = step < PLANNED_STEPS ? 0 : tensor * 20 * 1000,
                                   .skew_ns = skew_ns});
        }
    }
    job_run(it);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t tensor = 0; tensor < TENSORS; tensor++) {
            assert_true(time_of(it, step, tensor) < late_ns);
        }
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const char *mode;
        const tt_negotiate_counters *count = tt_control_set_count(it->controls[rank], 0, &mode);
        assert_true(count->plans_cut >= 1 && count->plans_made >= 2);
        assert_true(tt_control_count(it->controls[rank]).bundles >= STEPS - 2);
    }
    job_destroy(it);
}

static void test_no_member_waits_for_one_that_left_the_plan(void **state)
{
    (void)state;
    static const uint64_t skews[] = {0, 10 * 1000, 500 * 1000, 5 * MS};
    for (uint32_t place = 0; place < TENSORS; place += 3) {
        for (uint32_t i = 0; i < TT_ARRAY_COUNT(skews); i++) {
            run_tuned(place, skews[i], place + i + 1);
        }
    }
}

static void gathered(tt_request *request)
{
    one_call *call = request->owner;
    assert_int_equal(request->status, TT_OK);
    call->ended_ns = tt_now(tt_sim_platform(call->job->sim, call->rank));
}

static void test_only_sums_cross_the_fusion_threshold(void **state)
{
    (void)state;
    job *it = job_create(3);
    uint64_t counts[RANKS][RANKS];
    uint8_t *outputs = calloc(RANKS, RANKS * LARGE_BYTES);
    assert_non_null(outputs);
    it->tuned_step = 0;
    job_call(it, &(wanted){.dtype = TT_U8, .bytes = LARGE_BYTES});
    for (uint32_t rank = 0; rank < RANKS; rank++) { /* of lengths below and above the threshold */
        tt_request *request = &it->calls[rank][0][0].request;
        request->collective = TT_ALLGATHER;
        request->is_uneven = true;
        request->count = rank % 2 == 0 ? LARGE_BYTES : SMALL_BYTES;
        request->output = outputs + (size_t)rank * RANKS * LARGE_BYTES;
        request->output_capacity = RANKS * LARGE_BYTES;
        request->output_counts = counts[rank];
        request->finished = gathered;
    }
    job_run(it);
    assert_true(time_of(it, 0, 0) < step_ns);
    assert_int_equal(counts[3][0], LARGE_BYTES);
    assert_int_equal(counts[0][3], SMALL_BYTES);
    job_destroy(it);
    free(outputs);
}

/* ---- results ---- */

/* More is agreed at once than a step copies: results take several steps, and all are reported. */
static void test_long_batches_are_spread_in_steps(void **state)
{
    (void)state;
    job *it = job_create(5);
    for (uint32_t step = 0; step < STEPS / 2; step++) {
        for (uint32_t tensor = 0; tensor < TENSORS; tensor++) {
            job_call(it, &(wanted){.step = step,
                                   .tensor = tensor,
                                   .dtype = TT_U8,
                                   .bytes = LARGE_BYTES,
                                   .after_ns = tensor * 100});
        }
    }
    job_run(it);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const tt_control_counters count = tt_control_count(it->controls[rank]);
        assert_int_equal(it->calls[rank][STEPS / 2 - 1][TENSORS - 1].request.status, TT_OK);
        assert_true(count.bundles > 0);
        assert_true(count.packed_bytes / count.bundles > LARGE_BYTES);
    }
    assert_true(time_of(it, 0, TENSORS - 1) < late_ns);
    job_destroy(it);
}

/* ---- members that are late ---- */

/* The first of every three tensors has to wait for the others, at slightly different times in each
 * bundle. In a later step, when these two are a bundle, the second waits for the third. */
static void test_bundles_that_wait_together_share_a_back_off_step(void **state)
{
    (void)state;
    static const tt_dtype dtypes[] = {TT_U8, TT_I8, TT_U16, TT_I16};
    static const uint32_t late_steps[] = {PLANNED_STEPS, STEPS - 1};
    job *it = job_create(7);
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t waits = step == late_steps[0] ? 0 : step == late_steps[1] ? 1 : 2;
        for (uint32_t tensor = 0; tensor < TENSORS; tensor++) {
            const uint64_t after_ns = tensor % 3 > waits ? 40 * late_ns : tensor * MS;
            job_call(it, &(wanted){.step = step,
                                   .tensor = tensor,
                                   .dtype = dtypes[tensor / 3],
                                   .bytes = SMALL_BYTES,
                                   .after_ns = waits < 2 ? after_ns : 0});
        }
    }
    job_run(it);
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t patience_ns = late_ns << i;
        uint32_t waited = 0; /* the first tensors may have been agreed one by one */
        for (uint32_t tensor = i; tensor < TENSORS; tensor += 3) {
            const uint64_t time_ns = time_of(it, late_steps[i], tensor) - tensor * MS;
            assert_true(time_ns < patience_ns + 5 * MS);
            waited += time_ns >= patience_ns ? 1 : 0;
        }
        assert_true(waited >= 3);
    }
    job_destroy(it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_member_waits_for_one_that_left_the_plan),
        cmocka_unit_test(test_only_sums_cross_the_fusion_threshold),
        cmocka_unit_test(test_long_batches_are_spread_in_steps),
        cmocka_unit_test(test_bundles_that_wait_together_share_a_back_off_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
