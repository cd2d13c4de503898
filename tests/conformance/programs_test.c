/* SPDX-License-Identifier: Apache-2.0
 *
 * programs_test.c - calls of several stages: the oracle's bits on every driver, the same bits every
 * time, and a working job after any fault in any stage.
 * Labels: asan
 * Timeout: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/registry.h"
#include "base/base.h"
#include "conformance/programs.h"
#include "conformance/world.h"
#include "control/control_internal.h"

enum { RANKS_MAX = 8, LONG_COUNT = 1500, STEPS_MAX = 2000 * 1000 };

#define MS UINT64_C(1000000)

static const uint32_t all_ranks[CASE_SIZE_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
static const tt_program *const programs[] = {&program_max_sum, &program_two_sums,
                                             &program_max_often};

static test_world *make_world(world_driver driver, uint32_t size, uint64_t seed)
{
    const world_config config = {.driver = driver,
                                 .size = size,
                                 .host_count = (uint32_t)(1 + seed % 3),
                                 .seed = seed,
                                 .segment_bytes = seed % 2 == 0 ? 128 : 1024,
                                 .eager_bytes_max = seed % 4 < 2 ? 64 : 1024,
                                 .is_shared = seed % 3 == 1};
    test_world *world = world_create(&config);
    assert_non_null(world);
    return world;
}

/* ---- every program ---- */

static void try_case(test_world *world, const collective_case *one)
{
    uint64_t hash = 0;
    case_run *run = case_start(world, one, 0, all_ranks);
    const bool is_over = world_run(world);
    const char *error = is_over ? case_finish(run, &hash) : "deadlock";
    if (error != NULL) {
        char text[256];
        case_describe(one, text, sizeof(text));
        fail_msg("%s: %s", text, error);
    }
}

/* Uses the types in which all intermediate values are exact, or wrap. */
static void try_programs(test_world *world, uint32_t size)
{
    static const tt_dtype dtypes[] = {TT_F32, TT_F64, TT_I32, TT_U8, TT_I64};
    static const uint64_t counts[] = {0, 1, 5, 100, LONG_COUNT};
    for (uint32_t i = 0; i < 4 * TT_ARRAY_COUNT(dtypes) * TT_ARRAY_COUNT(counts); i++) {
        collective_case one = {.collective = TT_ALLREDUCE,
                               .dtype = dtypes[i / 4 % TT_ARRAY_COUNT(dtypes)],
                               .redop = TT_SUM,
                               .size = size,
                               .count = counts[i / 4 / TT_ARRAY_COUNT(dtypes)],
                               .is_in_place = i / 4 % 2 == 1,
                               .prescale = i % 8 < 4 ? 1.0 : 2.0,
                               .postscale = i % 12 < 8 ? 1.0 : 0.5,
                               .salt = i};
        if (i % 4 < TT_ARRAY_COUNT(programs)) {
            one.program = programs[i % 4];
        } else { /* lengths, then the data */
            one.collective = TT_ALLGATHER;
            one.is_uneven = true;
            one.prescale = one.postscale = 1.0;
        }
        try_case(world, &one);
    }
}

static void test_every_program_on_every_driver(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= RANKS_MAX; size++) {
        for (uint64_t seed = size; seed < size + 3; seed++) {
            const world_driver driver = seed % 2 == 0 ? WORLD_SIM : WORLD_SHUFFLE;
            test_world *world = make_world(driver, size, seed);
            try_programs(world, size);
            assert_true(world_destroy(world));
        }
    }
}

static void test_every_algorithm_runs_every_program(void **state)
{
    (void)state;
    for (size_t a = 0; tt_algorithm_at(a) != NULL; a++) {
        for (uint32_t size = 2; size <= RANKS_MAX; size += 3) {
            const world_config config = {.driver = a % 2 == 0 ? WORLD_SIM : WORLD_SHUFFLE,
                                         .size = size,
                                         .host_count = 1,
                                         .seed = a + size,
                                         .segment_bytes = 128,
                                         .eager_bytes_max = 64,
                                         .algorithm = tt_algorithm_at(a)->name};
            test_world *world = world_create(&config);
            assert_non_null(world);
            try_programs(world, size);
            assert_true(world_destroy(world));
        }
    }
}

/* ---- one program, made again with the same requests ---- */

