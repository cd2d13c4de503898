/* SPDX-License-Identifier: Apache-2.0
 *
 * cost_test.c - downcalls and instructions of a small all-reduce, counted.
 *
 * Machines run over the shuffle driver behind a platform that counts downcalls. Counts do not
 * depend on the host, so growth is detected without a clock: a budget may be lowered, and raised
 * only with a reason. A parent that single-steps its child counts instructions; machines, driver
 * and this file together.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "control/control.h"
#include "platform/shuffle.h"

enum {
    RANKS_MAX = 8,
    ROTATION_MAX = 32,
    BATCH_MAX = 16,
    WARM_CALLS = 64,
    CALLS = 640,
    SHARED_FLOATS = 1024
};
enum {
    TWO_RANKS_INSTRUCTIONS_MAX = 8000,
    TWO_PLANNED_INSTRUCTIONS_MAX = 10000,  /* of every tensor, not of the last one only */
    TWO_BATCHED_INSTRUCTIONS_MAX = 3600,   /* per tensor */
    TWO_LAUNCHED_INSTRUCTIONS_MAX = 14000, /* including the engine's addition */
    TWO_SHARED_INSTRUCTIONS_MAX = 20000,   /* including the sum of 4 KB */
    ROTATION_PERCENT_MAX = 103,            /* calls in rotation against one repeated */
};

typedef struct counted {
    tt_platform platform;
    tt_platform *inner;
    uint64_t nows, timers, allocations, sends, posts, views, spends;
} counted;

static counted *counted_of(tt_platform *platform)
{
    return TT_CONTAINER_OF(platform, counted, platform);
}

static uint64_t count_now(tt_platform *platform)
{
    counted_of(platform)->nows++;
    return tt_now(counted_of(platform)->inner);
}

static uint64_t count_random(tt_platform *platform)
{
    return tt_platform_random(counted_of(platform)->inner);
}

static void *count_allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    tt_platform *inner = counted_of(platform)->inner;
    counted_of(platform)->allocations++;
    return inner->ops->allocate(inner, kind, bytes);
}

static void count_release(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    tt_platform *inner = counted_of(platform)->inner;
    inner->ops->release(inner, kind, memory, bytes);
}

static void count_timer(tt_platform *platform, uint64_t at_ns)
{
    tt_platform *inner = counted_of(platform)->inner;
    counted_of(platform)->timers++;
    inner->ops->timer(inner, at_ns);
}

/* A post always succeeds here: the driver's own refusals would make counts random. */
static tt_status count_send(tt_platform *platform, const tt_send *send)
{
    tt_platform *inner = counted_of(platform)->inner;
    counted_of(platform)->sends += send->peer != TT_PEER_HOST ? 1 : 0;
    counted_of(platform)->posts += send->peer == TT_PEER_HOST ? 1 : 0;
    tt_status status = inner->ops->send(inner, send);
    while (send->peer == TT_PEER_HOST && status == TT_ERR_UNSUPPORTED) {
        status = inner->ops->send(inner, send);
    }
    return status;
}

static void count_recall(tt_platform *platform, uint32_t peer, uint64_t token)
{
    tt_platform *inner = counted_of(platform)->inner;
    inner->ops->recall(inner, peer, token);
}

static void count_discard(tt_platform *platform, uint32_t peer)
{
    tt_platform *inner = counted_of(platform)->inner;
    inner->ops->discard(inner, peer);
}

static void *count_view(tt_platform *platform, uint32_t peer, tt_place place, size_t bytes)
{
    tt_platform *inner = counted_of(platform)->inner;
    counted_of(platform)->views++;
    return inner->ops->view(inner, peer, place, bytes);
}

static bool count_locate(tt_platform *platform, const void *memory, size_t bytes,
                         tt_place *place_out)
{
    tt_platform *inner = counted_of(platform)->inner;
    counted_of(platform)->views++;
    return inner->ops->locate(inner, memory, bytes, place_out);
}

static void count_spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    tt_platform *inner = counted_of(platform)->inner;
    counted_of(platform)->spends++;
    inner->ops->spend(inner, kind, bytes, times);
}

static bool count_can_launch(tt_platform *platform, const tt_launch *launch)
{
    tt_platform *inner = counted_of(platform)->inner;
    return inner->ops->can_launch(inner, launch);
}

static void count_launch(tt_platform *platform, const tt_launch *launch)
{
    tt_platform *inner = counted_of(platform)->inner;
    inner->ops->launch(inner, launch);
}

