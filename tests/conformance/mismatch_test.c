/* SPDX-License-Identifier: Apache-2.0
 *
 * mismatch_test.c - wrong and differing calls fail on every rank, with one text, and do no harm.
 *
 * Labels: asan tsan
 * Timeout: 300
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum { RANKS_MAX = 8, ELEMENTS = 40000, TEXT_BYTES = 512 };

/* Shared by all ranks of a job. */
typedef struct board {
    bool is_named; /* calls have a name */
    bool is_arena; /* buffers lie in shared memory */
    tutti_status statuses[RANKS_MAX];
    char texts[RANKS_MAX][TEXT_BYTES];
} board;

typedef struct scene {
    ranks_self *self;
    tutti_call call;
    uint8_t *input, *output;
    bool is_arena;
    bool is_short; /* sums and broadcasts by the calls that have no descriptor */
    uint64_t input_counts[RANKS_MAX], output_counts[RANKS_MAX];
    char long_name[300];
} scene;

static bool is_rooted(tutti_collective collective)
{
    return collective == TUTTI_REDUCE || collective == TUTTI_BROADCAST ||
           collective == TUTTI_GATHER || collective == TUTTI_SCATTER;
}

static void check_usable(ranks_self *self)
{
    int32_t value = self->rank + 1;
    EXPECT_STATUS(TUTTI_OK,
                  tutti_allreduce(self->context, &value, &value, 1, TUTTI_I32, TUTTI_SUM));
    EXPECT_SAY(value == self->size * (self->size + 1) / 2, "%d", value);
}

static void scene_open(scene *open, ranks_self *self)
{
    const tutti_call plain = TUTTI_CALL_INIT;
    const board *shared = self->user;
    *open = (scene){.self = self, .call = plain};
    open->is_arena = shared != NULL && shared->is_arena;
    open->input =
        open->is_arena ? tutti_alloc(self->context, (size_t)ELEMENTS * 8) : calloc(ELEMENTS, 8);
    open->output =
        open->is_arena ? tutti_alloc(self->context, (size_t)ELEMENTS * 8) : calloc(ELEMENTS, 8);
    EXPECT(open->input != NULL && open->output != NULL);
}

static void scene_close(scene *open)
{
    if (open->is_arena) {
        tutti_free(open->self->context, open->input);
        tutti_free(open->self->context, open->output);
        return;
    }
    free(open->input);
    free(open->output);
}

/* A right call of `count` elements, the same on all ranks. */
static void scene_set(scene *open, tutti_collective collective, uint64_t count)
{
    const tutti_call plain = TUTTI_CALL_INIT;
    const board *shared = open->self->user;
    open->call = plain;
    open->call.collective = collective;
    open->call.input = open->input;
    open->call.output = open->output;
    open->call.count = count;
    open->call.name = shared != NULL && shared->is_named ? "tensor" : NULL;
    for (int i = 0; i < RANKS_MAX; i++) {
        open->input_counts[i] = 3;
        open->output_counts[i] = 0;
    }
}

static tutti_status scene_run(const scene *open)
{
    tutti_context *context = open->self->context;
    const tutti_call *call = &open->call;
    if (open->is_short && call->collective == TUTTI_ALLREDUCE) {
        return tutti_allreduce(context, call->input, call->output, call->count, call->dtype,
                               call->op);
    }
    if (open->is_short && call->collective == TUTTI_BROADCAST) {
        return tutti_broadcast(context, call->output, call->count, call->dtype, call->root);
    }
    return tutti_run(context, call);
}

static void post(ranks_self *self, tutti_status status)
{
    board *shared = self->user;
    shared->statuses[self->rank] = status;
    (void)snprintf(shared->texts[self->rank], TEXT_BYTES, "%s", tutti_last_error(self->context));
}

/* Where a rank's part had ended before the others detected the difference, a later call fails with
 * it, on all ranks. */
