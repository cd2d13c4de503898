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
#include "control/control.h"
#include "control/fate.h"
#include "control/idle.h"
#include "control/letter.h"
#include "control/order.h"
#include "control/pace.h"
#include "control/phase.h"
#include "control/set.h"
#include "negotiate/negotiate.h"

enum {
    CLAIM_TEXT_BYTES = 512,             /* of verdicts, on the wire */
    LEFT_GRACE_NS = 2000 * 1000 * 1000, /* tickets outlive a member that left by this */
    PATROL_NS = 50 * 1000 * 1000,
    PAIRS_AHEAD_MAX = 256, /* sends, and receives, of one pair in flight; later ones queue */
    FATES_MAX = 4096,      /* kept per peer; more than an honest one is ahead */
    CASES_MAX = 4096,      /* the same */
    REASONS_KEPT = 16,     /* of ops that failed */
};

enum { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO }; /* as base/log.h */

struct tt_op {
    tt_op *next;       /* in the set's queue or pairs, or the free list */
    tt_op_phase phase; /* changed by tt_op_set_phase alone */
    uint32_t index;    /* in control->ops */
    tt_control *control;
    tt_request *request;
    tt_set *set;
    tt_space space;
    bool is_pair, is_sender; /* is_pair: space is SPACE_PAIR */
    bool is_counted;         /* in pair_open or staged_count of its set */
    bool is_extra;           /* in extra_count of its order */
    bool is_running;         /* counts for flow.urgency_top */
    bool has_views;          /* peers of this host know where its buffers lie, and may touch them */
    uint32_t peer;           /* pairs: world rank */
    uint32_t pair_index;     /* pairs: in pair_next and pair_open */
    uint32_t pair_members[2];
    struct tt_any *any;  /* pairs: a receive that waits there, without peer and number; else NULL */
    tt_status objection; /* of such a one: with this it fails at its turn, and request->error */
    uint64_t sequence;
    tt_planned *planned; /* SPACE_PLANNED */
    tt_upset tensor;     /* SPACE_PLANNED */
    uint32_t slot;       /* SPACE_PLANNED: as in tt_agreement */
    uint32_t divisor;    /* of averages */
    tt_claim claim;
    uint64_t descriptor;
    uint32_t descriptor_seed; /* 0: descriptor is not that of `claim` yet */
    uint64_t submitted_ns, deadline_ns, probe_ns, report_ns; /* submitted 0: not dated yet */
    uint64_t begun_ns;                                       /* the stage that runs */
    uint64_t heard_ns;   /* when the last partner was first heard of; 0: none was */
    uint64_t heard;      /* bits of members, modulo 64, that were */
    uint64_t waiting_ns; /* its call was made then: a tensor may go alone after going with others */
    uint64_t overdue_ns; /* it was first asked then who lets it wait too long; 0: it is not */
    uint32_t weight;     /* calls that its time counts for; 0: it is not timed */
    bool is_quick;       /* the record may serve a call that repeats this one: quick.c */
    uint32_t idle_era;   /* of control->idle, when its algorithm was chosen */
    tt_idle_node idle;
    bool is_plain;              /* such a record, of a call without anything special */
    struct tt_named *kept;      /* of a planned one: its name's record; quick.c */
    uint64_t reported_after_ns; /* the last stall warning */
    tt_exec exec;
    tt_fact fact;       /* own */
    tt_fact *facts;     /* [size] */
    uint64_t *offsets;  /* [2 * (size + 1)] */
    uint64_t *counts;   /* [2 * size] exchanged counts */
    size_t facts_bytes; /* of the block behind the three */
    void *prescaled;
    size_t prescaled_bytes;
    uint32_t stops_open;
    uint64_t *stopped; /* bits of members, inside the facts block */
    uint64_t disputed_ns, stopping_ns;
    char stall_text[TT_ERROR_BYTES];
    bool by_engine;                 /* an outside engine runs it, once all members have agreed */
    uint64_t launch_token;          /* 0: not launched */
    uint64_t launched_bytes;        /* of credit, from then on */
    uint8_t engine_own, engine_all; /* ENGINE_* of this rank; of all: their AND */
    tt_op *engine_next;             /* in the set's list */
    tt_heap_node held;              /* in control->pace */
    uint64_t age;                   /* order of submission */
    uint64_t charge_bytes;          /* of credit that it has taken */
    uint64_t short_bytes;           /* of pace.short_bytes */
};

