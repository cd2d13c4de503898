/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer_plan.c - building a plan, one exchange at a time. */
#include "model/transfer_plan.h"

#include "base/assert.h"
#include "base/base.h"

tt_status tt_plan_init(tt_timetable *plan, const tt_workload *workload,
                       const tt_allocator *allocator)
{
    *plan = (tt_timetable){
        .chunk_bytes = TT_CHUNK_WHOLE, .credit_bytes = TT_CREDIT_ENDLESS, .workload = workload};
    tt_scratch_init(&plan->scratch, allocator);
    const size_t count = workload->tensor_count;
    plan->transfers = tt_scratch_take(&plan->scratch, 2 * count, sizeof(plan->transfers[0]));
    plan->members = tt_scratch_take(&plan->scratch, count, sizeof(plan->members[0]));
    if (plan->scratch.is_out) {
        tt_plan_fini(plan);
        return TT_ERR_NO_MEMORY;
    }
    return TT_OK;
}

void tt_plan_fini(tt_timetable *plan)
{
    tt_scratch_fini(&plan->scratch);
    plan->transfer_count = 0;
}

tt_transfer *tt_plan_exchange(tt_timetable *plan, const uint32_t *tensors, uint32_t count,
                              uint32_t priority)
{
    TT_ASSERT(plan->member_count + count <= plan->workload->tensor_count);
    TT_ASSERT(count > 0);
    const bool is_server = plan->form == TT_FORM_SERVER;
    tt_transfer *first = &plan->transfers[plan->transfer_count];
    *first = (tt_transfer){.kind = is_server ? TT_TASK_PUSH : TT_TASK_ALLREDUCE,
                           .priority = priority,
                           .after = TT_TASK_NONE,
                           .member_first = plan->member_count,
                           .member_count = count};
    for (uint32_t i = 0; i < count; i++) {
        plan->members[plan->member_count + i] = tensors[i];
        first->bytes += plan->workload->tensors[tensors[i]].bytes;
    }
    plan->member_count += count;
    if (is_server) {
        first[1] = *first;
        first[1].kind = TT_TASK_PULL;
        first[1].after = plan->transfer_count;
    }
    plan->transfer_count += is_server ? 2 : 1;
    return first;
}

void tt_plan_append(tt_timetable *plan, const tt_transfer *transfer)
{
    TT_ASSERT(plan->transfer_count < 2 * plan->workload->tensor_count);
    TT_ASSERT(transfer->member_first + transfer->member_count <= plan->member_count);
    plan->transfers[plan->transfer_count++] = *transfer;
}

/* Exchanges that deliver: a tensor arrives with exactly one of them. */
static bool is_delivery(tt_task_kind kind)
{
    return kind != TT_TASK_PUSH && kind != TT_TASK_REDUCE_SCATTER;
}

static bool transfer_is_sound(const tt_timetable *plan, uint32_t index)
{
    const tt_transfer *transfer = &plan->transfers[index];
    return transfer->member_count > 0 &&
           transfer->member_first + transfer->member_count <= plan->member_count &&
           (transfer->after == TT_TASK_NONE || transfer->after < index) &&
           transfer->priority <= TT_TASK_PRIORITY_MAX;
}

bool tt_plan_is_sound(const tt_timetable *plan)
{
    uint64_t delivered_count = 0;
    uint64_t seen_sum = 0;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        if (!transfer_is_sound(plan, i)) {
            return false;
        }
        if (is_delivery(plan->transfers[i].kind)) {
            delivered_count += plan->transfers[i].member_count;
        }
    }
    for (uint32_t i = 0; i < plan->member_count; i++) {
        seen_sum += plan->members[i];
    }
    const uint64_t count = plan->workload->tensor_count;
    return delivered_count == count && plan->member_count == count &&
           seen_sum == count * (count - 1) / 2;
}

tt_status tt_plan_use_places(const tt_workload *workload, tt_scratch *scratch,
                             uint32_t **places_out)
{
    const uint32_t *order = tt_workload_by_use(workload, scratch);
    uint32_t *places = tt_scratch_take(scratch, workload->tensor_count, sizeof(places[0]));
    if (order == NULL || places == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < workload->tensor_count; i++) {
        places[order[i]] = i;
    }
    *places_out = places;
    return TT_OK;
}

const char *tt_plan_scheme_name(tt_plan_scheme scheme)
{
    static const char *const names[] = {"any", "shuffle", "halving", "ring"};
    TT_ASSERT(scheme < TT_ARRAY_COUNT(names));
    return names[scheme];
}
