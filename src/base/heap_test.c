/* SPDX-License-Identifier: Apache-2.0
 *
 * heap_test.c - random pushes, pops, removals and updates against a linear search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/heap.h"
#include "base/philox.h"

enum {
    ITEM_COUNT = 200,
};

typedef struct item {
    uint64_t key;
    tt_heap_node node;
} item;

static item *item_of(tt_heap_node *node)
{
    return TT_CONTAINER_OF(node, item, node);
}

static bool key_before(const tt_heap_node *a, const tt_heap_node *b)
{
    const item *x = TT_CONTAINER_OF(a, item, node);
    const item *y = TT_CONTAINER_OF(b, item, node);
    return x->key < y->key;
}

static const item *linear_first(const item *items)
{
    const item *first = NULL;
    for (size_t i = 0; i < ITEM_COUNT; i++) {
        if (tt_heap_has_node(&items[i].node) && (first == NULL || items[i].key < first->key)) {
            first = &items[i];
        }
    }
    return first;
}

static void test_the_smallest_is_always_first(void **state)
{
    (void)state;
    tt_counting_allocator counter = {0};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    tt_heap heap;
    tt_heap_init(&heap, key_before, &allocator);
    item items[ITEM_COUNT] = {0};
    tt_random random;
    tt_random_init(&random, 1, 0);
    for (int turn = 0; turn < 20000; turn++) {
        item *chosen = &items[tt_random_below(&random, ITEM_COUNT)];
        const uint64_t key =
            tt_random_below(&random, 1000) * ITEM_COUNT + (uint64_t)(chosen - items);
        if (!tt_heap_has_node(&chosen->node)) {
            chosen->key = key;
            assert_int_equal(tt_heap_push(&heap, &chosen->node), TT_OK);
        } else if (key % 3 == 0) {
            tt_heap_remove(&heap, &chosen->node);
        } else if (key % 3 == 1) {
            chosen->key = key;
            tt_heap_update(&heap, &chosen->node);
        } else {
            const item *first = linear_first(items);
            assert_ptr_equal(item_of(tt_heap_pop(&heap)), first);
        }
        const item *first = linear_first(items);
        assert_ptr_equal(tt_heap_peek(&heap), first == NULL ? NULL : &first->node);
    }
    tt_heap_fini(&heap);
    assert_int_equal(counter.live_count, 0);
}

static void test_an_empty_heap_pops_nothing(void **state)
{
    (void)state;
    tt_heap heap;
    tt_heap_init(&heap, key_before, &tt_allocator_default);
    assert_null(tt_heap_pop(&heap));
    assert_null(tt_heap_peek(&heap));
    tt_heap_fini(&heap);
}

static void test_no_memory_leaves_the_heap_as_it_was(void **state)
{
    (void)state;
    tt_counting_allocator counter = {.fail_at = 2};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    tt_heap heap;
    tt_heap_init(&heap, key_before, &allocator);
    item items[17] = {0};
    for (size_t i = 0; i < 16; i++) {
        items[i].key = 16 - i;
        assert_int_equal(tt_heap_push(&heap, &items[i].node), TT_OK);
    }
    assert_int_equal(tt_heap_push(&heap, &items[16].node), TT_ERR_NO_MEMORY);
    assert_false(tt_heap_has_node(&items[16].node));
    assert_int_equal(heap.count, 16);
    assert_ptr_equal(tt_heap_peek(&heap), &items[15].node);
    tt_heap_fini(&heap);
    assert_int_equal(counter.live_count, 0);
}

static void test_reserved_pushes_take_no_memory(void **state)
{
    (void)state;
    tt_counting_allocator counter = {0};
    const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
    tt_heap heap;
    tt_heap_init(&heap, key_before, &allocator);
    item items[40] = {0};
    assert_int_equal(tt_heap_reserve(&heap, 40), TT_OK);
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(tt_heap_push(&heap, &items[i].node), TT_OK);
    }
    assert_int_equal(counter.allocation_count, 1);
    tt_heap_fini(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_smallest_is_always_first),
        cmocka_unit_test(test_an_empty_heap_pops_nothing),
        cmocka_unit_test(test_no_memory_leaves_the_heap_as_it_was),
        cmocka_unit_test(test_reserved_pushes_take_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
