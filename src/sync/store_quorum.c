/* SPDX-License-Identifier: Apache-2.0
 *
 * store_quorum.c - iterations that end when K workers have completed them: backup workers (Chen et
 * al., "Revisiting distributed synchronous SGD", 2016).
 *
 *  (1) A worker's pushes of an iteration count all, or none: one owner decides for all of them. So
 * a gradient is never applied to some parts only, unless its worker dies. (2) An owner closes an
 * iteration when every push that counts in it has arrived, or its worker is gone. A push of an
 * iteration that was closed is consumed; the answer marks it as not counted.
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "sync/sync_internal.h"

static bool has_quorum(const tt_owner_store *store)
{
    return store->policy.quorum > 0;
}

uint64_t tt_owner_progress(const tt_owner_store *store)
{
    return has_quorum(store) ? store->quorum.closed : store->clock.least;
}

static size_t decision_bytes(const tt_sync *sync)
{
    return sizeof(tt_decision) + sync->roles.workers;
}

static void list_release(tt_sync *sync, tt_decision *list)
{
    while (list != NULL) {
        tt_decision *gone = list;
        list = gone->next;
        tt_platform_release(sync->platform, gone, decision_bytes(sync));
    }
}

void tt_quorum_release(tt_sync *sync, tt_owner_store *store)
{
    list_release(sync, store->quorum.queue);
    list_release(sync, store->quorum.free);
    store->quorum.queue = store->quorum.free = NULL;
}

/* ---- the keeper ---- */

static void fail_without_memory(tt_sync *sync, tt_owner_store *store)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, sync->roles.rank);
    tt_text_add(&text, " has no memory to close an iteration");
    tt_owner_fail(sync, store, TT_ERR_NO_MEMORY, &text);
}

/* No worker is more than one iteration ahead of those that were decided, so one frame decides one
 * at most. */
void tt_quorum_decide(tt_sync *sync, tt_owner_store *store)
{
    const uint32_t workers = sync->roles.workers;
    uint8_t is_member[TT_SYNC_TEXT_BYTES] = {0};
    uint32_t live = 0, ready = 0;
    if (!has_quorum(store) || tt_sync_keeper(sync, &store->split) != store->self ||
        workers > sizeof(is_member)) {
        return;
    }
    for (uint32_t i = 0; i < workers; i++) {
        is_member[i] = store->workers[i].declared > store->quorum.decided ? 1 : 0;
        ready += is_member[i];
        live += store->clock.is_out[i] ? 0 : 1;
    }
    if (ready == 0 || ready < tt_min_u64(store->policy.quorum, live)) {
        return;
    }
    const tt_head head = {
        .kind = TT_SYNC_QUORUM, .set = store->id, .round = (uint32_t)store->quorum.decided++};
    for (uint32_t owner = 0; owner < store->split.owners; owner++) {
        if (!tt_sync_send_text(sync, tt_split_rank(&store->split, owner), head, is_member,
                               workers)) {
            fail_without_memory(sync, store);
        }
    }
}

/* ---- every owner ---- */

void tt_quorum_frame(tt_sync *sync, tt_owner_store *store, const tt_head *head, const void *payload)
{
    tt_quorum *quorum = &store->quorum;
    const uint32_t workers = sync->roles.workers;
    tt_decision **link = &quorum->queue;
    while (*link != NULL && (*link)->iteration < head->round) {
        link = &(*link)->next;
    }
    if (!has_quorum(store) || head->payload_bytes != workers || head->round < quorum->begun ||
        (*link != NULL && (*link)->iteration == head->round)) {
        return; /* a second copy, or nonsense */
    }
    tt_decision *made = quorum->free;
    if (made != NULL) {
        quorum->free = made->next;
    } else {
        made = tt_platform_allocate(sync->platform, decision_bytes(sync));
    }
    if (made == NULL) {
        fail_without_memory(sync, store);
        return;
    }
    made->iteration = head->round;
    memcpy(made->is_member, payload, workers);
    made->next = *link;
    *link = made;
    tt_quorum_advance(sync, store);
}

/* Have the worker's pushes of this iteration arrived? */
static bool has_arrived(const tt_owner_store *store, uint32_t worker, uint64_t iteration)
{
    const tt_owner_worker *one = &store->workers[worker];
    uint32_t i = 0;
    if (store->clock.is_out[worker] || store->clock.counts[worker] > iteration) {
        return true;
    }
    while (i < one->clock_count && one->clocks[i].clock <= iteration) {
        i++;
    }
    return i < one->clock_count && one->clocks[i].pushes <= one->arrived;
}

static bool can_begin(const tt_sync *sync, const tt_owner_store *store)
{
    const tt_decision *next = store->quorum.queue;
    bool can =
        next != NULL && next->iteration == store->quorum.begun && store->quorum.sums_open == 0;
    for (uint32_t i = 0; can && i < sync->roles.workers; i++) {
        can = next->is_member[i] == 0 || has_arrived(store, i, next->iteration);
    }
    return can;
}

/* Pushes of this iteration, and late ones, are chosen or consumed. */
static void begin_part(tt_sync *sync, tt_owner_store *store, tt_owner_part *part,
                       const tt_decision *decision)
{
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        const tt_slot *slot = &part->slots[i];
        if (slot->phase == TT_SLOT_FULL && slot->clock <= decision->iteration) {
            const bool is_member =
                decision->is_member[i] != 0 && slot->clock == decision->iteration;
            tt_owner_choose(sync, part, i, is_member || TT_PLANT(LATE_PUSH_COUNTED));
        }
    }
    store->quorum.sums_open += part->chosen > 0 ? 1 : 0;
}

void tt_quorum_advance(tt_sync *sync, tt_owner_store *store)
{
    tt_quorum *quorum = &store->quorum;
    while (has_quorum(store) && can_begin(sync, store)) {
        tt_decision *decision = quorum->queue;
        quorum->queue = decision->next;
        quorum->begun++;
        quorum->sums_open++; /* no iteration begins inside this one */
        for (uint32_t i = 0; i < OWNER_BUCKETS; i++) {
            for (tt_owner_key *key = store->buckets[i]; key != NULL; key = key->next) {
                for (uint32_t k = 0; key->status >= 0 && k < key->part_count; k++) {
                    begin_part(sync, store, &key->parts[k], decision);
                }
            }
        }
        decision->next = quorum->free;
        quorum->free = decision;
        quorum->sums_open--;
        if (quorum->sums_open == 0) {
            quorum->closed = quorum->begun;
            tt_owner_has_grown(sync, store);
        }
    }
}

void tt_quorum_summed(tt_sync *sync, tt_owner_store *store)
{
    tt_quorum *quorum = &store->quorum;
    if (!has_quorum(store)) {
        return;
    }
    TT_ASSERT(quorum->sums_open > 0);
    quorum->sums_open--;
    if (quorum->sums_open == 0) {
        quorum->closed = quorum->begun;
        tt_owner_has_grown(sync, store);
        tt_quorum_advance(sync, store);
    }
}
