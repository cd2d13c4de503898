/* SPDX-License-Identifier: Apache-2.0
 *
 * early_verdict.h - verdicts and disputes that arrive before their op is submitted on this rank.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  as control.h.
 */
#ifndef TUTTI_CONTROL_VERDICT_EARLY_VERDICT_H
#define TUTTI_CONTROL_VERDICT_EARLY_VERDICT_H

#include "aggregate/aggregate.h"
#include "control/control.h"
#include "control/op.h"

/* Why an op failed on this rank; sent to peers that probe it. */
typedef struct tt_reason {
    tt_head key;
    char text[TT_ERROR_BYTES];
} tt_reason;

/* A verdict or dispute that arrived before its op was submitted on this rank. */
typedef struct tt_early_verdict {
    struct tt_early_verdict *next;
    tt_head key;
    uint32_t peer;
    bool has_verdict; /* else a dispute: the op sends its claim */
    tt_status status;
    char text[TT_ERROR_BYTES];
} tt_early_verdict;

/* Do two keys, as received from these peers, name the same op? */
bool tt_early_verdict_same_key(const tt_head *a, uint32_t peer_a, const tt_head *b,
                               uint32_t peer_b);
/* Keep a verdict or (NULL) a dispute until the op is submitted. */
void tt_early_verdict_add(tt_control *control, uint32_t peer, const tt_head *key,
                          const tt_failure *verdict);
/* Apply an early verdict or dispute to `op`; true if the op must not run. */
bool tt_early_verdict_take(tt_op *op);
/* The same for an op that this rank objects to: only a verdict is applied. The objection answers a
 * dispute; a claim would blame this rank for arguments it did not pass. */
bool tt_early_verdict_take_if_verdict(tt_op *op);
/* Is there an entry for the op that `key` names, of a pair that with `peer`? */
bool tt_early_verdict_has(tt_control *control, uint32_t peer, const tt_head *key);
/* Was a verdict sent to all members? */
bool tt_early_verdict_is_decided(tt_control *control, const tt_head *key);
void tt_early_verdict_forget_set(tt_control *control, uint32_t set_id);
void tt_early_verdict_release_all(tt_control *control);

#endif