static void fail_late(ranks_self *self, tutti_status wanted, const char *what)
{
    const board *shared = self->user;
    int failures = 0;
    for (int good = 0, tries = 0; good < 3; tries++) {
        EXPECT_SAY(tries < 20, "%s: no later call failed", what);
        const tutti_status status = tutti_barrier(self->context);
        post(self, status);
        ranks_meet(self);
        EXPECT_SAY(status == shared->statuses[0], "%s: rank %d: %s", what, self->rank,
                   tutti_status_text(status));
        EXPECT(status == TUTTI_OK ||
               (status == wanted && strstr(shared->texts[self->rank], "an earlier call") != NULL));
        good = status == TUTTI_OK && failures > 0 ? good + 1 : 0;
        failures += status != TUTTI_OK;
        ranks_meet(self);
    }
}

/* Run, and compare with the others' results. True: texts[0] has the text of all ranks. */
static bool run_and_compare(scene *open, tutti_status wanted, const char *what)
{
    ranks_self *self = open->self;
    board *shared = self->user;
    const bool may_end_early = is_rooted(open->call.collective);
    const double before_s = ranks_clock_s();
    const tutti_status status = scene_run(open);
    const double took_s = ranks_clock_s() - before_s;
    post(self, status);
    EXPECT_SAY(status == wanted || (may_end_early && status == TUTTI_OK), "%s: rank %d: %s: %s",
               what, self->rank, tutti_status_text(status), tutti_last_error(self->context));
    EXPECT_SAY(took_s < 10.0, "%s: %g s", what, took_s);
    ranks_meet(self);
    int last = 0, early = 0;
    for (int rank = 0; rank < self->size; rank++) {
        last = shared->statuses[rank] != TUTTI_OK ? rank : last;
        early += shared->statuses[rank] == TUTTI_OK;
    }
    EXPECT_SAY(shared->statuses[last] == wanted || early == self->size, "%s", what);
    EXPECT_SAY(status == TUTTI_OK || strcmp(shared->texts[last], shared->texts[self->rank]) == 0,
               "%s: rank %d has \"%s\", rank %d \"%s\"", what, last, shared->texts[last],
               self->rank, shared->texts[self->rank]);
    ranks_meet(self);
    if (early > 0) {
        fail_late(self, wanted, what);
    }
    check_usable(self);
    ranks_meet(self);
    return early == 0;
}

/* ---- disagreement ---- */

typedef enum difference {
    DIFFERENT_COUNT,
    DIFFERENT_DTYPE,
    DIFFERENT_OP,
    DIFFERENT_ROOT,
    DIFFERENT_COLLECTIVE,
    DIFFERENT_PRESCALE,
    DIFFERENT_POSTSCALE,
    DIFFERENT_FORM, /* uneven parts or not */
    DIFFERENCES,
} difference;

static const char *const difference_words[DIFFERENCES] = {"of ", "i32",  "max",   "root 1",
                                                          "",    "by 2", "and 2", "uneven"};

static bool is_reduction(tutti_collective collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCE ||
           collective == TUTTI_REDUCESCATTER;
}

static bool applies(difference what, tutti_collective collective)
{
    switch (what) {
    case DIFFERENT_OP:
    case DIFFERENT_PRESCALE:
    case DIFFERENT_POSTSCALE:
        return is_reduction(collective);
    case DIFFERENT_ROOT:
        return is_rooted(collective);
    case DIFFERENT_FORM:
        return collective >= TUTTI_ALLGATHER && collective <= TUTTI_ALLTOALL;
    case DIFFERENT_COUNT:
    case DIFFERENT_DTYPE:
        return collective != TUTTI_BARRIER;
    default:
        return true;
    }
}

static void differ(scene *open, difference what)
{
    tutti_call *call = &open->call;
    switch (what) {
    case DIFFERENT_COUNT:
        call->count += 1;
        break;
    case DIFFERENT_DTYPE:
        call->dtype = TUTTI_I32;
        break;
    case DIFFERENT_OP:
        call->op = TUTTI_MAX;
        break;
    case DIFFERENT_ROOT:
        call->root = 1;
        break;
    case DIFFERENT_COLLECTIVE:
        call->collective = call->collective == TUTTI_BARRIER
                               ? TUTTI_ALLREDUCE
                               : (tutti_collective)((int)call->collective % 7 + 1);
        break;
    case DIFFERENT_PRESCALE:
        call->prescale = 2.0;
        break;
    case DIFFERENT_POSTSCALE:
        call->postscale = 2.0;
        break;
    default:
        call->input_counts = open->input_counts;
        call->output_counts = open->output_counts;
        call->output_capacity = ELEMENTS;
        break;
    }
}

