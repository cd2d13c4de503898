/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.h - the contract of a scheduling policy: from a step and its costs to a plan.
 *
 * Layer:   model; may include base/.
 * Threads: an ops table is const and shared; planning is pure.
 * Memory:  the plan's.
 */
#ifndef TUTTI_MODEL_POLICY_POLICY_H
#define TUTTI_MODEL_POLICY_POLICY_H

#include "model/evaluate.h"

typedef struct tt_graph tt_graph;

typedef struct tt_policy_input {
    const tt_workload *workload; /* checked */
    const tt_graph *graph;       /* sealed; NULL where only the tensors are known */
    tt_plan_form form;
    tt_wire wire;
    uint64_t chunk_bytes;  /* 0: from the cost model, see tt_policy_chunk_seed */
    uint64_t credit_bytes; /* 0: four chunks */
    uint32_t rank_count;
    uint64_t seed; /* for policies that draw */
} tt_policy_input;

/* A policy. Every member is required. */
typedef struct tt_policy {
    const char *name;    /* as users write it */
    const char *summary; /* one line */
    bool needs_graph;
    bool needs_allreduce; /* makes no sense with a server */
    bool takes_chunk;     /* input->chunk_bytes is the length of its chunks or buckets */
    bool takes_credit;    /* input->credit_bytes, likewise */
    /* Fill `plan`, which is initialised and empty; its form is set. */
    tt_status (*plan)(const tt_policy_input *input, tt_timetable *plan);
} tt_policy;

/* Check the input, initialise the plan and let the policy fill it. On TT_OK the caller returns the
 * plan's memory; on failure there is none and `why` has the reason. */
tt_status tt_policy_run(const tt_policy *policy, const tt_policy_input *input,
                        const tt_allocator *allocator, tt_text *why, tt_timetable *plan_out);

/* c* = sqrt(S t B / k): total bytes, cost per chunk, bandwidth, chunks in flight. */
uint64_t tt_policy_chunk_seed(const tt_policy_input *input);

/* One exchange per tensor, in order of readiness, with these priorities (NULL: all 0). */
tt_status tt_policy_each_tensor(tt_timetable *plan, const uint32_t *priorities);

/* Tensors in order of readiness, fused up to `bytes_max`; a larger one is never fused. */
tt_status tt_policy_buckets(tt_timetable *plan, uint64_t bytes_max);

/* The first use of the transfer's members, and when the last of them is ready. */
double tt_policy_first_use_us(const tt_timetable *plan, const tt_transfer *transfer);
double tt_policy_ready_us(const tt_timetable *plan, const tt_transfer *transfer);

/* Set chunk and credit: the input's, or the seeds. */
void tt_policy_set_limits(const tt_policy_input *input, tt_timetable *plan);

#endif
