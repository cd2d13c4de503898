/* SPDX-License-Identifier: Apache-2.0
 *
 * store_worker.c - requests of a worker: checked, sent, answered, ended; see store_worker.h. */
#include "sync/store_worker.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "codec/codec.h"
#include "kernel/hash64.h"
#include "sync/keep/keep.h"
#include "sync/rows/rows.h"
#include "sync/store_coded.h"
#include "sync/sum/sum_relay.h"
#include "sync/sum/sum_worker.h"
#include "sync/sync_internal.h"

/* ---- queues and ends ---- */

void tt_worker_queue_push(tt_sync_queue *queue, tt_sync_request *request)
{
    request->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = request;
    } else {
        queue->first = request;
    }
    queue->last = request;
}

tt_sync_request *tt_worker_queue_pop(tt_sync_queue *queue)
{
    tt_sync_request *request = queue->first;
    if (request != NULL) {
        queue->first = request->next;
        queue->last = queue->first != NULL ? queue->last : NULL;
    }
    return request;
}

void tt_worker_end(tt_sync *sync, tt_sync_request *request, tt_status status, const char *text)
{
    TT_ASSERT(sync->pending > 0 && request->lent == 0);
    sync->pending--;
    request->status = status;
    if (text != request->error) {
        (void)strncpy(request->error, status < 0 ? text : "", sizeof(request->error) - 1);
    }
    request->finished(request);
}

/* ---- requests on a tensor ---- */

static tt_head part_head(const tt_worker_key *key, tt_sync_kind kind, uint32_t number)
{
    return (tt_head){.kind = (uint8_t)kind,
                     .set = key->store->id,
                     .op = key->id,
                     .lane = number,
                     .round = (uint32_t)key->store->clock};
}

/* Priorities beyond 16 bits are the first or the last. */
static uint16_t stage_of(int32_t urgency)
{
    const int32_t most = INT16_MAX, least = INT16_MIN;
    const int32_t kept = urgency > most ? most : urgency < least ? least : urgency;
    return (uint16_t)(int16_t)kept;
}

uint32_t tt_worker_peer(const tt_sync *sync, const tt_worker_key *key, uint32_t number)
{
    const uint32_t owner = tt_split_rank(&key->store->split, key->parts[number].place.owner);
    return key->sum != NULL && sync->relays != NULL
               ? tt_relay_of(sync->relays, sync->roles.rank, owner, number)
               : owner;
}

void tt_worker_transmit(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    tt_sync_request *request = key->queue.first;
    tt_worker_part *part = &key->parts[number];
    tt_head head = part_head(key,
                             request->is_first            ? TT_SYNC_FIRST
                             : tt_worker_is_push(request) ? TT_SYNC_PUSH
                                                          : TT_SYNC_PULL,
                             number);
    const bool has_payload =
        tt_worker_is_push(request) || request->is_first || request->verb == TT_STORE_FILL;
    head.descriptor = part->asked;
    head.round = (uint32_t)part->clock;
    head.argument = part->pushes;
    if (tt_keep_is_about(request)) {
        tt_keep_head(request, &head);
    }
    head.stage = stage_of(request->urgency);
    head.flags = request->verb == TT_STORE_PUSH_PULL ? TT_SYNC_FLAG_ANSWER : 0;
    tt_send send = {.peer = tt_worker_peer(sync, key, number),
                    .urgency = request->urgency,
                    .token = tt_push_token(key->index, number)};
    if (request->is_rows) {
        tt_rows_transmit(sync, key, number, head);
        if (!has_payload || key->status < 0) {
            return; /* a pull, which may be over; or the caller has changed its rows meanwhile */
        }
        head.flags |= TT_SYNC_FLAG_ROWS;
    }
    const tt_rows_span span = tt_rows_span_of(key, number);
    uint64_t bytes = has_payload ? span.bytes : 0;
    send.payload = bytes > 0 ? (const uint8_t *)request->input + span.first : NULL;
    if (key->is_coded && tt_worker_is_push(request)) {
        send.payload = part->wire;
        bytes = part->wire_bytes;
    }
    /* The owner may be this rank: the reply may come at once, and end the request. */
    const tt_status status = tt_sync_send(sync, &send, head, (uint32_t)bytes);
    if (status == TT_IN_PROGRESS) {
        part->is_lent = true;
        request->lent++;
    }
}

