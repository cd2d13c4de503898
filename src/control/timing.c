/* SPDX-License-Identifier: Apache-2.0
 *
 * timing.c - the time of a call, of its stages, and of the first frames of its peers. */
#include <string.h>

#include "base/base.h"
#include "control/control_internal.h"

void tt_op_date(tt_op *op, uint64_t now_ns)
{
    TT_DEBUG_ASSERT(op->phase != OP_FREE);
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

void tt_op_clock(tt_op *op, tt_call_span span, uint64_t end_ns, uint64_t *sum_io)
{
    if (op->weight == 0 && op->control->tracer == NULL) {
        return;
    }
    const uint64_t now = end_ns == NOW ? tt_now(op->control->platform) : end_ns;
    TT_DEBUG_ASSERT(now >= op->begun_ns);
    *sum_io += op->weight * (now - op->begun_ns);
    if (op->control->tracer != NULL) {
        const tt_trace_event event = {
            .request = op->request, .span = span, .begin_ns = op->begun_ns, .end_ns = now};
        op->control->tracer->took(op->control->tracer->owner, &event);
    }
    op->begun_ns = now;
}

void tt_op_hear(tt_op *op, uint32_t member)
{
    TT_DEBUG_ASSERT(member < op->size);
    const uint64_t bit = UINT64_C(1) << member % 64;
    if ((op->heard & bit) == 0) {
        op->heard |= bit;
        op->heard_ns = tt_now(op->control->platform);
    }
}

/* Coding overlaps with the exchange, lane by lane: its time is shown as one span. */
static void trace_coding(const tt_op *op)
{
    const tt_tracer *tracer = op->control->tracer;
    const uint64_t spent_ns = op->exec.coding->spent_ns;
    const tt_trace_event event = {.request = op->request,
                                  .span = TT_SPAN_CODE,
                                  .begin_ns = op->begun_ns - tt_min_u64(spent_ns, op->begun_ns),
                                  .end_ns = op->begun_ns};
    tracer->took(tracer->owner, &event);
}

void tt_op_clock_stage(tt_op *op, const tt_stage *stage)
{
    TT_DEBUG_ASSERT(op->weight > 0 || op->control->tracer != NULL);
    tt_control_counters *counters = &op->control->counters;
    const bool is_wait = stage->kind == TT_STAGE_COUNTS || stage->kind == TT_STAGE_PLACES ||
                         stage->kind == TT_STAGE_AGREE;
    /* A brief op that is still open at a patrol has waited for the only frame of some peer. */
    const bool has_waited = (op->recipe->traits & TRAIT_BRIEF) != 0 && op->weight == 1;
    if (is_wait || has_waited) {
        tt_op_clock(op, TT_SPAN_WAIT, NOW, &counters->waiting_ns);
        op->heard = UINT64_MAX; /* frames of all partners have arrived */
        return;
    }
    if (op->heard_ns > op->begun_ns) {
        tt_op_clock(op, TT_SPAN_WAIT, op->heard_ns, &counters->waiting_ns);
    }
    tt_op_clock(op, TT_SPAN_EXCHANGE, NOW, &counters->exchange_ns);
    if (op->control->tracer != NULL && (op->recipe->traits & TRAIT_CODED) != 0 &&
        op->stage + 1 == op->recipe->stage_count) {
        trace_coding(op);
    }
}

void tt_op_tell_stall(tt_op *op, const char *who)
{
    TT_ASSERT(op->phase != OP_FREE);
    tt_text text = {0};
    if (op->stall_text == NULL) {
        op->stall_text = tt_platform_allocate(op->control->platform, TT_ERROR_BYTES);
    }
    if (op->stall_text != NULL) {
        tt_text_add(&text, "%s", who);
        memcpy(op->stall_text, text.bytes, TT_ERROR_BYTES);
    }
}

const char *tt_op_stall(const tt_op *op)
{
    return op->stall_text != NULL ? op->stall_text : "";
}
