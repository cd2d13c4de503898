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

/* Cycles one after the other. */
typedef struct cycle_walk {
    const tt_cycle_rule *rule;
    const tt_workload *workload;
    uint32_t *order;     /* by time of request; of equal times by readiness */
    double *times_us;    /* of the requests */
    uint32_t first, end; /* what the cycle agrees on, in `order` */
    double begin_us;     /* of the cycle, */
    double agreed_us;    /* and its end */
} cycle_walk;

/* When each tensor is requested. */
static tt_status find_requests(cycle_walk *walk, tt_scratch *scratch)
{
    const tt_workload *workload = walk->workload;
    const uint64_t count = workload->tensor_count, asked = walk->rule->group_count;
    const uint64_t groups = asked == 0 || asked > count ? count : asked;
    walk->times_us = tt_scratch_take(scratch, count, sizeof(*walk->times_us));
    TT_TRY(tt_scratch_status(scratch));
    for (uint64_t group = 0; group < groups; group++) {
        const uint64_t first = group * count / groups, end = (group + 1) * count / groups;
        double ready_us = 0;
        for (uint64_t i = first; i < end; i++) {
            ready_us = fmax(ready_us, workload->tensors[i].ready_us);
        }
        for (uint64_t i = first; i < end; i++) {
            walk->times_us[i] = ready_us;
        }
    }
    return TT_OK;
}

static bool is_requested_before(const void *user, uint32_t a, uint32_t b)
{
    const double *times_us = user;
    return times_us[a] < times_us[b];
}

static tt_status walk_init(cycle_walk *walk, const tt_cycle_rule *rule, const tt_workload *workload,
                           tt_scratch *scratch)
{
    TT_ASSERT(rule->cycle_us >= 0);
    *walk = (cycle_walk){.rule = rule, .workload = workload};
    TT_TRY(find_requests(walk, scratch));
    walk->order = tt_workload_by_ready(workload, scratch);
    uint32_t *spare = tt_scratch_take(scratch, workload->tensor_count, sizeof(*spare));
    TT_TRY(tt_scratch_status(scratch));
    tt_sort_indices(walk->order, spare, workload->tensor_count, is_requested_before,
                    walk->times_us);
    walk->begin_us = walk->times_us[walk->order[0]] + rule->cycle_us / 2;
    return TT_OK;
}

/* The next cycle with a tensor. False: there is none. */
static bool walk_next(cycle_walk *walk)
{
    const double cycle_us = walk->rule->cycle_us;
    const uint32_t count = (uint32_t)walk->workload->tensor_count;
    walk->first = walk->end;
    if (walk->first == count) {
        return false;
    }
    const double request_us = walk->times_us[walk->order[walk->first]];
    const double idle_us = request_us - walk->begin_us;
    if (idle_us > 0) {
        walk->begin_us =
            cycle_us > 0 ? walk->begin_us + ceil(idle_us / cycle_us) * cycle_us : request_us;
    }
    while (walk->end < count && walk->times_us[walk->order[walk->end]] <= walk->begin_us) {
        walk->end++;
    }
    TT_ASSERT(walk->end > walk->first);
    walk->agreed_us =
        walk->begin_us + walk->rule->agree_us(walk->rule->user, walk->end - walk->first);
    return true;
}

/* The thread is free at `free_us`. */
static void walk_go_on(cycle_walk *walk, double free_us)
{
    walk->begin_us = fmax(walk->begin_us + walk->rule->cycle_us, free_us);
}

tt_status tt_agreed_by_cycles(const tt_cycle_rule *rule, const tt_workload *workload,
                              tt_scratch *scratch, double *agreed_us)
{
    cycle_walk walk;
    TT_TRY(walk_init(&walk, rule, workload, scratch));
    while (walk_next(&walk)) {
        for (uint32_t i = walk.first; i < walk.end; i++) {
            agreed_us[walk.order[i]] = walk.agreed_us;
        }
        walk_go_on(&walk, walk.agreed_us);
    }
    return TT_OK;
}

/* Launch tensors that were agreed on in one cycle as one; when the thread goes on. */
static double launch(const cycle_walk *walk, uint32_t first, uint32_t end, double launch_us,
                     tt_timetable *plan)
{
    const tt_cycle_rule *rule = walk->rule;
    exchange(plan, &walk->order[first], end - first, launch_us);
    const uint64_t bytes = plan->transfers[plan->transfer_count - 1].bytes;
    return rule->exchange_us != NULL ? launch_us + rule->exchange_us(rule->user, bytes) : launch_us;
}

/* What a cycle agreed on, in as many exchanges as the limit makes of them. */
static double fuse(const cycle_walk *walk, tt_timetable *plan)
{
    const uint64_t bytes_max = walk->rule->fusion_bytes;
    uint32_t first = walk->first;
    double launch_us = walk->agreed_us;
    uint64_t bytes = 0;
    for (uint32_t i = first; i < walk->end; i++) {
        const uint64_t own_bytes = walk->workload->tensors[walk->order[i]].bytes;
        if (i > first && own_bytes > bytes_max - tt_min_u64(bytes, bytes_max)) {
            launch_us = launch(walk, first, i, launch_us, plan);
            first = i;
            bytes = 0;
        }
        bytes += own_bytes;
    }
    return launch(walk, first, walk->end, launch_us, plan);
}

tt_status tt_launch_by_cycles(const tt_cycle_rule *rule, tt_timetable *plan)
{
    cycle_walk walk;
    TT_ASSERT(plan->form == TT_FORM_ALLREDUCE);
    TT_TRY(walk_init(&walk, rule, plan->workload, &plan->scratch));
    plan->queue = TT_QUEUE_FIFO;
    while (walk_next(&walk)) {
        walk_go_on(&walk, fuse(&walk, plan));
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
