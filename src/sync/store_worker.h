/* SPDX-License-Identifier: Apache-2.0
 *
 * store_worker.h - the side of a store that pushes and pulls.
 *
 * Requests on one tensor are served one after the other; those on different tensors at the same
 * time. A worker sends to all owners in proportion to what they own, so that their shares end
 * together, and begins with another owner than its neighbours do. Links have as many parts of a
 * tensor at a time as there are owners: with all of them, the kernel would give each link the same
 * share of the card.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  a record per store, tensor and part.
 */
#ifndef TUTTI_SYNC_STORE_WORKER_H
#define TUTTI_SYNC_STORE_WORKER_H

#include "codec/codec.h"
#include "platform/platform.h"
#include "sync/split.h"
#include "sync/sync.h"
#include "sync/sync_policy.h"
#include "sync/sync_wire.h"
#include "sync/update.h"

enum { WORKER_BUCKETS = 256 };

typedef struct tt_worker_store tt_worker_store;
typedef struct tt_worker_key tt_worker_key;

/* Requests in the order of submission. */
typedef struct tt_sync_queue {
    tt_sync_request *first, *last;
} tt_sync_queue;

typedef struct tt_worker_part {
    tt_split_part place;
    uint64_t pushes;     /* sent */
    uint64_t asked;      /* requests sent, */
    uint64_t clock;      /* the last one at this clock */
    bool is_awaited;     /* by the request at the front of the queue */
    bool is_lent;        /* a send has the request's input, */
    bool is_rows_lent;   /* and another one its row numbers */
    bool is_arriving;    /* its value is */
    bool is_moving;      /* its owner is gone; the next one has not adopted it yet */
    bool is_offered;     /* ADOPT was sent to that one */
    bool is_torn;        /* its input, which is its output, has some of an answer */
    uint32_t home;       /* its first owner */
    uint32_t dead;       /* the rank that owned it last */
    uint64_t lost;       /* sums up to this one are lost with that rank; 0: none */
    uint64_t seen;       /* of a quorum: iterations up to the last one whose sum is known here */
    uint64_t arriving;   /* likewise, of the value that is arriving */
    bool is_uncounted;   /* its push was, as the answer says */
    uint64_t wire_bytes; /* of coded frames */
    uint8_t *wire;       /* the coded push */
    uint8_t *answer;     /* a coded answer */
} tt_worker_part;

struct tt_worker_key {
    tt_worker_key *next; /* in its bucket */
    tt_worker_store *store;
    uint32_t index; /* in sync->keys */
    uint64_t id;
    tt_dtype dtype;
    uint64_t count;
    tt_sync_claim claim;
    struct tt_sum_name *sum; /* of a named sum, else NULL */
    uint64_t left;           /* then, the key that this worker left for it, or 0, */
    uint64_t left_sums;      /* after so many sums */
    bool is_added;
    tt_status status; /* negative: it has failed */
    tt_sync_queue queue;
    tt_worker_part *parts;
    uint32_t part_count;
    uint32_t *order;  /* [part_count] in which parts are sent */
    uint32_t handed;  /* of the front request; part_count: all, or it is sent otherwise */
    bool is_handing;  /* the front request is a push that was not sent to all owners */
    uint32_t awaited; /* parts of it that were sent and are not over */
    bool *is_told;    /* [owners] that have added it */
    bool is_coded;
    bool is_encoding;             /* the request at the front is being encoded, */
    uint32_t encoded;             /* so many parts were; */
    tt_worker_key *next_encoding; /* in sync->encoding */
    float *residual;              /* [count], or NULL */
    uint8_t *coded_memory;        /* residual, coded parts */
    size_t coded_bytes;
    char error[TT_SYNC_ERROR_BYTES];
    char name[TT_SYNC_NAME_BYTES];
};

