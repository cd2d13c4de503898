/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_replay.h - what any rank of a job did in its steps, from what the slowest of each step did.
 *
 * The trainer evaluates one worker, which in each step is the slowest. Exchanges end when they end
 * for it. Any other rank computes its own time between them: it waits for the same parameters, and
 * for longer.
 *
 * Layer:   sim.
 * Threads: one at a time per set of arrivals.
 * Memory:  arrivals own their table; a replay takes scratch during the call.
 */
#ifndef TUTTI_SIM_TRAIN_RANK_REPLAY_H
#define TUTTI_SIM_TRAIN_RANK_REPLAY_H

#include "model/model.h"
#include "sim/train/rank_noise.h"

/* When the exchanges of the first steps were over. */
typedef struct tt_arrivals {
    double *over_us; /* [step_count][transfer_max], 0: before all */
    uint32_t step_count;
    uint32_t transfer_max;
    bool has_failed; /* for lack of memory */
    const tt_allocator *allocator;
} tt_arrivals;

void tt_arrivals_init(tt_arrivals *arrivals, uint32_t step_count, const tt_allocator *allocator);
void tt_arrivals_fini(tt_arrivals *arrivals);
/* Of an evaluation (model/evaluate.h), in any order; what is no communication is ignored. */
void tt_arrivals_note(tt_arrivals *arrivals, const tt_interval *span);

typedef enum tt_rank_span_kind {
    TT_RANK_FORWARD, /* all before the last backward */
    TT_RANK_BACKWARD,
    TT_RANK_WAIT, /* for the parameters that an exchange of the step before brings */
} tt_rank_span_kind;

typedef struct tt_rank_span {
    tt_rank_span_kind kind;
    uint32_t step;
    uint32_t tensor; /* that a wait is for */
    double start_us, end_us;
} tt_rank_span;

typedef void tt_rank_span_fn(void *user, const tt_rank_span *span);

typedef struct tt_rank_replay {
    const tt_timetable *plan;
    const tt_arrivals *arrivals;
    const tt_rank_noise *noise; /* NULL: none */
    uint32_t rank;
    uint32_t step_count; /* at most one more than those of the arrivals */
    const tt_allocator *allocator;
    tt_rank_span_fn *on_span; /* in the order of time, none of length 0 */
    void *user;
} tt_rank_replay;

/* TT_ERR_NO_MEMORY. */
tt_status tt_rank_replay_run(const tt_rank_replay *replay);

#endif
