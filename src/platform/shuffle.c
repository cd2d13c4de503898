/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle.c - a bag of frames; see shuffle.h.
 *
 * An item of the bag is a parcel to deliver, the second half of a long one, or a `sent` for the
 * sender. Items are picked at random; if one cannot happen now (its link is in the middle of a long
 * frame), the next is picked.
 */
#include "platform/shuffle.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/philox.h"
#include "platform/local.h"
#include "platform/toy_engine.h"

typedef struct shuffle_rank {
    tt_platform base; /* first */
    tt_shuffle *shuffle;
    uint32_t rank;
    tt_machine machine;
    bool has_machine;
    bool has_work;
    uint64_t timer_at;
    tt_local local;
    tt_parcel **arriving; /* [size] the long frame that has half arrived, by sender */
} shuffle_rank;

typedef enum item_kind { ITEM_FRAME, ITEM_SENT, ITEM_LANDED } item_kind;

typedef struct shuffle_item {
    item_kind kind;
    tt_parcel *parcel;   /* frame */
    uint32_t rank, peer; /* sent: sender and receiver; landed: the rank */
    uint64_t token;
} shuffle_item;

struct tt_shuffle {
    tt_shuffle_config config;
    tt_random random;
    tt_local_shortage shortage;
    uint64_t now;
    uint64_t sequence;
    shuffle_item *items;
    size_t item_count, item_capacity;
    tt_toy_engine *model;
    tt_toy_engine_landing *landings; /* [size] */
    uint64_t landed;
    shuffle_rank *ranks;
};

/* ---- the bag ---- */

static void item_add(tt_shuffle *shuffle, shuffle_item item)
{
    if (shuffle->item_count == shuffle->item_capacity) {
        shuffle->item_capacity = shuffle->item_capacity > 0 ? 2 * shuffle->item_capacity : 64;
        shuffle->items = realloc(shuffle->items, shuffle->item_capacity * sizeof(shuffle_item));
        TT_ASSERT(shuffle->items != NULL);
    }
    shuffle->items[shuffle->item_count++] = item;
}

static void item_remove(tt_shuffle *shuffle, size_t index)
{
    shuffle->items[index] = shuffle->items[--shuffle->item_count];
}

/* By parcel: downcalls add and remove items, so an index is not valid after an upcall. */
static void item_remove_parcel(tt_shuffle *shuffle, const tt_parcel *parcel)
{
    for (size_t i = 0; i < shuffle->item_count; i++) {
        if (shuffle->items[i].kind == ITEM_FRAME && shuffle->items[i].parcel == parcel) {
            item_remove(shuffle, i);
            return;
        }
    }
}

/* May a frame arrive now? Not before a long one that has begun, nor before an older one if in
 * order. */
static bool may_come(const tt_shuffle *shuffle, const tt_parcel *parcel)
{
    const tt_parcel *half = shuffle->ranks[parcel->send.peer].arriving[parcel->from];
    if (half != NULL) {
        return half == parcel;
    }
    for (size_t i = 0; shuffle->config.is_ordered && i < shuffle->item_count; i++) {
        const tt_parcel *other = shuffle->items[i].parcel;
        if (shuffle->items[i].kind == ITEM_FRAME && other->from == parcel->from &&
            other->send.peer == parcel->send.peer && other->sequence < parcel->sequence) {
            return false;
        }
    }
    return true;
}

/* ---- downcalls ---- */

static shuffle_rank *rank_of(tt_platform *platform)
{
    return (shuffle_rank *)platform;
}

static uint64_t shuffle_now(tt_platform *platform)
{
    return rank_of(platform)->shuffle->now;
}

static uint64_t shuffle_random(tt_platform *platform)
{
    return tt_random_u64(&rank_of(platform)->shuffle->random);
}

static void *shuffle_allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    return tt_local_allocate(&rank_of(platform)->local, kind, bytes);
}

static void shuffle_release(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    tt_local_release(&rank_of(platform)->local, kind, memory, bytes);
}

static void shuffle_timer(tt_platform *platform, uint64_t at_ns)
{
    rank_of(platform)->timer_at = at_ns;
}

