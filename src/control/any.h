/* SPDX-License-Identifier: Apache-2.0
 *
 * any.h - receives from any source: matches each to a message.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  a record per set and tag with such a receive, kept as long as the set; a record per
 *          ASK of a peer, kept until this rank sends the requested message.
 */
#ifndef TUTTI_CONTROL_ANY_H
#define TUTTI_CONTROL_ANY_H

#include "control/control_internal.h"

typedef struct tt_any tt_any;
typedef struct tt_anys tt_anys;

/* ---- the receiver ---- */

/* Reserve the counters of a send or receive; false: no memory, and the request is over. */
bool tt_any_has_room(tt_set *set, tt_request *request);
/* Must the request wait until its sender is known, or that of a receive before it? */
bool tt_any_waits(const tt_set *set, const tt_request *request);
/* The op has no peer and no number yet: no frame matches it. */
void tt_any_place(tt_op *op);
/* Wait for its turn; the op may be over on return. `objection`: at its turn it fails with this;
 * NULL: it runs. */
void tt_any_wait(tt_op *op, const tt_failure *objection);
/* The op no longer waits; the queue it was in. */
tt_op_queue *tt_any_leave(tt_op *op);
/* A frame was processed; it may have announced a message. */
void tt_any_arrived(tt_control *control, uint32_t peer, const tt_head *head);
/* `rank` has left. */
void tt_any_left(tt_control *control, uint32_t rank);
void tt_any_patrol(tt_op *op, uint64_t now_ns);
void tt_any_release_set(tt_set *set);

/* ---- the sender ---- */

/* ASK has arrived. */
void tt_any_ask_frame(tt_control *control, uint32_t peer, const tt_head *head);
/* The send has its number: answer an ASK for it. */
void tt_any_answer(const tt_op *op);
void tt_any_forget_set(tt_control *control, uint32_t set_id);
void tt_any_release_all(tt_control *control);

#endif
