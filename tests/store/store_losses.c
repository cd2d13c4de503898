/* SPDX-License-Identifier: Apache-2.0
 *
 * store_losses.c - what deaths of servers may do to coded sums; see store_run.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "store/store_run.h"

enum { PARTS_MAX = 256 };

struct losses {
    const scene *drawn;
    oracle *known;
    tt_split_part parts[TENSORS_MAX][PARTS_MAX];
    uint32_t part_count[TENSORS_MAX];
    /* Hash of what was read of a part; 0: nothing was. */
    uint64_t read[TENSORS_MAX][ITERATIONS_MAX + 1][PARTS_MAX];
};

losses *losses_make(const scene *drawn, oracle *known)
{
    losses *all = calloc(1, sizeof(*all));
    all->drawn = drawn;
    all->known = known;
    for (uint32_t i = 0; i < drawn->tensors; i++) {
        char name[16];
        const int length = snprintf(name, sizeof(name), "t%u", i);
        const uint64_t bytes = drawn->counts[i] * tt_dtype_bytes(drawn->dtype);
        const tt_split split = coded_split(drawn, i);
        all->part_count[i] = tt_split_cut(&split, tt_hash64(name, (size_t)length, 0), bytes,
                                          all->parts[i], PARTS_MAX);
        TT_ASSERT(all->part_count[i] <= PARTS_MAX);
    }
    return all;
}

void losses_free(losses *all)
{
    free(all);
}

/* Could the values be those of some loss? */
static bool has_bits(losses *all, uint32_t tensor, uint32_t iterations, const tt_split_part *part,
                     const void *values)
{
    bool has = false;
    for (uint32_t reset = 1; reset < iterations && !has; reset++) {
        const uint8_t *wanted = oracle_value_after(all->known, tensor, iterations, reset);
        has = memcmp(values, wanted + part->first, part->bytes) == 0;
    }
    return has;
}

bool losses_are_equal(losses *all, const damage *done, uint32_t tensor, uint32_t iterations,
                      const void *values)
{
    const tt_split split = coded_split(all->drawn, tensor);
    const uint8_t *wanted = oracle_value(all->known, tensor, iterations);
    bool are = true;
    for (uint32_t i = 0; i < all->part_count[tensor] && are; i++) {
        const tt_split_part *part = &all->parts[tensor][i];
        const uint8_t *read = (const uint8_t *)values + part->first;
        const uint32_t home = tt_split_rank(&split, part->owner);
        uint64_t *first = &all->read[tensor][iterations][i];
        are = memcmp(read, wanted + part->first, part->bytes) == 0 ||
              ((done->is_killed[home] || done->is_severed[home]) &&
               has_bits(all, tensor, iterations, part, read));
        const uint64_t hash = tt_hash64(read, part->bytes, 0) | 1;
        are = are && (*first == 0 || *first == hash);
        *first = hash;
    }
    return are;
}
