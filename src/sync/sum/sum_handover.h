/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_handover.h - named sums after the death of a server: the workers make them, by collectives.
 *
 * A server that dies takes along what it had of sums in progress, and it may have been the judge of
 * keys. So owners make no sum any more. The workers agree which sums have ended on one of them;
 * all others are submitted again, as named all-reduces of the workers, and so is every later call.
 *
 *  (1) From its handover on a worker completes no sum by owners: frames of the store of named sums
 *      are dropped.
 *  (2) Calls of a name are numbered alike on all workers, from 1 after each join. A worker sends to
 *      all others how many of each name have ended there (ENDED), and goes on when it has these
 *      numbers of all workers that live.
 *  (3) A call that has ended on some worker fails on those where it has not: it would wait for the
 *      others for ever. So does one of which some worker has received a part, since that is in its
 *      buffer, and one from before a join, since its worker takes no more part in collectives.
 *  (4) Any other call has ended on no worker, and none that makes it lacks it: collectives match.
 *  (5) Workers have one call of a name at a time, so each worker submits a call of a name when the
 *      one before it has ended there, and joins when no call waits for that.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  a record per name, from the handover on.
 */
#ifndef TUTTI_SYNC_SUM_SUM_HANDOVER_H
#define TUTTI_SYNC_SUM_SUM_HANDOVER_H

#include "control/control.h"
#include "sync/sync_wire.h"

typedef struct tt_sync tt_sync;

typedef enum tt_handover_phase {
    TT_HANDOVER_NONE,
    TT_HANDOVER_AGREEING, /* calls wait */
    TT_HANDOVER_DONE,     /* calls are the workers' */
} tt_handover_phase;

enum { HANDOVER_BUCKETS = 64 };

/* How many sums of a name have ended on some worker. */
typedef struct tt_handover_name tt_handover_name;

struct tt_handover_name {
    tt_handover_name *next;
    uint64_t base; /* hash of the name, and of the joins before its calls */
    uint64_t ended;
    uint64_t has_sent[]; /* a bit per worker */
};

typedef struct tt_handover {
    tt_handover_phase phase;
    uint32_t dead;        /* rank of the server */
    bool is_short;        /* no memory for what others have sent: all calls fail */
    uint32_t *names_left; /* [workers] ENDED that are still to come; UINT32_MAX: not known */
    tt_request *held, *held_last; /* calls and joins while workers agree, or behind a join */
    struct tt_sum_name *ready;    /* names whose call has ended, by `next_ready` */
    uint32_t later;               /* calls that wait for another one of their name */
    tt_handover_name *buckets[HANDOVER_BUCKETS];
} tt_handover;

/* Before the store of named sums is opened. False: no memory. */
bool tt_handover_prepare(tt_sync *sync);
/* A server that owns parts is gone. True: the workers take over, or have done so. */
bool tt_handover_begin(tt_sync *sync, uint32_t dead);
/* No sum will be made by owners: this worker's store of named sums has failed. Others need to know
 * it if a server dies. */
void tt_handover_decline(tt_sync *sync);
/* ENDED, of another worker. */
void tt_handover_frame(tt_sync *sync, uint32_t worker, const tt_head *head);
/* A worker is gone: it is not waited for. */
void tt_handover_worker_out(tt_sync *sync);
/* Must a join wait for the calls before it? */
bool tt_handover_holds(const tt_sync *sync);
/* Submit calls whose turn it is. As tt_machine_ops.step. */
bool tt_handover_step(tt_sync *sync);
/* A call or join of this worker; after the handover has begun. */
void tt_handover_take(tt_sync *sync, tt_request *request);
/* End the calls that wait. */
void tt_handover_fail_all(tt_sync *sync, tt_status status, const char *text);
void tt_handover_release(tt_sync *sync);

#endif
