/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc_test.c - zeroed memory, no overflow, and failures exactly where they were requested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

static void test_memory_is_zeroed(void **state)
{
    (void)state;
    unsigned char *memory = tt_allocate(&tt_allocator_default, 100, 3);
    assert_non_null(memory);
    for (size_t i = 0; i < 300; i++) {
        assert_int_equal(memory[i], 0);
    }
    tt_release(&tt_allocator_default, memory, 100, 3);
    tt_release(&tt_allocator_default, NULL, 100, 3);
}

static void test_a_size_that_overflows_is_refused(void **state)
{
    (void)state;
    tt_counting_allocator counter = {0};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    assert_null(tt_allocate(&allocator, SIZE_MAX / 2, 3));
    assert_null(tt_allocate(&allocator, 0, 8));
    assert_int_equal(counter.allocation_count, 0);
}

static void test_the_chosen_allocation_fails_once(void **state)
{
    (void)state;
    tt_counting_allocator counter = {.fail_at = 2};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    void *first = tt_allocate(&allocator, 1, 8);
    void *second = tt_allocate(&allocator, 1, 8);
    void *third = tt_allocate(&allocator, 1, 16);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(counter.live_count, 2);
    assert_int_equal(counter.live_bytes, 24);
    tt_release(&allocator, first, 1, 8);
    tt_release(&allocator, third, 1, 16);
    assert_int_equal(counter.live_count, 0);
    assert_int_equal(counter.live_bytes, 0);
}

static void test_the_chosen_allocation_and_all_later_ones_fail(void **state)
{
    (void)state;
    tt_counting_allocator counter = {.fail_at = 1, .fail_forever = true};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    assert_null(tt_allocate(&allocator, 1, 8));
    assert_null(tt_allocate(&allocator, 1, 8));
    assert_int_equal(counter.allocation_count, 2);
    assert_int_equal(counter.live_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_zeroed),
        cmocka_unit_test(test_a_size_that_overflows_is_refused),
        cmocka_unit_test(test_the_chosen_allocation_fails_once),
        cmocka_unit_test(test_the_chosen_allocation_and_all_later_ones_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
