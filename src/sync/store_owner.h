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
 * Memory:  (workers + 2) times a part, and its update's state, from when its tensor is added.
 */
#ifndef TUTTI_SYNC_STORE_OWNER_H
#define TUTTI_SYNC_STORE_OWNER_H

#include "base/heap.h"
#include "base/list.h"
#include "platform/platform.h"
#include "sync/clock.h"
#include "sync/split.h"
#include "sync/sync.h"
#include "sync/sync_policy.h"
#include "sync/sync_wire.h"
#include "sync/update.h"

enum { OWNER_BUCKETS = 256, OWNER_CLOCKS_MAX = 16 };

typedef struct tt_owner_store tt_owner_store;
typedef struct tt_owner_key tt_owner_key;
typedef struct tt_owner_part tt_owner_part;

typedef enum tt_slot_phase {
    TT_SLOT_EMPTY,
    TT_SLOT_ARRIVING,
    TT_SLOT_FULL,
    TT_SLOT_CHOSEN, /* of a quorum: to be added next */
    TT_SLOT_SUMMED, /* being added */
} tt_slot_phase;

/* What an owner has of one worker, of one part. */
typedef struct tt_slot {
    tt_owner_part *part;
    tt_slot_phase phase;
    bool is_answered;     /* the push in it wants the value */
    bool owes;            /* consumed; the answer has not been sent yet */
    bool owes_value;      /* with the value */
    bool is_uncounted;    /* consumed, but not applied: it was too late */
    bool is_pulled;       /* a pull waits, in store->pulls */
    bool is_lent[2];      /* a send has this version */
    bool is_declared;     /* of a part that is adopted: ADOPT has arrived */
    uint64_t pushes;      /* of this worker that have arrived */
    uint64_t consumed;    /* of them */
    uint64_t clock;       /* of the push in it */
    uint64_t asked;       /* number of the request that pushed, */
    uint64_t pull_asked;  /* and of the one that pulls */
    uint64_t pull_clock;  /* iterations that must be complete */
    uint64_t pull_pushes; /* of its own that must be applied */
    tt_list_node pull;
} tt_slot;

struct tt_owner_part {
    tt_owner_key *key;
    uint32_t index;  /* in sync->parts */
    uint32_t number; /* of the tensor's parts */
    uint64_t first, bytes;
    uint8_t *memory; /* slots' data, two versions, state */
    size_t memory_bytes;
    tt_slot *slots;     /* [workers] */
    uint8_t *values[2]; /* versions */
    float *states[TT_UPDATE_STATES_MAX];
    uint8_t current;
    bool is_valid;          /* it has a value */
    bool is_first_arriving; /* the first value is */
    bool is_summing;
    bool is_adopting;     /* not every worker has declared what it has of it */
    uint32_t lent[2];     /* sends per version */
    uint32_t full;        /* slots that are FULL */
    uint32_t chosen;      /* slots that are CHOSEN */
    uint32_t sum_sources; /* of the sum that is being computed */
    uint64_t sum_at;      /* bytes done */
    uint64_t step;        /* sums made */
    int32_t urgency;      /* of the last push or pull */
    uint64_t age;
    tt_heap_node due;
};

struct tt_owner_key {
    tt_owner_key *next; /* in its bucket */
    tt_owner_store *store;
    uint64_t id;
    tt_sync_claim claim;
    uint32_t claim_from;  /* the worker that sent it first */
    bool *has_added;      /* [workers] */
    bool is_told;         /* workers were told that it is there */
    tt_status status;     /* negative: it has failed */
    tt_owner_part *parts; /* own ones */
    uint32_t part_count;
    tt_owner_part **adopted; /* [adopted_capacity] from owners that are gone, ascending */
    uint32_t adopted_count, adopted_capacity;
    char error[TT_SYNC_TEXT_BYTES];
    char name[TT_SYNC_NAME_BYTES];
};

/* What an owner knows of one worker, of one store. */
typedef struct tt_owner_worker {
    bool has_opened, is_told, has_closed;
    bool asks;            /* waits for its next iteration; of the keeper */
    uint64_t asks_clock;  /* that iteration */
    uint64_t arrived;     /* pushes */
    uint64_t consumed;    /* of them */
    uint64_t declared;    /* iterations completed, as far as is known */
    uint32_t clock_count; /* iterations that were completed, with the pushes before their end */
    struct {
        uint64_t clock, pushes;
    } clocks[OWNER_CLOCKS_MAX];
} tt_owner_worker;

