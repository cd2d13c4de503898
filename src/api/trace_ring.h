/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_ring.h - records of any length from one thread to another, without a lock.
 *
 * Layer:   api, private.
 * Threads: one producer at a time and one consumer; both may run at once.
 * Memory:  one block, from init to fini. A full ring refuses records: the producer never waits.
 */
#ifndef TUTTI_API_TRACE_RING_H
#define TUTTI_API_TRACE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tt_trace_ring {
    uint8_t *memory;
    size_t capacity;                     /* a power of two */
    _Alignas(64) _Atomic(uint64_t) head; /* bytes ever committed; the producer's */
    _Alignas(64) _Atomic(uint64_t) tail; /* bytes ever popped; the consumer's */
} tt_trace_ring;

/* `capacity` is a power of two, at least 64. False: no memory. */
bool tt_trace_ring_init(tt_trace_ring *ring, size_t capacity);
void tt_trace_ring_fini(tt_trace_ring *ring);

/* Room for a record of `bytes`, aligned to 8; NULL: the ring is full, or smaller than that. */
void *tt_trace_ring_claim(tt_trace_ring *ring, size_t bytes);
/* The record that was claimed last, of the same length, is complete. */
void tt_trace_ring_commit(tt_trace_ring *ring, size_t bytes);

/* The oldest record; NULL: there is none. It stays until tt_trace_ring_pop. */
const void *tt_trace_ring_peek(tt_trace_ring *ring);
void tt_trace_ring_pop(tt_trace_ring *ring);
bool tt_trace_ring_is_empty(const tt_trace_ring *ring);

#endif
