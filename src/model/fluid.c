/* SPDX-License-Identifier: Apache-2.0
 *
 * fluid.c - the ideal: a wire that serves, at every instant, the tensor that is used first among
 * those that are ready. This is preemptive earliest due date, which is optimal for one machine. */
#include <math.h>

#include "model/compute.h"
#include "model/evaluate.h"

enum {
    STEPS = 12,
    STEPS_SETTLE = 4,
};

typedef struct fluid_state {
    tt_compute compute;
    double *left_us; /* by tensor: wire time still needed; 0 when it is not in flight */
    bool *is_ready;
    double now_us;
} fluid_state;

/* The tensor on the wire, or the number of tensors. */
static uint32_t served(const fluid_state *fluid)
{
    const uint32_t count = (uint32_t)fluid->compute.workload->tensor_count;
    for (uint32_t i = 0; i < count; i++) {
        if (fluid->is_ready[fluid->compute.uses[i]]) {
            return fluid->compute.uses[i];
        }
    }
    return count;
}

static void emit(fluid_state *fluid, uint32_t tensor, double byte_us)
{
    fluid->is_ready[tensor] = true;
    fluid->left_us[tensor] = (double)fluid->compute.workload->tensors[tensor].bytes * byte_us;
}

static double run(fluid_state *fluid, double byte_us)
{
    double settled_us = 0;
    while (fluid->compute.step < STEPS) {
        const uint32_t tensor = served(fluid);
        const bool is_busy = tensor < fluid->compute.workload->tensor_count;
        const double arrival_us = is_busy ? fluid->now_us + fluid->left_us[tensor] : INFINITY;
        const double compute_us = tt_compute_next_us(&fluid->compute);
        if (arrival_us < compute_us) {
            fluid->now_us = arrival_us;
            fluid->is_ready[tensor] = false;
            tt_compute_arrive(&fluid->compute, tensor, arrival_us);
            continue;
        }
        if (is_busy) {
            fluid->left_us[tensor] -= compute_us - fluid->now_us;
        }
        fluid->now_us = compute_us;
        uint32_t emitted;
        if (tt_compute_reach(&fluid->compute, compute_us, &emitted) == TT_COMPUTE_EMITTED) {
            emit(fluid, emitted, byte_us);
        } else if (fluid->compute.step == STEPS_SETTLE && settled_us == 0) {
            settled_us = fluid->now_us;
        }
    }
    return (fluid->now_us - settled_us) / (STEPS - STEPS_SETTLE);
}

tt_status tt_evaluate_fluid(const tt_workload *workload, double byte_us,
                            const tt_allocator *allocator, double *step_us_out)
{
    tt_scratch scratch;
    tt_scratch_init(&scratch, allocator);
    fluid_state fluid = {.now_us = 0};
    fluid.left_us = tt_scratch_take(&scratch, workload->tensor_count, sizeof(double));
    fluid.is_ready = tt_scratch_take(&scratch, workload->tensor_count, sizeof(bool));
    tt_status status = tt_scratch_status(&scratch);
    if (status == TT_OK) {
        status = tt_compute_init(&fluid.compute, workload, &scratch);
    }
    if (status == TT_OK) {
        *step_us_out = run(&fluid, byte_us);
    }
    tt_scratch_fini(&scratch);
    return status;
}
