/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c_test.c - published vectors, any cutting, and the instruction against the tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kernel/crc32c.h"
#include "kernel/crc32c_internal.h"

enum {
    BYTES = 3 * 1024 * 3 + 129, /* several turns of the three lanes, and a tail */
};

static void fill(unsigned char *target, size_t bytes)
{
    uint32_t word = 1;
    for (size_t i = 0; i < bytes; i++) {
        word = word * 1664525u + 1013904223u;
        target[i] = (unsigned char)(word >> 24);
    }
}

/* The definition: one bit at a time. */
static uint32_t crc_by_bits(const unsigned char *source, size_t bytes)
{
    uint32_t state = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        state ^= source[i];
        for (int bit = 0; bit < 8; bit++) {
            state = (state >> 1) ^ ((state & 1u) ? 0x82f63b78u : 0u);
        }
    }
    return ~state;
}

/* RFC 3720, appendix B.4, and the check value of the catalogues. */
static void test_published_vectors_are_met(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(tt_crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(tt_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(tt_crc32c(0, bytes, 32), 0x62a8ab43);
    for (unsigned char i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    assert_int_equal(tt_crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(tt_crc32c(0, bytes, 0), 0);
}

static void test_every_variant_equals_the_definition(void **state)
{
    (void)state;
    static unsigned char bytes[BYTES + 1];
    fill(bytes, sizeof(bytes));
    for (size_t length = 0; length <= BYTES; length += length < 80 ? 1 : 511) {
        const uint32_t expected = crc_by_bits(bytes + 1, length);
        assert_int_equal(tt_crc32c(0, bytes + 1, length), expected);
        assert_int_equal(tt_crc32c_plain(0, bytes + 1, length), expected);
    }
}

static void test_any_cutting_gives_the_same_sum(void **state)
{
    (void)state;
    static unsigned char bytes[BYTES];
    fill(bytes, sizeof(bytes));
    const uint32_t whole = tt_crc32c(0, bytes, BYTES);
    for (size_t cut = 0; cut <= BYTES; cut += 97) {
        const uint32_t head = tt_crc32c(0, bytes, cut);
        assert_int_equal(tt_crc32c(head, bytes + cut, BYTES - cut), whole);
        assert_int_equal(tt_crc32c_plain(head, bytes + cut, BYTES - cut), whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors_are_met),
        cmocka_unit_test(test_every_variant_equals_the_definition),
        cmocka_unit_test(test_any_cutting_gives_the_same_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
