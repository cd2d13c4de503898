/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer_plan.h - a policy's decision: which tensors are exchanged as one, how, and in which
 * order.
 *
 * Layer:   model; may include base/.
 * Threads: one at a time per plan.
 * Memory:  a plan owns its arrays; tt_plan_fini returns them.
 */
#ifndef TUTTI_MODEL_TRANSFER_PLAN_H
#define TUTTI_MODEL_TRANSFER_PLAN_H

#include "model/workload.h"
#include "schedule/schedule.h"

/* Where sums are made. With a server, an exchange is a push and the pull that follows it. */
typedef enum tt_plan_form {
    TT_FORM_ALLREDUCE,
    TT_FORM_SERVER,
} tt_plan_form;

/* Which algorithm suits a decentralised transfer of its size. */
typedef enum tt_plan_scheme {
    TT_SCHEME_ANY,
    TT_SCHEME_SHUFFLE, /* all to all: two latencies */
    TT_SCHEME_HALVING,
    TT_SCHEME_RING, /* neighbours only, no contention */
} tt_plan_scheme;

typedef struct tt_transfer {
    tt_task_kind kind;
    tt_plan_scheme scheme;
    uint32_t priority;
    bool waits_for_forward; /* not before backward has ended */
    double delay_us;        /* from then on: until all ranks have agreed on it */
    uint32_t after;         /* TT_TASK_NONE, or the transfer it follows */
    uint64_t bytes;
    uint64_t chunk_bytes;  /* 0: the plan's */
    uint32_t member_first; /* tensors, in plan->members */
    uint32_t member_count;
} tt_transfer;

typedef struct tt_timetable {
    tt_plan_form form;
    tt_scheduler_queue queue;
    uint64_t chunk_bytes;
    uint64_t credit_bytes;
    bool keeps_barrier; /* the next forward waits for every transfer */
    tt_transfer *transfers;
    uint32_t transfer_count;
    uint32_t *members; /* a tensor is a member of one exchange */
    uint32_t member_count;
    const tt_workload *workload; /* borrowed */
    tt_scratch scratch;
} tt_timetable;

/* Room for one exchange per tensor. On TT_ERR_NO_MEMORY there is nothing to return. */
tt_status tt_plan_init(tt_timetable *plan, const tt_workload *workload,
                       const tt_allocator *allocator);
void tt_plan_fini(tt_timetable *plan);

/* Exchange `count` tensors as one: an all-reduce, or a push and a pull. Returns the first transfer,
 * for the policy to adjust; with a server the pull is the next one. */
tt_transfer *tt_plan_exchange(tt_timetable *plan, const uint32_t *tensors, uint32_t count,
                              uint32_t priority);

/* Append a transfer whose members are those of an exchange. */
void tt_plan_append(tt_timetable *plan, const tt_transfer *transfer);

/* Every tensor is in exactly one exchange, every transfer's members and follower are sound. */
bool tt_plan_is_sound(const tt_timetable *plan);

/* priorities[tensor] = place of its first use in the forward pass. */
tt_status tt_plan_use_places(const tt_workload *workload, tt_scratch *scratch,
                             uint32_t **places_out);

const char *tt_plan_scheme_name(tt_plan_scheme scheme);

#endif
