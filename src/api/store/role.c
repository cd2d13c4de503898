/* SPDX-License-Identifier: Apache-2.0
 *
 * role.c - what workers and servers see of their job.
 *
 * A worker's collectives are those of a world of workers. The last ranks are servers, so workers
 * keep their numbers, and so do their hosts. A server's machine of collectives is alone in its
 * world: nothing can reach it. The driver knows all processes in either case. */
#include <stdlib.h>

#include "api/build_internal.h"
#include "api/store/store_calls.h"
#include "base/base.h"

void tt_build_take_names(tt_build_work *work)
{
    tutti_context *context = work->context;
    const tt_launch_servers *servers = &work->servers;
    context->log.rank = servers->rank;
    context->log.size = servers->size;
    if (work->is_miscast) {
        return; /* it joins in order to fail */
    }
    const uint32_t worker_count = servers->size - servers->count;
    context->rank = context->is_server ? 0 : (int)servers->rank;
    context->size = context->is_server ? 1 : (int)worker_count;
    context->log.role = context->is_server ? "server " : "";
    context->log.rank = context->is_server ? servers->rank - worker_count : servers->rank;
    context->log.size = context->is_server ? servers->count : worker_count;
}

void tt_build_take_places(tt_build_work *work)
{
    tutti_context *context = work->context;
    const tt_mesh_peer *self = &work->mesh.peers[work->identity.rank];
    const bool is_alone = context->is_server;
    context->local_rank = is_alone ? 0 : (int)self->local_index;
    context->local_size = is_alone ? 1 : (int)work->mesh.worker_local_count;
    context->cross_rank = is_alone ? 0 : (int)self->host_index;
    context->cross_size = is_alone ? 1 : (int)work->mesh.worker_host_count;
}

tt_world tt_build_world(const tt_build_work *work, uint32_t *host_of)
{
    const tutti_context *context = work->context;
    const bool is_alone = context->is_server;
    for (int rank = 0; rank < context->size; rank++) {
        host_of[rank] = is_alone ? 0 : work->mesh.peers[rank].host_index;
    }
    return (tt_world){.rank = (uint32_t)context->rank,
                      .size = (uint32_t)context->size,
                      .epoch = (uint32_t)work->mesh.incarnation,
                      .host_of = host_of,
                      .has_views = work->mesh.all_share_memory && !is_alone,
                      .is_crowded = context->is_crowded};
}

static void report(void *owner, int level, const char *text)
{
    const tutti_context *context = owner;
    tt_log_write(&context->log, level, "%s", text);
}

static void deserted(void *owner)
{
    tutti_context *context = owner;
    context->is_deserted = true;
}

/* Owners make no sums any more: the workers do. */
static void submit(void *owner, tt_request *request)
{
    const tutti_context *context = owner;
    tutti_handle *handle = TT_CONTAINER_OF(request, tutti_handle, request);
    handle->is_with_workers = true; /* it can be cancelled */
    tt_control_submit(context->control, request);
}

static void alarm_at(void *owner, uint64_t at_ns)
{
    const tutti_context *context = owner;
    tt_control_alarm(context->control, at_ns);
}

static tt_status make_sync(tutti_context *context, const tt_roles *roles)
{
    const tt_sync_listener listener = {.owner = context,
                                       .report = report,
                                       .deserted = context->is_server ? deserted : NULL,
                                       .submit = submit,
                                       .alarm = context->settings.stall_ns > 0 ? alarm_at : NULL,
                                       .stall_ns = context->settings.stall_ns};
    TT_TRY(tt_sync_create(tt_real_platform(context->real), roles,
                          tt_control_machine(context->control), &listener, &context->sync));
    tt_sync_use_updates(context->sync, &context->own_updates);
    return TT_OK;
}

static tt_status take_hosts(tt_build_work *work)
{
    const uint32_t workers = work->mesh.worker_count;
    uint32_t *hosts = calloc(workers, sizeof(*hosts));
    for (uint32_t i = 0; hosts != NULL && i < workers; i++) {
        hosts[i] = work->mesh.peers[i].host_index;
    }
    work->context->worker_hosts = hosts;
    return hosts != NULL ? TT_OK : TT_ERR_NO_MEMORY;
}

tt_status tt_build_attach(tt_build_work *work)
{
    tutti_context *context = work->context;
    tt_machine machine = tt_control_machine(context->control);
    TT_TRY(take_hosts(work));
    if (work->servers.count > 0) {
        const tt_roles roles = {.rank = work->identity.rank,
                                .workers = work->mesh.worker_count,
                                .servers = work->servers.count,
                                .epoch = (uint32_t)work->mesh.incarnation,
                                .hosts = context->worker_hosts};
        TT_TRY(make_sync(context, &roles));
        machine = tt_sync_machine(context->sync);
    }
    tt_real_attach(context->real, &machine);
    return TT_OK;
}

tt_status tt_store_attach(tutti_context *context, tt_text *why)
{
    const tt_roles roles = {.rank = (uint32_t)context->rank,
                            .workers = (uint32_t)context->size,
                            .epoch = (uint32_t)context->incarnation,
                            .hosts = context->worker_hosts};
    const tt_status status = make_sync(context, &roles);
    if (status != TT_OK) {
        tt_text_add(why, "out of memory for a store");
        return status;
    }
    const tt_machine machine = tt_sync_machine(context->sync);
    tt_real_attach(context->real, &machine);
    return TT_OK;
}
