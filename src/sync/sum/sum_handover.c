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

/* False: it was known. Without memory for it no call can be judged (fail_short). */
static bool note(tt_sync *sync, uint32_t worker, uint64_t base, uint64_t ended)
{
    tt_handover_name *name = name_of(sync, base);
    const uint64_t bit = UINT64_C(1) << worker % 64;
    if (name == NULL) {
        sync->sums.handover.is_short = true;
        return true;
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

/* The next call of the name is submitted in a step: this is deep inside the collective. */
static void given_over(tt_request *request)
{
    tt_sum_name *name = request->owner;
    tt_handover *handover = &name->sync->sums.handover;
    TT_ASSERT(name->given == request && !name->is_ready);
    request->owner = name->given_owner;
    request->finished = name->given_finished;
    name->given = NULL;
    if (name->later != NULL) {
        name->is_ready = true;
        name->next_ready = handover->ready;
        handover->ready = name;
    }
    request->finished(request);
}

/* (5) */
static void give(tt_sync *sync, tt_sum_name *name, tt_request *request)
{
    TT_ASSERT(name->given == NULL);
    name->given = request;
    name->given_owner = request->owner;
    name->given_finished = request->finished;
    request->owner = name;
    request->finished = given_over;
    submit(sync, request);
}

static void give_or_queue(tt_sync *sync, tt_sum_name *name, tt_request *request)
{
    if (name->given == NULL && name->later == NULL) {
        give(sync, name, request);
        return;
    }
    request->next_later = NULL;
    if (name->later != NULL) {
        name->later_last->next_later = request;
    } else {
        name->later = request;
    }
    name->later_last = request;
    sync->sums.handover.later++;
    sync->pending++;
}

static tt_request *take_later(tt_sync *sync, tt_sum_name *name)
{
    tt_request *request = name->later;
    if (request != NULL) {
        name->later = request->next_later;
        sync->sums.handover.later--;
        sync->pending--;
    }
    return request;
}

static void decide(tt_sync *sync, tt_sum_name *name, tt_request *request, uint64_t ordinal)
{
    if (is_lost(sync, tt_sum_base(name), ordinal)) {
        refuse_lost(sync, request);
    } else {
        give_or_queue(sync, name, request);
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

static void take_now(tt_sync *sync, tt_request *request)
{
    tt_sum_name *name = tt_sum_name_of(sync, request->name);
    if (name == NULL) {
        tt_worker_store *store = sync->stores[TT_STORE_SUMS];
        tt_worker_fail_without_memory(sync, store, request->name);
        refuse(request, store->status, store->error);
        return;
    }
    decide(sync, name, request, ++name->made);
}

void tt_handover_take(tt_sync *sync, tt_request *request)
{
    TT_ASSERT(sync->sums.handover.phase != TT_HANDOVER_NONE);
    if (request->is_join || sync->sums.handover.phase == TT_HANDOVER_AGREEING ||
        sync->sums.handover.held != NULL) {
        hold(sync, request);
    } else {
        take_now(sync, request);
    }
}

bool tt_handover_holds(const tt_sync *sync)
{
    const tt_handover *handover = &sync->sums.handover;
    return handover->phase == TT_HANDOVER_AGREEING || handover->later > 0 || handover->held != NULL;
}

/* Calls and joins in their order, up to a join for which calls must end first. */
static void release_held(tt_sync *sync)
{
    const tt_handover *handover = &sync->sums.handover;
    while (handover->held != NULL && (!handover->held->is_join || handover->later == 0)) {
        tt_request *request = take_held(sync);
        if (request->is_join) {
            tt_sum_begin_join(sync, request);
            submit(sync, request);
        } else if (sync->sums.join != NULL) {
            tt_sync_sum(sync, request); /* waits for the end of the join */
        } else {
            take_now(sync, request);
        }
    }
}

bool tt_handover_step(tt_sync *sync)
{
    tt_handover *handover = &sync->sums.handover;
    tt_sum_name *name = handover->ready;
    handover->ready = NULL;
    while (name != NULL) {
        tt_sum_name *next = name->next_ready;
        name->is_ready = false;
        if (name->given == NULL && name->later != NULL) {
            give(sync, name, take_later(sync, name));
        }
        name = next;
    }
    if (handover->phase == TT_HANDOVER_DONE && handover->later == 0 && handover->held != NULL) {
        release_held(sync);
    }
    return handover->ready != NULL;
}

/* ---- agreeing ---- */

static bool has_agreed(const tt_sync *sync)
{
    const tt_handover *handover = &sync->sums.handover;
    bool all = true;
    TT_ASSERT(handover->names_left != NULL);
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        all = all && (i == sync->roles.rank || sync->is_gone[i] || handover->names_left[i] == 0);
    }
    return all;
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
    tt_request *request;
    uint64_t ordinal;
    while ((request = tt_sum_take_out(sync, name, &ordinal)) != NULL) {
        decide(sync, name, request, ordinal);
    }
}

/* Without knowing what has ended elsewhere this worker could join the wrong sums. */
static void fail_short(tt_sync *sync)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, sync->roles.rank);
    tt_text_add(&text, " has no memory to go on without ");
    tt_sync_add_peer(sync, &text, sync->sums.handover.dead);
    tt_text_add(&text, ", which is gone; its host needs more memory");
    tt_worker_fail_store(sync, sync->stores[TT_STORE_SUMS], TT_ERR_NO_MEMORY, text.bytes);
}

static void finish_if_agreed(tt_sync *sync)
{
    tt_handover *handover = &sync->sums.handover;
    if (handover->phase != TT_HANDOVER_AGREEING || !has_agreed(sync)) {
        return;
    }
    handover->phase = TT_HANDOVER_DONE;
    if (handover->is_short) {
        fail_short(sync);
        return;
    }
    report(sync);
    for (uint32_t i = 0; i < SUM_BUCKETS; i++) {
        for (tt_sum_name *name = sync->sums.buckets[i]; name != NULL; name = name->next) {
            release_calls(sync, name);
        }
    }
    release_held(sync);
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

bool tt_handover_prepare(tt_sync *sync)
{
    tt_handover *handover = &sync->sums.handover;
    const size_t bytes = sync->roles.workers * sizeof(*handover->names_left);
    if (handover->names_left == NULL) {
        handover->names_left = tt_platform_allocate(sync->platform, bytes);
        if (handover->names_left != NULL) {
            memset(handover->names_left, 0xff, bytes);
        }
    }
    return handover->names_left != NULL;
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
        head->descriptor > NAMES_MAX || !tt_handover_prepare(sync)) {
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
            while ((request = take_later(sync, name)) != NULL) {
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
