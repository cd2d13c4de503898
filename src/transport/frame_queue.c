/* SPDX-License-Identifier: Apache-2.0
 *
 * frame_queue.c - a binary heap by (urgency, age, turn).
 */
#include "transport/frame_queue.h"

#include <stdlib.h>

#include "base/assert.h"

enum { CAPACITY_FIRST = 16 };

static bool goes_before(const tt_queued_frame *left, const tt_queued_frame *right)
{
    if (left->urgency != right->urgency) {
        return left->urgency > right->urgency;
    }
    return left->age != right->age ? left->age < right->age : left->turn < right->turn;
}

static void swap(tt_queued_frame *left, tt_queued_frame *right)
{
    const tt_queued_frame kept = *left;
    *left = *right;
    *right = kept;
}

static void sift_up(tt_frame_queue *queue, size_t index)
{
    while (index > 0) {
        const size_t parent = (index - 1) / 2;
        if (!goes_before(&queue->frames[index], &queue->frames[parent])) {
            return;
        }
        swap(&queue->frames[index], &queue->frames[parent]);
        index = parent;
    }
}

static void sift_down(tt_frame_queue *queue, size_t index)
{
    for (;;) {
        size_t best = index;
        for (size_t child = 2 * index + 1; child <= 2 * index + 2; child++) {
            if (child < queue->count && goes_before(&queue->frames[child], &queue->frames[best])) {
                best = child;
            }
        }
        if (best == index) {
            return;
        }
        swap(&queue->frames[index], &queue->frames[best]);
        index = best;
    }
}

static void remove_at(tt_frame_queue *queue, size_t index)
{
    TT_ASSERT(index < queue->count);
    queue->count--;
    if (index == queue->count) {
        return;
    }
    queue->frames[index] = queue->frames[queue->count];
    sift_up(queue, index);
    sift_down(queue, index);
}

void tt_frame_queue_fini(tt_frame_queue *queue)
{
    free(queue->frames);
    *queue = (tt_frame_queue){0};
}

tt_status tt_frame_queue_push(tt_frame_queue *queue, const tt_send *send)
{
    if (queue->count == TT_FRAME_QUEUE_MAX) {
        return TT_ERR_NO_RESOURCE;
    }
    if (queue->count == queue->capacity) {
        const size_t capacity = queue->capacity == 0 ? CAPACITY_FIRST : 2 * queue->capacity;
        tt_queued_frame *frames = realloc(queue->frames, capacity * sizeof *frames);
        if (frames == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        queue->frames = frames;
        queue->capacity = capacity;
    }
    queue->frames[queue->count] = (tt_queued_frame){
        .head = *send->head,
        .payload = send->payload,
        .token = send->token,
        .age = send->age,
        .turn = queue->turn_next++,
        .urgency = send->urgency,
    };
    queue->count++;
    sift_up(queue, queue->count - 1);
    return TT_OK;
}

const tt_queued_frame *tt_frame_queue_top(const tt_frame_queue *queue)
{
    return queue->count == 0 ? NULL : &queue->frames[0];
}

bool tt_frame_queue_pop(tt_frame_queue *queue, tt_queued_frame *frame_out)
{
    if (queue->count == 0) {
        return false;
    }
    *frame_out = queue->frames[0];
    remove_at(queue, 0);
    return true;
}

bool tt_frame_queue_remove(tt_frame_queue *queue, uint64_t token)
{
    size_t found = queue->count;
    for (size_t index = 0; index < queue->count; index++) {
        if (queue->frames[index].token == token &&
            (found == queue->count || goes_before(&queue->frames[index], &queue->frames[found]))) {
            found = index;
        }
    }
    if (found == queue->count) {
        return false;
    }
    remove_at(queue, found);
    return true;
}
