/* SPDX-License-Identifier: Apache-2.0
 *
 * sets.c - process sets: agreed by a barrier of the world that carries a hash of the members. */
#include <stdlib.h>

#include "api/api_internal.h"
#include "api/engine_open.h"
#include "kernel/hash64.h"

/* All ranks must pass the same list of ranks: a barrier whose descriptor holds its hash. A rank
 * that cannot take part objects instead. */
static tutti_status agree(tutti_context *context, const tt_call_extra *extra)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = TUTTI_BARRIER;
    return tt_call_run(context, &call, extra);
}

/* ---- places ---- */

bool tt_set_place_find(tutti_context *context, uint32_t set, tt_set_place *place_out)
{
    if (set == TUTTI_WORLD) {
        *place_out =
            (tt_set_place){.self = (uint32_t)context->rank, .size = (uint32_t)context->size};
        return true;
    }
    bool is_found = false;
    (void)pthread_mutex_lock(&context->set_lock);
    for (size_t i = 0; i < context->set_count && !is_found; i++) {
        if (context->sets[i].set == set) {
            *place_out = context->sets[i];
            is_found = true;
        }
    }
    (void)pthread_mutex_unlock(&context->set_lock);
    return is_found;
}

static bool places_reserve(tutti_context *context)
{
    (void)pthread_mutex_lock(&context->set_lock);
    bool is_good = context->set_count < context->set_capacity;
    if (!is_good) {
        const size_t capacity = 2 * context->set_capacity + 4;
        tt_set_place *sets = realloc(context->sets, capacity * sizeof(*sets));
        is_good = sets != NULL;
        if (is_good) {
            context->sets = sets;
            context->set_capacity = capacity;
        }
    }
    (void)pthread_mutex_unlock(&context->set_lock);
    return is_good;
}

static void place_add(tutti_context *context, tt_set_place place)
{
    (void)pthread_mutex_lock(&context->set_lock);
    context->sets[context->set_count++] = place;
    (void)pthread_mutex_unlock(&context->set_lock);
}

static void place_remove(tutti_context *context, uint32_t set)
{
    (void)pthread_mutex_lock(&context->set_lock);
    for (size_t i = 0; i < context->set_count; i++) {
        if (context->sets[i].set == set) {
            context->sets[i] = context->sets[--context->set_count];
            break;
        }
    }
    (void)pthread_mutex_unlock(&context->set_lock);
}

/* ---- creation ---- */

static tutti_status check_ranks(const tutti_context *context, const int *ranks, int rank_count,
                                tt_text *text)
{
    if (ranks == NULL || rank_count < 1 || rank_count > context->size) {
        tt_text_add(text, "a process set has 1 to %d ranks, not %d; pass ranks and their number",
                    context->size, ranks == NULL ? 0 : rank_count);
        return TUTTI_ERR_BAD_ARGUMENT;
    }
    for (int i = 0; i < rank_count; i++) {
        if (ranks[i] < 0 || ranks[i] >= context->size) {
            tt_text_add(text, "rank %d is not in the job, which has ranks 0 to %d", ranks[i],
                        context->size - 1);
            return TUTTI_ERR_BAD_ARGUMENT;
        }
        for (int j = 0; j < i; j++) {
            if (ranks[i] == ranks[j]) {
                tt_text_add(text, "rank %d is listed twice; list each rank of a process set once",
                            ranks[i]);
                return TUTTI_ERR_BAD_ARGUMENT;
            }
        }
    }
    return TUTTI_OK;
}

