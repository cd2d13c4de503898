/* SPDX-License-Identifier: Apache-2.0
 *
 * event_queue.h - events of a simulation in the order of their times; equal times as they came.
 *
 * Events of the next 1 ms are in buckets of 16 ns, later ones in a heap, so that the cost of an
 * event does not grow with their number. The next events were taken from their buckets and sorted:
 * some of them can be seen ahead, so that the memory they need can be fetched.
 *  (1) Events of the heap are later than the last bucket, so that a bucket is filled in the order
 *      in which its events came.
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  the allocator's; arrays double and are kept. Without memory an event is lost and
 *          has_failed is set: the owner checks it after the run.
 */
#ifndef TUTTI_SIM_EVENT_QUEUE_H
#define TUTTI_SIM_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

enum {
    TT_EVENT_BUCKETS = 65536, /* a power of two, as is a bucket's time */
    TT_EVENT_BUCKET_NS = 16,
    TT_EVENTS_AHEAD = 8, /* events that can be seen before they are popped, if there are so many */
};

typedef struct tt_event {
    uint64_t at_ns;
    uint32_t rank;
    uint32_t what; /* the owner's */
} tt_event;

typedef struct tt_event_node {
    tt_event event;
    uint32_t next; /* of a bucket's last: its first */
} tt_event_node;

typedef struct tt_event_late {
    tt_event event;
    uint64_t order; /* of insertion */
} tt_event_late;

typedef struct tt_event_queue {
    const tt_allocator *allocator;
    bool has_failed;
    tt_event *next; /* [next_first, next_end) of next_capacity */
    uint32_t next_first, next_end, next_capacity;
    uint64_t open_ns; /* earlier events belong into next */
    uint64_t used[TT_EVENT_BUCKETS / 64];
    uint32_t bucketed; /* events */
    tt_event_node *nodes;
    uint32_t node_count, node_capacity, first_free;
    tt_event_late *late; /* a heap of four children each */
    uint32_t late_count, late_capacity;
    uint64_t late_order;
    uint32_t bucket[TT_EVENT_BUCKETS]; /* the last node of each that is used */
} tt_event_queue;

/* ---- private: memory ---- */

/* Room for `needed` elements, in event_queue.c; false, and nothing has changed: no memory. */
bool tt_event_grow(tt_event_queue *queue, void **array_io, uint32_t *capacity_io, uint32_t needed,
                   size_t bytes);
/* Room for one more in `next`, which is full. */
bool tt_event_next_grow(tt_event_queue *queue);
/* What is left of `next` goes to its front, so that the array stays short. */
void tt_event_next_compact(tt_event_queue *queue);

/* ---- private: late ---- */

static inline bool tt_event_is_before(const tt_event_late *a, const tt_event_late *b)
{
    return a->event.at_ns != b->event.at_ns ? a->event.at_ns < b->event.at_ns : a->order < b->order;
}

static inline void tt_event_late_push(tt_event_queue *queue, tt_event event)
{
    if (!tt_event_grow(queue, (void **)&queue->late, &queue->late_capacity, queue->late_count + 1,
                       sizeof(*queue->late))) {
        return;
    }
    const tt_event_late added = {.event = event, .order = queue->late_order++};
    uint32_t at = queue->late_count++;
    for (; at > 0 && tt_event_is_before(&added, &queue->late[(at - 1) / 4]); at = (at - 1) / 4) {
        queue->late[at] = queue->late[(at - 1) / 4];
    }
    queue->late[at] = added;
}

static inline tt_event tt_event_late_pop(tt_event_queue *queue)
{
    const tt_event first = queue->late[0].event;
    const tt_event_late last = queue->late[--queue->late_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t least = 4 * at + 1;
        const uint32_t end = least + 4 < queue->late_count ? least + 4 : queue->late_count;
        for (uint32_t child = least + 1; child < end; child++) {
            least = tt_event_is_before(&queue->late[child], &queue->late[least]) ? child : least;
        }
        if (least >= queue->late_count || !tt_event_is_before(&queue->late[least], &last)) {
            break;
        }
        queue->late[at] = queue->late[least];
        at = least;
    }
    queue->late[at] = last;
    return first;
}

