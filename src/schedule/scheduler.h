/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler.h - which chunk starts next: priority, partition and credit.
 *
 * A chunk that is ready enters the heap of its lane: class first, then priority, then the order of
 * becoming ready. It starts while credit > 0, so a lane overshoots by at most one chunk and a large
 * chunk never starves; credit is returned when the chunk is finished. Chunks in flight are never
 * revoked: an urgent chunk waits for at most the credit's worth of bytes.
 *
 * Ordered engines (MPI, NCCL) need the same order of starts on every rank. With `is_ordered`, the
 * order follows from the calls of tt_scheduler_ready and tt_scheduler_agree alone: make them in an
 * agreed order with agreed arguments, and local finishes may happen in any order.
 *
 * Layer:   schedule; may include base/.
 * Threads: one at a time. The ops are called from inside the calls below; from an op every call
 *          but destroy is allowed, so an engine may finish a chunk inside `start`.
 * Memory:  taken at creation, for `task_max` tasks and `chunk_max` chunks; none afterwards.
 */
#ifndef TUTTI_SCHEDULE_SCHEDULER_H
#define TUTTI_SCHEDULE_SCHEDULER_H

#include "base/alloc.h"
#include "base/text.h"
#include "schedule/task.h"

typedef struct tt_scheduler tt_scheduler;

typedef struct tt_scheduler_ops {
    /* Hand the chunk to the stack below; report its end with tt_scheduler_finish. */
    void (*start)(void *user, const tt_task_chunk *chunk);
    /* Every chunk of the task is finished; `status` is the first failure among them. */
    void (*finished)(void *user, tt_task_id task, tt_status status);
} tt_scheduler_ops;

typedef enum tt_scheduler_queue {
    TT_QUEUE_PRIORITY,
    TT_QUEUE_FIFO, /* the order of becoming ready; class and priority are ignored */
} tt_scheduler_queue;

typedef struct tt_scheduler_config {
    tt_scheduler_queue queue;
    bool is_ordered;
    uint32_t task_max;
    uint32_t chunk_max;
    uint64_t chunk_bytes;  /* not 0 */
    uint64_t credit_bytes; /* not 0; per lane; less than a chunk is stop-and-wait */
    const tt_scheduler_ops *ops;
    void *user;
    const tt_allocator *allocator;
} tt_scheduler_config;

typedef struct tt_scheduler_counts {
    uint64_t started_chunks;
    uint64_t finished_chunks;
    uint64_t overtaken_chunks; /* started after one that had become ready later */
    uint64_t queued_chunks;
    uint64_t flight_bytes; /* credit in use, over all lanes */
} tt_scheduler_counts;

/* Copies `config`; ops, user and allocator are borrowed. On TT_ERR_BAD_ARGUMENT `why` has cause and
 * cure. The caller destroys. */
tt_status tt_scheduler_create(const tt_scheduler_config *config, tt_text *why,
                              tt_scheduler **scheduler_out);
void tt_scheduler_destroy(tt_scheduler *scheduler);

/* Error text of the last call that failed. */
const char *tt_scheduler_why(const tt_scheduler *scheduler);

/* TT_ERR_BAD_ARGUMENT: an unknown kind, a priority out of range, an unknown task to follow.
 * TT_ERR_NO_RESOURCE: more tasks or chunks than the configuration allows. */
tt_status tt_scheduler_declare(tt_scheduler *scheduler, const tt_task_config *task,
                               tt_task_id *id_out);

/* The task's bytes are ready. A task that follows another needs no call. Call it again only after
 * the task, and all that follow it, have finished. */
tt_status tt_scheduler_ready(tt_scheduler *scheduler, tt_task_id id);

/* A started chunk is over. TT_ERR_BAD_ARGUMENT if it is not in flight; nothing changes then. */
tt_status tt_scheduler_finish(tt_scheduler *scheduler, tt_task_id id, uint32_t index,
                              tt_status status);

/* Ordered engines only: the ranks have agreed that all of them finished the first `chunk_count`
 * chunks ever started. Returns their credit and makes followers ready. Counts never shrink. */
tt_status tt_scheduler_agree(tt_scheduler *scheduler, uint64_t chunk_count);

/* From the next time the task becomes ready. */
tt_status tt_scheduler_set_priority(tt_scheduler *scheduler, tt_task_id id, uint32_t priority);
/* At once: a larger credit starts chunks, with a smaller one chunks in flight drain first. */
tt_status tt_scheduler_set_credit(tt_scheduler *scheduler, uint64_t credit_bytes);
/* TT_IN_PROGRESS while a task is between ready and finished: change it between steps. */
tt_status tt_scheduler_set_chunk(tt_scheduler *scheduler, uint64_t chunk_bytes);

tt_task_state tt_scheduler_task_state(const tt_scheduler *scheduler, tt_task_id id);
uint32_t tt_scheduler_task_chunks(const tt_scheduler *scheduler, tt_task_id id);
tt_scheduler_counts tt_scheduler_count(const tt_scheduler *scheduler);

#endif
