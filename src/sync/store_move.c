/* SPDX-License-Identifier: Apache-2.0
 *
 * store_move.c - parts of a worker's tensors whose owner is gone; see store_worker.h.
 *
 * For update sum: such an owner had no state that others need. (Not for named sums, of which owners
 * know more: who has joined or left a key, and what was objected to.) All workers offer a part to
 * the same new owner, the next live one of a fixed order, and tell it how many pushes of the part
 * were answered to them (ADOPT). It replies to all with the most of these (ADOPTED).
 *
 *  (1) A push up to that number is not sent again: somebody has its sum and will not push it once
 *      more. It fails, as does a pull of its sum. All others are sent again.
 *  (2) A part that moves takes no answer, and sends nothing but ADOPT. Answers of the old owner
 *      that arrive late are dropped: what this worker has declared stays true.
 *  (3) A push whose input is also its output, and has some of the answer's bytes, cannot be sent
 *      again: it is declared as answered. Of coded pushes neither is touched before the answer has
 *      arrived.
 *  (4) A coded push is encoded once, also if it fails: it is sent again from its code. So the
 *      residual is renewed once for each push, whatever becomes of owners. That of the old owner's
 *      sums is lost.
 *  (5) Under a quorum numbers of pushes differ. There the owner says whether the push that would be
 *      sent again is lost, and whether what a pull wants is. For that a worker declares the
 *      iteration of its push, and the last one of whose sum it has anything.
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "sync/store_coded.h"
#include "sync/sync_internal.h"

/* The owner of a part, as far as this rank knows who is gone. */
static uint32_t live_owner(const tt_sync *sync, const tt_worker_key *key, uint32_t number)
{
    const tt_split *split = &key->store->split;
    const tt_worker_part *part = &key->parts[number];
    uint32_t turn = 0;
    uint32_t owner = part->home;
    while (sync->is_gone[tt_split_rank(split, owner)] && ++turn < split->owners) {
        owner = tt_split_heir(split, part->home, number, turn);
    }
    return owner;
}

bool tt_worker_can_move(const tt_sync *sync, const tt_worker_store *store, uint32_t peer)
{
    const uint32_t keeper = tt_sync_keeper(sync, &store->split);
    return store->status >= 0 && peer >= sync->roles.workers && store->update.update->is_sum &&
           store->id != TT_STORE_SUMS &&
           (tt_policy_is_bulk(&store->policy) || store->policy.quorum > 0) &&
           !sync->is_gone[tt_split_rank(&store->split, keeper)];
}

/* The request fails when its other parts have ended. */
void tt_worker_lose(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    tt_sync_request *request = key->queue.first;
    const tt_worker_part *part = &key->parts[number];
    const uint64_t iteration = key->store->policy.quorum > 0
                                   ? part->clock + (tt_worker_is_push(request) ? 1 : 0)
                                   : part->lost;
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, part->dead);
    tt_text_add(&text, " is gone, and with it a part of iteration %llu of tensor ",
                (unsigned long long)iteration);
    tt_text_add_quoted(&text, key->name, TT_SYNC_NAME_BYTES);
    tt_text_add(&text, ", of which some workers have the sum; others own it now, push the next");
    request->lost = TT_ERR_PEER_DOWN;
    memcpy(request->error, text.bytes, tt_min_u64(text.length + 1, sizeof(request->error)));
    request->error[sizeof(request->error) - 1] = '\0';
    tt_worker_part_done(sync, key, number);
}

bool tt_worker_is_held(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    const tt_worker_part *part = &key->parts[number];
    if (!part->is_moving && part->lost > 0 && part->pushes <= part->lost) {
        tt_worker_lose(sync, key, number); /* a pull: the next push is a later one */
        return true;
    }
    return part->is_moving;
}

/* ---- to the next owner ---- */

/* Take back what the exchange with the old owner has of the front request. */
static void part_withdraw(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    tt_worker_part *part = &key->parts[number];
    const uint32_t peer = tt_split_rank(&key->store->split, part->place.owner);
    const tt_sync_request *request = key->queue.first;
    tt_worker_recall(sync, key, number, peer);
    part->is_torn = part->is_torn || (part->is_arriving && tt_worker_is_push(request) &&
                                      request->input == request->output && !key->is_coded);
    part->seen = part->is_torn ? tt_max_u64(part->seen, part->arriving) : part->seen;
    part->is_arriving = false; /* see gone_frame of sync.c for a peer that still sends */
}

