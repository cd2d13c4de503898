/* SPDX-License-Identifier: Apache-2.0
 *
 * quick.h - calls that repeat, small ones and those whose memory is shared.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  none: the record of a call is kept in its op.
 */
#ifndef TUTTI_CONTROL_QUICK_H
#define TUTTI_CONTROL_QUICK_H

#include "control/control_internal.h"

/* A claim's salt: another table of costs might choose another algorithm, another segment cuts
 * otherwise. */
static inline uint64_t tt_op_salt(const tt_control *control, uint64_t salt, uint32_t segment_bytes)
{
    const uint64_t cut = segment_bytes ^ TT_SEGMENT_BYTES; /* usually 0 */
    return salt ^ control->costs_hash ^ cut << 32;
}

/* Of an op that has ended well: may its record serve the next call as it is? */
bool tt_quick_keeps(tt_op *op);
/* Submit a request that repeats an earlier call; false: it goes the long way. */
bool tt_quick_submit(tt_control *control, tt_request *request);
/* A frame for the call that quick.c began; false: it is none. */
bool tt_quick_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload);
/* Of a planned op that may serve: its name is no longer taken, but its record is kept. One op has
 * such a record, the last. */
void tt_quick_rest(tt_op *op);
/* Nothing is kept any more. */
void tt_quick_release(tt_control *control);
/* There is no memory for another op: let go of one that is kept; false: there is none. */
bool tt_quick_give_back(tt_control *control);
/* What was chosen holds no more. */
void tt_quick_forget(tt_control *control);

#endif