typedef struct job {
    test_world *world;
    collective_case one;
    size_t bytes;
    uint8_t *inputs[RANKS_MAX], *outputs[RANKS_MAX];
    tt_request requests[RANKS_MAX];
    bool is_over[RANKS_MAX];
} job;

static void on_finished(tt_request *request)
{
    bool *is_over = request->owner;
    assert_false(*is_over);
    *is_over = true;
}

static job *job_make(test_world *world, const tt_program *program, uint32_t size, uint64_t count)
{
    job *made = calloc(1, sizeof(*made));
    assert_non_null(made);
    made->world = world;
    made->one = (collective_case){.collective = TT_ALLREDUCE,
                                  .dtype = TT_F32,
                                  .redop = TT_SUM,
                                  .size = size,
                                  .count = count,
                                  .prescale = 1.0,
                                  .postscale = 1.0,
                                  .program = program};
    made->bytes = count * sizeof(float);
    for (uint32_t i = 0; i < size; i++) {
        made->inputs[i] = calloc(2, made->bytes + 1);
        assert_non_null(made->inputs[i]);
        made->outputs[i] = made->inputs[i] + made->bytes;
        made->requests[i] = (tt_request){.collective = TT_ALLREDUCE,
                                         .dtype = TT_F32,
                                         .redop = TT_SUM,
                                         .count = count,
                                         .prescale = 1.0,
                                         .postscale = 1.0,
                                         .program = program,
                                         .input = made->inputs[i],
                                         .output = made->outputs[i],
                                         .finished = on_finished,
                                         .owner = &made->is_over[i]};
    }
    return made;
}

static void job_drop(job *made)
{
    for (uint32_t i = 0; i < made->one.size; i++) {
        free(made->inputs[i]);
    }
    free(made);
}

static void job_submit(job *what, uint32_t rank)
{
    tt_request *request = &what->requests[rank];
    case_fill_input(&what->one, rank, (void *)(uintptr_t)request->input);
    what->is_over[rank] = false;
    request->status = TT_IN_PROGRESS;
    world_submit(what->world, rank, request);
}

static void job_start(job *what)
{
    what->one.salt++;
    for (uint32_t i = 0; i < what->one.size; i++) {
        job_submit(what, i);
    }
}

static bool job_is_over(const job *what)
{
    bool is_over = true;
    for (uint32_t i = 0; i < what->one.size; i++) {
        is_over = is_over && what->is_over[i];
    }
    return is_over;
}

/* Number of ranks that ended with this status. */
static uint32_t job_count(const job *what, tt_status status)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < what->one.size; i++) {
        count += what->is_over[i] && what->requests[i].status == status ? 1 : 0;
    }
    return count;
}

/* Every rank that succeeded has the right bits. */
static void job_check(const job *what)
{
    uint8_t *expected = calloc(1, what->bytes + 1);
    assert_non_null(expected);
    case_fill_expected(&what->one, 0, expected);
    for (uint32_t i = 0; i < what->one.size; i++) {
        if (what->is_over[i] && what->requests[i].status == TT_OK) {
            assert_memory_equal(what->requests[i].output, expected, what->bytes);
        }
    }
    free(expected);
}

static void job_run(job *what)
{
    job_start(what);
    assert_true(world_run(what->world));
    assert_true(job_is_over(what));
    job_check(what);
}

static void job_run_well(job *what)
{
    job_run(what);
    assert_int_equal(job_count(what, TT_OK), what->one.size);
}

/* As after any failure, this call may fail once more on a rank whose part had ended. */
static void job_run_again(job *what)
{
    job_run(what);
    if (job_count(what, TT_OK) < what->one.size) {
        job_run_well(what);
    }
    job_run_well(what); /* by the op of the last */
}

/* Runs until the rank's call is in this stage; false: it ended before. */
static bool run_to_stage(job *what, uint32_t rank, uint32_t stage)
{
    for (uint32_t i = 0; i < STEPS_MAX && !what->is_over[rank]; i++) {
        const tt_op *op = what->requests[rank].op;
        if (op != NULL && op->request == &what->requests[rank] && op->phase == OP_RUNNING &&
            op->stage == stage) {
            return true;
        }
        if (!world_step(what->world)) {
            return false;
        }
    }
    return false;
}

typedef void stage_fn(test_world *world, job *what, uint32_t stage);

