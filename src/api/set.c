/* SPDX-License-Identifier: Apache-2.0
 *
 * set.c - process sets: agreed by a barrier of the world that carries a hash of the members. */
#include <stdlib.h>

#include "api/api_internal.h"
#include "base/hash64.h"

/* All ranks must call with the same ranks: a barrier whose descriptor holds their hash. */
static tutti_status agree(tutti_context *context, uint64_t salt)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = TUTTI_BARRIER;
    return tt_call_run(context, &call, salt);
}

tutti_status tutti_set_create(tutti_context *context, const int *ranks, int rank_count,
                              tutti_set *set_out)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    if (ranks == NULL || rank_count < 1 || rank_count > context->size || set_out == NULL) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "a process set has 1 to %d ranks, not %d",
                            context->size, rank_count);
    }
    uint32_t *members = calloc((size_t)rank_count, sizeof(*members));
    if (members == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a process set");
    }
    for (int i = 0; i < rank_count; i++) {
        members[i] = (uint32_t)ranks[i];
        for (int j = 0; j < i; j++) {
            if (ranks[i] == ranks[j]) {
                free(members);
                return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "rank %d is listed twice", ranks[i]);
            }
        }
        if (ranks[i] < 0 || ranks[i] >= context->size) {
            free(members);
            return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "rank %d is not in the job of %d ranks",
                                ranks[i], context->size);
        }
    }
    status = agree(context, tt_hash64(members, (size_t)rank_count * sizeof(*members), 3) | 1);
    if (status == TUTTI_OK) {
        uint32_t set;
        tt_drive_acquire(context);
        status = (tutti_status)tt_control_set_create(context->control, members,
                                                     (uint32_t)rank_count, &set);
        tt_drive_release(context);
        if (status == TUTTI_OK) {
            *set_out = set;
        } else {
            (void)tt_error_set(status, "process set: %s", tutti_status_text(status));
        }
    }
    free(members);
    return status;
}

tutti_status tutti_set_remove(tutti_context *context, tutti_set set)
{
    tutti_status status = tt_call_check(context);
    if (status != TUTTI_OK) {
        return status;
    }
    status = agree(context, tt_hash64_mix(set, 4) | 1);
    if (status == TUTTI_OK) {
        tt_drive_acquire(context);
        status = (tutti_status)tt_control_set_remove(context->control, set);
        tt_drive_release(context);
        if (status != TUTTI_OK) {
            (void)tt_error_set(status, "process set %u does not exist or is the world", set);
        }
    }
    return status;
}

static int ask(const tutti_context *context, tutti_set set,
               int (*question)(const tt_control *, uint32_t))
{
    tutti_context *mutable_context = (tutti_context *)(uintptr_t)context;
    if (tt_call_check(context) != TUTTI_OK) {
        return -1;
    }
    tt_drive_acquire(mutable_context);
    const int answer = question(context->control, set);
    tt_drive_release(mutable_context);
    return answer;
}

int tutti_set_rank(const tutti_context *context, tutti_set set)
{
    return ask(context, set, tt_control_set_rank);
}

int tutti_set_size(const tutti_context *context, tutti_set set)
{
    return ask(context, set, tt_control_set_size);
}
