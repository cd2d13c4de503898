/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c - a server of a job: joins, drives its machine until no worker is left, leaves.
 *
 * The calling thread has the baton from the first to the last upcall: a server has no calls of its
 * own, so no other thread needs it, and there is no progress thread. */
#include "api/store/store_calls.h"
#include "tutti/store.h"

static bool is_deserted(void *owner)
{
    const tutti_context *context = owner;
    return context->is_deserted;
}

/* Sleeps in the driver without a time limit: peers ring, and sockets and process descriptors report
 * their ends. A stopped worker makes no call that a server would have to wait for. */
static void serve(tutti_context *context)
{
    tt_real *real = context->real;
    tt_real_drive(real);
    while (!tt_real_spin(real, is_deserted, context, UINT64_MAX)) {
        tt_real_sleep(real, UINT64_MAX);
    }
}

tutti_status tutti_server_run(const tutti_options *options)
{
    tutti_context *context;
    tt_error_about(NULL);
    const tutti_status status = tt_context_join(options, true, &context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_drive_acquire(context);
    const uint32_t worker_count = tt_sync_workers_left(context->sync);
    tt_log_write(&context->log, TT_LOG_INFO, "ready for %u worker%s; rank %u of all processes",
                 worker_count, worker_count == 1 ? "" : "s", worker_count + context->log.rank);
    serve(context);
    tt_log_write(&context->log, TT_LOG_INFO, "no worker is left; the server ends");
    tt_context_leave(context);
    return TUTTI_OK;
}
