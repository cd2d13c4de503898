/* SPDX-License-Identifier: Apache-2.0
 *
 * feedback.h - what coded calls of a tensor leave for the next one: residuals, and how often it was
 * called.
 *
 * A record belongs to (set, name), or to one declared call without a name. It is made by the first
 * op of a tensor whose scheme keeps state, and stays until it is reset, its set is released or the
 * machine ends: a residual is gradient that was not sent yet.
 *
 *  (1) An occurrence is an op: all members have the same ops of a tensor, also those that fail, and
 *      those in which a joined rank contributes zeros. So all of them are in the same phase of its
 *      scheme. Should they not be, the codes in their claims differ, and the call fails.
 *  (2) A call that fails leaves the residuals as they were. One that succeeds replaces them; from
 *      the first tt_control_codec_commit on, tt_control_codec_undo brings back those of the last.
 *      A part of a group is over with the group: it may fail although its own op succeeded.
 *  (3) At most one op of a tensor uses its residuals at a time. A joined rank may have a second one
 *      before the first is over: it codes without them.
 *  (4) With estimates (EF21, coding.h) sender and owner must have counted the same ops. `stamp` is
 *      a hash of the ops that count: it changes and returns together with the estimates, and is
 *      compared in every message. A joined rank may not code without its estimates: such calls are
 *      refused.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  from the platform, with the first op of a tensor; none after that.
 */
#ifndef TUTTI_CONTROL_CODED_FEEDBACK_H
#define TUTTI_CONTROL_CODED_FEEDBACK_H

#include "aggregate/aggregate.h"
#include "control/coded/kept.h"
#include "control/control.h"

enum { FEEDBACK_BUCKETS = 256 };

/* What `input` of a record is. Only zeros can become another form. */
typedef enum tt_feedback_form {
    FORM_RESIDUAL,
    FORM_ESTIMATE,       /* negated, of this rank's values */
    FORM_ESTIMATE_RAILS, /* negated, of its host's sums */
    FORM_COUNT
} tt_feedback_form;

typedef struct tt_feedback {
    struct tt_feedback *next; /* in its bucket */
    uint32_t set;
    uint64_t key; /* of a declared call without a name; else 0 */
    uint64_t hash;
    uint64_t occurrences;
    tt_kept input, owner; /* residuals: of this rank's values, of the sums that it owns */
    tt_kept estimate;     /* what the others keep of the elements that this rank owns, added up */
    uint64_t owner_first, estimate_first;   /* the first element of those sums */
    uint64_t stamp, stamp_last, stamp_next; /* now, at the last commit, after the op in flight; 0:
                                               no op with estimates counts */
    tt_feedback_form form;
    bool is_spread;    /* the first may be of any element, not of its rail alone */
    bool has_owned;    /* the op that uses them has owners */
    bool has_estimate; /* it has estimates of the others, too */
    bool is_busy;      /* an op uses them */
    bool is_undone;    /* what that op writes does not count */
    bool has_sent;     /* that op has replaced the residual of this rank's values, too */
    bool is_grouped;   /* it has succeeded, and counts if its whole group does */
    char name[];       /* "" with a key */
} tt_feedback;

/* What the run of a coded op has of its own; kept with the op. */
typedef struct tt_coded_run {
    tt_coding coding;
    tt_feedback *feedback; /* or NULL */
} tt_coded_run;

/* A scheme that arrived in a claim. */
typedef struct tt_known_scheme tt_known_scheme;

typedef struct tt_feedbacks {
    tt_feedback **buckets; /* NULL: there are none yet */
    tt_known_scheme *schemes;
    uint64_t count;
    bool has_steps; /* commits are explicit */
    double unit;    /* of all residuals; 0: 1 */
} tt_feedbacks;

/* The request, whose program is of a scheme, is about to become an op: count the occurrence and
 * select the program of its phase. NO_MEMORY: it must not run. */
tt_status tt_feedback_bind(tt_control *control, const tt_set *set, tt_request *request);
/* Before the first stage of a coded op: provide exec->coding. `text`: why it cannot run. */
tt_status tt_feedback_prepare(tt_op *op, tt_text *text);
/* The exchange of the op has failed with a mismatch: is it one of estimates? Then `text` names both
 * ranks. */
bool tt_feedback_is_astray(const tt_op *op, tt_text *text);
/* The op is over. */
void tt_feedback_settle(tt_op *op, tt_status status);
/* The group that the request is part of is over. */
void tt_feedback_settle_part(tt_control *control, const tt_request *request, tt_status status);

/* This rank may have to run a call of the scheme by its claim, when it has joined. So it is learnt
 * when a tensor is first submitted, which may fail before it is an op. */
tt_status tt_feedback_learn(tt_control *control, const tt_scheme *scheme);
/* Can the scheme of a claim be known: by the claim, or because it was learnt? */
bool tt_feedback_knows(const tt_control *control, uint64_t code);
/* The program of a call that a joined rank knows by its claim only; NULL: its scheme cannot be
 * known, or there is no memory for it. */
const tt_program *tt_feedback_program(tt_control *control, uint64_t code);
void tt_feedback_forget_set(tt_control *control, const tt_set *set);
void tt_feedback_release_all(tt_control *control);

/* Those of calls that are over count; or not. */
void tt_feedback_commit(tt_feedback *own);
void tt_feedback_undo(tt_feedback *own);
/* Release all floats. */
void tt_feedback_clear(tt_control *control, tt_feedback *own);

/* The record of a tensor, NULL: there is none. */
tt_feedback *tt_feedback_find(const tt_control *control, uint32_t set, const char *name,
                              uint64_t key);
/* The same, made if need be; NULL: no memory. */
tt_feedback *tt_feedback_of(tt_control *control, uint32_t set, const char *name, uint64_t key);

#endif
