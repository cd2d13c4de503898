/* SPDX-License-Identifier: Apache-2.0
 *
 * task.c - names of tasks, and byte ranges of their chunks. */
#include "schedule/task.h"

#include "base/assert.h"
#include "base/base.h"

typedef struct kind_row {
    const char *name;
    tt_task_lane lane;
} kind_row;

static const kind_row kinds[TT_TASK_KIND_COUNT] = {
    [TT_TASK_PUSH] = {"push", TT_LANE_PUSH},
    [TT_TASK_PULL] = {"pull", TT_LANE_PULL},
    [TT_TASK_ALLREDUCE] = {"all-reduce", TT_LANE_COLLECTIVE},
    [TT_TASK_REDUCE_SCATTER] = {"reduce-scatter", TT_LANE_COLLECTIVE},
    [TT_TASK_ALL_GATHER] = {"all-gather", TT_LANE_COLLECTIVE},
    [TT_TASK_BROADCAST] = {"broadcast", TT_LANE_COLLECTIVE},
};

const char *tt_task_kind_name(tt_task_kind kind)
{
    TT_ASSERT(kind < TT_TASK_KIND_COUNT);
    return kinds[kind].name;
}

tt_task_lane tt_task_kind_lane(tt_task_kind kind)
{
    TT_ASSERT(kind < TT_TASK_KIND_COUNT);
    return kinds[kind].lane;
}

/* Whole elements only: a chunk below one element is one element. */
static uint64_t chunk_stride(uint64_t chunk_bytes, uint32_t align_bytes)
{
    const uint64_t align = align_bytes == 0 ? 1 : align_bytes;
    return chunk_bytes < align ? align : chunk_bytes - chunk_bytes % align;
}

uint64_t tt_task_chunk_count(uint64_t bytes, uint64_t chunk_bytes, uint32_t align_bytes)
{
    TT_ASSERT(chunk_bytes > 0);
    if (bytes == 0) {
        return 1;
    }
    const uint64_t stride = chunk_stride(chunk_bytes, align_bytes);
    return (bytes - 1) / stride + 1;
}

void tt_task_chunk_range(const tt_task_config *task, uint64_t chunk_bytes, uint32_t index,
                         tt_task_chunk *chunk)
{
    TT_ASSERT(chunk_bytes > 0);
    const uint64_t own_bytes = task->chunk_bytes != 0 ? task->chunk_bytes : chunk_bytes;
    const uint64_t stride = chunk_stride(own_bytes, task->align_bytes);
    chunk->offset = index == 0 ? 0 : stride * index;
    TT_ASSERT(chunk->offset <= task->bytes);
    chunk->bytes = tt_min_u64(stride, task->bytes - chunk->offset);
}