static const tt_platform_ops COUNTED_OPS = {
    .now = count_now,
    .random = count_random,
    .allocate = count_allocate,
    .release = count_release,
    .timer = count_timer,
    .send = count_send,
    .recall = count_recall,
    .discard = count_discard,
    .view = count_view,
    .locate = count_locate,
    .spend = count_spend,
    .can_launch = count_can_launch,
    .launch = count_launch,
};

enum { SHARED_BYTES = SHARED_FLOATS * sizeof(float) };

typedef struct job_shape {
    uint32_t size;
    bool has_views, has_engine;
    bool is_shared;          /* buffers of SHARED_FLOATS in shared memory, summed there */
    const char *name;        /* of the calls; NULL: none */
    const tt_tracer *tracer; /* or NULL */
    uint32_t rotation;       /* calls of so many lengths in rotation; 0: one call is repeated */
    bool is_batch;           /* BATCH_MAX small tensors are a call, and are fused */
    const char *codec;       /* of SHARED_FLOATS; NULL: none */
} job_shape;

typedef struct job {
    uint32_t size;
    tt_shuffle *shuffle;
    counted counts[RANKS_MAX];
    tt_control *controls[RANKS_MAX];
    tt_request requests[RANKS_MAX][BATCH_MAX];
    float values[RANKS_MAX][ROTATION_MAX];
    float many[RANKS_MAX][BATCH_MAX];
    uint32_t batch;            /* tensors of a call, 1 or BATCH_MAX */
    float *buffers[RANKS_MAX]; /* those of the calls */
    uint32_t count;            /* of elements */
    uint32_t rotation;         /* at least 1; call c has c % rotation elements more */
    uint32_t finished;
    const char *name; /* of the calls; NULL: none */
    tt_scheme scheme; /* of coded calls */
} job;

static void finished(tt_request *request)
{
    ((job *)request->owner)->finished++;
    assert_int_equal(request->status, TT_OK);
}

static void job_init(job *all, const job_shape *shape)
{
    const uint32_t size = shape->size;
    const tt_shuffle_config config = {
        .size = size, .seed = 1, .is_ordered = true, .has_engine = shape->has_engine};
    const uint32_t host_of[RANKS_MAX] = {0};
    const tt_control_listener listener = {0};
    tt_control_config settings;
    tt_control_config_init(&settings);
    settings.algorithm = shape->is_shared ? "shared" : NULL;
    *all = (job){.size = size,
                 .shuffle = tt_shuffle_create(&config),
                 .count = shape->is_shared || shape->codec != NULL ? SHARED_FLOATS : 1,
                 .rotation = shape->rotation == 0 ? 1 : shape->rotation,
                 .batch = shape->is_batch ? BATCH_MAX : 1,
                 .name = shape->name};
    if (shape->codec != NULL) {
        tt_rule_choice choice;
        tt_text why = {0};
        assert_int_equal(tt_rule_choice_parse(shape->codec, &choice, &why), TT_OK);
        tt_scheme_make(&all->scheme, &choice);
    }
    for (uint32_t i = 0; i < size; i++) {
        const tt_world world = {
            .rank = i, .size = size, .host_of = host_of, .has_views = shape->has_views};
        all->counts[i] = (counted){.platform = {.ops = &COUNTED_OPS},
                                   .inner = tt_shuffle_platform(all->shuffle, i)};
        assert_int_equal(tt_control_create(&all->counts[i].platform, &world, &settings, &listener,
                                           &all->controls[i]),
                         TT_OK);
        if (shape->tracer != NULL) {
            tt_control_trace(all->controls[i], shape->tracer);
        }
        tt_shuffle_attach(all->shuffle, i, tt_control_machine(all->controls[i]));
        tt_platform *inner = all->counts[i].inner;
        all->buffers[i] = shape->is_shared
                              ? inner->ops->allocate(inner, TT_MEMORY_SHARED, SHARED_BYTES)
                              : all->values[i];
        assert_non_null(all->buffers[i]);
    }
}

static void job_fini(job *all)
{
    for (uint32_t i = 0; i < all->size; i++) {
        tt_platform *inner = all->counts[i].inner;
        if (all->buffers[i] != all->values[i]) {
            inner->ops->release(inner, TT_MEMORY_SHARED, all->buffers[i], SHARED_BYTES);
        }
        tt_control_destroy(all->controls[i]);
    }
    assert_true(tt_shuffle_destroy(all->shuffle));
}

