/* SPDX-License-Identifier: Apache-2.0
 *
 * line_ring.c - see line_ring.h for the format and its invariants.
 *
 * Cost of a frame of up to 8 bytes: one line moves from core to core; the producer also owns the
 * next line already, since it zeroed it. Positions count lines and never wrap.
 */
#include "transport/shm/line_ring.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"

enum { FRAGMENT_LINES_MAX = 257 }; /* a payload of TT_INLINE_BYTES_MAX fits one fragment */

static uint32_t fragment_lines_max(uint64_t line_count)
{
    return (uint32_t)tt_min_u64(line_count / 4, FRAGMENT_LINES_MAX);
}

void tt_ring_out_init(tt_ring_out *ring, void *memory, uint32_t ring_bytes)
{
    const uint64_t line_count = ring_bytes / TT_RING_LINE_BYTES;
    TT_ASSERT(line_count >= TT_RING_LINES_MIN);
    TT_ASSERT((line_count & (line_count - 1)) == 0);
    *ring = (tt_ring_out){
        .control = memory,
        .lines = (tt_ring_line *)((tt_ring_control *)memory + 1),
        .mask = line_count - 1,
        .fragment_lines_max = fragment_lines_max(line_count),
    };
}

void tt_ring_in_init(tt_ring_in *ring, void *memory, uint32_t ring_bytes)
{
    const uint64_t line_count = ring_bytes / TT_RING_LINE_BYTES;
    TT_ASSERT(line_count >= TT_RING_LINES_MIN);
    TT_ASSERT((line_count & (line_count - 1)) == 0);
    *ring = (tt_ring_in){
        .control = memory,
        .consumed = &((tt_ring_control *)memory)->consumed,
        .lines = (tt_ring_line *)((tt_ring_control *)memory + 1),
        .mask = line_count - 1,
        .fragment_lines_max = fragment_lines_max(line_count),
    };
}

tt_status tt_ring_room(tt_ring_out *ring, tt_ring_kind kind, uint32_t bytes)
{
    if (tt_ring_fits(ring, kind, bytes)) {
        return TT_OK;
    }
    const uint64_t consumed = atomic_load_explicit(&ring->control->consumed, memory_order_seq_cst);
    if (consumed < ring->consumed || consumed > ring->position) {
        return TT_ERR_BAD_WIRE;
    }
    ring->consumed = consumed;
    return tt_ring_fits(ring, kind, bytes) ? TT_OK : TT_IN_PROGRESS;
}

/* Store `bytes` from line `position` on, around the end of the ring if need be. */
static void store_lines(const tt_ring_out *ring, uint64_t position, const uint8_t *source,
                        size_t bytes)
{
    const uint64_t index = position & ring->mask;
    const size_t until_end = (size_t)(ring->mask + 1 - index) * TT_RING_LINE_BYTES;
    const size_t before = bytes < until_end ? bytes : until_end;
    memcpy((void *)&ring->lines[index], source, before);
    if (before < bytes) {
        memcpy((void *)&ring->lines[0], source + before, bytes - before);
    }
}

void tt_ring_load(const tt_ring_in *ring, uint64_t position, uint8_t *target, size_t bytes)
{
    const uint64_t index = position & ring->mask;
    const size_t until_end = (size_t)(ring->mask + 1 - index) * TT_RING_LINE_BYTES;
    const size_t before = bytes < until_end ? bytes : until_end;
    memcpy(target, (const void *)&ring->lines[index], before);
    if (before < bytes) {
        memcpy(target + before, (const void *)&ring->lines[0], bytes - before);
    }
}

/* The builtin fetches for ownership only where the compiler may assume the instruction; every
 * 64-bit x86 accepts it. Measured: saves 40 of 330 ns one way. */
static void fetch_for_writing(const void *address)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const uint8_t *)address));
#else
    __builtin_prefetch(address, 1);
#endif
}

/* At most eight bytes; shorter than a call of memcpy. */
static void copy_few(uint8_t *target, const uint8_t *source, uint32_t bytes)
{
    if (bytes >= 4) { /* overlapping bytes are copied twice */
        memcpy(target, source, 4);
        memcpy(target + bytes - 4, source + bytes - 4, 4);
    } else if (bytes > 0) {
        target[0] = source[0];
        target[bytes / 2] = source[bytes / 2];
        target[bytes - 1] = source[bytes - 1];
    }
}

/* Before anything is written to the fragment's first line, which its readers poll: once that line
 * is owned, it is filled and published without waiting for another. */
static void zero_after(tt_ring_out *ring, uint64_t lines)
{
    tt_ring_line *after = &ring->lines[(ring->position + lines) & ring->mask];
    atomic_store_explicit(&after->word, 0, memory_order_relaxed); /* (1) */
}

static void publish(tt_ring_out *ring, tt_ring_kind kind, uint32_t bytes, uint64_t lines)
{
    tt_ring_line *line = &ring->lines[ring->position & ring->mask];
    const uint64_t word = (uint64_t)ring->sequence << 32 | TT_RING_WORD_VALID |
                          (uint64_t)kind << TT_RING_KIND_SHIFT | bytes;
    atomic_exchange_explicit(&line->word, word, memory_order_seq_cst); /* (4) */
    ring->position += lines;
    ring->sequence++;
    /* The line that the next small fragment will zero: own it before a peer waits for it. */
    fetch_for_writing(&ring->lines[(ring->position + 1) & ring->mask]);
}

void tt_ring_expect(const tt_ring_out *ring)
{
    fetch_for_writing(&ring->lines[ring->position & ring->mask]);
}

void tt_ring_put(tt_ring_out *ring, tt_ring_kind kind, const tt_head *head, const void *payload,
                 uint32_t bytes)
{
    TT_DEBUG_ASSERT(tt_ring_fits(ring, kind, bytes));
    const uint64_t lines = tt_ring_lines(kind, bytes);
    const uint32_t there = (uint32_t)tt_min_u64(bytes, tt_ring_first_bytes(kind));
    zero_after(ring, lines);
    if (bytes > there) {
        store_lines(ring, ring->position + 1, (const uint8_t *)payload + there, bytes - there);
    }
    uint8_t *room = ring->lines[ring->position & ring->mask].bytes;
    if (kind == TT_RING_FIRST) {
        memcpy(room, head, sizeof *head);
        copy_few(room + sizeof *head, payload, there);
    } else if (there > 0) {
        memcpy(room, payload, there);
    }
    publish(ring, kind, bytes, lines);
}

void tt_ring_set_starved(tt_ring_out *ring, bool starved)
{
    atomic_exchange_explicit(&ring->control->starved, starved ? 1 : 0, memory_order_seq_cst);
}

bool tt_ring_announce(tt_ring_in *ring)
{
    atomic_exchange_explicit(ring->consumed, ring->position, memory_order_seq_cst);
    return atomic_load_explicit(&ring->control->starved, memory_order_seq_cst) != 0;
}
