/* SPDX-License-Identifier: Apache-2.0
 *
 * store_owner.h - the side of a store that keeps values: what workers have pushed, and clocks.
 *
 * All workers send an owner the settings of a store and the claims of its tensors; the owner
 * compares them. A part has a slot per worker for what is pushed, and two versions of its value:
 * answers are sent from the current one while the next is computed. The parts with something to do
 * are served by urgency, in steps.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  (workers + 2) times a part, and its update's state, from when its tensor is added; of a
 *          table 8 bytes for each row and worker.
 */
#ifndef TUTTI_SYNC_STORE_OWNER_H
#define TUTTI_SYNC_STORE_OWNER_H

#include "sync/owner_records.h"

/* Own parts, then those that are relayed. */
static inline uint32_t tt_owner_part_total(const tt_owner_key *key)
{
    return key->part_count + key->relayed_count;
}

static inline tt_owner_part *tt_owner_part_at(const tt_owner_key *key, uint32_t index)
{
    return index < key->part_count ? &key->parts[index] : &key->relayed[index - key->part_count];
}

static inline bool tt_owner_is_sums(const tt_owner_store *store)
{
    return store->id == TT_STORE_SUMS;
}

/* A frame from a worker; `payload` as in tt_machine_ops.frame, but of any length from this rank. */
void *tt_owner_frame(tt_sync *sync, uint32_t worker, const tt_head *head, const void *payload);
/* A frame from another owner, or from this rank as one. */
void tt_owner_owner_frame(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload);
/* The payload of a long frame has arrived. */
void tt_owner_payload(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part);
void tt_owner_sent(tt_sync *sync, uint64_t token);
/* A worker has left, or is gone: then `why` says how. */
void tt_owner_worker_out(tt_sync *sync, uint32_t worker, const char *why);
/* As tt_machine_ops.step. */
bool tt_owner_step(tt_sync *sync);
void tt_owner_release_all(tt_sync *sync);

/* ---- between the files of the owner's side ---- */

/* Owner of a part; NULL: there is none. */
tt_owner_part *tt_owner_find_part(tt_owner_key *key, uint32_t number);
tt_status tt_owner_make_parts(tt_sync *sync, tt_owner_key *key);
void tt_owner_release_parts(tt_sync *sync, tt_owner_key *key);
/* A part in the caller's memory; one that was not made has no memory. */
tt_status tt_owner_part_make(tt_sync *sync, tt_owner_key *key, tt_owner_part *part,
                             const tt_split_part *place, uint32_t number);
void tt_owner_part_release(tt_sync *sync, tt_owner_part *part);
/* The next version is complete: its pushes are consumed. */
void tt_owner_sum_done(tt_sync *sync, tt_owner_part *part);

/* store_adopt.c */
/* ADOPT: a worker says what it has of a part whose owner is gone. */
void tt_owner_adopt(tt_sync *sync, tt_owner_key *key, uint32_t worker, const tt_head *head);
tt_owner_part *tt_owner_find_adopted(const tt_owner_key *key, uint32_t number);
void tt_owner_adopted_worker_out(tt_sync *sync, tt_owner_key *key, uint32_t worker);
/* A push is in its slot that had been sent to the owner before. */
void tt_owner_repeated(tt_sync *sync, tt_owner_part *part);
/* Of a quorum: pushes that are sent again have not all arrived, or been added. */
bool tt_owner_is_behind(const tt_owner_part *part);
/* A sum is complete. True: more pushes that were sent again are to be added before others. */
bool tt_owner_add_late(tt_sync *sync, tt_owner_part *part);
void tt_owner_release_adopted(tt_sync *sync, tt_owner_key *key);

/* Send a version of a part that no send to this worker has. The worker may be this rank itself, and
 * send its next request at once: callers are done with the slot before. */
void tt_owner_send_version(tt_sync *sync, tt_owner_part *part, uint32_t worker, tt_head head,
                           uint32_t version);
/* Take back a version that a send to this worker has, if it does. */
void tt_owner_recall(tt_sync *sync, tt_owner_part *part, uint32_t worker, uint32_t version);
/* Where a push of this worker lies. */
uint8_t *tt_owner_room(const tt_owner_part *part, uint32_t worker);
/* What the head of a push says; */
void tt_owner_note_push(tt_sync *sync, tt_owner_part *part, uint32_t worker, const tt_head *head);
/* and all of its bytes are in the slot. */
void tt_owner_push_arrived(tt_sync *sync, tt_owner_part *part, uint32_t worker, uint64_t number);
/* Not a second copy, nor of a push that was never sent. */
bool tt_owner_is_new_pull(const tt_slot *slot, const tt_head *head);
void tt_owner_note_pull(tt_sync *sync, tt_owner_part *part, uint32_t worker, const tt_head *head);
tt_head tt_owner_answer_head(const tt_owner_part *part, tt_sync_kind kind, uint64_t asked);
/* The part has something to do. */
void tt_owner_due(tt_sync *sync, tt_owner_part *part);
void *tt_owner_take_push(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                         const void *payload);
void *tt_owner_take_first(tt_sync *sync, const tt_head *head, tt_owner_part *part,
                          const void *payload);
