/* SPDX-License-Identifier: Apache-2.0
 *
 * scale_queue.h - events of a simulation, in the order of their times; equal ones as they came.
 *
 * Those of the next 0.1 ms are in buckets of 16 ns, later ones in a heap, so that the cost of an
 * event does not grow with their number. What comes next was taken from its buckets and sorted:
 * some events ahead it can be seen whose memory will be needed.
 *
 * Layer:   bench.
 * Threads: one at a time.
 * Memory:  the C library's; it aborts when that is out.
 */
#ifndef TUTTI_BENCH_SCALE_QUEUE_H
#define TUTTI_BENCH_SCALE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"

enum {
    BUCKETS = 8192, /* a power of two, as is a bucket's time */
    BUCKET_NS = 16,
    SEEN_AHEAD = 8, /* events that can be seen before they are popped, while there are so many */
};

typedef struct bench_event {
    uint64_t at_ns;
    uint32_t member;
    uint32_t what; /* kind in 2 bits; number of the frame or the burst */
} bench_event;

typedef struct bench_node {
    bench_event event;
    uint32_t next; /* of a bucket's last: its first */
} bench_node;

typedef struct bench_queue {
    bench_event *next; /* [next_first, next_end) of next_capacity */
    uint32_t next_first, next_end, next_capacity;
    uint64_t open_ns;         /* what is earlier belongs into next */
    uint32_t bucket[BUCKETS]; /* the last node of each */
    uint64_t used[BUCKETS / 64];
    uint32_t bucketed; /* events */
    bench_node *nodes;
    uint32_t node_count, node_capacity, first_free;
    bench_event *late; /* a heap of four children each */
    uint32_t late_count, late_capacity;
} bench_queue;

static void *grow(void *array, uint32_t *capacity, uint32_t needed, size_t bytes)
{
    if (needed <= *capacity) {
        return array;
    }
    *capacity = *capacity == 0 ? 1024 : 2 * *capacity;
    array = realloc(array, *capacity * bytes);
    TT_ASSERT(array != NULL);
    return array;
}

/* ---- late ---- */

static void late_push(bench_queue *queue, bench_event event)
{
    queue->late =
        grow(queue->late, &queue->late_capacity, queue->late_count + 1, sizeof(*queue->late));
    uint32_t at = queue->late_count++;
    for (; at > 0 && queue->late[(at - 1) / 4].at_ns > event.at_ns; at = (at - 1) / 4) {
        queue->late[at] = queue->late[(at - 1) / 4];
    }
    queue->late[at] = event;
}

static bench_event late_pop(bench_queue *queue)
{
    const bench_event first = queue->late[0], last = queue->late[--queue->late_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t least = 4 * at + 1;
        const uint32_t end = least + 4 < queue->late_count ? least + 4 : queue->late_count;
        for (uint32_t child = least + 1; child < end; child++) {
            least = queue->late[child].at_ns < queue->late[least].at_ns ? child : least;
        }
        if (least >= queue->late_count || queue->late[least].at_ns >= last.at_ns) {
            break;
        }
        queue->late[at] = queue->late[least];
        at = least;
    }
    queue->late[at] = last;
    return first;
}

/* ---- buckets ---- */

static bool is_soon(const bench_queue *queue, uint64_t at_ns)
{
    return at_ns < queue->open_ns + (BUCKETS - 1) * BUCKET_NS;
}

static void bucket_push(bench_queue *queue, bench_event event)
{
    uint32_t number = queue->first_free;
    if (number != UINT32_MAX) {
        queue->first_free = queue->nodes[number].next;
    } else {
        queue->nodes =
            grow(queue->nodes, &queue->node_capacity, queue->node_count + 1, sizeof(*queue->nodes));
        number = queue->node_count++;
    }
    const uint32_t at = (uint32_t)(event.at_ns / BUCKET_NS) & (BUCKETS - 1);
    const bool is_used = (queue->used[at / 64] >> (at & 63) & 1) != 0;
    bench_node *last = is_used ? &queue->nodes[queue->bucket[at]] : NULL;
    queue->nodes[number] = (bench_node){.event = event, .next = is_used ? last->next : number};
    if (is_used) {
        last->next = number;
    }
    queue->bucket[at] = number;
    queue->used[at / 64] |= UINT64_C(1) << (at & 63);
    queue->bucketed++;
}

