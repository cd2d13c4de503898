/* SPDX-License-Identifier: Apache-2.0
 *
 * frames_test.c - the frames of stores as bytes.
 *
 * Builds that put other bytes on the wire must not connect: where a line below has to change, raise
 * TT_PROTOCOL_VERSION_MIN and MAX (transport/secure/hello.h) and describe the change there.
 *
 * The first frame of each kind is written as: sender>receiver, the twelve words of its head, and
 * those of its payload up to the last one that is not 0 (texts of failures may change). Words are
 * little-endian, in hexadecimal.
 *
 * Labels: asan sync */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/small.h"

enum { STORY_BYTES = 16384, WORKERS = 2 };

static char story[STORY_BYTES];
static bool is_told[256]; /* kinds */

static void begin_story(void)
{
    memset(story, 0, sizeof(story));
    memset(is_told, 0, sizeof(is_told));
}

static void tell_words(const void *source, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i += 4) {
        uint32_t word = 0;
        const size_t at = strlen(story);
        memcpy(&word, (const uint8_t *)source + i, bytes - i < 4 ? bytes - i : 4);
        (void)snprintf(story + at, STORY_BYTES - at, " %x", word);
    }
}

static void tell(const small_frame *frame)
{
    const bool is_text = frame->head.kind == TT_SYNC_MISSING ||
                         ((int64_t)frame->head.argument < 0 &&
                          frame->head.kind != TT_SYNC_OBJECT); /* of this test */
    uint32_t bytes = is_text ? 0 : frame->head.payload_bytes;
    small_frame told = *frame;
    if (is_told[frame->head.kind]) {
        return;
    }
    is_told[frame->head.kind] = true;
    told.head.payload_bytes = is_text ? 0 : told.head.payload_bytes;
    while (bytes > 0 && frame->bytes[bytes - 1] == 0) {
        bytes--;
    }
    const size_t at = strlen(story);
    (void)snprintf(story + at, STORY_BYTES - at, "%u>%u", frame->from, frame->to);
    tell_words(&told.head, sizeof(told.head));
    (void)strcat(story, bytes > 0 ? " |" : "");
    tell_words(frame->bytes, bytes);
    (void)strcat(story, "\n");
}

static void play(small_world *world)
{
    bool is_idle = false;
    while (!is_idle) {
        is_idle = world->frame_count == 0;
        if (!is_idle) {
            tell(&world->frames[0]);
            small_deliver(world, 0, false);
        }
        for (uint32_t i = 0; i < world->workers + world->servers; i++) {
            while (small_has_step(world->machines[i])) {
                small_step(world->machines[i]);
                is_idle = false;
            }
        }
    }
}

static void finished(tt_sync_request *request)
{
    *(int *)request->owner += 1;
}

/* The same call of all workers. */
static void call(small_world *world, tt_sync_request request)
{
    tt_sync_request requests[WORKERS];
    int ends = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        requests[i] = request;
        requests[i].owner = &ends;
        requests[i].finished = finished;
        tt_sync_submit(world->machines[i]->sync, &requests[i]);
    }
    play(world);
    assert_int_equal(ends, WORKERS);
}

static void expect(const char *golden)
{
    if (strcmp(story, golden) != 0) {
        (void)fputs(story, stderr);
    }
    assert_string_equal(story, golden);
}

static small_world *begin(const char *policy, const char *update)
{
    static const float first = 2.0f;
    begin_story();
    small_world *world = small_create(WORKERS, WORKERS);
    call(world, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = policy, .update = update});
    call(world, (tt_sync_request){.verb = TT_STORE_ADD,
                                  .name = small_name(world, 1),
                                  .dtype = TT_F32,
                                  .count = 1,
                                  .input = &first});
    return world;
}

