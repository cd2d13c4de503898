/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.c - points of a step in order of place: gates by first use, then emissions by readiness,
 * then the end. A tensor passes its gate in step s once it has arrived s times: before the first
 * step nothing is owed. */
#include "model/compute.h"

#include <math.h>

#include "base/assert.h"

/* The place of the next point. */
static double next_place(const tt_compute *compute)
{
    const tt_workload *workload = compute->workload;
    if (compute->use_next < workload->tensor_count) {
        return workload->tensors[compute->uses[compute->use_next]].first_use_us;
    }
    if (compute->ready_next < workload->tensor_count) {
        return workload->tensors[compute->readies[compute->ready_next]].ready_us;
    }
    return tt_workload_compute_us(workload);
}

static void step_begin(tt_compute *compute, double now_us)
{
    compute->use_next = 0;
    compute->ready_next = 0;
    compute->place_us = 0;
    compute->clock_us = now_us;
    compute->point_us = next_place(compute);
}

tt_status tt_compute_init(tt_compute *compute, const tt_workload *workload, tt_scratch *scratch)
{
    *compute = (tt_compute){.workload = workload};
    compute->uses = tt_workload_by_use(workload, scratch);
    compute->readies = tt_workload_by_ready(workload, scratch);
    compute->arrived = tt_scratch_take(scratch, workload->tensor_count, sizeof(uint64_t));
    TT_TRY(tt_scratch_status(scratch));
    step_begin(compute, 0);
    return TT_OK;
}

double tt_compute_next_us(const tt_compute *compute)
{
    if (compute->is_waiting) {
        return INFINITY;
    }
    const double scale = compute->scales != NULL ? compute->scales[compute->step] : 1;
    return compute->clock_us + (compute->point_us - compute->place_us) * scale;
}

/* The stream stands at its point. */
static void stand(tt_compute *compute, double now_us)
{
    compute->place_us = compute->point_us;
    compute->clock_us = now_us;
}

tt_compute_event tt_compute_reach(tt_compute *compute, double now_us, uint32_t *tensor_out)
{
    const size_t count = compute->workload->tensor_count;
    TT_ASSERT(!compute->is_waiting);
    stand(compute, now_us);
    if (compute->use_next < count) {
        const uint32_t tensor = compute->uses[compute->use_next];
        *tensor_out = tensor;
        if (compute->arrived[tensor] < compute->step) {
            compute->is_waiting = true;
            return TT_COMPUTE_WAITING;
        }
        compute->use_next++;
        compute->point_us = next_place(compute);
        return TT_COMPUTE_PASSED;
    }
    if (compute->ready_next < count) {
        *tensor_out = compute->readies[compute->ready_next++];
        compute->point_us = next_place(compute);
        return TT_COMPUTE_EMITTED;
    }
    compute->step++;
    step_begin(compute, now_us);
    return TT_COMPUTE_STEPPED;
}

void tt_compute_arrive(tt_compute *compute, uint32_t tensor, double now_us)
{
    compute->arrived[tensor]++;
    if (compute->is_waiting && compute->uses[compute->use_next] == tensor &&
        compute->arrived[tensor] >= compute->step) {
        compute->is_waiting = false;
        compute->stall_us += now_us - compute->clock_us;
        compute->clock_us = now_us;
    }
}
