/* SPDX-License-Identifier: Apache-2.0
 *
 * store_quorum.c - iterations that end when K workers have completed them: backup workers (Chen et
 * al., "Revisiting distributed synchronous SGD", 2016).
 *
 *  (1) A worker's pushes of an iteration count all, or none: one owner, the keeper, decides for all
 *      of them. So a gradient is never applied to some parts only, unless its worker dies.
 *  (2) An owner closes an iteration when every push that counts in it has arrived, or its worker is
 *      gone. A push of an iteration that was closed is consumed; the answer marks it as not
 *      counted.
 *
 * With update sum a store outlives its servers, the keeper among them:
 *
 *  (3) Nobody acts on a decision that an owner lacks: no owner begins the iteration, and no worker
 *      is let into the next one. All owners reply to QUORUM (HAVE), then the keeper sends SURE. So
 *      every owner that is left knows each decision that anyone has acted on.
 *  (4) A keeper decides an iteration when all owners know the decision before. So they differ in
 *      the last one at most, and its QUORUM says that all before are sure.
 *  (5) A new keeper asks all owners (ASK) before it decides. One that has replied (KNOWN) takes
 *      nothing from earlier keepers any more. The last decision that one of them knows is sent to
 *      all again: no iteration is decided twice.
 *  (6) Owners keep the last HISTORY_MAX decisions for parts that come to them with pushes of
 *      iterations that they have begun (store_adopt.c).
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "sync/sync_internal.h"

enum { HISTORY_MAX = 64 };

static bool has_quorum(const tt_owner_store *store)
{
    return store->policy.quorum > 0;
}

/* (3) to (6) */
static bool outlives_owners(const tt_owner_store *store)
{
    return has_quorum(store) && store->update.update->is_sum;
}

uint64_t tt_owner_progress(const tt_owner_store *store)
{
    return has_quorum(store) ? store->quorum.closed : store->clock.least;
}

void tt_quorum_start(tt_owner_store *store, uint64_t clock)
{
    tt_quorum *quorum = &store->quorum;
    quorum->decided = quorum->sure = quorum->begun = quorum->closed = clock;
}

/* ---- decisions that are known ---- */

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

