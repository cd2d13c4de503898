/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_priority.c - first use in the next forward goes first, in chunks, within a credit
 * (ByteScheduler, SOSP 2019); and the same with stop-and-wait and small fixed slices (P3, SysML
 * 2019). */
#include "model/registry.h"

enum {
    P3_SLICE_BYTES = 160000, /* 40,000 parameters of four bytes */
};

static tt_status by_first_use(tt_timetable *plan)
{
    uint32_t *places;
    TT_TRY(tt_plan_use_places(plan->workload, &plan->scratch, &places));
    return tt_policy_each_tensor(plan, places);
}

static tt_status priority_plan(const tt_policy_input *input, tt_timetable *plan)
{
    tt_policy_set_limits(input, plan);
    return by_first_use(plan);
}

const tt_policy tt_policy_priority = {
    .name = "priority",
    .summary = "first use in forward goes first, in chunks, within a credit",
    .takes_chunk = true,
    .takes_credit = true,
    .plan = priority_plan,
};

static tt_status p3_plan(const tt_policy_input *input, tt_timetable *plan)
{
    plan->chunk_bytes = input->chunk_bytes != 0 ? input->chunk_bytes : P3_SLICE_BYTES;
    plan->credit_bytes = TT_CREDIT_STOP_AND_WAIT;
    return by_first_use(plan);
}

const tt_policy tt_policy_p3 = {
    .name = "p3",
    .summary = "first use goes first, in small slices, one at a time",
    .takes_chunk = true,
    .plan = p3_plan,
};