/* Like handles that are started again, requests of a batch keep what control stored in them. */
static void job_call_batch(job *all, uint32_t rank)
{
    static const char *const names[BATCH_MAX] = {
        "layer 0", "layer 1", "layer 2", "layer 3", "layer 4", "layer 5", "layer 6", "layer 7",
        "layer 8", "layer 9", "layer a", "layer b", "layer c", "layer d", "layer e", "layer f"};
    for (uint32_t i = 0; i < all->batch; i++) {
        tt_request *request = &all->requests[rank][i];
        all->many[rank][i] = (float)i;
        if (request->name == NULL) {
            *request = (tt_request){.collective = TT_ALLREDUCE,
                                    .dtype = TT_F32,
                                    .redop = TT_SUM,
                                    .input = &all->many[rank][i],
                                    .output = &all->many[rank][i],
                                    .count = 1,
                                    .name = names[i],
                                    .prescale = 1.0,
                                    .postscale = 1.0,
                                    .finished = finished,
                                    .owner = all};
        }
        tt_control_submit(all->controls[rank], request);
    }
}

static void job_call(job *all, uint32_t rank, uint32_t call)
{
    all->buffers[rank][0] = (float)(rank + 1);
    all->requests[rank][0] =
        (tt_request){.collective = TT_ALLREDUCE,
                     .dtype = TT_F32,
                     .redop = TT_SUM,
                     .input = all->buffers[rank],
                     .output = all->buffers[rank],
                     .count = all->count + call % all->rotation,
                     .name = all->name,
                     .program = all->scheme.code != 0 ? &all->scheme.phases[0].program : NULL,
                     .prescale = 1.0,
                     .postscale = 1.0,
                     .finished = finished,
                     .owner = all};
    tt_control_submit(all->controls[rank], &all->requests[rank][0]);
}

static void job_calls(job *all, uint32_t calls)
{
    for (uint32_t call = 0; call < calls; call++) {
        all->finished = 0;
        for (uint32_t i = 0; i < all->size; i++) {
            if (all->batch > 1) {
                job_call_batch(all, i);
            } else {
                job_call(all, i, call);
            }
        }
        while (all->finished < all->size * all->batch) {
            const bool has_more = all->scheme.code != 0 || (all->name != NULL && call < WARM_CALLS);
            assert_true(has_more ? tt_shuffle_step(all->shuffle)
                                 : tt_shuffle_step_frames(all->shuffle));
        }
        assert_true(all->scheme.code != 0 /* codecs_test.c checks values */
                    || (all->batch > 1
                            ? all->many[0][BATCH_MAX - 1] == (float)(all->size * (BATCH_MAX - 1))
                            : all->buffers[0][0] == (float)(all->size * (all->size + 1) / 2)));
    }
}

/* Downcalls of all ranks together, per call. */
static counted cost_of(job_shape shape)
{
    job all;
    counted sum = {0};
    job_init(&all, &shape);
    job_calls(&all, WARM_CALLS);
    for (uint32_t i = 0; i < shape.size; i++) {
        all.counts[i] = (counted){.platform = all.counts[i].platform, .inner = all.counts[i].inner};
    }
    job_calls(&all, CALLS);
    for (uint32_t i = 0; i < shape.size; i++) {
        sum.nows += all.counts[i].nows;
        sum.timers += all.counts[i].timers;
        sum.allocations += all.counts[i].allocations;
        sum.sends += all.counts[i].sends;
        sum.posts += all.counts[i].posts;
        sum.views += all.counts[i].views;
        sum.spends += all.counts[i].spends;
    }
    job_fini(&all);
    return sum;
}

static void test_two_ranks_send_one_frame_each(void **state)
{
    (void)state;
    const counted cost = cost_of((job_shape){.size = 2});
    assert_int_equal(cost.allocations, 0);
    assert_int_equal(cost.timers, 0);
    assert_int_equal(cost.views, 0);
    assert_int_equal(cost.nows, 2 * 2 * CALLS / 16); /* submission and end of one call in 16 */
    /* One frame returns the credit for 32. */
    assert_in_range(cost.sends, 2 * CALLS, 2 * CALLS + 2 * CALLS / 32);
    assert_int_equal(cost.spends, 2 * CALLS);
}

static void test_ranks_of_one_host_post_once(void **state)
{
    (void)state;
    const counted cost = cost_of((job_shape){.size = 8, .has_views = true});
    assert_int_equal(cost.allocations, 0);
    assert_int_equal(cost.timers, 0);
    assert_int_equal(cost.views, 0);
    assert_int_equal(cost.nows, 2 * 8 * CALLS / 16);
    assert_int_equal(cost.posts, 8 * CALLS);
    assert_in_range(cost.sends, 0, 8 * 7 * CALLS / 32); /* credits */
    assert_int_equal(cost.spends, 8 * CALLS);
}