static void test_frames_of_a_stale_store(void **state)
{
    (void)state;
    const float pushed = 1.0f;
    float read = 0.0f;
    tt_sync_counts counts;
    small_world *world = begin("stale:1", "sgd:lr=0.5");
    const char *name = small_name(world, 1);
    call(world, (tt_sync_request){.verb = TT_STORE_PULL, .name = name, .output = &read});
    call(world,
         (tt_sync_request){.verb = TT_STORE_PUSH, .name = name, .input = &pushed, .urgency = 3});
    call(world, (tt_sync_request){
                    .verb = TT_STORE_PUSH_PULL, .name = name, .input = &pushed, .output = &read});
    call(world, (tt_sync_request){.verb = TT_STORE_CLOCK});
    call(world,
         (tt_sync_request){.verb = TT_STORE_SET, .name = "lr", .value = 0.25, .clock = UINT64_MAX});
    call(world, (tt_sync_request){.verb = TT_STORE_COUNT, .counts = &counts});
    call(world, (tt_sync_request){.verb = TT_STORE_CLOSE});
    expect("0>2 40 0 0 0 0 0 0 0 12 7 0 0 | 6c617473 20313a65 3a646773 303d726c 352e\n"
           "2>0 60 0 0 0 0 0 0 0 0 7 0 0\n"
           "0>2 42 0 163d0b3a 92ef5196 0 0 0 0 49 7 0 0 | 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 62\n"
           "2>0 62 0 163d0b3a 92ef5196 0 0 0 0 0 7 0 0\n"
           "0>3 43 0 163d0b3a 92ef5196 0 0 1 0 4 7 0 0 | 40000000\n"
           "3>0 63 0 163d0b3a 92ef5196 0 0 1 0 0 7 0 0\n"
           "0>3 45 0 163d0b3a 92ef5196 0 0 2 0 0 7 0 0\n"
           "3>0 64 0 163d0b3a 92ef5196 0 0 2 0 4 7 0 0 | 40000000\n"
           "0>3 30044 0 163d0b3a 92ef5196 0 0 3 0 4 7 1 0 | 3f800000\n"
           "0>2 146 0 0 0 0 1 0 0 0 7 0 0\n"
           "2>0 65 0 0 0 0 0 0 0 0 7 0 0\n"
           "0>2 4047 0 0 0 0 1 1 0 0 7 3e800000 0\n"
           "2>0 67 0 0 0 0 0 1 0 0 7 0 0\n"
           "0>2 48 0 0 0 0 0 2 0 0 7 0 0\n"
           "2>0 68 0 0 0 0 1 2 0 200 7 0 0\n"
           "0>2 41 0 0 0 0 0 0 0 0 7 0 0\n"
           "2>0 61 0 0 0 0 0 0 0 0 7 0 0\n");
    small_destroy(world);
}

static void test_frames_of_a_quorum(void **state)
{
    (void)state;
    small_world *world = begin("quorum:2", "add");
    call(world, (tt_sync_request){.verb = TT_STORE_CLOCK});
    call(world, (tt_sync_request){.verb = TT_STORE_CLOSE});
    expect("0>2 40 0 0 0 0 0 0 0 c 7 0 0 | 726f7571 323a6d75 64646120\n"
           "2>0 60 0 0 0 0 0 0 0 0 7 0 0\n"
           "0>2 42 0 163d0b3a 92ef5196 0 0 0 0 49 7 0 0 | 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 62\n"
           "2>0 62 0 163d0b3a 92ef5196 0 0 0 0 0 7 0 0\n"
           "0>3 43 0 163d0b3a 92ef5196 0 0 1 0 4 7 0 0 | 40000000\n"
           "3>0 63 0 163d0b3a 92ef5196 0 0 1 0 0 7 0 0\n"
           "0>2 146 0 0 0 0 1 0 0 0 7 0 0\n"
           "2>0 65 0 0 0 0 0 0 0 0 7 1 0\n"
           "2>3 70 0 0 0 0 0 0 0 2 7 0 0 | 101\n"
           "0>2 41 0 0 0 0 0 0 0 0 7 0 0\n"
           "2>0 61 0 0 0 0 0 0 0 0 7 0 0\n");
    small_destroy(world);
}

/* The same with update sum: all owners must know a decision. Rank 2, the keeper, dies with pushes;
 * workers are owners, too. */
