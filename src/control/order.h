/* SPDX-License-Identifier: Apache-2.0
 *
 * order.h - what an op is said to be, and which op a number means.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  as control.h.
 */
#ifndef TUTTI_CONTROL_ORDER_H
#define TUTTI_CONTROL_ORDER_H

#include <stddef.h>

#include "aggregate/aggregate.h"
#include "base/text.h"
#include "control/control.h"
#include "kernel/hash64.h"

enum {
    OPS_AHEAD_MAX = 1024, /* ops of one set in flight; later ones queue, however urgent */
    OPS_EXTRA_MAX = 8,    /* of them, begun before their turn because they are urgent */
    /* Ops whose claim is remembered after success, for ranks that differ: all that may be over
     * before an older one is, or the older one would take the place of a newer one. */
    DONE_KEPT = OPS_AHEAD_MAX,
    GENERATIONS_KEPT = 16, /* of plans; nothing older is still under way */
    FAILED_KEPT = 64, /* ops whose failure is remembered, so that a second verdict is no news */
    PLANNED_FAILED_KEPT = 4, /* the same, of one planned tensor: after the first it is cut */
};

/* What a rank believes an op to be; hashed into every frame, sent when there is a dispute: all up
 * to the end of the name. */
typedef struct tt_claim {
    uint8_t collective, dtype, redop, form;
    uint32_t root;
    uint64_t count;
    double prescale, postscale;
    uint64_t salt;                 /* of set creation; of reducescatter: hash of the counts */
    uint8_t shape[TT_SHAPE_BYTES]; /* see tt_shape_write; zeros: left out */
    char name[TT_NAME_BYTES];
} tt_claim;

/* Bits of `form`. TUNED: small where the configured fuse_bytes says large, or the other way round.
 * SETS: a barrier about a process set; `root` is a tt_about, `shape` the ranks or the set. PARTS:
 * `shape` has the counts of an uneven reducescatter. */
enum {
    CLAIM_UNEVEN = 1,
    CLAIM_BY_ACTIVE = 2,
    CLAIM_ALONE = 4,
    CLAIM_TUNED = 8,
    CLAIM_SETS = 16,
    CLAIM_PARTS = 32,
};
enum { CLAIM_FIXED_BYTES = offsetof(tt_claim, name) };

_Static_assert(CLAIM_FIXED_BYTES == 72, "tt_claim is a wire format");
_Static_assert(sizeof(tt_claim) <= TT_ERROR_BYTES, "an outgoing frame holds a claim");

/* Whose numbers count ops. Told apart in heads by TT_FLAG_*. */
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

/* What an op was that has succeeded. */
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
    uint32_t staged_count;        /* ops in flight that hold staging slots, but for extra ones */
    uint32_t extra_count;         /* ops in flight that were begun before their turn */
    bool is_pumping;              /* ops of the queue are being begun */
    uint64_t failed[FAILED_KEPT]; /* sequence + 1 */
    int8_t failed_status[FAILED_KEPT];
    uint32_t failed_count;
    tt_done done[DONE_KEPT]; /* at sequence % DONE_KEPT */
} tt_order;

/* Ops of a set for an engine: unnamed ones in the order of calls, named ones in the agreed order.
 * Of these two there is no common order: the engine gets them as two sets. */
enum { ENGINE_CALLS, ENGINE_NAMED, ENGINE_ORDERS };

typedef struct tt_engine_order {
    tt_op *ops; /* not launched yet */
    tt_op **end;
    uint32_t open;           /* taken and not over */
    uint64_t launched_bytes; /* not landed: see engine.c (5) */
    bool is_pumping;
} tt_engine_order;

/* What a part of a planned tensor was until its claim changed on this rank. Peers that had begun
 * the changed occurrence may ask about it when later ones, with the old claim again, have
 * succeeded. */
typedef struct tt_past {
    struct tt_past *next; /* older */
    uint64_t key;         /* + 1: of the last occurrence that was this */
    struct tt_recipe *recipe;
} tt_past;

/* A part of a planned tensor, as far as it is over. A failure may be told long after its occurrence
 * had succeeded here and later ones with it: it must not take their place. */
typedef struct tt_over {
    uint64_t key;             /* + 1: of the last occurrence that succeeded; 0: none has */
    struct tt_recipe *recipe; /* of that one */
    tt_past *past;            /* claims before it, newest first; nearly always NULL */
    uint64_t failed[PLANNED_FAILED_KEPT]; /* key + 1, the last ones */
    int8_t failed_status[PLANNED_FAILED_KEPT];
    uint32_t failed_count;
} tt_over;

/* One tensor of a plan, as far as it has come on this rank. */
typedef struct tt_planned {
    uint64_t next;   /* key of the occurrence to come */
    bool is_failing; /* one part has failed, the others follow */
    tt_op *open;     /* parts of the last occurrence that are not over */
    tt_over **overs; /* [part_count] */
    uint32_t part_count;
    struct tt_batch *batch; /* of a bundle's number: its members; else NULL */
} tt_planned;

/* The tensors of one generation of the plan, by index; NULL: not begun here. */
typedef struct tt_generation {
    struct tt_generation *next; /* older */
    uint32_t number;
    uint32_t capacity;
    tt_planned **tensors;
} tt_generation;

