/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement_test.c - times of agreeing are those of our negotiators, and of published estimates.
 *
 * bench/scale runs the library's negotiators over a light model of a network; its rows are in
 * bench/scale/results/2cores.json, run "modes" of 15 November 2026. Here the formulas get the
 * constants of that model: 0.3 us to send, 0.3 us and 3 ns a byte to receive, 1.3 us of latency
 * between hosts of six and 0.35 us in them, 12 bytes a ns. A vector has 24 bytes; a burst a eighth
 * of 161 tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/base.h"
#include "sim/closed/agreement.h"

enum { SIZES = 5, TENSORS = 161, BURSTS = 8, VECTOR_BYTES = 24 };

static const double burst_us = 1000, jitter_us = 100, cycle_us = 1000;

static const uint32_t sizes[SIZES] = {64, 96, 768, 6000, 27600};

static tt_agree_job bench_of(uint32_t ranks)
{
    return (tt_agree_job){.rank_count = ranks,
                          .ranks_per_host = 6,
                          .send_us = 0.3,
                          .receive_us = 0.3,
                          .receive_byte_us = 0.003,
                          .host_us = 0.35,
                          .network_us = 1.3,
                          .wire_byte_us = 1 / 12e3,
                          .head_bytes = 48,
                          .request_bytes = 55};
}

static void assert_near(uint32_t ranks, double expected, double found, double tolerance)
{
    if (fabs(found - expected) > tolerance * expected) {
        fail_msg("%u ranks: expected %.6g us, found %.6g", ranks, expected, found);
    }
}

/* "exposed_us" of the step, mode bitvector, 8 bursts: of 64 members the median of the rows of all
 * runs, 9.7 to 10.8, since one step tells how long one order of arrivals takes. */
static void test_an_and_takes_as_long_as_the_negotiators(void **state)
{
    (void)state;
    static const double recorded_us[SIZES] = {10.8, 11.3, 17.4, 25.6, 29.7};
    for (int i = 0; i < SIZES; i++) {
        const tt_agree_job bench = bench_of(sizes[i]);
        assert_near(sizes[i], recorded_us[i], tt_agree_bitvector_us(&bench, VECTOR_BYTES), 0.1);
    }
}

static void test_a_tree_of_requests_takes_as_long(void **state)
{
    (void)state;
    static const double recorded_us[SIZES] = {67.5, 74.7, 115.7, 149.9, 181.3};
    for (int i = 0; i < SIZES; i++) {
        const tt_agree_job bench = bench_of(sizes[i]);
        const double found =
            tt_agree_coordinator_us(&bench, VECTOR_BYTES, (double)TENSORS / BURSTS);
        assert_near(sizes[i], recorded_us[i], found, 0.1);
    }
}

/* Cycles of the original mode over the steps of the bench. */
typedef struct cycles {
    tt_agree_job bench;
    double begin_us;     /* of the step */
    double tick_us;      /* of the cycle that is next */
    double staggered_us; /* ranks begin it that long after each other: answers came so */
    double last_submit_us, end_us;
} cycles;

/* Tensors that are there at a time of the step. */
static double submitted(const cycles *own, double at_us)
{
    const double bursts = floor((at_us - own->begin_us - jitter_us) / burst_us) + 1;
    return floor(TENSORS * fmin(fmax(bursts, 0), BURSTS) / BURSTS);
}

/* One cycle. Rank 0 cannot submit its own tensors while it receives requests. */
static void run_cycle(cycles *own, double *requested_io, double *agreed_io)
{
    const double requested = submitted(own, own->tick_us - own->staggered_us / 2);
    const double agreed = submitted(own, own->tick_us - own->staggered_us);
    const tt_agree_star turn = tt_agree_original(&own->bench, requested - *requested_io);
    const double sent_us = own->tick_us + turn.gather_us + turn.send_us;
    for (int burst = 0; burst < BURSTS; burst++) {
        const double submit_us = own->begin_us + burst * burst_us + jitter_us / 2;
        if (submit_us >= own->tick_us && submit_us < sent_us) {
            own->last_submit_us = fmax(own->last_submit_us, sent_us);
        }
    }
    own->end_us = sent_us + turn.last_us;
    const bool is_late = own->end_us > own->tick_us + cycle_us;
    own->staggered_us = is_late ? turn.send_us : 0;
    own->tick_us = is_late ? own->end_us : own->tick_us + cycle_us;
    *requested_io = requested;
    *agreed_io = agreed;
}