static void send_part(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    tt_worker_part *part = &key->parts[number];
    part->is_awaited = true;
    key->awaited++;
    part->asked++;
    part->clock = key->store->clock;
    if (tt_worker_is_push(key->queue.first)) {
        part->pushes++;
        key->store->pushes[part->place.owner]++; /* once: store_adopt.c (4) */
    }
    if (!tt_worker_is_held(sync, key, number)) {
        tt_worker_transmit(sync, key, number);
    }
}

/* The last part was handed out, or will be by the caller: what is counted until then. */
static void all_handed(tt_worker_key *key)
{
    TT_ASSERT(key->store->unsent > 0);
    key->is_handing = false;
    key->store->unsent--;
}

/* A pull is short: links have many of them, so that they do not idle, but not all of a large
 * tensor, since a link has a bounded number of frames. */
static bool has_window(const tt_worker_key *key)
{
    enum { PULLS_MAX = 16 };
    const tt_sync_request *request = key->queue.first;
    const uint32_t owners = key->store->split.owners;
    const bool is_pull = request->verb == TT_STORE_PULL || request->verb == TT_STORE_READ;
    return request->lent < owners && (!is_pull || key->awaited < PULLS_MAX * owners);
}

void tt_worker_hand_out(tt_sync *sync, tt_worker_key *key)
{
    tt_worker_store *store = key->store;
    bool was_last = false;
    while (!was_last && key->handed < key->part_count && has_window(key)) {
        const uint32_t number = key->order[key->handed];
        key->handed = tt_rows_next(key, key->handed + 1);
        was_last = key->handed == key->part_count;
        if (was_last && key->is_handing) {
            all_handed(key);
        }
        send_part(sync, key, number); /* the last may end the request */
    }
    if (was_last) {
        tt_worker_clocks_step(sync, store);
    }
}

static void send_parts(tt_sync *sync, tt_worker_key *key)
{
    tt_sync_request *request = key->queue.first;
    request->open = tt_rows_wanted(key);
    key->awaited = 0;
    request->since_ns = tt_now(sync->platform);
    if (tt_worker_is_push(request) && key->is_coded) {
        tt_coded_key_queue(sync, key); /* they are sent as they are encoded */
        return;
    }
    key->handed = tt_rows_next(key, 0);
    key->is_handing = tt_worker_is_push(request);
    tt_worker_hand_out(sync, key);
}

bool tt_worker_step(tt_sync *sync)
{
    tt_worker_key *key = sync->encoding;
    if (key == NULL) {
        return false;
    }
    tt_worker_store *store = key->store;
    const uint32_t number = key->order[key->encoded];
    tt_coded_encode(sync, key, number);
    key->encoded++;
    const bool is_last = key->encoded == key->part_count;
    if (is_last) {
        tt_coded_key_unqueue(sync, key);
        TT_ASSERT(store->unsent > 0);
        store->unsent--;
    }
    send_part(sync, key, number);
    if (is_last) {
        tt_worker_clocks_step(sync, store);
    }
    return sync->encoding != NULL;
}

static void send_claim(tt_sync *sync, tt_worker_key *key)
{
    uint8_t bytes[sizeof(tt_sync_claim) + TT_SYNC_NAME_BYTES];
    const tt_sync_claim claim = key->claim;
    const tt_split *split = &key->store->split;
    const size_t length = strlen(key->name);
    const tt_head head = {.kind = TT_SYNC_ADD,
                          .set = key->store->id,
                          .op = key->id,
                          .descriptor = key->left,
                          .argument = key->left_sums};
    memcpy(bytes, &claim, sizeof(claim));
    memcpy(bytes + sizeof(claim), key->name, length);
    key->queue.first->open = 0;
    for (uint32_t owner = 0; owner < split->owners; owner++) {
        key->is_told[owner] = sync->is_gone[tt_split_rank(split, owner)];
        key->queue.first->open += key->is_told[owner] ? 0 : 1;
    }
    for (uint32_t owner = 0; owner < split->owners; owner++) {
        if (!tt_sync_send_text(sync, tt_split_rank(split, owner), head, bytes,
                               (uint32_t)(sizeof(claim) + length))) {
            tt_worker_fail_without_memory(sync, key->store, key->name);
        }
    }
}

void tt_worker_begin(tt_sync *sync, tt_worker_key *key)
{
    if (key->queue.first->verb == TT_STORE_ADD) {
        send_claim(sync, key);
    } else {
        send_parts(sync, key);
    }
}

