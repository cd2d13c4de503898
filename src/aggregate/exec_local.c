/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_local.c - an executor: work of this rank alone, in steps. It exchanges nothing, so every
 * frame for it is an error. */
#include "aggregate/exec_internal.h"
#include "base/base.h"

_Static_assert(TT_WORK_SHORT_BYTES % (TT_CODEC_BLOCK_MAX * sizeof(float)) == 0 &&
                   TT_WORK_CODE_ELEMENTS % TT_CODEC_BLOCK_MAX == 0,
               "steps end where blocks do");

static tt_status local_start(tt_exec *exec)
{
    TT_ASSERT(exec->stage->local != NULL);
    tt_exec_reset(exec);
    exec->unreceived = exec->stage->problem.bytes;
    exec->is_running = exec->has_work = exec->unreceived > 0;
    return TT_OK;
}

/* Bytes of one step. Codecs are slower than copies, and do whole blocks; their steps are shared by
 * all hands. */
static uint64_t step_bytes(const tt_exec *exec)
{
    const tt_problem *problem = &exec->stage->problem;
    const bool yields = exec->urgency < exec->flow->urgency_top;
    if (problem->codec == NULL || yields) {
        return yields ? TT_WORK_SHORT_BYTES : TT_WORK_STEP_BYTES;
    }
    const uint64_t hands = tt_max_u64(exec->flow->platform->hands, 1);
    return tt_min_u64(hands, TT_WORK_HANDS_MAX) * TT_WORK_CODE_ELEMENTS * problem->element_bytes;
}

static bool local_step(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    const tt_problem *problem = &exec->stage->problem;
    const uint64_t total = problem->bytes;
    const uint64_t bytes = tt_min_u64(exec->unreceived, step_bytes(exec));
    TT_ASSERT(exec->is_running && exec->unreceived <= total);
    const uint64_t begun_ns = problem->codec != NULL ? tt_now(platform) : 0;
    if (!tt_exec_is_phantom(exec, NULL)) {
        exec->stage->local(exec, total - exec->unreceived, bytes);
    }
    if (problem->codec != NULL) {
        platform->ops->spend(platform, TT_SPEND_CODE,
                             bytes / problem->element_bytes * sizeof(float), 1);
        exec->coding->spent_ns += tt_now(platform) - begun_ns;
        if (exec->coding->culprit > 0) {
            tt_exec_fail(exec, TT_ERR_BAD_WIRE, exec->coding->culprit - 1);
        }
    } else {
        platform->ops->spend(platform, TT_SPEND_COPY, bytes, 1);
    }
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
