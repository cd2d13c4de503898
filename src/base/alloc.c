/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdlib.h>

#include "base/assert.h"

static void *default_allocate(void *user, size_t bytes)
{
    (void)user;
    return calloc(1, bytes);
}

static void default_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

void *tt_allocate(const tt_allocator *allocator, size_t count, size_t elem_bytes)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, elem_bytes, &bytes) || bytes == 0) {
        return NULL;
    }
    return allocator->allocate(allocator->user, bytes);
}

void tt_release(const tt_allocator *allocator, void *memory, size_t count, size_t elem_bytes)
{
    if (memory != NULL) {
        allocator->release(allocator->user, memory, count * elem_bytes);
    }
}

static void *counting_allocate(void *user, size_t bytes)
{
    tt_counting_allocator *counter = user;
    counter->allocation_count++;
    const bool is_due = counter->fail_at != 0 && counter->allocation_count >= counter->fail_at;
    if (is_due && (counter->fail_forever || counter->allocation_count == counter->fail_at)) {
        return NULL;
    }
    void *memory = calloc(1, bytes);
    if (memory != NULL) {
        counter->live_count++;
        counter->live_bytes += bytes;
    }
    return memory;
}

static void counting_release(void *user, void *memory, size_t bytes)
{
    tt_counting_allocator *counter = user;
    TT_ASSERT(counter->live_count > 0);
    TT_ASSERT(counter->live_bytes >= bytes);
    counter->live_count--;
    counter->live_bytes -= bytes;
    free(memory);
}

tt_allocator tt_counting_allocator_borrow(tt_counting_allocator *counter)
{
    return (tt_allocator){
        .allocate = counting_allocate, .release = counting_release, .user = counter};
}

const tt_allocator tt_allocator_default = {
    .allocate = default_allocate,
    .release = default_release,
    .user = NULL,
};
