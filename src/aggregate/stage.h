/* SPDX-License-Identifier: Apache-2.0
 *
 * stage.h - one exchange, or one piece of local work, of a call; and the executors that run it.
 *
 * A call is a program of 1 to TT_STAGES_MAX stages, which run one after the other. A stage is const
 * once it is built: its problem, algorithm and plan serve every run. Where it needs facts or
 * lengths from the stage before (is_late), each run completes its own copy.
 *
 * Layer:   aggregate.
 * Threads: pure.
 * Memory:  none; the owner of a program keeps its stages.
 */
#ifndef TUTTI_AGGREGATE_STAGE_H
#define TUTTI_AGGREGATE_STAGE_H

#include "aggregate/algorithm.h"
#include "kernel/reduce.h"

enum { TT_STAGES_MAX = 16 };

typedef struct tt_exec tt_exec;

typedef enum tt_stage_kind {
    TT_STAGE_COUNTS,   /* the members gather lengths of uneven parts */
    TT_STAGE_PLACES,   /* they gather where their buffers are in the arenas */
    TT_STAGE_AGREE,    /* one byte each: all members have the call, and whether all wait for it */
    TT_STAGE_EXCHANGE, /* data */
    TT_STAGE_LAUNCH,   /* an outside engine runs it */
    TT_STAGE_LOCAL,    /* work of this rank alone */
} tt_stage_kind;

/* Buffers of a run. */
typedef enum tt_stage_buffer {
    TT_RUN_INPUT,
    TT_RUN_OUTPUT,
    TT_RUN_WORK, /* memory of the run's own */
    TT_RUN_NONE, /* determined by the kind of the stage */
} tt_stage_buffer;

/* Runs a stage. Every member is required. After each call check is_running and status. */
typedef struct tt_executor {
    const char *name;
    tt_status (*start)(tt_exec *exec);
    /* As tt_machine_ops.frame. */
    void *(*frame)(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload);
    void (*payload)(tt_exec *exec, uint32_t member, const tt_head *head);
    void (*granted)(tt_exec *exec, uint32_t member, uint64_t lanes);
    /* The peer has no credit: grant it the open lanes. */
    void (*wanted)(tt_exec *exec, uint32_t member);
    void (*sent)(tt_exec *exec, uint32_t lane_slot);
    /* Credit was returned by some peer: retry sends that waited for it. */
    void (*retry)(tt_exec *exec);
    /* Some local work; true if more is left. */
    bool (*step)(tt_exec *exec);
    /* Is a frame still to be received from or sent to `member`? */
    bool (*needs)(const tt_exec *exec, uint32_t member);
    /* Has nothing been sent or received? */
    bool (*is_untouched)(const tt_exec *exec);
    /* Recall buffers that links have borrowed. */
    void (*stop)(tt_exec *exec);
} tt_executor;

extern const tt_executor tt_executor_flat;  /* one short frame from each member to all others */
extern const tt_executor tt_executor_lanes; /* chunks, rounds and moves of an algorithm */
extern const tt_executor tt_executor_local; /* `local`, in steps */

/* Local work on bytes [first, first + bytes) of the stage's vectors: reads exec->input, updates
 * exec->output, so one step combines two buffers. */
typedef void tt_local_fn(const tt_exec *exec, uint64_t first, uint64_t bytes);

typedef struct tt_stage {
    uint8_t kind;                    /* tt_stage_kind */
    uint8_t from, to;                /* tt_stage_buffer */
    bool is_late;                    /* problem and plan are completed when the stage starts */
    bool is_eager;                   /* its frames need no grant */
    uint64_t from_offset, to_offset; /* of WORK: where the stage's buffers begin */
    uint64_t work_bytes; /* length of WORK; one for all stages: growing would lose its contents */
    const tt_executor *executor; /* NULL: an engine's */
    const tt_algorithm *algorithm;
    tt_problem problem;
    tt_plan plan;
    tt_fold_fn *fold;    /* of a flat sum; NULL: nothing is summed */
    uint64_t fold_count; /* elements */
    tt_local_fn *local;  /* LOCAL */
} tt_stage;

/* The problem is complete: plan it, and choose its executor. */
void tt_stage_plan(tt_stage *stage, uint32_t eager_bytes_max);

/* A local stage of this problem, without memory of its own yet. */
tt_stage tt_stage_local(const tt_problem *problem, tt_stage_buffer from, tt_stage_buffer to,
                        tt_local_fn *local);

/* One step of a program that the library did not build itself. */
typedef struct tt_program_step {
    tt_stage_kind kind; /* EXCHANGE or LOCAL */
    tt_redop redop;     /* EXCHANGE: of an all-reduce over all elements */
    tt_stage_buffer from, to;
    tt_local_fn *local;
} tt_program_step;

/* A call that is more than one exchange of its data as they are. Every member runs the same: the
 * steps, or one exchange of coded data. `number` identifies the steps and is part of the claim that
 * ranks compare; a codec is compared by its scheme. */
typedef struct tt_program {
    uint32_t number;
    uint32_t step_count;
    tt_program_step steps[TT_STAGES_MAX];
    const struct tt_scheme *scheme; /* of a phase of it (scheme.h); else NULL */
    const tt_codec_spec *codec;     /* of that phase; NULL: its data are sent as they are */
} tt_program;

/* A call, as far as it is equal on all members. */
typedef struct tt_program_input {
    tt_problem problem;    /* without facts and offsets */
    const char *preferred; /* the algorithm where it fits; NULL: by size and placement */
    uint32_t eager_bytes_max;
    bool by_engine;
    bool exchanges_counts;     /* lengths are gathered first */
    const tt_program *program; /* NULL: one exchange */
} tt_program_input;

/* Make the stage an exchange of `count` elements of the run's work memory, as they are. Buffers
 * there are in no arena, so no algorithm that needs their places fits. */
void tt_stage_exchange_work(tt_stage *stage, const tt_program_input *input, tt_dtype dtype,
                            uint64_t count);

/* Write the stages of such a call; returns their number. A pure function: equal on all members. */
uint32_t tt_program_build(const tt_program_input *input, tt_stage stages[TT_STAGES_MAX]);

#endif
