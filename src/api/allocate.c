/* SPDX-License-Identifier: Apache-2.0
 *
 * allocate.c - tensors in the shared arena, private memory where there is none. */
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/base.h"
#include "base/memory.h"

enum {
    ALIGNMENT = 64,
    UNCHECKED_BYTES_MAX = 1024 * 1024, /* of small blocks, before memory is checked again */
};

/* Zeroed private memory whose pages exist; NULL where the host or its control group has no more.
 * Pages are touched in pieces: at the limit the kernel kills the process that touches one more. */
static void *allocate_private(tutti_context *context, size_t bytes)
{
    uint8_t *memory = aligned_alloc(ALIGNMENT, bytes);
    uint64_t available = 0;
    const bool is_small =
        bytes < UNCHECKED_BYTES_MAX &&
        atomic_fetch_add(&context->bytes_unchecked, bytes) + bytes <= UNCHECKED_BYTES_MAX;
    if (!is_small) {
        atomic_store(&context->bytes_unchecked, 0);
    }
    for (size_t at = 0, piece; memory != NULL && at < bytes; at += piece) {
        piece = is_small ? bytes : tt_memory_next_piece(bytes - at, &available);
        if (piece == 0) {
            free(memory);
            (void)tt_error_set(
                TUTTI_ERR_NO_MEMORY,
                "out of memory: %zu bytes requested, the host or its control group has %llu bytes "
                "left, some of which are kept in reserve; raise its limit",
                bytes, (unsigned long long)available);
            return NULL;
        }
        memset(memory + at, 0, piece);
    }
    if (memory == NULL) {
        (void)tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory: %zu bytes", bytes);
    }
    return memory;
}

void *tt_memory_allocate(tutti_context *context, size_t bytes)
{
    void *memory = NULL;
    const size_t rounded = tt_round_up(bytes > 0 ? bytes : 1, ALIGNMENT);
    if (rounded < bytes) {
        return NULL;
    }
    if (context->segment != NULL) {
        char why[TT_ARENA_WHY_BYTES] = "";
        if (tt_arena_allocate_lasting(tt_segment_arena(context->segment), rounded, &memory, why) ==
            TT_OK) {
            return memory;
        }
        (void)tt_error_set(TUTTI_ERR_NO_MEMORY, "%s", why);
        return NULL;
    }
    return allocate_private(context, rounded);
}

void tt_memory_release(tutti_context *context, void *memory)
{
    if (atomic_load(&context->keeps_memory)) {
        return; /* freed with the context, or left to an engine */
    }
    if (context->segment == NULL) {
        free(memory);
        return;
    }
    if (tt_arena_release(tt_segment_arena(context->segment), memory) != TT_OK) {
        tt_log_write(&context->log, TT_LOG_ERROR,
                     "tutti_free: %p is not from tutti_alloc of this context; it is not freed",
                     memory);
    }
}

void *tutti_alloc(tutti_context *context, size_t bytes)
{
    return tt_call_check(context) == TUTTI_OK ? tt_memory_allocate(context, bytes) : NULL;
}

void tutti_free(tutti_context *context, void *memory)
{
    if (memory != NULL && tt_call_check(context) == TUTTI_OK) {
        tt_memory_release(context, memory);
    }
}

void *tutti_arena_hold(tutti_context *context)
{
    return tt_call_check(context) == TUTTI_OK && context->segment != NULL
               ? tt_segment_retain(context->segment)
               : NULL;
}

void tutti_arena_drop(void *hold)
{
    tt_segment_release(hold);
}

/* Private memory needs no preparation today: it is staged. The calls exist so that programs are
 * ready for transports that pin memory. */
tutti_status tutti_register(tutti_context *context, void *memory, size_t bytes)
{
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    return memory == NULL || bytes == 0
               ? tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                              "memory is NULL or bytes is 0; nothing to register")
               : TUTTI_OK;
}

tutti_status tutti_unregister(tutti_context *context, void *memory)
{
    const tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    return memory == NULL
               ? tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "memory is NULL; nothing to unregister")
               : TUTTI_OK;
}
