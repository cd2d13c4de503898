/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c - handles: start, wait, poll, cancel, persistent calls. */
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/assert.h"

_Static_assert((int)TUTTI_BARRIER == (int)TT_BARRIER, "collectives are public ABI");
_Static_assert((int)TUTTI_BOOL == (int)TT_BOOL, "dtypes are public ABI");
_Static_assert((int)TUTTI_XOR == (int)TT_XOR, "ops are public ABI");
_Static_assert((int)TUTTI_ERR_WRONG_THREAD == (int)TT_ERR_WRONG_THREAD, "status is public ABI");

tutti_status tt_call_check(const tutti_context *context)
{
    if (context == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "context is NULL: tutti_init comes first");
    }
    if (atomic_load_explicit(&((tutti_context *)(uintptr_t)context)->is_forked,
                             memory_order_relaxed)) {
        return tt_error_set(TUTTI_ERR_FORKED, "the context belongs to the parent process; a forked "
                                              "child must call tutti_init itself");
    }
    if (atomic_load_explicit(&((tutti_context *)(uintptr_t)context)->is_closing,
                             memory_order_relaxed)) {
        return tt_error_set(TUTTI_ERR_SHUT_DOWN, "the context is shut down");
    }
    return TUTTI_OK;
}

static void *allocate_output(tt_request *request, size_t bytes)
{
    tutti_handle *handle = request->owner;
    return tt_memory_allocate(handle->context, bytes);
}

/* Does this call exchange counts first? */
static bool is_uneven(const tutti_call *call)
{
    switch (call->collective) {
    case TUTTI_ALLGATHER:
    case TUTTI_GATHER:
        return call->output_counts != NULL || call->input_counts != NULL;
    case TUTTI_SCATTER:
    case TUTTI_ALLTOALL:
        return call->input_counts != NULL || call->output_counts != NULL;
    case TUTTI_REDUCESCATTER:
        return call->input_counts != NULL;
    default:
        return false;
    }
}

static tutti_status check_call(const tutti_call *call)
{
    if (call == NULL || call->struct_bytes != sizeof(tutti_call)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "call: begin with TUTTI_CALL_INIT");
    }
    if (call->device >= 0 || call->stream != NULL) {
        return tt_error_set(TUTTI_ERR_UNSUPPORTED,
                            "device %d: only host memory is supported; set device to -1",
                            call->device);
    }
    if (call->name != NULL && strlen(call->name) > 255) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "name is longer than 255 bytes");
    }
    return TUTTI_OK;
}

static void fill_request(const tutti_call *call, tutti_handle *handle)
{
    const double timeout_s = call->timeout_s > 0.0 ? call->timeout_s : 0.0;
    const bool is_barrier = call->collective == TUTTI_BARRIER;
    handle->request = (tt_request){
        .collective = (tt_collective)call->collective,
        .dtype = is_barrier ? TT_U8 : (tt_dtype)call->dtype,
        .redop = (tt_redop)call->op,
        .set = call->set,
        .root = (uint32_t)call->root,
        .urgency = call->priority,
        .name = handle->name[0] != 0 ? handle->name : NULL,
        .input = is_barrier ? NULL : call->input,
        .output = is_barrier ? NULL : call->output,
        .count = is_barrier ? 0 : call->count,
        .output_capacity = call->output_capacity,
        .input_counts = call->input_counts,
        .output_counts = call->output_counts,
        .is_uneven = is_uneven(call),
        .prescale = call->prescale,
        .postscale = call->postscale,
        .deadline_ns = timeout_s > 0.0 ? (uint64_t)(timeout_s * 1e9) : 0,
        .allocate = call->result_out != NULL ? allocate_output : NULL,
        .finished = tt_drive_finished,
        .owner = handle,
    };
}

tutti_status tt_call_prepare(tutti_context *context, const tutti_call *call, tutti_handle *handle)
{
    const tutti_status status = check_call(call);
    if (status != TUTTI_OK) {
        return status;
    }
    handle->context = context;
    handle->name[0] = 0;
    if (call->name != NULL) {
        memcpy(handle->name, call->name, strlen(call->name) + 1);
    }
    handle->done = call->done;
    handle->done_user = call->done_user;
    handle->result_out = call->result_out;
    handle->is_persistent = false;
    handle->is_abandoned = false;
    handle->has_event = false;
    handle->status = TUTTI_IN_PROGRESS;
    fill_request(call, handle);
    return TUTTI_OK;
}

/* Give the request to the machine: directly with the baton, else through the queue. */
static void submit(tutti_handle *handle)
{
    atomic_store(&handle->state, HANDLE_STARTED);
    (void)tt_queue_push(&handle->context->submitted, &handle->node);
}

static tutti_status result_of(tutti_handle *handle)
{
    if (handle->status != TUTTI_OK) {
        (void)tt_error_set(handle->status, "%s", handle->request.error);
    }
    return handle->status;
}

tutti_status tt_call_run(tutti_context *context, const tutti_call *call, uint64_t salt)
{
    tutti_handle handle;
    atomic_init(&handle.state, HANDLE_IDLE);
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_error_in_callback()) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD, "a callback must not wait for a call");
    }
    status = tt_call_prepare(context, call, &handle);
    if (status != TUTTI_OK) {
        return status;
    }
    handle.request.salt = salt;
    submit(&handle);
    (void)tt_drive_wait(&handle, UINT64_MAX);
    return result_of(&handle);
}

tutti_status tutti_run(tutti_context *context, const tutti_call *call)
{
    return tt_call_run(context, call, 0);
}