static void mismatch_body(ranks_self *self)
{
    static const tutti_collective collectives[] = {
        TUTTI_ALLREDUCE, TUTTI_REDUCE,        TUTTI_BROADCAST, TUTTI_ALLGATHER, TUTTI_GATHER,
        TUTTI_SCATTER,   TUTTI_REDUCESCATTER, TUTTI_ALLTOALL,  TUTTI_BARRIER};
    board *shared = self->user;
    scene open;
    scene_open(&open, self);
    int turn = 0;
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
        for (int what = 0; what < DIFFERENCES; what++) {
            if (!applies((difference)what, collectives[i])) {
                continue;
            }
            char text[64];
            (void)snprintf(text, sizeof(text), "collective %d, difference %d, size %d",
                           (int)collectives[i], what, self->size);
            scene_set(&open, collectives[i], turn % 3 == 0 ? 5000 : 10);
            if (self->rank == turn++ % self->size) {
                differ(&open, (difference)what);
            }
            const bool is_told = run_and_compare(&open, TUTTI_ERR_MISMATCH, text);
            EXPECT_SAY(!is_told || strstr(shared->texts[0], difference_words[what]) != NULL,
                       "%s: \"%s\"", text, shared->texts[0]);
            ranks_meet(self);
        }
    }
    scene_close(&open);
}

/* The jobs mostly wait, so they run side by side. */
typedef struct job_start {
    int size;
    const char *transport;
    ranks_fn *body;
    board shared;
} job_start;

static void *job_main(void *argument)
{
    job_start *start = argument;
    ranks_run(start->size, start->transport, start->body, &start->shared);
    return NULL;
}

static void on_named_jobs(ranks_fn *body)
{
    job_start starts[] = {{.size = 2, .transport = "shm", .body = body},
                          {.size = 4, .transport = "tcp", .body = body},
                          {.size = 8, .transport = "shm", .body = body}};
    for (int i = 0; i < 3; i++) {
        starts[i].shared.is_named = true;
        (void)job_main(&starts[i]);
    }
}

static void on_four_jobs(ranks_fn *body)
{
    job_start starts[] = {{.size = 2, .transport = "shm", .body = body},
                          {.size = 2, .transport = "tcp", .body = body},
                          {.size = 4, .transport = "shm", .body = body},
                          {.size = 4, .transport = "tcp", .body = body}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, job_main, &starts[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void test_ranks_that_disagree_get_the_same_error(void **state)
{
    (void)state;
    on_four_jobs(mismatch_body);
}

static void test_ranks_that_disagree_about_a_name_get_the_same_error(void **state)
{
    (void)state;
    on_named_jobs(mismatch_body);
}

/* Every path of a sum, by frames and by views; the calls before and after are right. */
static void path_body(ranks_self *self)
{
    static const difference differences[] = {DIFFERENT_COUNT, DIFFERENT_DTYPE, DIFFERENT_OP};
    static const uint64_t counts[] = {10, 4999, 29999};
    const char *algorithm = getenv("TUTTI_ALGORITHM");
    scene open;
    scene_open(&open, self);
    for (int turn = 0; turn < 9; turn++) {
        char text[96];
        (void)snprintf(text, sizeof(text), "%s, turn %d, size %d",
                       algorithm != NULL ? algorithm : "any", turn, self->size);
        scene_set(&open, TUTTI_ALLREDUCE, counts[turn / 3]);
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &open.call));
        if (self->rank == turn % self->size) {
            differ(&open, differences[turn % 3]);
        }
        (void)run_and_compare(&open, TUTTI_ERR_MISMATCH, text);
        scene_set(&open, TUTTI_ALLREDUCE, counts[turn / 3]);
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &open.call));
    }
    scene_close(&open);
}

