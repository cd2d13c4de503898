/* SPDX-License-Identifier: Apache-2.0
 *
 * flow.h - credit and parking: how early frames stay bounded.
 *
 * Small frames are sent at once while the sender has credit with the receiver. A frame that arrives
 * before its op has started is parked; the credit is exactly the room kept for that. A sender
 * without credit sends WANT, and its frame once the receiver's op has started (GRANT). Long frames
 * always wait for GRANT. So:
 *  (1) A link always drains: every arriving frame is consumed, parked in room that its credit
 *      reserved, or dropped because its op has failed. No rank blocks a link while it waits for a
 *      frame.
 *  (2) Parked memory per peer is at most TT_CREDIT_FRAMES * eager_bytes_max.
 *  (3) Counters on the wire are cumulative, so a frame that overtakes another does no harm.
 *
 * Layer:   aggregate.
 * Threads: one at a time, as the machine.
 * Memory:  one block per peer, taken when its first frame is parked; notes from a free list.
 */
#ifndef TUTTI_AGGREGATE_FLOW_H
#define TUTTI_AGGREGATE_FLOW_H

#include "aggregate/frame.h"
#include "base/assert.h"
#include "platform/platform.h"

enum {
    TT_CREDIT_FRAMES = 64,
    TT_SLOTS_KEPT_BYTES = 64 * 1024 * 1024, /* staging kept for later ops */
    TT_NOTES_MAX = 1 << 20, /* per peer: bounds the memory that a faulty peer can fill */
    TT_PARKED_BUCKETS = 64,
};

typedef struct tt_exec tt_exec;

/* A frame that arrived before its op or stage was started. */
typedef struct tt_parked {
    struct tt_parked *next;
    uint32_t peer;
    tt_head head;
    uint8_t payload[];
} tt_parked;

/* A GRANT or WANT that arrived before its op or stage was started. */
typedef struct tt_note {
    struct tt_note *next;
    uint32_t peer;
    tt_head head;
} tt_note;

typedef struct tt_flow_peer {
    uint64_t sent;         /* eager frames sent */
    uint64_t acknowledged; /* of them, consumed by the peer */
    uint64_t consumed;     /* eager frames of the peer, consumed here */
    uint64_t told;         /* value of `consumed` in the last CREDIT */
    tt_exec *arriving;     /* owner of the sink of the long frame now arriving */
    tt_parked *free;       /* room for frames to park */
    void *block;           /* memory behind `free` */
    uint32_t note_count;
} tt_flow_peer;

typedef struct tt_flow {
    tt_platform *platform;
    uint32_t peer_count;
    uint32_t eager_bytes_max;
    uint32_t epoch;
    tt_flow_peer *peers;
    /* By set, op and space, whatever the stage; in a bucket the oldest first. */
    tt_parked *parked[TT_PARKED_BUCKETS];
    tt_parked **parked_end[TT_PARKED_BUCKETS];
    uint32_t parked_count;
    tt_note **notes; /* [note_buckets], by the same, unordered; NULL: none so far */
    uint32_t note_count, note_buckets;
    tt_note *notes_free;
    uint64_t frames_dropped; /* late or duplicate */
    uint64_t slots_bytes;    /* shared staging that ops use or keep */
    int32_t urgency_top;     /* of the running ops; less urgent ones do their work in steps */
} tt_flow;

tt_status tt_flow_init(tt_flow *flow, tt_platform *platform, uint32_t peer_count,
                       uint32_t eager_bytes_max);
void tt_flow_fini(tt_flow *flow);

/* One credit with `peer`; false if there is none. */
static inline bool tt_flow_take(tt_flow *flow, uint32_t peer)
{
    tt_flow_peer *state = &flow->peers[peer];
    TT_DEBUG_ASSERT(state->acknowledged <= state->sent);
    if (state->sent - state->acknowledged >= TT_CREDIT_FRAMES) {
        return false;
    }
    state->sent++;
    return true;
}
/* One credit with each of `peers` but the self-th; false, and none is taken, if one has none. */
bool tt_flow_take_all(tt_flow *flow, const uint32_t *peers, uint32_t peer_count, uint32_t self);
/* The credits were not used: return them. */
void tt_flow_return_all(tt_flow *flow, const uint32_t *peers, uint32_t peer_count, uint32_t self);
/* An eager frame of `peer` was consumed: its credit is returned, by one CREDIT for several frames.
 */
void tt_flow_tell(tt_flow *flow, uint32_t peer); /* sends that CREDIT */
static inline void tt_flow_consumed(tt_flow *flow, uint32_t peer)
{
    tt_flow_peer *state = &flow->peers[peer];
    TT_DEBUG_ASSERT(state->told <= state->consumed);
    state->consumed++;
    if (state->consumed - state->told >= TT_CREDIT_FRAMES / 2) {
        tt_flow_tell(flow, peer);
    }
}
/* CREDIT arrived; true if there is credit now where there was none. */
bool tt_flow_credit(tt_flow *flow, uint32_t peer, uint64_t consumed_total);

/* Keep a copy of the frame. TT_ERR_BAD_WIRE: the peer had no credit for it. */
tt_status tt_flow_park(tt_flow *flow, uint32_t peer, const tt_head *head, const void *payload);
/* Remove and return the oldest parked frame of (set, op, stage, pair flags) with a lane below
 * `lane_end`, or NULL. Release it with tt_flow_unpark. For pairs `peer` must match too.
 */
tt_parked *tt_flow_find(tt_flow *flow, const tt_head *identity, uint64_t lane_end, uint32_t peer);
void tt_flow_unpark(tt_flow *flow, tt_parked *parked);
/* Is the frame of `peer` for (lane, round) of this op parked? */
bool tt_flow_has(const tt_flow *flow, const tt_head *identity, uint32_t peer, uint64_t lane,
                 uint32_t round);

/* Is a frame or note for any stage of this op kept? */
bool tt_flow_knows(const tt_flow *flow, const tt_head *identity, uint32_t peer);

/* Remember a GRANT or WANT; a later one of the same kind and identity replaces it.
 * TT_ERR_BAD_WIRE: too many of this peer. */
tt_status tt_flow_note(tt_flow *flow, uint32_t peer, const tt_head *head);
/* Remove and return a note for (set, op, stage, pair flags; for pairs also `peer`); false: none is
 * left. */
bool tt_flow_note_take(tt_flow *flow, const tt_head *identity, uint32_t peer, tt_note *note_out);

/* Drop all parked frames and notes of an op that is over, whatever their stage. */
void tt_flow_purge(tt_flow *flow, const tt_head *identity, uint32_t peer);

/* The same for all ops of a removed set. */
void tt_flow_purge_set(tt_flow *flow, uint32_t set);

/* Send a frame without borrowed payload; failure means the peer is down, which an upcall reports.
 */
void tt_flow_control(tt_flow *flow, uint32_t peer, const tt_head *head);

#endif
