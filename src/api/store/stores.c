/* SPDX-License-Identifier: Apache-2.0
 *
 * stores.c - calls on stores: they go the way of other calls, in a handle, up to the machine.
 *
 * What such a call has of its own is kept with the handle, so that a handle that is used again
 * needs no memory. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/enter.h"
#include "api/raise.h"
#include "api/store/store_calls.h"
#include "base/base.h"
#include "tutti/store.h"

/* Kept with a handle. */
struct tt_store_room {
    tt_sync_request request;
    tutti_handle *handle;
    uint64_t *clock_out;
    uint32_t *store_out;
    int *counted_out;
    char name[TT_SYNC_NAME_BYTES];
};

/* ---- from and to the machine ---- */

static void copy_text(char *target, size_t room, const char *text)
{
    (void)snprintf(target, room, "%s", text);
}

/* tt_sync_request.finished */
static void finished(tt_sync_request *request)
{
    tt_store_room *room = request->owner;
    tt_request *outer = &room->handle->request;
    outer->status = request->status;
    copy_text(outer->error, sizeof(outer->error), request->error);
    if (request->verb == TT_STORE_CLOCK && room->clock_out != NULL && request->status == TT_OK) {
        *room->clock_out = request->clock;
    }
    if (request->verb == TT_STORE_READ && request->status == TT_OK) {
        *room->clock_out = request->step;
    }
    if (room->counted_out != NULL && request->status == TT_OK) {
        *room->counted_out = request->is_uncounted ? 0 : 1;
    }
    if (room->store_out != NULL) {
        *room->store_out = request->store;
    }
    tt_drive_finished(outer);
}

void tt_store_submit(tutti_handle *handle)
{
    tt_sync_submit(handle->context->sync, &handle->store_call->request);
}

void tt_store_room_release(tutti_handle *handle)
{
    free(handle->store_room);
}

/* ---- calls ---- */

/* A handle for such a call; NULL: no memory. */
static tutti_handle *make_call(tutti_context *context, const tt_sync_request *wanted)
{
    const tutti_call plain = TUTTI_CALL_INIT;
    tutti_handle *handle = tt_call_take(context);
    if (handle == NULL || tt_call_prepare(context, &plain, handle) != TUTTI_OK) {
        return NULL;
    }
    if (handle->store_room == NULL) {
        handle->store_room = malloc(sizeof(*handle->store_room));
    }
    if (handle->store_room == NULL) {
        tt_call_recycle(handle);
        return NULL;
    }
    tt_store_room *room = handle->store_room;
    room->request = *wanted;
    room->handle = handle;
    room->clock_out = NULL;
    room->store_out = NULL;
    room->counted_out = NULL;
    copy_text(room->name, sizeof(room->name), wanted->name != NULL ? wanted->name : "");
    room->request.name = room->name;
    room->request.owner = room;
    room->request.finished = finished;
    copy_text(handle->name, sizeof(handle->name), "store"); /* see submit of drive.c */
    handle->store_call = room;
    return handle;
}

/* Enter a call that waits. */
static tutti_status enter_waiting(tutti_context *context)
{
    if (tt_error_in_callback() && tt_call_check(context) == TUTTI_OK) {
        return tt_error_set(TUTTI_ERR_WRONG_THREAD,
                            "a callback must not wait for a call; start it and return");
    }
    tt_error_about(context);
    return tt_enter(context);
}

/* Make the call and wait for it. */
tutti_status tt_store_run(tutti_context *context, const tt_sync_request *wanted,
                          uint64_t *clock_out, uint32_t *store_out)
{
    tutti_status status = enter_waiting(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tutti_handle *handle = make_call(context, wanted);
    if (handle == NULL) {
        tt_leave(context);
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a handle");
    }
    handle->store_call->clock_out = clock_out;
    handle->store_call->store_out = store_out;
    atomic_store_explicit(&handle->state, HANDLE_STARTED, memory_order_relaxed);
    const uint64_t since_ns = tt_wait_begin(context);
    (void)tt_drive_run(handle, UINT64_MAX);
    tt_wait_end(context, since_ns);
    status = tt_call_result(handle);
    tt_call_recycle(handle);
    tt_leave(context);
    return status;
}

tutti_status tt_store_check(const tutti_store *store)
{
    if (store == NULL) {
        return tt_error_raise(TUTTI_ERR_BAD_ARGUMENT, "store is NULL; call tutti_store_open first");
    }
    return TUTTI_OK;
}

static tutti_status check_name(const tutti_store *store, const char *name)
{
    const tutti_status status = tt_store_check(store);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_error_about(store->context);
    if (name == NULL || name[0] == 0 || strnlen(name, TT_SYNC_NAME_BYTES) == TT_SYNC_NAME_BYTES) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "name is NULL, empty or longer than 255 bytes; name the tensor");
    }
    return TUTTI_OK;
}

