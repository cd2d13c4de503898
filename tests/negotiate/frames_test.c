/* SPDX-License-Identifier: Apache-2.0
 *
 * frames_test.c - the frames of a negotiation as bytes.
 *
 * Builds that put other bytes on the wire must not connect: where a line below has to change, raise
 * TT_PROTOCOL_VERSION_MIN and MAX (transport/secure/hello.h) and describe the change there.
 *
 * A frame is written as: sender>receiver, kind, flags, part, round, and its payload in hexadecimal.
 * Digests follow from the rest.
 *
 * Labels: asan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/negotiate/world.h"

enum { STORY_BYTES = 8192 };

static void tell(const test_frame *frame, char *story)
{
    const tt_notice *notice = &frame->notice;
    size_t at = strlen(story);
    at += (size_t)snprintf(story + at, STORY_BYTES - at, "%u>%u %u %u %u %llu ", frame->from,
                           frame->to, notice->kind, notice->flags, notice->part,
                           (unsigned long long)notice->round);
    for (uint32_t i = 0; i < notice->bytes; i++) {
        at += (size_t)snprintf(story + at, STORY_BYTES - at, "%02x", frame->payload[i]);
    }
    (void)snprintf(story + at, STORY_BYTES - at, "\n");
}

/* The first frame of the lowest sender is the next, so that a run is reproducible. */
static uint32_t next_frame(const test_world *world)
{
    uint32_t next = 0;
    for (uint32_t i = 1; i < world->frame_count; i++) {
        const test_frame *frame = &world->frames[i], *first = &world->frames[next];
        if (frame->from < first->from ||
            (frame->from == first->from && frame->number < first->number)) {
            next = i;
        }
    }
    return next;
}

static void expect(test_world *world, const char *what, const char *golden)
{
    char story[STORY_BYTES] = "";
    world_flush(world);
    while (world->frame_count > 0) {
        const uint32_t next = next_frame(world);
        tell(&world->frames[next], story);
        world_deliver(world, next);
    }
    if (strcmp(story, golden) != 0) {
        print_error("%s:\n%s", what, story);
    }
    assert_string_equal(story, golden);
}

static test_world *two_members(void)
{
    tt_negotiate_config config;
    tt_negotiate_config_init(&config);
    config.steps_to_plan = 2;
    config.stall_ns = 1000 * 1000;
    return world_create(2, 1, &config, 1);
}

static void test_requests_answers_and_vectors(void **state)
{
    (void)state;
    test_world *world = two_members();
    world_submit_all(world, "w", "c");
    expect(world, "unknown",
           "0>1 1 1 0 1 \n"
           "1>0 1 1 0 1 \n"
           "1>0 3 1 0 1 010001000100010001000000010000007763\n"
           "0>1 4 1 0 1 010000000100010077006300\n");
    world_submit_all(world, "w", "c");
    expect(world, "cached",
           "0>1 1 0 0 2 0100000000000000\n"
           "1>0 1 0 0 2 0100000000000000\n");
    world_submit_all(world, "w", "d");
    expect(world, "changed",
           "0>1 5 0 0 3 \n"
           "0>1 1 2 0 3 00000000000000000100000000000000\n"
           "1>0 5 0 0 3 \n"
           "1>0 1 2 0 3 00000000000000000100000000000000\n"
           "0>1 2 0 0 3 00000000\n"
           "1>0 2 0 0 3 00000000\n"
           "1>0 3 1 0 3 010001000100010001000000010000007764\n"
           "0>1 4 1 0 3 010000000100010077006400\n");
    world_submit(world, 0, "w", "c");
    world_submit(world, 1, "w", "d");
    expect(world, "differs",
           "0>1 1 2 0 4 00000000000000000100000000000000\n"
           "1>0 1 0 0 4 0100000000000000\n"
           "1>0 3 1 0 4 010001000100010001000000010000007764\n"
           "0>1 4 1 0 4 0500fbff010010007700773a206320627920302064206279203100\n");
    world_destroy(world);
}