static void test_frames_of_a_keeper_that_dies(void **state)
{
    (void)state;
    const float pushed = 1.0f;
    int ends = 0;
    tt_sync_request pushes[2 * WORKERS];
    small_world *world = small_create(WORKERS, 1);
    begin_story();
    call(world, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "quorum:2", .update = "sum"});
    call(world,
         (tt_sync_request){
             .verb = TT_STORE_ADD, .name = small_name(world, 0), .dtype = TT_F32, .count = 1});
    memset(story, 0, sizeof(story));
    for (uint32_t i = 0; i < 2 * WORKERS; i++) {
        pushes[i] = (tt_sync_request){.verb = TT_STORE_PUSH,
                                      .name = small_name(world, 0),
                                      .input = &pushed,
                                      .owner = &ends,
                                      .finished = finished};
    }
    tt_sync_submit(world->machines[0]->sync, &pushes[0]);
    tt_sync_submit(world->machines[1]->sync, &pushes[1]);
    call(world, (tt_sync_request){.verb = TT_STORE_CLOCK});
    tt_sync_submit(world->machines[0]->sync, &pushes[2]);
    tt_sync_submit(world->machines[1]->sync, &pushes[3]);
    small_kill(world->machines[2]);
    small_tell_gone(world->machines[0], 2);
    small_tell_gone(world->machines[1], 2);
    call(world, (tt_sync_request){.verb = TT_STORE_CLOCK});
    assert_int_equal(ends, 2 * WORKERS);
    expect("0>2 44 0 8e8f9598 f29a530d 0 0 1 0 4 7 1 0 | 3f800000\n"
           "0>2 146 0 0 0 0 1 0 0 0 7 1 0\n"
           "2>0 70 0 0 0 0 0 0 0 2 7 0 0 | 101\n"
           "0>2 71 0 0 0 0 0 0 0 0 7 0 0\n"
           "2>0 72 0 0 0 0 1 0 0 0 7 0 0\n"
           "2>0 65 0 0 0 0 0 0 0 0 7 1 0\n"
           "2>0 63 0 8e8f9598 f29a530d 0 1 1 0 0 7 0 0\n"
           "0>1 7c 0 0 0 0 0 0 0 0 7 2 0\n"
           "0>1 73 0 0 0 0 1 0 0 0 7 0 0\n"
           "1>0 2049 0 8e8f9598 f29a530d 0 1 1 0 0 7 1 0\n"
           "1>0 74 0 0 0 0 1 0 0 2 7 1 0 | 101\n"
           "0>1 69 0 8e8f9598 f29a530d 0 0 0 0 0 7 1 0\n");
    small_destroy(world);
}

/* Rank 3 owns the part, and dies. */
static void test_frames_of_a_part_that_moves(void **state)
{
    (void)state;
    const float pushed = 1.0f;
    small_world *world = begin("bulk", "sum");
    memset(story, 0, sizeof(story));
    small_kill(world->machines[3]);
    for (uint32_t i = 0; i < 3; i++) {
        small_tell_gone(world->machines[i], 3);
    }
    play(world);
    call(world,
         (tt_sync_request){.verb = TT_STORE_PUSH, .name = small_name(world, 1), .input = &pushed});
    expect("0>1 7c 0 0 0 0 0 0 0 0 7 3 0\n"
           "0>2 49 0 163d0b3a 92ef5196 0 0 0 0 0 7 0 0\n"
           "2>0 69 0 163d0b3a 92ef5196 0 0 0 0 0 7 0 0\n"
           "0>2 44 0 163d0b3a 92ef5196 0 0 1 0 4 7 1 0 | 3f800000\n"
           "2>0 63 0 163d0b3a 92ef5196 0 0 1 0 0 7 0 0\n");
    small_destroy(world);
}

