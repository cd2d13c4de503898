/* SPDX-License-Identifier: Apache-2.0
 *
 * line_ring.h - one-way path for frames through shared memory: one producer, one consumer.
 *
 * The ring is made of 64-byte lines in the receiver's segment. Frames travel in fragments. The
 * first line of a fragment carries {word, head, 8 payload bytes} for the first fragment of a frame
 * and {word, 56 payload bytes} for the following ones; the rest of the payload fills the next
 * lines. The word holds size, kind and number; zero means that nothing has been published.
 *
 * Word: bits 0-23 payload bytes of the fragment | 24-30 kind | 31 one | 32-63 number of the
 * fragment. The number is not needed for order; it detects a peer that corrupts the ring.
 *
 * Invariants:
 *  (1) The word is stored last. Before that the word of the line after the fragment is zeroed, so
 *      that the consumer never takes old payload bytes for a word.
 *  (2) Hence at least one line stays free.
 *  (3) The consumer copies a line out before it checks it; sizes are checked against constants.
 *  (4) Publishing a word and announcing free lines are sequentially consistent with the wake words:
 *      a rank that sets its wake word and then checks once more before it sleeps cannot miss them.
 *
 * Layer:   transport; may include platform/platform.h and base/.
 * Threads: one thread at a time per end.
 * Memory:  the shared memory is borrowed.
 */
#ifndef TUTTI_TRANSPORT_SHM_LINE_RING_H
#define TUTTI_TRANSPORT_SHM_LINE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "platform/platform.h"

enum {
    TT_RING_LINE_BYTES = 64,
    TT_RING_LINES_MIN = 16,
    TT_RING_FIRST_BYTES = 8, /* payload in the first line, beside the head */
    TT_RING_NEXT_BYTES = 56, /* payload in the first line of a following fragment */

    TT_RING_BYTES_MASK = (1 << 24) - 1,
    TT_RING_KIND_SHIFT = 24,
    TT_RING_KIND_MASK = 127,
};

#define TT_RING_WORD_VALID (UINT64_C(1) << 31)

typedef struct tt_ring_line {
    _Atomic uint64_t word;
    uint8_t bytes[56];
} tt_ring_line;

_Static_assert(sizeof(tt_ring_line) == TT_RING_LINE_BYTES, "a line is a cache line");

/* Precedes the lines. */
typedef struct tt_ring_control {
    _Alignas(64) _Atomic uint64_t consumed; /* lines; written by the consumer */
    _Atomic uint32_t starved;               /* written by the producer: it waits for room */
    uint8_t reserved[52];
    _Atomic uint64_t board_consumed; /* lines of the producer's board; written by the consumer */
    uint8_t reserved_too[56];        /* adjacent lines are fetched in pairs */
} tt_ring_control;

_Static_assert(sizeof(tt_ring_control) == 128, "tt_ring_control is a shared format");

/* Producer's end. */
typedef struct tt_ring_out {
    tt_ring_control *control;
    tt_ring_line *lines;
    uint64_t mask;
    uint64_t position; /* lines written */
    uint64_t consumed; /* last value seen */
    uint32_t sequence;
    uint32_t fragment_lines_max;
} tt_ring_out;

/* Consumer's end. */
typedef struct tt_ring_in {
    tt_ring_control *control;
    _Atomic uint64_t *consumed; /* read by the producer to find free lines */
    tt_ring_line *lines;
    uint64_t mask;
    uint64_t position; /* lines read */
    uint32_t sequence;
    uint32_t fragment_lines_max;
} tt_ring_in;

typedef enum tt_ring_kind {
    TT_RING_FIRST = 1,   /* begins a frame */
    TT_RING_NEXT = 2,    /* continues it */
    TT_RING_GOODBYE = 3, /* nothing follows */
} tt_ring_kind;

/* A fragment as the consumer found it: copied out and in range. */
typedef struct tt_ring_fragment {
    tt_ring_kind kind;
    uint32_t bytes;                /* payload in this fragment */
    _Alignas(8) uint8_t first[56]; /* its first line without the word */
} tt_ring_fragment;

/* `memory` is zeroed, or was used by this pair of ends from the start. */
void tt_ring_out_init(tt_ring_out *ring, void *memory, uint32_t ring_bytes);
void tt_ring_in_init(tt_ring_in *ring, void *memory, uint32_t ring_bytes);

/* Payload in the first line; lines of a fragment. */
static inline uint32_t tt_ring_first_bytes(tt_ring_kind kind)
{
    return kind == TT_RING_FIRST ? TT_RING_FIRST_BYTES : TT_RING_NEXT_BYTES;
}

