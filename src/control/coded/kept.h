/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.h - floats that calls replace as a whole, or not at all: residuals of error feedback.
 *
 * A call reads the current floats and writes the next ones elsewhere. If it succeeds, they become
 * the current ones; if it fails, nothing has changed. Beside them the floats of the last commit are
 * kept, so that a whole step can be undone.
 *
 *  (1) `now` and `last` are never written, but by tt_kept_scale and tt_kept_clear.
 *  (2) Two buffers suffice while each commit follows at most one call; a third is allocated for a
 *      second call between two commits, and stays.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  from the platform, zeroed at first; released by tt_kept_clear.
 */
#ifndef TUTTI_CONTROL_CODED_KEPT_H
#define TUTTI_CONTROL_CODED_KEPT_H

#include "platform/platform.h"

enum { TT_KEPT_BUFFERS = 3 };

typedef struct tt_kept {
    float *buffers[TT_KEPT_BUFFERS];
    uint64_t count;          /* floats of each; 0: none are kept */
    uint8_t now, last, next; /* indices: current, of the last commit, written by the call */
} tt_kept;

/* Keep `count` floats, zeros at first. NO_MEMORY: nothing is kept. */
tt_status tt_kept_make(tt_kept *kept, tt_platform *platform, uint64_t count);
/* True: zeros, now and at the last commit, so that nothing is lost without them. */
bool tt_kept_is_zero(const tt_kept *kept);
/* Release all. */
void tt_kept_clear(tt_kept *kept, tt_platform *platform);

/* A call begins: it reads tt_kept_now and writes tt_kept_next. NO_MEMORY: it cannot. */
tt_status tt_kept_begin(tt_kept *kept, tt_platform *platform);
static inline float *tt_kept_now(const tt_kept *kept)
{
    return kept->count > 0 ? kept->buffers[kept->now] : NULL;
}
static inline float *tt_kept_next(const tt_kept *kept)
{
    return kept->count > 0 ? kept->buffers[kept->next] : NULL;
}
/* The call has succeeded. */
static inline void tt_kept_turn(tt_kept *kept)
{
    kept->now = kept->next;
}
static inline void tt_kept_commit(tt_kept *kept)
{
    kept->last = kept->now;
}
/* As they were at the last commit. */
static inline void tt_kept_undo(tt_kept *kept)
{
    kept->now = kept->last;
}
/* Multiply all of them. */
void tt_kept_scale(tt_kept *kept, float factor);
uint64_t tt_kept_bytes(const tt_kept *kept);
/* Sum of squares of the current ones. */
double tt_kept_squares(const tt_kept *kept);

#endif