/* The request at the front is over, if nothing of it is open. */
static void settle(tt_sync *sync, tt_worker_key *key)
{
    tt_sync_request *request = key->queue.first;
    if (request == NULL || request->open > 0 || request->lent > 0) {
        return;
    }
    const bool is_new = request->verb == TT_STORE_ADD && !request->is_first;
    if (is_new) {
        key->is_added = true;
        tt_worker_offer(sync, key);
    }
    if (is_new && request->input != NULL && sync->roles.rank == 0 &&
        !key->store->update.update->is_sum) {
        request->is_first = true;
        send_parts(sync, key);
        return;
    }
    (void)tt_worker_queue_pop(&key->queue);
    tt_count_request(sync, key, request);
    if (key->queue.first != NULL) {
        tt_worker_begin(sync, key);
    }
    tt_worker_clocks_step(sync, key->store);
    tt_worker_end(sync, request, request->lost, request->lost < 0 ? request->error : "");
}

void tt_worker_settle(tt_sync *sync, tt_worker_key *key)
{
    settle(sync, key);
}

void tt_worker_recall(tt_sync *sync, tt_worker_key *key, uint32_t number, uint32_t peer)
{
    tt_worker_part *part = &key->parts[number];
    const uint64_t token = tt_push_token(key->index, number);
    if (part->is_lent) {
        sync->platform->ops->recall(sync->platform, peer, token);
        key->queue.first->lent--;
    }
    if (part->is_rows_lent) {
        sync->platform->ops->recall(sync->platform, peer, token | TOKEN_ROWS);
        key->queue.first->lent--;
    }
    part->is_lent = part->is_rows_lent = false;
}

/* Take back what sends and arrivals have of the request at the front. */
static void withdraw(tt_sync *sync, tt_worker_key *key)
{
    const tt_sync_request *request = key->queue.first;
    for (uint32_t i = 0; i < key->part_count; i++) {
        tt_worker_part *part = &key->parts[i];
        const uint32_t peer = tt_worker_peer(sync, key, i);
        tt_worker_recall(sync, key, i, peer);
        if (part->is_arriving) {
            sync->arriving[peer] = (tt_arriving){.part = NULL};
            part->is_arriving = false;
            if (!sync->is_gone[peer]) {
                sync->platform->ops->discard(sync->platform, peer);
            }
        }
        part->is_awaited = false;
    }
    TT_ASSERT(request->lent == 0);
}

void tt_worker_fail_key(tt_sync *sync, tt_worker_key *key, tt_status status, const char *text)
{
    if (key->status < 0) {
        return;
    }
    key->status = status;
    (void)strncpy(key->error, text, sizeof(key->error) - 1);
    if (key->queue.first != NULL) {
        if (tt_worker_is_push(key->queue.first) && !key->is_encoding && !key->is_handing) {
            key->store->unsent++; /* as if it had not been sent: all are taken off below */
        }
        tt_coded_key_unqueue(sync, key);
        key->is_handing = false;
        key->handed = key->part_count;
        withdraw(sync, key);
    }
    while (key->queue.first != NULL) {
        tt_sync_request *request = tt_worker_queue_pop(&key->queue);
        if (tt_worker_is_push(request)) {
            key->store->unsent--;
        }
        tt_worker_end(sync, request, status, key->error);
    }
    tt_worker_clocks_step(sync, key->store);
}

/* ---- clocks ---- */

void tt_worker_ask_clock(tt_sync *sync, tt_worker_store *store)
{
    const uint32_t keeper = tt_sync_keeper(sync, &store->split);
    const tt_head head = {.kind = TT_SYNC_CLOCK,
                          .flags = TT_SYNC_FLAG_ANSWER,
                          .set = store->id,
                          .round = (uint32_t)store->clock,
                          .argument = store->pushes[keeper]};
    if (store->has_clocked) {
        tt_sync_signal(sync, tt_split_rank(&store->split, keeper), head);
    }
}