static inline uint64_t tt_ring_lines(tt_ring_kind kind, uint32_t bytes)
{
    const uint32_t there = tt_ring_first_bytes(kind);
    const uint32_t rest = bytes > there ? bytes - there : 0;
    return 1 + (rest + TT_RING_LINE_BYTES - 1) / TT_RING_LINE_BYTES;
}

/* Payload bytes one fragment of `kind` can carry, in a ring that has this longest fragment. */
static inline uint32_t tt_ring_bytes_max(uint32_t lines_max, tt_ring_kind kind)
{
    return tt_ring_first_bytes(kind) + (lines_max - 1) * TT_RING_LINE_BYTES;
}

static inline uint32_t tt_ring_fragment_bytes_max(const tt_ring_out *ring, tt_ring_kind kind)
{
    return tt_ring_bytes_max(ring->fragment_lines_max, kind);
}

/* TT_OK: there is room. TT_IN_PROGRESS: not yet. TT_ERR_BAD_WIRE: the peer's word is invalid. */
tt_status tt_ring_room(tt_ring_out *ring, tt_ring_kind kind, uint32_t bytes);

/* The same from the consumer's last known position: false may be out of date. */
static inline bool tt_ring_fits(const tt_ring_out *ring, tt_ring_kind kind, uint32_t bytes)
{
    const uint64_t wanted = tt_ring_lines(kind, bytes) + 1; /* (2) */
    return ring->position - ring->consumed + wanted <= ring->mask + 1;
}

/* Write and publish a fragment for which there is room; `head` for TT_RING_FIRST only. A full
 * barrier follows the publication. */
void tt_ring_put(tt_ring_out *ring, tt_ring_kind kind, const tt_head *head, const void *payload,
                 uint32_t bytes);

/* A fragment follows soon: prefetch its line. */
void tt_ring_expect(const tt_ring_out *ring);

/* Request a wake-up from the consumer once it has made room, or cancel the request. Check for room
 * again afterwards. */
void tt_ring_set_starved(tt_ring_out *ring, bool starved);

/* No fragment has arrived. Inline, because this is the whole cost of an idle pass. */
static inline bool tt_ring_is_empty(const tt_ring_in *ring)
{
    const tt_ring_line *line = &ring->lines[ring->position & ring->mask];
    return atomic_load_explicit(&line->word, memory_order_seq_cst) == 0;
}

/* TT_OK: a fragment is there. TT_IN_PROGRESS: none. TT_ERR_BAD_WIRE: malformed. */
static inline tt_status tt_ring_peek(const tt_ring_in *ring, tt_ring_fragment *fragment_out)
{
    tt_ring_line *line = &ring->lines[ring->position & ring->mask];
    const uint64_t word = atomic_load_explicit(&line->word, memory_order_seq_cst);
    if (word == 0) {
        return TT_IN_PROGRESS;
    }
    const uint32_t kind = (uint32_t)(word >> TT_RING_KIND_SHIFT) & TT_RING_KIND_MASK;
    const uint32_t bytes = (uint32_t)(word & TT_RING_BYTES_MASK);
    if ((word & TT_RING_WORD_VALID) == 0 || (uint32_t)(word >> 32) != ring->sequence ||
        kind < TT_RING_FIRST || kind > TT_RING_GOODBYE ||
        bytes > tt_ring_bytes_max(ring->fragment_lines_max, (tt_ring_kind)kind)) {
        return TT_ERR_BAD_WIRE;
    }
    fragment_out->kind = (tt_ring_kind)kind;
    fragment_out->bytes = bytes;
    memcpy(fragment_out->first, line->bytes, sizeof fragment_out->first);
    return TT_OK;
}

/* Copy from the lines at `position`, around the end of the ring if need be. */
void tt_ring_load(const tt_ring_in *ring, uint64_t position, uint8_t *target, size_t bytes);

/* Copy the payload of the fragment that was peeked (to NULL: skip it) and free its lines. */
static inline void tt_ring_take(tt_ring_in *ring, const tt_ring_fragment *fragment, void *target)
{
    const uint32_t there = tt_ring_first_bytes(fragment->kind);
    const uint8_t *first =
        fragment->first + (fragment->kind == TT_RING_FIRST ? sizeof(tt_head) : 0);
    if (target != NULL && fragment->bytes > there) {
        memcpy(target, first, there);
        tt_ring_load(ring, ring->position + 1, (uint8_t *)target + there, fragment->bytes - there);
    } else if (target != NULL && fragment->bytes > 0) {
        memcpy(target, first, fragment->bytes);
    }
    ring->position += tt_ring_lines(fragment->kind, fragment->bytes);
    ring->sequence++;
    atomic_store_explicit(ring->consumed, ring->position, memory_order_release);
}

/* After taking: publish the freed lines with a full barrier; true if the producer waits. */
bool tt_ring_announce(tt_ring_in *ring);

#endif
