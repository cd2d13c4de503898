/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_handover.c - named sums after the death of a server; see sum_handover.h. */
#include "sync/sum/sum_handover.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "sync/sync_internal.h"

enum { NAMES_MAX = 1 << 20 }; /* of one worker */

static bool is_worker(const tt_sync *sync, uint32_t rank)
{
    return rank < sync->roles.workers;
}

/* ---- what has ended on some worker ---- */

static size_t name_bytes(const tt_sync *sync)
{
    return sizeof(tt_handover_name) + (sync->roles.workers + 63) / 64 * sizeof(uint64_t);
}

static tt_handover_name *find_name(const tt_sync *sync, uint64_t base)
{
    tt_handover_name *name = sync->sums.handover.buckets[base % HANDOVER_BUCKETS];
    while (name != NULL && name->base != base) {
        name = name->next;
    }
    return name;
}

static tt_handover_name *name_of(tt_sync *sync, uint64_t base)
{
    tt_handover_name **bucket = &sync->sums.handover.buckets[base % HANDOVER_BUCKETS];
    tt_handover_name *name = find_name(sync, base);
    if (name == NULL) {
        name = tt_platform_allocate(sync->platform, name_bytes(sync));
    }
    if (name != NULL && name->base != base) {
        name->base = base;
        name->next = *bucket;
        *bucket = name;
    }
    return name;
}

/* False: it was known, or there is no memory for it. */
static bool note(tt_sync *sync, uint32_t worker, uint64_t base, uint64_t ended)
{
    tt_handover_name *name = name_of(sync, base);
    const uint64_t bit = UINT64_C(1) << worker % 64;
    if (name == NULL) {
        sync->sums.handover.is_short = true;
        return false;
    }
    if ((name->has_sent[worker / 64] & bit) != 0) {
        return false; /* a second copy */
    }
    name->has_sent[worker / 64] |= bit;
    name->ended = tt_max_u64(name->ended, ended);
    return true;
}

/* (3) */
static bool is_lost(const tt_sync *sync, uint64_t base, uint64_t ordinal)
{
    const tt_handover_name *name = find_name(sync, base);
    return name != NULL && ordinal <= name->ended && !TT_PLANT(HANDOVER_REPEATS_ENDED);
}

/* ---- calls ---- */

static void refuse(tt_request *request, tt_status status, const char *text)
{
    const size_t length = tt_min_u64(strlen(text), sizeof(request->error) - 1);
    request->status = status;
    memcpy(request->error, text, length);
    request->error[length] = '\0';
    request->finished(request);
}

static void refuse_lost(const tt_sync *sync, tt_request *request)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, sync->sums.handover.dead);
    tt_text_add(&text, " is gone, and with it a part of a sum of tensor ");
    tt_text_add_quoted(&text, request->name, TT_SYNC_NAME_BYTES);
    tt_text_add(&text, " that some workers may have; call the next one, the workers make it");
    refuse(request, TT_ERR_PEER_DOWN, text.bytes);
}

/* To the workers' collectives. */
static void submit(const tt_sync *sync, tt_request *request)
{
    request->next_later = NULL;
    sync->listener.submit(sync->listener.owner, request);
}

static void decide(const tt_sync *sync, tt_request *request, uint64_t base, uint64_t ordinal)
{
    if (is_lost(sync, base, ordinal)) {
        refuse_lost(sync, request);
    } else {
        submit(sync, request);
    }
}

static void hold(tt_sync *sync, tt_request *request)
{
    tt_handover *handover = &sync->sums.handover;
    request->next_later = NULL;
    if (handover->held_last != NULL) {
        handover->held_last->next_later = request;
    } else {
        handover->held = request;
    }
    handover->held_last = request;
    sync->pending++;
}

static tt_request *take_held(tt_sync *sync)
{
    tt_handover *handover = &sync->sums.handover;
    tt_request *request = handover->held;
    if (request != NULL) {
        handover->held = request->next_later;
        handover->held_last = handover->held != NULL ? handover->held_last : NULL;
        sync->pending--;
    }
    return request;
}

void tt_handover_take(tt_sync *sync, tt_request *request)
{
    TT_ASSERT(sync->sums.handover.phase != TT_HANDOVER_NONE);
    if (sync->sums.handover.phase == TT_HANDOVER_AGREEING) {
        hold(sync, request);
        return;
    }
    tt_sum_name *name = tt_sum_name_of(sync, request->name);
    if (name == NULL) {
        refuse(request, TT_ERR_NO_MEMORY, "no memory for a named sum");
        return;
    }
    decide(sync, request, tt_sum_base(name), ++name->made);
}

/* ---- agreeing ---- */

static bool has_agreed(const tt_sync *sync)
{
    const tt_handover *handover = &sync->sums.handover;
    bool all = true;
    for (uint32_t i = 0; handover->names_left != NULL && i < sync->roles.workers; i++) {
        all = all && (i == sync->roles.rank || sync->is_gone[i] || handover->names_left[i] == 0);
    }
    return all && (handover->names_left != NULL || handover->is_short);
}

static void report(const tt_sync *sync)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, sync->sums.handover.dead);
    tt_text_add(&text, " is gone; from now on the workers make the sums that servers made");
    sync->listener.report(sync->listener.owner, sync->roles.rank == 0 ? LEVEL_WARN : LEVEL_INFO,
                          text.bytes);
}

