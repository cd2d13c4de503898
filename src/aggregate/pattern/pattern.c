/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern.c - moves that several algorithms share. */
#include "aggregate/pattern/pattern.h"

bool tt_fold_move(const tt_problem *problem, bool is_unfold, tt_move *move_out)
{
    const uint32_t rest = problem->size - (UINT32_C(1) << log2_floor(problem->size));
    if (problem->self >= 2 * rest) {
        return false;
    }
    const bool is_even = problem->self % 2 == 0;
    move_out->peer = is_even ? problem->self + 1 : problem->self - 1;
    if (is_even != is_unfold) {
        move_out->kind = TT_MOVE_SEND;
    } else {
        move_out->kind = is_unfold ? TT_MOVE_STORE : TT_MOVE_REDUCE;
    }
    return true;
}

bool tt_staging_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane, bool is_in,
                     tt_move *move_out)
{
    const uint64_t first = lane * plan->lane_bytes;
    move_out->kind = TT_MOVE_WORK;
    move_out->work = TT_WORK_COPY;
    move_out->source = is_in ? spot_at(TT_INPUT, first) : spot_at(TT_SLOT, 0);
    move_out->target = is_in ? spot_at(TT_SLOT, 0) : spot_at(TT_OUTPUT, first);
    return problem->facts[problem->self].is_shared == 0;
}