/* A push of rows, and a pull. */
static void test_frames_of_a_table(void **state)
{
    static const float first[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    static const uint64_t rows[] = {1};
    float read[2] = {0};
    small_world *world = small_create(WORKERS, WORKERS);
    (void)state;
    begin_story();
    const char *name = small_name(world, 1);
    call(world, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "stale:1", .update = "add"});
    memset(story, 0, sizeof(story));
    call(world, (tt_sync_request){.verb = TT_STORE_ADD,
                                  .name = name,
                                  .dtype = TT_F32,
                                  .count = 4,
                                  .row_elements = 2,
                                  .input = first});
    const tt_sync_request push = {.verb = TT_STORE_PUSH,
                                  .name = name,
                                  .input = first,
                                  .is_rows = true,
                                  .rows = rows,
                                  .row_count = 1};
    call(world, push);
    is_told[TT_SYNC_ROWS] = false; /* the other one of this kind */
    const tt_sync_request pull = {.verb = TT_STORE_PULL,
                                  .name = name,
                                  .output = read,
                                  .is_rows = true,
                                  .rows = rows,
                                  .row_count = 1};
    call(world, pull);
    expect("0>2 42 0 163d0b3a 92ef5196 0 0 0 0 49 7 0 0 | 4 0 8 0 0 2 0 0 0 0 0 0 0 0 0 0 0 0 62\n"
           "2>0 62 0 163d0b3a 92ef5196 0 0 0 0 0 7 0 0\n"
           "0>3 43 0 163d0b3a 92ef5196 0 0 1 0 10 7 0 0 | 3f800000 40000000 40400000 40800000\n"
           "3>0 63 0 163d0b3a 92ef5196 0 0 1 0 0 7 0 0\n"
           "0>3 4d 0 163d0b3a 92ef5196 0 0 2 0 8 7 1 0 | 1\n"
           "0>3 844 0 163d0b3a 92ef5196 0 0 2 0 8 7 1 0 | 3f800000 40000000\n"
           "0>3 104d 0 163d0b3a 92ef5196 0 0 3 0 8 7 1 0 | 1\n"
           "3>0 64 0 163d0b3a 92ef5196 0 0 3 0 8 7 0 0 | 40a00000 41000000\n");
    small_destroy(world);
}

/* Workers that differ. */
static void test_a_failure_as_bytes(void **state)
{
    (void)state;
    small_world *world = small_create(WORKERS, WORKERS);
    tt_sync_request requests[WORKERS];
    int ends = 0;
    begin_story();
    for (uint32_t i = 0; i < WORKERS; i++) {
        requests[i] = (tt_sync_request){.verb = TT_STORE_OPEN,
                                        .policy = i == 0 ? "bulk" : "async",
                                        .update = "add",
                                        .owner = &ends,
                                        .finished = finished};
        tt_sync_submit(world->machines[i]->sync, &requests[i]);
    }
    play(world);
    assert_int_equal(ends, WORKERS);
    expect("0>2 40 0 0 0 0 0 0 0 8 7 0 0 | 6b6c7562 64646120\n"
           "2>0 66 0 0 0 0 0 0 0 0 7 fffffffb ffffffff\n"
           "2>0 60 0 0 0 0 0 0 0 0 7 fffffffb ffffffff\n");
    small_destroy(world);
}

static void no_alarm(void *owner, uint64_t at_ns)
{
    (void)owner, (void)at_ns;
}

/* Worker 0 opens a store alone, and asks at once whom it waits for. */
static void test_frames_of_a_call_that_waits(void **state)
{
    (void)state;
    small_world *world = small_create(WORKERS, WORKERS);
    int ends = 0;
    tt_sync_request request = {.verb = TT_STORE_OPEN,
                               .policy = "async",
                               .update = "add",
                               .owner = &ends,
                               .finished = finished};
    world->machines[0]->sync->listener.alarm = no_alarm;
    tt_sync_submit(world->machines[0]->sync, &request);
    play(world);
    begin_story();
    const tt_machine machine = tt_sync_machine(world->machines[0]->sync);
    machine.ops->timer(machine.self);
    play(world);
    assert_non_null(strstr(world->report.bytes, "worker 1 (rank 1) has not opened the store"));
    expect("0>2 4e 0 0 0 0 0 1 0 0 7 0 0\n"
           "2>0 6b 0 0 0 0 0 1 0 0 7 0 0\n");
    small_destroy(world);
}

/* ---- stores that are kept ---- */

