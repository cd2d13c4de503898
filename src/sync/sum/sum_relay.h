/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_relay.h - named sums of hosts with several workers: one worker of a host pushes its sum.
 *
 * For each part, one worker of a host is the relay of its host: the owner itself if it is on that
 * host, else parts take turns (rails). Workers push to the relay of their host, which adds these
 * pushes in the order of ranks and pushes the host's sum to the owner; the owner adds the sums of
 * hosts in their order. The answer goes back the same way. So each byte of a tensor crosses a
 * host's card once in each direction.
 *
 *  (1) All workers are owners in the split of named sums, some of no bytes: they get claims, joins
 *      and their ends, and confirm a key before anything is pushed.
 *  (2) A relay waits for all workers of its host that take part in a sum. A host of which none does
 *      pushes nothing, and the owner does not wait for it.
 *  (3) A relay judges nothing. If a worker of its host pushes for a sum for which another worker
 *      has left the key, the owner of the first part learns of it by HELD, and fails the sum.
 *  (4) Sums do not depend on who owns or relays a part: prescale, then the workers of a host, then
 *      hosts, each rounded to the type; the divisor of an average and postscale at the owner.
 *
 * There are no relays if all workers are on one host, or each is on a host of its own.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  a table of hosts; for each part that it relays a worker keeps one push of each worker of
 *          its host and two versions of the value.
 */
#ifndef TUTTI_SYNC_SUM_SUM_RELAY_H
#define TUTTI_SYNC_SUM_SUM_RELAY_H

#include "sync/store_owner.h"

/* Which worker is on which host. */
struct tt_relays {
    uint32_t workers, hosts;
    uint32_t own_host; /* of this rank; a server has none: UINT32_MAX */
    uint32_t *host;    /* [workers] */
    uint32_t *place;   /* [workers] among the workers of its host */
    uint32_t *first;   /* [hosts + 1] index in `members` of a host's first worker */
    uint32_t *members; /* [workers] by host, then rank */
};

/* NULL and TT_OK: there are no relays. `hosts`: as tt_roles. */
tt_status tt_relays_make(tt_platform *platform, const tt_roles *roles, tt_relays **relays_out);
void tt_relays_release(tt_platform *platform, tt_relays *relays);

/* The relay of a worker's host, for a part of this number with this owner (ranks). */
uint32_t tt_relay_of(const tt_relays *relays, uint32_t worker, uint32_t owner, uint32_t number);

/* Places for pushes in a part's memory, and that of a worker. */
uint32_t tt_relay_rooms(const tt_owner_part *part);
uint32_t tt_relay_room(const tt_owner_part *part, uint32_t worker);
/* The worker whose push is added as number i of all; not below `workers`: there are no more. */
uint32_t tt_relay_source(const tt_owner_part *part, uint32_t i);
/* Has every host, or every worker of this one, pushed that takes part? */
bool tt_relay_is_complete(const tt_owner_part *part);

/* The parts of a key that this rank relays. */
tt_status tt_relay_make_parts(tt_sync *sync, tt_owner_key *key, const tt_split_part *places,
                              uint32_t count);
void tt_relay_release_parts(tt_sync *sync, tt_owner_key *key);
/* The part that a PUSH of this worker is for; NULL: it cannot send that. */
tt_owner_part *tt_relay_find(tt_owner_key *key, uint32_t worker, const tt_head *head);

/* The sum of this host is there: push it to the owner. */
void tt_relay_push(tt_sync *sync, tt_owner_part *part);
/* VALUE for this rank as a relay; `payload` as in tt_machine_ops.frame. */
void *tt_relay_value(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload);
void tt_relay_payload(tt_sync *sync, tt_owner_part *part);
void tt_relay_sent(tt_owner_part *part);
/* An owner is gone: take back what the exchange with it has. */
void tt_relay_peer_out(tt_sync *sync, uint32_t peer);
void tt_relay_withdraw(tt_sync *sync, tt_owner_part *part);

/* (3) */
void tt_relay_check_moved(tt_sync *sync, tt_owner_key *key);

#endif
