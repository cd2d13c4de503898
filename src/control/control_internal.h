/* SPDX-License-Identifier: Apache-2.0
 *
 * control_internal.h - the parts of a rank's machine: sets, ops, cases.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  as control.h.
 */
#ifndef TUTTI_CONTROL_CONTROL_INTERNAL_H
#define TUTTI_CONTROL_CONTROL_INTERNAL_H

#include <stddef.h>

#include "aggregate/aggregate.h"
#include "base/assert.h"
#include "base/text.h"
#include "control/coded/feedback.h"
#include "control/control.h"
#include "control/op.h"
#include "control/outgoing.h"
#include "control/pace.h"
#include "control/recipe.h"
#include "control/set.h"
#include "control/space/space.h"
#include "control/verdict/early_verdict.h"
#include "negotiate/negotiate.h"

enum {
    LEFT_GRACE_NS = 2000 * 1000 * 1000, /* tickets outlive a member that left by so much */
    PATROL_NS = 50 * 1000 * 1000,
    EARLY_VERDICTS_MAX = 4096, /* kept per peer; a correct peer is never that far ahead */
    CASES_MAX = 4096,          /* the same */
    REASONS_KEPT = 16,         /* of ops that failed */
};

enum { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO }; /* as base/log.h */

/* What the first member collects about a disputed op: which members have it, and their claims. */
typedef struct tt_case {
    struct tt_case *next;
    tt_head key; /* set, op, pair flags */
    uint32_t peer;
    uint32_t size;
    bool is_disputed, is_decided;
    uint64_t opened_ns;
    uint32_t claim_count;
    bool *has_probed;  /* [size] */
    bool *has_claimed; /* [size] */
    tt_claim *claims;  /* [size] */
} tt_case;

typedef struct tt_names tt_names;

typedef struct tt_peer_state {
    bool is_gone, is_ended; /* left or down; and its link has ended: it stores no more */
    tt_status status;
    uint32_t early_verdict_count, case_count; /* kept because of frames of this peer */
    size_t early_bytes;                       /* the same */
    uint32_t ask_count;                       /* of its ASK frames, in control->asks */
} tt_peer_state;

/* ASK frames of peers for messages that this rank has not sent yet: see any.c. */
typedef struct tt_ask tt_ask;
typedef struct tt_asks {
    tt_ask **buckets;
    uint32_t bucket_count, count;
} tt_asks;

struct tt_control {
    const tt_tracer *tracer; /* or NULL */
    tt_platform *platform;
    tt_world world;
    uint32_t *host_of;
    tt_control_config config;
    const tt_costs *costs; /* borrowed; NULL: none */
    uint64_t costs_hash;   /* part of every descriptor */
    tt_control_listener listener;
    tt_flow flow;
    tt_set *sets; /* newest first */
    tt_set *set_buckets[SET_BUCKETS];
    uint32_t removed_count; /* of them, not released yet */
    uint32_t next_set;
    tt_op **ops; /* every op, by index */
    uint32_t op_count, op_capacity;
    tt_op *free_ops; /* one at least */
    tt_recipes recipes;
    bool times_all;    /* every call is dated */
    uint64_t settings; /* hash of the settings recipes depend on, beside the salt of claims */
    uint32_t pending;
    tt_case *cases;
    tt_early_verdict *early_verdicts;
    tt_reason *reasons; /* [REASONS_KEPT], the last ones; NULL: nothing has failed yet */
    uint32_t reason_count;
    tt_outgoing *outgoing;               /* frames the driver has not sent yet */
    tt_outgoing *free_short, *free_long; /* for error texts, for notices */
    uint32_t outgoing_count;
    tt_peer_state *peers;
    tt_asks asks;
    uint32_t any_waiting;         /* receives that wait in a tt_any */
    uint64_t timer_ns, patrol_ns; /* when the timer is set to; UINT64_MAX: not */
    tt_names *names;              /* NULL: no named call yet */
    struct tt_early *early;
    bool is_touched;  /* a negotiator is to be flushed */
    bool is_starved;  /* out of memory for named calls: this rank has sent ABORT, */
    bool is_starving; /* and its own calls are still to end */
    bool has_work;
    bool has_given_up;   /* this rank has sent ABORT */
    uint64_t ended_seen; /* ops that were over when a step was last requested */
    bool is_waited;      /* the thread that drives the machine only waits for its call */
    tt_status shut_down; /* negative: no more requests are accepted */
    char shut_down_text[TT_ERROR_BYTES];
    tt_pace pace;
    tt_feedbacks feedbacks;
    uint64_t fuse_bytes; /* now; config.fuse_bytes unless it is tuned */
    tt_control_counters counters;
};