/* ---- life ---- */

/* Without servers the machine of stores is attached by the first one; a frame for it must not come
 * before. */
static tutti_status attach_first(tutti_context *context)
{
    tt_text why = {0};
    tutti_status status = enter_waiting(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_drive_acquire(context);
    const bool is_first = context->sync == NULL;
    if (is_first) {
        status = (tutti_status)tt_store_attach(context, &why);
    }
    tt_drive_release(context);
    tt_leave(context);
    if (status != TUTTI_OK) {
        return tt_error_set(status, "%s", why.bytes);
    }
    return is_first ? tutti_barrier(context) : TUTTI_OK;
}

tutti_status tutti_store_open(tutti_context *context, const tutti_store_config *config,
                              tutti_store **store_out)
{
    const tutti_store_config plain = TUTTI_STORE_CONFIG_INIT;
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    config = config != NULL ? config : &plain;
    if (store_out == NULL || !tt_struct_is_known(config, config->struct_bytes, sizeof(*config))) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "store_out is NULL, or config is not initialised; begin with "
                            "TUTTI_STORE_CONFIG_INIT");
    }
    tutti_store *store = malloc(sizeof(*store));
    if (store == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a store");
    }
    *store = (tutti_store){.context = context,
                           .is_sum = config->update == NULL || strcmp(config->update, "sum") == 0,
                           .has_quorum =
                               config->policy != NULL && strncmp(config->policy, "quorum:", 7) == 0,
                           .servers = INT_MAX,
                           .tensors_lock = PTHREAD_MUTEX_INITIALIZER};
    status = tt_store_remember(store, config)
                 ? attach_first(context)
                 : tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a store");
    uint8_t *may_own = NULL;
    if (status == TUTTI_OK) {
        status = tt_store_meet(store, &may_own);
    }
    if (status == TUTTI_OK) {
        const tt_sync_request wanted = {.verb = TT_STORE_OPEN,
                                        .may_own = may_own,
                                        .policy = config->policy != NULL ? config->policy : "bulk",
                                        .update = config->update != NULL ? config->update : "sum",
                                        .codec = config->codec};
        status = tt_store_run(context, &wanted, NULL, &store->number);
    }
    free(may_own);
    if (status != TUTTI_OK) {
        tt_store_free(store);
        return status;
    }
    *store_out = store;
    return TUTTI_OK;
}

tutti_status tt_store_open_sums(tutti_context *context)
{
    const tt_sync_request wanted = {
        .verb = TT_STORE_OPEN, .policy = "bulk", .update = "sum", .is_sums = true};
    const tutti_status status = attach_first(context);
    return status == TUTTI_OK ? tt_store_run(context, &wanted, NULL, NULL) : status;
}

tutti_status tutti_store_close(tutti_store *store)
{
    tutti_status status = tt_store_check(store);
    if (status == TUTTI_OK) {
        const tt_sync_request wanted = {.verb = TT_STORE_CLOSE, .store = store->number};
        status = tt_store_run(store->context, &wanted, NULL, NULL);
    }
    if (status != TUTTI_ERR_BAD_ARGUMENT && status != TUTTI_ERR_WRONG_THREAD) {
        tt_store_free(store);
    }
    return status;
}

