/* SPDX-License-Identifier: Apache-2.0
 *
 * op.h - an op: one run of a recipe.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  ops stay until the machine ends; buffers of a run are kept with its op.
 */
#ifndef TUTTI_CONTROL_OP_H
#define TUTTI_CONTROL_OP_H

#include <stddef.h>

#include "aggregate/aggregate.h"
#include "base/assert.h"
#include "base/text.h"
#include "control/control.h"
#include "control/phase.h"
#include "control/recipe.h"
#include "control/set.h"
#include "control/space/space.h"
#include "schedule/schedule.h"

typedef struct tt_failure {
    tt_status status;
    const char *text;
} tt_failure;

/* Memory of a run whose stages exchange facts about the call. Kept with the op. */
typedef struct tt_room {
    size_t bytes;
    tt_stage late;           /* the recipe's stage, completed by this run's facts or offsets */
    const tt_stage *late_of; /* which one `late` was completed from; NULL: none */
    tt_fact own;             /* where this rank's buffers lie */
    uint64_t own_count;
    tt_fact *facts;    /* [size] */
    uint64_t *offsets; /* [2 * (size + 1)] */
    uint64_t *counts;  /* [2 * size] exchanged counts */
    uint64_t *stopped; /* bits of members that no longer touch this op's buffers */
} tt_room;

/* One run of a recipe. */
struct tt_op {
    tt_op *next;       /* in the set's queue or pairs, or the free list */
    tt_op_phase phase; /* changed by tt_op_set_phase alone */
    uint32_t index;    /* in control->ops */
    tt_control *control;
    tt_request *request;
    tt_recipe *recipe; /* of an idle op: the one it is laid out for; of a free one NULL */
    tt_set *set;
    const tt_space *space;
    uint64_t sequence;
    tt_order *order;         /* calls and agreed tensors; else NULL */
    tt_planned *planned;     /* planned tensors; else NULL */
    tt_plan_entry tensor;    /* the same */
    const uint32_t *members; /* [size] world ranks: of the set, or sender and receiver */
    uint32_t size, self;     /* self: this rank's number among them */
    uint8_t stage;           /* the recipe's stage that runs */
    bool is_sender;          /* of a message */
    bool is_counted;         /* in pair_open or staged_count */
    bool is_extra;           /* in extra_count of its order */
    bool is_running;         /* counts for flow.urgency_top */
    bool has_views;    /* peers of this host have the places of its buffers, and may touch them */
    bool is_at_engine; /* waits for its launch by the engine, or is launched */
    bool is_warm;      /* it was kept idle for its recipe */
    uint8_t engine_own, engine_all; /* ENGINE_* of this rank; of all: their AND */
    uint32_t divisor;               /* of averages */
    uint32_t weight;                /* calls that its time is counted for; 0: it is not timed */
    tt_exec exec;
    uint64_t submitted_ns, deadline_ns, probe_ns, report_ns; /* submitted 0: not dated yet */
    uint64_t begun_ns;                                       /* the stage that runs */
    uint64_t heard_ns;   /* when the first frame of the last partner arrived; 0: none has */
    uint64_t heard;      /* bits of members, modulo 64, whose frames arrived; all: not tracked */
    uint64_t waiting_ns; /* time of its call: a tensor may run alone after it was in a batch */
    uint64_t overdue_ns; /* when it was found to wait for stall_fail_ns or longer; 0: it does not */
    uint64_t reported_after_ns; /* the last stall warning */
    tt_paced paced;             /* age, credit */
    uint32_t peer;              /* pairs: world rank */
    uint32_t pair_index;        /* pairs: in pair_next and pair_open */
    uint32_t pair_members[2];
    struct tt_any *any;  /* pairs: a receive that waits there, without peer and number; else NULL */
    tt_status objection; /* of such a receive: it fails at its turn with this and request->error */
    uint32_t stops_open;
    uint64_t launch_token; /* 0: not launched */
    tt_op *engine_next;    /* in the set's list */
    uint64_t troubled_ns;  /* since when it is disputed, or is being stopped */
    tt_room *room;         /* or NULL */
    char *stall_text;      /* [TT_ERROR_BYTES] the members it waits for; NULL: not reported yet */
    void *work;            /* its own copy of the input, and the memory of its stages */
    size_t work_bytes;
};