/* To all, as on one host; fails at random. */
static tt_status shuffle_post(shuffle_rank *rank, const tt_send *send)
{
    tt_shuffle *shuffle = rank->shuffle;
    if (tt_random_below(&shuffle->random, 4) == 0) {
        return TT_ERR_UNSUPPORTED;
    }
    for (uint32_t peer = 0; peer < shuffle->config.size; peer++) {
        if (peer != rank->rank) {
            tt_send one = *send;
            one.peer = peer;
            tt_parcel *parcel = tt_parcel_make(&rank->base, rank->rank, &one, false);
            parcel->sequence = shuffle->sequence++;
            item_add(shuffle, (shuffle_item){.kind = ITEM_FRAME, .parcel = parcel});
        }
    }
    return TT_OK;
}

static tt_status shuffle_send(tt_platform *platform, const tt_send *send)
{
    shuffle_rank *rank = rank_of(platform);
    tt_shuffle *shuffle = rank->shuffle;
    if (send->peer == TT_PEER_HOST) {
        return shuffle_post(rank, send);
    }
    TT_ASSERT(send->peer < shuffle->config.size);
    TT_ASSERT(send->peer != rank->rank);
    const bool is_borrowed = shuffle->config.is_borrowing && send->head->payload_bytes > 0 &&
                             tt_random_below(&shuffle->random, 4) != 0;
    tt_parcel *parcel = tt_parcel_make(&rank->base, rank->rank, send, is_borrowed);
    parcel->sequence = shuffle->sequence++;
    item_add(shuffle, (shuffle_item){.kind = ITEM_FRAME, .parcel = parcel});
    if (!is_borrowed) {
        return TT_OK;
    }
    item_add(shuffle,
             (shuffle_item){
                 .kind = ITEM_SENT, .rank = rank->rank, .peer = send->peer, .token = send->token});
    return TT_IN_PROGRESS;
}

/* Return borrowed payloads of (rank, peer, token), and drop `sent` if it is a recall. */
static void give_back(tt_shuffle *shuffle, const shuffle_item *whose, bool is_recall)
{
    for (size_t i = shuffle->item_count; i-- > 0;) {
        const shuffle_item *item = &shuffle->items[i];
        if (item->kind == ITEM_FRAME && item->parcel->from == whose->rank &&
            item->parcel->send.peer == whose->peer && item->parcel->send.token == whose->token) {
            tt_parcel_own(item->parcel);
        } else if (is_recall && item->kind == ITEM_SENT && item->rank == whose->rank &&
                   item->peer == whose->peer && item->token == whose->token) {
            item_remove(shuffle, i);
        }
    }
}

static void shuffle_recall(tt_platform *platform, uint32_t peer, uint64_t token)
{
    shuffle_rank *rank = rank_of(platform);
    give_back(rank->shuffle, &(shuffle_item){.rank = rank->rank, .peer = peer, .token = token},
              true);
}

static void shuffle_discard(tt_platform *platform, uint32_t peer)
{
    tt_parcel *parcel = rank_of(platform)->arriving[peer];
    if (parcel != NULL) {
        parcel->is_discarded = true;
    }
}

static void *shuffle_view(tt_platform *platform, uint32_t peer, tt_place place, size_t bytes)
{
    return tt_local_view(&rank_of(platform)->shuffle->ranks[peer].local, place, bytes);
}

static bool shuffle_locate(tt_platform *platform, const void *memory, size_t bytes,
                           tt_place *place_out)
{
    return tt_local_locate(&rank_of(platform)->local, memory, bytes, place_out);
}

static void shuffle_spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    (void)platform;
    (void)kind;
    (void)bytes;
    (void)times;
}

/* Short parts, by any hand, in any order; often not all of them. */
static uint64_t shuffle_work(tt_platform *platform, const tt_work_order *order)
{
    tt_shuffle *shuffle = rank_of(platform)->shuffle;
    const uint64_t grain = TT_WORK_GRAIN * (1 + tt_random_below(&shuffle->random, 64));
    const uint64_t all_count = (order->bytes + grain - 1) / grain;
    const uint64_t part_count = tt_random_below(&shuffle->random, 2) == 0
                                    ? all_count
                                    : 1 + tt_random_below(&shuffle->random, all_count);
    const uint64_t start = tt_random_below(&shuffle->random, part_count);
    for (uint64_t i = 0; i < part_count; i++) {
        const uint64_t first = (start + i) % part_count * grain;
        order->part(order->argument, (uint32_t)tt_random_below(&shuffle->random, platform->hands),
                    first, tt_min_u64(grain, order->bytes - first));
    }
    return tt_min_u64(part_count * grain, order->bytes);
}

