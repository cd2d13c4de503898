/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_times.h - which gradients other systems exchange as one, and when they launch that.
 *
 * They fill a plan (model/transfer_plan.h) whose transfers are delayed from the readiness of their
 * last member to the moment at which all ranks launch them. Times are those of a step without
 * noise.
 *
 * Layer:   sim, private to it but for sim.h, which includes this header.
 * Threads: pure.
 * Memory:  the plan's.
 */
#ifndef TUTTI_SIM_STRATEGY_LAUNCH_TIMES_H
#define TUTTI_SIM_STRATEGY_LAUNCH_TIMES_H

#include "model/model.h"

/* A background thread that wakes up in cycles, finds out with those of other ranks which tensors
 * all have, and launches these (Horovod, operations.cc and controller.cc). */
typedef struct tt_cycle_rule {
    double cycle_us; /* from the beginning of a cycle to that of the next, at least; 0: a round
                      * begins as soon as there is a tensor */
    uint64_t fusion_bytes; /* of tensors that are exchanged as one; a longer one goes alone */
    uint32_t group_count;  /* tensors are requested in so many groups of consecutive ones, equal in
                            * number: a group when all its members are ready. 0: each alone */
    /* How long finding out takes when each rank has so many tensors; the thread is busy then. */
    double (*agree_us)(const void *user, uint32_t tensor_count);
    /* How long the thread waits for an exchange of so many bytes; NULL: it does not wait. */
    double (*exchange_us)(const void *user, uint64_t bytes);
    const void *user;
} tt_cycle_rule;

/* agreed_us: [tensor_count] when all ranks have agreed on each tensor. `scratch` is the caller's.
 * TT_ERR_NO_MEMORY. */
tt_status tt_agreed_by_cycles(const tt_cycle_rule *rule, const tt_workload *workload,
                              tt_scratch *scratch, double *agreed_us);

/* `plan` is initialised and empty. The first cycle with a tensor begins half a cycle after it was
 * requested, which is the mean. What is left out: of tensors that do not fit beside others, shorter
 * ones behind them are not looked for. */
tt_status tt_launch_by_cycles(const tt_cycle_rule *rule, tt_timetable *plan);

/* Buckets of tensors in the reverse of their order in the workload, the first one shorter, each
 * launched when it is ready and the one before it was (torch DDP, reducer.cpp). */
typedef struct tt_bucket_rule {
    uint64_t first_bytes, bytes; /* a bucket is full when it has as many */
} tt_bucket_rule;

tt_status tt_launch_in_order(const tt_bucket_rule *rule, tt_timetable *plan);

#endif
