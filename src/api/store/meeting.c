/* SPDX-License-Identifier: Apache-2.0
 *
 * meeting.c - see meeting.h. */
#include "api/store/meeting.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "api/enter.h"
#include "api/raise.h"
#include "base/base.h"

tt_sync_look tt_store_look_at(const tutti_store *store, uint8_t *is_gone)
{
    tt_sync_look look = {.is_idle = true};
    tt_drive_acquire(store->context);
    tt_drive_drain(store->context); /* calls that were started count */
    tt_drive_deliver(store->context);
    (void)tt_sync_look_at(store->context->sync, store->number, &look);
    for (uint32_t i = 0; is_gone != NULL && i < tt_sync_server_count(store->context->sync); i++) {
        is_gone[i] = tt_sync_server_is_gone(store->context->sync, i) ? 1 : 0;
    }
    tt_drive_release(store->context);
    return look;
}

tutti_status tt_store_gather(tutti_store *store, const tt_store_notice *own, const uint8_t *is_gone,
                             uint8_t **notices_out)
{
    const size_t servers = tt_sync_server_count(store->context->sync);
    const size_t each = sizeof(*own) + servers;
    uint8_t *bytes = malloc(each * ((size_t)store->context->size + 1));
    if (bytes == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a store");
    }
    memcpy(bytes, own, sizeof(*own));
    for (size_t i = 0; i < servers; i++) {
        bytes[sizeof(*own) + i] = is_gone != NULL ? is_gone[i] : 0;
    }
    const tutti_status status =
        tutti_allgather(store->context, bytes, bytes + each, each, TUTTI_U8);
    if (status != TUTTI_OK) {
        free(bytes);
        return status;
    }
    memmove(bytes, bytes + each, each * (size_t)store->context->size);
    *notices_out = bytes;
    return TUTTI_OK;
}

tt_store_notice tt_store_notice_of(const tutti_store *store, const uint8_t *notices, int worker)
{
    tt_store_notice found;
    const size_t each = sizeof(found) + tt_sync_server_count(store->context->sync);
    memcpy(&found, notices + each * (size_t)worker, sizeof(found));
    found.path[sizeof(found.path) - 1] = found.text[sizeof(found.text) - 1] = '\0';
    return found;
}

tutti_status tt_store_first_failure(const tutti_store *store, const uint8_t *notices)
{
    for (int i = 0; i < store->context->size; i++) {
        const tt_store_notice one = tt_store_notice_of(store, notices, i);
        if (one.status != TUTTI_OK) {
            return tt_error_set((tutti_status)one.status, "%s", one.text);
        }
    }
    return TUTTI_OK;
}

tutti_status tt_store_agree(tutti_store *store, tutti_status status)
{
    uint8_t *notices = NULL;
    tt_store_notice own = {.status = (int32_t)status};
    if (status != TUTTI_OK) {
        (void)snprintf(own.text, sizeof(own.text), "%s", tutti_last_error(store->context));
    }
    tutti_status outcome = tt_store_gather(store, &own, NULL, &notices);
    if (outcome == TUTTI_OK) {
        outcome = tt_store_first_failure(store, notices);
    }
    free(notices);
    return outcome;
}

tutti_status tt_store_make_plan(const tutti_store *store, const uint8_t *notices, int servers_max,
                                tt_store_plan *plan_out)
{
    const uint32_t servers = tt_sync_server_count(store->context->sync);
    const size_t each = sizeof(tt_store_notice) + servers;
    bool all = true;
    *plan_out = (tt_store_plan){.may_own = malloc((size_t)servers + 1)};
    if (plan_out->may_own == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a store");
    }
    for (uint32_t i = 0; i < servers; i++) {
        bool may = (int64_t)i < servers_max;
        for (int k = 0; k < store->context->size; k++) {
            may = may && notices[each * (size_t)k + sizeof(tt_store_notice) + i] == 0;
        }
        plan_out->may_own[i] = may ? 1 : 0;
        all = all && may;
    }
    if (all) {
        free(plan_out->may_own);
        plan_out->may_own = NULL;
    }
    for (int k = 0; k < store->context->size; k++) {
        plan_out->clock = tt_max_u64(plan_out->clock, tt_store_notice_of(store, notices, k).clock);
    }
    return TUTTI_OK;
}

/* What this worker knows. */
static uint8_t *owners_that_live(const uint8_t *is_gone, uint32_t servers)
{
    uint8_t *may_own = malloc(servers);
    for (uint32_t i = 0; may_own != NULL && i < servers; i++) {
        may_own[i] = is_gone[i] == 0 ? 1 : 0;
    }
    return may_own;
}

/* A worker that is gone breaks the workers' collectives, and with them the meeting: then this
 * worker goes by what it knows itself, and owners compare. */
tutti_status tt_store_meet(tutti_store *store, uint8_t **may_own_out)
{
    const tt_store_notice own = {.status = TUTTI_OK};
    const uint32_t servers = tt_sync_server_count(store->context->sync);
    uint8_t *notices = NULL;
    tt_store_plan plan = {.may_own = NULL};
    uint8_t *is_gone = servers > 0 ? calloc(servers, 1) : NULL;
    if (servers == 0) {
        return TUTTI_OK;
    }
    if (is_gone == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a store");
    }
    tutti_status status = tt_enter(store->context);
    if (status == TUTTI_OK) {
        (void)tt_store_look_at(store, is_gone);
        tt_leave(store->context);
        status = tt_store_gather(store, &own, is_gone, &notices);
    }
    if (status == TUTTI_OK) {
        status = tt_store_make_plan(store, notices, INT_MAX, &plan);
    } else if (status == TUTTI_ERR_PEER_DOWN || status == TUTTI_ERR_PEER_LEFT) {
        plan.may_own =
            memchr(is_gone, 1, servers) != NULL ? owners_that_live(is_gone, servers) : NULL;
        status = TUTTI_OK;
    }
    free(notices);
    free(is_gone);
    *may_own_out = plan.may_own;
    return status;
}
