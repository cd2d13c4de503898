/* SPDX-License-Identifier: Apache-2.0
 *
 * named_step.h - the all-reduces of a training step by name, by the machines of all ranks.
 *
 * Every rank submits each tensor when its backward pass has produced it. Names are negotiated as in
 * a job: by the coordinator in the first step of the machines, by bits after that. Small tensors
 * are fused; those that are used first are the most urgent.
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  machines.h; besides, the allocator's: eight bytes for each tensor of each rank.
 */
#ifndef TUTTI_SIM_MACHINES_NAMED_STEP_H
#define TUTTI_SIM_MACHINES_NAMED_STEP_H

#include "model/model.h"
#include "sim/machines/machines.h"

typedef struct tt_named_step {
    const tt_workload *workload; /* of every rank; the same in all steps of the machines */
    const double *paces; /* [ranks] by how much each takes longer to compute; NULL: all as given */
    uint64_t *done_ns;   /* [tensor_count] set to when the last rank has the sum; may be NULL */
} tt_named_step;

typedef struct tt_named_step_result {
    tt_machines_result run;
    uint64_t computed_ns; /* the slowest rank has computed, from the begin of the step */
    uint64_t exposed_ns;  /* from then until every rank has every sum */
} tt_named_step_result;

/* As tt_machines_run. A workload is checked before: TT_ERR_BAD_ARGUMENT. */
tt_status tt_named_step_run(tt_machines *machines, const tt_named_step *step, tt_text *why,
                            tt_named_step_result *result_out);

#endif
