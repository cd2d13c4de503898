/* SPDX-License-Identifier: Apache-2.0
 *
 * set.h - a process set on one rank: its members, the state of its calls, its failures.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  one block per set, and memory of its named calls; released by removal.c.
 */
#ifndef TUTTI_CONTROL_SET_H
#define TUTTI_CONTROL_SET_H

#include "aggregate/aggregate.h"
#include "control/control.h"
#include "control/space/space.h"
#include "negotiate/negotiate.h"

enum { PLAN_FAILURES_MAX = 8, SET_BUCKETS = 64 };

/* Ops of a set for an engine: unnamed ones in the order of calls, named ones in the agreed order.
 * The two have no common order: the engine gets them as two sets. */
enum { ENGINE_CALLS, ENGINE_NAMED, ENGINE_ORDERS };

typedef struct tt_engine_order {
    tt_op *ops; /* not launched yet */
    tt_op **end;
    uint32_t open;           /* taken and not over */
    uint64_t launched_bytes; /* not landed: see engine.c (5) */
    bool is_pumping;
} tt_engine_order;

/* A planned tensor or bundle. */
typedef struct tt_plan_entry {
    uint32_t generation, index;
} tt_plan_entry;

/* Phases of a set: see removal.c. */
typedef enum tt_set_phase {
    SET_OPEN,
    SET_REMOVED,  /* accepts no more calls; open ones continue */
    SET_FAREWELL, /* this rank has none open, and waits until no member has */
    SET_OVER,     /* to be released */
} tt_set_phase;

struct tt_set {
    struct tt_set *next, *previous;
    struct tt_set *next_in_bucket;
    tt_control *control;
    uint32_t id;
    uint32_t size;
    uint32_t self;       /* member number of this rank, or UINT32_MAX */
    uint32_t *members;   /* [size] world ranks */
    uint32_t *member_of; /* [world] member numbers or UINT32_MAX */
    tt_topology topology;
    uint32_t *topology_memory;
    bool is_host_wide; /* all ranks of the job, on one host, sharing memory */
    tt_choice choice;  /* by the table of costs */
    tt_order calls;
    tt_order *agreed;                  /* NULL: no named op yet */
    struct tt_generation *generations; /* of plans, newest first */
    tt_op *pairs;                      /* sends and receives in flight */
    tt_op_queue pair_queue;            /* those behind earlier ones of their pair */
    uint32_t *pair_open;               /* [2 * size] in flight: to, from each member */
    uint64_t *pair_next;       /* [2 * size] messages without a tag so far: to, from each member */
    tt_tags *tags;             /* of those with one; NULL: there were none */
    struct tt_anys *anys;      /* receives from any source: any.c; NULL: none yet */
    tt_negotiator *negotiator; /* NULL: no named call yet */
    struct tt_layout *layout;  /* NULL: the library makes no groups */
    struct tt_vast *vasts;     /* members of digests: see bid.c */
    bool is_touched;           /* its negotiator is to be flushed */
    tt_status shut;            /* its tickets have ended, for this reason */
    char shut_text[TT_ERROR_BYTES];
    uint64_t shut_ns;  /* a member has left: its tickets end at this time */
    tt_request *join;  /* this rank has joined */
    bool is_join_held; /* handed to the negotiator when no stand-in (expire.c) is left */
    uint32_t stand_in_count;
    uint32_t joined_last; /* + 1: all have joined, this member last */
    tt_status join_failure;
    uint32_t absent_count; /* ops that run without a call of this rank */
    tt_plan_entry plan_failures[PLAN_FAILURES_MAX];
    uint32_t plan_failure_count; /* not reported to the negotiator yet */
    tt_status broken;            /* a member is gone: all calls on this set fail */
    tt_set_phase phase;
    tt_request *farewell; /* its last call: removal.c */
    char broken_text[TT_ERROR_BYTES];
    tt_status late; /* an op that had succeeded on this rank failed elsewhere */
    char late_text[TT_ERROR_BYTES];
    tt_engine_order engine[ENGINE_ORDERS];
    bool engine_is_stuck; /* the engine still has an op that failed: it gets no more */
    char engine_text[TT_ERROR_BYTES];
};

_Static_assert(sizeof(struct tt_set) <= 29000, "groups are sets, and jobs have many");

/* set.c */
/* Is it a set that this rank has not created yet? */
bool tt_set_is_future(const tt_control *control, uint32_t id);
void tt_set_unlink(tt_control *control, tt_set *set);
void tt_set_destroy(tt_control *control, tt_set *set);
/* Compile the table of costs for the set. */
void tt_set_choose(const tt_control *control, tt_set *set);

/* removal.c */
/* Sets were removed: begin the last call of those that have no call open on this rank, release
 * those that are over. Not while an upcall works on an op. */
void tt_removal_step(tt_control *control);
bool tt_removal_is_farewell(const tt_op *op);

#endif