/* How far the first bucket in use is from the one of open_ns. */
static uint32_t buckets_to_skip(const bench_queue *queue)
{
    const uint32_t first = (uint32_t)(queue->open_ns / BUCKET_NS) & (BUCKETS - 1);
    uint64_t word = queue->used[first / 64] & ~UINT64_C(0) << (first & 63);
    uint32_t at = first / 64;
    while (word == 0) {
        at = (at + 1) % (BUCKETS / 64);
        word = queue->used[at];
    }
    return (64 * at + (uint32_t)__builtin_ctzll(word) - first) & (BUCKETS - 1);
}

/* ---- next ---- */

/* Behind all that are not later. */
static void next_insert(bench_queue *queue, bench_event event)
{
    queue->next =
        grow(queue->next, &queue->next_capacity, queue->next_end + 1, sizeof(*queue->next));
    uint32_t at = queue->next_end++;
    for (; at > queue->next_first && queue->next[at - 1].at_ns > event.at_ns; at--) {
        queue->next[at] = queue->next[at - 1];
    }
    queue->next[at] = event;
}

static void bucket_drain(bench_queue *queue)
{
    const uint32_t at = (uint32_t)(queue->open_ns / BUCKET_NS) & (BUCKETS - 1);
    const uint32_t last = queue->bucket[at], first = queue->nodes[last].next;
    for (uint32_t number = first;; number = queue->nodes[number].next) {
        next_insert(queue, queue->nodes[number].event);
        queue->bucketed--;
        if (number == last) {
            break;
        }
    }
    queue->nodes[last].next = queue->first_free; /* all of them, from first to last */
    queue->first_free = first;
    queue->used[at / 64] &= ~(UINT64_C(1) << (at & 63));
    queue->open_ns += BUCKET_NS;
}

/* Take the events of the next bucket that has any. False: there are none. */
static bool open_bucket(bench_queue *queue)
{
    if (queue->bucketed == 0 && queue->late_count == 0) {
        return false;
    }
    if (queue->bucketed == 0) {
        queue->open_ns = queue->late[0].at_ns / BUCKET_NS * BUCKET_NS;
    } else {
        queue->open_ns += (uint64_t)buckets_to_skip(queue) * BUCKET_NS;
    }
    while (queue->late_count > 0 && is_soon(queue, queue->late[0].at_ns)) {
        bucket_push(queue, late_pop(queue));
    }
    bucket_drain(queue);
    return true;
}

/* ---- the queue ---- */

static void queue_init(bench_queue *queue)
{
    *queue = (bench_queue){.first_free = UINT32_MAX};
}

static void queue_fini(bench_queue *queue)
{
    free(queue->next);
    free(queue->nodes);
    free(queue->late);
}

static void queue_push(bench_queue *queue, bench_event event)
{
    if (event.at_ns < queue->open_ns) {
        next_insert(queue, event);
    } else if (is_soon(queue, event.at_ns)) {
        bucket_push(queue, event);
    } else {
        late_push(queue, event);
    }
}

/* False: there is none. */
static bool queue_pop(bench_queue *queue, bench_event *event_out)
{
    if (queue->next_first == queue->next_end) {
        queue->next_first = queue->next_end = 0;
    }
    while (queue->next_end - queue->next_first <= SEEN_AHEAD && open_bucket(queue)) {
    }
    if (queue->next_first == queue->next_end) {
        return false;
    }
    *event_out = queue->next[queue->next_first++];
    return true;
}

/* The event that many after the next one; NULL: it cannot be seen yet. */
static const bench_event *queue_see(const bench_queue *queue, uint32_t ahead)
{
    return queue->next_end - queue->next_first > ahead ? &queue->next[queue->next_first + ahead]
                                                       : NULL;
}

#endif
