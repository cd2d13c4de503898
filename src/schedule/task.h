/* SPDX-License-Identifier: Apache-2.0
 *
 * task.h - a communication task, and the chunks it is cut into.
 *
 * A task is one operation on one tensor. It passes four transitions, every step anew: declared,
 * ready (its bytes are available), started (handed to the stack below), finished (all its chunks
 * are). A chunk is a byte range of its task, never a row. Outside engines see the same four
 * transitions: they receive `start` and report `finish`.
 *
 * Layer:   schedule; may include base/.
 * Threads: plain data.
 * Memory:  none taken.
 */
#ifndef TUTTI_SCHEDULE_TASK_H
#define TUTTI_SCHEDULE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef uint32_t tt_task_id;

#define TT_TASK_NONE UINT32_MAX
#define TT_CHUNK_WHOLE UINT64_MAX /* chunk_bytes: a task is one chunk */
#define TT_CREDIT_ENDLESS UINT64_MAX
#define TT_CREDIT_STOP_AND_WAIT UINT64_C(1) /* one chunk in flight, whatever its size */

enum {
    TT_TASK_PRIORITY_MAX = (1 << 24) - 1,
};

typedef enum tt_task_kind {
    TT_TASK_PUSH,
    TT_TASK_PULL,
    TT_TASK_ALLREDUCE,
    TT_TASK_REDUCE_SCATTER,
    TT_TASK_ALL_GATHER,
    TT_TASK_BROADCAST,
    TT_TASK_KIND_COUNT,
} tt_task_kind;

/* Before layer order: data that is waited for now goes before data that the next step needs. */
typedef enum tt_task_class {
    TT_TASK_CONTROL,
    TT_TASK_ACTIVATION,
    TT_TASK_GRADIENT,
    TT_TASK_CLASS_COUNT,
} tt_task_class;

/* A lane has a queue and a credit of its own: pushes and pulls use opposite directions of a duplex
 * link, so one must not hold the other back. */
typedef enum tt_task_lane {
    TT_LANE_PUSH,
    TT_LANE_PULL,
    TT_LANE_COLLECTIVE,
    TT_LANE_COUNT,
} tt_task_lane;

typedef enum tt_task_state {
    TT_TASK_DECLARED,
    TT_TASK_READY,
    TT_TASK_STARTED,
    TT_TASK_FINISHED,
} tt_task_state;

typedef struct tt_task_config {
    tt_task_kind kind;
    tt_task_class class;
    uint32_t priority;    /* 0 is the most urgent: place of the first use in the forward pass */
    uint64_t bytes;       /* 0 is allowed: one empty chunk */
    uint32_t align_bytes; /* chunks are cut at multiples of it: the element size; 0 means 1 */
    uint64_t chunk_bytes; /* of this task; 0: the scheduler's */
    bool is_immediate;    /* started when ready, past queue and credit: initial values, control */
    tt_task_id after;     /* TT_TASK_NONE, or the task it follows, as a pull its push: chunk by
                           * chunk where both are cut alike, else when all of it is finished */
    void *user;
} tt_task_config;

/* One chunk as the stack below sees it. */
typedef struct tt_task_chunk {
    tt_task_id task;
    uint32_t index;
    uint32_t count; /* chunks of this task */
    tt_task_kind kind;
    uint64_t offset;
    uint64_t bytes;
    uint64_t round; /* how often the task had been ready before */
    void *user;     /* the task's */
} tt_task_chunk;

const char *tt_task_kind_name(tt_task_kind kind);
tt_task_lane tt_task_kind_lane(tt_task_kind kind);

/* How many chunks `bytes` make: at least one. The last may be shorter, none is longer. */
uint64_t tt_task_chunk_count(uint64_t bytes, uint64_t chunk_bytes, uint32_t align_bytes);
/* Byte range of chunk `index` of the task; `chunk_bytes` unless the task has its own. */
void tt_task_chunk_range(const tt_task_config *task, uint64_t chunk_bytes, uint32_t index,
                         tt_task_chunk *chunk);

#endif
