/* SPDX-License-Identifier: Apache-2.0
 *
 * ranges.c - a sorted array of ranges; adding one merges those it touches. */
#include "negotiate/ranges.h"

#include <string.h>

#include "base/assert.h"

void tt_ranges_release(tt_ranges *ranges, const tt_allocator *allocator)
{
    tt_release(allocator, ranges->items, ranges->capacity, sizeof(tt_range));
    *ranges = (tt_ranges){0};
}

void tt_ranges_clear(tt_ranges *ranges)
{
    ranges->count = 0;
    ranges->total = 0;
}

/* The first range that ends at `number` or later. */
static uint32_t place_of(const tt_ranges *ranges, uint64_t number)
{
    uint32_t low = 0, high = ranges->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (ranges->items[middle].last < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool tt_ranges_has(const tt_ranges *ranges, uint32_t number)
{
    const uint32_t at = place_of(ranges, number);
    return at < ranges->count && ranges->items[at].first <= number;
}

static tt_status reserve(tt_ranges *ranges, const tt_allocator *allocator)
{
    if (ranges->count < ranges->capacity) {
        return TT_OK;
    }
    const uint32_t capacity = ranges->capacity == 0 ? 2 : 2 * ranges->capacity;
    tt_range *items = tt_allocate(allocator, capacity, sizeof(tt_range));
    if (items == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (ranges->count > 0) {
        memcpy(items, ranges->items, ranges->count * sizeof(tt_range));
    }
    tt_release(allocator, ranges->items, ranges->capacity, sizeof(tt_range));
    ranges->items = items;
    ranges->capacity = capacity;
    return TT_OK;
}

static uint64_t length_of(tt_range range)
{
    return (uint64_t)range.last - range.first + 1;
}

tt_status tt_ranges_add(tt_ranges *ranges, const tt_allocator *allocator, tt_range range)
{
    TT_ASSERT(range.first <= range.last);
    TT_TRY(reserve(ranges, allocator));
    /* [at, end) are the ranges that overlap or touch the new one. */
    const uint32_t at = place_of(ranges, range.first > 0 ? range.first - 1 : 0);
    uint32_t end = at;
    while (end < ranges->count && ranges->items[end].first <= (uint64_t)range.last + 1) {
        const tt_range old = ranges->items[end++];
        range.first = old.first < range.first ? old.first : range.first;
        range.last = old.last > range.last ? old.last : range.last;
        ranges->total -= length_of(old);
    }
    TT_ASSERT(at == 0 || (uint64_t)ranges->items[at - 1].last + 1 < range.first);
    memmove(ranges->items + at + 1, ranges->items + end, (ranges->count - end) * sizeof(tt_range));
    ranges->items[at] = range;
    ranges->count = ranges->count - (end - at) + 1;
    ranges->total += length_of(range);
    TT_ASSERT(ranges->count <= ranges->capacity);
    return TT_OK;
}

tt_status tt_ranges_add_all(tt_ranges *ranges, const tt_allocator *allocator, const tt_ranges *more)
{
    for (uint32_t i = 0; i < more->count; i++) {
        TT_TRY(tt_ranges_add(ranges, allocator, more->items[i]));
    }
    return TT_OK;
}

enum { PRINTED_MAX = 12 };

void tt_ranges_print(const tt_ranges *ranges, const uint32_t *names, tt_text *text)
{
    uint32_t printed = 0;
    for (uint32_t i = 0; i < ranges->count; i++) {
        for (uint64_t first = ranges->items[i].first; first <= ranges->items[i].last;) {
            uint64_t last = first; /* names need not be as dense as numbers */
            while (last < ranges->items[i].last &&
                   (names == NULL || names[last + 1] == names[last] + 1)) {
                last = names == NULL ? ranges->items[i].last : last + 1;
            }
            if (printed == PRINTED_MAX) {
                tt_text_add(text, ", ...");
                return;
            }
            tt_text_add(text, "%s%u", printed++ > 0 ? ", " : "",
                        names == NULL ? (uint32_t)first : names[first]);
            if (last > first) {
                tt_text_add(text, "-%u", names == NULL ? (uint32_t)last : names[last]);
            }
            first = last + 1;
        }
    }
}