/* Iterations that K workers have completed. The keeper decides whose pushes count, and sends it to
 * all owners; each one closes iterations in their order, once the pushes that count have arrived.
 */
typedef struct tt_decision tt_decision;

struct tt_decision {
    tt_decision *next; /* ascending, or in the list of free ones */
    uint64_t iteration;
    uint8_t is_member[]; /* [workers] */
};

typedef struct tt_quorum {
    uint64_t decided;   /* iterations, of the keeper */
    uint64_t begun;     /* whose pushes are chosen, or were added */
    uint64_t closed;    /* whose pushes have been added */
    uint64_t sums_open; /* parts that still add those of the last one begun */
    tt_decision *queue; /* to come */
    tt_decision *free;
} tt_quorum;

struct tt_owner_store {
    uint32_t id;
    bool has_settings;
    char settings[TT_SYNC_TEXT_BYTES]; /* as the first worker sent them */
    uint32_t settings_from;
    tt_policy policy;
    tt_update_spec update;
    tt_status status; /* negative: it has failed for good */
    char error[TT_SYNC_TEXT_BYTES];
    tt_clock clock;
    tt_owner_worker *workers; /* [workers] */
    tt_owner_key **buckets;   /* [OWNER_BUCKETS] */
    tt_list pulls;            /* slots whose pull waits */
    tt_quorum quorum;
};

/* A frame from a worker; `payload` as in tt_machine_ops.frame, but of any length from this rank. */
void *tt_owner_frame(tt_sync *sync, uint32_t worker, const tt_head *head, const void *payload);
/* A frame from another owner, or from this rank as one. */
void tt_owner_owner_frame(tt_sync *sync, const tt_head *head, const void *payload);
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
/* To all workers: the tensor has failed. */
void tt_owner_fail_key(tt_sync *sync, tt_owner_key *key, tt_status status, const tt_text *text);

/* store_adopt.c */
/* ADOPT: a worker says what it has of a part whose owner is gone. */
void tt_owner_adopt(tt_sync *sync, tt_owner_key *key, uint32_t worker, const tt_head *head);
tt_owner_part *tt_owner_find_adopted(const tt_owner_key *key, uint32_t number);
void tt_owner_adopted_worker_out(tt_sync *sync, tt_owner_key *key, uint32_t worker);
void tt_owner_release_adopted(tt_sync *sync, tt_owner_key *key);

/* The part has something to do. */
void tt_owner_due(tt_sync *sync, tt_owner_part *part);
void *tt_owner_take_push(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                         const void *payload);
void *tt_owner_take_first(tt_sync *sync, const tt_head *head, tt_owner_part *part,
                          const void *payload);
void tt_owner_take_pull(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part);
void tt_owner_part_worker_out(tt_sync *sync, tt_owner_part *part, uint32_t worker);
/* A push of this worker has arrived. */
void tt_owner_arrived(tt_sync *sync, tt_owner_store *store, uint32_t worker);
/* A push of this worker has been consumed: its clock may advance. */
void tt_owner_consumed(tt_sync *sync, tt_owner_store *store, uint32_t worker);

/* Of a quorum: the slot's push counts in the iteration that is being closed, or does not. */
void tt_owner_choose(tt_sync *sync, tt_owner_part *part, uint32_t worker, bool is_counted);

/* store_quorum.c */
/* Iterations that all workers, or a quorum of them, have completed, with their pushes applied. */
uint64_t tt_owner_progress(const tt_owner_store *store);
/* The keeper: if a quorum has completed the next iteration, send QUORUM to all owners. */
void tt_quorum_decide(tt_sync *sync, tt_owner_store *store);
/* A decision of the keeper. */
void tt_quorum_frame(tt_sync *sync, tt_owner_store *store, const tt_head *head,
                     const void *payload);
/* Something has arrived, or a worker is gone: begin the next iteration that can be closed. */
void tt_quorum_advance(tt_sync *sync, tt_owner_store *store);
/* A part has added what was chosen. */
void tt_quorum_summed(tt_sync *sync, tt_owner_store *store);
void tt_quorum_release(tt_sync *sync, tt_owner_store *store);
/* The store has failed for good: send FAILED to all workers. */
void tt_owner_fail(tt_sync *sync, tt_owner_store *store, tt_status status, const tt_text *text);
/* Pulls and clocks that waited for progress. */
void tt_owner_has_grown(tt_sync *sync, tt_owner_store *store);

#endif