static void test_ranks_that_disagree_get_the_same_error_on_every_path(void **state)
{
    static const char *const algorithms[] = {"flat",     "star",         "doubling", "halving",
                                             "ring",     "direct",       "shared",   "pairwise",
                                             "binomial", "hierarchical", "views"};
    (void)state;
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        const bool is_wired = i % 2 == 1 && strcmp(algorithms[i], "hierarchical") != 0;
        assert_int_equal(setenv("TUTTI_ALGORITHM", algorithms[i], 1), 0);
        for (int arena = 0; arena < 2; arena++) {
            board shared = {.is_arena = arena == 1};
            ranks_run(3 + arena, is_wired && arena == 0 ? "tcp" : "shm", path_body, &shared);
        }
    }
    assert_int_equal(unsetenv("TUTTI_ALGORITHM"), 0);
}

/* ---- wrong arguments ---- */

typedef enum mistake {
    MISTAKE_COLLECTIVE,
    MISTAKE_DTYPE,
    MISTAKE_OP,
    MISTAKE_FLOAT_BITS,
    MISTAKE_BOOL_AVERAGE,
    MISTAKE_ROOT,
    MISTAKE_ROOT_NEGATIVE,
    MISTAKE_INPUT,
    MISTAKE_OUTPUT,
    MISTAKE_COUNT,
    MISTAKE_OVERLAP,
    MISTAKE_DEVICE,
    MISTAKE_NAME,
    MISTAKE_TIMEOUT,
    MISTAKE_CAPACITY,
    MISTAKE_COUNTS,
    MISTAKE_GATHERED, /* more than the capacity, known only after the counts */
    MISTAKE_GATHERED_OVERLAP,
    MISTAKES,
} mistake;

static const char *const mistake_words[MISTAKES] = {
    "collective", "dtype",         "op",        "and",          "average",  "root 9",
    "root -3",    "input is NULL", "output is", "count",        "overlap",  "device",
    "name",       "timeout_s",     "room for",  "input_counts", "room for", "overlap"};

static void make_scene(scene *open, mistake what)
{
    scene_set(open,
              what == MISTAKE_ROOT || what == MISTAKE_ROOT_NEGATIVE ? TUTTI_BROADCAST
                                                                    : TUTTI_ALLREDUCE,
              10);
    if (what == MISTAKE_COUNTS) {
        scene_set(open, TUTTI_ALLTOALL, 0);
        open->call.input_counts = open->input_counts;
        open->call.output_counts = open->output_counts;
        open->call.output_capacity = ELEMENTS;
    } else if (what == MISTAKE_GATHERED || what == MISTAKE_GATHERED_OVERLAP) {
        scene_set(open, TUTTI_ALLGATHER, 10);
        open->call.output_counts = open->output_counts;
        open->call.output_capacity = ELEMENTS;
    }
}

static void err(scene *open, mistake what)
{
    tutti_call *call = &open->call;
    switch (what) {
    case MISTAKE_COLLECTIVE:
        call->collective = (tutti_collective)99;
        break;
    case MISTAKE_DTYPE:
        call->dtype = (tutti_dtype)12;
        break;
    case MISTAKE_OP:
        call->op = (tutti_op)-1;
        break;
    case MISTAKE_FLOAT_BITS:
        call->op = TUTTI_AND;
        break;
    case MISTAKE_BOOL_AVERAGE:
        call->dtype = TUTTI_BOOL;
        call->op = TUTTI_AVERAGE;
        break;
    case MISTAKE_ROOT:
        call->root = 9;
        break;
    case MISTAKE_ROOT_NEGATIVE:
        call->root = -3;
        break;
    case MISTAKE_INPUT:
        call->input = NULL;
        break;
    case MISTAKE_OUTPUT:
        call->output = NULL;
        break;
    case MISTAKE_COUNT:
        call->count = UINT64_MAX / 2;
        break;
    case MISTAKE_OVERLAP:
        call->output = open->input + 8;
        break;
    case MISTAKE_DEVICE:
        call->device = 0;
        break;
    case MISTAKE_NAME:
        memset(open->long_name, 'x', sizeof(open->long_name) - 1);
        call->name = open->long_name;
        break;
    case MISTAKE_TIMEOUT:
        call->timeout_s = -1.0;
        break;
    case MISTAKE_CAPACITY:
        call->output_capacity = 9;
        break;
    case MISTAKE_COUNTS:
        call->input_counts = NULL;
        break;
    case MISTAKE_GATHERED:
        call->output_capacity = 15;
        break;
    default:
        call->input = open->output + 4;
        break;
    }
}

