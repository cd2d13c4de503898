/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest.c - edit distance in which swapping two neighbours counts as one edit. */
#include "base/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LETTERS_PER_SLIP = 3 };

static size_t min3(size_t a, size_t b, size_t c)
{
    const size_t low = a < b ? a : b;
    return low < c ? low : c;
}

/* Both are shorter than TT_NEAREST_BYTES. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][TT_NEAREST_BYTES];
    const size_t a_length = strlen(a);
    const size_t b_length = strlen(b);
    for (size_t j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = min3(above[j] + 1, row[j - 1] + 1, change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_above[j - 2] + 1 < row[j]) {
                row[j] = two_above[j - 2] + 1;
            }
        }
    }
    return rows[a_length % 3][b_length];
}

void tt_nearest_init(tt_nearest *nearest, const char *prefix, const char *wanted)
{
    const size_t prefix_length = strlen(prefix);
    const bool is_comparable =
        strncmp(wanted, prefix, prefix_length) == 0 && strlen(wanted) < TT_NEAREST_BYTES;
    *nearest = (tt_nearest){.wanted = is_comparable ? wanted + prefix_length : NULL,
                            .prefix = prefix,
                            .best_distance = SIZE_MAX};
}

void tt_nearest_offer(tt_nearest *nearest, const char *candidate)
{
    const size_t prefix_length = strlen(nearest->prefix);
    const size_t length = strlen(candidate);
    if (nearest->wanted == NULL || prefix_length + length >= TT_NEAREST_BYTES) {
        return;
    }
    const size_t letters = strlen(nearest->wanted);
    const size_t allowed = (letters + LETTERS_PER_SLIP - 1) / LETTERS_PER_SLIP;
    const size_t found = distance(nearest->wanted, candidate);
    if (found <= allowed && found < letters && found < nearest->best_distance) {
        memcpy(nearest->best, nearest->prefix, prefix_length);
        memcpy(nearest->best + prefix_length, candidate, length + 1);
        nearest->best_distance = found;
    }
}
