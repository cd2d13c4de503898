/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c - include/tutti/schedule.h: the scheduler and the proxies with a lock around them.
 *
 * The lock is recursive: callbacks run under it and may call again. It serialises reports of
 * several threads, so that the scheduler sees one thread at a time.
 */
#include "tutti/schedule.h"

#include <pthread.h>
#include <stdlib.h>

#include "api/raise.h"
#include "schedule/schedule.h"

_Static_assert((int)TUTTI_TASK_BROADCAST == (int)TT_TASK_BROADCAST, "kinds are public ABI");
_Static_assert((int)TUTTI_CLASS_GRADIENT == (int)TT_TASK_GRADIENT, "classes are public ABI");

struct tutti_scheduler {
    pthread_mutex_t lock; /* guards `inner` */
    tutti_scheduler_config config;
    tt_scheduler *inner;
};

struct tutti_proxy {
    pthread_mutex_t lock; /* guards `inner` */
    pthread_cond_t paid;
    tt_proxy inner;
    void (*done)(void *user, tutti_status status);
    void *done_user;
};

static void lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t recursive;
    (void)pthread_mutexattr_init(&recursive);
    (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(lock, &recursive);
    (void)pthread_mutexattr_destroy(&recursive);
}

/* ---- the scheduler ---- */

static void on_start(void *user, const tt_task_chunk *chunk)
{
    const tutti_scheduler *scheduler = user;
    const tutti_chunk given = {.task = chunk->task,
                               .index = chunk->index,
                               .count = chunk->count,
                               .kind = (tutti_task_kind)chunk->kind,
                               .offset = chunk->offset,
                               .bytes = chunk->bytes,
                               .round = chunk->round,
                               .user = chunk->user};
    scheduler->config.start(scheduler->config.user, &given);
}

static void on_finished(void *user, tt_task_id task, tt_status status)
{
    const tutti_scheduler *scheduler = user;
    if (scheduler->config.finished != NULL) {
        scheduler->config.finished(scheduler->config.user, task, (tutti_status)status);
    }
}

static const tt_scheduler_ops scheduler_ops = {.start = on_start, .finished = on_finished};

tutti_status tutti_scheduler_create(const tutti_scheduler_config *config,
                                    tutti_scheduler **scheduler_out)
{
    if (config == NULL || config->struct_bytes < sizeof(*config) || config->start == NULL ||
        scheduler_out == NULL) {
        return tt_error_raise(
            TUTTI_ERR_BAD_ARGUMENT,
            "config is incomplete; begin with TUTTI_SCHEDULER_INIT and set start");
    }
    tutti_scheduler *scheduler = calloc(1, sizeof(*scheduler));
    if (scheduler == NULL) {
        return tt_error_raise(TUTTI_ERR_NO_MEMORY, "out of memory for a scheduler");
    }
    scheduler->config = *config;
    const tt_scheduler_config inner = {.queue =
                                           config->is_fifo != 0 ? TT_QUEUE_FIFO : TT_QUEUE_PRIORITY,
                                       .is_ordered = config->is_ordered != 0,
                                       .task_max = config->task_max,
                                       .chunk_max = config->chunk_max,
                                       .chunk_bytes = config->chunk_bytes,
                                       .credit_bytes = config->credit_bytes,
                                       .ops = &scheduler_ops,
                                       .user = scheduler,
                                       .allocator = &tt_allocator_default};
    tt_text why = {0};
    const tt_status status = tt_scheduler_create(&inner, &why, &scheduler->inner);
    if (status != TT_OK) {
        free(scheduler);
        return tt_error_raise((tutti_status)status,
                              why.length > 0 ? why.bytes : tt_status_text(status));
    }
    lock_init(&scheduler->lock);
    *scheduler_out = scheduler;
    return TUTTI_OK;
}

void tutti_scheduler_destroy(tutti_scheduler *scheduler)
{
    if (scheduler != NULL) {
        tt_scheduler_destroy(scheduler->inner);
        (void)pthread_mutex_destroy(&scheduler->lock);
        free(scheduler);
    }
}

static tt_scheduler *enter(tutti_scheduler *scheduler)
{
    (void)pthread_mutex_lock(&scheduler->lock);
    return scheduler->inner;
}

static tutti_status leave(tutti_scheduler *scheduler, tt_status status)
{
    tutti_status result = (tutti_status)status;
    if (status < 0) {
        const char *why = tt_scheduler_why(scheduler->inner);
        result = tt_error_raise(result, why[0] != 0 ? why : tt_status_text(status));
    }
    (void)pthread_mutex_unlock(&scheduler->lock);
    return result;
}

tutti_status tutti_task_declare(tutti_scheduler *scheduler, const tutti_task_config *config,
                                tutti_task *task_out)
{
    if (config == NULL || config->struct_bytes < sizeof(*config) || task_out == NULL) {
        return tt_error_raise(TUTTI_ERR_BAD_ARGUMENT,
                              "task is not initialised; begin with TUTTI_TASK_INIT");
    }
    const tt_task_config task = {.kind = (tt_task_kind)config->kind,
                                 .class = (tt_task_class)config->task_class,
                                 .priority = config->priority,
                                 .bytes = config->bytes,
                                 .align_bytes = config->align_bytes,
                                 .chunk_bytes = config->chunk_bytes,
                                 .is_immediate = config->is_immediate != 0,
                                 .after = config->after,
                                 .user = config->user};
    tt_scheduler *inner = enter(scheduler);
    return leave(scheduler, tt_scheduler_declare(inner, &task, task_out));
}

