/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_ring.c - see trace_ring.h. A record is a word with its length, then its bytes, rounded up
 * to 8. A record that would pass the end of the memory begins at its start instead; the word SKIP
 * marks the unused rest. */
#include "api/trace_ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static const uint64_t SKIP = UINT64_MAX;
enum { WORD = 8 };

static size_t room_for(size_t bytes)
{
    return WORD + (bytes + WORD - 1) / WORD * WORD;
}

static uint8_t *at(const tt_trace_ring *ring, uint64_t position)
{
    return ring->memory + (position & (ring->capacity - 1));
}

/* Bytes from `position` to the end of the memory. */
static size_t rest_at(const tt_trace_ring *ring, uint64_t position)
{
    return ring->capacity - (size_t)(position & (ring->capacity - 1));
}

bool tt_trace_ring_init(tt_trace_ring *ring, size_t capacity)
{
    TT_ASSERT(capacity >= 64 && (capacity & (capacity - 1)) == 0);
    ring->memory = malloc(capacity);
    ring->capacity = capacity;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return ring->memory != NULL;
}

void tt_trace_ring_fini(tt_trace_ring *ring)
{
    free(ring->memory);
    ring->memory = NULL;
}

/* Where a record of `room` begins: at `head`, or at the start of the memory. */
static uint64_t begin_of(const tt_trace_ring *ring, uint64_t head, size_t room)
{
    const size_t rest = rest_at(ring, head);
    return rest < room ? head + rest : head;
}

void *tt_trace_ring_claim(tt_trace_ring *ring, size_t bytes)
{
    const size_t room = room_for(bytes);
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    const uint64_t begin = begin_of(ring, head, room);
    if (bytes >= ring->capacity || begin + room - tail > ring->capacity) {
        return NULL;
    }
    return at(ring, begin) + WORD;
}

void tt_trace_ring_commit(tt_trace_ring *ring, size_t bytes)
{
    const size_t room = room_for(bytes);
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    const uint64_t begin = begin_of(ring, head, room);
    const uint64_t length = room;
    TT_ASSERT(begin + room - atomic_load(&ring->tail) <= ring->capacity);
    if (begin != head) {
        memcpy(at(ring, head), &SKIP, WORD);
    }
    memcpy(at(ring, begin), &length, WORD);
    atomic_store_explicit(&ring->head, begin + room, memory_order_release);
}

/* Where the oldest record begins; there is one. */
static uint64_t oldest(const tt_trace_ring *ring, uint64_t *room_out)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    memcpy(room_out, at(ring, tail), WORD);
    if (*room_out == SKIP) {
        tail += rest_at(ring, tail);
        memcpy(room_out, at(ring, tail), WORD);
    }
    return tail;
}

bool tt_trace_ring_is_empty(const tt_trace_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire) ==
           atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

const void *tt_trace_ring_peek(tt_trace_ring *ring)
{
    uint64_t room;
    return tt_trace_ring_is_empty(ring) ? NULL : at(ring, oldest(ring, &room)) + WORD;
}

void tt_trace_ring_pop(tt_trace_ring *ring)
{
    TT_ASSERT(!tt_trace_ring_is_empty(ring));
    uint64_t room;
    const uint64_t begin = oldest(ring, &room);
    atomic_store_explicit(&ring->tail, begin + room, memory_order_release);
}
