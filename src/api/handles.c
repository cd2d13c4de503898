/* SPDX-License-Identifier: Apache-2.0
 *
 * handles.c - handles for reuse: taken, given back, released with their context. */
#include <stdlib.h>

#include "api/store/store_calls.h"
#include "kernel/hash64.h"

static uint32_t own_shelf(void)
{
    return (uint32_t)(tt_hash64_mix((uint64_t)pthread_self(), 1) % HANDLE_SHELVES);
}

static tutti_handle *shelf_take(tt_shelf *shelf)
{
    tutti_handle *handle = shelf->free;
    if (handle != NULL) {
        shelf->free = handle->next;
    }
    (void)pthread_mutex_unlock(&shelf->lock);
    return handle;
}

/* A used handle; shelves of other threads are tried before memory is allocated. */
static tutti_handle *handle_reuse(tutti_context *context)
{
    const uint32_t own = own_shelf();
    (void)pthread_mutex_lock(&context->shelves[own].lock);
    tutti_handle *handle = shelf_take(&context->shelves[own]);
    for (uint32_t i = 1; handle == NULL && i < HANDLE_SHELVES; i++) {
        tt_shelf *shelf = &context->shelves[(own + i) % HANDLE_SHELVES];
        if (pthread_mutex_trylock(&shelf->lock) == 0) {
            handle = shelf_take(shelf);
        }
    }
    return handle;
}

tutti_handle *tt_call_take(tutti_context *context)
{
    tutti_handle *handle = handle_reuse(context);
    if (handle == NULL) {
        handle = malloc(sizeof(*handle));
        if (handle == NULL) {
            return NULL;
        }
        handle->store_room = NULL;
        handle->next_all = atomic_load(&context->all_handles);
        while (!atomic_compare_exchange_weak(&context->all_handles, &handle->next_all, handle)) {
        }
    }
    atomic_init(&handle->state, HANDLE_IDLE);
    atomic_init(&handle->sleepers, 0);
    handle->context = context;
    handle->next = NULL;
    return handle;
}

void tt_call_recycle(tutti_handle *handle)
{
    tt_shelf *shelf = &handle->context->shelves[own_shelf()];
    (void)pthread_mutex_lock(&shelf->lock);
    handle->next = shelf->free;
    shelf->free = handle;
    (void)pthread_mutex_unlock(&shelf->lock);
}

void tt_call_release_all(tutti_context *context)
{
    tutti_handle *handle = atomic_load(&context->all_handles);
    while (handle != NULL) {
        tutti_handle *next = handle->next_all;
        tt_store_room_release(handle);
        free(handle);
        handle = next;
    }
}
