/* SPDX-License-Identifier: Apache-2.0
 *
 * space_pair.c - sends and receives: numbers per pair, direction and tag.
 *
 * The op of a frame between two ranks is its tag in the upper 24 bits and, below, the number of
 * earlier messages of that tag in this direction. So messages of one tag match in the order of
 * calls, those of different tags never, and only numbers are compared. Most programs use no tag:
 * these counters are in the set. Those of other tags are in a hash table, and stay as long as the
 * set, because the peer continues to count. */
#include "base/assert.h"
#include "base/base.h"
#include "control/any.h"
#include "kernel/hash64.h"

/* ---- numbers ---- */

enum { TAG_BUCKETS = 256, NUMBER_BITS = 40 };

_Static_assert(TT_TAG_MAX < 1 << (64 - NUMBER_BITS), "a tag fits beside the number");

typedef struct tt_tagged {
    struct tt_tagged *next;
    uint64_t count;
    uint32_t pair_index, tag;
} tt_tagged;

struct tt_tags {
    tt_tagged *buckets[TAG_BUCKETS];
};

static tt_tagged **bucket_of(tt_tags *tags, uint32_t pair_index, uint32_t tag)
{
    return &tags->buckets[tt_hash64_mix(pair_index, tag) % TAG_BUCKETS];
}

/* The tag's counter; NULL: no message yet. */
static uint64_t *counter_of(const tt_set *set, uint32_t pair_index, uint32_t tag)
{
    TT_ASSERT(pair_index < 2 * (uint64_t)set->size);
    if (tag == 0) {
        return &set->pair_next[pair_index];
    }
    tt_tagged *tagged = set->tags != NULL ? *bucket_of(set->tags, pair_index, tag) : NULL;
    while (tagged != NULL && (tagged->pair_index != pair_index || tagged->tag != tag)) {
        tagged = tagged->next;
    }
    return tagged != NULL ? &tagged->count : NULL;
}

static uint64_t *add(tt_set *set, uint32_t pair_index, uint32_t tag)
{
    tt_platform *platform = set->control->platform;
    TT_ASSERT(tag > 0); /* the counter of tag 0 is in the set */
    TT_ASSERT(tag <= TT_TAG_MAX);
    if (set->tags == NULL) {
        set->tags = tt_platform_allocate(platform, sizeof(*set->tags));
    }
    tt_tagged *tagged = set->tags != NULL ? tt_platform_allocate(platform, sizeof(*tagged)) : NULL;
    if (tagged == NULL) {
        return NULL;
    }
    tt_tagged **bucket = bucket_of(set->tags, pair_index, tag);
    *tagged = (tt_tagged){.next = *bucket, .pair_index = pair_index, .tag = tag};
    *bucket = tagged;
    return &tagged->count;
}

bool tt_pair_reserve(tt_set *set, uint32_t pair_index, uint32_t tag)
{
    return counter_of(set, pair_index, tag) != NULL || add(set, pair_index, tag) != NULL;
}

/* Key of the next message, which is counted. Its counter must exist. */
static uint64_t take(tt_set *set, uint32_t pair_index, uint32_t tag)
{
    uint64_t *count = counter_of(set, pair_index, tag);
    TT_ASSERT(*count < UINT64_C(1) << NUMBER_BITS); /* else it would overflow into the tag */
    return (uint64_t)tag << NUMBER_BITS | (*count)++;
}

uint64_t tt_pair_next(const tt_set *set, uint32_t pair_index, uint32_t tag)
{
    const uint64_t *count = counter_of(set, pair_index, tag);
    return (uint64_t)tag << NUMBER_BITS | (count != NULL ? *count : 0);
}

void tt_pair_place(tt_op *op, uint32_t member)
{
    tt_set *set = op->set;
    const tt_request *request = op->request;
    TT_ASSERT(op->space == &tt_space_pair);
    TT_ASSERT(member < set->size);
    TT_ASSERT(member != set->self);
    op->peer = set->members[member];
    op->pair_members[op->is_sender ? 0 : 1] = op->control->world.rank;
    op->pair_members[op->is_sender ? 1 : 0] = op->peer;
    op->pair_index = 2 * member + (op->is_sender ? 0 : 1);
    op->sequence = take(set, op->pair_index, request->tag);
    TT_ASSERT(tt_pair_tag(op->sequence) == request->tag);
    if (!op->is_sender && request->source_out != NULL) {
        *request->source_out = (int)member;
    }
}

uint32_t tt_pair_tag(uint64_t key)
{
    return (uint32_t)(key >> NUMBER_BITS);
}

uint64_t tt_pair_number(uint64_t key)
{
    return key & ((UINT64_C(1) << NUMBER_BITS) - 1);
}

void tt_pair_release_tags(tt_set *set)
{
    tt_platform *platform = set->control->platform;
    for (uint32_t i = 0; set->tags != NULL && i < TAG_BUCKETS; i++) {
        while (set->tags->buckets[i] != NULL) {
            tt_tagged *next = set->tags->buckets[i]->next;
            tt_platform_release(platform, set->tags->buckets[i], sizeof(*next));
            set->tags->buckets[i] = next;
        }
    }
    tt_platform_release(platform, set->tags, sizeof(*set->tags));
    set->tags = NULL;
}

