/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_owner.h - named sums at their owners; see sum_worker.h.
 *
 *  (1) A key is one generation of a name: claims are equal on all workers from its first sum on. A
 *      worker whose claim changes adds the next generation after its last sum of this one. A worker
 *      that pushes to a key which another one has left for that sum disagrees with it: both fail.
 *  (2) What fails is one sum: workers take the generation after it for the next.
 *  (3) A worker that has joined takes part in the sums that it had started before, and in no
 *      others. It names the tensors of which it has calls open (BUSY), and sends IDLE for each when
 *      these are over. So joined workers never wait for each other's joins.
 *
 *  (4) A worker that is gone fails the sums that it has not pushed to, and no others.
 *
 * For keys of other stores these functions do nothing.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  none of its own.
 */
#ifndef TUTTI_SYNC_SUM_SUM_OWNER_H
#define TUTTI_SYNC_SUM_SUM_OWNER_H

#include "sync/store_owner.h"

/* OBJECT, JOIN, BUSY, IDLE, FORGET, HELD; others are ignored. */
void tt_sum_frame(tt_sync *sync, tt_owner_store *store, uint32_t worker, const tt_head *head,
                  const void *payload);
/* The worker has added the key; head: of its ADD, with the key that it leaves. */
void tt_sum_added(tt_sync *sync, tt_owner_key *key, uint32_t worker, const tt_head *head);
void tt_sum_compare(tt_sync *sync, tt_owner_key *key, uint32_t worker, const tt_sync_claim *claim);
/* All workers have this generation: release those before it. */
void tt_sum_release_older(tt_sync *sync, const tt_owner_key *key);
/* In a step: do the pushes that have arrived show that workers differ, or that one is missing? */
void tt_sum_check(tt_sync *sync, tt_owner_key *key);
void tt_sum_worker_out(tt_sync *sync, tt_owner_store *store, uint32_t worker, const char *why);

/* Has the worker joined, and no call of this name open? Then sums go without it. */
bool tt_sum_is_absent(const tt_owner_key *key, uint32_t worker);
void tt_sum_release_store(tt_sync *sync, tt_owner_store *store);

/* Has a worker sums open from before this worker's last join? */
bool tt_sum_is_needed(const tt_sync *sync);

/* Before and after the elements of sync->sources are added. */
void tt_sum_scale_sources(const tt_sync *sync, const tt_owner_part *part, uint32_t count,
                          size_t elements);
void tt_sum_finish(const tt_sync *sync, const tt_owner_part *part, void *target, size_t elements);

#endif
