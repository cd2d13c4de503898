/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_work.c - the local work of rounds: copies, sums over slots, sums over views; and the staging
 * slots that views of foreign buffers need. */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "base/reduce.h"

enum { BLOCK_BYTES = 16 * 1024 }; /* stays in the first-level cache while it is finished */

static bool needs_finish(const tt_exec *exec)
{
    return exec->divisor > 1 || exec->problem.postscale != 1.0;
}

static void finish_in_place(const tt_exec *exec, void *target, uint64_t bytes)
{
    const tt_problem *problem = &exec->problem;
    const size_t count = bytes / problem->element_bytes;
    if (exec->divisor > 1) {
        tt_divide(problem->dtype, target, count, exec->divisor);
    }
    if (problem->postscale != 1.0) {
        tt_scale(problem->dtype, target, target, count, problem->postscale);
    }
}

static void copy_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    uint8_t *target = (uint8_t *)tt_exec_address(exec, lane, move->target) + lane->work_done;
    const uint8_t *source =
        (const uint8_t *)tt_exec_address(exec, lane, move->source) + lane->work_done;
    if (target != source) {
        memmove(target, source, bytes);
    }
    if (move->work == TT_WORK_FINISH) {
        finish_in_place(exec, target, bytes);
    }
}

/* The members' values lie in slots of the lane's scratch, the own one at `source`. */
static void sum_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    const tt_problem *problem = &exec->problem;
    for (uint32_t i = 0; i < problem->size; i++) {
        const uint8_t *base = i == problem->self ? tt_exec_address(exec, lane, move->source)
                                                 : lane->scratch + i * move->slot;
        exec->pointers[i] = base + lane->work_done;
    }
    uint8_t *target = (uint8_t *)tt_exec_address(exec, lane, move->target) + lane->work_done;
    void *targets[1] = {target};
    tt_reduce_many(problem->dtype, problem->redop, targets, 1, exec->pointers, problem->size,
                   bytes / problem->element_bytes);
    if (needs_finish(exec)) {
        finish_in_place(exec, target, bytes);
    }
}

/* Where member `member` of this host keeps its part of the lane's chunk. */
static void *member_view(tt_exec *exec, const tt_lane *lane, uint32_t member, bool is_output)
{
    tt_platform *platform = exec->flow->platform;
    const tt_problem *problem = &exec->problem;
    const tt_fact *fact = &problem->facts[member];
    const uint64_t first = lane->number * exec->plan.lane_bytes;
    const uint64_t bytes = tt_min_u64(problem->bytes - first, exec->plan.lane_bytes);
    tt_place place = {.region = (uint32_t)fact->region};
    if (fact->is_shared != 0) {
        place.offset = (is_output ? fact->output_offset : fact->input_offset) + first;
    } else {
        place.offset = fact->input_offset + lane->number % TT_LANES_MAX * exec->plan.slot_bytes;
    }
    void *view = platform->ops->view(platform, exec->members[member], place, bytes);
    if (view == NULL) { /* its facts were wrong */
        tt_exec_fail(exec, TT_ERR_BAD_WIRE, member);
    }
    return view;
}

/* Inputs of this host's members to pointers[0 ..), outputs to pointers[size ..); their number, or
 * 0 if a view is missing. */
static uint32_t collect_views(tt_exec *exec, const tt_lane *lane, uint64_t offset)
{
    const tt_problem *problem = &exec->problem;
    const tt_topology *topology = problem->topology;
    const uint32_t host = topology->host_of[problem->self];
    const uint32_t first = topology->host_first[host];
    const uint32_t count = topology->host_first[host + 1] - first;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t member = topology->host_members[first + i];
        const uint8_t *input = member_view(exec, lane, member, false);
        const uint8_t *output = member_view(exec, lane, member, true);
        if (input == NULL || output == NULL) {
            return 0;
        }
        exec->pointers[i] = input + offset;
        exec->pointers[problem->size + i] = output + offset;
    }
    return count;
}

static void advance(const void **pointers, uint32_t count, uint64_t bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        pointers[i] = (const uint8_t *)pointers[i] + bytes;
    }
}

