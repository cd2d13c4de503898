/* SPDX-License-Identifier: Apache-2.0
 *
 * fate.h - words about ops that are to come, and about some that have failed.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  as control.h.
 */
#ifndef TUTTI_CONTROL_VERDICT_FATE_H
#define TUTTI_CONTROL_VERDICT_FATE_H

#include "aggregate/aggregate.h"
#include "control/control.h"
#include "control/order.h"

/* Why an op failed here, for a peer that asks. */
typedef struct tt_reason {
    tt_head key;
    char text[TT_ERROR_BYTES];
} tt_reason;

/* What was said about an op before it was submitted here. */
typedef struct tt_fate {
    struct tt_fate *next;
    tt_head key;
    uint32_t peer;
    bool is_verdict; /* else a dispute: make a claim */
    tt_status status;
    char text[TT_ERROR_BYTES];
} tt_fate;

/* Do two keys, as they arrive from these peers, name the same op? */
bool tt_fate_same_key(const tt_head *a, uint32_t peer_a, const tt_head *b, uint32_t peer_b);
/* Remember a verdict or (NULL) a dispute until the op comes. */
void tt_fate_add(tt_control *control, uint32_t peer, const tt_head *key, const tt_failure *verdict);
/* What was said about `op` before it came; true if it is not to run. */
bool tt_fate_take(tt_op *op);
/* The same for an op that this rank objects to: only a verdict counts. A dispute is answered by the
 * objection; a claim would blame this rank for what it does not ask for. */
bool tt_fate_take_verdict(tt_op *op);
/* Is a failure known for the op of the pair with `peer` that `key` names? */
bool tt_fate_has(const tt_control *control, uint32_t peer, const tt_head *key);
/* Is a failure known for the op that `key` names? */
bool tt_fate_is_known(const tt_control *control, const tt_head *key);
/* Was a verdict given to all members? */
bool tt_fate_is_decided(const tt_control *control, const tt_head *key);
void tt_fate_forget_set(tt_control *control, uint32_t set_id);
void tt_fate_release_all(tt_control *control);

#endif
