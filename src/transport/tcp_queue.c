/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_queue.c - the frames of one link that wait, and the pool of their nodes.
 *
 * The heap has room for every node that exists, so that push cannot fail: memory is asked for
 * only when a node is made, and given back only when the link is destroyed.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "transport/tcp_internal.h"

enum { HEAP_COUNT_FIRST = 64 };

static bool goes_before(const tt_tcp_node *a, const tt_tcp_node *b)
{
    return a->urgency != b->urgency ? a->urgency > b->urgency : a->age < b->age;
}

static bool heap_grow(tt_tcp_queue *queue)
{
    const size_t capacity = queue->capacity == 0 ? HEAP_COUNT_FIRST : 2 * queue->capacity;
    tt_tcp_node **heap = realloc(queue->heap, capacity * sizeof(*heap));
    if (heap == NULL) {
        return false;
    }
    queue->heap = heap;
    queue->capacity = capacity;
    return true;
}

static tt_tcp_node *node_create(tt_tcp_queue *queue, bool copy)
{
    if (queue->node_count == TT_TCP_QUEUE_MAX || (copy && queue->copy_count == TT_TCP_COPY_MAX)) {
        return NULL;
    }
    if (queue->node_count == queue->capacity && !heap_grow(queue)) {
        return NULL;
    }
    tt_tcp_node *node = calloc(1, sizeof(*node));
    if (node == NULL) {
        return NULL;
    }
    if (copy) {
        node->storage = malloc(TT_TCP_COPY_BYTES);
        if (node->storage == NULL) {
            free(node);
            return NULL;
        }
        queue->copy_count++;
    }
    queue->node_count++;
    return node;
}

tt_tcp_node *tt_tcp_node_take(tt_tcp_queue *queue, bool copy)
{
    tt_tcp_node **free_list = copy ? &queue->free_copy : &queue->free_plain;
    tt_tcp_node *node = *free_list;
    if (node == NULL) {
        return node_create(queue, copy);
    }
    *free_list = node->next_free;
    return node;
}

void tt_tcp_node_give(tt_tcp_queue *queue, tt_tcp_node *node)
{
    tt_tcp_node **free_list = node->storage != NULL ? &queue->free_copy : &queue->free_plain;
    node->payload = NULL;
    node->next_free = *free_list;
    *free_list = node;
}

static void sift_up(tt_tcp_queue *queue, size_t child)
{
    tt_tcp_node *node = queue->heap[child];
    while (child > 0 && goes_before(node, queue->heap[(child - 1) / 2])) {
        queue->heap[child] = queue->heap[(child - 1) / 2];
        child = (child - 1) / 2;
    }
    queue->heap[child] = node;
}

static void sift_down(tt_tcp_queue *queue, size_t parent)
{
    tt_tcp_node *node = queue->heap[parent];
    for (size_t child = 2 * parent + 1; child < queue->count; child = 2 * parent + 1) {
        if (child + 1 < queue->count && goes_before(queue->heap[child + 1], queue->heap[child])) {
            child++;
        }
        if (!goes_before(queue->heap[child], node)) {
            break;
        }
        queue->heap[parent] = queue->heap[child];
        parent = child;
    }
    queue->heap[parent] = node;
}

void tt_tcp_queue_push(tt_tcp_queue *queue, tt_tcp_node *node)
{
    TT_ASSERT(queue->count < queue->capacity);
    node->age = queue->age_next++;
    queue->heap[queue->count] = node;
    sift_up(queue, queue->count++);
}

static tt_tcp_node *remove_at(tt_tcp_queue *queue, size_t index)
{
    TT_ASSERT(index < queue->count);
    tt_tcp_node *node = queue->heap[index];
    queue->count--;
    if (index < queue->count) {
        queue->heap[index] = queue->heap[queue->count];
        sift_up(queue, index);
        sift_down(queue, index);
    }
    return node;
}

tt_tcp_node *tt_tcp_queue_pop(tt_tcp_queue *queue)
{
    return queue->count == 0 ? NULL : remove_at(queue, 0);
}

tt_tcp_node *tt_tcp_queue_remove(tt_tcp_queue *queue, uint64_t token)
{
    for (size_t i = 0; i < queue->count; i++) {
        if (queue->heap[i]->borrowed && queue->heap[i]->token == token) {
            return remove_at(queue, i);
        }
    }
    return NULL;
}

static void free_all(tt_tcp_node *node)
{
    while (node != NULL) {
        tt_tcp_node *next = node->next_free;
        free(node->storage);
        free(node);
        node = next;
    }
}

void tt_tcp_queue_fini(tt_tcp_queue *queue)
{
    TT_ASSERT(queue->count == 0);
    free_all(queue->free_plain);
    free_all(queue->free_copy);
    free(queue->heap);
}
