/* SPDX-License-Identifier: Apache-2.0
 *
 * stall.h - calls of a worker that wait long: whom do they wait for?
 *
 * A worker asks the process that has not answered, which alone knows what it lacks, and logs its
 * reply (MISSING), or that there was none. One question is open at a time, about the call that has
 * waited longest. Nothing is sent before a call has waited tt_sync_listener.stall_ns.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  none.
 */
#ifndef TUTTI_SYNC_STALL_STALL_H
#define TUTTI_SYNC_STALL_STALL_H

#include "platform/platform.h"
#include "sync/sync.h"

/* What a call waits for, at the process that is asked. */
typedef enum tt_stall_what {
    TT_STALL_OPEN,  /* all workers have opened the store */
    TT_STALL_CLOSE, /* closed it */
    TT_STALL_ADD,   /* added the tensor */
    TT_STALL_CLOCK, /* completed enough iterations */
    TT_STALL_PART,  /* a part can be answered */
    TT_STALL_REPLY, /* nothing but the reply itself */
} tt_stall_what;

typedef struct tt_stalls {
    uint64_t due_ns;                /* of the next look; 0: none is due */
    uint64_t number;                /* of the last question */
    const tt_sync_request *request; /* that it is about; it may be over: never read, */
    uint64_t since_ns;              /* since when it waits */
    uint32_t asked;                 /* rank that was asked, */
    bool is_open;                   /* and has not replied */
    tt_text call;                   /* in words */
} tt_stalls;

/* A request was submitted: look at it when it has waited long. */
void tt_stall_watch(tt_sync *sync);
/* The driver's timer has fired, for this machine or for the wrapped one. */
void tt_stall_timer(tt_sync *sync);
/* MISSING: the reply to a question. */
void tt_stall_reply(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload);
/* A peer is gone: it will not reply. */
void tt_stall_peer_out(tt_sync *sync, uint32_t peer);

/* STALLED: a worker's question. */
void tt_stall_frame(tt_sync *sync, uint32_t worker, const tt_head *head);

#endif
