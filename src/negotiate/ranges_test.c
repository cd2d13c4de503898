/* SPDX-License-Identifier: Apache-2.0
 *
 * ranges_test.c - a set of ranges is the set of its numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "negotiate/ranges.h"

static void check(const tt_ranges *ranges, const bool *has, uint32_t limit)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < limit; i++) {
        assert_int_equal(tt_ranges_has(ranges, i), has[i]);
        total += has[i];
    }
    assert_int_equal(ranges->total, total);
    for (uint32_t i = 1; i < ranges->count; i++) {
        assert_true(ranges->items[i - 1].last + 1 < ranges->items[i].first);
    }
}

static void test_adding_is_union(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        tt_random random;
        tt_random_init(&random, seed, 0);
        tt_ranges ranges = {0};
        bool has[64] = {0};
        for (int i = 0; i < 30; i++) {
            const uint32_t first = (uint32_t)tt_random_below(&random, 64);
            const uint32_t last = first + (uint32_t)tt_random_below(&random, 64 - first) % 5;
            assert_int_equal(tt_ranges_add(&ranges, &tt_allocator_default, (tt_range){first, last}),
                             TT_OK);
            memset(has + first, true, last - first + 1);
            check(&ranges, has, 64);
        }
        tt_ranges_release(&ranges, &tt_allocator_default);
    }
}

static void test_the_smallest_and_largest_numbers_are_allowed(void **state)
{
    (void)state;
    tt_ranges ranges = {0};
    const tt_range parts[] = {{UINT32_MAX, UINT32_MAX}, {0, 0}, {0, UINT32_MAX - 1}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tt_ranges_add(&ranges, &tt_allocator_default, parts[i]), TT_OK);
    }
    assert_int_equal(ranges.count, 1);
    assert_int_equal(ranges.total, UINT64_C(1) << 32);
    tt_ranges_release(&ranges, &tt_allocator_default);
}

static void test_ranges_read_like_lists_of_ranks(void **state)
{
    (void)state;
    tt_ranges ranges = {0};
    tt_text text = {0};
    const tt_range parts[] = {{0, 3}, {7, 7}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tt_ranges_add(&ranges, &tt_allocator_default, parts[i]), TT_OK);
    }
    tt_ranges_print(&ranges, NULL, &text);
    assert_string_equal(text.bytes, "0-3, 7");
    tt_text_clear(&text);
    const uint32_t names[] = {10, 11, 20, 21, 0, 0, 0, 30};
    tt_ranges_print(&ranges, names, &text);
    assert_string_equal(text.bytes, "10-11, 20-21, 30");
    tt_ranges_release(&ranges, &tt_allocator_default);
}

static void test_no_memory_leaves_the_set_as_it_was(void **state)
{
    (void)state;
    tt_counting_allocator counter = {.fail_at = 2};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    tt_ranges ranges = {0};
    assert_int_equal(tt_ranges_add(&ranges, &allocator, (tt_range){0, 0}), TT_OK);
    assert_int_equal(tt_ranges_add(&ranges, &allocator, (tt_range){2, 2}), TT_OK);
    assert_int_equal(tt_ranges_add(&ranges, &allocator, (tt_range){4, 4}), TT_ERR_NO_MEMORY);
    assert_int_equal(ranges.total, 2);
    tt_ranges_release(&ranges, &allocator);
    assert_int_equal(counter.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adding_is_union),
        cmocka_unit_test(test_the_smallest_and_largest_numbers_are_allowed),
        cmocka_unit_test(test_ranges_read_like_lists_of_ranks),
        cmocka_unit_test(test_no_memory_leaves_the_set_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