/* `wanted` lacks the store; its type may be none. */
static tutti_status add(tutti_store *store, const tt_sync_request *wanted)
{
    tt_sync_request request = *wanted;
    if (!tt_dtype_is_valid((int)wanted->dtype)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "dtype %d is unknown", (int)wanted->dtype);
    }
    if (wanted->input == NULL && store->context->rank == 0 && wanted->count > 0 && !store->is_sum) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "first is NULL on worker 0, whose first value counts; pass it");
    }
    request.store = store->number;
    const tutti_status added = tt_store_run(store->context, &request, NULL, NULL);
    return added == TUTTI_OK ? tt_store_note(store, &request) : added;
}

tutti_status tutti_store_add(tutti_store *store, const char *name, const void *first, size_t count,
                             tutti_dtype dtype)
{
    const tutti_status status = check_name(store, name);
    const tt_sync_request wanted = {.verb = TT_STORE_ADD,
                                    .name = name,
                                    .input = first,
                                    .dtype = (tt_dtype)dtype,
                                    .count = count};
    return status == TUTTI_OK ? add(store, &wanted) : status;
}

tutti_status tutti_store_add_table(tutti_store *store, const char *name, const void *first,
                                   size_t rows, size_t row_elements, tutti_dtype dtype)
{
    const tutti_status status = check_name(store, name);
    if (status != TUTTI_OK) {
        return status;
    }
    if (row_elements == 0 || row_elements > UINT32_MAX || rows > SIZE_MAX / row_elements) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "table '%s' has %zu rows of %zu elements; use rows of 2 bytes to "
                            "256 KiB",
                            name, rows, row_elements);
    }
    const tt_sync_request wanted = {.verb = TT_STORE_ADD,
                                    .name = name,
                                    .input = first,
                                    .dtype = (tt_dtype)dtype,
                                    .count = rows * row_elements,
                                    .row_elements = (uint32_t)row_elements};
    return add(store, &wanted);
}

/* ---- pushes and pulls ---- */

/* `wanted` lacks the store. */
static tutti_status run_on(tutti_store *store, const tt_sync_request *wanted)
{
    tt_sync_request request = *wanted;
    const tutti_status status = check_name(store, wanted->name);
    if (status != TUTTI_OK) {
        return status;
    }
    if (store->has_quorum && wanted->verb != TT_STORE_PULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "under policy quorum a push ends with its iteration; use "
                            "tutti_store_start, then tutti_store_clock, then wait for it");
    }
    request.store = store->number;
    return tt_store_run(store->context, &request, NULL, NULL);
}

tutti_status tutti_store_push(tutti_store *store, const char *name, const void *values)
{
    const tt_sync_request wanted = {.verb = TT_STORE_PUSH, .name = name, .input = values};
    return run_on(store, &wanted);
}

tutti_status tutti_store_pull(tutti_store *store, const char *name, void *values)
{
    const tt_sync_request wanted = {.verb = TT_STORE_PULL, .name = name, .output = values};
    return run_on(store, &wanted);
}

tutti_status tutti_store_push_pull(tutti_store *store, const char *name, const void *values,
                                   void *result)
{
    const tt_sync_request wanted = {
        .verb = TT_STORE_PUSH_PULL, .name = name, .input = values, .output = result};
    return run_on(store, &wanted);
}

tutti_status tutti_store_push_rows(tutti_store *store, const char *name, const uint64_t *rows,
                                   size_t count, const void *values)
{
    const tt_sync_request wanted = {.verb = TT_STORE_PUSH,
                                    .name = name,
                                    .input = values,
                                    .is_rows = true,
                                    .rows = rows,
                                    .row_count = count};
    return run_on(store, &wanted);
}

tutti_status tutti_store_pull_rows(tutti_store *store, const char *name, const uint64_t *rows,
                                   size_t count, void *values)
{
    const tt_sync_request wanted = {.verb = TT_STORE_PULL,
                                    .name = name,
                                    .output = values,
                                    .is_rows = true,
                                    .rows = rows,
                                    .row_count = count};
    return run_on(store, &wanted);
}

tutti_status tutti_store_clock(tutti_store *store, uint64_t *clock_out)
{
    const tutti_status status = tt_store_check(store);
    if (status != TUTTI_OK) {
        return status;
    }
    const tt_sync_request wanted = {.verb = TT_STORE_CLOCK, .store = store->number};
    return tt_store_run(store->context, &wanted, clock_out, NULL);
}

