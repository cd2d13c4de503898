/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c - handles: start, wait, poll, cancel, persistent calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/enter.h"
#include "api/store/store_calls.h"
#include "base/assert.h"
#include "kernel/hash64.h"

_Static_assert((int)TUTTI_BARRIER == (int)TT_BARRIER, "collectives are public ABI");
_Static_assert((int)TUTTI_BOOL == (int)TT_BOOL, "dtypes are public ABI");
_Static_assert((int)TUTTI_ADASUM == (int)TT_ADASUM, "ops are public ABI");
_Static_assert((int)TUTTI_ERR_WRONG_THREAD == (int)TT_ERR_WRONG_THREAD, "status is public ABI");

enum { CALL_BYTES_SECOND = offsetof(tutti_call, ndim) }; /* with a group; see shape.c */

#define FLAGS_KNOWN                                                                     \
    (TUTTI_BY_ACTIVE | TUTTI_ACTIVATION | TUTTI_URGENT | TUTTI_ALONE | TUTTI_EXPECTED | \
     TUTTI_GRADIENT)

static bool has_group(const tutti_call *call)
{
    return call->struct_bytes >= CALL_BYTES_SECOND && call->group != NULL && call->group[0] != 0;
}

static unsigned flags_of(const tutti_call *call)
{
    return call->struct_bytes >= CALL_BYTES_SECOND ? call->flags : 0;
}

/* Callers built with another header have elements of another length. */
static const tutti_call *call_at(const tutti_call *calls, int index)
{
    return (const void *)((const uint8_t *)calls + (size_t)index * calls->struct_bytes);
}