tutti_status tutti_task_ready(tutti_scheduler *scheduler, tutti_task task)
{
    tt_scheduler *inner = enter(scheduler);
    return leave(scheduler, tt_scheduler_ready(inner, task));
}

tutti_status tutti_task_finish(tutti_scheduler *scheduler, tutti_task task, uint32_t index,
                               tutti_status status)
{
    tt_scheduler *inner = enter(scheduler);
    return leave(scheduler, tt_scheduler_finish(inner, task, index, (tt_status)status));
}

tutti_status tutti_task_agree(tutti_scheduler *scheduler, uint64_t chunk_count)
{
    tt_scheduler *inner = enter(scheduler);
    return leave(scheduler, tt_scheduler_agree(inner, chunk_count));
}

tutti_status tutti_task_set_priority(tutti_scheduler *scheduler, tutti_task task, uint32_t priority)
{
    tt_scheduler *inner = enter(scheduler);
    return leave(scheduler, tt_scheduler_set_priority(inner, task, priority));
}

tutti_status tutti_scheduler_set_credit(tutti_scheduler *scheduler, uint64_t credit_bytes)
{
    tt_scheduler *inner = enter(scheduler);
    return leave(scheduler, tt_scheduler_set_credit(inner, credit_bytes));
}

tutti_status tutti_scheduler_set_chunk(tutti_scheduler *scheduler, uint64_t chunk_bytes)
{
    tt_scheduler *inner = enter(scheduler);
    return leave(scheduler, tt_scheduler_set_chunk(inner, chunk_bytes));
}

/* ---- proxies ---- */

tutti_status tutti_proxy_create(tutti_proxy **proxy_out)
{
    tutti_proxy *proxy = calloc(1, sizeof(*proxy));
    if (proxy == NULL) {
        return tt_error_raise(TUTTI_ERR_NO_MEMORY, "out of memory for a proxy");
    }
    lock_init(&proxy->lock);
    (void)pthread_cond_init(&proxy->paid, NULL);
    *proxy_out = proxy;
    return TUTTI_OK;
}

void tutti_proxy_destroy(tutti_proxy *proxy)
{
    if (proxy != NULL) {
        (void)pthread_cond_destroy(&proxy->paid);
        (void)pthread_mutex_destroy(&proxy->lock);
        free(proxy);
    }
}

tutti_status tutti_proxy_post(tutti_proxy *proxy, uint64_t task_count)
{
    (void)pthread_mutex_lock(&proxy->lock);
    tt_proxy_post(&proxy->inner, task_count);
    (void)pthread_mutex_unlock(&proxy->lock);
    return TUTTI_OK;
}

tutti_status tutti_proxy_pay(tutti_proxy *proxy, tutti_status status)
{
    (void)pthread_mutex_lock(&proxy->lock);
    const tt_status result = tt_proxy_pay(&proxy->inner, (tt_status)status);
    (void)pthread_cond_broadcast(&proxy->paid);
    (void)pthread_mutex_unlock(&proxy->lock);
    return result < 0
               ? tt_error_raise((tutti_status)result, "tutti_proxy_pay was called more often than "
                                                      "tasks were posted; call it once per task")
               : (tutti_status)result;
}

static tt_status block(void *user)
{
    tutti_proxy *proxy = user;
    (void)pthread_cond_wait(&proxy->paid, &proxy->lock);
    return TT_OK;
}

tutti_status tutti_proxy_wait(tutti_proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
    if (proxy->inner.done != NULL) {
        (void)pthread_mutex_unlock(&proxy->lock);
        return tt_error_raise(TUTTI_ERR_BAD_ARGUMENT,
                              "an operator is deferred on this proxy; wait or defer, not both");
    }
    const tt_status status = tt_proxy_wait(&proxy->inner, block, proxy);
    (void)pthread_mutex_unlock(&proxy->lock);
    return status < 0 ? tt_error_raise((tutti_status)status, "communication of the layer failed")
                      : (tutti_status)status;
}

static void on_passed(void *user, tt_status status)
{
    const tutti_proxy *proxy = user;
    proxy->done(proxy->done_user, (tutti_status)status);
}

tutti_status tutti_proxy_defer(tutti_proxy *proxy, void (*done)(void *user, tutti_status status),
                               void *user)
{
    if (done == NULL) {
        return tt_error_raise(TUTTI_ERR_BAD_ARGUMENT, "done is NULL");
    }
    (void)pthread_mutex_lock(&proxy->lock);
    if (proxy->inner.done == NULL) { /* else it is refused, and the first stays */
        proxy->done = done;
        proxy->done_user = user;
    }
    const tt_status status = tt_proxy_defer(&proxy->inner, on_passed, proxy);
    (void)pthread_mutex_unlock(&proxy->lock);
    return status < 0 ? tt_error_raise((tutti_status)status, tt_status_text(status))
                      : (tutti_status)status;
}