/* For every stage of every program, on worlds of this driver. */
static void in_each_stage(world_driver driver, stage_fn *try)
{
    for (size_t p = 0; p < TT_ARRAY_COUNT(programs); p++) {
        for (uint32_t stage = 0; stage < programs[p]->step_count; stage++) {
            for (uint64_t seed = 0; seed < 4; seed++) {
                const uint32_t size = 2 + (uint32_t)seed;
                test_world *world = make_world(driver, size, seed);
                job *what = job_make(world, programs[p], size, seed % 2 == 0 ? LONG_COUNT : 5);
                if (seed % 2 == 1) {
                    job_run_well(what); /* so that an op is idle */
                }
                try(world, what, stage);
                job_drop(what);
                assert_true(world_destroy(world));
            }
        }
    }
}

/* ---- faults ---- */

static uint32_t hits[TT_STAGES_MAX]; /* by stage: how often it ended a call */

static void assert_hits(uint32_t stages)
{
    for (uint32_t i = 0; i < stages; i++) {
        assert_true(hits[i] > 0);
    }
    memset(hits, 0, sizeof(hits));
}

static void try_cancel(test_world *world, job *what, uint32_t stage)
{
    const uint32_t size = what->one.size;
    job_start(what);
    const bool is_there = run_to_stage(what, 0, stage);
    const bool is_cancelled =
        is_there && tt_control_cancel(world_control(world, 0), &what->requests[0]);
    assert_true(world_run(world));
    assert_true(job_is_over(what));
    job_check(what);
    assert_int_equal(job_count(what, is_cancelled ? TT_ERR_CANCELLED : TT_OK), size);
    hits[stage] += is_there ? 1 : 0;
    job_run_again(what);
}

static void test_cancelling_in_each_stage(void **state)
{
    (void)state;
    in_each_stage(WORLD_SHUFFLE, try_cancel);
    assert_hits(3);
}

/* Before the other rank has made the call no data has moved, if data waits for grants and nothing
 * is copied first. */
static void test_cancelling_before_anything_has_moved(void **state)
{
    (void)state;
    const world_config config = {.driver = WORLD_SHUFFLE,
                                 .size = 2,
                                 .seed = 4,
                                 .segment_bytes = 1024,
                                 .eager_bytes_max = 64,
                                 .algorithm = "ring"};
    for (size_t p = 0; p < TT_ARRAY_COUNT(programs); p++) {
        test_world *world = world_create(&config);
        assert_non_null(world);
        job *what = job_make(world, programs[p], 2, LONG_COUNT);
        for (int i = 0; i < 3; i++) {
            job_submit(what, 0);
            assert_true(tt_control_cancel(world_control(world, 0), &what->requests[0]));
            job_submit(what, 1);
            assert_true(world_run(world));
            assert_int_equal(job_count(what, TT_ERR_CANCELLED), 2);
            job_run_again(what);
        }
        job_drop(what);
        assert_true(world_destroy(world));
    }
}

static void try_deadline(test_world *world, job *what, uint32_t stage)
{
    for (uint32_t i = 0; i < what->one.size; i++) {
        what->requests[i].deadline_ns = 300 * MS;
    }
    job_start(what);
    if (run_to_stage(what, 0, stage)) {
        world_stop(world, 1, 5000 * MS);
    }
    assert_true(world_run(world));
    assert_true(job_is_over(what));
    job_check(what);
    const uint32_t late = job_count(what, TT_ERR_TIMED_OUT);
    assert_int_equal(late + job_count(what, TT_OK), what->one.size);
    hits[stage] += late;
    for (uint32_t i = 0; i < what->one.size; i++) {
        what->requests[i].deadline_ns = 0;
    }
    job_run_again(what);
}

static void test_a_deadline_in_each_stage(void **state)
{
    (void)state;
    in_each_stage(WORLD_SIM, try_deadline);
    assert_hits(TT_STAGES_MAX);
}

/* The last rank dies; the others' calls, this one and the next, end. */
static void run_without_last(job *what)
{
    const uint32_t alive = what->one.size - 1;
    uint32_t over = 0;
    for (uint32_t i = 0; i < STEPS_MAX && over < alive; i++) {
        over = 0;
        for (uint32_t rank = 0; rank < alive; rank++) {
            over += what->is_over[rank] ? 1 : 0;
        }
        if (over < alive && !world_step(what->world)) {
            break;
        }
    }
    assert_int_equal(over, alive);
}