tutti_status tt_call_check(const tutti_context *context)
{
    tt_error_about(context);
    if (context == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "context is NULL; call tutti_init first");
    }
    if (atomic_load_explicit(&((tutti_context *)(uintptr_t)context)->is_forked,
                             memory_order_relaxed)) {
        return tt_error_set(TUTTI_ERR_FORKED, "the context belongs to the parent process; a forked "
                                              "child must call tutti_init itself");
    }
    if (atomic_load(&((tutti_context *)(uintptr_t)context)->is_closing)) {
        return tt_error_set(
            TUTTI_ERR_SHUT_DOWN,
            "the context is being shut down; make no call on it after tutti_shutdown");
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

static void object(tt_request *request, tutti_status status, const char *text)
{
    request->objection = (tt_status)status;
    (void)snprintf(request->error, sizeof(request->error), "%s", text);
}

/* Arguments that the machine never sees: this rank objects, but the call keeps its place in the
 * order. (No peer can wait for a name that is too long: such a call is never started.) */
static void check_call(const tutti_call *call, tutti_handle *handle)
{
    if (call->device >= 0 || call->stream != NULL) {
        object(&handle->request, TUTTI_ERR_UNSUPPORTED,
               "device: only host memory is supported; set it to -1 and stream to NULL");
    } else if (has_group(call) && (call->name == NULL || call->name[0] == 0)) {
        object(&handle->request, TUTTI_ERR_BAD_ARGUMENT,
               "group is set, but name is not; name every call of a group");
    } else if (call->timeout_s < 0.0 || call->timeout_s != call->timeout_s) {
        object(&handle->request, TUTTI_ERR_BAD_ARGUMENT,
               "timeout_s is negative or not a number; give seconds, or 0 for TUTTI_TIMEOUT");
    } else if (call->priority > TUTTI_PRIORITY_MAX || call->priority < -TUTTI_PRIORITY_MAX) {
        object(&handle->request, TUTTI_ERR_BAD_ARGUMENT,
               "priority is out of range; use -16777215 to 16777215 (TUTTI_PRIORITY_MAX)");
    } else if ((flags_of(call) & ~FLAGS_KNOWN) != 0) {
        char text[64];
        (void)snprintf(text, sizeof(text), "flags 0x%x are unknown to this library; clear them",
                       flags_of(call) & ~FLAGS_KNOWN);
        object(&handle->request, TUTTI_ERR_BAD_ARGUMENT, text);
    } else if (!tt_call_tag_is_good(call)) {
        object(
            &handle->request, TUTTI_ERR_BAD_ARGUMENT,
            "tag is out of range, or not of a send or receive; use 0 to 16777215 (TUTTI_TAG_MAX)");
    } else if (!tt_call_shape_is_good(call)) {
        object(&handle->request, TUTTI_ERR_BAD_ARGUMENT,
               "ndim is not 0 to 64, or dims is NULL; give one length per dimension");
    }
}

/* Class before priority. */
static int32_t urgency_of(const tutti_call *call)
{
    const unsigned flags = flags_of(call);
    const bool is_urgent = (flags & TUTTI_URGENT) != 0;
    const bool is_activation = (flags & TUTTI_ACTIVATION) != 0;
    const int32_t base = is_activation ? TT_URGENCY_ACTIVATION : 0;
    const bool is_sane =
        call->priority <= TUTTI_PRIORITY_MAX && call->priority >= -TUTTI_PRIORITY_MAX;
    return (is_urgent ? TT_URGENCY_MESSAGE : base) + (is_sane ? call->priority : 0);
}

/* Field by field: the error's text is long and need not be cleared. */
static void fill_request(const tutti_call *call, tutti_handle *handle)
{
    const bool is_barrier = call->collective == TUTTI_BARRIER;
    tt_request *request = &handle->request;
    request->collective = (tt_collective)call->collective;
    request->dtype = is_barrier ? TT_U8 : (tt_dtype)call->dtype;
    request->redop = (tt_redop)call->op;
    request->set = call->set;
    request->root = (uint32_t)call->root;
    request->tag = tt_call_tag(call);
    request->source_out = tt_call_source(call);
    handle->urgency = request->urgency = urgency_of(call);
    request->name = handle->name[0] != 0 ? handle->name : NULL;
    request->group = handle->group[0] != 0 && handle->name[0] != 0 ? handle->group : NULL;
    request->group_size = has_group(call) && call->group_size > 0 ? (uint32_t)call->group_size : 0;
    request->is_join = request->is_apart = false;
    const unsigned flags = flags_of(call);
    request->is_by_active = (flags & TUTTI_BY_ACTIVE) != 0;
    request->is_alone = (flags & TUTTI_ALONE) != 0;
    request->is_expected = (flags & TUTTI_EXPECTED) != 0 && call->output_counts != NULL;
    request->input = is_barrier ? NULL : call->input;
    request->output = is_barrier ? NULL : call->output;
    request->count = is_barrier ? 0 : call->count;
    request->output_capacity = call->output_capacity;
    request->input_counts = call->input_counts;
    request->output_counts = call->output_counts;
    request->is_uneven = is_uneven(call);
    request->salt = 0;
    request->objection = TT_OK;
    request->prescale = call->prescale;
    request->postscale = call->postscale;
    request->deadline_ns = tt_seconds_to_ns(call->timeout_s);
    request->allocate = call->result_out != NULL ? allocate_output : NULL;
    request->finished = tt_drive_finished;
    request->owner = handle;
    request->status = TT_OK;
    request->has_strays = false;
    request->error[0] = 0;
    request->op = NULL;
    request->named = request->name_hint = NULL;
    request->is_identity = request->is_lost = false;
    request->program = NULL;
    request->key = 0;
    request->recipe = NULL;
}

static void copy_name(char *target, size_t room, const char *name)
{
    const size_t length = name != NULL ? strnlen(name, room - 1) : 0;
    if (length > 0) {
        memcpy(target, name, length);
    }
    target[length] = 0;
}

tutti_status tt_call_prepare(tutti_context *context, const tutti_call *call, tutti_handle *handle)
{
    if (call == NULL || !tt_call_is_known(call)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "call is NULL or not initialised; begin with TUTTI_CALL_INIT");
    }
    if (call->name != NULL && strnlen(call->name, sizeof(handle->name)) == sizeof(handle->name)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "name is longer than 255 bytes; shorten it");
    }
    if (has_group(call) && strnlen(call->group, sizeof(handle->group)) == sizeof(handle->group)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "group is longer than 255 bytes; shorten it");
    }
    handle->context = context;
    copy_name(handle->name, sizeof(handle->name), call->name);
    copy_name(handle->group, sizeof(handle->group), has_group(call) ? call->group : NULL);
    handle->done = call->done;
    handle->done_user = call->done_user;
    handle->result_out = call->result_out;
    handle->output = call->output;
    handle->is_persistent = false;
    handle->has_event = false;
    handle->status = TUTTI_IN_PROGRESS;
    handle->store_call = NULL;
    handle->is_by_owners = false;
    fill_request(call, handle);
    tt_call_shape(call, &handle->request);
    check_call(call, handle);
    const bool is_gradient = (flags_of(call) & TUTTI_GRADIENT) != 0;
    tt_call_choose_codec(call, handle, is_gradient);
    if (context->has_sums) {
        tt_sums_choose(handle, is_gradient);
    }
    return TUTTI_OK;
}

