/* SPDX-License-Identifier: Apache-2.0
 *
 * line_ring_test.c - fragments through the smallest ring, at every alignment, and invalid words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "transport/shm/line_ring.h"

enum { RING_BYTES = 1024, LINES = RING_BYTES / 64 };

typedef struct pair {
    void *memory;
    tt_ring_out out;
    tt_ring_in in;
} pair;

static void pair_init(pair *ends)
{
    const size_t bytes = sizeof(tt_ring_control) + RING_BYTES;
    ends->memory = aligned_alloc(64, bytes);
    assert_non_null(ends->memory);
    memset(ends->memory, 0, bytes);
    tt_ring_out_init(&ends->out, ends->memory, RING_BYTES);
    tt_ring_in_init(&ends->in, ends->memory, RING_BYTES);
}

static void fill(uint8_t *bytes, size_t count, uint32_t salt)
{
    for (size_t i = 0; i < count; i++) {
        /* Large values: payload lines look as much like words as possible. */
        bytes[i] = (uint8_t)(0x81 + i * 7 + salt);
    }
}

static void pass_one(pair *ends, tt_ring_kind kind, uint32_t bytes, uint32_t salt)
{
    uint8_t sent[256];
    uint8_t received[256];
    const tt_head head = {.op = salt, .payload_bytes = bytes};
    tt_ring_fragment fragment = {0};
    fill(sent, bytes, salt);
    assert_int_equal(tt_ring_room(&ends->out, kind, bytes), TT_OK);
    assert_int_equal(tt_ring_peek(&ends->in, &fragment), TT_IN_PROGRESS);
    tt_ring_put(&ends->out, kind, &head, sent, bytes);
    assert_int_equal(tt_ring_peek(&ends->in, &fragment), TT_OK);
    assert_int_equal(fragment.kind, kind);
    assert_int_equal(fragment.bytes, bytes);
    if (kind == TT_RING_FIRST) {
        assert_memory_equal(fragment.first, &head, sizeof head);
    }
    memset(received, 0, sizeof received);
    tt_ring_take(&ends->in, &fragment, received);
    assert_memory_equal(received, sent, bytes);
    assert_int_equal(tt_ring_peek(&ends->in, &fragment), TT_IN_PROGRESS);
}

static void test_every_size_arrives_at_every_alignment(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    const tt_ring_kind kinds[] = {TT_RING_FIRST, TT_RING_NEXT};
    for (uint32_t shift = 0; shift < LINES; shift++) {
        for (int k = 0; k < 2; k++) {
            const uint32_t most = tt_ring_fragment_bytes_max(&ends.out, kinds[k]);
            for (uint32_t bytes = 0; bytes <= most; bytes++) {
                pass_one(&ends, kinds[k], bytes, bytes + shift);
            }
        }
        pass_one(&ends, TT_RING_FIRST, 0, shift);
    }
    free(ends.memory);
}

static void test_a_full_ring_has_no_room_until_lines_are_taken(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    const tt_head head = {.payload_bytes = 0};
    tt_ring_fragment fragment = {0};
    for (int lap = 0; lap < 5; lap++) {
        int count = 0;
        while (tt_ring_room(&ends.out, TT_RING_FIRST, 0) == TT_OK) {
            tt_ring_put(&ends.out, TT_RING_FIRST, &head, NULL, 0);
            count++;
        }
        assert_int_equal(count, LINES - 1);
        assert_int_equal(tt_ring_room(&ends.out, TT_RING_FIRST, 0), TT_IN_PROGRESS);
        tt_ring_set_starved(&ends.out, true);
        for (int i = 0; i < count; i++) {
            assert_int_equal(tt_ring_peek(&ends.in, &fragment), TT_OK);
            tt_ring_take(&ends.in, &fragment, NULL);
        }
        assert_true(tt_ring_announce(&ends.in));
        assert_int_equal(tt_ring_peek(&ends.in, &fragment), TT_IN_PROGRESS);
        tt_ring_set_starved(&ends.out, false);
        assert_false(tt_ring_announce(&ends.in));
    }
    free(ends.memory);
}

static void expect_malformed(pair *ends, uint64_t word)
{
    tt_ring_fragment fragment = {0};
    atomic_store(&ends->in.lines[0].word, word);
    assert_int_equal(tt_ring_peek(&ends->in, &fragment), TT_ERR_BAD_WIRE);
}

static void test_invalid_words_are_malformed(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    const uint64_t valid = UINT64_C(1) << 31;
    const uint64_t first = (uint64_t)TT_RING_FIRST << 24;
    const uint32_t most = tt_ring_fragment_bytes_max(&ends.out, TT_RING_FIRST);
    expect_malformed(&ends, first | 8);
    expect_malformed(&ends, valid | 8);
    expect_malformed(&ends, valid | first | (most + 1));
    expect_malformed(&ends, valid | first | 0xffffff);
    expect_malformed(&ends, valid | UINT64_C(4) << 24);
    expect_malformed(&ends, valid | first | UINT64_C(1) << 32);
    expect_malformed(&ends, UINT64_MAX);
    free(ends.memory);
}

static void test_a_consumer_that_claims_too_much_or_goes_back_is_malformed(void **state)
{
    (void)state;
    pair ends;
    pair_init(&ends);
    const tt_head head = {.payload_bytes = 0};
    while (tt_ring_room(&ends.out, TT_RING_FIRST, 0) == TT_OK) {
        tt_ring_put(&ends.out, TT_RING_FIRST, &head, NULL, 0);
    }
    atomic_store(&ends.out.control->consumed, LINES);
    assert_int_equal(tt_ring_room(&ends.out, TT_RING_FIRST, 0), TT_ERR_BAD_WIRE);
    atomic_store(&ends.out.control->consumed, 2);
    assert_int_equal(tt_ring_room(&ends.out, TT_RING_FIRST, 0), TT_OK);
    tt_ring_put(&ends.out, TT_RING_FIRST, &head, NULL, 0);
    tt_ring_put(&ends.out, TT_RING_FIRST, &head, NULL, 0);
    atomic_store(&ends.out.control->consumed, 1);
    assert_int_equal(tt_ring_room(&ends.out, TT_RING_FIRST, 0), TT_ERR_BAD_WIRE);
    free(ends.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_arrives_at_every_alignment),
        cmocka_unit_test(test_a_full_ring_has_no_room_until_lines_are_taken),
        cmocka_unit_test(test_invalid_words_are_malformed),
        cmocka_unit_test(test_a_consumer_that_claims_too_much_or_goes_back_is_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
