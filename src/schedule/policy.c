/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.c - what policies share. */
#include "schedule/policy.h"

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
        !isfinite(wire->overhead_us + wire->byte_us + wire->latency_us)) {
        tt_text_add(why, "costs of the wire (%g us, %g us a byte, %g us) are not negative",
                    wire->overhead_us, wire->byte_us, wire->latency_us);
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
                        const tt_allocator *allocator, tt_text *why, tt_plan *plan_out)
{
    TT_ASSERT(policy->plan != NULL);
    TT_TRY(input_check(policy, input, why));
    tt_plan plan;
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
    return seed < CHUNK_BYTES_MIN ? CHUNK_BYTES_MIN : (uint64_t)seed;
}

void tt_policy_set_limits(const tt_policy_input *input, tt_plan *plan)
{
    plan->chunk_bytes = input->chunk_bytes != 0 ? input->chunk_bytes : tt_policy_chunk_seed(input);
    plan->credit_bytes = input->credit_bytes;
    if (plan->credit_bytes == 0) {
        plan->credit_bytes = plan->chunk_bytes > UINT64_MAX / CHUNKS_IN_FLIGHT
                                 ? TT_CREDIT_ENDLESS
                                 : plan->chunk_bytes * CHUNKS_IN_FLIGHT;
    }
}

tt_status tt_policy_each_tensor(tt_plan *plan, const uint32_t *priorities)
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
