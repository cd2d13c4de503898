/* SPDX-License-Identifier: Apache-2.0
 *
 * priorities.c - priorities of named calls, from a file or learnt: rank 0's, the same on all ranks.
 *
 * The text (schedule/order_text.h) travels by broadcast and every rank reads it for itself. A
 * table, once installed, stays until the context ends, so that any thread may look things up
 * without a lock.
 *
 * A file whose names are not those of the calls orders nothing, and nothing fails: rank 0 says so,
 * once, after a whole step, or at the end of a program that makes none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/hash64.h"
#include "base/log.h"
#include "schedule/schedule.h"

typedef struct entry {
    char *name;
    uint32_t priority;   /* 0 is the most urgent */
    atomic_bool is_used; /* a call of this rank had the name */
} entry;

struct tt_name_order {
    const tt_name_order *older;
    size_t count, capacity;
    uint32_t priority_max;
    uint64_t text_hash;
    atomic_bool is_told; /* what is unused */
    entry *entries;      /* sorted by name */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static void destroy(tt_name_order *order)
{
    for (size_t i = 0; i < order->count; i++) {
        free(order->entries[i].name);
    }
    free(order->entries);
    free(order);
}

static tt_status add_line(void *user, const char *name, uint32_t priority, tt_text *why)
{
    tt_name_order *order = user;
    (void)why;
    if (order->count == order->capacity) {
        const size_t capacity = order->capacity > 0 ? 2 * order->capacity : 64;
        entry *entries = realloc(order->entries, capacity * sizeof(*entries));
        if (entries == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        order->entries = entries;
        order->capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    order->entries[order->count++] = (entry){.name = copy, .priority = priority};
    order->priority_max = priority > order->priority_max ? priority : order->priority_max;
    return TT_OK;
}

/* The order that `text` is; the caller destroys it. */
static tt_status parse(const char *text, size_t bytes, tt_name_order **order_out, tt_text *why)
{
    tt_name_order *order = calloc(1, sizeof(*order));
    if (order == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    tt_status status = tt_order_text_parse(text, bytes, add_line, order, why);
    if (order->count > 0) {
        qsort(order->entries, order->count, sizeof(*order->entries), by_name);
    }
    for (size_t i = 1; status == TT_OK && i < order->count; i++) {
        if (by_name(&order->entries[i - 1], &order->entries[i]) == 0) {
            tt_text_add(why, "%s is there twice", order->entries[i].name);
            status = TT_ERR_BAD_CONFIG;
        }
    }
    if (status != TT_OK) {
        destroy(order);
        return status;
    }
    order->text_hash = tt_hash64(text, bytes, 1);
    *order_out = order;
    return TT_OK;
}

static tt_status install(tutti_context *context, const char *text, size_t bytes, tt_text *why)
{
    tt_name_order *order;
    TT_TRY(parse(text, bytes, &order, why));
    order->older = atomic_load(&context->order);
    atomic_store(&context->order, order);
    return TT_OK;
}

int32_t tt_name_order_urgency(const tutti_context *context, const char *name, int32_t given)
{
    if (atomic_load_explicit(&((tutti_context *)(uintptr_t)context)->is_plain,
                             memory_order_relaxed)) {
        return 0;
    }
    const tt_name_order *order = atomic_load(&((tutti_context *)(uintptr_t)context)->order);
    if (order == NULL || order->count == 0 || name[0] == 0) {
        return given;
    }
    const entry key = {.name = (char *)(uintptr_t)name};
    entry *found = bsearch(&key, order->entries, order->count, sizeof(*order->entries), by_name);
    if (found == NULL) {
        return given;
    }
    if (!atomic_load_explicit(&found->is_used, memory_order_relaxed)) { /* the line stays shared */
        atomic_store_explicit(&found->is_used, true, memory_order_relaxed);
    }
    /* What the order names goes before what it does not. */
    return (int32_t)(order->priority_max - found->priority) + 1;
}

/* Does the setting leave orders a meaning? */
static bool takes_orders(const tt_settings *settings)
{
    return settings->schedule != TT_SCHEDULE_OFF && settings->schedule != TT_SCHEDULE_FIFO;
}

void tt_name_order_tell_unused(tutti_context *context, const char *when)
{
    tt_name_order *order = (tt_name_order *)(uintptr_t)atomic_load(&context->order);
    const char *path = context->settings.order;
    if (context->rank != 0 || order == NULL || path[0] == 0 || !takes_orders(&context->settings) ||
        atomic_exchange(&order->is_told, true)) {
        return;
    }
    size_t unused = 0;
    const entry *first = NULL;
    for (size_t i = 0; i < order->count; i++) {
        const entry *one = &order->entries[i];
        if (!atomic_load_explicit(&one->is_used, memory_order_relaxed)) {
            unused++;
            first = first == NULL || one->priority < first->priority ? one : first;
        }
    }
    if (unused > 0) {
        tt_log_write(&context->log, TT_LOG_WARN,
                     "TUTTI_ORDER=%s: no call of rank 0 had %zu of its %zu names %s; the first of "
                     "them is %s",
                     path, unused, order->count, when, first->name);
    }
}

void tt_name_order_release(tutti_context *context)
{
    tt_name_order_tell_unused(context, "to the end");
    const tt_name_order *order = atomic_load(&context->order);
    while (order != NULL) {
        const tt_name_order *older = order->older;
        destroy((tt_name_order *)(uintptr_t)order);
        order = older;
    }
}

/* The whole file; the caller frees. NULL: `why` says what is wrong. */
static char *read_all(const char *path, size_t *bytes_out, tt_text *why)
{
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? malloc(TT_ORDER_TEXT_BYTES_MAX + 1) : NULL;
    if (text == NULL) {
        tt_text_add(why, "%s", file == NULL ? strerror(errno) : "out of memory");
    } else {
        *bytes_out = fread(text, 1, TT_ORDER_TEXT_BYTES_MAX + 1, file);
        if (ferror(file) != 0 || *bytes_out == 0 || *bytes_out > TT_ORDER_TEXT_BYTES_MAX) {
            tt_text_add(why, "cannot be read, is empty, or is longer than 16 MiB");
            free(text);
            text = NULL;
            *bytes_out = 0;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

tt_status tt_name_order_check(const char *path, tt_text *why)
{
    tt_name_order *order;
    tt_text reason = {0};
    size_t bytes = 0;
    char *text = read_all(path, &bytes, &reason);
    const tt_status status = text != NULL ? parse(text, bytes, &order, &reason) : TT_ERR_BAD_CONFIG;
    if (status == TT_OK) {
        destroy(order);
    } else {
        tt_text_add(why, "TUTTI_ORDER=%s: %s", path, reason.bytes);
    }
    free(text);
    return status;
}

tutti_status tt_name_order_spread(tutti_context *context, const char *text, size_t bytes)
{
    int64_t length = context->rank == 0 ? (int64_t)bytes : 0;
    tutti_status status = tutti_broadcast(context, &length, 1, TUTTI_I64, 0);
    if (status != TUTTI_OK || length == 0) {
        return status;
    }
    char *copy = length > 0 && length <= TT_ORDER_TEXT_BYTES_MAX ? malloc((size_t)length) : NULL;
    if (copy == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "no memory for an order of tensors");
    }
    if (context->rank == 0) {
        memcpy(copy, text, bytes);
    }
    status = tutti_broadcast(context, copy, (uint64_t)length, TUTTI_U8, 0);
    if (status == TUTTI_OK) {
        tt_text why = {0};
        const tt_status read = install(context, copy, (size_t)length, &why);
        if (read != TT_OK) {
            status = tt_error_set((tutti_status)read, "order of tensors: %s",
                                  why.length > 0 ? why.bytes : tt_status_text(read));
        }
    }
    free(copy);
    return status;
}

tutti_status tt_name_order_share(tutti_context *context)
{
    const char *path = context->settings.order;
    atomic_store(&context->is_plain, !takes_orders(&context->settings));
    if (path[0] == 0) {
        return TUTTI_OK;
    }
    size_t bytes = 0;
    tt_text why = {0};
    char *text = read_all(path, &bytes, &why);
    const bool has_own = text != NULL;
    const uint64_t own_hash = has_own ? tt_hash64(text, bytes, 1) : 0;
    tutti_status status = tt_name_order_spread(context, text, bytes);
    free(text);
    if (status != TUTTI_OK) {
        why = (tt_text){0};
        tt_text_add(&why, "%s", tutti_last_error(context));
        return tt_error_set(status == TUTTI_ERR_NO_MEMORY ? status : TUTTI_ERR_BAD_CONFIG,
                            "TUTTI_ORDER=%s: %s", path, why.bytes);
    }
    if (atomic_load(&context->order) == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_CONFIG, "TUTTI_ORDER=%s: %s", path,
                            context->rank == 0 ? why.bytes : "rank 0 could not read it");
    }
    if (context->rank == 0 && !takes_orders(&context->settings)) {
        tt_log_write(&context->log, TT_LOG_WARN,
                     "TUTTI_ORDER=%s has no effect: TUTTI_SCHEDULE ignores priorities", path);
    } else if (context->rank == 0 && atomic_load(&context->order)->count == 0) {
        tt_log_write(&context->log, TT_LOG_WARN,
                     "TUTTI_ORDER=%s names no tensor: priorities are those of the calls", path);
    }
    if (has_own && own_hash != atomic_load(&context->order)->text_hash) { /* none is no dispute */
        tt_log_write(&context->log, TT_LOG_WARN,
                     "TUTTI_ORDER=%s is not what rank 0 has there; rank 0's holds", path);
    }
    return TUTTI_OK;
}