static void mistakes_body(ranks_self *self)
{
    board *shared = self->user;
    scene open;
    char culprit[32];
    scene_open(&open, self);
    for (int what = 0; what < MISTAKES; what++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "mistake %d, size %d", what, self->size);
        make_scene(&open, (mistake)what);
        const int wrong = what == MISTAKE_NAME ? 0 : what % self->size;
        if (self->rank == wrong || what == MISTAKE_NAME) { /* calls match by equal names only */
            err(&open, (mistake)what);
        }
        (void)snprintf(culprit, sizeof(culprit), "rank %d", wrong);
        const bool is_told = run_and_compare(
            &open, what == MISTAKE_DEVICE ? TUTTI_ERR_UNSUPPORTED : TUTTI_ERR_BAD_ARGUMENT, text);
        /* A name that no call can match is refused on its own rank only. */
        EXPECT_SAY(!is_told || what == MISTAKE_NAME || strstr(shared->texts[0], culprit) != NULL,
                   "%s: \"%s\"", text, shared->texts[0]);
        EXPECT_SAY(!is_told || strstr(shared->texts[0], mistake_words[what]) != NULL, "%s: \"%s\"",
                   text, shared->texts[0]);
        ranks_meet(self);
    }
    scene_close(&open);
}

static void test_a_wrong_call_fails_everywhere_and_names_the_culprit(void **state)
{
    (void)state;
    on_four_jobs(mistakes_body);
}

static void test_a_wrong_named_call_fails_everywhere_and_names_the_culprit(void **state)
{
    (void)state;
    on_named_jobs(mistakes_body);
}

/* A repeated call takes a shorter path, unless it differs from the last one: small calls, and those
 * in shared memory. Then the same for the short forms without a descriptor, of which even less is
 * compared. */
static void repeated_body(ranks_self *self)
{
    static const difference differences[] = {DIFFERENT_COUNT, DIFFERENT_DTYPE, DIFFERENT_OP,
                                             DIFFERENT_COLLECTIVE, DIFFERENT_POSTSCALE};
    static const mistake mistakes[] = {MISTAKE_CAPACITY, MISTAKE_INPUT,        MISTAKE_OUTPUT,
                                       MISTAKE_OVERLAP,  MISTAKE_DTYPE,        MISTAKE_OP,
                                       MISTAKE_ROOT,     MISTAKE_ROOT_NEGATIVE};
    enum { DIFFERENT = 5, DIFFERENT_SHORT = 3, TURNS = 13, REPEATS = 4 };
    const board *shared = self->user;
    scene open;
    scene_open(&open, self);
    for (int i = 0; i < 2 * TURNS; i++) {
        const int what = i % TURNS;
        const bool is_wrong = what >= DIFFERENT;
        char text[64];
        open.is_short = i >= TURNS;
        if (open.is_short && what >= DIFFERENT_SHORT && what <= DIFFERENT) {
            continue; /* short forms cannot express it */
        }
        (void)snprintf(text, sizeof(text), "repeated, %d, size %d", i, self->size);
        make_scene(&open, is_wrong ? mistakes[what - DIFFERENT] : MISTAKE_INPUT);
        open.call.count = shared->is_arena ? ELEMENTS / 2 : 10;
        for (int k = 0; k < REPEATS; k++) {
            EXPECT_STATUS(TUTTI_OK, scene_run(&open));
        }
        if (self->rank == i % self->size && is_wrong) {
            err(&open, mistakes[what - DIFFERENT]);
        } else if (self->rank == i % self->size) {
            differ(&open, differences[what]);
        }
        (void)run_and_compare(&open, is_wrong ? TUTTI_ERR_BAD_ARGUMENT : TUTTI_ERR_MISMATCH, text);
    }
    scene_close(&open);
}

static void test_a_repeated_call_is_still_compared(void **state)
{
    (void)state;
    on_four_jobs(repeated_body);
}

