/* SPDX-License-Identifier: Apache-2.0
 *
 * case.h - what the first member collects about a disputed op: members, claims, verdict.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  a record per disputed op, at most CASES_MAX per peer; released when it is decided and
 *          no member can probe it any more, with the op, or with the set.
 */
#ifndef TUTTI_CONTROL_VERDICT_CASE_H
#define TUTTI_CONTROL_VERDICT_CASE_H

#include "control/control_internal.h"

/* Head of a frame to send about the op that `key` (as received) names. */
tt_head tt_case_reply(const tt_control *control, const tt_head *key, tt_frame_kind kind);
/* Does this rank decide about the op that `key` names? */
bool tt_case_is_own(const tt_control *control, const tt_head *key);
/* The case of the op that `key` names, made if there is none. NULL: this rank does not decide about
 * it, it is over, or there is no memory. */
tt_case *tt_case_of(tt_control *control, uint32_t peer, const tt_head *key);
/* NULL: there is none. */
tt_case *tt_case_find(const tt_control *control, uint32_t peer, const tt_head *key);
/* Number of a rank among the members of the case, and back. */
uint32_t tt_case_member(const tt_control *control, const tt_case *found, uint32_t rank);
uint32_t tt_case_rank(const tt_control *control, const tt_case *found, uint32_t member);
/* "rank 3" or "ranks 0, 2" of the members for which `wanted` is true. */
void tt_case_add_ranks(tt_text *text, const tt_control *control, const tt_case *found,
                       const bool *wanted);
/* Decide about the op that `key` names, once. Needs no memory: without a case a second verdict may
 * follow, which members ignore. No verdict is sent to `except` (a rank), which has failed already.
 */
void tt_case_decide(tt_control *control, uint32_t peer, tt_head key, const tt_failure *failure,
                    uint32_t except);
/* `member` claims this; the last claim decides. `found` NULL: there is no case any more. */
void tt_case_claim(tt_control *control, tt_case *found, uint32_t member, const tt_claim *claim);
/* Request the claims of all members, this rank included. Afterwards the case may be over. */
void tt_case_dispute(tt_control *control, tt_case *found);
/* Decide cases that have waited long enough for claims; forget those no member probes any more. */
void tt_case_patrol(tt_control *control, uint64_t now);

#endif