static inline tt_set *tt_set_find(const tt_control *control, uint32_t id)
{
    tt_set *set = control->set_buckets[id % SET_BUCKETS];
    while (set != NULL && set->id != id) {
        set = set->next_in_bucket;
    }
    TT_DEBUG_ASSERT(set == NULL || set->control == control);
    return set;
}

/* A claim's salt: another table of costs might choose another algorithm, another segment size
 * divides the data differently. */
static inline uint64_t tt_op_salt(const tt_control *control, uint64_t salt, uint32_t segment_bytes)
{
    const uint64_t cut = segment_bytes ^ TT_SEGMENT_BYTES; /* usually 0 */
    return salt ^ control->costs_hash ^ cut << 32;
}

/* `*recipe_io` refers to `recipe`, and no longer to another one. */
static inline void tt_recipe_replace(tt_recipe **recipe_io, tt_recipe *recipe)
{
    if (*recipe_io != recipe) { /* calls often repeat in the same places */
        tt_recipe_use(recipe);
        if (*recipe_io != NULL) {
            tt_recipe_release(recipe->set->control, *recipe_io);
        }
        *recipe_io = recipe;
    }
}

/* A longer array of pointers, the new ones NULL, in place of `old`; NULL: no memory, `old` stays.
 */
void *tt_control_grow(tt_control *control, void *old, uint32_t count, uint32_t new_count);

/* Takes the op that was kept for this recipe; NULL: there is none. */
static inline tt_op *tt_idle_take(tt_control *control, tt_recipe *recipe)
{
    tt_op *op = recipe->idle;
    if (op != NULL) {
        TT_DEBUG_ASSERT(control->recipes.idle_count > 0);
        TT_ASSERT(op->phase == OP_FREE && op->recipe == recipe);
        recipe->idle = NULL;
        control->recipes.idle_count--;
    }
    return op;
}

/* Does the current fuse_bytes, unlike the configured one, change whether it is fused? Only for sums
 * do all ranks have the same count. */
static inline bool tt_request_is_tuned(const tt_control *control, const tt_request *request)
{
    const uint64_t first = control->config.fuse_bytes, now = control->fuse_bytes;
    if (first == now || request->name == NULL || request->collective != TT_ALLREDUCE) {
        return false;
    }
    const uint64_t width = tt_dtype_bytes(request->dtype);
    return width > 0 && (request->count <= first / width) != (request->count <= now / width);
}

/* agree.c */
void tt_agree_dispute(tt_op *op);
/* This rank cannot take part: end the op on this rank and send OBJECT. */
void tt_agree_object(tt_op *op, tt_status status, const char *text);
void tt_agree_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload);
/* The op that `key` names has failed elsewhere: it fails on this rank now, or when it is
 * submitted. */
void tt_agree_verdict(tt_control *control, uint32_t peer, const tt_head *key, tt_status status,
                      const char *text);
/* Data arrived for an op that is over on this rank. No op ends before all its data has arrived, so
 * the sender made another call. */
void tt_agree_stray(tt_control *control, uint32_t peer, const tt_head *head);
/* Keeps the failure of an op that was not submitted here yet: it will fail when it is. */
void tt_agree_keep_early(tt_control *control, uint32_t peer, const tt_head *head,
                         const tt_failure *failure);
/* Remember the text of an op that failed on this rank. */
void tt_agree_reason(tt_control *control, const tt_head *key, const char *text);
/* That text; NULL: forgotten. */
const char *tt_agree_reason_of(const tt_control *control, const tt_head *key);
/* The text for a status that `peer` sent without one. */
void tt_agree_say_silent(uint32_t peer, char words[TT_ERROR_BYTES]);
void tt_agree_release_reasons(tt_control *control);
void tt_agree_patrol(tt_control *control);
/* The op is over: forget what is kept about it, keep why it failed. */
void tt_agree_over(const tt_op *op, tt_status status);
void tt_agree_forget_set(tt_control *control, uint32_t set_id);
void tt_agree_release_all(tt_control *control);

/* failure.c */
/* Members are gone: false if the op needed one of them, and has failed. */
bool tt_failure_allows(tt_op *op);
/* A peer's frame for a later op could not be kept: no call on this set can succeed. */
void tt_failure_memory(tt_control *control, uint32_t set_id);
void tt_failure_peer(tt_control *control, uint32_t peer, tt_status status, const char *why);
/* `peer` has excluded this rank, and `why`. */
void tt_failure_excluded(tt_control *control, uint32_t peer, const char *why);
void tt_failure_stop_frame(tt_control *control, uint32_t peer, const tt_head *head,
                           const char *text);

/* A setting that recipes depend on has changed. */
void tt_control_note_settings(tt_control *control);
void tt_control_watch(tt_control *control);
/* Set the timer to `due_ns` at the latest. */
void tt_control_due(tt_control *control, uint64_t due_ns);
void tt_control_report(tt_control *control, int level, const tt_text *text);

#endif
