/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h - the scheduler alone, for communication stacks and engines that are not Tutti's.
 *
 * Two parts, independent of each other and of any tutti_context:
 *
 * A *scheduler* decides which chunk goes next. A task is one operation on one tensor; it is
 * declared once and becomes ready every step. The scheduler cuts it into chunks and calls `start`
 * for them, by class, then priority, then age, while credit > 0; the stack below reports the end of
 * each chunk:
 *
 *     declare --> ready --> start (callback, chunk by chunk) --> finish --> finished (callback)
 *
 * A *proxy* makes the scheduler's order effective in an engine that runs operators by their
 * dependencies and may have a barrier between steps. One operator after a layer's backward posts
 * the number of the layer's outstanding tasks and ends at once, so that the barrier does not wait
 * for them; one before the layer's next forward passes when all of them are paid. It blocks
 * (tutti_proxy_wait) in imperative engines; in declarative ones it returns and is completed later
 * (tutti_proxy_defer). examples/09_proxies shows both. Where the engine communicates by operators
 * of its own, a proxy before each of them posts 1, calls tutti_task_ready and defers; `start` pays
 * it, so that it ends when the task may start; an operator behind it calls tutti_task_finish.
 *
 * Every function may be called from any thread, and from inside a callback, except destroy. A
 * callback runs with its object locked: it must not wait for another thread that uses the object.
 */
#ifndef TUTTI_SCHEDULE_H
#define TUTTI_SCHEDULE_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_scheduler tutti_scheduler;
typedef uint32_t tutti_task;
#define TUTTI_TASK_NONE UINT32_MAX

typedef enum tutti_task_kind { /* a push and a pull have a credit each, collectives a third */
                               TUTTI_TASK_PUSH = 0,
                               TUTTI_TASK_PULL = 1,
                               TUTTI_TASK_ALLREDUCE = 2,
                               TUTTI_TASK_REDUCE_SCATTER = 3,
                               TUTTI_TASK_ALL_GATHER = 4,
                               TUTTI_TASK_BROADCAST = 5,
} tutti_task_kind;

typedef enum tutti_task_class { /* compared before priorities */
                                TUTTI_CLASS_CONTROL = 0,
                                TUTTI_CLASS_ACTIVATION = 1,
                                TUTTI_CLASS_GRADIENT = 2,
} tutti_task_class;

typedef struct tutti_task_config {
    size_t struct_bytes;
    tutti_task_kind kind;
    tutti_task_class task_class;
    uint32_t priority;    /* 0 is the most urgent: place of the first use in the forward pass */
    uint64_t bytes;       /* 0: one empty chunk */
    uint32_t align_bytes; /* chunks end at multiples of it: the element's size; 0: 1 */
    uint64_t chunk_bytes; /* of this task; 0: the scheduler's */
    int is_immediate;     /* starts when ready, bypassing queue and credit */
    tutti_task after;     /* TUTTI_TASK_NONE; or the task it follows, as a pull follows its push */
    void *user;
} tutti_task_config;

#define TUTTI_TASK_INIT                                                                       \
    {                                                                                         \
        sizeof(tutti_task_config), TUTTI_TASK_ALLREDUCE, TUTTI_CLASS_GRADIENT, 0, 0, 0, 0, 0, \
            TUTTI_TASK_NONE, NULL                                                             \
    }

typedef struct tutti_chunk {
    tutti_task task;
    uint32_t index, count; /* of the task's chunks */
    tutti_task_kind kind;
    uint64_t offset, bytes;
    uint64_t round; /* how often the task had been ready before */
    void *user;     /* the task's */
} tutti_chunk;