/* ---- private: buckets ---- */

/* Of an event that is not before open_ns: the sum may be beyond 2^64. */
static inline bool tt_event_is_soon(const tt_event_queue *queue, uint64_t at_ns)
{
    return at_ns - queue->open_ns < (TT_EVENT_BUCKETS - 1) * TT_EVENT_BUCKET_NS;
}

static inline void tt_event_bucket_push(tt_event_queue *queue, tt_event event)
{
    uint32_t number = queue->first_free;
    if (number != UINT32_MAX) {
        queue->first_free = queue->nodes[number].next;
    } else {
        if (!tt_event_grow(queue, (void **)&queue->nodes, &queue->node_capacity,
                           queue->node_count + 1, sizeof(*queue->nodes))) {
            return;
        }
        number = queue->node_count++;
    }
    const uint32_t at = (uint32_t)(event.at_ns / TT_EVENT_BUCKET_NS) & (TT_EVENT_BUCKETS - 1);
    const bool is_used = (queue->used[at / 64] >> (at & 63) & 1) != 0;
    tt_event_node *last = is_used ? &queue->nodes[queue->bucket[at]] : NULL;
    queue->nodes[number] = (tt_event_node){.event = event, .next = is_used ? last->next : number};
    if (is_used) {
        last->next = number;
    }
    queue->bucket[at] = number;
    queue->used[at / 64] |= UINT64_C(1) << (at & 63);
    queue->bucketed++;
}

/* Distance of the first bucket in use from that of open_ns. */
static inline uint32_t tt_event_buckets_to_skip(const tt_event_queue *queue)
{
    const uint32_t first = (uint32_t)(queue->open_ns / TT_EVENT_BUCKET_NS) & (TT_EVENT_BUCKETS - 1);
    uint64_t word = queue->used[first / 64] & ~UINT64_C(0) << (first & 63);
    uint32_t at = first / 64;
    while (word == 0) {
        at = (at + 1) % (TT_EVENT_BUCKETS / 64);
        word = queue->used[at];
    }
    return (64 * at + (uint32_t)__builtin_ctzll(word) - first) & (TT_EVENT_BUCKETS - 1);
}

/* ---- private: next ---- */

static inline bool tt_event_next_reserve(tt_event_queue *queue)
{
    return queue->next_end < queue->next_capacity || tt_event_next_grow(queue);
}

/* Behind all that are not later. */
static inline void tt_event_next_insert(tt_event_queue *queue, tt_event event)
{
    if (!tt_event_next_reserve(queue)) {
        return;
    }
    uint32_t at = queue->next_end++;
    for (; at > queue->next_first && queue->next[at - 1].at_ns > event.at_ns; at--) {
        queue->next[at] = queue->next[at - 1];
    }
    queue->next[at] = event;
}

/* Move the nodes from `first` to `last`, all of one time, behind all others, and free them. */
static inline void tt_event_next_append(tt_event_queue *queue, uint32_t first, uint32_t last)
{
    for (uint32_t number = first;; number = queue->nodes[number].next) {
        if (tt_event_next_reserve(queue)) {
            queue->next[queue->next_end++] = queue->nodes[number].event;
        }
        queue->bucketed--;
        if (number == last) {
            break;
        }
    }
    queue->nodes[last].next = queue->first_free;
    queue->first_free = first;
}

