/* SPDX-License-Identifier: Apache-2.0
 *
 * phase.h - the phases of an op, and their transitions.
 *
 * Layer:   control, private.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_CONTROL_PHASE_H
#define TUTTI_CONTROL_PHASE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_op_phase {
    OP_FREE,
    OP_QUEUED,   /* no place in the set's order window yet */
    OP_HELD,     /* has its place, waits for credit */
    OP_RUNNING,  /* in one of its stages, or getting its place */
    OP_DISPUTED, /* descriptors differ; waits for the verdict */
    OP_STOPPING, /* failed; waits until no peer touches its memory */
} tt_op_phase;

/* An op may end, or fail, in every phase but the last one. */
static inline bool tt_op_phase_follows(tt_op_phase from, tt_op_phase to)
{
    enum {
        QUEUED = 1 << OP_QUEUED,
        HELD = 1 << OP_HELD,
        RUNNING = 1 << OP_RUNNING,
        DISPUTED = 1 << OP_DISPUTED,
        STOPPING = 1 << OP_STOPPING,
        ENDS = DISPUTED | STOPPING | 1 << OP_FREE,
    };
    static const uint8_t after[] = {
        [OP_FREE] = RUNNING,
        [OP_QUEUED] = QUEUED | HELD | RUNNING | ENDS, /* QUEUED: its turn, but no place yet */
        [OP_HELD] = RUNNING | ENDS,
        [OP_RUNNING] = QUEUED | HELD | RUNNING | ENDS,
        [OP_DISPUTED] = RUNNING | ENDS, /* RUNNING: a held op that gets credit */
        [OP_STOPPING] = 1 << OP_FREE,
    };
    return (after[from] >> to & 1) != 0;
}

#endif