static void test_a_cut_and_a_join(void **state)
{
    (void)state;
    test_world *world = two_members();
    for (int i = 0; i < 4; i++) {
        world_submit_all(world, "w", "c");
        world_run(world);
    }
    world_submit(world, 0, "w", "c");
    tt_negotiator_join(world->members[0].negotiator);
    expect(world, "joined",
           "0>1 5 0 0 3 \n"
           "0>1 1 13 0 3 0000000000000000\n"
           "1>0 1 8 0 3 0000000000000000\n"
           "0>1 2 0 0 3 03000000\n"
           "1>0 2 0 0 3 02000000\n"
           "1>0 3 1 0 3 \n"
           "0>1 4 1 0 3 0300000000000c000001000000000000000000000000\n"
           "0>1 1 0 0 4 0100000000000000\n");
    world_submit(world, 1, "w", "c");
    world_submit(world, 1, "x", "c");
    expect(world, "without the one that joined",
           "1>0 1 1 0 4 0000000000000000\n"
           "1>0 3 1 0 4 010001000100010001000000010000007863\n"
           "0>1 4 1 0 4 010000000100010078006300\n"
           "0>1 1 0 0 5 0300000000000000\n");
    tt_negotiator_join(world->members[1].negotiator);
    expect(world, "all joined",
           "1>0 5 0 0 5 \n"
           "1>0 1 9 0 5 0000000000000000\n"
           "1>0 3 1 0 5 02000000000001000100000001000000\n"
           "0>1 4 1 0 5 0300000000000c000000000000000000000100000000\n");
    world_destroy(world);
}

static void test_a_stall_and_a_cancellation(void **state)
{
    (void)state;
    test_world *world = two_members();
    world_ticket *ticket = world_submit(world, 1, "w", "c");
    expect(world, "waits", "1>0 1 1 0 1 \n");
    world_pass(world, 2 * 1000 * 1000);
    expect(world, "asked about",
           "1>0 6 0 0 0 77\n"
           "0>1 7 0 0 1 77\n"
           "1>0 8 1 0 1 \n"
           "0>1 9 0 0 1 "
           "74656e736f7220227722206861732077616974656420666f7220302e3020733b207375626d6974746564206"
           "2792072616e6b20313b206d697373696e67206f6e2072616e6b2030\n");
    assert_true(tt_negotiator_cancel(world->members[1].negotiator, &ticket->ticket));
    expect(
        world, "cancelled",
        "1>0 5 0 0 1 \n"
        "0>1 1 9 0 1 \n"
        "1>0 3 1 0 1 "
        "030001001300010001000000010000007772616e6b20312063616e63656c6c6564206974010001000100010001"
        "000000010000007763\n"
        "0>1 4 1 0 1 "
        "0200f7ff01001f00770074656e736f72202277223a2072616e6b20312063616e63656c6c656420697400\n");
    world_destroy(world);
}

static void test_a_tensor_in_a_group_and_alone(void **state)
{
    (void)state;
    test_world *world = two_members();
    world_submit(world, 0, "g", "=ab");
    world_submit(world, 1, "a", "c");
    expect(world, "contested",
           "0>1 1 1 0 1 \n"
           "1>0 1 1 0 1 \n"
           "1>0 3 1 0 1 010001000100010001000000010000006163\n"
           "0>1 4 1 0 1 "
           "0401fbff01005500670072616e6b732064697361677265652061626f7574207468652067726f7570206f"
           "662074656e736f72202261223a2072616e6b20303a20696e2067726f7570202267223b2072616e6b2031"
           "3a20627920697473656c66000400fbff01005500620072616e6b732064697361677265652061626f7574"
           "207468652067726f7570206f662074656e736f72202261223a2072616e6b20303a20696e2067726f7570"
           "202267223b2072616e6b20313a20627920697473656c66000400fbff01005500610072616e6b73206469"
           "7361677265652061626f7574207468652067726f7570206f662074656e736f72202261223a2072616e6b"
           "20303a20696e2067726f7570202267223b2072616e6b20313a20627920697473656c6600\n");
    world_submit(world, 1, "b", "c");
    assert_int_equal(world_waiting(world), 0);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_answers_and_vectors),
        cmocka_unit_test(test_a_cut_and_a_join),
        cmocka_unit_test(test_a_stall_and_a_cancellation),
        cmocka_unit_test(test_a_tensor_in_a_group_and_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
