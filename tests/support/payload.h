/* SPDX-License-Identifier: Apache-2.0
 *
 * payload.h - bytes derived from a number, for tests that send and compare them.
 *
 * Layer:   tests.
 * Threads: pure.
 */
#ifndef TUTTI_TESTS_SUPPORT_PAYLOAD_H
#define TUTTI_TESTS_SUPPORT_PAYLOAD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline void fill(uint8_t *bytes, uint64_t op, size_t count)
{
    uint64_t state = op * UINT64_C(0x9e3779b97f4a7c15) + 0x1234567;
    for (size_t i = 0; i < count; i += 8) {
        const uint64_t word = next_random(&state);
        memcpy(bytes + i, &word, count - i < 8 ? count - i : 8);
    }
}

static inline void check(const uint8_t *bytes, uint64_t op, size_t count)
{
    uint8_t *expected = malloc(count + 1);
    assert_non_null(expected);
    fill(expected, op, count);
    assert_memory_equal(bytes, expected, count);
    free(expected);
}

#endif