/* Everything that can fail, before the ranks agree: afterwards the set exists on all of them. */
static tutti_status prepare(tutti_context *context, const int *ranks, int rank_count,
                            tt_set **set_out, tt_text *text)
{
    const tutti_status status = check_ranks(context, ranks, rank_count, text);
    if (status != TUTTI_OK) {
        return status;
    }
    uint32_t *members = calloc((size_t)rank_count, sizeof(*members));
    bool is_good = members != NULL && places_reserve(context);
    if (is_good) {
        for (int i = 0; i < rank_count; i++) {
            members[i] = (uint32_t)ranks[i];
        }
        tt_drive_acquire(context);
        is_good = tt_control_set_prepare(context->control, members, (uint32_t)rank_count,
                                         set_out) == TT_OK;
        tt_drive_release(context);
    }
    free(members);
    if (!is_good) {
        tt_text_add(text, "out of memory for a process set");
    }
    return is_good ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

/* For the error text if ranks differ; the hash of the whole list decides. */
static void list_ranks(uint8_t *shape, const int *ranks, int rank_count)
{
    uint64_t listed[TT_SHAPE_DIMS_MAX];
    const int count = rank_count < TT_SHAPE_DIMS_MAX ? rank_count : TT_SHAPE_DIMS_MAX;
    for (int i = 0; i < count; i++) {
        listed[i] = (uint64_t)ranks[i];
    }
    tt_shape_write(shape, listed, (uint32_t)count, false);
}

tutti_status tutti_set_create(tutti_context *context, const int *ranks, int rank_count,
                              tutti_set *set_out)
{
    tutti_status status = tt_call_check(context);
    tt_text text = {0};
    tt_set *set = NULL;
    if (status != TUTTI_OK) {
        return status;
    }
    if (set_out == NULL) {
        tt_text_add(&text, "set_out is NULL");
        status = TUTTI_ERR_BAD_ARGUMENT;
    } else {
        status = prepare(context, ranks, rank_count, &set, &text);
    }
    uint8_t shape[TT_SHAPE_BYTES] = {0};
    tt_call_extra extra = {
        .objection = status, .text = text.bytes, .about = TT_ABOUT_SET_CREATE, .shape = shape};
    if (status == TUTTI_OK) {
        list_ranks(shape, ranks, rank_count);
        extra.salt = tt_hash64(ranks, (size_t)rank_count * sizeof(*ranks), 3) | 1;
    }
    status = agree(context, &extra);
    if (set == NULL) {
        return status;
    }
    tt_drive_acquire(context);
    if (status == TUTTI_OK) {
        *set_out = tt_control_set_commit(context->control, set);
        status = tt_engine_set_create(context, *set_out, ranks, rank_count);
        const int self = tt_control_set_rank(context->control, *set_out);
        place_add(context, (tt_set_place){.set = *set_out,
                                          .self = self >= 0 ? (uint32_t)self : UINT32_MAX,
                                          .size = (uint32_t)rank_count});
    } else {
        tt_control_set_drop(context->control, set);
    }
    tt_drive_release(context);
    return status;
}

tutti_status tutti_set_create_keyed(tutti_context *context, const int *ranks, int rank_count,
                                    uint32_t key, tutti_set *set_out)
{
    tutti_status status = tt_call_check(context);
    tt_text text = {0};
    tt_set *set = NULL;
    if (status != TUTTI_OK) {
        return status;
    }
    if (set_out == NULL || key >= TT_SET_KEYED) {
        tt_text_add(&text,
                    set_out == NULL ? "set_out is NULL"
                                    : "key %u is out of range; a key is below 2^30",
                    key);
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "%s", text.bytes);
    }
    status = prepare(context, ranks, rank_count, &set, &text);
    if (status != TUTTI_OK) {
        return tt_error_set(status, "%s", text.bytes);
    }
    tt_drive_acquire(context);
    const uint32_t id = tt_control_set_commit_keyed(context->control, set, TT_SET_KEYED | key);
    if (id == 0) {
        tt_control_set_drop(context->control, set);
    }
    const int self = tt_control_set_rank(context->control, id);
    tt_drive_release(context);
    if (id == 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                            "a process set with key %u exists already; use another key", key);
    }
    place_add(context, (tt_set_place){.set = id,
                                      .self = self >= 0 ? (uint32_t)self : UINT32_MAX,
                                      .size = (uint32_t)rank_count});
    *set_out = id;
    return TUTTI_OK;
}

static void drop(tutti_context *context, tutti_set set)
{
    tt_drive_acquire(context);
    (void)tt_control_set_remove(context->control, set);
    tt_drive_release(context);
    place_remove(context, set);
}

tutti_status tutti_set_remove(tutti_context *context, tutti_set set)
{
    tutti_status status = tt_call_check(context);
    tt_text text = {0};
    tt_set_place place;
    if (status != TUTTI_OK) {
        return status;
    }
    if ((set & TT_SET_KEYED) != 0 && tt_set_place_find(context, set, &place)) {
        drop(context, set);
        return TUTTI_OK;
    }
    uint8_t shape[TT_SHAPE_BYTES];
    tt_call_extra extra = {
        .salt = tt_hash64_mix(set, 4) | 1, .about = TT_ABOUT_SET_REMOVE, .shape = shape};
    tt_shape_write(shape, &(uint64_t){set}, 1, false);
    if (set == TUTTI_WORLD || !tt_set_place_find(context, set, &place)) {
        tt_text_add(&text,
                    "process set %u does not exist, or is the world, which cannot be removed", set);
        extra.objection = TUTTI_ERR_BAD_ARGUMENT;
        extra.text = text.bytes;
    }
    status = agree(context, &extra);
    if (status == TUTTI_OK) {
        drop(context, set);
        tt_drive_acquire(context);
        tt_engine_set_remove(context, set);
        tt_drive_release(context);
    }
    return status;
}

int tutti_set_rank(const tutti_context *context, tutti_set set)
{
    tt_set_place place;
    const bool is_known = tt_call_check(context) == TUTTI_OK &&
                          tt_set_place_find((tutti_context *)(uintptr_t)context, set, &place);
    return is_known && place.self != UINT32_MAX ? (int)place.self : -1;
}

int tutti_set_size(const tutti_context *context, tutti_set set)
{
    tt_set_place place;
    const bool is_known = tt_call_check(context) == TUTTI_OK &&
                          tt_set_place_find((tutti_context *)(uintptr_t)context, set, &place);
    return is_known ? (int)place.size : -1;
}
