/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.c - invariants: (1) no node comes before its parent at (index - 1) / 2;
 * (2) nodes[i]->place == i + 1. */
#include "base/heap.h"

#include <string.h>

#include "base/assert.h"

enum {
    CAPACITY_MIN = 16,
};

static void node_place(tt_heap *heap, size_t index, tt_heap_node *node)
{
    heap->nodes[index] = node;
    node->place = index + 1;
}

static void sift_up(tt_heap *heap, size_t index)
{
    tt_heap_node *node = heap->nodes[index];
    while (index > 0) {
        const size_t parent = (index - 1) / 2;
        if (!heap->before(node, heap->nodes[parent])) {
            break;
        }
        node_place(heap, index, heap->nodes[parent]);
        index = parent;
    }
    node_place(heap, index, node);
}

static void sift_down(tt_heap *heap, size_t index)
{
    tt_heap_node *node = heap->nodes[index];
    while (2 * index + 1 < heap->count) {
        size_t child = 2 * index + 1;
        if (child + 1 < heap->count && heap->before(heap->nodes[child + 1], heap->nodes[child])) {
            child++;
        }
        if (!heap->before(heap->nodes[child], node)) {
            break;
        }
        node_place(heap, index, heap->nodes[child]);
        index = child;
    }
    node_place(heap, index, node);
}

void tt_heap_init(tt_heap *heap, tt_heap_before_fn *before, const tt_allocator *allocator)
{
    *heap = (tt_heap){.before = before, .allocator = allocator};
}

void tt_heap_fini(tt_heap *heap)
{
    tt_release(heap->allocator, heap->nodes, heap->capacity, sizeof(heap->nodes[0]));
    *heap = (tt_heap){.before = heap->before, .allocator = heap->allocator};
}

tt_status tt_heap_reserve(tt_heap *heap, size_t capacity)
{
    if (capacity <= heap->capacity) {
        return TT_OK;
    }
    tt_heap_node **nodes = tt_allocate(heap->allocator, capacity, sizeof(nodes[0]));
    if (nodes == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (heap->count > 0) {
        memcpy(nodes, heap->nodes, heap->count * sizeof(nodes[0]));
    }
    tt_release(heap->allocator, heap->nodes, heap->capacity, sizeof(nodes[0]));
    heap->nodes = nodes;
    heap->capacity = capacity;
    return TT_OK;
}

tt_status tt_heap_push(tt_heap *heap, tt_heap_node *node)
{
    TT_ASSERT(!tt_heap_has_node(node));
    if (heap->count == heap->capacity) {
        TT_TRY(tt_heap_reserve(heap, heap->capacity == 0 ? CAPACITY_MIN : 2 * heap->capacity));
    }
    heap->nodes[heap->count] = node;
    heap->count++;
    sift_up(heap, heap->count - 1);
    return TT_OK;
}

tt_heap_node *tt_heap_pop(tt_heap *heap)
{
    tt_heap_node *node = tt_heap_peek(heap);
    if (node != NULL) {
        tt_heap_remove(heap, node);
    }
    return node;
}

void tt_heap_remove(tt_heap *heap, tt_heap_node *node)
{
    TT_ASSERT(node->place >= 1);
    TT_ASSERT(node->place <= heap->count);
    TT_ASSERT(heap->nodes[node->place - 1] == node);
    const size_t index = node->place - 1;
    node->place = 0;
    heap->count--;
    if (index < heap->count) {
        node_place(heap, index, heap->nodes[heap->count]);
        tt_heap_update(heap, heap->nodes[index]);
    }
}

void tt_heap_update(tt_heap *heap, tt_heap_node *node)
{
    TT_ASSERT(node->place >= 1);
    TT_ASSERT(node->place <= heap->count);
    sift_up(heap, node->place - 1);
    sift_down(heap, node->place - 1);
}
