/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_times.c - see launch_times.h. */
#include "sim/strategy/launch_times.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"

/* The tensors [first, first + count) of `order` as one, launched at `launch_us`. */
static void exchange(tt_timetable *plan, const uint32_t *order, uint32_t count, double launch_us)
{
    tt_transfer *transfer = tt_plan_exchange(plan, order, count, 0);
    const double ready_us = tt_policy_ready_us(plan, transfer);
    TT_ASSERT(launch_us >= ready_us);
    transfer->delay_us = launch_us - ready_us;
}

/* ---- cycles ---- */

/* When each tensor is requested. */
static tt_status requests_of(const tt_cycle_rule *rule, tt_timetable *plan, double **times_out)
{
    const tt_workload *workload = plan->workload;
    const uint64_t count = workload->tensor_count;
    const uint64_t groups =
        rule->group_count == 0 || rule->group_count > count ? count : rule->group_count;
    double *times_us = tt_scratch_take(&plan->scratch, count, sizeof(*times_us));
    TT_TRY(tt_scratch_status(&plan->scratch));
    for (uint64_t group = 0; group < groups; group++) {
        const uint64_t first = group * count / groups, end = (group + 1) * count / groups;
        double ready_us = 0;
        for (uint64_t i = first; i < end; i++) {
            ready_us = fmax(ready_us, workload->tensors[i].ready_us);
        }
        for (uint64_t i = first; i < end; i++) {
            times_us[i] = ready_us;
        }
    }
    *times_out = times_us;
    return TT_OK;
}

static bool is_requested_before(const void *user, uint32_t a, uint32_t b)
{
    const double *times_us = user;
    return times_us[a] < times_us[b];
}

/* By time of request; of equal times by readiness. */
static tt_status order_of(const double *times_us, tt_timetable *plan, uint32_t **order_out)
{
    const size_t count = plan->workload->tensor_count;
    uint32_t *order = tt_workload_by_ready(plan->workload, &plan->scratch);
    uint32_t *spare = tt_scratch_take(&plan->scratch, count, sizeof(*spare));
    TT_TRY(tt_scratch_status(&plan->scratch));
    tt_sort_indices(order, spare, count, is_requested_before, times_us);
    *order_out = order;
    return TT_OK;
}

/* Tensors that were agreed on in one cycle, in as many exchanges as the limit makes of them. */
static void fuse(tt_timetable *plan, const uint32_t *order, uint32_t count, uint64_t bytes_max,
                 double launch_us)
{
    uint32_t first = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t own_bytes = plan->workload->tensors[order[i]].bytes;
        if (i > first && own_bytes > bytes_max - tt_min_u64(bytes, bytes_max)) {
            exchange(plan, &order[first], i - first, launch_us);
            first = i;
            bytes = 0;
        }
        bytes += own_bytes;
    }
    exchange(plan, &order[first], count - first, launch_us);
}

tt_status tt_launch_by_cycles(const tt_cycle_rule *rule, tt_timetable *plan)
{
    const uint32_t count = (uint32_t)plan->workload->tensor_count;
    double *times_us;
    uint32_t *order;
    TT_ASSERT(rule->cycle_us > 0 && plan->form == TT_FORM_ALLREDUCE);
    TT_TRY(requests_of(rule, plan, &times_us));
    TT_TRY(order_of(times_us, plan, &order));
    plan->queue = TT_QUEUE_FIFO;
    double begin_us = times_us[order[0]] + rule->cycle_us / 2;
    for (uint32_t first = 0, end = 0; first < count; first = end) {
        const double idle_us = times_us[order[first]] - begin_us;
        begin_us += idle_us > 0 ? ceil(idle_us / rule->cycle_us) * rule->cycle_us : 0;
        while (end < count && times_us[order[end]] <= begin_us) {
            end++;
        }
        TT_ASSERT(end > first);
        const double launch_us = begin_us + rule->agree_us(rule->user, end - first);
        fuse(plan, &order[first], end - first, rule->fusion_bytes, launch_us);
        begin_us = fmax(begin_us + rule->cycle_us, launch_us);
    }
    return TT_OK;
}

/* ---- one order ---- */

tt_status tt_launch_in_order(const tt_bucket_rule *rule, tt_timetable *plan)
{
    const tt_workload *workload = plan->workload;
    const uint32_t count = (uint32_t)workload->tensor_count;
    uint32_t *order = tt_scratch_take(&plan->scratch, count, sizeof(*order));
    TT_TRY(tt_scratch_status(&plan->scratch));
    plan->queue = TT_QUEUE_FIFO;
    uint64_t bytes = 0, bytes_max = rule->first_bytes;
    double launch_us = 0;
    for (uint32_t i = 0, first = 0; i < count; i++) {
        order[i] = count - 1 - i;
        bytes += workload->tensors[order[i]].bytes;
        launch_us = fmax(launch_us, workload->tensors[order[i]].ready_us);
        if (bytes >= bytes_max || i + 1 == count) {
            exchange(plan, &order[first], i + 1 - first, launch_us);
            first = i + 1;
            bytes = 0;
            bytes_max = rule->bytes;
        }
    }
    return TT_OK;
}
