/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.h - dependency proxies: how an engine that knows nothing of us obeys the schedule.
 *
 * An engine runs operators by their dependencies and may put a barrier between steps. Two proxies,
 * inserted as operators, hand the control over without changing the engine:
 *
 *   after backward of a layer   tt_proxy_post: the gradients are owed from now on, and the operator
 *                               ends at once. Communication runs outside the engine, so the barrier
 *                               sees nothing to wait for and is crossed.
 *   before forward of a layer   tt_proxy_wait or tt_proxy_defer: passes once all that this layer
 *                               owes is paid. It holds back this layer and no other.
 *
 * An engine that communicates by operators of its own gets two more: one before such an operator
 * posts 1, calls tt_scheduler_ready and defers, and is paid by the scheduler's `start`; one behind
 * it calls tt_scheduler_finish.
 *
 * Two forms, for the two kinds of engine: an imperative one is blocked inside the call, a
 * declarative one lets the operator return and is told of its completion later.
 *
 * Layer:   schedule; may include base/. Made to become public: nothing here names other parts.
 * Threads: one at a time per proxy; who shares it between threads brings the lock, and `block`
 *          releases it while it sleeps.
 * Memory:  none taken.
 */
#ifndef TUTTI_SCHEDULE_PROXY_H
#define TUTTI_SCHEDULE_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* The engine's completion of an operator that was deferred. */
typedef void tt_proxy_done_fn(void *user, tt_status status);
/* Sleep until something may have changed. A failure ends the wait with it. */
typedef tt_status tt_proxy_block_fn(void *user);

/* One per layer. All zeros: nothing is owed, so the first forward passes. */
typedef struct tt_proxy {
    uint64_t owed_count; /* tasks posted, ever */
    uint64_t paid_count; /* tasks finished, ever */
    tt_status status;    /* first failure since the last pass */
    tt_proxy_done_fn *done;
    void *done_user;
} tt_proxy;

/* `task_count` tasks of this layer are on their way. */
void tt_proxy_post(tt_proxy *proxy, uint64_t task_count);

/* One of them is over. The last one completes an operator that was deferred, from inside.
 * TT_ERR_BAD_ARGUMENT if none is owed. */
tt_status tt_proxy_pay(tt_proxy *proxy, tt_status status);

static inline bool tt_proxy_is_open(const tt_proxy *proxy)
{
    return proxy->paid_count == proxy->owed_count;
}

/* Blocking form: calls `block` until the layer owes nothing. The status of its tasks. */
tt_status tt_proxy_wait(tt_proxy *proxy, tt_proxy_block_fn *block, void *user);

/* Deferred form: passes now with the status of the tasks, or TT_IN_PROGRESS and `done` is called
 * later, once. TT_ERR_BAD_ARGUMENT if an operator is waiting already. */
tt_status tt_proxy_defer(tt_proxy *proxy, tt_proxy_done_fn *done, void *user);

#endif