static void test_planned_batches_allocate_nothing(void **state)
{
    (void)state;
    const counted cost =
        cost_of((job_shape){.size = 2, .has_views = true, .name = "batch", .is_batch = true});
    assert_int_equal(cost.allocations, 0);
    /* Each submission once; each batch when it is complete, begins, gets a frame, is copied and
     * ends. */
    assert_in_range(cost.nows / (2 * CALLS), BATCH_MAX, BATCH_MAX + 16);
}

static void note_stage(void *owner, const tt_trace_event *event)
{
    *(uint64_t *)owner += event->end_ns >= event->begin_ns ? 1 : 0;
}

/* Tracing reads the time of every call, and changes no other downcall. */
static void test_a_tracer_adds_nothing_but_clocks(void **state)
{
    (void)state;
    uint64_t events = 0;
    const tt_tracer tracer = {.owner = &events, .took = note_stage};
    const counted cost = cost_of((job_shape){.size = 2, .tracer = &tracer});
    assert_int_equal(cost.allocations, 0);
    assert_int_equal(cost.timers, 0);
    assert_int_equal(cost.views, 0);
    assert_int_equal(cost.nows, 2 * 2 * CALLS);
    assert_in_range(cost.sends, 2 * CALLS, 2 * CALLS + 2 * CALLS / 32);
    assert_int_equal(cost.spends, 2 * CALLS);
    assert_in_range(events, 2 * CALLS, 2 * (2 * WARM_CALLS + CALLS));
}

/* The agreement before a launch is such a call itself. */
static void test_a_launch_that_repeats_costs_one_frame_each(void **state)
{
    (void)state;
    const counted cost = cost_of((job_shape){.size = 2, .has_engine = true});
    assert_int_equal(cost.allocations, 0);
    assert_int_equal(cost.timers, 0);
    assert_int_equal(cost.views, 0);
    assert_int_equal(cost.nows, 2 * 2 * CALLS / 16);
    assert_in_range(cost.sends, 2 * CALLS, 2 * CALLS + 2 * CALLS / 32);
}

static void test_coded_calls_allocate_nothing(void **state)
{
    (void)state;
    static const char *const codecs[] = {"int8:where=all", "sign:where=all", "int8sum:where=all",
                                         "none@0,int4:where=all@1"};
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        const counted cost = cost_of((job_shape){
            .size = 3, .has_views = true, .is_shared = true, .name = "coded", .codec = codecs[i]});
        assert_int_equal(cost.allocations, 0);
    }
}

/* ---- instructions ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
enum { IS_COUNTABLE = 0 }; /* sanitized and debug builds are not measured */
#else
enum { IS_COUNTABLE = 1 };
#endif

enum { STEPPED_CALLS = 4 };

/* Every call of a rotation once. */
static uint32_t stepped_calls(const job_shape *shape)
{
    return shape->rotation > STEPPED_CALLS ? shape->rotation : STEPPED_CALLS;
}

/* Calls between two stops, whose instructions the parent counts. */
static void run_stepped(const job_shape *shape)
{
    job all;
    job_init(&all, shape);
    job_calls(&all, WARM_CALLS);
    (void)raise(SIGSTOP);
    job_calls(&all, stepped_calls(shape));
    (void)raise(SIGSTOP);
    job_fini(&all);
}

/* Step `child` to its next stop; the number of steps, or -1 if it cannot be stepped. */
static int64_t count_steps(pid_t child)
{
    int64_t steps = 0;
    int status = 0;
    do {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 ||
            waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
            return -1;
        }
        steps++;
    } while (WSTOPSIG(status) == SIGTRAP);
    return steps;
}

/* Instructions of all ranks together, per call; -1: this host cannot count them. */
static int64_t instructions_of(const job_shape *shape)
{
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(1);
        }
        run_stepped(shape);
        _exit(0);
    }
    int status = 0;
    int64_t steps = -1;
    if (child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        steps = count_steps(child);
        (void)kill(child, SIGKILL);
        (void)waitpid(child, &status, 0);
    }
    return steps < 0 ? -1 : steps / stepped_calls(shape);
}

