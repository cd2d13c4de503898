/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.h - the computation of one worker, step after step, as gates and emissions.
 *
 * The stream advances through a step; at the first use of a tensor it waits until that has arrived,
 * at a tensor's ready time it emits it. Shared by the evaluators.
 *
 * Layer:   model; private to the evaluators.
 * Threads: one at a time.
 * Memory:  from the scratch it was given.
 */
#ifndef TUTTI_MODEL_COMPUTE_H
#define TUTTI_MODEL_COMPUTE_H

#include "model/workload.h"

typedef struct tt_compute {
    const tt_workload *workload;
    const double *scales; /* [steps] how many times as long each step computes; NULL: once */
    uint32_t *uses;
    uint32_t *readies;
    uint64_t *arrived; /* by tensor: how often it has arrived */
    size_t use_next;
    size_t ready_next;
    uint64_t step;
    double place_us; /* in the step as the workload has it, of the last point that was reached */
    double clock_us; /* when that was */
    double point_us; /* in the step, of the next point; or of the gate where it waits */
    bool is_waiting; /* at a gate */
    double stall_us; /* ever */
} tt_compute;

tt_status tt_compute_init(tt_compute *compute, const tt_workload *workload, tt_scratch *scratch);

/* When the stream reaches its next point; INFINITY while it waits at a gate. */
double tt_compute_next_us(const tt_compute *compute);

/* Events at that point, one per call, at time `now_us`. */
typedef enum tt_compute_event {
    TT_COMPUTE_PASSED,  /* a gate, or the end of forward */
    TT_COMPUTE_WAITING, /* the tensor has not arrived: tt_compute_arrive continues */
    TT_COMPUTE_EMITTED, /* *tensor_out is ready */
    TT_COMPUTE_STEPPED, /* the step is over, the next has begun */
} tt_compute_event;

tt_compute_event tt_compute_reach(tt_compute *compute, double now_us, uint32_t *tensor_out);

/* The tensor has arrived (again); a stream that waits for it continues. */
void tt_compute_arrive(tt_compute *compute, uint32_t tensor, double now_us);

#endif