typedef struct tutti_scheduler_config {
    size_t struct_bytes;
    int is_fifo;       /* start tasks in the order in which they become ready */
    int is_ordered;    /* starts depend only on ready and agree: see tutti_task_agree */
    uint32_t task_max; /* memory for this many is taken at creation */
    uint32_t chunk_max;
    uint64_t chunk_bytes;  /* UINT64_MAX: tasks are not cut */
    uint64_t credit_bytes; /* in flight, per kind; UINT64_MAX: no limit; 1: one chunk at a time */
    /* Pass the chunk to the stack below, which may finish it before `start` returns. */
    void (*start)(void *user, const tutti_chunk *chunk);
    /* All chunks of the task have ended; `status` is the first failure among them. */
    void (*finished)(void *user, tutti_task task, tutti_status status);
    void *user;
} tutti_scheduler_config;

#define TUTTI_SCHEDULER_INIT                                                                 \
    {                                                                                        \
        sizeof(tutti_scheduler_config), 0, 0, 1024, 65536, 262144, 4194304, NULL, NULL, NULL \
    }

/* TUTTI_ERR_BAD_ARGUMENT: tutti_last_error(NULL) gives the cause. */
TUTTI_API tutti_status tutti_scheduler_create(const tutti_scheduler_config *config,
                                              tutti_scheduler **scheduler_out);
TUTTI_API void tutti_scheduler_destroy(tutti_scheduler *scheduler);

/* TUTTI_ERR_BAD_ARGUMENT, with a text as above: an unknown kind, a priority beyond 2^24 - 1, or an
 * `after` that does not exist. TUTTI_ERR_NO_RESOURCE: more tasks or chunks than task_max or
 * chunk_max. */
TUTTI_API tutti_status tutti_task_declare(tutti_scheduler *scheduler,
                                          const tutti_task_config *config, tutti_task *task_out);
/* The task's data is ready. A task that follows another one needs no such call. */
TUTTI_API tutti_status tutti_task_ready(tutti_scheduler *scheduler, tutti_task task);
/* A started chunk is over. */
TUTTI_API tutti_status tutti_task_finish(tutti_scheduler *scheduler, tutti_task task,
                                         uint32_t index, tutti_status status);
/* For ordered stacks (MPI, NCCL), in which every rank must start the same chunks in the same order:
 * the first `chunk_count` chunks ever started have ended on all ranks, and all ranks know it. With
 * is_ordered only this call returns credit. */
TUTTI_API tutti_status tutti_task_agree(tutti_scheduler *scheduler, uint64_t chunk_count);
/* Takes effect the next time that the task is ready. */
TUTTI_API tutti_status tutti_task_set_priority(tutti_scheduler *scheduler, tutti_task task,
                                               uint32_t priority);
TUTTI_API tutti_status tutti_scheduler_set_credit(tutti_scheduler *scheduler,
                                                  uint64_t credit_bytes);
/* TUTTI_IN_PROGRESS: refused while a task is in flight. */
TUTTI_API tutti_status tutti_scheduler_set_chunk(tutti_scheduler *scheduler, uint64_t chunk_bytes);

/* ---- dependency proxies, one per layer ---- */

typedef struct tutti_proxy tutti_proxy;

TUTTI_API tutti_status tutti_proxy_create(tutti_proxy **proxy_out);
TUTTI_API void tutti_proxy_destroy(tutti_proxy *proxy);
/* Add `task_count` outstanding tasks of this layer. */
TUTTI_API tutti_status tutti_proxy_post(tutti_proxy *proxy, uint64_t task_count);
/* One of them is over. TUTTI_ERR_BAD_ARGUMENT: none is outstanding. */
TUTTI_API tutti_status tutti_proxy_pay(tutti_proxy *proxy, tutti_status status);
/* Wait until none is outstanding; returns the first failure since the last pass. */
TUTTI_API tutti_status tutti_proxy_wait(tutti_proxy *proxy);
/* The same without waiting: passes now, or returns TUTTI_IN_PROGRESS and `done` is called once,
 * later, by the thread that pays the last task. */
TUTTI_API tutti_status tutti_proxy_defer(tutti_proxy *proxy,
                                         void (*done)(void *user, tutti_status status), void *user);

#ifdef __cplusplus
}
#endif

#endif
