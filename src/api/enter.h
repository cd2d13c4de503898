/* SPDX-License-Identifier: Apache-2.0
 *
 * enter.h - entry and exit of calls that may wait.
 *
 * Layer:   api, private.
 * Threads: any.
 * Memory:  none.
 */
#ifndef TUTTI_API_ENTER_H
#define TUTTI_API_ENTER_H

#include "api/api_internal.h"

/* Shutdown waits until all threads have left before it frees. */
static inline tutti_status tt_enter(tutti_context *context)
{
    if (context == NULL || atomic_load_explicit(&context->is_forked, memory_order_relaxed)) {
        return tt_call_check(context);
    }
    atomic_fetch_add(&context->inside, 1);
    if (atomic_load(&context->is_closing)) { /* if not, shutdown waits for this thread */
        atomic_fetch_sub(&context->inside, 1);
        return tt_call_check(context);
    }
    return TUTTI_OK;
}

static inline void tt_leave(tutti_context *context)
{
    atomic_fetch_sub(&context->inside, 1);
}

/* Waiting is timed once tutti_step is called. */
static inline uint64_t tt_wait_begin(tutti_context *context)
{
    const bool is_timed = atomic_load_explicit(&context->counts_waits, memory_order_relaxed);
    return is_timed ? tt_clock_ns() : 0;
}

static inline void tt_wait_end(tutti_context *context, uint64_t since_ns)
{
    if (since_ns > 0) {
        atomic_fetch_add(&context->waited_ns, tt_clock_ns() - since_ns);
    }
}

/* Status of a handle that is over; sets the thread's last error. */
static inline tutti_status tt_call_result(tutti_handle *handle)
{
    if (handle->status < 0) {
        tt_error_about(handle->context);
        (void)tt_error_set(handle->status, "%s", handle->request.error);
    }
    return handle->status;
}

#endif