static void test_calls_that_repeat_in_shared_memory_are_compared(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size += 2) {
        job_start job = {.size = size, .transport = "shm", .body = repeated_body};
        job.shared.is_arena = true;
        (void)job_main(&job);
    }
}

/* An invalid argument that needs no peer to be detected fails in tutti_start itself. */
static void start_body(ranks_self *self)
{
    scene open;
    tutti_handle *handles[3] = {NULL};
    tutti_call calls[3];
    scene_open(&open, self);
    for (int what = 0; what <= MISTAKE_CAPACITY; what++) {
        if (what == MISTAKE_ROOT || what == MISTAKE_ROOT_NEGATIVE || what == MISTAKE_NAME) {
            continue; /* the root may be done before the error arrives; names do not match */
        }
        make_scene(&open, (mistake)what);
        calls[0] = calls[1] = calls[2] = open.call;
        if (self->rank == what % self->size) {
            err(&open, (mistake)what);
            calls[1] = open.call;
            EXPECT(tutti_start_group(self->context, calls, 3, handles) < 0);
            EXPECT_SAY(strstr(tutti_last_error(self->context), mistake_words[what]) != NULL,
                       "mistake %d: \"%s\"", what, tutti_last_error(self->context));
        } else {
            EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, calls, 3, handles));
            for (int i = 0; i < 3; i++) {
                EXPECT_SAY(tutti_wait(handles[i], -1.0) < 0, "mistake %d, call %d", what, i);
                EXPECT_SAY(strstr(tutti_handle_error(handles[i]), mistake_words[what]) != NULL,
                           "\"%s\"", tutti_handle_error(handles[i]));
                tutti_handle_free(handles[i]);
            }
        }
        check_usable(self);
    }
    scene_close(&open);
}

static void test_a_wrong_call_fails_where_it_is_started(void **state)
{
    (void)state;
    on_four_jobs(start_body);
}