/* Before each start. */
static void renew(tutti_handle *handle, tt_handle_state state)
{
    if (handle->result_out != NULL && handle->output == NULL) {
        handle->request.output = NULL; /* not that of an earlier start */
    }
    handle->status = TUTTI_IN_PROGRESS;
    atomic_store(&handle->state, state);
}

/* Put the request into the queue. */
static void submit(tutti_handle *handle, tt_handle_state state)
{
    renew(handle, state);
    handle->start = atomic_load_explicit(&handle->context->starts, memory_order_relaxed);
    (void)tt_queue_push(&handle->context->submitted, &handle->node);
}

/* Later errors of this thread are stored for this context. */
static tutti_status enter(tutti_context *context)
{
    tt_error_about(context);
    return tt_enter(context);
}

tutti_status tt_call_run(tutti_context *context, const tutti_call *call, const tt_call_extra *extra)
{
    tutti_handle handle;
    atomic_init(&handle.state, HANDLE_IDLE);
    atomic_init(&handle.sleepers, 0);
    if (tt_error_in_callback() && tt_call_check(context) == TUTTI_OK) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD,
                            "a callback must not wait for a call; start it and return");
    }
    tutti_status status = enter(context);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_call_prepare(context, call, &handle);
    if (status == TUTTI_OK) {
        if (extra != NULL) {
            handle.request.salt = extra->salt;
            handle.request.about = extra->about;
            if (extra->shape != NULL) {
                memcpy(handle.request.shape, extra->shape, sizeof(handle.request.shape));
            }
            handle.request.is_join = extra->is_join;
            if (extra->is_join && call->set == 0 && context->has_sums) {
                handle.is_by_owners = true;
                copy_name(handle.name, sizeof(handle.name), "join"); /* see submit of drive.c */
            }
            if (extra->objection < 0) {
                object(&handle.request, extra->objection, extra->text);
            }
        }
        handle.request.is_waited = true;
        atomic_store_explicit(&handle.state, HANDLE_STARTED, memory_order_relaxed);
        const uint64_t since_ns = tt_wait_begin(context);
        (void)tt_drive_run(&handle, UINT64_MAX);
        tt_wait_end(context, since_ns);
        status = tt_call_result(&handle);
        if (extra != NULL && extra->last_out != NULL && status == TUTTI_OK) {
            *extra->last_out = (int)handle.request.root;
        }
    }
    tt_leave(context);
    return status;
}

tutti_status tutti_run(tutti_context *context, const tutti_call *call)
{
    return tt_call_run(context, call, NULL);
}

tutti_status tutti_refuse(tutti_context *context, const tutti_call *call, const char *why)
{
    const tt_call_extra extra = {.objection = TUTTI_ERR_BAD_ARGUMENT,
                                 .text = why != NULL ? why : "refused"};
    return tt_call_run(context, call, &extra);
}

/* ---- handles ---- */

/* Checks of this rank before the start; the text is the thread's last error. */
static tutti_status check_request(tutti_context *context, const tt_request *request)
{
    tt_text text = {0};
    tt_set_place place;
    tt_status status = request->objection;
    const char *what = tt_request_what(request);
    if (!tt_set_place_find(context, request->set, &place)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "process set %u does not exist", request->set);
    }
    if (place.self == UINT32_MAX) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "not a member of process set %u", request->set);
    }
    if (status < 0) {
        tt_text_add(&text, "%s", request->error);
    } else {
        status = tt_request_check(request, place.self, place.size, &text);
    }
    return status == TT_OK ? TUTTI_OK
                           : tt_error_set((tutti_status)status, "rank %d: %s: %s", context->rank,
                                          what, text.bytes);
}

/* `key`: see tt_request. */
static tutti_status declare(tutti_context *context, const tutti_call *call, uint64_t key,
                            tutti_handle **handle_out)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (handle_out == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle_out is NULL");
    }
    tutti_handle *handle = tt_call_take(context);
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a handle");
    }
    status = tt_call_prepare(context, call, handle);
    if (status == TUTTI_OK) {
        handle->request.key = handle->request.name == NULL ? key : 0;
        status = check_request(context, &handle->request);
    }
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