static double run_step(cycles *own)
{
    double requested = 0, agreed = 0;
    own->last_submit_us = own->begin_us + (BURSTS - 1) * burst_us + jitter_us;
    while (agreed < TENSORS) {
        run_cycle(own, &requested, &agreed);
    }
    const double exposed_us = own->end_us - own->last_submit_us;
    own->begin_us = own->end_us;
    return exposed_us;
}

static void test_cycles_of_the_original_take_as_long(void **state)
{
    (void)state;
    static const double first_us[SIZES] = {1014.2, 1018.9, 10914, 150281.1, 691296.3};
    static const double last_us[SIZES] = {901.8, 901.7, 11031.9, 105537.9, 785191.2};
    for (int i = 0; i < SIZES; i++) {
        cycles run = {.bench = bench_of(sizes[i]), .tick_us = cycle_us};
        assert_near(sizes[i], first_us[i], run_step(&run), 0.15);
        double found = 0;
        for (int step = 1; step < 6; step++) {
            found = run_step(&run);
        }
        assert_near(sizes[i], last_us[i], found, 0.15);
    }
}

/* Estimates for a hop of 2.3 us, 0.5 us for a frame and 1 us for a request, one request in a cycle:
 * a coordinator 0.21, 1.24, 2.4, 9.1 and 41.5 ms, an AND of flat ranks 16, 23, 25, 30 and 35 us. */
static void test_cycles_of_horovod_are_those_estimated(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {96, 768, 1536, 6000, 27600};
    static const double cycle[] = {210, 1240, 2400, 9100, 41500}, bits[] = {16, 23, 25, 30, 35};
    tt_cluster cluster = *tt_cluster_preset_find("summit");
    cluster.request_us = 1;
    for (size_t i = 0; i < TT_ARRAY_COUNT(ranks); i++) {
        tt_agree_job agreement;
        tt_agree_job_init(&agreement, &cluster, ranks[i]);
        assert_near(ranks[i], cycle[i], tt_agree_horovod_us(&agreement, 1), 0.02);
        assert_near(ranks[i], bits[i], tt_agree_horovod_cached_us(&agreement, 0, 161), 0.03);
    }
}

/* Milliseconds of a step in copies of answers, measured with an emulation: see agreement.c. */
static void test_copies_of_answers_grow_with_ranks_and_tensors(void **state)
{
    (void)state;
    static const struct {
        uint32_t ranks;
        double tensors, ms;
    } rows[] = {{6000, 60, 0.2}, {6000, 161, 2.5}, {27600, 60, 5.0}, {27600, 161, 12.3}};
    for (size_t i = 0; i < TT_ARRAY_COUNT(rows); i++) {
        tt_agree_job agreement;
        tt_agree_job_init(&agreement, tt_cluster_preset_find("summit"), rows[i].ranks);
        const double all = rows[i].tensors;
        const double found = tt_agree_horovod_cached_us(&agreement, all, all) -
                             tt_agree_horovod_cached_us(&agreement, 0, all);
        assert_near(rows[i].ranks, rows[i].ms * 1000, found, 0.15);
    }
}

static void test_a_rank_alone_agrees_at_once(void **state)
{
    (void)state;
    const tt_agree_job alone = {
        .rank_count = 1, .ranks_per_host = 1, .send_us = 1, .network_us = 1, .request_us = 1};
    assert_true(tt_agree_bitvector_us(&alone, 24) <= 0);
    assert_true(tt_agree_coordinator_us(&alone, 24, 161) <= 0);
    assert_true(tt_agree_original(&alone, 161).gather_us <= 0);
    assert_true(tt_agree_horovod_us(&alone, 161) <= 0);
    assert_true(tt_agree_horovod_cached_us(&alone, 161, 161) <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_and_takes_as_long_as_the_negotiators),
        cmocka_unit_test(test_a_tree_of_requests_takes_as_long),
        cmocka_unit_test(test_cycles_of_the_original_take_as_long),
        cmocka_unit_test(test_cycles_of_horovod_are_those_estimated),
        cmocka_unit_test(test_copies_of_answers_grow_with_ranks_and_tensors),
        cmocka_unit_test(test_a_rank_alone_agrees_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
