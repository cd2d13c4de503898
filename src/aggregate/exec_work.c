/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_work.c - the local work of rounds: copies, sums over slots, sums over views; and the staging
 * slots that views of foreign buffers need. */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "base/reduce.h"
#include "base/stream.h"

enum {
    BLOCK_BYTES = 4 * 1024,              /* stays in the first-level cache while it is finished */
    CARRY_BYTES = 16 * 1024,             /* the same, while it is copied to several */
    STREAM_BYTES_MIN = 16 * 1024 * 1024, /* of results that no cache keeps until they are read */
};

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

static void plain_copy(void *target, const void *source, size_t bytes)
{
    memcpy(target, source, bytes);
}

/* Are results better written past the cache: many bytes, and none of them just read? */
static bool streams(const tt_exec *exec, uint32_t count, void *const *targets,
                    uint32_t target_count)
{
    const uint64_t part_count = exec->plan.round_count > 2 ? exec->problem.size : 1;
    if (exec->problem.bytes * part_count < STREAM_BYTES_MIN) {
        return false;
    }
    for (uint32_t t = 0; t < target_count; t++) {
        for (uint32_t i = 0; i < count; i++) {
            if (targets[t] == exec->pointers[i]) {
                return false;
            }
        }
    }
    return true;
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

/* Sum of pointers[0 .. count), finished, to all targets. Sources advance. */
static void fold_finished(tt_exec *exec, uint32_t count, void *const *targets,
                          uint32_t target_count, uint64_t bytes)
{
    const tt_problem *problem = &exec->problem;
    const bool is_streamed = streams(exec, count, targets, target_count);
    _Alignas(64) uint8_t block[BLOCK_BYTES];
    void *const single[1] = {block};
    if (!is_streamed && !needs_finish(exec)) {
        tt_reduce_many(problem->dtype, problem->redop, targets, target_count, exec->pointers, count,
                       bytes / problem->element_bytes);
        return;
    }
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t length = tt_min_u64(bytes - done, BLOCK_BYTES);
        tt_reduce_many(problem->dtype, problem->redop, single, 1, exec->pointers, count,
                       length / problem->element_bytes);
        finish_in_place(exec, block, length);
        for (uint32_t t = 0; t < target_count; t++) {
            uint8_t *target = (uint8_t *)targets[t] + done;
            (is_streamed ? tt_stream_copy : plain_copy)(target, block, length);
        }
        for (uint32_t i = 0; i < count; i++) {
            exec->pointers[i] = (const uint8_t *)exec->pointers[i] + length;
        }
        done += length;
    }
}

/* Sum of the members' inputs to all outputs (one host), or unfinished to scratch (rails). */
static void views_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    const tt_problem *problem = &exec->problem;
    const uint64_t offset = move->offset + lane->work_done;
    const uint32_t count = collect_views(exec, lane, offset);
    if (count > 0 && move->target.buffer == TT_SCRATCH) {
        void *const rail[1] = {lane->scratch + move->target.offset + lane->work_done};
        tt_reduce_many(problem->dtype, problem->redop, rail, 1, exec->pointers, count,
                       bytes / problem->element_bytes);
    } else if (count > 0) {
        const uint32_t local = problem->topology->local_of[problem->self];
        const uint64_t at = lane->number * exec->plan.lane_bytes + offset;
        exec->pointers[local] = exec->input + at;
        exec->pointers[problem->size + local] = exec->output + at;
        const void *const *outputs = exec->pointers + problem->size;
        fold_finished(exec, count, (void *const *)(uintptr_t)outputs, count, bytes);
    }
}

/* `bytes` at `offset` of the whole input (or output) of a member, which is this rank or one whose
 * facts say it is shared. */
