/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest.h - "did you mean": which known word a mistyped one is closest to.
 *
 * Only a near word is offered: at most one slip in three letters, and never as many slips as there
 * are letters. What every candidate begins with ("TUTTI_", "--") is not counted as letters.
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
    const char *prefix;          /* what all candidates begin with */
    char best[TT_NEAREST_BYTES]; /* with the prefix; "" until something near was offered */
    size_t best_distance;
} tt_nearest;

/* Both are borrowed. */
void tt_nearest_init(tt_nearest *nearest, const char *prefix, const char *wanted);
/* `candidate` without the prefix. */
void tt_nearest_offer(tt_nearest *nearest, const char *candidate);

#endif