/* A list for every nanosecond of the bucket: many events cost no more than few. */
static inline void tt_event_bucket_sort(tt_event_queue *queue, uint32_t first, uint32_t last)
{
    uint32_t firsts[TT_EVENT_BUCKET_NS], lasts[TT_EVENT_BUCKET_NS];
    uint32_t used = 0;
    for (uint32_t number = first, next;; number = next) {
        tt_event_node *node = &queue->nodes[number];
        const uint32_t at = (uint32_t)node->event.at_ns % TT_EVENT_BUCKET_NS;
        next = node->next;
        if ((used >> at & 1) != 0) {
            queue->nodes[lasts[at]].next = number;
        } else {
            firsts[at] = number;
        }
        used |= UINT32_C(1) << at;
        lasts[at] = number;
        if (number == last) {
            break;
        }
    }
    for (; used != 0; used &= used - 1) {
        const uint32_t at = (uint32_t)__builtin_ctz(used);
        tt_event_next_append(queue, firsts[at], lasts[at]);
    }
}

static inline void tt_event_bucket_drain(tt_event_queue *queue)
{
    const uint32_t at = (uint32_t)(queue->open_ns / TT_EVENT_BUCKET_NS) & (TT_EVENT_BUCKETS - 1);
    const uint32_t last = queue->bucket[at], first = queue->nodes[last].next;
    if (first == last) {
        tt_event_next_append(queue, first, last);
    } else {
        tt_event_bucket_sort(queue, first, last);
    }
    queue->used[at / 64] &= ~(UINT64_C(1) << (at & 63));
    queue->open_ns += TT_EVENT_BUCKET_NS;
}

/* Keeps (1). */
static inline void tt_event_late_enter(tt_event_queue *queue)
{
    while (queue->late_count > 0 && tt_event_is_soon(queue, queue->late[0].event.at_ns)) {
        tt_event_bucket_push(queue, tt_event_late_pop(queue));
    }
}

/* Take the events of the next bucket that has any. False: there are none. */
static inline bool tt_event_open_bucket(tt_event_queue *queue)
{
    if (queue->bucketed == 0 && queue->late_count > 0) {
        queue->open_ns = queue->late[0].event.at_ns / TT_EVENT_BUCKET_NS * TT_EVENT_BUCKET_NS;
        tt_event_late_enter(queue);
    }
    if (queue->bucketed == 0) {
        return false;
    }
    queue->open_ns += (uint64_t)tt_event_buckets_to_skip(queue) * TT_EVENT_BUCKET_NS;
    tt_event_bucket_drain(queue);
    tt_event_late_enter(queue);
    return true;
}

/* ---- the queue ---- */

/* `allocator` must outlive the queue. */
void tt_event_queue_init(tt_event_queue *queue, const tt_allocator *allocator);
void tt_event_queue_fini(tt_event_queue *queue);

/* Times are before the last bucket of 2^64 ns. */
static inline void tt_event_queue_push(tt_event_queue *queue, tt_event event)
{
    if (event.at_ns < queue->open_ns) {
        tt_event_next_insert(queue, event);
    } else if (tt_event_is_soon(queue, event.at_ns)) {
        tt_event_bucket_push(queue, event);
    } else {
        tt_event_late_push(queue, event);
    }
}

/* False: there is none. */
static inline bool tt_event_queue_pop(tt_event_queue *queue, tt_event *event_out)
{
    if (queue->next_first > 0 && queue->next_end - queue->next_first <= TT_EVENTS_AHEAD) {
        tt_event_next_compact(queue);
    }
    while (queue->next_end - queue->next_first <= TT_EVENTS_AHEAD && tt_event_open_bucket(queue)) {
    }
    if (queue->next_first == queue->next_end) {
        return false;
    }
    *event_out = queue->next[queue->next_first++];
    return true;
}

/* The event that many after the next one; NULL: it cannot be seen yet. */
static inline const tt_event *tt_event_queue_see(const tt_event_queue *queue, uint32_t ahead)
{
    return queue->next_end - queue->next_first > ahead ? &queue->next[queue->next_first + ahead]
                                                       : NULL;
}

#endif
