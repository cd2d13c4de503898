/* SPDX-License-Identifier: Apache-2.0
 *
 * ranges.h - a set of numbers as ascending ranges: short when members are consecutive.
 *
 * Layer:   negotiate, private.
 * Threads: one at a time per set.
 * Memory:  the caller's allocator; one array, grown by doubling.
 */
#ifndef TUTTI_NEGOTIATE_RANGES_H
#define TUTTI_NEGOTIATE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"

/* Both ends are included. */
typedef struct tt_range {
    uint32_t first, last;
} tt_range;

/* All zeros is the empty set. Ranges neither touch nor overlap. */
typedef struct tt_ranges {
    tt_range *items;
    uint32_t count, capacity;
    uint64_t total; /* numbers in the set */
} tt_ranges;

void tt_ranges_release(tt_ranges *ranges, const tt_allocator *allocator);
void tt_ranges_clear(tt_ranges *ranges);
bool tt_ranges_has(const tt_ranges *ranges, uint32_t number);
tt_status tt_ranges_add(tt_ranges *ranges, const tt_allocator *allocator, tt_range range);
tt_status tt_ranges_add_all(tt_ranges *ranges, const tt_allocator *allocator,
                            const tt_ranges *more);

/* "0-3, 7" in the numbers of `names` (NULL: as they are), at most a dozen ranges. */
void tt_ranges_print(const tt_ranges *ranges, const uint32_t *names, tt_text *text);

#endif
