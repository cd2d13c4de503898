/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.h - credit limits the gradients in flight; the most urgent running op goes first.
 *
 * Layer:   control, private.
 * Threads: as control.h.
 * Memory:  as schedule/pacer.h, from the platform.
 */
#ifndef TUTTI_CONTROL_PACE_H
#define TUTTI_CONTROL_PACE_H

#include "control/control.h"
#include "schedule/schedule.h"

typedef struct tt_pace {
    tt_pacer pacer;
    uint32_t top_count; /* ops that run with flow.urgency_top */
    bool is_pumping;
} tt_pace;

void tt_pace_init(tt_control *control);
void tt_pace_fini(tt_control *control);
/* op.c: the op has its place and its credit. */
void tt_op_begin_now(tt_op *op);
/* True: there is no credit for the op, which begins later. */
bool tt_pace_hold(tt_op *op);
/* A peer waits for this op, which is held: it begins. */
void tt_pace_demand(tt_op *op);
/* Urgency of the op's frames. */
int32_t tt_pace_urgency(tt_op *op);
/* The op runs from now on: it counts for the highest urgency of running ops. */
void tt_pace_run(tt_op *op);
/* An op that is held must not begin any more. */
void tt_pace_withdraw(tt_op *op);
/* The op is over: return its credit. */
void tt_pace_over(tt_op *op);
/* Nothing has moved for a while: begin a held op without credit. */
void tt_pace_patrol(tt_control *control);
/* Begin held ops for which there is credit. */
void tt_pace_pump(tt_control *control);

#endif