/* order.c */
tt_op *tt_op_find(const tt_control *control, uint32_t peer, const tt_head *head);
/* Is the op of this frame still to be submitted here? False: it is over. */
bool tt_op_is_future(const tt_control *control, uint32_t peer, const tt_head *head);
/* What this rank believed an op to be that has succeeded here; false: it has not, or long ago. */
bool tt_order_done(const tt_control *control, const tt_head *key, tt_claim *claim_out);
/* How an op failed that has failed here; OK: it has not, or long ago. */
tt_status tt_order_failed(const tt_control *control, const tt_head *key);
/* The op of `key` is over with `status`, or was and is now known to have failed. */
void tt_order_remember(tt_set *set, const tt_head *key, struct tt_recipe *recipe, tt_status status);
void tt_order_init(tt_order *order);
/* The order of agreed tensors, empty; NULL: no memory. */
tt_order *tt_order_create(tt_platform *platform);
void tt_order_destroy(tt_control *control, tt_order *order);
/* Nothing that is over is remembered any more. */
void tt_order_forget(tt_control *control, tt_order *order);
/* Key of a planned op; parts number the ops of one group. */
uint64_t tt_planned_key(uint32_t generation, uint32_t index, uint64_t occurrence, uint32_t part);
/* Are they parts of one occurrence? */
bool tt_planned_is_one(uint64_t key, uint64_t other);
/* The tensor that `key` is about, made if need be; NULL: no memory. Occurrences up to that of `key`
 * are no longer to come. */
tt_planned *tt_planned_begin(tt_control *control, tt_set *set, uint64_t key);
/* The occurrence of `key` claims this: if the last one did not, what that was is kept. False: no
 * memory. */
bool tt_planned_claim(tt_control *control, const tt_planned *planned, uint64_t key,
                      const struct tt_recipe *recipe);
/* The occurrence of `key` has succeeded. */
void tt_planned_keep(tt_control *control, const tt_planned *planned, uint64_t key,
                     struct tt_recipe *recipe);
/* Where the batch of `key` hangs; NULL: nothing is known of it, or there is no memory. */
struct tt_batch **tt_planned_batch(tt_control *control, tt_set *set, uint64_t key, bool is_wanted);
void tt_planned_release_all(tt_control *control, tt_set *set);

/* claim.c */
/* What a request claims, field by field. */
static inline uint8_t tt_claim_form(const tt_request *request)
{
    return (uint8_t)((request->is_uneven ? CLAIM_UNEVEN : 0) |
                     (request->is_by_active ? CLAIM_BY_ACTIVE : 0) |
                     (request->is_alone ? CLAIM_ALONE : 0) | (request->is_tuned ? CLAIM_TUNED : 0) |
                     (request->about != TT_ABOUT_NOTHING ? CLAIM_SETS : 0));
}
static inline uint64_t tt_claim_salt(const tt_request *request)
{
    const tt_program *program = request->program;
    return program == NULL ? request->salt : tt_hash64_mix(request->salt, program->number);
}
static inline uint8_t tt_claim_collective(const tt_request *request)
{
    return (uint8_t)(request->collective == TT_RECEIVE ? TT_SEND : request->collective);
}
static inline uint8_t tt_claim_redop(const tt_request *request)
{
    const bool is_reduction = request->collective == TT_ALLREDUCE ||
                              request->collective == TT_REDUCE ||
                              request->collective == TT_REDUCESCATTER;
    return is_reduction ? (uint8_t)request->redop : 0;
}
static inline uint32_t tt_claim_root(const tt_request *request)
{
    const bool is_rooted = request->collective == TT_REDUCE ||
                           request->collective == TT_BROADCAST ||
                           request->collective == TT_GATHER || request->collective == TT_SCATTER;
    return is_rooted ? request->root : (uint32_t)request->about;
}
/* A claim, as a recipe's key, has a byte of each kind: what does not fit is unlike all that were.
 */
static inline bool tt_claim_holds(const tt_request *request)
{
    return ((uint32_t)request->collective | (uint32_t)request->dtype | (uint32_t)request->redop) <=
           UINT8_MAX;
}
/* What must be equal on all ranks, without the name. */
void tt_claim_make(tt_claim *claim, const tt_request *request, uint32_t size);
uint64_t tt_claim_hash(const tt_claim *claim, uint32_t size);
bool tt_claim_equals(const tt_claim *a, const tt_claim *b);
/* Equal, but for what goes into the salt. */
bool tt_claim_asks_same(const tt_claim *a, const tt_claim *b);
void tt_claim_copy(tt_claim *target, const tt_claim *source);
/* On the wire: bytes up to the end of the name. */
size_t tt_claim_bytes(const tt_claim *claim);
bool tt_claim_read(tt_claim *claim, const void *bytes, size_t byte_count);
/* For people. */
void tt_claim_tell(tt_text *text, const tt_claim *claim);

/* ---- op.c ---- */

/* Where an op stands: a sequence in its space. CALLS and PAIR: the next, whatever is said. */
typedef struct tt_standing {
    tt_space space;
    uint64_t sequence;          /* SPACE_PLANNED: key */
    uint32_t generation, index; /* SPACE_PLANNED: of the plan and tensor */
    uint32_t active;            /* members that have not joined; 0: all */
} tt_standing;
/* Give the request its place and begin it. With an objection it fails on all ranks, with those
 * words: they say which rank objects. */
void tt_op_submit(tt_control *control, tt_set *set, tt_request *request,
                  const tt_standing *standing, const tt_failure *objection);
/* End the request, which has no op. */
void tt_request_refuse(tt_request *request, tt_status status, const char *text);

#endif
