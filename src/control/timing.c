/* SPDX-License-Identifier: Apache-2.0
 *
 * timing.c - when a call was made, what its stages took, and when a peer was first seen at it. */
#include "base/base.h"
#include "control/control_internal.h"

void tt_op_date(tt_op *op, uint64_t now_ns)
{
    const tt_control_config *config = &op->control->config;
    const uint64_t patience =
        op->request->deadline_ns > 0 ? op->request->deadline_ns : config->deadline_ns;
    op->submitted_ns = op->begun_ns = op->waiting_ns = now_ns;
    op->overdue_ns = 0;
    op->deadline_ns = patience > 0 ? now_ns + patience : UINT64_MAX;
    op->report_ns = now_ns + config->stall_ns;
    op->probe_ns = now_ns + tt_min_u64(config->probe_ns, patience > 0 ? patience / 4 : UINT64_MAX);
}

enum { NOW = 0 };

void tt_op_clock(tt_op *op, tt_stage stage, uint64_t end_ns, uint64_t *sum_io)
{
    if (op->weight == 0 && op->control->tracer == NULL) {
        return;
    }
    const uint64_t now = end_ns == NOW ? tt_now(op->control->platform) : end_ns;
    *sum_io += op->weight * (now - op->begun_ns);
    if (op->control->tracer != NULL) {
        const tt_trace_event event = {
            .request = op->request, .stage = stage, .begin_ns = op->begun_ns, .end_ns = now};
        op->control->tracer->took(op->control->tracer->owner, &event);
    }
    op->begun_ns = now;
}

void tt_op_hear(tt_op *op, uint32_t member)
{
    const uint64_t bit = UINT64_C(1) << member % 64;
    if ((op->heard & bit) == 0) {
        op->heard |= bit;
        op->heard_ns = tt_now(op->control->platform);
    }
}

void tt_op_clock_data(tt_op *op)
{
    tt_control_counters *counters = &op->control->counters;
    if (op->heard_ns > op->begun_ns) {
        tt_op_clock(op, TT_STAGE_WAIT, op->heard_ns, &counters->waiting_ns);
    }
    tt_op_clock(op, TT_STAGE_EXCHANGE, NOW, &counters->exchange_ns);
}
