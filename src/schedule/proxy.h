/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.h - dependency proxies: how an unmodified engine follows the schedule.
 *
 * An engine runs operators by their dependencies and may put a barrier between steps. Two proxies,
 * inserted as operators, give the scheduler control without changing the engine:
 *
 *   after backward of a layer tt_proxy_post: the layer's gradients are outstanding, and the
 *   operator ends at once. Communication runs outside the engine, so the barrier does not wait for
 *   it and is crossed. before forward of a layer tt_proxy_wait or tt_proxy_defer: passes once all
 *   tasks of this layer are finished. It holds back this layer and no other.
 *
 * An engine that communicates by operators of its own gets two more: one before such an operator
 * posts 1, calls tt_scheduler_ready and defers, and is paid by the scheduler's `start`; one behind
 * it calls tt_scheduler_finish.
 *
 * Two forms, for the two kinds of engine: an imperative one is blocked inside the call, a
 * declarative one lets the operator return and is notified of its completion later.
 *
 * Layer:   schedule; may include base/. Made to become public: nothing here names other parts.
 * Threads: one at a time per proxy; a caller that shares it between threads brings the lock, and
 *          `block` releases it while it sleeps.
 * Memory:  none taken.
 */
#ifndef TUTTI_SCHEDULE_PROXY_H
#define TUTTI_SCHEDULE_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* The engine's completion of a deferred operator. */
typedef void tt_proxy_done_fn(void *user, tt_status status);
/* Sleep until something may have changed. A failure ends the wait with it. */
typedef tt_status tt_proxy_block_fn(void *user);

/* One per layer. All zeros: nothing is outstanding, so the first forward passes. */
typedef struct tt_proxy {
    uint64_t owed_count; /* tasks posted, ever */
    uint64_t paid_count; /* tasks finished, ever */
    tt_status status;    /* first failure since the last pass */
    tt_proxy_done_fn *done;
    void *done_user;
} tt_proxy;

/* `task_count` more tasks of this layer are outstanding. */
void tt_proxy_post(tt_proxy *proxy, uint64_t task_count);

/* One task is over. The last one completes a deferred operator, inside this call.
 * TT_ERR_BAD_ARGUMENT if none is outstanding. */
tt_status tt_proxy_pay(tt_proxy *proxy, tt_status status);

static inline bool tt_proxy_is_open(const tt_proxy *proxy)
{
    return proxy->paid_count == proxy->owed_count;
}

/* Blocking form: calls `block` until no task of the layer is outstanding. Returns the status of its
 * tasks. */
tt_status tt_proxy_wait(tt_proxy *proxy, tt_proxy_block_fn *block, void *user);

/* Deferred form: passes now with the status of the tasks, or TT_IN_PROGRESS and `done` is called
 * later, once. TT_ERR_BAD_ARGUMENT if an operator is waiting already. */
tt_status tt_proxy_defer(tt_proxy *proxy, tt_proxy_done_fn *done, void *user);

#endif
