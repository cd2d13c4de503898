/* SPDX-License-Identifier: Apache-2.0
 *
 * pair.c - matches sends and receives: numbers per pair, direction and tag.
 *
 * The op of a frame between two ranks is its tag in the upper 24 bits and, below, the number of
 * earlier messages of that tag in this direction. So messages of one tag match in the order of
 * calls, those of different tags never, and only numbers are compared. Most programs use no tag:
 * these counters are in the set. Those of other tags are in a hash table, and stay as long as the
 * set, because the peer continues to count. */
#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"
#include "kernel/hash64.h"

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
static uint64_t *find(const tt_set *set, uint32_t pair_index, uint32_t tag)
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
    return find(set, pair_index, tag) != NULL || add(set, pair_index, tag) != NULL;
}

/* Key of the next message, which is counted. Its counter must exist. */
static uint64_t take(tt_set *set, uint32_t pair_index, uint32_t tag)
{
    uint64_t *count = find(set, pair_index, tag);
    TT_ASSERT(*count < UINT64_C(1) << NUMBER_BITS); /* else it would overflow into the tag */
    return (uint64_t)tag << NUMBER_BITS | (*count)++;
}

uint64_t tt_pair_next(const tt_set *set, uint32_t pair_index, uint32_t tag)
{
    const uint64_t *count = find(set, pair_index, tag);
    return (uint64_t)tag << NUMBER_BITS | (count != NULL ? *count : 0);
}

void tt_pair_place(tt_op *op, uint32_t member)
{
    tt_set *set = op->set;
    const tt_request *request = op->request;
    TT_ASSERT(op->is_pair);
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

bool tt_pair_is_next(const tt_set *set, uint32_t pair_index, uint64_t key)
{
    const uint64_t *count = find(set, pair_index, tt_pair_tag(key));
    return count == NULL || tt_pair_number(key) >= *count;
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
