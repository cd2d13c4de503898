/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.c - first-fit heap with coalescing over a sparse shared file.
 *
 * Free and used blocks form one list in order of address; two free blocks are never adjacent.
 * Allocation happens when tensors are created, so a linear walk is good enough.
 *
 * Invariants:
 *  (1) The blocks cover the span without gap or overlap.
 *  (2) Pages of a used block exist, so that no store can end in SIGBUS.
 *  (3) No byte of shared memory is ever read to make a decision.
 *  (4) Pages are populated in pieces, and only while the host and its control groups have more than
 *      a reserve left: at their limit the kernel kills the process instead of failing the call.
 */
#include "transport/shm/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/memory.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    LINE_BYTES = 64,
    PAGE_BYTES = 4096,
    PAGED_BYTES_MIN = 64 * 1024,      /* from here on blocks are whole pages */
    HOLE_BYTES_MIN = 1024 * 1024,     /* from here on release gives the pages back */
    HUGE_BYTES_MIN = 4 * 1024 * 1024, /* from here on blocks begin at huge pages */
    COLLAPSE_BYTES_MIN = 512 * 1024,  /* from here on lasting blocks are put into huge pages */
    HUGE_PAGE_BYTES = 2 * 1024 * 1024,
    UNCHECKED_BYTES_MAX = 1024 * 1024, /* of small blocks, before free memory is checked again */
};

typedef struct block {
    struct block *previous, *next;
    uint64_t offset, bytes;
    bool used;
} block;

struct tt_arena {
    tt_arena_span span;
    pthread_mutex_t mutex; /* guards everything below */
    block *first;
    uint64_t bytes_used;
    uint64_t bytes_unchecked; /* allocated since free memory was last checked */
};

static block *block_create(uint64_t offset, uint64_t bytes)
{
    block *created = calloc(1, sizeof *created);
    if (created != NULL) {
        created->offset = offset;
        created->bytes = bytes;
    }
    return created;
}

static void block_insert_after(block *left, block *right)
{
    right->previous = left;
    right->next = left->next;
    if (left->next != NULL) {
        left->next->previous = right;
    }
    left->next = right;
}

/* Merge `right`, a free neighbour, into `left`. */
static void block_absorb(block *left, block *right)
{
    TT_ASSERT(left->offset + left->bytes == right->offset);
    left->bytes += right->bytes;
    left->next = right->next;
    if (right->next != NULL) {
        right->next->previous = left;
    }
    free(right);
}

static void block_free(block *freed)
{
    freed->used = false;
    if (freed->next != NULL && !freed->next->used) {
        block_absorb(freed, freed->next);
    }
    if (freed->previous != NULL && !freed->previous->used) {
        freed = freed->previous;
        block_absorb(freed, freed->next);
    }
}

/* Split so that [start, start + bytes) of the free block `found` is a used block of its own. */
static block *block_carve(block *found, uint64_t start, uint64_t bytes)
{
    const uint64_t end = found->offset + found->bytes;
    block *taken = found;
    if (start > found->offset) {
        taken = block_create(start, end - start);
        if (taken == NULL) {
            return NULL;
        }
        found->bytes = start - found->offset;
        block_insert_after(found, taken);
    }
    if (start + bytes < end) {
        block *rest = block_create(start + bytes, end - start - bytes);
        if (rest == NULL) {
            block_free(taken);
            return NULL;
        }
        taken->bytes = bytes;
        block_insert_after(taken, rest);
    }
    taken->used = true;
    return taken;
}

static block *block_find_fit(block *first, uint64_t bytes, uint64_t alignment, uint64_t *start_out)
{
    for (block *at = first; at != NULL; at = at->next) {
        const uint64_t start = tt_round_up(at->offset, alignment);
        if (!at->used && start + bytes <= at->offset + at->bytes) {
            *start_out = start;
            return at;
        }
    }
    return NULL;
}

static void punch_hole(const tt_arena *arena, const block *target)
{
    /* On failure the pages merely stay. */
    (void)fallocate(arena->span.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)(arena->span.file_offset + target->offset), (off_t)target->bytes);
}

static void explain(char *why_out, const char *format, uint64_t wanted, uint64_t limit)
{
    if (why_out != NULL) {
        snprintf(why_out, TT_ARENA_WHY_BYTES, format, (unsigned long long)wanted,
                 (unsigned long long)limit);
    }
}

