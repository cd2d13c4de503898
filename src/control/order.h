/* SPDX-License-Identifier: Apache-2.0
 *
 * order.h - the op that a number in a frame belongs to.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  as control.h.
 */
#ifndef TUTTI_CONTROL_ORDER_H
#define TUTTI_CONTROL_ORDER_H

#include <stddef.h>

#include "aggregate/aggregate.h"
#include "control/claim.h"
#include "control/control.h"

enum {
    OPS_AHEAD_MAX = 1024, /* ops of one set in flight; later ones queue, however urgent */
    OPS_EXTRA_MAX = 8,    /* of them, begun before their turn because they are urgent */
    /* Ops whose claim is remembered after success, for disputes with other ranks: as many as may be
     * over before an older one is, or the older one would overwrite a newer one. */
    DONE_KEPT = OPS_AHEAD_MAX,
    GENERATIONS_KEPT = 16, /* of plans; nothing older is still in flight */
    FAILED_KEPT = 64, /* ops whose failure is remembered, so that a second verdict is ignored */
    PLANNED_FAILED_KEPT = 4, /* the same, of one planned tensor: after the first it is cut */
};

/* Number spaces of ops. TT_FLAG_* distinguish them in heads. */
typedef enum tt_space {
    SPACE_CALLS,   /* collectives without a name: the order of calls */
    SPACE_AGREED,  /* named: the order the negotiator gave */
    SPACE_PLANNED, /* named, of a plan: (generation, index, occurrence, part), in any order */
    SPACE_PAIR,    /* send and receive: per pair and direction */
} tt_space;

typedef struct tt_failure {
    tt_status status;
    const char *text;
} tt_failure;

/* An op that has succeeded. */
typedef struct tt_done {
    uint64_t sequence; /* + 1 */
    struct tt_recipe *recipe;
} tt_done;

/* Ops of one space of a set whose order all members share. */
typedef struct tt_order {
    uint64_t next; /* sequence of the next op */
    tt_op *ops[OPS_AHEAD_MAX];
    tt_op *queue; /* submitted, waiting for a place in `ops` */
    tt_op **queue_end;
    uint32_t staged_count; /* ops in flight that hold staging slots, without the extra ones */
    uint32_t extra_count;  /* ops in flight that were begun before their turn */
    bool is_pumping;       /* ops of the queue are being begun */
    uint64_t failed[FAILED_KEPT]; /* sequence + 1 */
    int8_t failed_status[FAILED_KEPT];
    uint32_t failed_count;
    tt_done done[DONE_KEPT]; /* at sequence % DONE_KEPT */
} tt_order;

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

/* An earlier claim of a part of a planned tensor, kept when the claim changed on this rank. Peers
 * that had begun the changed occurrence may dispute it when later ones, with the old claim again,
 * have succeeded. */
typedef struct tt_past {
    struct tt_past *next; /* older */
    uint64_t key;         /* + 1: of the last occurrence with this claim */
    struct tt_recipe *recipe;
} tt_past;

/* The finished occurrences of a part of a planned tensor. A failure may arrive long after its
 * occurrence and later ones had succeeded on this rank: it must not overwrite them. */
typedef struct tt_over {
    uint64_t key;             /* + 1: of the last occurrence that succeeded; 0: none has */
    struct tt_recipe *recipe; /* of that one */
    tt_past *past;            /* claims before it, newest first; nearly always NULL */
    uint64_t failed[PLANNED_FAILED_KEPT]; /* key + 1, the last ones */
    int8_t failed_status[PLANNED_FAILED_KEPT];
    uint32_t failed_count;
} tt_over;

/* Progress of one tensor of a plan on this rank. */
typedef struct tt_planned {
    uint64_t next;   /* key of the next occurrence */
    bool is_failing; /* one part has failed, the others fail next */
    tt_op *open;     /* parts of the last occurrence that are not over */
    tt_over **overs; /* [part_count] */
    uint32_t part_count;
    struct tt_batch *batch; /* of a bundle's number: its members; else NULL */
} tt_planned;

/* The tensors of one generation of the plan, by index; NULL: not begun on this rank. */
typedef struct tt_generation {
    struct tt_generation *next; /* older */
    uint32_t number;
    uint32_t capacity;
    tt_planned **tensors;
} tt_generation;

/* order.c */
tt_op *tt_op_find(const tt_control *control, uint32_t peer, const tt_head *head);
/* Is the op of this frame not submitted on this rank yet? False: it is over. */
bool tt_op_is_future(const tt_control *control, uint32_t peer, const tt_head *head);
/* The claim of an op that has succeeded on this rank; false: it has not, or too long ago. */
bool tt_order_done(const tt_control *control, const tt_head *key, tt_claim *claim_out);
/* The status of an op that has failed on this rank; OK: it has not, or too long ago. */
tt_status tt_order_failed(const tt_control *control, const tt_head *key);
/* The op of `key` is over with `status`; or it had succeeded, and its failure arrived now. */
void tt_order_remember(tt_set *set, const tt_head *key, struct tt_recipe *recipe, tt_status status);
void tt_order_init(tt_order *order);
/* The order of agreed tensors, empty; NULL: no memory. */
tt_order *tt_order_create(tt_platform *platform);
void tt_order_destroy(tt_control *control, tt_order *order);
/* Forget all ops that are over. */
void tt_order_forget(tt_control *control, tt_order *order);
/* Key of a planned op; parts number the ops of one group. */
uint64_t tt_planned_key(uint32_t generation, uint32_t index, uint64_t occurrence, uint32_t part);
/* Are they parts of one occurrence? */
bool tt_planned_is_one(uint64_t key, uint64_t other);
/* The tensor of `key`, created if need be; NULL: no memory. Occurrences up to that of `key` are
 * begun from now on. */
tt_planned *tt_planned_begin(tt_control *control, tt_set *set, uint64_t key);
/* The occurrence of `key` has this recipe's claim; a different claim of the last one is kept.
 * False: no memory. */
bool tt_planned_claim(tt_control *control, const tt_planned *planned, uint64_t key,
                      const struct tt_recipe *recipe);
/* The occurrence of `key` has succeeded. */
void tt_planned_keep(tt_control *control, const tt_planned *planned, uint64_t key,
                     struct tt_recipe *recipe);
/* The batch pointer of `key`; NULL: there is none, or no memory (`is_wanted`: create it). */
struct tt_batch **tt_planned_batch(tt_control *control, tt_set *set, uint64_t key, bool is_wanted);
void tt_planned_release_all(tt_control *control, tt_set *set);

/* ---- op.c ---- */

/* The place of an op: a sequence in its space. CALLS and PAIR: always the next; ignored. */
typedef struct tt_standing {
    tt_space space;
    uint64_t sequence;          /* SPACE_PLANNED: key */
    uint32_t generation, index; /* SPACE_PLANNED: of the plan and tensor */
    uint32_t active;            /* members that have not joined; 0: all */
} tt_standing;
/* Give the request its place and begin it. With an objection it fails on all ranks with that text,
 * which names the objecting rank. */
void tt_op_submit(tt_control *control, tt_set *set, tt_request *request,
                  const tt_standing *standing, const tt_failure *objection);
/* End the request, which has no op. */
void tt_request_refuse(tt_request *request, tt_status status, const char *text);

#endif
