/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h - intrusive lock-free queue: any thread pushes, one thread pops.
 *
 * Producers push on a shared stack with compare-and-swap; the consumer takes the whole stack in
 * one exchange and reverses it. Because nodes are never popped one by one from the shared stack
 * there is no ABA problem, and unlike with a linked tail a pushed node is visible at once.
 * Nodes come out in the order in which their pushes took effect.
 *
 * Push and the consumer's take are sequentially consistent read-modify-writes, so a producer may
 * test "does the consumer sleep" after its push, and the consumer may check again after announcing
 * its sleep: one of the two sees the other.
 *
 * Layer:   base.
 * Threads: tt_queue_push from any; all else from the one consumer at a time.
 * Memory:  none taken. A node belongs to the queue from push to pop.
 */
#ifndef TUTTI_BASE_QUEUE_H
#define TUTTI_BASE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct tt_queue_node {
    struct tt_queue_node *next;
} tt_queue_node;

/* All zeros is an empty queue, so zeroed memory needs no init. */
typedef struct tt_queue {
    _Alignas(64) _Atomic(tt_queue_node *) pushed; /* newest first; shared */
    _Alignas(64) tt_queue_node *taken;            /* oldest first; the consumer's */
} tt_queue;

static inline void tt_queue_init(tt_queue *queue)
{
    atomic_init(&queue->pushed, NULL);
    queue->taken = NULL;
}

/* True if the shared stack was empty: exactly one of concurrent producers pushed first. */
static inline bool tt_queue_push(tt_queue *queue, tt_queue_node *node)
{
    tt_queue_node *newest = atomic_load_explicit(&queue->pushed, memory_order_relaxed);
    do {
        node->next = newest;
    } while (!atomic_compare_exchange_weak(&queue->pushed, &newest, node));
    return newest == NULL;
}

/* Oldest node, or NULL. */
static inline tt_queue_node *tt_queue_pop(tt_queue *queue)
{
    if (queue->taken == NULL) {
        tt_queue_node *newest = atomic_exchange(&queue->pushed, NULL);
        while (newest != NULL) {
            tt_queue_node *older = newest->next;
            newest->next = queue->taken;
            queue->taken = newest;
            newest = older;
        }
    }
    tt_queue_node *node = queue->taken;
    if (node != NULL) {
        queue->taken = node->next;
        node->next = NULL;
    }
    return node;
}

/* For the consumer. A plain load: cheap enough for every iteration of a polling loop. */
static inline bool tt_queue_is_empty(tt_queue *queue)
{
    return queue->taken == NULL && atomic_load(&queue->pushed) == NULL;
}

/* For any thread: has a node been pushed that the consumer has not begun to take? */
static inline bool tt_queue_has_pushed(tt_queue *queue)
{
    return atomic_load(&queue->pushed) != NULL;
}

#endif