tutti_status tutti_declare(tutti_context *context, const tutti_call *call,
                           tutti_handle **handle_out)
{
    const uint64_t key = context != NULL ? atomic_fetch_add(&context->declared, 1) + 1 : 0;
    return declare(context, call, key, handle_out);
}

/* Enter with a handle that can be started again; on TUTTI_OK the caller must leave. */
static tutti_status enter_again(tutti_handle *handle)
{
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle is NULL");
    }
    tutti_status status = enter(handle->context);
    if (status != TUTTI_OK) {
        return status;
    }
    const int state = atomic_load(&handle->state);
    if (!handle->is_persistent) {
        status = tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                              "the handle is not of a declared call; make it with tutti_declare");
    } else if (state != HANDLE_IDLE && state != HANDLE_DONE) {
        status = tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "the call is in flight; wait for it first");
    }
    if (status != TUTTI_OK) {
        tt_leave(handle->context);
    }
    return status;
}

void tt_call_submit(tutti_handle *handle)
{
    submit(handle, HANDLE_STARTED);
    tt_drive_started(handle->context);
}

/* Its buffers are set; leaves. */
static tutti_status start_again(tutti_handle *handle)
{
    handle->has_event = true;
    tt_call_submit(handle);
    tt_leave(handle->context);
    return TUTTI_OK;
}

tutti_status tutti_restart(tutti_handle *handle)
{
    const tutti_status status = enter_again(handle);
    return status == TUTTI_OK ? start_again(handle) : status;
}

tutti_status tutti_restart_at(tutti_handle *handle, const void *input, void *output)
{
    const tutti_status status = enter_again(handle);
    if (status != TUTTI_OK) {
        return status;
    }
    handle->request.input = input;
    handle->request.output = handle->output = output;
    return start_again(handle);
}

tutti_status tutti_rerun(tutti_handle *handle)
{
    tutti_status status = enter_again(handle);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_error_in_callback()) {
        tt_leave(handle->context);
        return tt_error_set(TUTTI_ERR_WRONG_THREAD,
                            "a callback must not wait for a call; start it and return");
    }
    handle->has_event = false; /* a call that is waited for signals no event */
    renew(handle, HANDLE_STARTED);
    const uint64_t since_ns = tt_wait_begin(handle->context);
    (void)tt_drive_run(handle, UINT64_MAX);
    tt_wait_end(handle->context, since_ns);
    status = tt_call_result(handle);
    tt_leave(handle->context);
    return status;
}

tutti_status tutti_run_for(tutti_context *context, const tutti_call *call, double timeout_s,
                           tutti_handle **handle_out)
{
    if (tt_error_in_callback() && tt_call_check(context) == TUTTI_OK) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD,
                            "a callback must not wait for a call; start it and return");
    }
    tutti_status status = enter(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tutti_handle *handle = handle_out != NULL ? tt_call_take(context) : NULL;
    if (handle == NULL) {
        tt_leave(context);
        return handle_out == NULL ? tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle_out is NULL")
                                  : tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a handle");
    }
    *handle_out = NULL;
    status = tt_call_prepare(context, call, handle);
    if (status == TUTTI_OK) {
        handle->has_event = true;
        renew(handle, HANDLE_STARTED);
        const uint64_t since_ns = tt_wait_begin(context);
        const bool is_over = tt_drive_run(handle, tt_clock_ns() + tt_seconds_to_ns(timeout_s));
        tt_wait_end(context, since_ns);
        status = is_over ? tt_call_result(handle) : TUTTI_IN_PROGRESS;
    }
    if (status == TUTTI_IN_PROGRESS) {
        *handle_out = handle;
    } else {
        tt_call_recycle(handle);
    }
    tt_leave(context);
    return status;
}

tutti_status tutti_start(tutti_context *context, const tutti_call *call, tutti_handle **handle_out)
{
    return tutti_start_group(context, call, 1, handle_out);
}

/* Named calls of one set that are started together are a group; its name is made of theirs and does
 * not depend on their order. False: not a group. */
