/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_replay_test.c - the slowest rank is replayed as it was evaluated, all others wait longer. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "sim/cluster.h"
#include "sim/strategy/launch_times.h"
#include "sim/strategy/strategy.h"
#include "sim/train/rank_replay.h"
#include "sim/train/trainer.h"

enum { STEPS = 9, RANKS = 5, ALL_STEPS = STEPS + TT_EVALUATE_SETTLE };

/* 10 us forward, 30 backward, 1,000 bytes. */
static const tt_tensor tensors[] = {
    {"a", 100, 0, 40}, {"b", 200, 1, 31}, {"c", 300, 2, 29}, {"d", 400, 3, 20}};
static const tt_workload workload = {tensors, TT_ARRAY_COUNT(tensors), 10, 30};

/* What a replay gave. */
typedef struct rank_log {
    double end_us[ALL_STEPS]; /* of each step */
    double compute_us, wait_us;
    double last_us; /* spans follow each other */
} rank_log;

typedef struct training_log {
    tt_arrivals arrivals;
    double end_us[ALL_STEPS]; /* of the steps of the slowest */
    rank_log ranks[RANKS];
} training_log;

static void on_span(void *user, const tt_interval *span)
{
    training_log *log = user;
    tt_arrivals_note(&log->arrivals, span);
}

static void on_rank_span(void *user, const tt_rank_span *span)
{
    rank_log *log = user;
    assert_true(span->start_us >= log->last_us - 1e-9);
    assert_true(span->end_us > span->start_us);
    assert_true(span->step < ALL_STEPS);
    log->last_us = span->end_us;
    log->end_us[span->step] = span->end_us;
    if (span->kind == TT_RANK_WAIT) {
        log->wait_us += span->end_us - span->start_us;
    } else {
        log->compute_us += span->end_us - span->start_us;
    }
}

static tt_status over(void *user, const tt_training *training, const double *step_us)
{
    training_log *log = user;
    double end_us = 0;
    for (uint32_t i = 0; i < ALL_STEPS; i++) {
        end_us += step_us[i];
        log->end_us[i] = end_us;
    }
    for (uint32_t rank = 0; rank < training->noise->rank_count; rank++) {
        const tt_rank_replay replay = {.plan = training->plan,
                                       .arrivals = &log->arrivals,
                                       .noise = training->noise,
                                       .rank = rank,
                                       .step_count = ALL_STEPS,
                                       .allocator = &tt_allocator_default,
                                       .on_span = on_rank_span,
                                       .user = &log->ranks[rank]};
        TT_TRY(tt_rank_replay_run(&replay));
    }
    return TT_OK;
}

static training_log train(const char *strategy, double byte_us, const tt_rank_noise *noise)
{
    training_log log = {.end_us = {0}};
    const tt_training_watch watch = {.on_span = on_span, .over = over, .user = &log};
    const tt_strategy_settings settings = {.chunk_bytes = 100, .fuse_bytes = 1, .cycle_us = 2};
    const tt_wire wire = {.overhead_us = 0.5, .byte_us = byte_us};
    tt_agree_job agreement;
    tt_agree_job_init(&agreement, tt_cluster_preset_find("summit"), 6);
    const tt_strategy_input input = {
        .settings = &settings, .wire = &wire, .agreement = &agreement, .engine = TT_ENGINE_NCCL};
    tt_text why = {.length = 0};
    tt_training_result result;
    tt_timetable plan;
    tt_arrivals_init(&log.arrivals, ALL_STEPS, &tt_allocator_default);
    assert_int_equal(TT_OK, tt_plan_init(&plan, &workload, &tt_allocator_default));
    assert_int_equal(TT_OK, tt_strategy_find(strategy)->plan(&input, &plan));
    plan.keeps_barrier = plan.keeps_barrier && byte_us < 0.1; /* else the steps cross */
    const tt_training training = {.plan = &plan,
                                  .wire = wire,
                                  .noise = noise,
                                  .step_count = STEPS,
                                  .watch = &watch,
                                  .allocator = &tt_allocator_default};
    assert_int_equal(TT_OK, tt_train(&training, &why, &result));
    tt_plan_fini(&plan);
    tt_arrivals_fini(&log.arrivals);
    return log;
}

