/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_buckets.c - two ways to fuse gradients: buckets of a fixed size, as eager frameworks use
 * them, and MG-WFBP (INFOCOM 2019), which merges where merging costs no time. */
#include <math.h>

#include "model/registry.h"

enum {
    BUCKET_BYTES = 25 << 20,
};

static tt_status buckets_plan(const tt_policy_input *input, tt_timetable *plan)
{
    plan->queue = TT_QUEUE_FIFO;
    return tt_policy_buckets(plan, input->chunk_bytes != 0 ? input->chunk_bytes : BUCKET_BYTES);
}

const tt_policy tt_policy_buckets_25 = {
    .name = "buckets",
    .summary = "tensors fused up to 25 MiB (--chunk), in the order of backward",
    .takes_chunk = true,
    .plan = buckets_plan,
};

/* A group that could still grow. */
typedef struct merge_state {
    uint32_t first; /* in order of readiness */
    uint64_t bytes;
    double ready_us; /* of its last member */
} merge_state;

/* Shall a tensor that is ready at `next_us` join the group? The wire is free from `free_us` on: it
 * must be ready before the group would have arrived, and either the group cannot start earlier
 * anyway or waiting is cheaper than another start. */
static bool is_worth_merging(const tt_policy_input *input, const merge_state *group, double free_us,
                             double next_us)
{
    const double start_us = fmax(group->ready_us, free_us);
    const double end_us = start_us + tt_wire_time_us(&input->wire, TT_TASK_ALLREDUCE, group->bytes);
    const double start_cost_us = tt_wire_time_us(&input->wire, TT_TASK_ALLREDUCE, 0);
    return next_us < end_us && (next_us <= start_us || next_us - start_us < start_cost_us);
}

static tt_status mg_wfbp_plan(const tt_policy_input *input, tt_timetable *plan)
{
    const tt_workload *workload = plan->workload;
    const uint32_t *order = tt_workload_by_ready(workload, &plan->scratch);
    if (order == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    plan->queue = TT_QUEUE_FIFO;
    const tt_tensor *tensors = workload->tensors;
    merge_state group = {0, tensors[order[0]].bytes, tensors[order[0]].ready_us};
    double free_us = 0;
    for (uint32_t i = 1; i < workload->tensor_count; i++) {
        const tt_tensor *next = &tensors[order[i]];
        if (!is_worth_merging(input, &group, free_us, next->ready_us)) {
            free_us = fmax(group.ready_us, free_us) +
                      tt_wire_time_us(&input->wire, TT_TASK_ALLREDUCE, group.bytes);
            (void)tt_plan_exchange(plan, &order[group.first], i - group.first, 0);
            group = (merge_state){.first = i};
        }
        group.bytes += next->bytes;
        group.ready_us = next->ready_us;
    }
    (void)tt_plan_exchange(plan, &order[group.first],
                           (uint32_t)workload->tensor_count - group.first, 0);
    return TT_OK;
}

const tt_policy tt_policy_mg_wfbp = {
    .name = "mg-wfbp",
    .summary = "gradients merged where that costs no time under a + b d",
    .needs_allreduce = true,
    .plan = mg_wfbp_plan,
};
