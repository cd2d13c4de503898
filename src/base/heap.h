/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.h - binary min-heap of elements that store their index, for timers and priorities.
 *
 * Push, pop, remove and update are O(log n). Equal elements come out in no particular order:
 * where it matters, compare a sequence number last.
 *
 * Layer:   base.
 * Threads: one thread at a time per heap.
 * Memory:  an array of pointers, grown by doubling; elements stay with their owner.
 */
#ifndef TUTTI_BASE_HEAP_H
#define TUTTI_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/status.h"

/* A member of the element. All zeros is a node in no heap. */
typedef struct tt_heap_node {
    size_t place; /* index + 1 */
} tt_heap_node;

/* Whether `a` must come out before `b`: a strict order. */
typedef bool tt_heap_before_fn(const tt_heap_node *a, const tt_heap_node *b);

typedef struct tt_heap {
    tt_heap_node **nodes;
    size_t count;
    size_t capacity;
    tt_heap_before_fn *before;
    const tt_allocator *allocator;
} tt_heap;

/* Takes no memory; `allocator` must outlive the heap. */
void tt_heap_init(tt_heap *heap, tt_heap_before_fn *before, const tt_allocator *allocator);
void tt_heap_fini(tt_heap *heap);

/* Room for `capacity` nodes in total: pushes up to that cannot fail. */
tt_status tt_heap_reserve(tt_heap *heap, size_t capacity);

/* TT_ERR_NO_MEMORY leaves the heap as it was. */
tt_status tt_heap_push(tt_heap *heap, tt_heap_node *node);

static inline bool tt_heap_has_node(const tt_heap_node *node)
{
    return node->place != 0;
}

/* The first to come out, or NULL. */
static inline tt_heap_node *tt_heap_peek(const tt_heap *heap)
{
    return heap->count > 0 ? heap->nodes[0] : NULL;
}

tt_heap_node *tt_heap_pop(tt_heap *heap);
void tt_heap_remove(tt_heap *heap, tt_heap_node *node);

/* After the key of a node in the heap has changed, before any other call. */
void tt_heap_update(tt_heap *heap, tt_heap_node *node);

#endif
