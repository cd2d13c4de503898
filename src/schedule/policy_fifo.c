/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_fifo.c - the baseline of every framework: whole tensors, in the order backward produces
 * them, as many in flight as there are. */
#include "schedule/registry.h"

static tt_status fifo_plan(const tt_policy_input *input, tt_timetable *plan)
{
    plan->queue = TT_QUEUE_FIFO;
    if (input->chunk_bytes != 0) {
        plan->chunk_bytes = input->chunk_bytes;
    }
    return tt_policy_each_tensor(plan, NULL);
}

const tt_policy tt_policy_fifo = {
    .name = "fifo",
    .summary = "whole tensors in the order backward produces them",
    .plan = fifo_plan,
};
