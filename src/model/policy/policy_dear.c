/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_dear.c - the two halves of an all-reduce apart (DeAR, 2023): reduce-scatter during
 * backward, in its order; all-gather during the next forward, in its order. Both orders are static:
 * ranks need no negotiation. The first all-gather waits for the last reduce-scatter. */
#include "model/registry.h"

enum {
    GROUP_BYTES = 25 << 20,
};

typedef struct gathering_state {
    const tt_timetable *plan;
} gathering_state;

static bool used_before(const void *user, uint32_t a, uint32_t b)
{
    const gathering_state *gathering = user;
    return tt_policy_first_use_us(gathering->plan, &gathering->plan->transfers[a]) <
           tt_policy_first_use_us(gathering->plan, &gathering->plan->transfers[b]);
}

static tt_status dear_plan(const tt_policy_input *input, tt_timetable *plan)
{
    plan->queue = TT_QUEUE_FIFO;
    TT_TRY(tt_policy_buckets(plan, input->chunk_bytes != 0 ? input->chunk_bytes : GROUP_BYTES));
    const uint32_t count = plan->transfer_count;
    uint32_t *order = tt_scratch_take(&plan->scratch, count, sizeof(order[0]));
    uint32_t *spare = tt_scratch_take(&plan->scratch, count, sizeof(spare[0]));
    TT_TRY(tt_scratch_status(&plan->scratch));
    for (uint32_t i = 0; i < count; i++) {
        plan->transfers[i].kind = TT_TASK_REDUCE_SCATTER;
        order[i] = i;
    }
    tt_sort_indices(order, spare, count, used_before, &(gathering_state){.plan = plan});
    for (uint32_t i = 0; i < count; i++) {
        tt_transfer gather = plan->transfers[order[i]];
        gather.kind = TT_TASK_ALL_GATHER;
        gather.after = count - 1;
        gather.waits_for_forward = true;
        tt_plan_append(plan, &gather);
    }
    return TT_OK;
}

const tt_policy tt_policy_dear = {
    .name = "dear",
    .summary = "reduce-scatter in backward, all-gather in the next forward",
    .needs_allreduce = true,
    .takes_chunk = true,
    .plan = dear_plan,
};