/* The iteration of the first CLOCK is over once the pushes before it were sent. */
static void send_clock(tt_sync *sync, tt_worker_store *store)
{
    const uint32_t keeper = tt_sync_keeper(sync, &store->split);
    store->has_clocked = true;
    store->clock++;
    store->clocks.first->since_ns = tt_now(sync->platform);
    for (uint32_t i = 0; i < store->split.owners; i++) {
        const tt_head head = {.kind = TT_SYNC_CLOCK,
                              .flags = i == keeper ? TT_SYNC_FLAG_ANSWER : 0,
                              .set = store->id,
                              .round = (uint32_t)store->clock,
                              .argument = store->pushes[i]};
        tt_sync_signal(sync, tt_split_rank(&store->split, i), head);
    }
}

static void release_later(tt_sync *sync, tt_worker_store *store)
{
    if (store->is_releasing) {
        return; /* a call that was released is over already */
    }
    store->is_releasing = true;
    while (store->later.first != NULL && store->clocks.first == NULL && store->status >= 0) {
        tt_worker_use(sync, store, tt_worker_queue_pop(&store->later));
    }
    store->is_releasing = false;
}

void tt_worker_clocks_step(tt_sync *sync, tt_worker_store *store)
{
    while (store->clocks.first != NULL && store->status >= 0) {
        if (!store->has_clocked && store->unsent > 0) {
            return;
        }
        if (!store->has_clocked) {
            send_clock(sync, store); /* the reply may come at once */
            continue;
        }
        if (store->least < tt_policy_needs(&store->policy, store->clock)) {
            store->clocks.first->has_waited = true;
            return;
        }
        store->has_clocked = false;
        if (store->policy.quorum > 0) { /* others may have closed more iterations meanwhile */
            store->clock = tt_max_u64(store->clock, store->least);
        }
        tt_sync_request *request = tt_worker_queue_pop(&store->clocks);
        request->clock = store->clock;
        if (request->has_waited) {
            store->tally.clock_waits++;
            store->tally.clock_wait_ns += tt_now(sync->platform) - request->since_ns;
        }
        tt_worker_end(sync, request, TT_OK, "");
    }
    release_later(sync, store);
}

/* ---- frames ---- */

void tt_worker_part_done(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    tt_sync_request *request = key->queue.first;
    tt_worker_part *part = &key->parts[number];
    TT_ASSERT(request != NULL && request->open > 0 && key->awaited > 0);
    if (part->is_uncounted && key->is_coded && tt_worker_is_push(request)) {
        tt_coded_put_back(sync, key, number);
    }
    part->is_uncounted = part->is_awaited = part->is_torn = false;
    key->awaited--;
    request->open--;
    settle(sync, key);
}

/* An answer with a value is there. */
static void value_arrived(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    tt_worker_part *part = &key->parts[number];
    part->seen = tt_max_u64(part->seen, part->arriving);
    if (!tt_coded_has_answers(key) || tt_coded_decode(sync, key, number) == TT_OK) {
        tt_worker_hand_out(sync, key); /* of a pull: while this part keeps the request open */
        if (key->status >= 0) {
            tt_worker_part_done(sync, key, number);
        }
        return;
    }
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, tt_worker_peer(sync, key, number));
    tt_text_add(&text, " answered bytes of tensor ");
    tt_text_add_quoted(&text, key->name, TT_SYNC_NAME_BYTES);
    tt_text_add(&text, " that are not of the store's codec; use one version of Tutti on all");
    tt_worker_fail_store(sync, key->store, TT_ERR_BAD_WIRE, text.bytes);
}

static void *value_frame(tt_sync *sync, tt_worker_key *key, const tt_head *head,
                         const void *payload)
{
    tt_worker_part *part = &key->parts[head->lane];
    tt_sync_request *request = key->queue.first;
    const bool is_wanted = request->verb == TT_STORE_PULL || request->verb == TT_STORE_PUSH_PULL ||
                           request->verb == TT_STORE_READ;
    const bool is_coded = tt_coded_has_answers(key);
    const tt_rows_span span = tt_rows_span_of(key, head->lane);
    const uint64_t bytes = is_coded ? part->wire_bytes : span.bytes;
    if (!is_wanted || part->is_arriving || head->payload_bytes != bytes) {
        return NULL;
    }
    request->step = tt_max_u64(request->step, head->argument);
    part->arriving = key->store->policy.quorum > 0 ? head->argument : 0;
    uint8_t *room = is_coded    ? part->answer
                    : bytes > 0 ? (uint8_t *)request->output + span.first
                                : NULL;
    if (payload == NULL) {
        part->is_arriving = true;
        sync->arriving[tt_worker_peer(sync, key, head->lane)] =
            (tt_arriving){.key = key, .number = head->lane};
        return room;
    }
    if (bytes > 0) {
        memcpy(room, payload, bytes);
    }
    value_arrived(sync, key, head->lane);
    return NULL;
}