tt_status tt_quorum_make(tt_sync *sync, tt_owner_store *store)
{
    bool **has_replied = &store->quorum.has_replied;
    const size_t bytes = tt_sync_processes(sync) * sizeof(**has_replied);
    *has_replied = tt_platform_allocate(sync->platform, bytes);
    return *has_replied != NULL ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_quorum_release(tt_sync *sync, tt_owner_store *store)
{
    tt_quorum *quorum = &store->quorum;
    list_release(sync, quorum->queue);
    list_release(sync, quorum->past);
    list_release(sync, quorum->free);
    quorum->queue = quorum->past = quorum->free = NULL;
    tt_platform_release(sync->platform, quorum->has_replied,
                        tt_sync_processes(sync) * sizeof(*quorum->has_replied));
}

static const tt_decision *find_in(const tt_decision *list, uint64_t iteration)
{
    while (list != NULL && list->iteration != iteration) {
        list = list->next;
    }
    return list;
}

/* NULL: it is not known, or was forgotten. */
static const tt_decision *find(const tt_owner_store *store, uint64_t iteration)
{
    const tt_decision *found = find_in(store->quorum.queue, iteration);
    return found != NULL ? found : find_in(store->quorum.past, iteration);
}

tt_counting tt_quorum_counts(const tt_owner_store *store, uint32_t worker, uint64_t iteration)
{
    const tt_decision *found = find(store, iteration);
    if (found == NULL) {
        return TT_COUNTING_UNKNOWN;
    }
    return found->is_member[worker] != 0 ? TT_COUNTING : TT_COUNTING_NOT;
}

static void fail_without_memory(tt_sync *sync, tt_owner_store *store)
{
    tt_text text = {0};
    tt_sync_add_peer(sync, &text, sync->roles.rank);
    tt_text_add(&text, " has no memory to close an iteration");
    tt_owner_fail(sync, store, TT_ERR_NO_MEMORY, &text);
}

/* Put it into the queue, unless it is there. False: no memory, the store has failed. */
static bool add(tt_sync *sync, tt_owner_store *store, uint64_t iteration, const void *members)
{
    tt_quorum *quorum = &store->quorum;
    tt_decision **link = &quorum->queue;
    while (*link != NULL && (*link)->iteration < iteration) {
        link = &(*link)->next;
    }
    if (iteration < quorum->begun || (*link != NULL && (*link)->iteration == iteration)) {
        return true;
    }
    tt_decision *made = quorum->free;
    if (made != NULL) {
        quorum->free = made->next;
    } else {
        made = tt_platform_allocate(sync->platform, decision_bytes(sync));
    }
    if (made == NULL) {
        fail_without_memory(sync, store);
        return false;
    }
    made->iteration = iteration;
    memcpy(made->is_member, members, sync->roles.workers);
    made->next = *link;
    *link = made;
    quorum->decided = tt_max_u64(quorum->decided, iteration + 1);
    return true;
}

/* Its iteration has begun. */
static void put_away(const tt_owner_store *store, tt_quorum *quorum, tt_decision *decision)
{
    tt_decision **link = &quorum->past;
    decision->next = quorum->free;
    if (!outlives_owners(store)) {
        quorum->free = decision;
        return;
    }
    decision->next = NULL;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = decision;
    if (quorum->past_count++ == HISTORY_MAX) {
        tt_decision *oldest = quorum->past;
        quorum->past = oldest->next;
        oldest->next = quorum->free;
        quorum->free = oldest;
        quorum->past_count--;
    }
}

/* ---- the keeper ---- */

static void send_all(tt_sync *sync, tt_owner_store *store, tt_head head, const void *members,
                     uint32_t bytes)
{
    head.set = store->id;
    for (uint32_t owner = 0; owner < store->split.owners && store->status >= 0; owner++) {
        if (!tt_sync_send_text(sync, tt_split_rank(&store->split, owner), head, members, bytes)) {
            fail_without_memory(sync, store);
        }
    }
}

/* To all owners: the last decision. */
static void propose(tt_sync *sync, tt_owner_store *store)
{
    tt_quorum *quorum = &store->quorum;
    const uint32_t workers = sync->roles.workers;
    uint8_t is_member[TT_SYNC_TEXT_BYTES];
    const tt_decision *last = find(store, quorum->decided - 1);
    TT_ASSERT(last != NULL && workers <= sizeof(is_member));
    memcpy(is_member, last->is_member, workers); /* replies of this rank come at once */
    quorum->keeping = TT_KEEPING_QUORUM;
    memset(quorum->has_replied, 0, tt_sync_processes(sync) * sizeof(*quorum->has_replied));
    const tt_head head = {.kind = TT_SYNC_QUORUM, .round = (uint32_t)last->iteration};
    send_all(sync, store, head, is_member, workers);
}

/* (5) */
static void ask(tt_sync *sync, tt_owner_store *store)
{
    tt_quorum *quorum = &store->quorum;
    quorum->keeper = store->self;
    quorum->keeping = TT_KEEPING_ASK;
    memset(quorum->has_replied, 0, tt_sync_processes(sync) * sizeof(*quorum->has_replied));
    send_all(sync, store, (tt_head){.kind = TT_SYNC_ASK, .round = (uint32_t)quorum->decided}, NULL,
             0);
}

static void tell_sure(tt_sync *sync, tt_owner_store *store)
{
    tt_quorum *quorum = &store->quorum;
    quorum->keeping = TT_KEEPING_NOTHING;
    send_all(sync, store, (tt_head){.kind = TT_SYNC_SURE, .round = (uint32_t)quorum->sure}, NULL,
             0);
    tt_owner_has_grown(sync, store);
    tt_quorum_decide(sync, store);
}

/* Have all owners replied that live? Then what the keeper waited for is over. */
static void check_replies(tt_sync *sync, tt_owner_store *store)
{
    tt_quorum *quorum = &store->quorum;
    const tt_keeping kept = quorum->keeping;
    bool all = kept != TT_KEEPING_NOTHING;
    for (uint32_t owner = 0; owner < store->split.owners && all; owner++) {
        const uint32_t rank = tt_split_rank(&store->split, owner);
        all = quorum->has_replied[rank] || sync->is_gone[rank];
    }
    if (!all) {
        return;
    }
    if (kept == TT_KEEPING_ASK && quorum->decided > quorum->sure) {
        propose(sync, store);
        return;
    }
    quorum->sure = quorum->decided;
    tell_sure(sync, store); /* one before may not have reached all owners */
}

/* A quorum of workers has completed the next iteration: who belongs to it? No worker is more than
 * one iteration ahead of those that were decided, so one frame decides one at most. */
static bool is_ready(const tt_sync *sync, const tt_owner_store *store, uint8_t *is_member_out)
{
    uint32_t live = 0, ready = 0;
    for (uint32_t i = 0; i < sync->roles.workers; i++) {
        is_member_out[i] = store->workers[i].declared > store->quorum.decided ? 1 : 0;
        ready += is_member_out[i];
        live += store->clock.is_out[i] ? 0 : 1;
    }
    return ready > 0 && ready >= tt_min_u64(store->policy.quorum, live);
}

void tt_quorum_decide(tt_sync *sync, tt_owner_store *store)
{
    tt_quorum *quorum = &store->quorum;
    const uint32_t workers = sync->roles.workers;
    uint8_t is_member[TT_SYNC_TEXT_BYTES] = {0};
    if (!has_quorum(store) || store->status < 0 || quorum->keeping != TT_KEEPING_NOTHING ||
        tt_sync_keeper(sync, &store->split) != store->self || workers > sizeof(is_member)) {
        return;
    }
    const bool is_next = is_ready(sync, store, is_member);
    if (!outlives_owners(store)) {
        if (is_next) {
            const tt_head head = {.kind = TT_SYNC_QUORUM, .round = (uint32_t)quorum->decided++};
            quorum->sure = quorum->decided;
            send_all(sync, store, head, is_member, workers);
        }
    } else if (quorum->keeper != store->self && !TT_PLANT(KEEPER_DOES_NOT_ASK)) {
        /* Owners have made the store if a worker could end an iteration. */
        if (is_next || quorum->queue != NULL || quorum->past != NULL) {
            ask(sync, store);
        }
    } else if (is_next && add(sync, store, quorum->decided, is_member)) {
        propose(sync, store);
    }
}

void tt_quorum_owner_out(tt_sync *sync)
{
    for (uint32_t i = 0; i < TT_STORES_MAX; i++) {
        tt_owner_store *store = sync->owned[i];
        if (store != NULL && store->has_settings && store->status >= 0 && outlives_owners(store)) {
            check_replies(sync, store);
            tt_quorum_decide(sync, store);
        }
    }
}

/* ---- every owner ---- */

static void take_quorum(tt_sync *sync, tt_owner_store *store, uint32_t owner, const tt_head *head,
                        const void *members)
{
    tt_quorum *quorum = &store->quorum;
    if (head->payload_bytes != sync->roles.workers || !add(sync, store, head->round, members)) {
        return; /* nonsense */
    }
    if (outlives_owners(store)) {
        quorum->sure = tt_max_u64(quorum->sure, head->round); /* (4) */
        const tt_head reply = {.kind = TT_SYNC_HAVE, .set = store->id, .round = head->round};
        tt_sync_signal(sync, tt_split_rank(&store->split, owner), reply);
    } else {
        quorum->sure = quorum->decided;
    }
    tt_quorum_advance(sync, store);
}

/* Unless it is forgotten. */
static void send_decision(tt_sync *sync, tt_owner_store *store, uint32_t owner, tt_head head,
                          uint64_t iteration)
{
    const tt_decision *known = find(store, iteration);
    head.set = store->id;
    if (known != NULL && !tt_sync_send_text(sync, tt_split_rank(&store->split, owner), head,
                                            known->is_member, sync->roles.workers)) {
        fail_without_memory(sync, store);
    }
}

/* All that the keeper lacks, and the last one. */
static void take_ask(tt_sync *sync, tt_owner_store *store, uint32_t owner, const tt_head *head)
{
    const uint64_t end = store->quorum.decided;
    tt_head known = {.kind = TT_SYNC_KNOWN, .set = store->id, .argument = end};
    if (end == 0 || find(store, end - 1) == NULL) {
        tt_sync_signal(sync, tt_split_rank(&store->split, owner), known);
        return;
    }
    for (uint64_t i = tt_min_u64(head->round, end - 1); i < end; i++) {
        known.round = (uint32_t)i + 1;
        send_decision(sync, store, owner, known, i);
    }
}

/* An owner that an earlier keeper took for dead, and that is not, lacks more than one decision. */
static void tell_missed(tt_sync *sync, tt_owner_store *store, uint32_t owner, uint64_t known)
{
    for (uint64_t i = known; i < store->quorum.decided; i++) {
        const tt_head head = {.kind = TT_SYNC_QUORUM, .round = (uint32_t)i};
        send_decision(sync, store, owner, head, i);
    }
}

/* Are all decisions known of iterations that have not begun here, up to this one? */
static bool knows_all(const tt_owner_store *store, uint64_t end)
{
    bool knows = true;
    for (uint64_t i = store->quorum.begun; i < end && knows; i++) {
        knows = find(store, i) != NULL;
    }
    return knows;
}

static void take_known(tt_sync *sync, tt_owner_store *store, uint32_t owner, const tt_head *head,
                       const void *members)
{
    tt_quorum *quorum = &store->quorum;
    const uint32_t rank = tt_split_rank(&store->split, owner);
    const bool has_members = head->payload_bytes == sync->roles.workers && head->round > 0;
    if (quorum->keeping != TT_KEEPING_ASK || quorum->has_replied[rank] ||
        (has_members && !add(sync, store, head->round - 1, members)) ||
        !knows_all(store, head->argument)) {
        return;
    }
    tell_missed(sync, store, owner, head->argument);
    quorum->has_replied[rank] = true;
    check_replies(sync, store);
}

static void take_have(tt_sync *sync, tt_owner_store *store, uint32_t owner, const tt_head *head)
{
    tt_quorum *quorum = &store->quorum;
    if (quorum->keeping == TT_KEEPING_QUORUM && head->round + UINT64_C(1) == quorum->decided) {
        quorum->has_replied[tt_split_rank(&store->split, owner)] = true;
        check_replies(sync, store);
    }
}

void tt_quorum_frame(tt_sync *sync, tt_owner_store *store, uint32_t owner, const tt_head *head,
                     const void *payload)
{
    tt_quorum *quorum = &store->quorum;
    const bool is_reply = head->kind == TT_SYNC_HAVE || head->kind == TT_SYNC_KNOWN;
    if (!has_quorum(store) || (head->kind != TT_SYNC_QUORUM && !outlives_owners(store)) ||
        (!is_reply && owner < quorum->keeper)) {
        return; /* nonsense, or of an earlier keeper */
    }
    quorum->keeper = is_reply ? quorum->keeper : owner;
    switch (head->kind) {
    case TT_SYNC_QUORUM:
        take_quorum(sync, store, owner, head, payload);
        return;
    case TT_SYNC_HAVE:
        take_have(sync, store, owner, head);
        return;
    case TT_SYNC_SURE:
        quorum->sure = tt_max_u64(quorum->sure, head->round);
        tt_quorum_advance(sync, store);
        return;
    case TT_SYNC_ASK:
        take_ask(sync, store, owner, head);
        return;
    case TT_SYNC_KNOWN:
        take_known(sync, store, owner, head, payload);
        return;
    default:
        return;
    }
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
    const tt_quorum *quorum = &store->quorum;
    const tt_decision *next = quorum->queue;
    bool can = next != NULL && next->iteration == quorum->begun && quorum->sums_open == 0 &&
               (quorum->adopting == 0 || TT_PLANT(ADOPTED_TOO_EARLY)) &&
               (next->iteration < quorum->sure || TT_PLANT(DECISION_NOT_SURE));
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

static void begin_key(tt_sync *sync, tt_owner_key *key, const tt_decision *decision)
{
    for (uint32_t i = 0; key->status >= 0 && i < key->part_count; i++) {
        begin_part(sync, key->store, &key->parts[i], decision);
    }
    for (uint32_t i = 0; key->status >= 0 && i < key->adopted_count; i++) {
        begin_part(sync, key->store, key->adopted[i], decision);
    }
}

static void close_begun(tt_sync *sync, tt_owner_store *store)
{
    if (store->quorum.sums_open == 0) {
        store->quorum.closed = store->quorum.begun;
        tt_owner_has_grown(sync, store);
    }
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
                begin_key(sync, key, decision);
            }
        }
        put_away(store, quorum, decision);
        quorum->sums_open--;
        close_begun(sync, store);
    }
}

void tt_quorum_summed(tt_sync *sync, tt_owner_part *part)
{
    tt_owner_store *store = part->key->store;
    if (!has_quorum(store) || tt_owner_add_late(sync, part)) {
        return;
    }
    TT_ASSERT(store->quorum.sums_open > 0);
    store->quorum.sums_open--;
    close_begun(sync, store);
    if (store->quorum.sums_open == 0) {
        tt_quorum_advance(sync, store);
    }
}
