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
    const bool is_text = (int64_t)frame->head.argument < 0;
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
    memset(story, 0, sizeof(story));
    memset(is_told, 0, sizeof(is_told));
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
    memset(story, 0, sizeof(story));
    memset(is_told, 0, sizeof(is_told));
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
    memset(story, 0, sizeof(story));
    memset(is_told, 0, sizeof(is_told));
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

/* Those of named sums and of saved stores are not sent above. */
_Static_assert(TT_SYNC_READ == 74 && TT_SYNC_FILL == 75 && TT_SYNC_OPTIONS == 76 &&
                   TT_SYNC_OPTIONED == 106,
               "kinds are a wire format");
_Static_assert(TT_SYNC_OBJECT == 88 && TT_SYNC_JOIN == 89 && TT_SYNC_BUSY == 90 &&
                   TT_SYNC_IDLE == 91 && TT_SYNC_FORGET == 92 && TT_SYNC_HELD == 93,
               "kinds are a wire format");
_Static_assert(TT_SYNC_FLAG_ANSWER == 1 && TT_SYNC_FLAG_UNCOUNTED == 2 && TT_SYNC_FLAG_HOST == 4 &&
                   TT_SYNC_FLAG_ROWS == 8 && TT_SYNC_FLAG_PULL == 16 && TT_SYNC_FLAG_NOW == 64 &&
                   TT_SYNC_FLAG_WAITED == 128 && TT_STORE_SUMS == 1023,
               "flags and numbers are a wire format");

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_of_a_stale_store),
        cmocka_unit_test(test_frames_of_a_quorum),
        cmocka_unit_test(test_frames_of_a_part_that_moves),
        cmocka_unit_test(test_frames_of_a_table),
        cmocka_unit_test(test_a_failure_as_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