static void try_kill(test_world *world, job *what, uint32_t stage)
{
    const uint32_t last = what->one.size - 1;
    job_start(what);
    const bool is_hit = run_to_stage(what, 0, stage);
    if (is_hit) {
        world_kill(world, last);
    }
    if (!is_hit || what->is_over[last]) { /* nothing was left to disturb */
        assert_true(is_hit || world_run(world));
    }
    run_without_last(what);
    job_check(what);
    for (uint32_t i = 0; i < last; i++) {
        const tt_status status = what->requests[i].status;
        assert_true(status == TT_OK || (is_hit && status == TT_ERR_PEER_DOWN));
        hits[stage] += status != TT_OK ? 1 : 0;
    }
    if (is_hit) {
        what->one.salt++;
        for (uint32_t i = 0; i < last; i++) {
            job_submit(what, i);
        }
        run_without_last(what);
        for (uint32_t i = 0; i < last; i++) {
            assert_int_equal(what->requests[i].status, TT_ERR_PEER_DOWN);
        }
        tt_control_shut_down(world_control(world, last), TT_ERR_SHUT_DOWN, "swept up");
        tt_control_shut_down(world_control(world, last), TT_ERR_SHUT_DOWN, "swept up");
    }
}

static void test_a_rank_dies_in_each_stage(void **state)
{
    (void)state;
    in_each_stage(WORLD_SIM, try_kill);
    assert_hits(TT_STAGES_MAX);
}

/* Ranks that run different programs, or one that cannot take part. */
static void test_a_program_runs_again_after_a_refusal(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        test_world *world = make_world(seed % 2 == 0 ? WORLD_SHUFFLE : WORLD_SIM, 3, seed);
        job *what = job_make(world, &program_max_sum, 3, seed % 3 == 0 ? LONG_COUNT : 5);
        tt_request *odd = &what->requests[1];
        job_run_well(what);
        odd->program = &program_two_sums;
        job_run(what);
        assert_int_equal(job_count(what, TT_ERR_MISMATCH), 3);
        odd->program = NULL;
        job_run(what);
        assert_int_equal(job_count(what, TT_ERR_MISMATCH), 3);
        odd->program = &program_max_sum;
        job_run_again(what);
        odd->dtype = (tt_dtype)99;
        job_run(what);
        assert_int_equal(job_count(what, TT_ERR_BAD_ARGUMENT), 3);
        odd->dtype = TT_F32;
        job_run_again(what);
        job_drop(what);
        assert_true(world_destroy(world));
    }
}

/* Any one allocation fails: the calls end, with a result or with NO_MEMORY. */
static void test_every_allocation_of_a_program_can_fail(void **state)
{
    (void)state;
    enum { SIZE = 3 };
    world_config config = {.driver = WORLD_SHUFFLE,
                           .size = SIZE,
                           .seed = 4,
                           .segment_bytes = 128,
                           .eager_bytes_max = 64};
    test_world *world = world_create(&config);
    assert_non_null(world);
    const uint64_t before = world_allocations(world);
    job *what = job_make(world, &program_max_sum, SIZE, LONG_COUNT);
    job_run_well(what);
    const uint64_t after = world_allocations(world);
    job_drop(what);
    assert_true(world_destroy(world));
    assert_true(after > before);
    for (config.fail_at = before + 1; config.fail_at <= after; config.fail_at++) {
        world = world_create(&config);
        assert_non_null(world);
        what = job_make(world, &program_max_sum, SIZE, LONG_COUNT);
        for (int i = 0; i < 3; i++) {
            job_run(what);
            assert_int_equal(job_count(what, TT_OK) + job_count(what, TT_ERR_NO_MEMORY), SIZE);
        }
        job_drop(what);
        assert_true(world_destroy(world));
    }
}

/* ---- again and again ---- */