static int64_t instructions_or_skip(const job_shape *shape)
{
    const int64_t count = IS_COUNTABLE ? instructions_of(shape) : -1;
    if (count < 0) {
        print_message("skipped: this build or host cannot count instructions\n");
        skip();
    }
    return count;
}

static void check_instructions(job_shape shape, int64_t budget)
{
    shape.has_views = true;
    const int64_t count = instructions_or_skip(&shape);
    print_message("%u ranks: %lld instructions per %s call, budget %lld\n", shape.size,
                  (long long)count,
                  shape.has_engine     ? "launched"
                  : shape.is_shared    ? "shared"
                  : shape.name != NULL ? "planned"
                                       : "unnamed",
                  (long long)budget);
    assert_in_range(count, 1, budget);
}

static void test_two_ranks_need_few_instructions(void **state)
{
    (void)state;
    check_instructions((job_shape){.size = 2}, TWO_RANKS_INSTRUCTIONS_MAX);
}

static void test_a_planned_name_needs_few_more(void **state)
{
    (void)state;
    check_instructions((job_shape){.size = 2, .name = "small"}, TWO_PLANNED_INSTRUCTIONS_MAX);
}

static void test_a_tensor_of_a_planned_batch_needs_fewer(void **state)
{
    (void)state;
    const job_shape shape = {.size = 2, .has_views = true, .name = "batch", .is_batch = true};
    const int64_t count = instructions_or_skip(&shape) / BATCH_MAX;
    print_message("2 ranks: %lld instructions per tensor of a planned batch, budget %d\n",
                  (long long)count, (int)TWO_BATCHED_INSTRUCTIONS_MAX);
    assert_in_range(count, 1, TWO_BATCHED_INSTRUCTIONS_MAX);
}

static void test_a_launch_needs_few_more(void **state)
{
    (void)state;
    check_instructions((job_shape){.size = 2, .has_engine = true}, TWO_LAUNCHED_INSTRUCTIONS_MAX);
}

static void test_a_sum_in_shared_memory_needs_few_more(void **state)
{
    (void)state;
    check_instructions((job_shape){.size = 2, .is_shared = true}, TWO_SHARED_INSTRUCTIONS_MAX);
}

/* A call that alternates with others is prepared no more often than one that repeats. */
static void test_a_rotation_needs_few_more(void **state)
{
    (void)state;
    const job_shape repeated = {.size = 2, .has_views = true};
    const int64_t one = instructions_or_skip(&repeated);
    for (uint32_t rotation = 2; rotation <= ROTATION_MAX; rotation *= 4) {
        const job_shape shape = {.size = 2, .has_views = true, .rotation = rotation};
        const int64_t count = instructions_or_skip(&shape);
        print_message("%u calls in rotation: %lld instructions each, one repeated %lld\n", rotation,
                      (long long)count, (long long)one);
        assert_in_range(count * 100 / one, 1, ROTATION_PERCENT_MAX);
    }
}

/* Two posts of each rank, whatever the length: one for the places, one for the end. */
static void test_sums_in_shared_memory_post_twice(void **state)
{
    (void)state;
    const counted cost = cost_of((job_shape){.size = 4, .has_views = true, .is_shared = true});
    assert_int_equal(cost.allocations, 0);
    assert_int_equal(cost.timers, 0);
    assert_int_equal(cost.posts, 2 * 4 * CALLS);
    assert_in_range(cost.sends, 0, 2 * 4 * 3 * CALLS / 32); /* credits */
    assert_int_equal(cost.nows, 3 * 4 * CALLS / 16); /* one in 16: begun, all called, ended */
    assert_int_equal(cost.spends, 4 * CALLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sum_in_shared_memory_needs_few_more),
        cmocka_unit_test(test_sums_in_shared_memory_post_twice),
        cmocka_unit_test(test_two_ranks_need_few_instructions),
        cmocka_unit_test(test_a_rotation_needs_few_more),
        cmocka_unit_test(test_a_planned_name_needs_few_more),
        cmocka_unit_test(test_a_tensor_of_a_planned_batch_needs_fewer),
        cmocka_unit_test(test_a_launch_needs_few_more),
        cmocka_unit_test(test_two_ranks_send_one_frame_each),
        cmocka_unit_test(test_a_tracer_adds_nothing_but_clocks),
        cmocka_unit_test(test_a_launch_that_repeats_costs_one_frame_each),
        cmocka_unit_test(test_ranks_of_one_host_post_once),
        cmocka_unit_test(test_planned_batches_allocate_nothing),
        cmocka_unit_test(test_coded_calls_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
