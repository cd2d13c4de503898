/* SPDX-License-Identifier: Apache-2.0
 *
 * keep.h - read all of a store, and fill another with it: READ, FILL and OPTIONS.
 *
 * A tensor has planes: 0 is the value, the others are the update's state (momentum; adam's m and
 * v). A worker reads a plane of all parts with one request, and fills one of a tensor that was
 * added without a first value. What was read from one split into owners may fill any other.
 *
 *  (1) A reader sees every push that was answered to any worker before it asked. All planes are of
 *      one moment if no worker pushes meanwhile.
 *  (2) Plane 0 is filled last. It makes the value valid, and with it the part takes the number of
 *      sums made so far; planes that come later, or twice, are dropped.
 *  (3) A plane of state is sent from the version that the next sum is written to. No sum begins
 *      while a send has that version.
 *
 * Update sum has no planes: its value is one iteration's. Residuals of codecs are not planes.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  none.
 */
#ifndef TUTTI_SYNC_KEEP_KEEP_H
#define TUTTI_SYNC_KEEP_KEEP_H

#include "sync/sync_internal.h"

/* Of an update, as OPTIONED carries them. */
typedef struct tt_sync_kept_options {
    float options[TT_UPDATE_OPTIONS_MAX];
    uint32_t change_count;
    struct {
        uint32_t clock, option;
        float value;
    } changes[TT_SYNC_CHANGES_MAX];
} tt_sync_kept_options;

/* ---- owners ---- */

void tt_keep_take_read(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part);
/* Send what the worker wants to read, or wait. */
void tt_keep_answer(tt_sync *sync, tt_owner_part *part, uint32_t worker);
void *tt_keep_take_fill(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                        const void *payload);
/* The payload of a FILL has arrived. */
void tt_keep_filled(tt_sync *sync, tt_owner_part *part, uint32_t worker, const tt_head *head);
void tt_keep_options_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker,
                           const tt_head *head);

/* ---- workers ---- */

static inline bool tt_keep_is_about(const tt_sync_request *request)
{
    return request->verb == TT_STORE_READ || request->verb == TT_STORE_FILL;
}

/* TT_OK: it can be read, or filled. */
tt_status tt_keep_check(const tt_worker_store *store, const tt_sync_request *request, tt_text *why);
/* The kind of its frames, and what they say of the plane. */
void tt_keep_head(const tt_sync_request *request, tt_head *head);
void tt_keep_ask_options(tt_sync *sync, tt_worker_store *store);
void tt_keep_options_reply(tt_sync *sync, tt_worker_store *store, uint32_t peer,
                           const tt_head *head, const void *payload);

#endif
