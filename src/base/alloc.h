/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc.h - where memory comes from: an interface, the real one, and one that counts and fails.
 *
 * Layer:   base.
 * Threads: tt_allocator_default from any thread; a counting one from one thread at a time.
 * Memory:  zeroed, aligned for any type, and released with the size it was allocated with.
 */
#ifndef TUTTI_BASE_ALLOC_H
#define TUTTI_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tt_allocator {
    void *(*allocate)(void *user, size_t bytes); /* zeroed, or NULL */
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} tt_allocator;

extern const tt_allocator tt_allocator_default;

/* NULL without memory, or if count * elem_bytes overflows or is 0. */
void *tt_allocate(const tt_allocator *allocator, size_t count, size_t elem_bytes);

/* NULL is ignored; otherwise with the arguments of tt_allocate. */
void tt_release(const tt_allocator *allocator, void *memory, size_t count, size_t elem_bytes);

/* For tests: fails the fail_at-th allocation (from 1; 0 never), once or from then on. */
typedef struct tt_counting_allocator {
    uint64_t allocation_count; /* attempts, failed ones included */
    uint64_t live_count;
    uint64_t live_bytes;
    uint64_t fail_at;
    bool fail_forever;
} tt_counting_allocator;

/* The interface to `counter`, which must outlive it. */
tt_allocator tt_counting_allocator_borrow(tt_counting_allocator *counter);

#endif