_Static_assert(sizeof(tt_op) <= 640, "hundreds are in flight, and idle");

static inline void tt_op_set_phase(tt_op *op, tt_op_phase phase)
{
    TT_ASSERT(tt_op_phase_follows(op->phase, phase));
    op->phase = phase;
}

/* ---- op.c ---- */

/* Allocate the op that is always kept; called once, at creation. */
tt_status tt_op_reserve(tt_control *control);
tt_head tt_op_identity(const tt_op *op, tt_frame_kind kind);
/* Key of an op as frames that arrive for it carry it. */
tt_head tt_op_arriving_key(const tt_op *op);
/* A frame of this op arrived from `member`, which has begun it, too. */
void tt_op_hear(tt_op *op, uint32_t member);
void tt_op_settle(tt_op *op);
/* The op is no longer kept for its recipe but free for any; `is_next`: the first to be taken. */
void tt_op_cool(tt_op *op, bool is_next);
/* Does the op wait for an engine, to be launched or to end? */
bool tt_op_is_launched(const tt_op *op);
/* An op for this recipe: that of the last such call, laid out, or any. One is always kept, to
 * report to the peers that there is no memory for another: `*is_last_out`. */
tt_op *tt_op_take(tt_control *control, tt_recipe *recipe, bool *is_last_out);
/* Give the request its place and begin it. With an objection it fails on all ranks with that text,
 * which names the objecting rank. */
void tt_op_submit(tt_control *control, tt_set *set, tt_request *request,
                  const tt_standing *standing, const tt_failure *objection);
/* End the request, which has no op. */
void tt_request_refuse(tt_request *request, tt_status status, const char *text);
/* It is the op's turn: begin it, unless it waits for credit. */
void tt_op_begin(tt_op *op);
/* The same for a call that an earlier run laid out, that has a place, and whose frame was already
 * handed to the driver. */
void tt_op_begin_posted(tt_op *op);
/* Its request is invalid, or the peers must get another failure: it ends on all ranks. */
void tt_op_refuse(tt_op *op, tt_status status, const char *text);
/* The op is over with this status; ends its request. */
void tt_op_end(tt_op *op, tt_status status);
/* This rank cannot continue the op: object, with the rank and its call in the text. */
void tt_op_object(tt_op *op, tt_status status, const tt_text *why);
void tt_op_fail(tt_op *op, tt_status status, const char *text);
void tt_op_stopped(tt_op *op, uint32_t member);
/* End calls whose peers were asked to stop storing and have not answered for stop_ns. */
void tt_op_patrol_stops(tt_control *control);
void tt_op_release_all(tt_control *control);
/* The rank that decides about this op: the first member that is not gone. */
uint32_t tt_op_first(const tt_op *op);

/* ---- timing.c ---- */

/* The call was submitted at `now_ns`: set the times of its probe, stall report and deadline. */
void tt_op_date(tt_op *op, uint64_t now_ns);
/* A stage of the op ended at `end_ns` (0: now). Add its time to `sum_io` if the op is
 * timed, and record it if there is a tracer. */
void tt_op_clock(tt_op *op, tt_call_span span, uint64_t end_ns, uint64_t *sum_io);
/* The stage is over. An exchange waited until the first frame of its last partner arrived. */
void tt_op_clock_stage(tt_op *op, const tt_stage *stage);
/* Keep the members it waits for, for the error text; without memory nothing is kept. */
void tt_op_tell_stall(tt_op *op, const char *who);
const char *tt_op_stall(const tt_op *op);

/* ---- prepare.c ---- */

/* Elements this rank contributes. */
uint64_t tt_request_input_count(const tt_request *request, uint32_t self, uint32_t size);
/* The stages of such a call on this set; their number. */
uint32_t tt_op_program(const tt_control *control, const tt_set *set, const tt_request *request,
                       uint16_t traits, tt_stage stages[TT_STAGES_MAX]);
/* Give exec the buffers, facts and offsets of the op's stage. */
tt_status tt_op_prepare(tt_op *op, tt_text *text);

#endif
