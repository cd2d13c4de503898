/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_test.c - a streamed copy is a copy, at every alignment and length around a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kernel/stream.h"

enum { ROOM = 512, LONG_ROOM = 6 * 1024 };

static void test_every_byte_and_no_other_is_written(void **state)
{
    (void)state;
    uint8_t source[ROOM], target[ROOM], expected[ROOM];
    for (size_t i = 0; i < ROOM; i++) {
        source[i] = (uint8_t)(i * 7 + 1);
    }
    for (size_t offset = 0; offset < 65; offset++) {
        for (size_t bytes = 0; bytes < 300; bytes++) {
            memset(target, 0, ROOM);
            memset(expected, 0, ROOM);
            memcpy(expected + offset, source + 3, bytes);
            tt_stream_copy(target + offset, source + 3, bytes);
            assert_memory_equal(target, expected, ROOM);
        }
    }
}

/* Longer than the prefetch distance. */
static void test_long_copies_are_copies_too(void **state)
{
    (void)state;
    uint8_t source[LONG_ROOM], target[LONG_ROOM], expected[LONG_ROOM];
    for (size_t i = 0; i < LONG_ROOM; i++) {
        source[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (size_t bytes = 4000; bytes < LONG_ROOM - 70; bytes += 37) {
        const size_t offset = bytes % 65;
        memset(target, 0, LONG_ROOM);
        memset(expected, 0, LONG_ROOM);
        memcpy(expected + offset, source + 3, bytes);
        tt_stream_copy(target + offset, source + 3, bytes);
        assert_memory_equal(target, expected, LONG_ROOM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_and_no_other_is_written),
        cmocka_unit_test(test_long_copies_are_copies_too),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