/* First member's view of an op in trouble: who has it, who claims what. */
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
    bool is_gone, is_ended; /* left or down; and the link to it says so: it stores no more */
    tt_status status;
    uint32_t fate_count, case_count; /* kept because of frames of this peer */
    size_t early_bytes;              /* the same */
    uint32_t ask_count;              /* of its questions, in control->asks */
} tt_peer_state;

/* Questions of peers for messages that this rank has not sent yet: see any.c. */
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
    tt_idle idle;
    tt_op *quick;   /* the call under way that quick.c began; NULL: none */
    tt_op *resting; /* in no list: keeps its name for the next call; NULL: none */
    uint32_t pending;
    tt_case *cases;
    tt_fate *fates;
    tt_reason *reasons; /* [REASONS_KEPT], the last ones; NULL: nothing has failed yet */
    uint32_t reason_count;
    tt_letter *letters;                     /* on their way */
    tt_letter *free_letters, *free_parcels; /* for texts, for notices */
    uint32_t letter_count;
    tt_peer_state *peers;
    tt_asks asks;
    uint32_t any_waiting;         /* receives that wait in a tt_any */
    uint64_t timer_ns, patrol_ns; /* when the timer is set to; UINT64_MAX: not */
    tt_names *names;              /* NULL: no named call yet */
    struct tt_early *early;
    bool is_touched;  /* a negotiator is to be flushed */
    bool is_starved;  /* without memory for named calls it has given up, and sent ABORT; */
    bool is_starving; /* its own calls are still to end */
    bool has_work;
    bool has_given_up;   /* this rank has sent ABORT */
    uint64_t ended_seen; /* ops that were over when a step was last asked for */
    bool is_waited;      /* who drives the machine now does nothing but wait */
    tt_status shut_down; /* negative: nothing more is taken */
    char shut_down_text[TT_ERROR_BYTES];
    tt_pace pace;
    uint64_t fuse_bytes; /* now; config.fuse_bytes unless it is tuned */
    tt_control_counters counters;
};

/* Does it change sides by the fuse_bytes of now? Only of sums all ranks have the same count. */
static inline bool tt_request_is_tuned(const tt_control *control, const tt_request *request)
{
    const uint64_t first = control->config.fuse_bytes, now = control->fuse_bytes;
    const uint64_t width = tt_dtype_bytes(request->dtype);
    return first != now && request->name != NULL && request->collective == TT_ALLREDUCE &&
           width > 0 && (request->count <= first / width) != (request->count <= now / width);
}

static inline void tt_op_set_phase(tt_op *op, tt_op_phase phase)
{
    TT_ASSERT(tt_op_phase_follows(op->phase, phase));
    op->phase = phase;
}

/* op.c */
/* The op that is always kept; once, at creation. */
tt_status tt_op_reserve(tt_control *control);
tt_head tt_op_identity(const tt_op *op, tt_frame_kind kind);
/* Key of an op as it stands in frames that arrive. */
tt_head tt_op_arriving_key(const tt_op *op);
/* A frame of this op came from `member`: it has begun it, too. */
void tt_op_hear(tt_op *op, uint32_t member);
void tt_op_settle(tt_op *op);
/* The record is free, for any call or for one like its own. */
void tt_op_free(tt_op *op);
/* A pair's op has its peer and number: begin it, or fail it with `objection` and request->error. */
void tt_op_begin_placed(tt_op *op, tt_status objection);
/* It is over, with this status; its request is told. */
void tt_op_end(tt_op *op, tt_status status);
/* This rank cannot go on with the op: say who it is and what it wanted. */
void tt_op_object(tt_op *op, tt_status status, const tt_text *why);
void tt_op_fail(tt_op *op, tt_status status, const char *text);
void tt_op_stopped(tt_op *op, uint32_t member);
/* End calls whose peers were asked to stop storing and have not answered for stop_ns. */
void tt_op_patrol_stops(tt_control *control);
void tt_op_release_all(tt_control *control);
uint32_t tt_op_size(const tt_op *op);
uint32_t tt_op_self(const tt_op *op);
uint32_t tt_op_first(const tt_op *op);
uint32_t tt_op_member_rank(const tt_op *op, uint32_t member);