/* Sums that round, in an order that is the algorithm's. */
static void test_the_hundredth_run_has_the_bits_of_the_first(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 5, LONG_COUNT};
    for (uint32_t i = 0; i < 2 * 2 * TT_ARRAY_COUNT(counts); i++) {
        const uint32_t size = 3 + i % 4;
        test_world *world = make_world(i % 2 == 0 ? WORLD_SHUFFLE : WORLD_SIM, size, i);
        job *what = job_make(world, programs[i / 2 % 2], size, counts[i / 4]);
        uint8_t *first = malloc(what->bytes);
        assert_non_null(first);
        what->one.is_rounding = true;
        for (uint32_t run = 0; run < 100; run++) {
            what->one.salt = 7;
            for (uint32_t rank = 0; rank < size; rank++) {
                job_submit(what, rank);
            }
            assert_true(world_run(world));
            assert_int_equal(job_count(what, TT_OK), size);
            if (run == 0) {
                memcpy(first, what->outputs[0], what->bytes);
            }
            for (uint32_t rank = 0; rank < size; rank++) {
                assert_memory_equal(what->outputs[rank], first, what->bytes);
            }
        }
        free(first);
        job_drop(what);
        assert_true(world_destroy(world));
    }
}

static void test_buffers_change_between_in_place_and_out_of_place(void **state)
{
    (void)state;
    enum { SIZE = 4 };
    for (uint64_t seed = 0; seed < 6; seed++) {
        test_world *world = make_world(seed % 2 == 0 ? WORLD_SHUFFLE : WORLD_SIM, SIZE, seed);
        job *what = job_make(world, programs[seed % 3], SIZE, seed < 3 ? 5 : LONG_COUNT);
        for (uint32_t run = 0; run < 12; run++) {
            for (uint32_t i = 0; i < SIZE; i++) { /* each rank independently */
                const bool is_in_place = (run >> i % 3 & 1) != 0;
                what->requests[i].input = is_in_place ? what->outputs[i] : what->inputs[i];
            }
            job_run_well(what);
        }
        job_drop(what);
        assert_true(world_destroy(world));
    }
}

/* The operator of the call does not affect the operators of its steps. */
static void test_steps_have_operators_of_their_own(void **state)
{
    (void)state;
    enum { SIZE = 3 };
    for (uint64_t seed = 0; seed < 6; seed++) {
        test_world *world = make_world(seed % 2 == 0 ? WORLD_SHUFFLE : WORLD_SIM, SIZE, seed);
        job *what = job_make(world, programs[seed % 3], SIZE, seed < 3 ? 5 : LONG_COUNT);
        for (uint32_t i = 0; i < SIZE; i++) {
            what->requests[i].redop = TT_AVERAGE;
        }
        job_run_well(what);
        job_run_well(what);
        job_drop(what);
        assert_true(world_destroy(world));
    }
}

static void test_a_thousand_runs_of_one_recipe_in_flight(void **state)
{
    (void)state;
    enum { SIZE = 3, RUNS = 1000 };
    static case_run *runs[RUNS];
    for (uint64_t seed = 1; seed < 4; seed++) {
        test_world *world = make_world(seed % 2 == 0 ? WORLD_SHUFFLE : WORLD_SIM, SIZE, seed);
        collective_case one = {.collective = TT_ALLREDUCE,
                               .dtype = TT_I32,
                               .redop = TT_SUM,
                               .size = SIZE,
                               .count = 20,
                               .prescale = 1.0,
                               .postscale = 1.0,
                               .program = programs[seed % 2]};
        for (uint32_t i = 0; i < RUNS; i++) {
            one.salt = i;
            runs[i] = case_start(world, &one, 0, all_ranks);
        }
        assert_true(world_run(world));
        uint64_t hash = 0;
        for (uint32_t i = 0; i < RUNS; i++) {
            assert_null(case_finish(runs[i], &hash));
        }
        for (uint32_t rank = 0; rank < SIZE; rank++) {
            const tt_recipes *recipes = &world_control(world, rank)->recipes;
            assert_int_equal(recipes->counts[0], 1);
            assert_int_equal(recipes->idle_count, 1);
        }
        assert_true(world_destroy(world));
    }
}

