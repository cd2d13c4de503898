/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.h - training steps of a job under a plan: how long they take, and on what.
 *
 * One worker represents all: where ranks differ, the slowest of each step, for which the others
 * wait. So every collective begins when the slowest has its gradients. The plan is evaluated
 * several times, with and without what is asked about.
 *
 * Layer:   sim.
 * Threads: pure.
 * Memory:  scratch during the call.
 */
#ifndef TUTTI_SIM_TRAIN_TRAINER_H
#define TUTTI_SIM_TRAIN_TRAINER_H

#include "model/model.h"
#include "sim/train/rank_noise.h"

typedef struct tt_training tt_training;

/* Gets the steps, with those that settle: spans of the worker that represents all, then
 * how long each step took before overhead and input. */
typedef struct tt_training_watch {
    tt_span_fn *on_span;
    tt_status (*over)(void *user, const tt_training *training, const double *step_us);
    void *user;
} tt_training_watch;

struct tt_training {
    const tt_timetable *plan; /* sound; delays of its transfers are what agreeing takes */
    tt_wire wire;
    const tt_rank_noise *noise;     /* NULL: none */
    double overhead_us;             /* of a rank's processor in each step, beside computation */
    double input_us;                /* a step's samples arrive no faster; 0: at once */
    uint32_t step_count;            /* at least 1 */
    const tt_training_watch *watch; /* may be NULL */
    const tt_allocator *allocator;
};

/* The step that a user sees, of one that was evaluated: with overhead, and not before its samples.
 */
double tt_training_step_us(const tt_training *training, double evaluated_us);

/* Microseconds of a step, on average. compute, wait, exposed, agreement, overhead and input add up
 * to step. */
typedef struct tt_training_result {
    double step_us;
    double p5_us, p95_us; /* over the steps */
    double compute_us;    /* of the mean rank */
    double wait_us;       /* for the slowest rank */
    double exposed_us;    /* communication that nothing hides */
    double agreement_us;  /* likewise, of agreeing on what is communicated */
    double overhead_us;
    double input_us;                                           /* waiting for samples */
    double free_network_us, free_control_us, without_noise_us; /* what a step would take */
    tt_evaluation evaluation; /* with noise, without overhead and input */
} tt_training_result;

/* TT_ERR_NO_MEMORY, or as tt_evaluate. */
tt_status tt_train(const tt_training *training, tt_text *why, tt_training_result *result_out);

#endif