void tt_worker_payload(tt_sync *sync, tt_worker_key *key, uint32_t number)
{
    TT_ASSERT(number < key->part_count && key->parts[number].is_arriving);
    key->parts[number].is_arriving = false;
    value_arrived(sync, key, number);
}

static void *part_frame(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head,
                        const void *payload)
{
    tt_worker_key *key = tt_worker_find_id(store, head->op);
    if (key == NULL || key->status < 0 || key->queue.first == NULL ||
        head->lane >= key->part_count) {
        return NULL;
    }
    tt_worker_part *part = &key->parts[head->lane];
    const tt_sync_request *request = key->queue.first;
    const bool is_answer = part->is_awaited && !part->is_moving &&
                           head->descriptor == part->asked &&
                           peer == tt_worker_peer(sync, key, head->lane);
    if (!is_answer) {
        return NULL; /* a second copy */
    }
    key->queue.first->has_waited |= (head->flags & TT_SYNC_FLAG_WAITED) != 0;
    part->is_uncounted = (head->flags & TT_SYNC_FLAG_UNCOUNTED) != 0;
    key->queue.first->is_uncounted |= part->is_uncounted;
    if (head->kind == TT_SYNC_TAKEN && tt_worker_is_push(request) && !part->is_uncounted) {
        part->seen = tt_max_u64(part->seen, part->clock + 1); /* it has counted in that sum */
    }
    if (head->kind == TT_SYNC_TAKEN && (head->flags & TT_SYNC_FLAG_LOST) != 0 &&
        part->place.owner != part->home) {
        tt_worker_lose(sync, key, head->lane);
        return NULL;
    }
    if (head->kind == TT_SYNC_VALUE) {
        return value_frame(sync, key, head, payload);
    }
    if (request->verb == TT_STORE_PUSH || request->is_first || request->verb == TT_STORE_FILL) {
        tt_worker_part_done(sync, key, head->lane);
    }
    return NULL;
}

static void added_frame(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head)
{
    tt_worker_key *key = tt_worker_find_id(store, head->op);
    const uint32_t owner = tt_split_number(&store->split, peer);
    tt_sync_request *request = key != NULL ? key->queue.first : NULL;
    if (request == NULL || request->verb != TT_STORE_ADD || request->is_first ||
        owner >= store->split.owners || key->is_told[owner]) {
        return;
    }
    key->is_told[owner] = true;
    request->open--;
    settle(sync, key);
}

static void failed_frame(tt_sync *sync, tt_worker_store *store, const tt_head *head,
                         const void *payload)
{
    char text[TT_SYNC_ERROR_BYTES] = {0};
    const int64_t status = (int64_t)head->argument;
    tt_worker_key *key = head->op != 0 ? tt_worker_find_id(store, head->op) : NULL;
    if (status >= 0 || status < -64) {
        return;
    }
    memcpy(text, payload, tt_min_u64(head->payload_bytes, sizeof(text) - 1));
    if (head->op == 0) {
        tt_worker_fail_store(sync, store, (tt_status)status, text);
    } else if (store->id == TT_STORE_SUMS) {
        tt_sum_failed(sync, key, head, text);
    } else if (key != NULL) {
        tt_worker_fail_tensor(sync, key, (tt_status)status, text);
    }
}

static void life_frame(tt_sync *sync, tt_worker_store *store, uint32_t peer, const tt_head *head,
                       const void *payload)
{
    const uint32_t owner = tt_split_number(&store->split, peer);
    const tt_sync_request *request = store->life.first;
    const bool is_open = head->kind == TT_SYNC_OPENED;
    if (owner >= store->split.owners || request == NULL ||
        (request->verb == TT_STORE_OPEN) != is_open) {
        return;
    }
    if (is_open && (int64_t)head->argument < 0) {
        failed_frame(sync, store, head, payload);
        return;
    }
    if (is_open && store->update.update->is_own) {
        char description[TT_SYNC_TEXT_BYTES + 1] = {0};
        memcpy(description, payload, tt_min_u64(head->payload_bytes, TT_SYNC_TEXT_BYTES));
        tt_worker_take_description(sync, store, peer, description);
    }
    store->is_told[owner] = true;
    tt_worker_life_settle(sync, store);
}