/* pair.c: numbers of messages. `pair_index` is 2 * member, and 1 more for those that come in. */
typedef struct tt_tags tt_tags;
/* Room for the tag's count; false: no memory. */
bool tt_pair_reserve(tt_set *set, uint32_t pair_index, uint32_t tag);
/* Key of the next message: `op` of its frames. */
uint64_t tt_pair_next(const tt_set *set, uint32_t pair_index, uint32_t tag);
/* The op is for the next message to or from `member`. There must be room. */
void tt_pair_place(tt_op *op, uint32_t member);
/* Has the message of this key not been asked for here? */
bool tt_pair_is_next(const tt_set *set, uint32_t pair_index, uint64_t key);
uint32_t tt_pair_tag(uint64_t key);
/* How many of its tag went before it. */
uint64_t tt_pair_number(uint64_t key);
void tt_pair_release_tags(tt_set *set);

/* timing.c */
/* The call was submitted at `now_ns`: when to ask around, to report, to give up. */
void tt_op_date(tt_op *op, uint64_t now_ns);
/* A stage of the op was over at `end_ns` (0: it is now). Add its time to `sum_io` if the op is
 * timed, and record it if there is a tracer. */
void tt_op_clock(tt_op *op, tt_stage stage, uint64_t end_ns, uint64_t *sum_io);
/* The data have moved. Until a frame of the last partner came, they could not. */
void tt_op_clock_data(tt_op *op);

/* prepare.c */
void tt_op_describe(tt_op *op);
void tt_op_choose(tt_op *op); /* the problem as far as the request tells, and its algorithm */
bool tt_op_needs_facts(const tt_op *op);
/* Of the buffers that peers read or write: set `fact` if they lie in the arena, else false. */
bool tt_op_locate(tt_op *op);
tt_status tt_op_prepare_facts(tt_op *op, tt_text *text);
tt_status tt_op_prepare_data(tt_op *op, tt_text *text);

/* agree.c */
void tt_agree_dispute(tt_op *op);
/* This rank cannot take part: end the op here and tell the others. */
void tt_agree_object(tt_op *op, tt_status status, const char *text);
void tt_agree_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload);
/* The op that `key` names has failed elsewhere: it fails here, now or when it comes. */
void tt_agree_verdict(tt_control *control, uint32_t peer, const tt_head *key, tt_status status,
                      const char *text);
/* Data has come for an op that is over here. No op ends before all its data is in, so the sender
 * means another call. */
void tt_agree_stray(tt_control *control, uint32_t peer, const tt_head *head);
/* The op that `head` names will fail when it is submitted here. */
void tt_agree_foretell(tt_control *control, uint32_t peer, const tt_head *head,
                       const tt_failure *failure);
/* An op has failed here, with these words. */
void tt_agree_reason(tt_control *control, const tt_head *key, const char *text);
/* With which words it did; NULL: forgotten. */
const char *tt_agree_reason_of(const tt_control *control, const tt_head *key);
/* The words for a status that `peer` sent without any. */
void tt_agree_say_silent(uint32_t peer, char words[TT_ERROR_BYTES]);
void tt_agree_release_reasons(tt_control *control);
void tt_agree_patrol(tt_control *control);
void tt_agree_forget(tt_control *control, const tt_op *op);
void tt_agree_forget_set(tt_control *control, uint32_t set_id);
void tt_agree_release_all(tt_control *control);

/* failure.c */
/* Members have gone: false if the op needed one of them, and has failed. */
bool tt_failure_allows(tt_op *op);
/* What a peer sent for an op to come could not be kept: nothing on this set can succeed. */
void tt_failure_memory(tt_control *control, uint32_t set_id);
void tt_failure_peer(tt_control *control, uint32_t peer, tt_status status, const char *why);
/* `peer` has heard that this rank is down, and will not work with it. */
void tt_failure_excluded(tt_control *control, uint32_t peer);
void tt_failure_stop_frame(tt_control *control, uint32_t peer, const tt_head *head,
                           const char *text);

void tt_control_watch(tt_control *control);
/* Wake at `due_ns` at the latest. */
void tt_control_due(tt_control *control, uint64_t due_ns);
void tt_control_report(tt_control *control, int level, const tt_text *text);

#endif