static void *buffer_view(tt_exec *exec, uint32_t member, tt_spot spot, uint64_t bytes)
{
    tt_platform *platform = exec->flow->platform;
    const tt_fact *fact = &exec->problem.facts[member];
    const bool is_output = spot.buffer == TT_OUTPUT;
    if (member == exec->problem.self) {
        return tt_exec_address(exec, NULL, spot);
    }
    const tt_place place = {.region = (uint32_t)fact->region,
                            .offset = (is_output ? fact->output_offset : fact->input_offset) +
                                      spot.offset};
    void *view = platform->ops->view(platform, exec->members[member], place, bytes);
    if (view == NULL) { /* its facts were wrong */
        tt_exec_fail(exec, TT_ERR_BAD_WIRE, member);
    }
    return view;
}

static tt_spot spot_after(tt_spot spot, uint64_t bytes)
{
    return (tt_spot){.buffer = spot.buffer, .offset = spot.offset + bytes};
}

/* Views of the outputs a move writes, to pointers[size ..); their number, or 0 if one is missing.
 */
static uint32_t collect_targets(tt_exec *exec, const tt_lane *lane, const tt_move *move,
                                uint64_t bytes)
{
    const tt_problem *problem = &exec->problem;
    const bool is_cast = move->work == TT_WORK_CAST;
    const uint32_t single = move->work == TT_WORK_PULL ? problem->self : move->peer;
    const uint32_t count = is_cast ? problem->size : 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t member = is_cast ? (problem->self + i) % problem->size : single;
        void *view = buffer_view(exec, member, spot_after(move->target, lane->work_done), bytes);
        if (view == NULL) {
            return 0;
        }
        exec->pointers[problem->size + i] = view;
    }
    return count;
}

/* Pull, push and cast: one source, one or all targets. A block is read from the nearest cache by
 * all targets but the first. */
static void carry_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    const uint32_t giver = move->work == TT_WORK_PUSH ? exec->problem.self : move->peer;
    const uint32_t count = collect_targets(exec, lane, move, bytes);
    const uint8_t *source =
        count == 0 ? NULL
                   : buffer_view(exec, giver, spot_after(move->source, lane->work_done), bytes);
    if (source == NULL) {
        return;
    }
    void *const *targets = (void *const *)(uintptr_t)(exec->pointers + exec->problem.size);
    exec->pointers[0] = source;
    const bool is_streamed = streams(exec, 1, targets, count);
    const uint64_t step = count > 1 ? CARRY_BYTES : bytes;
    for (uint64_t done = 0; done < bytes; done += step) {
        const uint64_t length = tt_min_u64(bytes - done, step);
        for (uint32_t t = 0; t < count; t++) {
            if (targets[t] != source) { /* in place */
                (is_streamed ? tt_stream_copy : plain_copy)((uint8_t *)targets[t] + done,
                                                            source + done, length);
            }
        }
    }
}

static void fold_piece(tt_exec *exec, const tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    const tt_problem *problem = &exec->problem;
    bool is_complete = collect_targets(exec, lane, move, bytes) > 0;
    for (uint32_t i = 0; is_complete && i < problem->size; i++) {
        exec->pointers[i] = buffer_view(exec, i, spot_after(move->source, lane->work_done), bytes);
        is_complete = exec->pointers[i] != NULL;
    }
    if (is_complete) {
        const void *const *outputs = exec->pointers + problem->size;
        fold_finished(exec, problem->size, (void *const *)(uintptr_t)outputs, 1, bytes);
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
    case TT_WORK_PULL:
    case TT_WORK_PUSH:
    case TT_WORK_CAST:
        carry_piece(exec, lane, move, bytes);
        break;
    case TT_WORK_FOLD:
        fold_piece(exec, lane, move, bytes);
        break;
    }
    lane->work_done += bytes;
    const bool is_sum = move->work == TT_WORK_SUM || move->work == TT_WORK_VIEWS ||
                        move->work == TT_WORK_FOLD || move->work == TT_WORK_FINISH;
    exec->flow->platform->ops->spend(exec->flow->platform, is_sum ? TT_SPEND_REDUCE : TT_SPEND_COPY,
                                     bytes);
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
