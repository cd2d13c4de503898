/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_wire.h - the frames between workers and owners of a store.
 *
 * Of a head: set is the store, op the key of a tensor (hash of its name), lane its part, round the
 * clock of the sender, stage the priority as a signed number (larger first), descriptor the number
 * of the worker's request for that part, which the answer repeats. Numbers of requests, pushes and
 * clocks ascend, so a frame that arrives twice, or late, does no harm.
 *
 * Layer:   sync, private.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_SYNC_SYNC_WIRE_H
#define TUTTI_SYNC_SYNC_WIRE_H

#include <stdint.h>

#include "aggregate/aggregate.h"

typedef enum tt_sync_kind {
    /* from a worker to an owner */
    TT_SYNC_OPEN = TT_SYNC_KIND_FIRST, /* payload: the store's settings, as text */
    TT_SYNC_CLOSE,
    TT_SYNC_ADD,   /* payload: tt_sync_claim and a name */
    TT_SYNC_FIRST, /* payload: first values of a part; of worker 0 */
    TT_SYNC_PUSH,  /* payload: a part; argument: how many pushes of it, with this one */
    TT_SYNC_PULL,  /* argument: of how many pushes of this worker the result is wanted */
    TT_SYNC_CLOCK, /* round: iterations completed; argument: pushes to this owner before that */
    TT_SYNC_ADOPT = TT_SYNC_KIND_FIRST + 24, /* to the new owner of a part; argument: how many
                                              * pushes of it this worker has had answered */

    /* from an owner to a worker */
    TT_SYNC_OPENED = TT_SYNC_KIND_FIRST + 32, /* argument: status; payload: text */
    TT_SYNC_CLOSED,
    TT_SYNC_ADDED,  /* likewise */
    TT_SYNC_TAKEN,  /* FIRST, or PUSH without an answer, has been consumed */
    TT_SYNC_VALUE,  /* the answer to a PULL or PUSH; payload: a part */
    TT_SYNC_MIN,    /* argument: iterations that all workers have completed, or closed ones */
    TT_SYNC_FAILED, /* op: a key, or 0: the store. argument: status; payload: text */
    TT_SYNC_ADOPTED = TT_SYNC_KIND_FIRST + 44, /* argument: how many pushes of the part some worker
                                                * has had answered: they are not summed again */

    /* between owners */
    TT_SYNC_QUORUM = TT_SYNC_KIND_FIRST + 48, /* round: iteration; payload: a byte per worker */

    /* between any two processes */
    TT_SYNC_GONE = TT_SYNC_KIND_FIRST + 60, /* argument: the rank of a server */
} tt_sync_kind;

enum {
    TT_SYNC_FLAG_ANSWER = 1,    /* of PUSH: reply with the value */
    TT_SYNC_FLAG_UNCOUNTED = 2, /* of TAKEN and VALUE: the push came too late */
    TT_STORES_MAX = 64,
    TT_SYNC_TEXT_BYTES = 512, /* of payloads that are texts, at most */
};

/* What a worker believes a tensor to be; the name follows. */
typedef struct tt_sync_claim {
    uint64_t count;
    uint8_t dtype;
    uint8_t zero[7];
} tt_sync_claim;

_Static_assert(sizeof(tt_sync_claim) == 16, "tt_sync_claim is a wire format");

#define TT_SYNC_TENSOR_BYTES_MAX (UINT64_C(1) << 46)

#endif
