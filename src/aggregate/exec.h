/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.h - runs the moves of one algorithm on one op of one rank.
 *
 * Up to TT_LANES_MAX lanes are open at once, each in one round at a time. Sends of a round are
 * issued when it is entered (and granted), arrivals are taken whenever their lane is open, the
 * reduce waits for its round. See algorithm.h for what algorithms promise.
 *
 * Layer:   aggregate.
 * Threads: one at a time, as the machine.
 * Memory:  one workspace per exec, kept for the next op; grows at start only.
 */
#ifndef TUTTI_AGGREGATE_EXEC_H
#define TUTTI_AGGREGATE_EXEC_H

#include "aggregate/algorithm.h"
#include "aggregate/flow.h"
#include "base/reduce.h"

enum { TT_LANES_MAX = 8 };

/* A peer of this op. */
typedef struct tt_partner {
    uint32_t member;
    bool is_source; /* long frames come from it: it gets grants */
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
    tt_flow *flow;
    const tt_algorithm *algorithm; /* this and the problem through tt_exec_pose */
    tt_problem problem;            /* its offsets and facts may be set afterwards */
    const uint32_t *members;       /* world rank of each member */
    const uint32_t *member_of;     /* [world] or NULL: search `members` */
    const uint8_t *input;
    uint8_t *output;
    tt_head identity; /* set, op, stage, descriptor, epoch, pair flags of frames to send */
    tt_head arriving; /* the same of frames to expect: pairs differ in the reply flag */
    int32_t urgency;
    uint64_t age;      /* order of submission: of equal urgency the older goes first */
    bool tells;        /* peers may hold the op back: who waits for one tells it */
    bool is_host_wide; /* the members are all ranks of the job, on one host, sharing memory */
    uint64_t token;    /* of sends; the low 4 bits are the lane's */
    uint64_t divisor;  /* averages; else 1 */

    /* State. */
    tt_plan plan;
    tt_head posted;      /* of the one frame of a flat plan, the same from every member */
    tt_fold_fn *fold;    /* of a flat plan; NULL: it sums nothing */
    uint64_t fold_count; /* elements */
    const char *forced;  /* as told to tt_exec_pose */
    bool is_planned; /* plan and workspace are those of `problem`, which has no offsets or facts */
    bool is_running;
    bool is_opening;
    bool is_quick;    /* lane 0 is in round 0 of a flat plan, all is sent and nothing is wrong, so
                         that there is nothing to do but to wait: see exec_quick.c */
    bool is_meeting;  /* places are exchanged, no lane is open: see exec_meet.c */
    bool is_laid_out; /* the next start finds plan and workspace as they must be */
    bool is_again;    /* it was started so; its last round is a barrier */
    bool is_eager;
    bool is_blocked; /* a send waits for credit */
    bool has_work;
    tt_status status; /* negative: failed, culprit says by whom */
    uint32_t culprit; /* member */
    uint64_t lanes_opened, lanes_done;
    uint32_t partner_count;
    uint64_t unmet; /* is_meeting: bits of members whose place is not known yet */
    tt_fact *facts; /* is_meeting: where they go */
    tt_partner *partners;
    const void **pointers; /* [2 * size] for sums; as many again for each hand of the platform */
    tt_lane lanes[TT_LANES_MAX];
    void *workspace;
    size_t workspace_bytes;
    uint8_t *slots; /* shared staging, announced in facts */
    size_t slots_bytes;
};

/* Shared staging for lanes of `slot_bytes`; before facts are told. */
tt_status tt_exec_reserve_slots(tt_exec *exec, size_t slot_bytes);

/* State the problem and choose its algorithm, see tt_algorithm_choose; `forced` stays in place.
 * Problems repeat: if it is the last one again, its plan and the workspace's layout are kept. */
void tt_exec_pose(tt_exec *exec, const tt_problem *problem, const char *forced);

/* Begin. Afterwards look at is_running and status, as after every call below: an exec that is no
 * longer running with status OK is complete. */
tt_status tt_exec_start(tt_exec *exec);
/* The same for one that has been run before and differs in buffers, urgency and number alone: its
 * frame goes out at once. False: nothing was done; start it. */
bool tt_exec_repeat(tt_exec *exec);

/* A DATA frame from `member`; as tt_machine_ops.frame. The descriptor was checked by the owner. */
void *tt_exec_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload);
/* The same while is_quick, of a frame whose head is `posted`; false: not one that was to be
 * expected, and nothing was done. */
bool tt_exec_quick_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload);
void tt_exec_payload(tt_exec *exec, uint32_t member, const tt_head *head);

/* Of an exec that has ended well: can its plan serve a call with other places? */
bool tt_exec_can_meet(const tt_exec *exec);
/* Tell all members the own place of `facts`, which are those of the problem, and wait for theirs;
 * they have met when is_running ends. False: nothing was done. */
bool tt_exec_meet(tt_exec *exec, tt_fact *facts);
/* The frame of a member that is_meeting waits for; false: it is none, and nothing was done. */
bool tt_exec_meet_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload);
/* The same of the barrier that ends an exec that is_again. */
bool tt_exec_part_frame(tt_exec *exec, uint32_t member, const tt_head *head);

void tt_exec_granted(tt_exec *exec, uint32_t member, uint64_t lanes);
/* The peer has no credit: grant it what is open. */
void tt_exec_wanted(tt_exec *exec, uint32_t member);
void tt_exec_sent(tt_exec *exec, uint32_t lane_slot);
/* Credit came back somewhere: try again what waited for it. */
void tt_exec_unblock(tt_exec *exec);
/* Some local work; true if more is left. */
bool tt_exec_step(tt_exec *exec);

/* Nobody uses the staging slots any more: give them back if much is kept already. */
void tt_exec_trim_slots(tt_exec *exec);
/* A peer may yet store to the staging slots: never use or free them again. */
void tt_exec_forsake_slots(tt_exec *exec);

/* Is anything still to come from or go to `member`? */
bool tt_exec_needs(const tt_exec *exec, uint32_t member);

/* Has nothing been sent or received? */
bool tt_exec_is_untouched(const tt_exec *exec);

/* Give up: buffers are no longer touched after this. */
void tt_exec_stop(tt_exec *exec);
/* Of one that is over: its members are no more, nothing of what it was may be used again. */
void tt_exec_forget(tt_exec *exec);
/* Release the workspace. */
void tt_exec_fini(tt_exec *exec);

/* Number of world rank `peer` among the members, or UINT32_MAX. */
uint32_t tt_exec_member(const tt_exec *exec, uint32_t peer);

#endif