/* ---- in flight ---- */

static bool pair_number(tt_op *op, const tt_standing *standing)
{
    (void)standing; /* the next message, or one from any source */
    if (tt_any_waits(op->set, op->request)) {
        tt_any_place(op);
    } else {
        tt_pair_place(op, op->request->root);
    }
    if (op->is_sender && op->control->asks.count > 0) {
        tt_any_answer(op);
    }
    return true;
}

static void begin(tt_op *op)
{
    tt_set *set = op->set;
    TT_DEBUG_ASSERT(!op->is_counted);
    op->is_counted = true;
    set->pair_open[op->pair_index]++;
    TT_DEBUG_ASSERT(set->pair_open[op->pair_index] <= PAIRS_AHEAD_MAX);
    op->next = set->pairs;
    set->pairs = op;
    tt_op_begin(op);
}

static void pair_enter(tt_op *op)
{
    TT_DEBUG_ASSERT(op->any == NULL);
    if (op->set->pair_open[op->pair_index] < PAIRS_AHEAD_MAX) {
        begin(op);
    } else {
        tt_op_queue_add(&op->set->pair_queue, op);
    }
}

/* Its end is not remembered: a sender whose message is over answers disputes without (agree.c). */
static tt_op_queue *pair_leave(tt_op *op, tt_status status)
{
    tt_set *set = op->set;
    (void)status;
    if (op->any != NULL) {
        return tt_any_leave(op);
    }
    if (op->phase == OP_QUEUED) {
        tt_op_queue_remove(&set->pair_queue, op);
        return NULL;
    }
    tt_op_unlink(&set->pairs, op);
    if (op->is_counted) {
        TT_DEBUG_ASSERT(set->pair_open[op->pair_index] > 0);
        set->pair_open[op->pair_index]--;
        op->is_counted = false;
    }
    return &set->pair_queue;
}

void tt_pair_pump(tt_op_queue *queue, uint32_t pair_index)
{
    const tt_set *set = TT_CONTAINER_OF(queue, tt_set, pair_queue);
    if (queue->is_pumping) {
        return;
    }
    queue->is_pumping = true;
    for (tt_op *op = queue->first; op != NULL && set->pair_open[pair_index] < PAIRS_AHEAD_MAX;) {
        tt_op *next = op->next;
        TT_DEBUG_ASSERT(op->phase == OP_QUEUED);
        if (op->pair_index == pair_index) {
            tt_op_queue_remove(queue, op);
            begin(op);
            next = queue->first; /* beginning may have ended any of them */
        }
        op = next;
    }
    queue->is_pumping = false;
}

static tt_op *find_in(tt_op *list, uint32_t peer, const tt_head *key)
{
    const bool is_sender = (key->flags & TT_FLAG_REPLY) != 0; /* the receiver replies to it */
    tt_op *op = list;
    while (op != NULL &&
           (op->peer != peer || op->sequence != key->op || op->is_sender != is_sender)) {
        TT_DEBUG_ASSERT(op->space == &tt_space_pair && op->any == NULL);
        op = op->next;
    }
    return op;
}

static tt_op *pair_find(tt_set *set, uint32_t peer, const tt_head *key)
{
    return find_in(set->pairs, peer, key);
}

tt_op *tt_pair_queued(const tt_set *set, uint32_t peer, const tt_head *key)
{
    return find_in(set->pair_queue.first, peer, key);
}

static bool pair_is_future(tt_set *set, uint32_t peer, const tt_head *key)
{
    const uint32_t member = set->member_of[peer];
    if (member == UINT32_MAX) {
        return false;
    }
    TT_DEBUG_ASSERT(member < set->size);
    const uint32_t pair_index = 2 * member + ((key->flags & TT_FLAG_REPLY) != 0 ? 0 : 1);
    return key->op >= tt_pair_next(set, pair_index, tt_pair_tag(key->op)) ||
           tt_pair_queued(set, peer, key) != NULL;
}

static const tt_claim *pair_done(tt_set *set, const tt_head *key)
{
    (void)set;
    (void)key;
    return NULL;
}

static tt_status pair_failed(tt_set *set, const tt_head *key)
{
    (void)set;
    (void)key;
    return TT_OK;
}

static void pair_fail_late(tt_set *set, const tt_head *key, tt_status status)
{
    (void)set;
    (void)key;
    (void)status;
}

const tt_space tt_space_pair = {
    .flags = TT_FLAG_PAIR,
    .traits = TRAIT_PAIR,
    .number = pair_number,
    .enter = pair_enter,
    .leave = pair_leave,
    .find = pair_find,
    .is_future = pair_is_future,
    .done = pair_done,
    .failed = pair_failed,
    .fail_late = pair_fail_late,
};
