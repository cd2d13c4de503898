/* SPDX-License-Identifier: Apache-2.0
 *
 * meeting.h - what workers agree on before and after a call on a store that all of them make.
 *
 * Each worker brings a notice; all get the notices of all, by an all-gather.
 *
 * Layer:   api, private.
 * Threads: the caller's; it has not entered.
 * Memory:  as each comment says.
 */
#ifndef TUTTI_API_STORE_MEETING_H
#define TUTTI_API_STORE_MEETING_H

#include "api/store/store_calls.h"

enum { MEETING_PATH_BYTES = 256 };

/* What a worker brings to a meeting; behind it a byte per server: 1, it is gone. */
typedef struct tt_store_notice {
    int32_t status;
    uint32_t servers; /* of reshard */
    uint64_t clock;
    char path[MEETING_PATH_BYTES];
    char text[TT_TEXT_BYTES];
} tt_store_notice;

/* What the first meeting of a call finds out. */
typedef struct tt_store_plan {
    uint64_t clock;
    uint8_t *may_own; /* [servers], or NULL: all may; the caller frees it */
} tt_store_plan;

/* What this worker knows. `is_gone`: NULL, or a byte per server. */
tt_sync_look tt_store_look_at(const tutti_store *store, uint8_t *is_gone);
/* Every worker's notice, in the order of workers; the caller frees it. `is_gone` as above. */
tutti_status tt_store_gather(tutti_store *store, const tt_store_notice *own, const uint8_t *is_gone,
                             uint8_t **notices_out);
tt_store_notice tt_store_notice_of(const tutti_store *store, const uint8_t *notices, int worker);
/* The failure of the first worker that has one. */
tutti_status tt_store_first_failure(const tutti_store *store, const uint8_t *notices);
/* A meeting about what a call has come to: the last failure of this thread is known to all workers
 * then. */
tutti_status tt_store_agree(tutti_store *store, tutti_status status);
/* Only the first `servers_max` servers may own parts, and of these the ones that live. */
tutti_status tt_store_make_plan(const tutti_store *store, const uint8_t *notices, int servers_max,
                                tt_store_plan *plan_out);

#endif