/* Calls of one name in their order; those of different names have none. */
static void release_calls(tt_sync *sync, tt_sum_name *name)
{
    const bool is_short = sync->sums.handover.is_short;
    tt_request *request;
    uint64_t ordinal;
    while ((request = tt_sum_take_out(sync, name, &ordinal)) != NULL) {
        if (is_short) {
            refuse_lost(sync, request);
        } else {
            decide(sync, request, tt_sum_base(name), ordinal);
        }
    }
}

static void finish_if_agreed(tt_sync *sync)
{
    tt_handover *handover = &sync->sums.handover;
    if (handover->phase != TT_HANDOVER_AGREEING || !has_agreed(sync)) {
        return;
    }
    handover->phase = TT_HANDOVER_DONE;
    report(sync);
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        for (tt_sum_name *name = sync->sums.buckets[i]; name != NULL; name = name->next) {
            release_calls(sync, name);
        }
    }
    tt_request *request;
    while ((request = take_held(sync)) != NULL) {
        if (!request->is_join) {
            tt_sync_sum(sync, request);
        } else if (!tt_sync_join(sync, request)) {
            submit(sync, request);
        }
    }
}

static void tell(tt_sync *sync, tt_head head)
{
    head.kind = TT_SYNC_ENDED;
    head.set = TT_STORE_SUMS;
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        if (i != sync->roles.rank) {
            tt_sync_signal(sync, i, head);
        }
    }
}

/* The last one has no name, so that there is one. */
static void tell_ended(tt_sync *sync)
{
    uint64_t count = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
            for (tt_sum_name *name = sync->sums.buckets[i]; name != NULL; name = name->next) {
                const uint64_t ended = tt_sum_ended(sync, name);
                if (ended > 0 && pass == 1) {
                    (void)note(sync, sync->roles.rank, tt_sum_base(name), ended);
                    tell(
                        sync,
                        (tt_head){.op = tt_sum_base(name), .argument = ended, .descriptor = count});
                }
                count += ended > 0 && pass == 0 ? 1 : 0;
            }
        }
    }
    tell(sync, (tt_head){.descriptor = count});
}

static bool make_table(tt_sync *sync)
{
    tt_handover *handover = &sync->sums.handover;
    const size_t bytes = sync->roles.workers * sizeof(*handover->names_left);
    if (handover->names_left == NULL) {
        handover->names_left = tt_platform_allocate(sync->platform, bytes);
        if (handover->names_left == NULL) {
            handover->is_short = true;
            return false;
        }
        memset(handover->names_left, 0xff, bytes);
    }
    return true;
}

bool tt_handover_begin(tt_sync *sync, uint32_t dead)
{
    tt_handover *handover = &sync->sums.handover;
    const tt_worker_store *store = sync->stores[TT_STORE_SUMS];
    if (handover->phase != TT_HANDOVER_NONE) {
        return true;
    }
    if (store == NULL || !store->is_open || store->status < 0) {
        tt_handover_decline(sync);
        return false;
    }
    handover->dead = dead;
    handover->phase = TT_HANDOVER_AGREEING;
    (void)make_table(sync);
    tell_ended(sync);
    tt_sum_set_aside(sync);
    finish_if_agreed(sync);
    return true;
}

void tt_handover_decline(tt_sync *sync)
{
    tell(sync, (tt_head){.descriptor = 0});
}

void tt_handover_frame(tt_sync *sync, uint32_t worker, const tt_head *head)
{
    tt_handover *handover = &sync->sums.handover;
    if (!is_worker(sync, worker) || !is_worker(sync, sync->roles.rank) ||
        head->descriptor > NAMES_MAX || !make_table(sync)) {
        return;
    }
    uint32_t *left = &handover->names_left[worker];
    *left = *left == UINT32_MAX ? (uint32_t)head->descriptor : *left;
    if (head->op != 0 && *left > 0 && note(sync, worker, head->op, head->argument)) {
        --*left;
    }
    finish_if_agreed(sync);
}

void tt_handover_worker_out(tt_sync *sync)
{
    finish_if_agreed(sync);
}

void tt_handover_fail_all(tt_sync *sync, tt_status status, const char *text)
{
    tt_request *request;
    uint64_t ordinal;
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        for (tt_sum_name *name = sync->sums.buckets[i]; name != NULL; name = name->next) {
            while ((request = tt_sum_take_out(sync, name, &ordinal)) != NULL) {
                refuse(request, status, text);
            }
        }
    }
    while ((request = take_held(sync)) != NULL) {
        refuse(request, status, text);
    }
}

void tt_handover_release(tt_sync *sync)
{
    tt_handover *handover = &sync->sums.handover;
    for (uint32_t i = 0; i < HANDOVER_BUCKETS; i++) {
        while (handover->buckets[i] != NULL) {
            tt_handover_name *name = handover->buckets[i];
            handover->buckets[i] = name->next;
            tt_platform_release(sync->platform, name, name_bytes(sync));
        }
    }
    tt_platform_release(sync->platform, handover->names_left,
                        sync->roles.workers * sizeof(*handover->names_left));
}
