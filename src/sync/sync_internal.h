/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_internal.h - the machine's records, and what its files share.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  as sync.h.
 */
#ifndef TUTTI_SYNC_SYNC_INTERNAL_H
#define TUTTI_SYNC_SYNC_INTERNAL_H

#include "base/heap.h"
#include "sync/split.h"
#include "sync/stall/stall.h"
#include "sync/store_owner.h"
#include "sync/store_worker.h"
#include "sync/sum/sum_worker.h"
#include "sync/sync.h"
#include "sync/sync_wire.h"

enum { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO }; /* as base/log.h */

/* Tokens of sends: control's have neither bit. An answer of an owner: index of the part, worker,
 * version. A text: its number. Else a push: index of the tensor, part; or its row numbers. */
#define TOKEN_SYNC (UINT64_C(1) << 62)
#define TOKEN_ANSWER (UINT64_C(1) << 61)
#define TOKEN_TEXT (UINT64_C(1) << 60)
#define TOKEN_ROWS (UINT64_C(1) << 59)
enum { TOKEN_PART_BITS = 24, TOKEN_WORKER_BITS = 20, TOKEN_VERSION_BITS = 2 };

static inline uint64_t tt_answer_token(uint32_t part, uint32_t worker, uint32_t version)
{
    return TOKEN_SYNC | TOKEN_ANSWER | (uint64_t)part << (TOKEN_WORKER_BITS + TOKEN_VERSION_BITS) |
           (uint64_t)worker << TOKEN_VERSION_BITS | version;
}

static inline uint64_t tt_push_token(uint32_t key, uint32_t part)
{
    return TOKEN_SYNC | (uint64_t)key << TOKEN_PART_BITS | part;
}

/* A long payload that is arriving from a peer: to a part of an owner, or of a worker's tensor. */
typedef struct tt_arriving {
    tt_owner_part *part;
    tt_worker_key *key;
    uint32_t number; /* of the key's parts */
} tt_arriving;

/* A short payload that was copied. */
typedef struct tt_sync_note tt_sync_note;

struct tt_sync_note {
    tt_sync_note *next;
    uint32_t peer;
    uint64_t token;
    char bytes[TT_SYNC_TEXT_BYTES];
};

struct tt_sync {
    tt_platform *platform;
    tt_roles roles;
    tt_machine inner;
    tt_sync_listener listener;
    uint32_t workers_left;
    bool *is_gone;         /* [processes] */
    tt_arriving *arriving; /* [processes] */
    tt_split split;        /* of stores with all servers */
    tt_split sum_split;    /* of named sums */
    tt_relays *relays;     /* of named sums; NULL: there are none */

    tt_owner_store *owned[TT_STORES_MAX];
    bool is_closed[TT_STORES_MAX]; /* late frames of such stores are dropped */
    tt_owner_part **parts;         /* [part_capacity] by index; NULL: gone */
    uint32_t part_count, part_capacity, parts_released;
    tt_heap due; /* parts with something to do, the most urgent first */
    tt_allocator allocator;
    uint64_t age;         /* of due parts */
    const void **sources; /* [workers + 1] scratch of sums */

    tt_worker_store *stores[TT_STORES_MAX];
    uint32_t store_count;
    tt_worker_key **keys; /* [key_capacity] by index; NULL: gone */
    uint32_t key_count, key_capacity, keys_released;
    tt_sums sums;
    uint32_t pending;        /* requests */
    tt_worker_key *encoding; /* tensors with parts to encode, the most urgent first */

    tt_sync_note *notes;
    uint64_t note_count;
    bool has_overrun; /* a frame was dropped for lack of room on its link */
    tt_stalls stalls;
    tt_update_list own_updates;
};

static inline uint32_t tt_sync_processes(const tt_sync *sync)
{
    return sync->roles.workers + sync->roles.servers;
}

/* That of a store. */
static inline const tt_split *tt_sync_split(const tt_sync *sync, uint32_t store)
{
    return store == TT_STORE_SUMS ? &sync->sum_split : &sync->split;
}

/* Of a store's owners, the one with the least number that is not gone: it decides when workers may
 * go on. */
uint32_t tt_sync_keeper(const tt_sync *sync, const tt_split *split);
/* "server 1 (rank 5)" or "worker 2 (rank 2)". */
void tt_sync_add_peer(const tt_sync *sync, tt_text *text, uint32_t rank);

/* Send a frame, also to this rank itself; epoch and payload_bytes are filled in. As the platform's
 * send. */
tt_status tt_sync_send(tt_sync *sync, tt_send *send, tt_head head, uint32_t payload_bytes);
/* A short payload, which is copied. Without memory a failure is sent with a constant text; another
 * frame is lost: then `false`. */
bool tt_sync_send_text(tt_sync *sync, uint32_t peer, tt_head head, const void *bytes,
                       uint32_t byte_count);
/* A frame without payload. */
void tt_sync_signal(tt_sync *sync, uint32_t peer, tt_head head);

/* Room for one more pointer in an array that grows by doubling. */
tt_status tt_sync_grow(tt_sync *sync, void ***array, uint32_t count, uint32_t *capacity_io);
/* An index of such an array whose pointer is NULL: a released one if there is one, else the next,
 * for which there must be room. */
uint32_t tt_sync_free_index(void *const *array, uint32_t *count_io, uint32_t *released_io);

#endif
