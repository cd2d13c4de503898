/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_test.c - frames survive the trip; damaged ones are refused without reading out of bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/run/wire.h"

static const char *peers[] = {"east", "west", NULL};
static const char *program[] = {"python", "train.py", "", NULL};
static const char *variables[] = {"A=1", NULL};

static tt_wire_spec example(void)
{
    tt_wire_spec spec = {.rank_first = 2,
                         .local_size = 3,
                         .world_size = 8,
                         .cross_rank = 1,
                         .cross_size = 2,
                         .wants_stdin = true,
                         .server_count = 3,
                         .job_id = "job",
                         .folder = "/tmp",
                         .interface = "",
                         .peers = {peers, 2},
                         .program = {program, 3},
                         .variables = {variables, 1}};
    memset(spec.secret, 0xa5, sizeof(spec.secret));
    return spec;
}

static tt_wire_frame first_frame(const tt_buffer *buffer)
{
    tt_wire_frame frame;
    size_t used;
    assert_int_equal(tt_wire_next(tt_buffer_data(buffer), tt_buffer_bytes(buffer), &frame, &used),
                     TT_OK);
    assert_int_equal(used, tt_buffer_bytes(buffer));
    return frame;
}

static void test_spec_survives_the_trip(void **state)
{
    (void)state;
    tt_buffer buffer = {0};
    const tt_wire_spec sent = example();
    tt_wire_spec received;
    tt_wire_put_spec(&buffer, &sent);
    const tt_wire_frame frame = first_frame(&buffer);
    assert_int_equal(frame.type, TT_WIRE_SPEC);
    assert_int_equal(tt_wire_get_spec(&frame, &received), TT_OK);
    assert_int_equal(received.rank_first, 2);
    assert_int_equal(received.world_size, 8);
    assert_int_equal(received.server_count, 3);
    assert_true(received.wants_stdin);
    assert_false(received.binds_cores);
    assert_memory_equal(received.secret, sent.secret, sizeof(sent.secret));
    assert_memory_equal(frame.payload + TT_WIRE_SECRET_OFFSET, sent.secret, sizeof(sent.secret));
    assert_string_equal(received.folder, "/tmp");
    assert_int_equal(received.program.count, 3);
    assert_string_equal(received.program.items[1], "train.py");
    assert_string_equal(received.program.items[2], "");
    assert_null(received.program.items[3]);
    assert_string_equal(received.peers.items[1], "west");
    tt_wire_spec_release(&received);
    tt_buffer_fini(&buffer);
}

/* Every prefix of the payload, as a frame of its own, in memory of exactly that size. */
static void test_truncated_spec_is_refused(void **state)
{
    (void)state;
    tt_buffer buffer = {0};
    const tt_wire_spec sent = example();
    tt_wire_put_spec(&buffer, &sent);
    const tt_wire_frame whole = first_frame(&buffer);
    for (size_t bytes = 0; bytes < whole.payload_bytes; bytes++) {
        uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
        assert_non_null(copy);
        memcpy(copy, whole.payload, bytes);
        const tt_wire_frame cut = {whole.type, copy, bytes};
        tt_wire_spec received;
        assert_int_equal(tt_wire_get_spec(&cut, &received), TT_ERR_BAD_WIRE);
        free(copy);
    }
    tt_buffer_fini(&buffer);
}

static void test_flipped_bytes_never_read_out_of_bounds(void **state)
{
    (void)state;
    tt_buffer buffer = {0};
    const tt_wire_spec sent = example();
    tt_wire_put_spec(&buffer, &sent);
    const tt_wire_frame whole = first_frame(&buffer);
    uint8_t *copy = malloc(whole.payload_bytes);
    assert_non_null(copy);
    for (size_t i = 0; i < whole.payload_bytes; i++) {
        memcpy(copy, whole.payload, whole.payload_bytes);
        copy[i] ^= 0xff;
        const tt_wire_frame damaged = {whole.type, copy, whole.payload_bytes};
        tt_wire_spec received;
        if (tt_wire_get_spec(&damaged, &received) == TT_OK) {
            assert_true(received.local_size <= TT_WIRE_LOCAL_COUNT_MAX);
            assert_true(received.program.count >= 1);
            tt_wire_spec_release(&received);
        }
    }
    free(copy);
    tt_buffer_fini(&buffer);
}

