/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest.h - "did you mean": which known word a mistyped one is closest to.
 *
 * Only a near word is suggested: at most one edit in three letters, and never as many edits as
 * letters. The common prefix of all candidates ("TUTTI_", "--") does not count as letters.
 *
 * Layer:   base.
 * Threads: pure.
 * Memory:  none taken.
 */
#ifndef TUTTI_BASE_NEAREST_H
#define TUTTI_BASE_NEAREST_H

#include <stddef.h>

enum { TT_NEAREST_BYTES = 64 }; /* of a word, its zero included; longer ones have no neighbours */

typedef struct tt_nearest {
    const char *wanted;          /* after the prefix; NULL: it is too long or lacks the prefix */
    const char *prefix;          /* of all candidates */
    char best[TT_NEAREST_BYTES]; /* with the prefix; "" until something near was offered */
    size_t best_distance;
} tt_nearest;

/* Both are borrowed. */
void tt_nearest_init(tt_nearest *nearest, const char *prefix, const char *wanted);
/* `candidate` without the prefix. */
void tt_nearest_offer(tt_nearest *nearest, const char *candidate);

#endif