static bool shuffle_can_launch(tt_platform *platform, const tt_launch *launch)
{
    (void)launch;
    return rank_of(platform)->shuffle->config.has_engine;
}

static void shuffle_launch(tt_platform *platform, const tt_launch *launch)
{
    const shuffle_rank *rank = rank_of(platform);
    tt_shuffle *shuffle = rank->shuffle;
    const uint32_t count =
        tt_toy_engine_launch(shuffle->model, rank->rank, launch, shuffle->landings);
    for (uint32_t i = 0; i < count; i++) {
        item_add(shuffle, (shuffle_item){.kind = ITEM_LANDED,
                                         .rank = shuffle->landings[i].rank,
                                         .token = shuffle->landings[i].token});
    }
}

static const tt_platform_ops shuffle_ops = {
    .now = shuffle_now,
    .random = shuffle_random,
    .allocate = shuffle_allocate,
    .release = shuffle_release,
    .timer = shuffle_timer,
    .send = shuffle_send,
    .recall = shuffle_recall,
    .discard = shuffle_discard,
    .view = shuffle_view,
    .locate = shuffle_locate,
    .spend = shuffle_spend,
    .work = shuffle_work,
    .can_launch = shuffle_can_launch,
    .launch = shuffle_launch,
};

/* ---- upcalls ---- */

static void deliver(tt_shuffle *shuffle, size_t index)
{
    tt_parcel *parcel = shuffle->items[index].parcel;
    shuffle_rank *rank = &shuffle->ranks[parcel->send.peer];
    tt_parcel **half = &rank->arriving[parcel->from];
    if (!parcel->is_announced && parcel->head.payload_bytes > TT_INLINE_BYTES_MAX) {
        *half = parcel; /* so that discard finds it */
        if (tt_parcel_announce(parcel, &rank->base, &rank->machine)) {
            rank->has_work = true;
            return; /* the rest arrives later */
        }
        *half = NULL;
        item_remove_parcel(shuffle, parcel);
    } else {
        item_remove(shuffle, index);
        *half = NULL;
        if (parcel->is_announced) {
            tt_parcel_complete(parcel, &rank->base, &rank->machine);
        } else {
            (void)tt_parcel_announce(parcel, &rank->base, &rank->machine);
        }
    }
    rank->has_work = true;
    tt_parcel_release(parcel);
}

static void tell_sent(tt_shuffle *shuffle, size_t index)
{
    const shuffle_item item = shuffle->items[index];
    shuffle_rank *rank = &shuffle->ranks[item.rank];
    item_remove(shuffle, index);
    give_back(shuffle, &item, false);
    rank->machine.ops->sent(rank->machine.self, item.token);
    rank->has_work = true;
}

static void tell_landed(tt_shuffle *shuffle, size_t index)
{
    const shuffle_item item = shuffle->items[index];
    shuffle_rank *rank = &shuffle->ranks[item.rank];
    item_remove(shuffle, index);
    const bool fails = ++shuffle->landed == shuffle->config.strays_at;
    rank->machine.ops->landed(rank->machine.self, item.token, fails ? TT_ERR_SYSTEM : TT_OK);
    rank->has_work = true;
}

/* One machine with work steps, chosen at random. */
static bool step_machine(tt_shuffle *shuffle)
{
    const uint32_t size = shuffle->config.size;
    const uint32_t first = (uint32_t)tt_random_below(&shuffle->random, size);
    for (uint32_t i = 0; i < size; i++) {
        shuffle_rank *rank = &shuffle->ranks[(first + i) % size];
        if (rank->has_work && rank->has_machine) {
            rank->has_work = rank->machine.ops->step(rank->machine.self);
            return true;
        }
    }
    return false;
}