static bool group_name(const tutti_call *calls, int count, char *name, size_t room)
{
    const char *first = calls->name;
    uint64_t hash = 0;
    if (count < 2) {
        return false; /* making a name costs more than the rest of a submission */
    }
    for (int i = 0; i < count; i++) {
        const tutti_call *call = call_at(calls, i);
        if (call->name == NULL || call->name[0] == 0 || has_group(call) ||
            call->set != calls->set || call->collective == TUTTI_SEND ||
            call->collective == TUTTI_RECEIVE) {
            return false;
        }
        first = strcmp(call->name, first) < 0 ? call->name : first;
        hash += tt_hash64(call->name, strlen(call->name), (uint64_t)count);
    }
    (void)snprintf(name, room, "%.200s and %d more, %016llx", first, count - 1,
                   (unsigned long long)hash);
    return true;
}

static void join_group(tutti_handle *handle, const char *name, int count)
{
    copy_name(handle->group, sizeof(handle->group), name);
    handle->request.group = handle->group;
    handle->request.group_size = (uint32_t)count;
}

/* The last error without the prefix that the machine adds: rank and collective. */
static void bare_error(const tutti_context *context, const tutti_call *call, char *text,
                       size_t room)
{
    char before[64];
    const int bytes = snprintf(before, sizeof(before), "rank %d: %s: ", context->rank,
                               tt_collective_name((tt_collective)call->collective));
    const char *words = tutti_last_error(context);
    const bool has_it = bytes > 0 && strncmp(words, before, (size_t)bytes) == 0;
    (void)snprintf(text, room, "%s", words + (has_it ? bytes : 0));
}

/* Take the group's places in the order with calls that have no owner and fail on all ranks. A call
 * without memory for a handle runs at once on the stack, which takes no time: it fails as it
 * starts. */
static void object_all(tutti_context *context, const tutti_call *calls, int call_count,
                       tutti_status status)
{
    char whole[TT_ERROR_BYTES], text[TT_ERROR_BYTES];
    char group[256];
    const bool is_group = group_name(calls, call_count, group, sizeof(group));
    (void)snprintf(whole, sizeof(whole), "%s", tutti_last_error(context));
    bare_error(context, calls, text, sizeof(text));
    for (int i = 0; i < call_count; i++) {
        tutti_handle own;
        tutti_handle *handle = tt_call_take(context);
        const bool is_own = handle == NULL;
        handle = is_own ? &own : handle;
        (void)tt_call_prepare(context, call_at(calls, i), handle);
        handle->done = NULL;
        if (is_group && !is_own) {
            join_group(handle, group, call_count);
        }
        object(&handle->request, status, text);
        submit(handle, is_own ? HANDLE_STARTED : HANDLE_ABANDONED);
        if (is_own) {
            (void)tt_drive_wait(handle, UINT64_MAX);
        }
    }
    tt_drive_notify(context);
    (void)tt_error_set(status, "%s", whole);
}

/* Declare all calls; the error of the first invalid one. */
static tutti_status prepare_group(tutti_context *context, const tutti_call *calls, int call_count,
                                  tutti_handle **handles_out)
{
    for (int i = 0; i < call_count; i++) {
        const tutti_status status = declare(context, call_at(calls, i), 0, &handles_out[i]);
        if (status != TUTTI_OK) {
            while (i-- > 0) {
                tt_call_recycle(handles_out[i]);
            }
            return status;
        }
    }
    return TUTTI_OK;
}

tutti_status tutti_start_group(tutti_context *context, const tutti_call *calls, int call_count,
                               tutti_handle **handles_out)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (call_count < 1 || calls == NULL || handles_out == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "calls or handles_out is NULL, or call_count is below 1");
    }
    for (int i = 0; i < call_count; i++) { /* an unreadable call cannot be reported to peers */
        const tutti_call *call = call_at(calls, i);
        if (call->struct_bytes != calls->struct_bytes || !tt_call_is_known(call)) {
            return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                                "call is NULL or not initialised; begin with TUTTI_CALL_INIT");
        }
    }
    status = enter(context);
    if (status != TUTTI_OK) {
        return status;
    }
    /* All are checked before the first is started: a group starts as a whole or not at all. */
    status = prepare_group(context, calls, call_count, handles_out);
    if (status != TUTTI_OK) {
        object_all(context, calls, call_count, status);
    } else {
        char group[256];
        const bool is_group = group_name(calls, call_count, group, sizeof(group));
        for (int i = 0; i < call_count; i++) {
            if (is_group) {
                join_group(handles_out[i], group, call_count);
            }
            handles_out[i]->is_persistent = false;
            submit(handles_out[i], HANDLE_STARTED);
        }
        tt_drive_started(context);
    }
    tt_leave(context);
    return status;
}

