/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_tictac.c - priorities from the dataflow graph, in chunks, within a credit (TicTac, SysML
 * 2019). */
#include "model/first_use.h"
#include "model/registry.h"

static tt_status tic_plan(const tt_policy_input *input, tt_timetable *plan)
{
    uint32_t *places;
    tt_policy_set_limits(input, plan);
    TT_TRY(tt_order_tic(input->graph, &plan->scratch, &places));
    return tt_policy_each_tensor(plan, places);
}

const tt_policy tt_policy_tic = {
    .name = "tic",
    .summary = "priorities from the graph alone: tensors that let operators run soonest",
    .needs_graph = true,
    .takes_chunk = true,
    .takes_credit = true,
    .plan = tic_plan,
};

static tt_status tac_plan(const tt_policy_input *input, tt_timetable *plan)
{
    uint32_t *places;
    tt_policy_set_limits(input, plan);
    TT_TRY(tt_order_tac(input->graph, &input->wire, &plan->scratch, &places));
    return tt_policy_each_tensor(plan, places);
}

const tt_policy tt_policy_tac = {
    .name = "tac",
    .summary = "priorities from the graph and its times, by Johnson's rule",
    .needs_graph = true,
    .takes_chunk = true,
    .takes_credit = true,
    .plan = tac_plan,
};