static void min_frame(tt_sync *sync, tt_worker_store *store, const tt_head *head)
{
    store->least = tt_max_u64(store->least, head->argument);
    tt_worker_clocks_step(sync, store);
}

void *tt_worker_frame(tt_sync *sync, uint32_t peer, const tt_head *head, const void *payload)
{
    tt_worker_store *store = head->set < TT_STORES_MAX ? sync->stores[head->set] : NULL;
    const bool is_long = payload == NULL;
    if (store == NULL || (is_long && head->kind != TT_SYNC_VALUE)) {
        return NULL;
    }
    switch (head->kind) {
    case TT_SYNC_OPENED:
    case TT_SYNC_CLOSED:
        life_frame(sync, store, peer, head, payload);
        return NULL;
    case TT_SYNC_ADDED:
        added_frame(sync, store, peer, head);
        return NULL;
    case TT_SYNC_TAKEN:
    case TT_SYNC_VALUE:
        return part_frame(sync, store, peer, head, payload);
    case TT_SYNC_ADOPTED:
        tt_worker_adopted(sync, store, peer, head);
        return NULL;
    case TT_SYNC_COUNTED:
        tt_count_reply(sync, store, peer, head, payload);
        return NULL;
    case TT_SYNC_OPTIONED:
        tt_keep_options_reply(sync, store, peer, head, payload);
        return NULL;
    case TT_SYNC_WAS_SET:
        tt_set_reply(sync, store, peer, head);
        return NULL;
    case TT_SYNC_MIN:
        min_frame(sync, store, head);
        return NULL;
    case TT_SYNC_FAILED:
        failed_frame(sync, store, head, payload);
        return NULL;
    case TT_SYNC_MISSING:
        tt_stall_reply(sync, peer, head, payload);
        return NULL;
    default:
        return NULL;
    }
}

void tt_worker_sent(tt_sync *sync, uint64_t token)
{
    const uint64_t index = (token & (TOKEN_ROWS - 1)) >> TOKEN_PART_BITS;
    const uint32_t number = token & ((1U << TOKEN_PART_BITS) - 1);
    TT_ASSERT(index < sync->key_count && sync->keys[index] != NULL);
    tt_worker_key *key = sync->keys[index];
    TT_ASSERT(number < key->part_count);
    tt_worker_part *part = &key->parts[number];
    bool *is_lent = (token & TOKEN_ROWS) != 0 ? &part->is_rows_lent : &part->is_lent;
    TT_ASSERT(*is_lent);
    *is_lent = false;
    key->queue.first->lent--;
    tt_worker_hand_out(sync, key);
    settle(sync, key);
}

/* ---- owners that are gone ---- */

void tt_worker_peer_out(tt_sync *sync, uint32_t peer, const char *why)
{
    const tt_status status = why != NULL ? TT_ERR_PEER_DOWN : TT_ERR_PEER_LEFT;
    tt_text text = {0};
    if (sync->roles.rank >= sync->roles.workers) {
        return;
    }
    tt_sync_add_peer(sync, &text, peer);
    if (why != NULL) {
        tt_text_add(&text, " is gone (%s), and what it owned of the store is lost", why);
    } else {
        tt_text_add(&text, " has left, and what it owned of the store is lost; close stores first");
    }
    for (uint32_t i = 0; i < TT_STORES_MAX; i++) {
        tt_worker_store *store = sync->stores[i];
        const uint32_t owner = store != NULL ? tt_split_number(&store->split, peer) : 0;
        if (store == NULL || owner >= store->split.owners) {
            continue;
        }
        const bool is_sums = i == TT_STORE_SUMS;
        if (is_sums && sync->sums.handover.phase != TT_HANDOVER_NONE) {
            continue;
        }
        if (is_sums && why != NULL && peer >= sync->roles.workers &&
            tt_handover_begin(sync, peer)) {
            continue;
        }
        if (is_sums && why == NULL) {
            tt_sum_owner_left(sync, owner);
        } else if (tt_worker_can_move(sync, store, peer)) {
            tt_worker_move(sync, store, peer);
        } else {
            tt_worker_fail_store(sync, store, status, text.bytes);
            tt_worker_life_settle(sync, store);
        }
    }
    tt_handover_worker_out(sync);
}