static void test_one_rank_alone_is_replayed_as_it_was_evaluated(void **state)
{
    (void)state;
    static const double wires[] = {0, 0.001, 0.03, 0.2};
    const tt_rank_noise noise = {.seed = 3, .rank_count = 1, .spread = 0.2};
    for (size_t strategy = 0; tt_strategy_at(strategy) != NULL; strategy++) {
        for (size_t i = 0; i < TT_ARRAY_COUNT(wires); i++) {
            const training_log log = train(tt_strategy_at(strategy)->name, wires[i], &noise);
            for (uint32_t k = 0; k < ALL_STEPS; k++) {
                if (!(fabs(log.end_us[k] - log.ranks[0].end_us[k]) <= 1e-6)) {
                    fail_msg("%s, %g us a byte, step %u: evaluated to end at %.9g, replayed %.9g",
                             tt_strategy_at(strategy)->name, wires[i], k, log.end_us[k],
                             log.ranks[0].end_us[k]);
                }
            }
        }
    }
}

static void test_no_rank_ends_a_step_after_the_slowest(void **state)
{
    (void)state;
    const tt_rank_noise noise = {.seed = 3, .rank_count = RANKS, .spread = 0.2};
    const training_log log = train("tutti", 0.03, &noise);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t k = 0; k < ALL_STEPS; k++) {
            assert_true(log.ranks[rank].end_us[k] <= log.end_us[k] + 1e-6);
        }
    }
}

static void test_a_rank_computes_its_own_time_and_waits_for_the_rest(void **state)
{
    (void)state;
    const tt_slow_rank slow = {2, 3};
    const tt_rank_noise noise = {.rank_count = RANKS, .slow = &slow, .slow_count = 1};
    const training_log log = train("ddp", 0.03, &noise);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const double factor = rank == slow.rank ? slow.factor : 1;
        assert_true(fabs(log.ranks[rank].compute_us - 40 * ALL_STEPS * factor) <= 1e-6);
    }
    /* The last step's exchange is waited for by nobody. */
    const double longer_us = log.ranks[0].wait_us - log.ranks[slow.rank].wait_us;
    assert_true(fabs(longer_us - 40 * (ALL_STEPS - 1) * (slow.factor - 1)) <= 1e-6);
}

static void test_what_arrived_in_steps_that_are_not_kept_is_forgotten(void **state)
{
    (void)state;
    tt_arrivals arrivals;
    tt_arrivals_init(&arrivals, 2, &tt_allocator_default);
    const tt_interval compute = {.kind = TT_SPAN_FORWARD, .end_us = 9, .arrived_us = 9};
    tt_arrivals_note(&arrivals, &compute);
    assert_null(arrivals.over_us);
    for (uint32_t step = 0; step < 3; step++) {
        for (uint32_t transfer = 0; transfer < 5; transfer++) {
            tt_arrivals_note(&arrivals, &(tt_interval){.kind = TT_SPAN_COLLECTIVE,
                                                       .step = step,
                                                       .transfer = transfer,
                                                       .arrived_us = 10 * step + transfer + 1});
        }
    }
    for (uint32_t step = 0; step < 2; step++) {
        for (uint32_t transfer = 0; transfer < 5; transfer++) {
            const double found = arrivals.over_us[step * arrivals.transfer_max + transfer];
            assert_true(found >= 10 * step + transfer + 1 && found <= 10 * step + transfer + 1);
        }
    }
    tt_arrivals_fini(&arrivals);
}

static void test_a_lack_of_memory_is_reported(void **state)
{
    (void)state;
    tt_counting_allocator counter = {.fail_at = 1};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    tt_timetable plan;
    tt_arrivals arrivals;
    rank_log log = {.last_us = 0};
    tt_arrivals_init(&arrivals, 2, &allocator);
    tt_arrivals_note(&arrivals, &(tt_interval){.kind = TT_SPAN_COLLECTIVE, .arrived_us = 1});
    assert_int_equal(TT_OK, tt_plan_init(&plan, &workload, &tt_allocator_default));
    tt_rank_replay replay = {.plan = &plan,
                             .arrivals = &arrivals,
                             .step_count = 1,
                             .allocator = &tt_allocator_default,
                             .on_span = on_rank_span,
                             .user = &log};
    assert_int_equal(TT_ERR_NO_MEMORY, tt_rank_replay_run(&replay));
    arrivals.has_failed = false;
    counter.fail_at = counter.allocation_count + 1;
    replay.allocator = &allocator;
    assert_int_equal(TT_ERR_NO_MEMORY, tt_rank_replay_run(&replay));
    assert_int_equal(0, counter.live_count);
    tt_plan_fini(&plan);
    tt_arrivals_fini(&arrivals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_alone_is_replayed_as_it_was_evaluated),
        cmocka_unit_test(test_no_rank_ends_a_step_after_the_slowest),
        cmocka_unit_test(test_a_rank_computes_its_own_time_and_waits_for_the_rest),
        cmocka_unit_test(test_what_arrived_in_steps_that_are_not_kept_is_forgotten),
        cmocka_unit_test(test_a_lack_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