static void part_move(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    tt_worker_part *part = &key->parts[number];
    const uint32_t owner = live_owner(sync, key, number);
    if (owner != part->place.owner) {
        part_withdraw(sync, key, number);
        part->dead = tt_split_rank(&key->store->split, part->place.owner);
        part->place.owner = owner;
        part->is_moving = true;
        part->is_offered = false;
    }
}

void tt_worker_move_new(tt_sync *sync, tt_worker_key *key)
{
    for (uint32_t i = 0; i < key->part_count; i++) {
        part_move(sync, key, i);
    }
}

/* The owner may be this rank, and reply at once. */
void tt_worker_offer(tt_sync *sync, tt_worker_key *key)
{
    const bool is_quorum = key->store->policy.quorum > 0;
    for (uint32_t i = 0; i < key->part_count; i++) {
        tt_worker_part *part = &key->parts[i];
        const tt_sync_request *request = key->queue.first;
        const bool can_repeat =
            part->is_awaited && request != NULL && tt_worker_is_push(request) && !part->is_torn;
        if (part->is_moving && !part->is_offered) {
            const tt_head head = {.kind = TT_SYNC_ADOPT,
                                  .flags = can_repeat ? TT_SYNC_FLAG_REPEAT : 0,
                                  .set = key->store->id,
                                  .op = key->id,
                                  .lane = i,
                                  .round = can_repeat ? (uint32_t)part->clock : 0,
                                  .descriptor = is_quorum ? part->seen : 0,
                                  .argument = part->pushes - (can_repeat ? 1 : 0)};
            part->is_offered = true;
            tt_sync_signal(sync, tt_split_rank(&key->store->split, part->place.owner), head);
        }
    }
}

static void key_move(tt_sync *sync, tt_worker_key *key, uint32_t owner)
{
    tt_sync_request *request = key->queue.first;
    tt_worker_move_new(sync, key);
    if (key->is_added) {
        tt_worker_offer(sync, key);
    } else if (request != NULL && !key->is_told[owner]) {
        TT_ASSERT(request->verb == TT_STORE_ADD && request->open > 0);
        key->is_told[owner] = true;
        request->open--;
    }
    tt_worker_hand_out(sync, key); /* its place on the links is free */
    tt_worker_settle(sync, key);   /* nothing of it may be lent any more */
}

void tt_worker_move(tt_sync *sync, tt_worker_store *store, uint32_t peer)
{
    const uint32_t owner = tt_split_number(&store->split, peer);
    TT_ASSERT(owner < store->split.owners);
    for (uint32_t i = 0; i < WORKER_BUCKETS; i++) {
        for (tt_worker_key *key = store->buckets[i]; key != NULL; key = key->next) {
            if (key->status >= 0) {
                key_move(sync, key, owner);
            }
        }
    }
    tt_worker_ask_clock(sync, store); /* the keeper may be another now */
    tt_count_owner_out(sync, store);
    tt_worker_life_settle(sync, store);
}

/* Send what the front request wants of a part. */
static void resume(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    if (TT_PLANT(PUSH_ENCODED_AGAIN) && key->is_coded && tt_worker_is_push(key->queue.first)) {
        tt_coded_encode(sync, key, number);
    }
    tt_worker_transmit(sync, key, number);
}

/* (5), (3) */
static void resume_quorum(tt_sync *sync, tt_worker_key *key, const tt_head *head)
{
    tt_worker_part *part = &key->parts[head->lane];
    const bool is_lost = (head->flags & TT_SYNC_FLAG_LOST) != 0 || part->is_torn;
    if (part->is_awaited && is_lost && tt_worker_is_push(key->queue.first)) {
        part->seen = tt_max_u64(part->seen, part->clock + 1); /* also for the owner after this */
        tt_worker_lose(sync, key, head->lane);
    } else if (part->is_awaited) {
        resume(sync, key, head->lane);
    }
}

void tt_worker_adopted(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head)
{
    tt_worker_key *key = tt_worker_find_id(store, head->op);
    if (key == NULL || key->status < 0 || head->lane >= key->part_count) {
        return;
    }
    tt_worker_part *part = &key->parts[head->lane];
    if (!part->is_moving || !part->is_offered || head->argument > part->pushes ||
        peer != tt_split_rank(&store->split, part->place.owner)) {
        return; /* a second copy, or nonsense */
    }
    part->is_moving = false;
    if (key->store->policy.quorum > 0) {
        resume_quorum(sync, key, head);
        return;
    }
    part->lost = tt_max_u64(part->lost, head->argument);
    if (part->is_awaited && !tt_worker_is_held(sync, key, head->lane)) {
        resume(sync, key, head->lane);
    }
}
