/* SPDX-License-Identifier: Apache-2.0
 *
 * event_queue.c - memory of the event queue. */
#include "sim/event_queue.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"

enum { CAPACITY_MIN = 1024 };

bool tt_event_grow(tt_event_queue *queue, void **array_io, uint32_t *capacity_io, uint32_t needed,
                   size_t bytes)
{
    TT_ASSERT(*capacity_io == 0 || *array_io != NULL);
    if (needed <= *capacity_io) {
        return true;
    }
    const uint32_t capacity = *capacity_io == 0 ? CAPACITY_MIN : 2 * *capacity_io;
    TT_ASSERT(needed <= capacity); /* one at a time */
    void *array = tt_allocate(queue->allocator, capacity, bytes);
    if (array == NULL) {
        queue->has_failed = true;
        return false;
    }
    if (*capacity_io > 0) {
        memcpy(array, *array_io, *capacity_io * bytes);
        tt_release(queue->allocator, *array_io, *capacity_io, bytes);
    }
    *array_io = array;
    *capacity_io = capacity;
    return true;
}

void tt_event_next_compact(tt_event_queue *queue)
{
    queue->next_end -= queue->next_first;
    memmove(queue->next, queue->next + queue->next_first, queue->next_end * sizeof(*queue->next));
    queue->next_first = 0;
}

/* Half of the array is passed before it is moved, so that an event costs one move at most. */
bool tt_event_next_grow(tt_event_queue *queue)
{
    TT_ASSERT(queue->next_end == queue->next_capacity);
    if (queue->next_first > 0 && queue->next_first >= queue->next_capacity / 2) {
        tt_event_next_compact(queue);
        return true;
    }
    return tt_event_grow(queue, (void **)&queue->next, &queue->next_capacity, queue->next_end + 1,
                         sizeof(*queue->next));
}

void tt_event_queue_init(tt_event_queue *queue, const tt_allocator *allocator)
{
    TT_ASSERT(allocator != NULL);
    memset(queue, 0, offsetof(tt_event_queue, bucket));
    queue->allocator = allocator;
    queue->first_free = UINT32_MAX;
}

void tt_event_queue_fini(tt_event_queue *queue)
{
    tt_release(queue->allocator, queue->next, queue->next_capacity, sizeof(*queue->next));
    tt_release(queue->allocator, queue->nodes, queue->node_capacity, sizeof(*queue->nodes));
    tt_release(queue->allocator, queue->late, queue->late_capacity, sizeof(*queue->late));
    TT_ASSERT(queue->next_first <= queue->next_end);
}