/* A call of worker 0 alone. */
static tt_status call_one(small_world *world, tt_sync_request request)
{
    int ends = 0;
    request.owner = &ends;
    request.finished = finished;
    tt_sync_submit(world->machines[0]->sync, &request);
    play(world);
    assert_int_equal(ends, 1);
    return request.status;
}

/* A tensor with a plane of state is read and filled. */
static void test_frames_of_a_store_that_is_kept(void **state)
{
    (void)state;
    const float pushed = 4.0f;
    float value = 0.0f;
    tt_sync_options options;
    small_world *world = begin("bulk", "momentum:lr=0.5,momentum=0.25");
    const char *name = small_name(world, 1), *other = small_name(world, 0);
    call(world, (tt_sync_request){.verb = TT_STORE_PUSH, .name = name, .input = &pushed});
    call(world,
         (tt_sync_request){.verb = TT_STORE_ADD, .name = other, .dtype = TT_F32, .count = 1});
    tt_sync_request set = {.verb = TT_STORE_SET, .name = "lr", .value = 0.125, .clock = 6};
    assert_int_equal(call_one(world, set), TT_OK);
    begin_story();
    tt_sync_request read = {.verb = TT_STORE_READ, .name = name, .output = &value, .plane = 1};
    assert_int_equal(call_one(world, read), TT_OK);
    assert_true(value == 4.0f);
    tt_sync_request fill = {
        .verb = TT_STORE_FILL, .name = other, .input = &value, .plane = 1, .step = 5};
    assert_int_equal(call_one(world, fill), TT_OK);
    is_told[TT_SYNC_FILL] = false; /* the value, which is the last plane */
    fill.plane = 0;
    assert_int_equal(call_one(world, fill), TT_OK);
    tt_sync_request ask = {.verb = TT_STORE_OPTIONS, .options = &options};
    assert_int_equal(call_one(world, ask), TT_OK);
    expect("0>3 4a 0 163d0b3a 92ef5196 0 1 3 0 0 7 0 0\n"
           "3>0 64 0 163d0b3a 92ef5196 0 0 3 0 4 7 1 0 | 40800000\n"
           "0>2 4b 0 8e8f9598 f29a530d 0 1 1 0 4 7 5 0 | 40800000\n"
           "2>0 63 0 8e8f9598 f29a530d 0 0 1 0 0 7 0 0\n"
           "0>2 4b 0 8e8f9598 f29a530d 0 0 2 0 4 7 5 0 | 40800000\n"
           "0>2 4c 0 0 0 0 0 2 0 0 7 0 0\n"
           "2>0 6a 0 0 0 0 0 2 0 19c 7 0 0 | 3f000000 3e800000 0 0 0 0 1 6 0 3e000000\n");
    small_destroy(world);
}

/* ---- named sums ---- */

typedef struct one_sum {
    tt_request request;
    float values[2];
    int ends;
} one_sum;

static void sum_finished(tt_request *request)
{
    *(int *)request->owner += 1;
}

static void start_sum(small_world *world, uint32_t worker, one_sum *sum, const char *name)
{
    sum->ends = 0;
    sum->request.collective = TT_ALLREDUCE;
    sum->request.dtype = TT_F32;
    sum->request.redop = TT_SUM;
    sum->request.count = sum->request.count > 0 ? sum->request.count : 1;
    sum->request.prescale = sum->request.postscale = 1.0;
    sum->request.name = name;
    sum->request.input = sum->request.output = sum->values;
    sum->request.finished = sum_finished;
    sum->request.owner = &sum->ends;
    tt_sync_sum(world->machines[worker]->sync, &sum->request);
}

static void open_sums(small_world *world)
{
    tt_sync_request requests[SMALL_PROCESSES];
    int ends = 0;
    for (uint32_t i = 0; i < world->workers; i++) {
        requests[i] = (tt_sync_request){.verb = TT_STORE_OPEN,
                                        .policy = "bulk",
                                        .update = "sum",
                                        .is_sums = true,
                                        .owner = &ends,
                                        .finished = finished};
        tt_sync_submit(world->machines[i]->sync, &requests[i]);
    }
    play(world);
    assert_int_equal(ends, world->workers);
}

