/* SPDX-License-Identifier: Apache-2.0
 *
 * space.h - number spaces: the op that a number in a frame belongs to, and ops that are over.
 *
 * A frame belongs to (set, space, number, stage). A space is a table of functions. Calls without a
 * name and agreed tensors share one file, since both are orders; planned tensors and messages
 * between two ranks have one each.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  as control.h; what is over is remembered by references to recipes.
 */
#ifndef TUTTI_CONTROL_SPACE_SPACE_H
#define TUTTI_CONTROL_SPACE_SPACE_H

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
    FAILED_KEPT = 64, /* ops whose failure is remembered, so that a second verdict is ignored */
    PAIRS_AHEAD_MAX = 256, /* sends, and receives, of one pair in flight; later ones queue */
};

typedef struct tt_space tt_space;
typedef struct tt_planned tt_planned;

/* The place of an op. */
typedef struct tt_standing {
    const tt_space *space;
    uint64_t sequence;          /* planned tensors: the key; else ignored: always the next */
    uint32_t generation, index; /* planned tensors: of the plan and tensor */
    uint32_t active;            /* members that have not joined; 0: all */
} tt_standing;

/* Ops that wait for their turn. */
typedef struct tt_op_queue tt_op_queue;
typedef void tt_op_pump(tt_op_queue *queue, uint32_t pair_index);
struct tt_op_queue {
    tt_op *first;
    tt_op **end;
    /* An op is over (of a pair: that of `pair_index`): begin those whose turn it is. They may be
     * over as soon as they begin: the outermost call begins the next, so that the stack does not
     * grow with their number. */
    tt_op_pump *pump;
    bool is_pumping;
};

/* A number space of ops. */
struct tt_space {
    uint8_t flags;   /* TT_FLAG_*: of its frames */
    uint16_t traits; /* TRAIT_*: of its recipes */

    /* Give the op its number. False: no memory, so the op must fail. */
    bool (*number)(tt_op *op, const tt_standing *standing);
    /* The op has its number: begin it, now or at its turn. */
    void (*enter)(tt_op *op);
    /* The op is over with `status`: it is not found any more, its end is remembered. Ops that
     * waited for it are in the queue that is returned, to be pumped later; NULL: none did. */
    tt_op_queue *(*leave)(tt_op *op, tt_status status);

    /* The op of a frame from `peer`; NULL: it is over, or has not begun. */
    tt_op *(*find)(tt_set *set, uint32_t peer, const tt_head *key);
    /* Has the op not begun? False: it has, or is over. */
    bool (*is_future)(tt_set *set, uint32_t peer, const tt_head *key);
    /* The claim of an op that has succeeded; NULL: it has not, or too long ago. */
    const tt_claim *(*done)(tt_set *set, const tt_head *key);
    /* The status of an op that has failed; OK: it has not, or too long ago. */
    tt_status (*failed)(tt_set *set, const tt_head *key);
    /* The op had succeeded; its failure has arrived now. */
    void (*fail_late)(tt_set *set, const tt_head *key, tt_status status);
};

extern const tt_space tt_space_calls;   /* collectives without a name: the order of calls */
extern const tt_space tt_space_agreed;  /* named: the order the negotiator gave */
extern const tt_space tt_space_planned; /* named, of a plan: in any order */
extern const tt_space tt_space_pair;    /* send and receive: per pair, direction and tag */

/* An op that has succeeded. */
typedef struct tt_done {
    uint64_t sequence; /* + 1 */
    struct tt_recipe *recipe;
} tt_done;

/* Ops of one space of a set whose order all members share. */
typedef struct tt_order {
    uint64_t next; /* sequence of the next op */
    tt_op *ops[OPS_AHEAD_MAX];
    tt_op_queue queue;     /* submitted, waiting for a place in `ops` */
    uint32_t staged_count; /* ops in flight that hold staging slots, without the extra ones */
    uint32_t extra_count;  /* ops in flight that were begun before their turn */
    uint64_t failed[FAILED_KEPT]; /* sequence + 1 */
    int8_t failed_status[FAILED_KEPT];
    uint32_t failed_count;
    tt_done done[DONE_KEPT]; /* at sequence % DONE_KEPT */
} tt_order;

