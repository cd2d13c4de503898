/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.c - what all executors share: memory, signals, early frames, the end. */
#include "aggregate/exec.h"

#include "aggregate/exec_internal.h"
#include "base/plant.h"

uint32_t tt_exec_member(const tt_exec *exec, uint32_t peer)
{
    if (exec->member_of != NULL) {
        TT_DEBUG_ASSERT(peer < exec->flow->peer_count);
        return exec->member_of[peer];
    }
    for (uint32_t i = 0; i < exec->stage->problem.size; i++) {
        if (exec->members[i] == peer) {
            return i;
        }
    }
    return UINT32_MAX;
}

void tt_exec_fail(tt_exec *exec, tt_status status, uint32_t culprit)
{
    TT_ASSERT(status < 0);
    TT_ASSERT(culprit < exec->stage->problem.size || culprit == UINT32_MAX);
    if (exec->status == TT_OK) {
        exec->status = status;
        exec->culprit = culprit;
    }
}

tt_head tt_exec_arriving(const tt_exec *exec)
{
    tt_head head = exec->identity;
    if ((head.flags & TT_FLAG_PAIR) != 0) {
        head.flags ^= TT_FLAG_REPLY;
    }
    return head;
}

uint32_t tt_exec_pair_peer(const tt_exec *exec)
{
    const tt_problem *problem = &exec->stage->problem;
    TT_DEBUG_ASSERT(problem->self < problem->size);
    return exec->members[problem->self == 0 && problem->size > 1 ? 1 : 0];
}

tt_status tt_exec_reserve(tt_exec *exec, size_t bytes, size_t scratch)
{
    tt_platform *platform = exec->flow->platform;
    TT_ASSERT(!exec->is_running);
    TT_ASSERT((exec->workspace != NULL) == (exec->workspace_bytes > 0));
    if (exec->workspace_bytes < bytes) {
        tt_platform_release(platform, exec->workspace, exec->workspace_bytes);
        exec->laid_out = NULL;
        exec->workspace_bytes = 0;
        exec->workspace = tt_platform_allocate(platform, bytes);
        if (exec->workspace == NULL) {
            exec->counted_bytes = 0;
            return TT_ERR_NO_MEMORY;
        }
        exec->workspace_bytes = bytes;
    }
    if (exec->counted_bytes < bytes + scratch) {
        exec->counted_bytes = bytes + scratch;
    }
    return TT_OK;
}

void tt_exec_signal(tt_exec *exec, tt_frame_kind kind, uint32_t member, uint64_t argument)
{
    tt_head head = exec->identity;
    head.kind = (uint8_t)kind;
    head.argument = argument;
    TT_ASSERT(kind == TT_FRAME_GRANT || kind == TT_FRAME_WANT);
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    tt_flow_control(exec->flow, exec->members[member], &head);
}

void tt_exec_replay_parked(tt_exec *exec)
{
    const tt_head arriving = tt_exec_arriving(exec);
    tt_parked *parked;
    while (exec->status == TT_OK && exec->is_running &&
           (parked = tt_flow_find(exec->flow, &arriving, exec->lanes_opened,
                                  tt_exec_pair_peer(exec))) != NULL) {
        const uint32_t member = tt_exec_member(exec, parked->peer);
        if (member != UINT32_MAX && parked->head.descriptor == exec->identity.descriptor) {
            parked->head.flags &= (uint8_t)~TT_FLAG_EAGER; /* unpark returns the credit */
            (void)tt_exec_frame(exec, member, &parked->head, parked->payload);
        } else {
            tt_exec_fail(exec, TT_ERR_MISMATCH, member);
        }
        tt_flow_unpark(exec->flow, parked);
    }
}

bool tt_exec_take_note(tt_exec *exec, uint32_t *member_out, tt_head *head_out)
{
    const tt_head arriving = tt_exec_arriving(exec);
    tt_note note;
    while (tt_flow_note_take(exec->flow, &arriving, tt_exec_pair_peer(exec), &note)) {
        *member_out = tt_exec_member(exec, note.peer);
        *head_out = note.head;
        if (*member_out != UINT32_MAX && note.head.descriptor == exec->identity.descriptor) {
            TT_DEBUG_ASSERT(*member_out < exec->stage->problem.size);
            return true;
        }
        tt_exec_fail(exec, TT_ERR_MISMATCH, *member_out);
    }
    return false;
}

/* ---- the end ---- */

void tt_exec_stop(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    if (exec->stage == NULL || exec->stage->executor == NULL) {
        return; /* nothing was started, or an engine runs it */
    }
    exec->stage->executor->stop(exec);
    for (uint32_t i = 0; i < exec->stage->problem.size; i++) {
        tt_flow_peer *peer = &exec->flow->peers[exec->members[i]];
        if (peer->arriving == exec && !TT_PLANT(SINK_KEPT_AFTER_END)) {
            platform->ops->discard(platform, exec->members[i]);
            peer->arriving = NULL;
        }
    }
    exec->is_running = false;
}

void tt_exec_forget(tt_exec *exec)
{
    TT_ASSERT(!exec->is_running);
    TT_ASSERT(exec->stage != NULL && exec->borrowed == 0);
    exec->stage = exec->laid_out = NULL;
    exec->members = exec->member_of = NULL;
}

void tt_exec_fini(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    TT_ASSERT(!exec->is_running);
    tt_platform_release(platform, exec->workspace, exec->workspace_bytes);
    if (exec->slots != NULL) {
        platform->ops->release(platform, TT_MEMORY_SHARED, exec->slots, exec->slots_bytes);
    }
    exec->laid_out = NULL;
    exec->workspace = NULL;
    exec->slots = NULL;
    exec->workspace_bytes = exec->counted_bytes = exec->slots_bytes = 0;
}
