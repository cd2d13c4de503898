/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.h - runs one stage of one op of one rank at a time.
 *
 * The stage's executor runs it (stage.h). Lanes: up to TT_LANES_MAX chunks are open at once, each
 * in one round at a time. Sends of a round are issued when it is entered (and granted), arrivals
 * are taken whenever their lane is open, the reduce waits for its round. See algorithm.h for what
 * algorithms promise.
 *
 * Invariants:
 *  (1) An exec that is no longer running with status OK has completed its stage.
 *  (2) The workspace is laid out for the stage `laid_out`, or for none.
 *  (3) Phantom payloads (platform.h) are never touched, nor is scratch for what comes of them: that
 *      of lanes is phantom, too.
 *
 * Layer:   aggregate.
 * Threads: one at a time, as the machine.
 * Memory:  one workspace per exec, kept for the next stage or op; grows at start only.
 */
#ifndef TUTTI_AGGREGATE_EXEC_H
#define TUTTI_AGGREGATE_EXEC_H

#include "aggregate/coding.h"
#include "aggregate/flow.h"
#include "aggregate/stage.h"
#include "base/assert.h"

enum { TT_LANES_MAX = 8 };

/* A peer of this op. */
typedef struct tt_partner {
    uint32_t member;
    bool is_source; /* it sends long frames, so it gets grants */
    bool has_wanted;
    uint64_t granted; /* lanes below this are open there */
} tt_partner;

typedef struct tt_lane {
    bool is_open;
    bool is_entered; /* the counts below are of `round` */
    bool is_reduced;
    bool is_worked;
    uint32_t round;
    uint32_t sends_open;    /* not yet released, unissued ones included */
    uint32_t sends_waiting; /* of them, not yet issued */
    uint32_t arrivals_open;
    uint32_t work_index; /* move of this round, unless is_worked */
    uint64_t number;
    uint64_t work_done; /* bytes */
    uint64_t *received; /* bits: round * fan + slot */
    uint64_t *issued;   /* bits of this round: slot */
    uint8_t *scratch;
} tt_lane;

struct tt_exec {
    /* Set by the owner before start. */
    const tt_stage *stage;
    tt_flow *flow;
    const uint32_t *members;   /* world rank of each member */
    const uint32_t *member_of; /* [world] or NULL: search `members` */
    const uint8_t *input;
    uint8_t *output;
    tt_head identity; /* set, op, stage, descriptor, epoch, pair flags of frames to send */
    uint64_t age;     /* order of submission: of equal urgency the older goes first */
    uint64_t token;   /* of sends; the low 4 bits are the lane's */
    uint32_t divisor; /* averages; else 1 */
    int32_t urgency;
    bool tells; /* peers may hold the op back: a rank that waits for one sends WANT or GRANT */
    bool is_host_wide; /* the members are all ranks of the job, on one host, sharing memory */

    /* State. */
    bool is_running;
    bool is_opening;
    bool is_posted;  /* flat: its frame was sent before the stage started */
    bool is_blocked; /* a send waits for credit */
    bool has_work;
    bool has_phantom;   /* the scratch of lanes is, as it is laid out */
    uint8_t lane_slots; /* of `lanes` */
    tt_status status;   /* negative: failed, `culprit` caused it */
    uint32_t culprit;   /* member */
    uint32_t partner_count;
    uint32_t borrowed;           /* flat: frames that links have not released yet */
    uint64_t unsent, unreceived; /* flat: bits of members. local: bytes to do */
    uint64_t wanting;            /* flat: bits of members that were sent WANT */
    uint64_t lanes_opened, lanes_done;
    const tt_stage *laid_out;
    tt_partner *partners;
    const void **pointers; /* [2 * size] for sums; as many again for each hand of the platform */
    tt_lane *lanes;
    uint8_t *scratch; /* flat: a frame of each member */
    void *workspace;
    size_t workspace_bytes;
    size_t counted_bytes; /* with phantom scratch: ops are kept alike with it and without */
    uint8_t *slots;       /* shared staging, announced in facts */
    size_t slots_bytes;
    tt_coding *coding; /* set by the owner before start, where the problem has a codec */
};

_Static_assert(sizeof(tt_exec) <= 288, "an op keeps one");

/* Shared staging for lanes of `slot_bytes`, of bytes like those at `like`; before facts are sent.
 */
tt_status tt_exec_reserve_slots(tt_exec *exec, size_t slot_bytes, const void *like);

/* The next stage is flat and laid out by an earlier run: send its frame early if one post suffices.
 * The remaining work then overlaps with its transfer. */
void tt_exec_post(tt_exec *exec);

/* Start the stage. Afterwards check is_running and status, as after every call below. */
static inline tt_status tt_exec_start(tt_exec *exec)
{
    TT_ASSERT(!exec->is_running);
    return exec->stage->executor->start(exec);
}

/* A DATA frame of this stage from `member`; as tt_machine_ops.frame. The owner has checked the
 * descriptor. */
static inline void *tt_exec_frame(tt_exec *exec, uint32_t member, const tt_head *head,
                                  const void *payload)
{
    TT_ASSERT(exec->is_running);
    return exec->stage->executor->frame(exec, member, head, payload);
}

static inline void tt_exec_payload(tt_exec *exec, uint32_t member, const tt_head *head)
{
    TT_DEBUG_ASSERT(exec->is_running);
    exec->stage->executor->payload(exec, member, head);
}

static inline void tt_exec_granted(tt_exec *exec, uint32_t member, uint64_t lanes)
{
    TT_DEBUG_ASSERT(exec->is_running);
    exec->stage->executor->granted(exec, member, lanes);
}

static inline void tt_exec_wanted(tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(exec->is_running);
    exec->stage->executor->wanted(exec, member);
}

static inline void tt_exec_sent(tt_exec *exec, uint32_t lane_slot)
{
    TT_DEBUG_ASSERT(exec->is_running && lane_slot < TT_LANES_MAX);
    exec->stage->executor->sent(exec, lane_slot);
}

static inline void tt_exec_retry(tt_exec *exec)
{
    TT_DEBUG_ASSERT(exec->is_running);
    exec->stage->executor->retry(exec);
}

static inline bool tt_exec_step(tt_exec *exec)
{
    TT_DEBUG_ASSERT(exec->is_running && exec->has_work);
    return exec->stage->executor->step(exec);
}

static inline bool tt_exec_needs(const tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(!exec->is_running || member < exec->stage->problem.size);
    return exec->is_running && exec->stage->executor->needs(exec, member);
}

static inline bool tt_exec_is_untouched(const tt_exec *exec)
{
    return exec->stage->executor->is_untouched(exec);
}

/* The staging slots are no longer used: release them if much is kept already. */
void tt_exec_trim_slots(tt_exec *exec);
/* A peer may yet store to the staging slots: never use or free them again. */
void tt_exec_forsake_slots(tt_exec *exec);

/* Stop: buffers are not touched after this. */
void tt_exec_stop(tt_exec *exec);
/* For an exec that is over: its stages are freed, so drop all references to them. */
void tt_exec_forget(tt_exec *exec);
/* Release the workspace. */
void tt_exec_fini(tt_exec *exec);

/* Number of world rank `peer` among the members, or UINT32_MAX. */
uint32_t tt_exec_member(const tt_exec *exec, uint32_t peer);

#endif