/* A set with names has two: what they remember of calls that are over must stay small. */
enum { ORDER_OVER_BYTES = sizeof(tt_done[DONE_KEPT]) + FAILED_KEPT * (sizeof(uint64_t) + 1) };
_Static_assert(2 * ORDER_OVER_BYTES <= 64 * 1024, "of calls that are over");

/* ---- space.c: the op of a number, whatever its space and set ---- */

/* The space of a frame's head. */
const tt_space *tt_space_of(const tt_head *head);
tt_op *tt_op_find(const tt_control *control, uint32_t peer, const tt_head *head);
/* Is the op of this frame not submitted on this rank yet? False: it is over. */
bool tt_op_is_future(const tt_control *control, uint32_t peer, const tt_head *head);
const tt_claim *tt_op_done(const tt_control *control, const tt_head *key);
tt_status tt_op_failed(const tt_control *control, const tt_head *key);

void tt_op_queue_init(tt_op_queue *queue, tt_op_pump *pump);
/* The op waits there. */
void tt_op_queue_add(tt_op_queue *queue, tt_op *op);
void tt_op_queue_remove(tt_op_queue *queue, const tt_op *op);
/* Remove the op from a list, if it is there. */
void tt_op_unlink(tt_op **list, const tt_op *op);
/* The status of `key` among failures (`keys` are + 1); OK: it is not there. */
tt_status tt_failed_find(const uint64_t *keys, const int8_t *statuses, uint32_t count,
                         uint64_t key);

/* ---- space_order.c ---- */

void tt_order_init(tt_order *order);
/* The order of agreed tensors, empty; NULL: no memory. */
tt_order *tt_order_create(tt_platform *platform);
void tt_order_destroy(tt_control *control, tt_order *order);
/* Forget all ops that are over. */
void tt_order_forget(tt_control *control, tt_order *order);

/* ---- space_plan.c ---- */

/* Key of a planned op; parts number the ops of one group. */
uint64_t tt_planned_key(uint32_t generation, uint32_t index, uint64_t occurrence, uint32_t part);
/* The batch pointer of `key`; NULL: there is none, or no memory (`is_wanted`: create it). */
struct tt_batch **tt_planned_batch(tt_control *control, tt_set *set, uint64_t key, bool is_wanted);
/* One part of a planned group fails: the others fail with the same text, on all ranks. */
void tt_planned_fail_parts(const tt_op *op, tt_status status, const char *text);
void tt_planned_release_all(tt_control *control, tt_set *set);

/* ---- space_pair.c: `pair_index` is 2 * member, plus 1 for received messages ---- */

typedef struct tt_tags tt_tags;
/* Allocate the tag's counter; false: no memory. */
bool tt_pair_reserve(tt_set *set, uint32_t pair_index, uint32_t tag);
/* Key of the next message: `op` of its frames. */
uint64_t tt_pair_next(const tt_set *set, uint32_t pair_index, uint32_t tag);
/* The op is for the next message to or from `member`. The counter must be reserved. */
void tt_pair_place(tt_op *op, uint32_t member);
/* The op of `key` that waits behind earlier ones of its pair; NULL: there is none. */
tt_op *tt_pair_queued(const tt_set *set, uint32_t peer, const tt_head *key);
uint32_t tt_pair_tag(uint64_t key);
/* How many messages of its tag precede it. */
uint64_t tt_pair_number(uint64_t key);
/* Of a set's pair_queue. */
void tt_pair_pump(tt_op_queue *queue, uint32_t pair_index);
void tt_pair_release_tags(tt_set *set);

#endif
