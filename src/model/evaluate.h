/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate.h - how long a step takes under a plan: a discrete-event model of one worker.
 *
 * Computation is one stream; each lane is a serial wire with a FIFO stack above it, so that started
 * chunks cannot be overtaken. The plan runs on the real scheduler. Workers are identical, so one of
 * them represents all. Several steps are run and the period is taken when it has settled.
 *
 * Layer:   model; may include base/.
 * Threads: pure.
 * Memory:  scratch during the call.
 */
#ifndef TUTTI_MODEL_EVALUATE_H
#define TUTTI_MODEL_EVALUATE_H

#include "model/transfer_plan.h"

/* Of a chunk: the next one waits for the first, its end for both. */
typedef struct tt_wire_cost {
    double hold_us, latency_us;
} tt_wire_cost;

/* A chunk of d bytes holds its wire for overhead + d * byte_us; its credit returns latency_us
 * later. Halves of an all-reduce (reduce-scatter, all-gather) cost half of it each. */
typedef struct tt_wire {
    double overhead_us;
    double byte_us;
    double latency_us;
    /* How long a chunk of so many bytes holds it, and its latency, where these are no line: a line
     * near them is above then, from which policies choose lengths. NULL: the line is all there is.
     */
    tt_wire_cost (*cost)(void *user, uint64_t bytes);
    void *user;
} tt_wire;

tt_wire_cost tt_wire_cost_of(const tt_wire *wire, tt_task_kind kind, uint64_t bytes);
/* Time one transfer of `bytes` takes alone, its latency included. */
double tt_wire_time_us(const tt_wire *wire, tt_task_kind kind, uint64_t bytes);

typedef enum tt_span_kind {
    TT_SPAN_FORWARD,
    TT_SPAN_BACKWARD,
    TT_SPAN_PUSH,
    TT_SPAN_PULL,
    TT_SPAN_COLLECTIVE,
    TT_SPAN_KINDS,
} tt_span_kind;

/* One bar of a Gantt picture. */
typedef struct tt_interval {
    tt_span_kind kind;
    uint32_t step;
    uint32_t transfer; /* communication: index in the plan */
    double start_us;
    double end_us;
    double arrived_us; /* communication: when its credit returns */
} tt_interval;

typedef void tt_span_fn(void *user, const tt_interval *span);

typedef struct tt_evaluation {
    double step_us;    /* period once it has settled */
    double network_us; /* busiest wire, per step */
    double compute_us;
    double stall_us;      /* per step: computation that waited */
    uint64_t chunk_count; /* per step */
    double rho;           /* network / compute */
    double alpha;         /* (network + compute - step) / min(network, compute) */
    double utilisation;   /* compute / step */
    double efficiency; /* E, as in graph_run.h: 1 where the busiest of computation and wires never
                        * waits, 0 where all is serial; with one wire it is alpha */
} tt_evaluation;

enum { TT_EVALUATE_STEPS = 12, TT_EVALUATE_SETTLE = 4 };

typedef struct tt_evaluate_config {
    tt_wire wire;
    tt_span_fn *on_span; /* may be NULL */
    void *user;
    const tt_allocator *allocator;
    uint32_t step_count;  /* more than TT_EVALUATE_SETTLE, which the averages leave out; 0: the
                           * number above */
    const double *scales; /* [step_count] how many times as long each step computes as the workload
                           * says; NULL: once */
    double *step_us_out;  /* [step_count] how long each step took; may be NULL */
} tt_evaluate_config;

/* The plan must be sound. TT_ERR_NO_RESOURCE where it makes more than a million chunks. */
tt_status tt_evaluate(const tt_timetable *plan, const tt_evaluate_config *config, tt_text *why,
                      tt_evaluation *evaluation_out);

/* rho, alpha and U of a step; E where that is its only wire. */
void tt_overlap(double network_us, double compute_us, double step_us, tt_evaluation *evaluation);

/* E: (serial - step) / (serial - busiest), the sum and the largest of the times of all resources.
 */
double tt_overlap_efficiency(double serial_us, double busiest_us, double step_us);

/* The step under an ideal wire: no cost per chunk, preempted at once in favour of the tensor that
 * is used first. No schedule of an all-reduce is shorter. */
tt_status tt_evaluate_fluid(const tt_workload *workload, double byte_us,
                            const tt_allocator *allocator, double *step_us_out);

#endif