static bool is_over(const tutti_handle *handle)
{
    const int state = atomic_load(&((tutti_handle *)(uintptr_t)handle)->state);
    return state == HANDLE_DONE || state == HANDLE_IDLE;
}

int tt_call_find_over(tutti_handle *const *handles, int count)
{
    for (int i = 0; i < count; i++) {
        if (handles[i] != NULL && is_over(handles[i])) {
            return i;
        }
    }
    return -1;
}

tutti_status tt_call_await(tutti_context *context, tutti_handle *const *handles, int count,
                           double timeout_s, int *index_out)
{
    *index_out = -1;
    if (tt_error_in_callback() && tt_call_check(context) == TUTTI_OK) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD,
                            "a callback must not wait for a call; start it and return");
    }
    tutti_status status = enter(context);
    if (status != TUTTI_OK) {
        return status;
    }
    const uint64_t until_ns = timeout_s < 0.0 || timeout_s > 1e9
                                  ? UINT64_MAX
                                  : tt_clock_ns() + tt_seconds_to_ns(timeout_s);
    const uint64_t since_ns = tt_wait_begin(context);
    if (tt_drive_wait_any(context, handles, count, until_ns)) {
        *index_out = tt_call_find_over(handles, count);
    }
    /* Before tt_leave: shutdown frees the handles when no thread is inside. */
    status = *index_out >= 0 ? tt_call_result(handles[*index_out]) : TUTTI_IN_PROGRESS;
    tt_wait_end(context, since_ns);
    tt_leave(context);
    return status;
}

tutti_status tutti_wait(tutti_handle *handle, double timeout_s)
{
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle is NULL");
    }
    if (is_over(handle)) {
        tt_drive_note_over(handle);
        return tt_call_result(handle);
    }
    int index;
    return tt_call_await(handle->context, &handle, 1, timeout_s, &index);
}

tutti_status tutti_poll(tutti_handle *handle)
{
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle is NULL");
    }
    return atomic_load(&handle->state) == HANDLE_STARTED ? TUTTI_IN_PROGRESS
                                                         : tt_call_result(handle);
}

const char *tutti_handle_error(const tutti_handle *handle)
{
    if (handle == NULL) {
        return "";
    }
    const int state = atomic_load(&((tutti_handle *)(uintptr_t)handle)->state);
    const bool is_told = state == HANDLE_DONE || state == HANDLE_CALLING;
    return is_told && handle->status < 0 ? handle->request.error : "";
}

tutti_status tutti_cancel(tutti_handle *handle)
{
    if (handle == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handle is NULL");
    }
    tutti_context *context = handle->context;
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (atomic_load(&handle->state) != HANDLE_STARTED) { /* over: too late, or cancelled before */
        return handle->status == TUTTI_ERR_CANCELLED ? TUTTI_OK : TUTTI_IN_PROGRESS;
    }
    status = enter(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_drive_acquire(context);
    tt_drive_drain(context);
    const bool is_cancelled = atomic_load(&handle->state) == HANDLE_STARTED &&
                              handle->store_call == NULL &&
                              (!handle->is_by_owners || handle->is_with_workers) &&
                              tt_control_cancel(context->control, &handle->request);
    tt_drive_deliver(context);
    tt_drive_release(context);
    tt_leave(context);
    return is_cancelled ? TUTTI_OK : TUTTI_IN_PROGRESS;
}

void tutti_handle_free(tutti_handle *handle)
{
    if (handle == NULL) {
        return;
    }
    tutti_context *context = handle->context;
    if (!is_over(handle) && tt_error_in_callback()) { /* its own call, or one in flight */
        int state = atomic_load(&handle->state);
        while (state == HANDLE_STARTED || state == HANDLE_CALLING) {
            if (atomic_compare_exchange_weak(&handle->state, &state, HANDLE_ABANDONED)) {
                return;
            }
        }
    }
    if (enter(context) != TUTTI_OK) {
        return; /* the context frees it */
    }
    if (!is_over(handle)) {
        (void)tt_drive_wait(handle, UINT64_MAX);
    }
    if (handle->request.key != 0 && handle->request.program != NULL) {
        tt_codec_forget(context, &handle->request);
    }
    tt_call_recycle(handle);
    tt_leave(context);
}
