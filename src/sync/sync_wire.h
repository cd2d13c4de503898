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
    TT_SYNC_PUSH, /* payload: a part, or its code; argument: how many pushes of it, with this one */
    TT_SYNC_PULL, /* argument: of how many pushes of this worker the result is wanted */
    TT_SYNC_CLOCK, /* round: iterations completed; argument: pushes to this owner before that */
    /* An option of the update, from a clock on. round: the clock; lane: 0 hold back pushes from
     * there on, 1 take it, 2 do not; argument: option (high half), value as the bits of an f32 */
    TT_SYNC_SET,
    TT_SYNC_COUNT, /* replied to by COUNTED */
    TT_SYNC_ADOPT, /* to the new owner of a part; argument: how many pushes of it this worker has
                      had answered. Of a quorum, round: iteration of the push to be sent again, with
                      FLAG_REPEAT; descriptor: iterations up to the last one whose sum it has */
    TT_SYNC_READ,  /* round: a plane of a part (keep/keep.h), replied to by VALUE; argument of that:
                      sums made of the part */
    TT_SYNC_FILL,  /* round: likewise; payload: its values; argument: sums made so far */
    TT_SYNC_OPTIONS, /* of the update; replied to by OPTIONED */
    TT_SYNC_ROWS,    /* payload: numbers (u64) of rows of a table, all of one part. Argument: as of
                        the PUSH that has their values, or, with FLAG_PULL, of a PULL */
    TT_SYNC_STALLED, /* also to a relay: what does a call wait for? round: tt_stall_what; op and
                        lane: where it is about a tensor or part; replied to by MISSING */

    /* likewise, of named sums (sum/sum_worker.c) */
    TT_SYNC_OBJECT = TT_SYNC_KIND_FIRST + 24, /* the worker cannot take part in the sum after
                        `descriptor` sums of the key. argument: status; payload: as of ADD, a zero,
                        a text */
    TT_SYNC_JOIN,   /* round: how often the worker has joined; argument: names with calls open */
    TT_SYNC_BUSY,   /* round: as of JOIN; op: such a name, */
    TT_SYNC_IDLE,   /* whose calls are over now */
    TT_SYNC_FORGET, /* round: sums from before this many joins are over on the worker */
    TT_SYNC_HELD,   /* from a relay; argument: sums of the key to which workers of its host have
                       pushed, although others have left the key before */

    /* from an owner to a worker */
    TT_SYNC_OPENED = TT_SYNC_KIND_FIRST + 32, /* argument: status; payload: text; of an update of
                        the program's own, TT_OK: its description (tt_update_describe) */
    TT_SYNC_CLOSED,
    TT_SYNC_ADDED,  /* argument: status */
    TT_SYNC_TAKEN,  /* FIRST, or PUSH without an answer, has been consumed */
    TT_SYNC_VALUE,  /* the answer to a PULL or PUSH; payload: a part, or the code of a sum.
                       Argument, of sums of a quorum: iterations up to the one it is the sum of */
    TT_SYNC_MIN,    /* argument: iterations that all workers have completed, or closed ones */
    TT_SYNC_FAILED, /* op: a key, or 0: the store. argument: status; payload: text. Of a named sum:
                       descriptor: sums before it, which are good; round: generation of the next */
    /* lane as of SET; argument: status; round: clocks below were applied here */
    TT_SYNC_WAS_SET,
    /* round: the least clock; argument: dropped frames; payload: 64 counts of staleness (u64), or
     * nothing if there was no memory for it */
    TT_SYNC_COUNTED,
    TT_SYNC_ADOPTED, /* argument: how many pushes of the part some worker has had answered: they are
                        not summed again */
    TT_SYNC_OPTIONED, /* payload: tt_sync_kept_options; nothing if there was no memory for it */
    TT_SYNC_MISSING,  /* payload: in words, who is waited for; nothing: nobody */

    /* between owners */
    TT_SYNC_QUORUM = TT_SYNC_KIND_FIRST + 48, /* round: iteration; payload: a byte per worker */
    /* likewise, of update sum: store_quorum.c (3) */
    TT_SYNC_HAVE,  /* reply to QUORUM; round: iteration */
    TT_SYNC_SURE,  /* round: iterations whose QUORUM all owners have */
    TT_SYNC_ASK,   /* of a new keeper; round: iterations of which it knows the decision */
    TT_SYNC_KNOWN, /* reply to ASK, one for each decision from there on, and the last one at least.
                      round: iterations up to it; argument: all that are known; payload: as of
                      QUORUM, or none if there is none */

    /* between workers, after the death of a server. op: a name of sums (tt_sum_base), or 0;
     * argument: how many of its calls have ended on the sender; descriptor: how many names it sends
     * in all */
    TT_SYNC_ENDED = TT_SYNC_KIND_FIRST + 56,

    /* between any two processes */
    TT_SYNC_GONE = TT_SYNC_KIND_FIRST + 60, /* argument: the rank of a server */
} tt_sync_kind;

enum {
    TT_SYNC_FLAG_ANSWER = 1,    /* of PUSH: reply with the value */
    TT_SYNC_FLAG_UNCOUNTED = 2, /* of TAKEN and VALUE: the push came too late */
    TT_SYNC_FLAG_HOST = 4, /* of PUSH: the sum of a host, round: of how many workers. Of VALUE: the
                              answer to that */
    TT_SYNC_FLAG_ROWS = 8, /* of PUSH: payload: values of the rows that ROWS numbers; none: there is
                              no ROWS */
    TT_SYNC_FLAG_PULL = 16,    /* of ROWS: they are wanted, replied to by VALUE */
    TT_SYNC_FLAG_REPEAT = 32,  /* of ADOPT: one more push was not answered, and is sent again */
    TT_SYNC_FLAG_LOST = 32,    /* of ADOPTED: that push has counted, and its sum is lost here. Of
                                  TAKEN: so is the value that is wanted */
    TT_SYNC_FLAG_NOW = 64,     /* of SET: the first clock of which nothing was applied */
    TT_SYNC_FLAG_WAITED = 128, /* of VALUE: the pull was held back at the owner */
    TT_STORES_MAX = 1024,      /* of a job; numbers are not used again */
    TT_STORE_SUMS = TT_STORES_MAX - 1, /* that of named sums; it has no other number */
    TT_SYNC_TEXT_BYTES = 512,          /* of payloads that are texts, at most */
    TT_SYNC_SHAPE_BYTES = 32,
};

/* What a worker believes a tensor to be; the name follows. */
typedef struct tt_sync_claim {
    uint64_t count;
    uint8_t dtype;
    uint8_t redop;        /* from here on, but for row_elements, of named sums; else 0 */
    uint8_t is_by_active; /* an average is divided by the number of workers that take part */
    uint8_t zero;
    uint32_t joins;      /* of the worker so far */
    uint32_t generation; /* of the key: a name whose claim changes, or that fails, gets a new one */
    uint32_t row_elements; /* of a table; else 0 */
    double prescale, postscale;
    uint8_t shape[TT_SYNC_SHAPE_BYTES]; /* as tt_request has it */
} tt_sync_claim;

_Static_assert(sizeof(tt_sync_claim) == 72, "tt_sync_claim is a wire format");

#define TT_SYNC_TENSOR_BYTES_MAX (UINT64_C(1) << 46)

#endif