/* Populate a piece of a block with huge pages. A collapse works whatever the host's setting for
 * shared memory is, and is much faster than as many small pages: one small page of each huge page
 * is populated, and the kernel adds the rest. Bytes beside the piece are kept. */
static bool collapse(const tt_arena *arena, uint64_t offset, uint64_t bytes)
{
    const uint64_t first = offset / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    const uint64_t end = tt_round_up(offset + bytes, HUGE_PAGE_BYTES);
    for (uint64_t at = first; at < end; at += HUGE_PAGE_BYTES) {
        if (madvise(arena->span.memory + at, PAGE_BYTES, MADV_POPULATE_WRITE) != 0) {
            return false;
        }
    }
    return madvise(arena->span.memory + first, end - first, MADV_COLLAPSE) == 0;
}

/* Populate the pages of a piece. */
static tt_status make_pages(const tt_arena *arena, uint64_t offset, uint64_t bytes,
                            const block *target, bool is_lasting)
{
    uint8_t *memory = arena->span.memory + offset;
    if (is_lasting && target->bytes >= COLLAPSE_BYTES_MIN && collapse(arena, offset, bytes)) {
        return TT_OK;
    }
    if (target->bytes >= HUGE_BYTES_MIN) {
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
        if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) {
            return TT_OK;
        }
    }
    return fallocate(arena->span.descriptor, FALLOC_FL_KEEP_SIZE,
                     (off_t)(arena->span.file_offset + offset), (off_t)bytes) == 0
               ? TT_OK
               : TT_ERR_NO_MEMORY;
}

/* Bytes of the next piece of a block to populate, of `bytes` that are left of it; 0: none, the host
 * or a control group is at its limit. */
static uint64_t next_piece(tt_arena *arena, uint64_t bytes, char *why_out)
{
    uint64_t available = 0;
    if (bytes < PAGED_BYTES_MIN && arena->bytes_unchecked + bytes <= UNCHECKED_BYTES_MAX) {
        arena->bytes_unchecked += bytes;
        return bytes;
    }
    const uint64_t piece = tt_memory_next_piece(bytes, &available);
    arena->bytes_unchecked = 0;
    if (piece == 0) {
        explain(why_out,
                "shared arena: %llu bytes wanted, the host or its control group has %llu bytes "
                "left, some of which are kept in reserve",
                bytes, available);
    }
    return piece;
}

/* Populate the pages of `target` with zeros, whatever lay there before. */
static tt_status block_populate(tt_arena *arena, const block *target, bool is_lasting,
                                char *why_out)
{
    const uint64_t end = target->offset + target->bytes;
    if (target->bytes >= HOLE_BYTES_MIN) {
        punch_hole(arena, target);
    }
    for (uint64_t at = target->offset, piece; at < end; at += piece) {
        piece = next_piece(arena, end - at, why_out);
        if (piece == 0) {
            return TT_ERR_NO_MEMORY;
        }
        if (make_pages(arena, at, piece, target, is_lasting) != TT_OK) {
            explain(why_out, "shared arena: no pages for %llu bytes (error %llu)", target->bytes,
                    (uint64_t)errno);
            return TT_ERR_NO_MEMORY;
        }
    }
    if (target->bytes < HOLE_BYTES_MIN) {
        memset(arena->span.memory + target->offset, 0, target->bytes);
    }
    return TT_OK;
}

tt_status tt_arena_create(const tt_arena_span *span, tt_arena **arena_out)
{
    TT_ASSERT(span->bytes > 0);
    TT_ASSERT(span->bytes % HUGE_PAGE_BYTES == 0);
    tt_arena *arena = calloc(1, sizeof *arena);
    block *all = block_create(0, span->bytes);
    if (arena == NULL || all == NULL) {
        free(arena);
        free(all);
        return TT_ERR_NO_MEMORY;
    }
    arena->span = *span;
    arena->first = all;
    pthread_mutex_init(&arena->mutex, NULL);
    *arena_out = arena;
    return TT_OK;
}

