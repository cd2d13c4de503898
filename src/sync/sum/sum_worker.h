/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_worker.h - named all-reduces that owners sum: what a worker does.
 *
 * The calls of a name are served one after the other, those of different names at the same time. A
 * call is a push to the owners of the name's key; the answer has the sum. There is no negotiation:
 * an owner adds once all workers have pushed. The first call of a name adds its key, and so does
 * the first one with another claim, or after a failed one: the next generation of the key.
 *
 *  (1) Sums are in the order of workers, those of a host first (sum_relay.h): the same bits on all
 *      of them, whatever the timing.
 *  (2) Workers that differ in a call fail it, and one that objects fails it, on all of them, with
 *      one text. The next call of the name works.
 *  (3) A worker that has joined takes part in the calls that it made before. Averages are divided
 *      by all workers, or by those that take part (is_by_active).
 *  (4) A worker that dies or leaves fails all calls, as in control. When a server dies, the workers
 *      make the sums from then on (sum_handover.h).
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  a record per name; one per call in flight, kept for reuse.
 */
#ifndef TUTTI_SYNC_SUM_SUM_WORKER_H
#define TUTTI_SYNC_SUM_SUM_WORKER_H

#include "control/control.h"
#include "sync/store_worker.h"
#include "sync/sum/sum_handover.h"
#include "sync/sync.h"

enum { SUM_BUCKETS = 256 };

typedef struct tt_sum_call tt_sum_call;
typedef struct tt_sum_name tt_sum_name;

struct tt_sum_call {
    tt_sum_call *next; /* of spare ones, or of those that have objected */
    tt_sync *sync;
    tt_sum_name *name;
    tt_request *request;
    tt_sync_request add, push; /* `add`: of the first call with a key */
    uint64_t number;           /* of the key's sums, from 1 */
    uint64_t objected;         /* key that it objected to, or 0 */
    uint64_t ordinal;          /* of the name's calls, from 1 */
};

/* A name: the key that its calls use now. */
struct tt_sum_name {
    tt_sum_name *next;       /* in its bucket */
    tt_sum_name *next_ready; /* of those that a step looks at */
    bool is_ready;
    bool is_busy;   /* this worker has joined, and sent BUSY for it */
    uint32_t joins; /* of this worker when it was made; calls after the next join have another */
    tt_worker_key *key; /* NULL: none yet, or it was of no use any more */
    tt_sync_claim claim;
    uint32_t generation;  /* of the next key */
    uint64_t left;        /* key that was left, or 0; */
    uint64_t left_sums;   /* after so many sums */
    uint64_t sums;        /* started with this key */
    uint64_t made, ended; /* calls */
    tt_sum_call *current;
    tt_sync_queue waiting; /* calls, by their `push` */
    tt_sync *sync;
    /* After the handover: the call that the workers make now; its own `finished` and `owner`. */
    tt_request *given;
    void (*given_finished)(tt_request *request);
    void *given_owner;
    tt_request *later, *later_last; /* calls behind it */
    tt_status status;               /* negative: the next sum fails; its call has not come yet */
    char error[TT_SYNC_ERROR_BYTES];
    char text[TT_SYNC_NAME_BYTES];
};

typedef struct tt_sums {
    tt_sum_name *buckets[SUM_BUCKETS];
    tt_sum_name *ready;
    tt_sum_call *spare, *objected;
    uint32_t joins, forgotten; /* of this worker; as of FORGET */
    uint32_t open;             /* names from before the last join with calls that are not over */
    /* A join that control has; its own `finished` and `owner`. Calls wait until it is over. */
    tt_request *join;
    void (*join_finished)(tt_request *request);
    void *join_owner;
    tt_request *held, *held_last;
    tt_handover handover;
} tt_sums;

/* As tt_machine_ops.step. */
bool tt_sum_step(tt_sync *sync);

/* FAILED for a key; NULL: this worker has not added it. */
void tt_sum_failed(tt_sync *sync, tt_worker_key *key, const tt_head *head, const char *text);
/* An owner, which is a worker, has left: calls that need it fail. */
void tt_sum_owner_left(tt_sync *sync, uint32_t owner);
/* The store has failed: end all calls. */
void tt_sum_fail_all(tt_sync *sync, tt_status status, const char *text);
void tt_sum_release_all(tt_sync *sync);

/* ---- for the handover ---- */

/* A join that the caller submits to control; those behind it wait. */
void tt_sum_begin_join(tt_sync *sync, tt_request *request);
/* NULL: no memory. */
tt_sum_name *tt_sum_name_of(tt_sync *sync, const char *text);
/* Hash of the name, equal for all its calls between two joins. */
uint64_t tt_sum_base(const tt_sum_name *name);
/* How many calls of the name have ended here, or must fail: see sum_handover.h (3). */
uint64_t tt_sum_ended(const tt_sync *sync, const tt_sum_name *name);
/* Take back what owners have of the calls in progress. The handover has begun: they do not end. */
void tt_sum_set_aside(tt_sync *sync);
/* Take the next of the name's calls out; NULL: there is none. */
tt_request *tt_sum_take_out(tt_sync *sync, tt_sum_name *name, uint64_t *ordinal_out);

#endif
