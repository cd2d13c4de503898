/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h - small named tensors exchanged as one, and the way from agreed items to ops.
 *
 * A batch has a request of control's own, the carrier, whose op sums a copy of its members. A
 * joined rank takes part with a batch of identity elements.
 *
 *  (1) The members and layout of a batch depend on the agreed items alone.
 *  (2) A planned batch lives with its generation: its numbers, layout, memory and carrier
 *      stay from one occurrence to the next. One occurrence of it is open at a time on a rank. It
 *      is ready for the next one before the first of its members' calls returns.
 *  (3) All other batches come from a pool, including the one that replaces a refused planned
 *      batch.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  records and their buffers are kept for reuse.
 */
#ifndef TUTTI_CONTROL_NAMED_BATCH_H
#define TUTTI_CONTROL_NAMED_BATCH_H

#include "control/named/name.h"

enum { BATCHES_OPEN_MAX = 4 }; /* filled at a time from one list of items */

/* Changed by tt_batch_set_phase alone. */
typedef enum tt_batch_phase {
    BATCH_IDLE,      /* in the pool, or planned: none of its members is submitted */
    BATCH_GATHERING, /* waits for members */
    BATCH_SENT,      /* its carrier has an op */
    BATCH_SPREADING, /* summed: results are being copied to the members */
} tt_batch_phase;

typedef struct tt_batch_member {
    tt_request *request; /* of an agreed batch; NULL: this rank has joined */
    tt_name *name;       /* of a planned one: a tensor or a group; NULL: not submitted yet */
    uint64_t offset;     /* its requests lie from here on, each aligned */
    uint32_t index;      /* of a planned one: its index in the plan when it runs alone */
} tt_batch_member;

typedef struct tt_batch {
    struct tt_batch *next, *previous; /* in the pool, or among planned ones that gather */
    tt_control *control;
    tt_set *set;
    tt_policy policy;
    tt_batch_phase phase;
    bool is_kept;     /* a planned one that lives with its generation */
    bool is_laid_out; /* offsets, bytes, layout and carrier are those of all members */
    bool is_early;    /* members are copied when they are submitted */
    bool is_starved;  /* the last of the pool: its op reports that memory is out */
    bool is_arena;
    uint8_t *memory;
    size_t capacity;
    tt_request carrier;
    tt_claim claim; /* of the first member */
    char name[TT_NAME_BYTES];
    uint64_t bytes;
    uint64_t layout; /* hash of the requests' counts */
    tt_agreement item;
    uint64_t end;         /* from this occurrence on members run one by one; UINT64_MAX: never */
    uint64_t limit;       /* the last occurrence of which all members run; UINT64_MAX: no limit */
    uint64_t first_ns;    /* when the first member was submitted */
    uint64_t deadline_ns; /* the earliest of its members' */
    uint32_t late_count;  /* names->late_count when the first member was submitted */
    uint32_t count;       /* members that are submitted */
    uint32_t copied;      /* of them, with results copied */
    uint32_t size;        /* members it has, or has room for */
    tt_batch_member members[];
} tt_batch;

/* One list of items, or one planned item, for which ops are made. */
typedef struct tt_run {
    tt_control *control;
    tt_set *set;
    bool is_planned;
    const tt_failure *objection; /* not NULL: it must not run */
    uint32_t part;               /* of a planned ticket */
    tt_batch *open[BATCHES_OPEN_MAX];
} tt_run;

/* ---- run.c ---- */

/* Run this planned tensor alone; nothing may object to it. */
void tt_run_tensor(tt_control *control, tt_set *set, const tt_agreement *item, tt_request *request);
/* Run these tickets, small ones in batches; the batches depend on the items alone. */
void tt_run_items(tt_control *control, tt_set *set, const tt_agreement *items, uint32_t count,
                  bool is_planned);
/* Peers have begun this planned tensor or group, which is in another group on this rank: fail it.
 */
void tt_run_refuse(tt_control *control, tt_set *set, const tt_agreement *item,
                   const tt_failure *objection);
/* Give `request` its op, as the next part of the item; `form` of its claim. */
void tt_run_submit(tt_run *run, const tt_agreement *item, uint8_t form, tt_request *request,
                   const tt_failure *objection);
/* Add a claim to the fusion record of a planned tensor or group: `fusion->kind` is 0 if not all of
 * it may share an op. An empty tensor may not: it would end before all ranks have begun it. */
void tt_run_fuse(const tt_control_config *config, const tt_claim *claim, tt_fusion *fusion);

/* ---- batch.c ---- */

void tt_batch_set_phase(tt_batch *batch, tt_batch_phase phase);
/* Keep enough batches in the pool that agreed tickets always find one. */
tt_status tt_batch_reserve(tt_control *control);
void tt_batch_release_all(tt_control *control);
/* A batch of the pool, for tensors of the same claim as this one; never fails. */
tt_batch *tt_batch_open(const tt_run *run, tt_policy policy, const tt_agreement *item,
                        const tt_claim *claim, const char *name);
/* May a tensor of this claim be in the batch, and is there room? */
bool tt_batch_fits(const tt_batch *batch, const tt_claim *claim);
bool tt_batch_has_room(const tt_batch *batch, const tt_claim *claim);
void tt_batch_put(tt_batch *batch, tt_request *request, const tt_claim *claim);
/* The batch is complete: copy its members, and run them as one. */
void tt_batch_send(tt_run *run, tt_batch *batch);
/* Back to the pool, with nothing in it. */
void tt_batch_close(tt_batch *batch);
/* Run the claim of a batch without members, with the identity element or with `objection`. */
void tt_batch_stand_in(tt_run *run, tt_batch *batch, const tt_failure *objection);
/* Is this request the carrier of a planned batch? */
bool tt_batch_is_planned(const tt_request *request);
/* The requests of a member in the order in which they lie: a group's by their names. */
uint32_t tt_batch_requests(const tt_batch_member *member, tt_request *const **requests_out);
/* Lay out the members of a planned batch, or of one as which it is refused. */
void tt_batch_lay_out(tt_batch *batch);
/* Remove the members of a planned batch. Returns their number; `members_out` must have room for
 * all. */
uint32_t tt_batch_detach(tt_batch *batch, tt_batch_member *members_out);
void tt_batch_release_memory(tt_batch *batch);
/* A member of a laid-out planned batch was submitted: copy it to its place. */
void tt_batch_copy_early(tt_batch *batch, const tt_batch_member *member);
/* Copy a piece of results to members that wait for them; false: none do. */
bool tt_batch_step(tt_control *control);
/* Release a planned batch with its generation, when it is idle. */
void tt_batch_release(tt_control *control, tt_batch *batch);

/* ---- gather.c: planned batches ---- */

/* A planned tensor of a bundle is to run. */
void tt_batch_add(tt_control *control, tt_set *set, const tt_agreement *item);
/* This tensor will not run in its bundle on this rank, so the bundle runs on no rank. */
void tt_batch_forgo(tt_control *control, tt_set *set, const tt_agreement *item);
/* A tensor of the bundle runs up to occurrence `item->order`, and no further, on any rank:
 * `unplanned` of the negotiator's host. */
void tt_batch_unplan(void *owner, const tt_agreement *item);
/* A peer has refused the planned op of `key`, which has not begun on this rank. */
void tt_batch_early_verdict(tt_control *control, const tt_head *key);
/* Give up batches that wait too long for a member. */
void tt_batch_patrol(tt_control *control);
void tt_batch_shut(tt_control *control, tt_set *set, tt_status status, const char *text);

#endif
