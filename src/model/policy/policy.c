/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.c - shared parts of the policies. */
#include "model/policy/policy.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"

enum {
    CHUNKS_IN_FLIGHT = 4,
    CHUNK_BYTES_MIN = 4096,
};

static tt_status input_check(const tt_policy *policy, const tt_policy_input *input, tt_text *why)
{
    TT_TRY(tt_workload_check(input->workload, why));
    const tt_wire *wire = &input->wire;
    if (!(wire->overhead_us >= 0 && wire->byte_us >= 0 && wire->latency_us >= 0) ||
        wire->overhead_us + wire->byte_us + wire->latency_us > TT_WORKLOAD_US_MAX) {
        tt_text_add(why, "costs of the wire (%g us, %g us a byte, %g us): each is from 0 to %g",
                    wire->overhead_us, wire->byte_us, wire->latency_us, TT_WORKLOAD_US_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (policy->needs_allreduce && input->form != TT_FORM_ALLREDUCE) {
        tt_text_add(why, "policy %s is made for all-reduce; with a server use priority or p3",
                    policy->name);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (policy->needs_graph && input->graph == NULL) {
        tt_text_add(why, "policy %s needs a dataflow graph, not only a list of tensors",
                    policy->name);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

tt_status tt_policy_run(const tt_policy *policy, const tt_policy_input *input,
                        const tt_allocator *allocator, tt_text *why, tt_timetable *plan_out)
{
    TT_ASSERT(policy->plan != NULL);
    TT_TRY(input_check(policy, input, why));
    tt_timetable plan;
    TT_TRY(tt_plan_init(&plan, input->workload, allocator));
    plan.form = input->form;
    const tt_status status = policy->plan(input, &plan);
    if (status != TT_OK) {
        tt_plan_fini(&plan);
        return status;
    }
    TT_ASSERT(tt_plan_is_sound(&plan));
    *plan_out = plan;
    return TT_OK;
}

uint64_t tt_policy_chunk_seed(const tt_policy_input *input)
{
    const double total = (double)tt_workload_bytes(input->workload);
    const tt_wire *wire = &input->wire;
    if (!(wire->byte_us > 0)) {
        return TT_CHUNK_WHOLE;
    }
    const double seed = sqrt(total * wire->overhead_us / wire->byte_us / CHUNKS_IN_FLIGHT);
    if (!(seed < 1e18)) {
        return TT_CHUNK_WHOLE;
    }
    return seed < CHUNK_BYTES_MIN ? CHUNK_BYTES_MIN : (uint64_t)seed;
}

void tt_policy_set_limits(const tt_policy_input *input, tt_timetable *plan)
{
    plan->chunk_bytes = input->chunk_bytes != 0 ? input->chunk_bytes : tt_policy_chunk_seed(input);
    plan->credit_bytes = input->credit_bytes;
    if (plan->credit_bytes == 0) {
        plan->credit_bytes = plan->chunk_bytes > UINT64_MAX / CHUNKS_IN_FLIGHT
                                 ? TT_CREDIT_ENDLESS
                                 : plan->chunk_bytes * CHUNKS_IN_FLIGHT;
    }
}

tt_status tt_policy_each_tensor(tt_timetable *plan, const uint32_t *priorities)
{
    const uint32_t *order = tt_workload_by_ready(plan->workload, &plan->scratch);
    if (order == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < plan->workload->tensor_count; i++) {
        (void)tt_plan_exchange(plan, &order[i], 1, priorities != NULL ? priorities[order[i]] : 0);
    }
    return TT_OK;
}

tt_status tt_policy_buckets(tt_timetable *plan, uint64_t bytes_max)
{
    const uint32_t *order = tt_workload_by_ready(plan->workload, &plan->scratch);
    if (order == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    const uint32_t count = (uint32_t)plan->workload->tensor_count;
    uint32_t first = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t own_bytes = plan->workload->tensors[order[i]].bytes;
        if (i > first && own_bytes > bytes_max - tt_min_u64(bytes, bytes_max)) {
            (void)tt_plan_exchange(plan, &order[first], i - first, 0);
            first = i;
            bytes = 0;
        }
        bytes += own_bytes;
    }
    (void)tt_plan_exchange(plan, &order[first], count - first, 0);
    return TT_OK;
}

double tt_policy_first_use_us(const tt_timetable *plan, const tt_transfer *transfer)
{
    double first_us = INFINITY;
    for (uint32_t i = 0; i < transfer->member_count; i++) {
        const uint32_t tensor = plan->members[transfer->member_first + i];
        first_us = fmin(first_us, plan->workload->tensors[tensor].first_use_us);
    }
    return first_us;
}

double tt_policy_ready_us(const tt_timetable *plan, const tt_transfer *transfer)
{
    double last_us = 0;
    for (uint32_t i = 0; i < transfer->member_count; i++) {
        const uint32_t tensor = plan->members[transfer->member_first + i];
        last_us = fmax(last_us, plan->workload->tensors[tensor].ready_us);
    }
    return last_us;
}