static void test_more_recipes_than_the_table_holds(void **state)
{
    (void)state;
    enum { SIZE = 2 };
    test_world *world = make_world(WORLD_SHUFFLE, SIZE, 7);
    job *first = job_make(world, &program_max_sum, SIZE, 1);
    job_run_well(first);
    const uint64_t stamp = first->requests[0].recipe_stamp;
    assert_true(first->requests[0].recipe->stamp == stamp);
    for (uint64_t count = 2; count < 3 * RECIPES_MAX; count++) {
        try_case(world, &(collective_case){.collective = TT_ALLREDUCE,
                                           .dtype = TT_U8,
                                           .redop = TT_SUM,
                                           .size = SIZE,
                                           .count = count % (2 * RECIPES_MAX),
                                           .prescale = 1.0,
                                           .postscale = 1.0,
                                           .program = programs[count % 2],
                                           .salt = count});
    }
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        assert_int_equal(world_control(world, rank)->recipes.counts[0], RECIPES_MAX);
        assert_true(first->requests[rank].recipe->stamp != stamp); /* evicted */
    }
    job_run_well(first); /* with a stale hint */
    assert_true(first->requests[0].recipe_stamp != stamp);
    job_run_well(first);
    job_drop(first);
    assert_true(world_destroy(world));
}

/* ---- frames of stages that are over, to come, or none ---- */

static void inject(test_world *world, const tt_op *op, uint16_t stage, uint8_t kind)
{
    const tt_machine machine = tt_control_machine(world_control(world, 0));
    const tt_head head = {.kind = kind,
                          .stage = stage,
                          .op = op->sequence,
                          .descriptor = op->recipe->descriptor,
                          .epoch = 1};
    assert_null(machine.ops->frame(machine.self, 1, &head, NULL));
}

static void test_frames_of_other_stages_change_nothing(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {TT_FRAME_DATA, TT_FRAME_GRANT, TT_FRAME_WANT};
    static const uint16_t far[] = {14, 15, 16, 17, 127, 128, 254, 255, 256, 257, 258, 32768, 65535};
    for (uint32_t i = 0; i < 3 * 4 * TT_ARRAY_COUNT(kinds); i++) {
        test_world *world = make_world(WORLD_SHUFFLE, 2, i % 4);
        job *what = job_make(world, programs[i / 4 % 2], 2, i % 2 == 0 ? LONG_COUNT : 5);
        const uint8_t kind = kinds[i / 12];
        for (uint32_t run = 0; run < 3; run++) {
            what->one.salt++;
            job_submit(what, 0);
            for (size_t f = 0; f < TT_ARRAY_COUNT(far); f++) {
                inject(world, what->requests[0].op, far[f], kind);
            }
            job_submit(what, 1);
            for (uint32_t step = 0; step < STEPS_MAX && !job_is_over(what); step++) {
                const tt_op *op = what->requests[0].op;
                const bool is_open = !what->is_over[0] && op->phase == OP_RUNNING;
                const uint32_t stage = is_open ? op->stage : 0;
                if (is_open && step % 4 == 0) {
                    inject(world, op, far[step / 4 % TT_ARRAY_COUNT(far)], kind);
                } else if (is_open && step % 4 == 1 && stage > 0) {
                    inject(world, op, (uint16_t)(stage - 1), kind);
                } else if (is_open && step % 4 == 2) {
                    inject(world, op, (uint16_t)(stage + 1), kind);
                }
                assert_true(world_step(world) || job_is_over(what));
            }
            assert_true(world_run(world));
            assert_int_equal(job_count(what, TT_OK), 2);
            job_check(what);
            const tt_flow *flow = &world_control(world, 0)->flow;
            assert_int_equal(flow->parked_count + flow->note_count, 0);
        }
        job_drop(what);
        assert_true(world_destroy(world));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_program_on_every_driver),
        cmocka_unit_test(test_every_algorithm_runs_every_program),
        cmocka_unit_test(test_cancelling_in_each_stage),
        cmocka_unit_test(test_cancelling_before_anything_has_moved),
        cmocka_unit_test(test_a_deadline_in_each_stage),
        cmocka_unit_test(test_a_rank_dies_in_each_stage),
        cmocka_unit_test(test_a_program_runs_again_after_a_refusal),
        cmocka_unit_test(test_every_allocation_of_a_program_can_fail),
        cmocka_unit_test(test_the_hundredth_run_has_the_bits_of_the_first),
        cmocka_unit_test(test_buffers_change_between_in_place_and_out_of_place),
        cmocka_unit_test(test_steps_have_operators_of_their_own),
        cmocka_unit_test(test_a_thousand_runs_of_one_recipe_in_flight),
        cmocka_unit_test(test_more_recipes_than_the_table_holds),
        cmocka_unit_test(test_frames_of_other_stages_change_nothing),
    };
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