/* ---- handles ---- */

static tutti_handle *handle_take(tutti_context *context)
{
    (void)pthread_mutex_lock(&context->handle_lock);
    tutti_handle *handle = context->free_handles;
    if (handle != NULL) {
        context->free_handles = handle->next;
    }
    (void)pthread_mutex_unlock(&context->handle_lock);
    if (handle == NULL) {
        handle = malloc(sizeof(*handle));
    }
    if (handle != NULL) {
        atomic_init(&handle->state, HANDLE_IDLE);
        handle->next = NULL;
    }
    return handle;
}

void tt_call_recycle(tutti_handle *handle)
{
    tutti_context *context = handle->context;
    (void)pthread_mutex_lock(&context->handle_lock);
    handle->next = context->free_handles;
    context->free_handles = handle;
    (void)pthread_mutex_unlock(&context->handle_lock);
}

void tt_call_release_all(tutti_context *context)
{
    while (context->free_handles != NULL) {
        tutti_handle *next = context->free_handles->next;
        free(context->free_handles);
        context->free_handles = next;
    }
}

tutti_status tutti_declare(tutti_context *context, const tutti_call *call,
                           tutti_handle **handle_out)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (handle_out == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle_out is NULL");
    }
    tutti_handle *handle = handle_take(context);
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a handle");
    }
    handle->context = context;
    status = tt_call_prepare(context, call, handle);
    if (status != TUTTI_OK) {
        tt_call_recycle(handle);
        return status;
    }
    handle->is_persistent = true;
    handle->has_event = true;
    handle->status = TUTTI_OK;
    *handle_out = handle;
    return TUTTI_OK;
}

tutti_status tutti_restart(tutti_handle *handle)
{
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle is NULL");
    }
    const tutti_status status = tt_call_check(handle->context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!handle->is_persistent) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "only declared calls can be restarted");
    }
    if (atomic_load(&handle->state) == HANDLE_STARTED) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "the call is still running: wait for it first");
    }
    handle->status = TUTTI_IN_PROGRESS;
    submit(handle);
    tt_drive_notify(handle->context);
    return TUTTI_OK;
}

tutti_status tutti_start(tutti_context *context, const tutti_call *call, tutti_handle **handle_out)
{
    return tutti_start_group(context, call, 1, handle_out);
}

tutti_status tutti_start_group(tutti_context *context, const tutti_call *calls, int call_count,
                               tutti_handle **handles_out)
{
    if (call_count < 1 || calls == NULL || handles_out == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "calls, handles_out or call_count is missing");
    }
    /* All are checked before the first is started: a group starts whole or not at all. */
    for (int i = 0; i < call_count; i++) {
        const tutti_status status = tutti_declare(context, &calls[i], &handles_out[i]);
        if (status != TUTTI_OK) {
            while (i-- > 0) {
                tt_call_recycle(handles_out[i]);
            }
            return status;
        }
    }
    for (int i = 0; i < call_count; i++) {
        handles_out[i]->is_persistent = false;
        handles_out[i]->status = TUTTI_IN_PROGRESS;
        submit(handles_out[i]);
    }
    tt_drive_notify(context);
    return TUTTI_OK;
}

tutti_status tutti_wait(tutti_handle *handle, double timeout_s)
{
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle is NULL");
    }
    const int state = atomic_load(&handle->state);
    if (state == HANDLE_DONE || state == HANDLE_IDLE) {
        return result_of(handle);
    }
    const tutti_status status = tt_call_check(handle->context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_error_in_callback()) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD, "a callback must not wait for a call");
    }
    const uint64_t until_ns = timeout_s < 0.0 || timeout_s > 1e9
                                  ? UINT64_MAX
                                  : tt_clock_ns() + (uint64_t)(timeout_s * 1e9);
    return tt_drive_wait(handle, until_ns) ? result_of(handle) : TUTTI_IN_PROGRESS;
}

tutti_status tutti_poll(tutti_handle *handle)
{
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle is NULL");
    }
    return atomic_load(&handle->state) == HANDLE_STARTED ? TUTTI_IN_PROGRESS : result_of(handle);
}

const char *tutti_handle_error(const tutti_handle *handle)
{
    const bool has_failed =
        handle != NULL && atomic_load(&((tutti_handle *)(uintptr_t)handle)->state) == HANDLE_DONE &&
        handle->status < 0;
    return has_failed ? handle->request.error : "";
}

tutti_status tutti_cancel(tutti_handle *handle)
{
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle is NULL");
    }
    tutti_context *context = handle->context;
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (atomic_load(&handle->state) != HANDLE_STARTED) {
        return result_of(handle);
    }
    tt_drive_acquire(context);
    tt_drive_drain(context);
    const bool is_cancelled =
        handle->request.op != NULL && tt_control_cancel(context->control, &handle->request);
    tt_drive_release(context);
    tt_drive_notify(context); /* it tells the owner */
    return is_cancelled ? TUTTI_OK : TUTTI_IN_PROGRESS;
}

void tutti_handle_free(tutti_handle *handle)
{
    if (handle == NULL) {
        return;
    }
    if (atomic_load(&handle->state) == HANDLE_STARTED) {
        if (tt_error_in_callback()) {
            handle->is_abandoned = true;
            return;
        }
        if (tt_call_check(handle->context) != TUTTI_OK) {
            return;
        }
        (void)tt_drive_wait(handle, UINT64_MAX);
    }
    tt_call_recycle(handle);
}