void tt_arena_destroy(tt_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    block *next = NULL;
    for (block *at = arena->first; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    pthread_mutex_destroy(&arena->mutex);
    free(arena);
}

static uint64_t block_bytes_for(uint64_t bytes)
{
    return tt_round_up(bytes, bytes >= PAGED_BYTES_MIN ? PAGE_BYTES : LINE_BYTES);
}

static uint64_t alignment_for(uint64_t bytes)
{
    if (bytes >= HUGE_BYTES_MIN) {
        return HUGE_PAGE_BYTES;
    }
    return bytes >= PAGED_BYTES_MIN ? PAGE_BYTES : LINE_BYTES;
}

static tt_status allocate_locked(tt_arena *arena, size_t bytes, bool is_lasting, void **memory_out,
                                 char *why_out)
{
    const uint64_t rounded = block_bytes_for(bytes);
    uint64_t start = 0;
    block *found = block_find_fit(arena->first, rounded, alignment_for(rounded), &start);
    if (found == NULL) {
        explain(why_out, "shared arena: no room for %llu bytes; %llu bytes are in use", bytes,
                arena->bytes_used);
        return TT_ERR_NO_MEMORY;
    }
    block *taken = block_carve(found, start, rounded);
    if (taken == NULL) {
        explain(why_out, "heap: no memory to describe a block of %llu bytes", bytes, 0);
        return TT_ERR_NO_MEMORY;
    }
    const tt_status status = block_populate(arena, taken, is_lasting, why_out);
    if (status != TT_OK) {
        if (taken->bytes >= HOLE_BYTES_MIN) {
            punch_hole(arena, taken);
        }
        block_free(taken);
        return status;
    }
    arena->bytes_used += taken->bytes;
    *memory_out = arena->span.memory + taken->offset;
    return TT_OK;
}

static tt_status allocate(tt_arena *arena, size_t bytes, bool is_lasting, void **memory_out,
                          char *why_out)
{
    if (bytes == 0 || bytes > arena->span.bytes) {
        explain(why_out, "shared arena: %llu bytes wanted, it holds 1 to %llu bytes", bytes,
                arena->span.bytes);
        return bytes == 0 ? TT_ERR_BAD_ARGUMENT : TT_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&arena->mutex);
    const tt_status status = allocate_locked(arena, bytes, is_lasting, memory_out, why_out);
    pthread_mutex_unlock(&arena->mutex);
    return status;
}

tt_status tt_arena_allocate(tt_arena *arena, size_t bytes, void **memory_out,
                            char why_out[TT_ARENA_WHY_BYTES])
{
    return allocate(arena, bytes, false, memory_out, why_out);
}

tt_status tt_arena_allocate_lasting(tt_arena *arena, size_t bytes, void **memory_out,
                                    char why_out[TT_ARENA_WHY_BYTES])
{
    return allocate(arena, bytes, true, memory_out, why_out);
}

tt_status tt_arena_release(tt_arena *arena, void *memory)
{
    uint64_t offset = 0;
    if (!tt_arena_locate(arena, memory, 1, &offset)) {
        return TT_ERR_BAD_ARGUMENT;
    }
    pthread_mutex_lock(&arena->mutex);
    block *at = arena->first;
    while (at != NULL && at->offset != offset) {
        at = at->next;
    }
    const bool found = at != NULL && at->used;
    if (found) {
        if (at->bytes >= HOLE_BYTES_MIN) {
            punch_hole(arena, at);
        }
        arena->bytes_used -= at->bytes;
        block_free(at);
    }
    pthread_mutex_unlock(&arena->mutex);
    return found ? TT_OK : TT_ERR_BAD_ARGUMENT;
}

bool tt_arena_locate(const tt_arena *arena, const void *memory, size_t bytes, uint64_t *offset_out)
{
    const uintptr_t start = (uintptr_t)arena->span.memory;
    const uintptr_t at = (uintptr_t)memory;
    if (at < start || at - start > arena->span.bytes || bytes > arena->span.bytes - (at - start)) {
        return false;
    }
    *offset_out = at - start;
    return true;
}

uint64_t tt_arena_bytes_used(tt_arena *arena)
{
    pthread_mutex_lock(&arena->mutex);
    const uint64_t bytes_used = arena->bytes_used;
    pthread_mutex_unlock(&arena->mutex);
    return bytes_used;
}