struct tt_worker_store {
    uint32_t id;
    tt_split split;
    tt_policy policy;
    tt_update_spec update;
    tt_update_described described; /* the update, if it is the program's and not known here, */
    uint32_t describer;            /* by this rank */
    tt_codec_spec codec;           /* codec NULL: none */
    bool is_open;
    tt_status status;
    char error[TT_SYNC_ERROR_BYTES];
    uint64_t clock;       /* iterations completed */
    uint64_t least;       /* that all have completed, as far as is known; quorum: closed ones */
    uint64_t unsent;      /* pushes submitted and not sent */
    uint64_t *pushes;     /* [owners] parts sent to each */
    bool *is_told;        /* [owners] that have replied to OPEN or CLOSE */
    tt_sync_queue life;   /* OPEN, CLOSE: the front one is served */
    tt_sync_queue clocks; /* CLOCK: the front one is served */
    tt_sync_queue later;  /* of the iteration after it: calls on tensors, and their CLOCK */
    bool is_releasing;    /* these, now */
    bool has_clocked;     /* its frames were sent */
    tt_sync_counts tally;
    tt_sync_queue asks;  /* SET, COUNT: the front one is served; replies are counted in is_told */
    uint64_t ask_number; /* of the front one */
    uint32_t ask_phase;  /* lane of its last frames */
    tt_status ask_status;
    uint32_t ask_culprit;    /* rank that refused it */
    uint64_t ask_bound;      /* the least clock that all owners can take */
    tt_worker_key **buckets; /* [WORKER_BUCKETS] */
};

/* Records of stores and tensors; NULL: no memory, or there is none. The store keeps the split. */
tt_worker_store *tt_worker_store_make(tt_sync *sync, uint32_t id, const tt_split *split);
void tt_worker_store_release(tt_sync *sync, tt_worker_store *store);
tt_worker_key *tt_worker_key_make(tt_sync *sync, tt_worker_store *store,
                                  const tt_sync_request *request, uint64_t id);
/* No request on it may be open. */
void tt_worker_key_release(tt_sync *sync, tt_worker_key *key);
/* Behind the requests that the key has. */
void tt_worker_enqueue(tt_sync *sync, tt_worker_key *key, tt_sync_request *request);
/* End all of them. */
void tt_worker_fail_key(tt_sync *sync, tt_worker_key *key, tt_status status, const char *text);
tt_worker_key *tt_worker_find_name(const tt_worker_store *store, const char *name);
tt_worker_key *tt_worker_find_id(const tt_worker_store *store, uint64_t id);

/* ---- store_set.c: one request to all owners at a time ---- */

/* TT_OK: it can be asked for. */
tt_status tt_set_check(const tt_worker_store *store, tt_sync_request *request, tt_text *why);
/* Ask owners for the request at the front. */
void tt_set_ask(tt_sync *sync, tt_worker_store *store);
void tt_set_reply(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head);
/* store_count.c: likewise. */
void tt_count_ask(tt_sync *sync, tt_worker_store *store);
/* An owner is gone, and the store goes on. */
void tt_count_owner_out(tt_sync *sync, tt_worker_store *store);
void tt_count_reply(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head,
                    const void *payload);
/* A push or pull is over. */
void tt_count_request(tt_sync *sync, tt_worker_key *key, const tt_sync_request *request);
/* The front request is over: take it off, and ask for the next one. */
void tt_worker_next_ask(tt_sync *sync, tt_worker_store *store);
/* All owners have replied. */
bool tt_worker_all_told(const tt_sync *sync, const tt_worker_store *store);
/* The request is over; `text` unless it is TT_OK. */
void tt_worker_end(tt_sync *sync, tt_sync_request *request, tt_status status, const char *text);

/* A frame from an owner; `payload` as in tt_machine_ops.frame, but of any length from this rank. */
void *tt_worker_frame(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload);
void tt_worker_payload(tt_sync *sync, tt_worker_key *key, uint32_t number);
void tt_worker_sent(tt_sync *sync, uint64_t token);
/* Encode and send a part. As tt_machine_ops.step. */
bool tt_worker_step(tt_sync *sync);
/* A peer that may own parts is gone, `why` says how; or, NULL, has left. */
void tt_worker_peer_out(tt_sync *sync, uint32_t peer, const char *why);
void tt_worker_release_all(tt_sync *sync);