static void test_impossible_ranks_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        tt_buffer buffer = {0};
        tt_wire_spec spec = example();
        tt_wire_spec received;
        spec.local_size = i == 0 ? 0 : i == 1 ? 7 : spec.local_size;
        spec.rank_first = i == 2 ? 8 : spec.rank_first;
        spec.cross_rank = i == 3 ? 2 : spec.cross_rank;
        spec.program.count = i == 4 ? 0 : spec.program.count;
        spec.server_count = i == 5 ? 8 : i == 6 ? 4 : spec.server_count; /* no worker; both kinds */
        tt_wire_put_spec(&buffer, &spec);
        const tt_wire_frame frame = first_frame(&buffer);
        assert_int_equal(tt_wire_get_spec(&frame, &received), TT_ERR_BAD_WIRE);
        tt_buffer_fini(&buffer);
    }
}

static void test_frame_head_is_checked_before_its_payload_is_awaited(void **state)
{
    (void)state;
    tt_wire_frame frame;
    size_t used;
    const uint8_t huge[8] = {0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0};
    const uint8_t unknown[8] = {0, 0, 0, 0, 99, 0, 0, 0};
    const uint8_t reserved[8] = {0, 0, 0, 0, 7, 0, 1, 0};
    const uint8_t waiting[8] = {1, 0, 0, 0, 7, 0, 0, 0};
    assert_int_equal(tt_wire_next(huge, 8, &frame, &used), TT_ERR_BAD_WIRE);
    assert_int_equal(tt_wire_next(unknown, 8, &frame, &used), TT_ERR_BAD_WIRE);
    assert_int_equal(tt_wire_next(reserved, 8, &frame, &used), TT_ERR_BAD_WIRE);
    assert_int_equal(tt_wire_next(waiting, 8, &frame, &used), TT_IN_PROGRESS);
    assert_int_equal(tt_wire_next(waiting, 7, &frame, &used), TT_IN_PROGRESS);
}

static void test_events_and_readiness_survive_the_trip(void **state)
{
    (void)state;
    tt_buffer buffer = {0};
    const tt_wire_event output = {
        .rank = 5, .value = 1, .bytes = (const uint8_t *)"x\ny", .byte_count = 3};
    tt_wire_event event;
    tt_wire_put_event(&buffer, TT_WIRE_OUTPUT, &output);
    tt_wire_frame frame = first_frame(&buffer);
    assert_int_equal(tt_wire_get_event(&frame, &event), TT_OK);
    assert_int_equal(event.rank, 5);
    assert_int_equal(event.byte_count, 3);
    assert_memory_equal(event.bytes, "x\ny", 3);
    frame.type = TT_WIRE_EXIT; /* only output may carry bytes */
    assert_int_equal(tt_wire_get_event(&frame, &event), TT_ERR_BAD_WIRE);
    tt_buffer_fini(&buffer);

    tt_wire_ready ready;
    tt_wire_put_ready(&buffer, &(tt_wire_ready){4, "host", "tcp://h:1", 2});
    frame = first_frame(&buffer);
    assert_int_equal(tt_wire_get_ready(&frame, &ready), TT_OK);
    assert_int_equal(ready.core_count, 4);
    assert_int_equal(ready.thread_count, 2);
    assert_string_equal(ready.rendezvous, "tcp://h:1");
    tt_buffer_fini(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_survives_the_trip),
        cmocka_unit_test(test_truncated_spec_is_refused),
        cmocka_unit_test(test_flipped_bytes_never_read_out_of_bounds),
        cmocka_unit_test(test_impossible_ranks_are_refused),
        cmocka_unit_test(test_frame_head_is_checked_before_its_payload_is_awaited),
        cmocka_unit_test(test_events_and_readiness_survive_the_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
