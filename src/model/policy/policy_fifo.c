/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_fifo.c - the baseline of every framework: whole tensors, in the order backward produces
 * them, as many in flight as there are; and the same in chunks, which shows the effect of cutting
 * alone. */
#include "model/registry.h"

/* Never cut, whatever the input requests: this is the baseline of the other policies. */
static tt_status fifo_plan(const tt_policy_input *input, tt_timetable *plan)
{
    (void)input;
    plan->queue = TT_QUEUE_FIFO;
    return tt_policy_each_tensor(plan, NULL);
}

const tt_policy tt_policy_fifo = {
    .name = "fifo",
    .summary = "whole tensors in the order backward produces them",
    .plan = fifo_plan,
};

static tt_status slices_plan(const tt_policy_input *input, tt_timetable *plan)
{
    plan->queue = TT_QUEUE_FIFO;
    plan->chunk_bytes = input->chunk_bytes != 0 ? input->chunk_bytes : tt_policy_chunk_seed(input);
    return tt_policy_each_tensor(plan, NULL);
}

const tt_policy tt_policy_slices = {
    .name = "slices",
    .summary = "chunks in the order backward produces them: cutting without priorities",
    .takes_chunk = true,
    .plan = slices_plan,
};