tutti_status tutti_store_count(tutti_store *store, tutti_store_counts *counts)
{
    tt_sync_counts found;
    tutti_status status = tt_store_check(store);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_error_about(store->context);
    if (counts == NULL || !tt_struct_is_known(counts, counts->struct_bytes, sizeof(*counts))) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "counts is NULL or not initialised; begin with "
                                                    "TUTTI_STORE_COUNTS_INIT");
    }
    const tt_sync_request wanted = {
        .verb = TT_STORE_COUNT, .store = store->number, .counts = &found};
    status = tt_store_run(store->context, &wanted, NULL, NULL);
    if (status == TUTTI_OK) {
        _Static_assert(sizeof(*counts) == sizeof(size_t) + sizeof(found), "the same fields");
        memcpy((char *)counts + offsetof(tutti_store_counts, clock), &found, sizeof(found));
    }
    return status;
}

tutti_status tutti_store_set(tutti_store *store, const char *option, double value,
                             uint64_t from_clock)
{
    const tutti_status status = tt_store_check(store);
    if (status != TUTTI_OK) {
        return status;
    }
    const tt_sync_request wanted = {.verb = TT_STORE_SET,
                                    .store = store->number,
                                    .name = option,
                                    .value = value,
                                    .clock = from_clock};
    return tt_store_run(store->context, &wanted, NULL, NULL);
}

static tutti_status check_call(tutti_store *store, const tutti_store_call *call,
                               tutti_handle **handle_out)
{
    enum { PRIORITY_MAX = INT16_MAX };
    const tutti_status status = tt_store_check(store);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_error_about(store->context);
    if (handle_out == NULL || call == NULL ||
        !tt_struct_is_known(call, call->struct_bytes, sizeof(*call))) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "handle_out or call is NULL, or call is not initialised; begin with "
                            "TUTTI_STORE_CALL_INIT");
    }
    if ((int)call->verb < TUTTI_STORE_PUSH || (int)call->verb > TUTTI_STORE_CLOCK) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "verb %d is unknown", (int)call->verb);
    }
    if (call->priority > PRIORITY_MAX || call->priority < -PRIORITY_MAX - 1) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "priority is out of range; use -32768 to 32767");
    }
    if (call->rows == NULL && call->row_count > 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "rows is NULL and row_count %zu; pass the numbers of the rows",
                            call->row_count);
    }
    return call->verb == TUTTI_STORE_CLOCK ? TUTTI_OK : check_name(store, call->name);
}

tutti_status tutti_store_start(tutti_store *store, const tutti_store_call *call,
                               tutti_handle **handle_out)
{
    static const tt_sync_verb verbs[] = {[TUTTI_STORE_PUSH] = TT_STORE_PUSH,
                                         [TUTTI_STORE_PULL] = TT_STORE_PULL,
                                         [TUTTI_STORE_PUSH_PULL] = TT_STORE_PUSH_PULL,
                                         [TUTTI_STORE_CLOCK] = TT_STORE_CLOCK};
    tutti_status status = check_call(store, call, handle_out);
    if (status == TUTTI_OK) {
        status = tt_enter(store->context);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    const tt_sync_request wanted = {.verb = verbs[call->verb],
                                    .store = store->number,
                                    .name = call->name,
                                    .input = call->input,
                                    .output = call->output,
                                    .urgency = call->priority,
                                    .is_rows =
                                        call->rows != NULL && call->verb != TUTTI_STORE_CLOCK,
                                    .rows = call->rows,
                                    .row_count = call->row_count};
    tutti_handle *handle = make_call(store->context, &wanted);
    if (handle == NULL) {
        tt_leave(store->context);
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a handle");
    }
    handle->store_call->clock_out = call->clock_out;
    handle->store_call->counted_out = call->counted_out;
    handle->done = call->done;
    handle->done_user = call->done_user;
    handle->has_event = true;
    *handle_out = handle;
    tt_call_submit(handle);
    tt_leave(store->context);
    return TUTTI_OK;
}
