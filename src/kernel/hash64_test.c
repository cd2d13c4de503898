/* SPDX-License-Identifier: Apache-2.0
 *
 * hash64_test.c - fixed values (it is a wire format), no collisions where they would hurt, and
 * avalanche: one input bit changes about half of the output bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kernel/hash64.h"

static void test_values_never_change(void **state)
{
    (void)state;
    assert_true(tt_hash64("", 0, 0) == UINT64_C(0xbd0458427c65b224));
    assert_true(tt_hash64("tutti", 5, 0) == UINT64_C(0x985a9437fd6e7acb));
    assert_true(tt_hash64("tutti", 5, 1) == UINT64_C(0x9936e0f187ba01e4));
    assert_true(tt_hash64("the quick brown fox jumps over the lazy dog", 43, 7) ==
                UINT64_C(0xbb32810a2252acf3));
    assert_true(tt_hash64_mix(1, 2) == UINT64_C(0xf7b0a768c13da2ec));
    unsigned char bytes[100];
    uint64_t chain = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)(17 * i + 3);
    }
    for (size_t length = 0; length <= sizeof(bytes); length++) {
        chain = tt_hash64_mix(chain, tt_hash64(bytes, length, length));
    }
    assert_true(chain == UINT64_C(0x127a0fe1141cadbf));
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x;
    uint64_t y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Zeros of every length, and every single bit set in 100 bytes. */
static void test_close_inputs_do_not_collide(void **state)
{
    (void)state;
    uint64_t hashes[1200];
    size_t hash_count = 0;
    unsigned char bytes[300] = {0};
    for (size_t length = 0; length < 300; length++) {
        hashes[hash_count++] = tt_hash64(bytes, length, 0);
    }
    for (size_t bit = 0; bit < 800; bit++) {
        bytes[bit / 8] = (unsigned char)(1u << bit % 8);
        hashes[hash_count++] = tt_hash64(bytes, 100, 0);
        bytes[bit / 8] = 0;
    }
    for (uint64_t a = 0; a < 10; a++) {
        for (uint64_t b = 0; b < 10; b++) {
            hashes[hash_count++] = tt_hash64_mix(a, b);
        }
    }
    qsort(hashes, hash_count, sizeof(hashes[0]), compare_u64);
    for (size_t i = 1; i < hash_count; i++) {
        assert_true(hashes[i] != hashes[i - 1]);
    }
}

static void test_one_bit_changes_half_of_the_result(void **state)
{
    (void)state;
    unsigned char bytes[64] = "some text that is long enough to fill both lanes of the hash";
    const uint64_t before = tt_hash64(bytes, sizeof(bytes), 3);
    int changed_sum = 0;
    for (size_t bit = 0; bit < 512; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        const int changed = __builtin_popcountll(before ^ tt_hash64(bytes, sizeof(bytes), 3));
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_in_range(changed, 12, 52);
        changed_sum += changed;
    }
    assert_in_range(changed_sum / 512, 30, 34);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_never_change),
        cmocka_unit_test(test_close_inputs_do_not_collide),
        cmocka_unit_test(test_one_bit_changes_half_of_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