/* ---- between the files of the worker's side ---- */

/* The front request's frame for a part, which has its numbers; again if its owner is a new one. */
void tt_worker_transmit(tt_sync *sync, tt_worker_key *key, uint32_t number);
/* The rank with which this one exchanges a part: its owner, or the relay of its host. */
uint32_t tt_worker_peer(const tt_sync *sync, const tt_worker_key *key, uint32_t number);
/* Take back what sends to this peer have of the front request's part. */
void tt_worker_recall(tt_sync *sync, tt_worker_key *key, uint32_t number, uint32_t peer);
/* The front request has what it wants of a part, or cannot get it. */
void tt_worker_part_done(tt_sync *sync, tt_worker_key *key, uint32_t number);
void tt_worker_settle(tt_sync *sync, tt_worker_key *key);
/* Send more of the front request, as far as links take it. */
void tt_worker_hand_out(tt_sync *sync, tt_worker_key *key);
void tt_worker_life_settle(tt_sync *sync, tt_worker_store *store);
/* An owner that opened the store describes the update, which is the program's own. */
void tt_worker_take_description(tt_sync *sync, tt_worker_store *store, uint32_t owner,
                                const char *description);
/* A worker's frame cannot be sent, or its tensor (NULL: none) has no room: others would wait for it
 * for ever. */
void tt_worker_fail_without_memory(tt_sync *sync, tt_worker_store *store, const char *name);
/* End its calls, here and on all workers. */
void tt_worker_fail_tensor(tt_sync *sync, tt_worker_key *key, tt_status status, const char *text);
/* Likewise; one that is being closed goes on. */
void tt_worker_fail_store(tt_sync *sync, tt_worker_store *store, tt_status status,
                          const char *text);
/* To the keeper: may the next iteration start? */
void tt_worker_ask_clock(tt_sync *sync, tt_worker_store *store);
bool tt_worker_store_is_idle(const tt_worker_store *store);
void tt_worker_queue_push(tt_sync_queue *queue, tt_sync_request *request);
/* NULL: it is empty. */
tt_sync_request *tt_worker_queue_pop(tt_sync_queue *queue);
/* A call on a tensor, or CLOCK, whose turn it is. */
void tt_worker_use(tt_sync *sync, tt_worker_store *store, tt_sync_request *request);
/* Send what the request at the front of the tensor, or of the store's life, asks for. */
void tt_worker_begin(tt_sync *sync, tt_worker_key *key);
void tt_worker_life_begin(tt_sync *sync, tt_worker_store *store);
/* Clocks whose turn it is: sent, or over; and calls that waited for them. */
void tt_worker_clocks_step(tt_sync *sync, tt_worker_store *store);
static inline bool tt_worker_is_push(const tt_sync_request *request)
{
    return request->verb == TT_STORE_PUSH || request->verb == TT_STORE_PUSH_PULL;
}

/* store_move.c */
/* Can the store go on without this peer? */
bool tt_worker_can_move(const tt_sync *sync, const tt_worker_store *store, uint32_t peer);
/* An owner of the store is gone: its parts move to others. */
void tt_worker_move(tt_sync *sync, tt_worker_store *store, uint32_t peer);
/* The parts of a new tensor whose first owners are gone. */
void tt_worker_move_new(tt_sync *sync, tt_worker_key *key);
/* The tensor was added at all owners: send ADOPT for its parts that move. */
void tt_worker_offer(tt_sync *sync, tt_worker_key *key);
/* What the front request wants of a part is lost with its last owner. */
void tt_worker_lose(tt_sync *sync, tt_worker_key *key, uint32_t number);
/* The front request wants a part that moves, or a sum of it that is lost; then it is not sent. */
bool tt_worker_is_held(tt_sync *sync, tt_worker_key *key, uint32_t number);
void tt_worker_adopted(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head);

#endif
