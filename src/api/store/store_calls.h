/* SPDX-License-Identifier: Apache-2.0
 *
 * store_calls.h - calls on stores, as the rest of the api sees them.
 *
 * Layer:   api, private.
 * Threads: as each comment says.
 * Memory:  a handle keeps what its last call on a store needed.
 */
#ifndef TUTTI_API_STORE_STORE_CALLS_H
#define TUTTI_API_STORE_STORE_CALLS_H

#include <pthread.h>

#include "api/api_internal.h"
#include "api/store/kept_file.h"
#include "tutti/store.h"

struct tutti_store {
    tutti_context *context;
    uint32_t number; /* of the machine's stores; another one after load and reshard */
    bool is_sum;     /* there are no first values */
    bool has_quorum; /* a push ends with its iteration */
    int servers;     /* only the first ones may own parts */
    char *policy, *update, *codec;
    pthread_mutex_t tensors_lock;
    tt_kept_tensor *tensors; /* [tensor_capacity] that were added */
    uint32_t tensor_count, tensor_capacity;
};

/* Baton's holder: submit a call on a store. */
void tt_store_submit(tutti_handle *handle);
/* No call uses the handle any more. */
void tt_store_room_release(tutti_handle *handle);
/* Baton's holder: this job, which has no servers, has stores from now on. */
tt_status tt_store_attach(tutti_context *context, tt_text *why);

/* sums.c: named all-reduces that owners sum. */
/* At the end of tutti_init, after the rules; collective if there are any. */
tutti_status tt_sums_begin(tutti_context *context);
/* Sets handle->is_by_owners. */
void tt_sums_choose(tutti_handle *handle, bool is_gradient);
/* Baton's holder, a handle that is_by_owners. False: control has to be told of it, too. */
bool tt_sums_submit(tutti_handle *handle);
/* stores.c: make a call on a store and wait for it. */
tutti_status tt_store_run(tutti_context *context, const tt_sync_request *wanted,
                          uint64_t *clock_out, uint32_t *store_out);
tutti_status tt_store_check(const tutti_store *store);
/* keep.c: a store's own copy of its config; false: no memory. */
bool tt_store_remember(tutti_store *store, const tutti_store_config *config);
/* meeting.c: the servers that live, as tt_sync_request.may_own has them: workers agree on them
 * before they open a store. The caller frees it. */
tutti_status tt_store_meet(tutti_store *store, uint8_t **may_own_out);
/* A tensor was added. */
tutti_status tt_store_note(tutti_store *store, const tt_sync_request *added);
void tt_store_free(tutti_store *store);
/* stores.c: open the store of named sums. */
tutti_status tt_store_open_sums(tutti_context *context);

/* own_updates.c: functions of tutti_options.updates, checked. */
tt_status tt_own_updates_take(tutti_context *context, const tutti_options *options, tt_text *why);
void tt_own_updates_release(tutti_context *context);

/* ---- what servers and stores need of other files ---- */

/* context.c: a context that has joined, before its first calls; leave with the baton, after the
 * last one. */
tutti_status tt_context_join(const tutti_options *options, bool is_server,
                             tutti_context **context_out);
void tt_context_leave(tutti_context *context);

/* call.c: a handle that is not in use; NULL: no memory. */
tutti_handle *tt_call_take(tutti_context *context);
/* Start the call of a handle; the caller has entered. */
void tt_call_submit(tutti_handle *handle);

#endif