/* No other rank takes part in these. */
static void alone_body(ranks_self *self)
{
    tutti_context *context = self->context;
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handle;
    int32_t value = 1;
    if (self->rank == 0) {
        EXPECT(tutti_start(context, NULL, &handle) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_start(context, &call, NULL) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_run(context, NULL) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_run(NULL, &call) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(strstr(tutti_last_error(NULL), "tutti_init") != NULL);
        call.struct_bytes = 8;
        EXPECT(tutti_run(context, &call) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(strstr(tutti_last_error(context), "TUTTI_CALL_INIT") != NULL);
        call.struct_bytes = sizeof(call);
        call.set = 17;
        EXPECT(tutti_run(context, &call) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(strstr(tutti_last_error(context), "17") != NULL);
        EXPECT(tutti_start(context, &call, &handle) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_send(context, &value, 1, TUTTI_I32, 0) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(strstr(tutti_last_error(context), "itself") != NULL);
        EXPECT(tutti_receive(context, &value, 1, TUTTI_I32, 5) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_wait(NULL, 0.0) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_poll(NULL) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_cancel(NULL) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_restart(NULL) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_register(context, NULL, 1) == TUTTI_ERR_BAD_ARGUMENT);
        EXPECT(tutti_alloc(context, SIZE_MAX) == NULL);
        tutti_handle_free(NULL);
        tutti_free(context, NULL);
    }
    check_usable(self);
}

static void test_local_errors_stay_on_their_rank(void **state)
{
    (void)state;
    ranks_run(2, "shm", alone_body, NULL);
    ranks_run(2, "tcp", alone_body, NULL);
}

/* ---- pairs ---- */

/* The sender of a short message may be done before the receiver detects the difference. */
static void pair_body(ranks_self *self)
{
    scene open;
    scene_open(&open, self);
    for (int what = 0; what < 6; what++) {
        const bool is_short = what % 2 == 0;
        scene_set(&open, self->rank == 0 ? TUTTI_SEND : TUTTI_RECEIVE, is_short ? 10 : 5000);
        open.call.root = 1 - self->rank;
        if (self->rank == what / 2 % 2) {
            differ(&open, what < 4 ? DIFFERENT_COUNT : DIFFERENT_DTYPE);
        }
        const tutti_status status = tutti_run(self->context, &open.call);
        EXPECT_SAY(status == TUTTI_ERR_MISMATCH ||
                       (status == TUTTI_OK && self->rank == 0 && is_short),
                   "rank %d, difference %d: %s", self->rank, what, tutti_status_text(status));
        EXPECT(status == TUTTI_OK || strstr(tutti_last_error(self->context), "disagree") != NULL);
        check_usable(self);
    }
    scene_close(&open);
}

static void test_pairs_that_disagree_fail(void **state)
{
    (void)state;
    ranks_run(2, "shm", pair_body, NULL);
    ranks_run(2, "tcp", pair_body, NULL);
}

/* ---- deadlines ---- */

/* All but the last rank call, and time out. True: all their errors name the missing rank. On a host
 * that stalls the deadline may pass before any rank could answer: then they cannot. */
static bool give_up(ranks_self *self, tutti_call *call)
{
    const board *shared = self->user;
    const int missing = self->size - 1;
    char name[32];
    bool is_named = true;
    (void)snprintf(name, sizeof(name), "rank %d", missing);
    if (self->rank != missing) {
        const tutti_status status = tutti_run(self->context, call);
        EXPECT_STATUS(TUTTI_ERR_TIMED_OUT, status);
        post(self, status);
    }
    ranks_meet(self);
    for (int rank = 0; rank < missing; rank++) {
        const char *rest = strstr(shared->texts[rank], "missing");
        EXPECT_SAY(rest == NULL || strchr(rest, '"') == NULL, "\"%s\"", shared->texts[rank]);
        is_named &= rest != NULL && strstr(rest, name) != NULL;
    }
    ranks_meet(self);
    return is_named;
}

static void deadline_body(ranks_self *self)
{
    int32_t value = 0;
    tutti_call call = TUTTI_CALL_INIT;
    call.input = call.output = &value;
    call.count = 1;
    call.timeout_s = 0.6;
    const board *shared = self->user;
    const int missing = self->size - 1;
    for (int named = 0, tries = 0; named < 2; tries++) {
        named += give_up(self, &call) ? 1 : 0;
        EXPECT_SAY(tries < 6, "size %d: %s", self->size, shared->texts[0]);
        call.timeout_s += named <= tries ? 1.0 : 0.0;
        if (self->rank == missing) { /* too late, unless all its frames preceded the verdict */
            const tutti_status status = tutti_run(self->context, &call);
            EXPECT_SAY(status == TUTTI_ERR_TIMED_OUT || status == TUTTI_OK, "size %d: %s: %s",
                       self->size, tutti_status_text(status), tutti_last_error(self->context));
            post(self, status);
        }
        ranks_meet(self);
        const bool is_early = shared->statuses[missing] == TUTTI_OK;
        ranks_meet(self);
        if (is_early) {
            fail_late(self, TUTTI_ERR_TIMED_OUT, "deadline");
        }
        check_usable(self);
        ranks_meet(self);
    }
}

static void test_the_error_of_a_deadline_names_missing_ranks(void **state)
{
    (void)state;
    on_four_jobs(deadline_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_that_disagree_get_the_same_error),
        cmocka_unit_test(test_a_wrong_call_fails_everywhere_and_names_the_culprit),
        cmocka_unit_test(test_ranks_that_disagree_about_a_name_get_the_same_error),
        cmocka_unit_test(test_ranks_that_disagree_get_the_same_error_on_every_path),
        cmocka_unit_test(test_a_wrong_named_call_fails_everywhere_and_names_the_culprit),
        cmocka_unit_test(test_a_repeated_call_is_still_compared),
        cmocka_unit_test(test_calls_that_repeat_in_shared_memory_are_compared),
        cmocka_unit_test(test_a_wrong_call_fails_where_it_is_started),
        cmocka_unit_test(test_local_errors_stay_on_their_rank),
        cmocka_unit_test(test_pairs_that_disagree_fail),
        cmocka_unit_test(test_the_error_of_a_deadline_names_missing_ranks),
    };
    return cmocka_run_group_tests_name("mismatch", tests, NULL, NULL);
}
