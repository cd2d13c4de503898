/* SPDX-License-Identifier: Apache-2.0
 *
 * short.c - the blocking calls on the world: short forms of tutti_run.
 *
 * They have no name, group, scale, deadline, callback or flag, so those fields are not filled in.
 */
#include <stddef.h>
#include <string.h>

#include "api/enter.h"

static const tt_request blank = {
    .prescale = 1.0,
    .postscale = 1.0,
    .is_waited = true,
    .finished = tt_drive_finished,
};

/* A request for a call of this kind. The error's text is long and need not be cleared. */
static tt_request *ask(tutti_handle *handle, tutti_collective collective, uint64_t count,
                       tutti_dtype dtype)
{
    tt_request *request = &handle->request;
    memcpy(request, &blank, offsetof(tt_request, error));
    request->collective = (tt_collective)collective;
    request->count = count;
    request->dtype = (tt_dtype)dtype;
    request->owner = handle;
    request->error[0] = 0;
    request->op = NULL;
    request->named = NULL;
    request->is_identity = request->is_lost = false;
    request->shape[0] = 0;
    return request;
}

static void hold(tutti_handle *handle, tutti_context *context)
{
    handle->context = context;
    handle->name[0] = handle->group[0] = 0;
    handle->done = NULL;
    handle->result_out = NULL;
    handle->output = handle->request.output;
    handle->is_persistent = handle->has_event = false;
    handle->urgency = 0;
    handle->status = TUTTI_IN_PROGRESS;
    atomic_init(&handle->sleepers, 0);
    atomic_init(&handle->state, HANDLE_STARTED);
}

static tutti_status run(tutti_context *context, tutti_handle *handle)
{
    if (tt_error_in_callback() && tt_call_check(context) == TUTTI_OK) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD,
                            "a callback must not wait for a call; start it and return");
    }
    tutti_status status = tt_enter(context);
    if (status != TUTTI_OK) {
        return status;
    }
    hold(handle, context);
    const uint64_t since_ns = tt_wait_begin(context);
    (void)tt_drive_run(handle, UINT64_MAX);
    tt_wait_end(context, since_ns);
    status = tt_call_result(handle);
    tt_leave(context);
    return status;
}

tutti_status tutti_allreduce(tutti_context *context, const void *input, void *output,
                             uint64_t count, tutti_dtype dtype, tutti_op op)
{
    tutti_handle handle;
    tt_request *request = ask(&handle, TUTTI_ALLREDUCE, count, dtype);
    request->input = input;
    request->output = output;
    request->redop = (tt_redop)op;
    return run(context, &handle);
}

tutti_status tutti_reduce(tutti_context *context, const void *input, void *output, uint64_t count,
                          tutti_dtype dtype, tutti_op op, int root)
{
    tutti_handle handle;
    tt_request *request = ask(&handle, TUTTI_REDUCE, count, dtype);
    request->input = input;
    request->output = output;
    request->redop = (tt_redop)op;
    request->root = (uint32_t)root;
    return run(context, &handle);
}

/* Calls that reduce nothing, with a root or a peer. */
static tutti_status move(tutti_context *context, tutti_handle *handle, const void *input,
                         void *output, int root)
{
    handle->request.input = input;
    handle->request.output = output;
    handle->request.root = (uint32_t)root;
    return run(context, handle);
}

tutti_status tutti_broadcast(tutti_context *context, void *buffer, uint64_t count,
                             tutti_dtype dtype, int root)
{
    tutti_handle handle;
    (void)ask(&handle, TUTTI_BROADCAST, count, dtype);
    return move(context, &handle, buffer, buffer, root);
}

tutti_status tutti_allgather(tutti_context *context, const void *input, void *output,
                             uint64_t count, tutti_dtype dtype)
{
    tutti_handle handle;
    (void)ask(&handle, TUTTI_ALLGATHER, count, dtype);
    return move(context, &handle, input, output, 0);
}

tutti_status tutti_gather(tutti_context *context, const void *input, void *output, uint64_t count,
                          tutti_dtype dtype, int root)
{
    tutti_handle handle;
    (void)ask(&handle, TUTTI_GATHER, count, dtype);
    return move(context, &handle, input, output, root);
}

tutti_status tutti_scatter(tutti_context *context, const void *input, void *output, uint64_t count,
                           tutti_dtype dtype, int root)
{
    tutti_handle handle;
    (void)ask(&handle, TUTTI_SCATTER, count, dtype);
    return move(context, &handle, input, output, root);
}

tutti_status tutti_reducescatter(tutti_context *context, const void *input, void *output,
                                 uint64_t count, tutti_dtype dtype, tutti_op op)
{
    tutti_handle handle;
    ask(&handle, TUTTI_REDUCESCATTER, count, dtype)->redop = (tt_redop)op;
    return move(context, &handle, input, output, 0);
}

tutti_status tutti_alltoall(tutti_context *context, const void *input, void *output, uint64_t count,
                            tutti_dtype dtype)
{
    tutti_handle handle;
    (void)ask(&handle, TUTTI_ALLTOALL, count, dtype);
    return move(context, &handle, input, output, 0);
}

tutti_status tutti_send(tutti_context *context, const void *buffer, uint64_t count,
                        tutti_dtype dtype, int peer)
{
    tutti_handle handle;
    (void)ask(&handle, TUTTI_SEND, count, dtype);
    return move(context, &handle, buffer, NULL, peer);
}

tutti_status tutti_receive(tutti_context *context, void *buffer, uint64_t count, tutti_dtype dtype,
                           int peer)
{
    tutti_handle handle;
    (void)ask(&handle, TUTTI_RECEIVE, count, dtype);
    return move(context, &handle, NULL, buffer, peer);
}

tutti_status tutti_barrier(tutti_context *context)
{
    tutti_handle handle;
    (void)ask(&handle, TUTTI_BARRIER, 0, TUTTI_U8);
    return move(context, &handle, NULL, NULL, 0);
}
