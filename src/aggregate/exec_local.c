/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_local.c - an executor: work of this rank alone, in steps. It exchanges nothing, so every
 * frame for it is an error. */
#include "aggregate/exec_internal.h"
#include "base/base.h"

static tt_status local_start(tt_exec *exec)
{
    TT_ASSERT(exec->stage->local != NULL);
    tt_exec_reset(exec);
    exec->unreceived = exec->stage->problem.bytes;
    exec->is_running = exec->has_work = exec->unreceived > 0;
    return TT_OK;
}

static bool local_step(tt_exec *exec)
{
    const uint64_t total = exec->stage->problem.bytes;
    const bool yields = exec->urgency < exec->flow->urgency_top;
    const uint64_t budget = yields ? TT_WORK_SHORT_BYTES : TT_WORK_STEP_BYTES;
    const uint64_t bytes = tt_min_u64(exec->unreceived, budget);
    TT_ASSERT(exec->is_running && exec->unreceived <= total);
    exec->stage->local(exec, total - exec->unreceived, bytes);
    exec->flow->platform->ops->spend(exec->flow->platform, TT_SPEND_COPY, bytes);
    exec->unreceived -= bytes;
    exec->is_running = exec->has_work = exec->unreceived > 0;
    return exec->has_work;
}

static void *local_frame(tt_exec *exec, uint32_t member, const tt_head *head, const void *payload)
{
    (void)payload;
    if ((head->flags & TT_FLAG_EAGER) != 0) {
        tt_flow_consumed(exec->flow, exec->members[member]);
    }
    exec->flow->frames_dropped++;
    tt_exec_fail(exec, TT_ERR_BAD_WIRE, member);
    return NULL;
}

static void local_payload(tt_exec *exec, uint32_t member, const tt_head *head)
{
    (void)exec;
    (void)member;
    (void)head;
    TT_ASSERT(false); /* no frame was given a sink */
}

static void local_granted(tt_exec *exec, uint32_t member, uint64_t lanes)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    (void)lanes;
    tt_exec_fail(exec, TT_ERR_BAD_WIRE, member);
}

static void local_wanted(tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    tt_exec_fail(exec, TT_ERR_BAD_WIRE, member);
}

static void local_sent(tt_exec *exec, uint32_t lane_slot)
{
    (void)exec;
    (void)lane_slot;
    TT_ASSERT(false); /* nothing is sent */
}

static void local_retry(tt_exec *exec)
{
    (void)exec;
}

static bool local_needs(const tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    (void)exec;
    (void)member;
    return false;
}

static bool local_is_untouched(const tt_exec *exec)
{
    (void)exec;
    return true;
}

static void local_stop(tt_exec *exec)
{
    exec->unreceived = 0;
    exec->has_work = false;
}

const tt_executor tt_executor_local = {
    .name = "local",
    .start = local_start,
    .frame = local_frame,
    .payload = local_payload,
    .granted = local_granted,
    .wanted = local_wanted,
    .sent = local_sent,
    .retry = local_retry,
    .step = local_step,
    .needs = local_needs,
    .is_untouched = local_is_untouched,
    .stop = local_stop,
};
