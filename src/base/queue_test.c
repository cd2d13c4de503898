/* SPDX-License-Identifier: Apache-2.0
 *
 * queue_test.c - four producers against one consumer: nothing lost, doubled or out of order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/queue.h"

enum {
    PRODUCER_COUNT = 4,
    ITEMS_EACH = 20000,
};

typedef struct item {
    tt_queue_node node;
    unsigned producer;
    unsigned number;
} item;

typedef struct producer {
    tt_queue *queue;
    item *items;
    unsigned first_count; /* pushes that found the stack empty */
} producer;

static void *produce(void *argument)
{
    producer *self = argument;
    for (unsigned i = 0; i < ITEMS_EACH; i++) {
        self->first_count += tt_queue_push(self->queue, &self->items[i].node);
    }
    return NULL;
}

static void consume_all(tt_queue *queue)
{
    unsigned next[PRODUCER_COUNT] = {0};
    for (unsigned seen = 0; seen < PRODUCER_COUNT * ITEMS_EACH;) {
        tt_queue_node *node = tt_queue_pop(queue);
        if (node == NULL) {
            sched_yield();
            continue;
        }
        const item *popped = TT_CONTAINER_OF(node, item, node);
        assert_int_equal(popped->number, next[popped->producer]);
        next[popped->producer]++;
        seen++;
    }
}

static void test_many_producers_lose_and_reorder_nothing(void **state)
{
    (void)state;
    tt_queue queue;
    tt_queue_init(&queue);
    item *items = calloc((size_t)PRODUCER_COUNT * ITEMS_EACH, sizeof(item));
    assert_non_null(items);
    pthread_t threads[PRODUCER_COUNT];
    producer producers[PRODUCER_COUNT];
    for (unsigned p = 0; p < PRODUCER_COUNT; p++) {
        producers[p] = (producer){&queue, items + (size_t)p * ITEMS_EACH, 0};
        for (unsigned i = 0; i < ITEMS_EACH; i++) {
            producers[p].items[i] = (item){.producer = p, .number = i};
        }
        assert_int_equal(pthread_create(&threads[p], NULL, produce, &producers[p]), 0);
    }
    consume_all(&queue);
    unsigned first_count = 0;
    for (unsigned p = 0; p < PRODUCER_COUNT; p++) {
        assert_int_equal(pthread_join(threads[p], NULL), 0);
        first_count += producers[p].first_count;
    }
    assert_true(first_count >= 1);
    assert_true(tt_queue_is_empty(&queue));
    assert_null(tt_queue_pop(&queue));
    free(items);
}

static void test_first_in_first_out_across_takes(void **state)
{
    (void)state;
    tt_queue queue;
    tt_queue_init(&queue);
    item items[4] = {0};
    assert_true(tt_queue_push(&queue, &items[0].node));
    assert_false(tt_queue_push(&queue, &items[1].node));
    assert_ptr_equal(tt_queue_pop(&queue), &items[0].node);
    assert_true(
        tt_queue_push(&queue, &items[2].node)); /* the stack was taken, not the queue empty */
    assert_ptr_equal(tt_queue_pop(&queue), &items[1].node);
    assert_false(tt_queue_is_empty(&queue));
    assert_ptr_equal(tt_queue_pop(&queue), &items[2].node);
    assert_true(tt_queue_is_empty(&queue));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_producers_lose_and_reorder_nothing),
        cmocka_unit_test(test_first_in_first_out_across_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