static bool step_item(tt_shuffle *shuffle)
{
    if (shuffle->item_count == 0) {
        return false;
    }
    const size_t first = (size_t)tt_random_below(&shuffle->random, shuffle->item_count);
    for (size_t i = 0; i < shuffle->item_count; i++) {
        const size_t index = (first + i) % shuffle->item_count;
        if (shuffle->items[index].kind == ITEM_SENT) {
            tell_sent(shuffle, index);
            return true;
        }
        if (shuffle->items[index].kind == ITEM_LANDED) {
            tell_landed(shuffle, index);
            return true;
        }
        if (may_come(shuffle, shuffle->items[index].parcel)) {
            deliver(shuffle, index);
            return true;
        }
    }
    TT_ASSERT(false); /* something can always happen */
    return false;
}

bool tt_shuffle_step_frames(tt_shuffle *shuffle)
{
    const bool is_machine_first = tt_random_below(&shuffle->random, 2) != 0;
    return is_machine_first ? step_machine(shuffle) || step_item(shuffle)
                            : step_item(shuffle) || step_machine(shuffle);
}

bool tt_shuffle_step(tt_shuffle *shuffle)
{
    if (tt_shuffle_step_frames(shuffle)) {
        return true;
    }
    shuffle_rank *next = NULL;
    for (uint32_t i = 0; i < shuffle->config.size; i++) {
        shuffle_rank *rank = &shuffle->ranks[i];
        if (rank->has_machine && rank->timer_at != UINT64_MAX &&
            (next == NULL || rank->timer_at < next->timer_at)) {
            next = rank;
        }
    }
    if (next == NULL) {
        return false;
    }
    shuffle->now = next->timer_at > shuffle->now ? next->timer_at : shuffle->now;
    next->timer_at = UINT64_MAX;
    next->machine.ops->timer(next->machine.self);
    next->has_work = true;
    return true;
}

/* ---- life ---- */

tt_shuffle *tt_shuffle_create(const tt_shuffle_config *config)
{
    TT_ASSERT(config->size > 0);
    tt_shuffle *shuffle = tt_local_take(sizeof(*shuffle));
    shuffle->config = *config;
    shuffle->now = 1;
    shuffle->shortage =
        (tt_local_shortage){.fail_at = config->fail_at, .is_lasting = config->fails_forever};
    tt_random_init(&shuffle->random, config->seed, 1);
    shuffle->landings = tt_local_take(config->size * sizeof(*shuffle->landings));
    shuffle->ranks = tt_local_take(config->size * sizeof(*shuffle->ranks));
    shuffle->model = tt_toy_engine_create(&shuffle->ranks[0].base);
    for (uint32_t i = 0; i < config->size; i++) {
        shuffle_rank *rank = &shuffle->ranks[i];
        rank->base.ops = &shuffle_ops;
        rank->base.hands = config->hands;
        rank->base.work_bytes_min = 1;
        rank->base.share_bytes_min = 1;
        rank->shuffle = shuffle;
        rank->rank = i;
        rank->timer_at = UINT64_MAX;
        rank->arriving = tt_local_take(config->size * sizeof(*rank->arriving));
        tt_local_init(&rank->local, &shuffle->shortage);
    }
    return shuffle;
}

bool tt_shuffle_destroy(tt_shuffle *shuffle)
{
    bool is_clean = true;
    for (size_t i = 0; i < shuffle->item_count; i++) {
        if (shuffle->items[i].kind == ITEM_FRAME) {
            tt_parcel_release(shuffle->items[i].parcel);
        }
    }
    for (uint32_t i = 0; i < shuffle->config.size; i++) {
        is_clean = is_clean && shuffle->ranks[i].local.live_count == 0;
        is_clean = tt_local_fini(&shuffle->ranks[i].local) && is_clean;
        free(shuffle->ranks[i].arriving);
    }
    tt_toy_engine_destroy(shuffle->model);
    free(shuffle->landings);
    free(shuffle->ranks);
    free(shuffle->items);
    free(shuffle);
    return is_clean;
}

tt_platform *tt_shuffle_platform(tt_shuffle *shuffle, uint32_t rank)
{
    TT_ASSERT(rank < shuffle->config.size);
    return &shuffle->ranks[rank].base;
}

void tt_shuffle_attach(tt_shuffle *shuffle, uint32_t rank, tt_machine machine)
{
    TT_ASSERT(rank < shuffle->config.size);
    shuffle->ranks[rank].machine = machine;
    shuffle->ranks[rank].has_machine = true;
}

uint64_t tt_shuffle_allocations(const tt_shuffle *shuffle)
{
    return shuffle->shortage.attempts;
}