void tt_owner_take_pull(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part);
/* Has every worker that counts pushed? */
bool tt_owner_is_complete(const tt_owner_part *part);
void tt_owner_part_worker_out(tt_sync *sync, tt_owner_part *part, uint32_t worker);
/* A push of this worker has arrived. */
void tt_owner_arrived(tt_sync *sync, tt_owner_store *store, uint32_t worker);
/* A push of this worker has been consumed: its clock may advance. */
void tt_owner_consumed(tt_sync *sync, tt_owner_store *store, uint32_t worker);

/* Of a quorum: the slot's push counts in the iteration that is being closed, or does not. */
void tt_owner_choose(tt_sync *sync, tt_owner_part *part, uint32_t worker, bool is_counted);

/* store_set.c */
void tt_set_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head);
void tt_set_worker_out(tt_sync *sync, tt_owner_store *store, uint32_t worker);
/* Must pushes of this clock wait? */
bool tt_set_is_held(const tt_owner_store *store, uint64_t clock);
/* A sum of pushes of this clock begins: it has the options of that clock. */
void tt_set_begin(tt_owner_part *part, uint64_t clock);

/* store_count.c */
void tt_count_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head);
/* The push in a slot is about to be applied. */
void tt_count_applied(tt_owner_part *part, const tt_slot *slot);

/* store_quorum.c */
/* Iterations that all workers, or a quorum of them, have completed, with their pushes applied. */
uint64_t tt_owner_progress(const tt_owner_store *store);
/* The keeper: if a quorum has completed the next iteration, send QUORUM to all owners. */
void tt_quorum_decide(tt_sync *sync, tt_owner_store *store);
/* A decision of the keeper, and what owners tell each other about it; `owner` is the sender. */
void tt_quorum_frame(tt_sync *sync, tt_owner_store *store, uint32_t owner, const tt_head *head,
                     const void *payload);
/* An owner of some stores is gone. */
void tt_quorum_owner_out(tt_sync *sync);
/* Does what the worker pushed in this iteration count? */
tt_counting tt_quorum_counts(const tt_owner_store *store, uint32_t worker, uint64_t iteration);
/* Something has arrived, or a worker is gone: begin the next iteration that can be closed. */
void tt_quorum_advance(tt_sync *sync, tt_owner_store *store);
/* A part has added what was chosen. */
void tt_quorum_summed(tt_sync *sync, tt_owner_part *part);
/* Iterations before `clock` count as closed. */
void tt_quorum_start(tt_owner_store *store, uint64_t clock);
tt_status tt_quorum_make(tt_sync *sync, tt_owner_store *store);
void tt_quorum_release(tt_sync *sync, tt_owner_store *store);
/* The store has failed for good: send FAILED to all workers. */
void tt_owner_fail(tt_sync *sync, tt_owner_store *store, tt_status status, const tt_text *text);
/* A tensor has failed: send FAILED to all workers. Of a named sum: the first `good` sums are not
 * affected. */
void tt_owner_fail_key(tt_sync *sync, tt_owner_key *key, tt_status status, uint64_t good,
                       const tt_text *text);
/* FAILED, for a key that has failed. */
tt_head tt_owner_failed_head(const tt_owner_key *key);
tt_owner_key *tt_owner_find_key(const tt_owner_store *store, uint64_t id);
void tt_owner_release_key(tt_sync *sync, tt_owner_key *key);
/* A worker has joined, or is gone: does a tensor still wait for it? */
void tt_owner_check_added(tt_sync *sync, tt_owner_key *key);
/* The claim and name of an ADD or OBJECT; false: it is none. `text_out` (may be NULL) gets what
 * follows a zero. */
bool tt_owner_read_claim(const tt_head *head, const void *payload, tt_sync_claim *claim_out,
                         char name_out[TT_SYNC_NAME_BYTES], char *text_out);
tt_owner_key *tt_owner_make_key(tt_sync *sync, tt_owner_store *store, uint64_t id,
                                const tt_sync_claim *claim, const char *name);
/* The worker sent what it cannot have encoded: the tensor fails. */
void tt_owner_bad_push(tt_sync *sync, tt_owner_key *key, uint32_t worker);
/* It sent so many bytes, where a frame of the part has `wanted`: likewise. */
void tt_owner_bad_length(tt_sync *sync, const tt_owner_part *part, uint32_t worker, uint64_t bytes,
                         uint64_t wanted);
/* Pulls and clocks that waited for progress. */
void tt_owner_has_grown(tt_sync *sync, tt_owner_store *store);

#endif