static small_world *begin_sums(void)
{
    small_world *world = small_create(WORKERS, WORKERS);
    open_sums(world);
    begin_story();
    return world;
}

/* All workers call it. */
static void sum_up(small_world *world, const char *name)
{
    one_sum sums[WORKERS] = {{.values = {1.0f}}, {.values = {2.0f}}};
    for (uint32_t i = 0; i < WORKERS; i++) {
        start_sum(world, i, &sums[i], name);
    }
    play(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(sums[i].ends, 1);
        assert_true(sums[i].values[0] == 3.0f);
    }
}

static void test_frames_of_a_named_sum_and_an_objection(void **state)
{
    one_sum sums[WORKERS] = {{.values = {1.0f}}, {.values = {2.0f}}};
    small_world *world = begin_sums();
    (void)state;
    sum_up(world, "b");
    sums[0].request.objection = TT_ERR_BAD_ARGUMENT;
    (void)snprintf(sums[0].request.error, sizeof(sums[0].request.error), "no such layer");
    for (uint32_t i = 0; i < WORKERS; i++) {
        start_sum(world, i, &sums[i], "b");
    }
    play(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(sums[i].ends, 1);
        assert_int_equal(sums[i].request.status, TT_ERR_BAD_ARGUMENT);
    }
    expect("0>2 42 3ff 163d0b3b 92ef5196 0 0 0 0 49 7 0 0 | 1 0 8 0 0 0 0 3ff00000 0"
           " 3ff00000 0 0 0 0 0 0 0 0 62\n"
           "2>0 62 3ff 163d0b3b 92ef5196 0 0 0 0 0 7 0 0\n"
           "0>3 144 3ff 163d0b3b 92ef5196 0 0 1 0 4 7 1 0 | 3f800000\n"
           "3>0 64 3ff 163d0b3b 92ef5196 0 0 1 0 4 7 0 0 | 40400000\n"
           "0>2 58 3ff 163d0b3b 92ef5196 0 0 1 0 57 7 fffffffc ffffffff | 0 0 0 0 0 0 0 0 0"
           " 0 0 0 0 0 0 0 0 0 6f6e0062 63757320 616c2068 726579\n"
           "3>0 66 3ff 163d0b3b 92ef5196 0 2 1 0 0 7 fffffffc ffffffff\n");
    small_destroy(world);
}

/* Worker 0 joins with a call in flight, which worker 1 makes later. */
static void test_frames_of_a_join(void **state)
{
    one_sum sums[WORKERS] = {{.values = {1.0f}}, {.values = {2.0f}}};
    tt_request joins[WORKERS];
    int ends = 0;
    small_world *world = begin_sums();
    (void)state;
    start_sum(world, 0, &sums[0], "b");
    play(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        if (i == 1) {
            start_sum(world, 1, &sums[1], "b");
            play(world);
        }
        joins[i] = (tt_request){.is_join = true, .finished = sum_finished, .owner = &ends};
        assert_false(tt_sync_join(world->machines[i]->sync, &joins[i])); /* control makes it, */
        play(world);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        joins[i].finished(&joins[i]); /* and ends it */
    }
    play(world);
    assert_int_equal(ends, WORKERS);
    assert_true(sums[0].values[0] == 3.0f && sums[1].values[0] == 3.0f);
    expect("0>2 42 3ff 163d0b3b 92ef5196 0 0 0 0 49 7 0 0 | 1 0 8 0 0 0 0 3ff00000 0"
           " 3ff00000 0 0 0 0 0 0 0 0 62\n"
           "0>2 5a 3ff 163d0b3a 92ef5196 0 1 0 0 0 7 0 0\n"
           "0>2 59 3ff 0 0 0 1 0 0 0 7 1 0\n"
           "2>0 62 3ff 163d0b3b 92ef5196 0 0 0 0 0 7 0 0\n"
           "0>3 144 3ff 163d0b3b 92ef5196 0 0 1 0 4 7 1 0 | 3f800000\n"
           "3>0 64 3ff 163d0b3b 92ef5196 0 0 1 0 4 7 0 0 | 40400000\n"
           "0>2 5b 3ff 163d0b3a 92ef5196 0 1 0 0 0 7 0 0\n"
           "0>2 5c 3ff 0 0 0 1 0 0 0 7 0 0\n");
    small_destroy(world);
}

