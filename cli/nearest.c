/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest.c - edit distance in which swapping two neighbours counts as one slip. */
#include <string.h>

#include "nearest.h"

enum { WORD_MAX = 63 };

static size_t min3(size_t a, size_t b, size_t c)
{
    const size_t low = a < b ? a : b;
    return low < c ? low : c;
}

static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1];
    const size_t a_length = strnlen(a, WORD_MAX);
    const size_t b_length = strnlen(b, WORD_MAX);
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

void tt_nearest_init(tt_nearest *nearest, const char *wanted)
{
    /* A guess further off than a third of the word would be noise. */
    *nearest = (tt_nearest){.wanted = wanted, .best_distance = strnlen(wanted, WORD_MAX) / 3 + 2};
}

void tt_nearest_offer(tt_nearest *nearest, const char *candidate)
{
    const size_t candidate_distance = distance(nearest->wanted, candidate);
    if (candidate_distance < nearest->best_distance) {
        nearest->best = candidate;
        nearest->best_distance = candidate_distance;
    }
}