/* Sum of the members' inputs to all outputs (one host), or unfinished to scratch (rails). */
static void views_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    const tt_problem *problem = &exec->problem;
    const uint32_t count = collect_views(exec, lane, move->offset + lane->work_done);
    const bool is_rail = move->target.buffer == TT_SCRATCH;
    void *own = is_rail ? lane->scratch + move->target.offset + lane->work_done : NULL;
    const void **outputs = exec->pointers + problem->size;
    for (uint64_t done = 0; count > 0 && done < bytes;) {
        const uint64_t block = tt_min_u64(bytes - done, BLOCK_BYTES);
        const size_t elements = block / problem->element_bytes;
        if (is_rail || needs_finish(exec)) {
            void *target = is_rail ? (uint8_t *)own + done : (void *)(uintptr_t)outputs[0];
            void *targets[1] = {target};
            tt_reduce_many(problem->dtype, problem->redop, targets, 1, exec->pointers, count,
                           elements);
            if (!is_rail) {
                finish_in_place(exec, target, block);
            }
            for (uint32_t i = 1; !is_rail && i < count; i++) {
                memcpy((void *)(uintptr_t)outputs[i], target, block);
            }
        } else {
            tt_reduce_many(problem->dtype, problem->redop, (void *const *)(uintptr_t)outputs, count,
                           exec->pointers, count, elements);
        }
        advance(exec->pointers, count, block);
        advance(outputs, count, block);
        done += block;
    }
}

static void spread_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    const uint32_t count = collect_views(exec, lane, move->offset + lane->work_done);
    const uint8_t *source = lane->scratch + move->source.offset + lane->work_done;
    for (uint32_t i = 0; i < count; i++) {
        memcpy((void *)(uintptr_t)exec->pointers[exec->problem.size + i], source, bytes);
    }
}

bool tt_exec_work(tt_exec *exec, tt_lane *lane, const tt_move *move, uint64_t budget)
{
    TT_ASSERT(lane->work_done <= move->bytes);
    /* Whole blocks, so that pieces begin at elements. */
    const uint64_t bytes = tt_min_u64(move->bytes - lane->work_done, budget);
    switch (bytes > 0 ? move->work : TT_WORK_COPY) {
    case TT_WORK_COPY:
    case TT_WORK_FINISH:
        if (bytes > 0) {
            copy_piece(exec, lane, move, bytes);
        }
        break;
    case TT_WORK_SUM:
        sum_piece(exec, lane, move, bytes);
        break;
    case TT_WORK_VIEWS:
        views_piece(exec, lane, move, bytes);
        break;
    case TT_WORK_SPREAD:
        spread_piece(exec, lane, move, bytes);
        break;
    }
    lane->work_done += bytes;
    exec->flow->platform->ops->spend(
        exec->flow->platform, move->work == TT_WORK_COPY ? TT_SPEND_COPY : TT_SPEND_REDUCE, bytes);
    return lane->work_done == move->bytes;
}

/* ---- staging slots ---- */

tt_status tt_exec_reserve_slots(tt_exec *exec, size_t slot_bytes)
{
    tt_platform *platform = exec->flow->platform;
    const size_t bytes = slot_bytes * TT_LANES_MAX;
    if (exec->slots_bytes >= bytes) {
        return TT_OK;
    }
    if (exec->slots != NULL) {
        platform->ops->release(platform, TT_MEMORY_SHARED, exec->slots, exec->slots_bytes);
        exec->flow->slots_bytes -= exec->slots_bytes;
        exec->slots_bytes = 0;
    }
    exec->slots = platform->ops->allocate(platform, TT_MEMORY_SHARED, bytes);
    if (exec->slots == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    exec->slots_bytes = bytes;
    exec->flow->slots_bytes += bytes;
    return TT_OK;
}

void tt_exec_trim_slots(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    if (exec->slots != NULL && exec->flow->slots_bytes > TT_SLOTS_KEPT_BYTES) {
        platform->ops->release(platform, TT_MEMORY_SHARED, exec->slots, exec->slots_bytes);
        tt_exec_forsake_slots(exec);
    }
}

void tt_exec_forsake_slots(tt_exec *exec)
{
    exec->flow->slots_bytes -= exec->slots_bytes;
    exec->slots = NULL;
    exec->slots_bytes = 0;
}