/* Two workers of one host; that of another has left the key, and a relay reports their pushes to
 * the owner, a server. */
static void test_frames_of_a_relay(void **state)
{
    static const uint32_t hosts[] = {0, 0, 1};
    one_sum sums[3] = {{.values = {1.0f}}, {.values = {2.0f}}, {.values = {4.0f}}};
    small_world *world = small_create_on(3, 1, hosts);
    (void)state;
    open_sums(world);
    begin_story();
    for (uint32_t i = 0; i < 3; i++) {
        start_sum(world, i, &sums[i], "a");
    }
    play(world);
    sums[2].request.count = 2;
    start_sum(world, 2, &sums[2], "a");
    play(world);
    start_sum(world, 0, &sums[0], "a");
    start_sum(world, 1, &sums[1], "a");
    play(world);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sums[i].ends, 1);
        assert_int_equal(sums[i].request.status, TT_ERR_MISMATCH);
    }
    expect("0>3 42 3ff 8e8f9599 f29a530d 0 0 0 0 49 7 0 0 | 1 0 8 0 0 0 0 3ff00000 0"
           " 3ff00000 0 0 0 0 0 0 0 0 61\n"
           "2>0 62 3ff 8e8f9599 f29a530d 0 0 0 0 0 7 0 0\n"
           "1>0 144 3ff 8e8f9599 f29a530d 0 0 1 0 4 7 1 0 | 40000000\n"
           "3>0 464 3ff 8e8f9599 f29a530d 0 0 1 0 4 7 0 0 | 40e00000\n"
           "0>3 5d 3ff 8e8f9599 f29a530d 0 0 0 0 0 7 2 0\n"
           "3>0 66 3ff 8e8f9599 f29a530d 0 2 1 0 0 7 fffffffb ffffffff\n");
    small_destroy(world);
}

/* Server 1 dies: workers send how many sums have ended. */
static void test_frames_of_a_handover(void **state)
{
    small_world *world = begin_sums();
    (void)state;
    sum_up(world, "b");
    sum_up(world, "c");
    begin_story();
    small_kill(world->machines[3]);
    for (uint32_t i = 0; i < 3; i++) {
        small_tell_gone(world->machines[i], 3);
    }
    play(world);
    expect("0>1 7c 0 0 0 0 0 0 0 0 7 3 0\n"
           "0>1 78 3ff e3dad626 da9055f2 0 0 2 0 0 7 1 0\n");
    small_destroy(world);
}

_Static_assert(TT_SYNC_FLAG_ANSWER == 1 && TT_SYNC_FLAG_UNCOUNTED == 2 && TT_SYNC_FLAG_HOST == 4 &&
                   TT_SYNC_FLAG_ROWS == 8 && TT_SYNC_FLAG_PULL == 16 && TT_SYNC_FLAG_NOW == 64 &&
                   TT_SYNC_FLAG_WAITED == 128 && TT_STORE_SUMS == 1023,
               "flags and numbers are a wire format");

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_of_a_stale_store),
        cmocka_unit_test(test_frames_of_a_quorum),
        cmocka_unit_test(test_frames_of_a_keeper_that_dies),
        cmocka_unit_test(test_frames_of_a_part_that_moves),
        cmocka_unit_test(test_frames_of_a_table),
        cmocka_unit_test(test_a_failure_as_bytes),
        cmocka_unit_test(test_frames_of_a_call_that_waits),
        cmocka_unit_test(test_frames_of_a_store_that_is_kept),
        cmocka_unit_test(test_frames_of_a_named_sum_and_an_objection),
        cmocka_unit_test(test_frames_of_a_join),
        cmocka_unit_test(test_frames_of_a_relay),
        cmocka_unit_test(test_frames_of_a_handover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
