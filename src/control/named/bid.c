/* SPDX-License-Identifier: Apache-2.0
 *
 * bid.c - the claim of a ticket: the claims of its requests, member by member.
 *
 *   u32 member count | i32 objection | records | text of the objection
 *
 * A record is the fixed part of a tt_claim, one byte of length and the name (of members of a group;
 * a single request's name is the ticket's). With more members than fit there is one hash of all
 * records instead, and, where these fit, one of each name. This rank keeps the records for the time
 * after it has joined: peers may have begun such a group as planned.
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/named/name.h"
#include "kernel/hash64.h"

enum { HEAD_BYTES = 8, RECORD_BYTES = CLAIM_FIXED_BYTES + 1, DIGEST_BYTES = 8, HASH_BYTES = 8 };

_Static_assert((int)HEAD_BYTES + (int)RECORD_BYTES < (int)BID_SHORT_BYTES,
               "one request needs no memory but its record");

enum { VASTS_KEPT = 16 };

/* A bid that was sent as a digest, with its records. */
typedef struct tt_vast {
    struct tt_vast *next; /* sent less recently */
    uint64_t digest;
    size_t bytes;
    uint8_t bid[];
} tt_vast;

/* In the count of members. */
#define BID_IS_DIGEST (UINT32_C(1) << 31)
#define BID_HAS_HASHES (UINT32_C(1) << 30)

static size_t record_bytes(const tt_name *name, const tt_request *request)
{
    TT_DEBUG_ASSERT(strlen(request->name) < TT_NAME_BYTES);
    return RECORD_BYTES + (name->member_max > 0 ? strlen(request->name) : 0);
}

static uint8_t *record_write(const tt_name *name, const tt_request *request, uint8_t *at)
{
    tt_claim claim;
    const size_t name_bytes = record_bytes(name, request) - RECORD_BYTES;
    TT_DEBUG_ASSERT(name_bytes < TT_NAME_BYTES);
    tt_claim_make(&claim, request, name->set->size);
    memcpy(at, &claim, CLAIM_FIXED_BYTES);
    at[CLAIM_FIXED_BYTES] = (uint8_t)name_bytes;
    if (name_bytes > 0) {
        memcpy(at + RECORD_BYTES, request->name, name_bytes);
    }
    return at + RECORD_BYTES + name_bytes;
}

/* Number of members in the bid. */
static uint32_t bid_members(const tt_name *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < name->member_count; i++) {
        count += name->members[i]->is_regrouped ? 0 : 1;
    }
    return count;
}

static uint64_t records_hash(const tt_name *name)
{
    uint64_t hash = name->member_count;
    uint8_t record[RECORD_BYTES + TT_NAME_BYTES];
    for (uint32_t i = 0; i < name->member_count; i++) {
        const uint8_t *end = record_write(name, name->members[i], record);
        TT_DEBUG_ASSERT((size_t)(end - record) <= sizeof(record));
        hash = tt_hash64(record, (size_t)(end - record), hash);
    }
    return hash;
}

static tt_status bid_reserve(tt_control *control, tt_name *name, size_t bytes)
{
    TT_ASSERT(name->bid_capacity >= BID_SHORT_BYTES);
    if (bytes <= name->bid_capacity) {
        return TT_OK;
    }
    uint8_t *bid = tt_platform_allocate(control->platform, bytes);
    if (bid == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (name->bid != name->bid_short) {
        tt_platform_release(control->platform, name->bid, name->bid_capacity);
    }
    name->bid = bid;
    name->bid_capacity = bytes;
    return TT_OK;
}

/* A joined rank contributes the identity element, and has no data. It cannot resolve a digest. */
static bool needs_all(const tt_name *name, bool is_digest)
{
    bool needs = is_digest;
    for (uint32_t i = 0; !needs && i < name->member_count; i++) {
        const tt_request *request = name->members[i];
        needs = request->is_uneven ||
                (request->collective != TT_ALLREDUCE && request->collective != TT_REDUCE);
    }
    return needs;
}

/* ---- records of digests ---- */

static tt_vast **vast_find(tt_vast **link, uint64_t digest)
{
    while (*link != NULL && (*link)->digest != digest) {
        link = &(*link)->next;
    }
    return link;
}

static void vast_push(tt_set *set, tt_vast *vast)
{
    vast->next = set->vasts;
    set->vasts = vast;
}

/* Without memory nothing is kept. */
static void vast_keep(tt_control *control, const tt_name *name, uint64_t digest, size_t bytes)
{
    TT_ASSERT(name->kind == NAME_GROUP && name->is_vast);
    tt_set *set = name->set;
    tt_vast **link = vast_find(&set->vasts, digest), *vast = *link;
    if (vast != NULL) {
        *link = vast->next;
        TT_DEBUG_ASSERT(vast->digest == digest);
        vast_push(set, vast);
        return;
    }
    vast = tt_platform_allocate(control->platform, sizeof(*vast) + bytes);
    if (vast == NULL) {
        return;
    }
    uint8_t *at = vast->bid + HEAD_BYTES;
    vast->digest = digest;
    vast->bytes = bytes;
    memcpy(vast->bid, &name->member_count, sizeof(name->member_count));
    for (uint32_t i = 0; i < name->member_count; i++) {
        at = record_write(name, name->members[i], at);
    }
    vast_push(set, vast);
    TT_ASSERT(at == vast->bid + bytes);
    link = &set->vasts;
    for (uint32_t i = 0; i < VASTS_KEPT && *link != NULL; i++) {
        link = &(*link)->next;
    }
    tt_vast *oldest = *link;
    *link = NULL;
    if (oldest != NULL) {
        tt_platform_release(control->platform, oldest, sizeof(*oldest) + oldest->bytes);
    }
}

bool tt_bid_recall(const tt_set *set, const tt_agreement *item, tt_bid *bid)
{
    uint64_t digest;
    tt_vast *kept = set->vasts;
    if (!tt_bid_read(bid, item->claim, item->claim_bytes) || !bid->is_digest) {
        return false;
    }
    const uint32_t member_count = bid->member_count;
    TT_ASSERT((size_t)(bid->end - bid->records) >= sizeof(digest)); /* it was read as one */
    memcpy(&digest, bid->records, sizeof(digest));
    const tt_vast *vast = *vast_find(&kept, digest);
    return vast != NULL && tt_bid_read(bid, vast->bid, vast->bytes) &&
           bid->member_count == member_count;
}

void tt_bid_forget_all(tt_control *control, tt_set *set)
{
    while (set->vasts != NULL) {
        tt_vast *vast = set->vasts;
        set->vasts = vast->next;
        tt_platform_release(control->platform, vast, sizeof(*vast) + vast->bytes);
    }
}

/* ---- making ---- */

static bool has_hashes(const tt_name *name, size_t text_bytes)
{
    return HEAD_BYTES + DIGEST_BYTES + HASH_BYTES * bid_members(name) + text_bytes <=
           TT_TICKET_CLAIM_BYTES_MAX;
}

/* Uneven parts may be in the claim where there is no shape. */
static void key_keep(tt_name *name, const tt_request *request)
{
    TT_DEBUG_ASSERT(name->has_bid);
    name->key = tt_request_key_of(request);
    name->has_shape = request->shape[0] != 0 || request->is_uneven;
}

static void bid_write(tt_name *name, const tt_failure *objection, bool is_digest)
{
    const int32_t status = objection != NULL ? objection->status : TT_OK;
    const bool is_hashed =
        is_digest && has_hashes(name, objection != NULL ? strlen(objection->text) : 0);
    const uint32_t count =
        bid_members(name) | (is_digest ? BID_IS_DIGEST : 0) | (is_hashed ? BID_HAS_HASHES : 0);
    uint8_t *at = name->bid + HEAD_BYTES;
    memcpy(name->bid, &count, sizeof(count));
    memcpy(name->bid + 4, &status, sizeof(status));
    if (is_digest) {
        const uint64_t hash = records_hash(name);
        memcpy(at, &hash, sizeof(hash));
        at += sizeof(hash);
    }
    for (uint32_t i = 0; is_hashed && i < name->member_count; i++) {
        if (name->members[i]->is_regrouped) {
            continue;
        }
        const uint64_t hash = tt_hash64(name->members[i]->name, strlen(name->members[i]->name), 0);
        memcpy(at, &hash, sizeof(hash));
        at += sizeof(hash);
    }
    for (uint32_t i = 0; !is_digest && i < name->member_count; i++) {
        at = name->members[i]->is_regrouped ? at : record_write(name, name->members[i], at);
    }
    TT_ASSERT((size_t)(at - name->bid) <= name->bid_capacity);
    if (objection != NULL) {
        memcpy(at, objection->text, strlen(objection->text));
    }
}

/* There is no memory for the text of an objection to a single request: its beginning fits in any
 * record. Returns the bytes of the bid. */
static size_t bid_write_cut(tt_name *name, const tt_failure *objection)
{
    TT_ASSERT(name->kind == NAME_TENSOR && name->member_count == 1);
    const size_t bytes = HEAD_BYTES + RECORD_BYTES;
    TT_ASSERT(name->bid_capacity > bytes && objection != NULL);
    const size_t room = name->bid_capacity - bytes;
    tt_text words = {0};
    tt_text_add_words(&words, objection->text, tt_min_u64(strlen(objection->text), room));
    const tt_failure cut = {.status = objection->status, .text = words.bytes};
    bid_write(name, &cut, false);
    return bytes + words.length;
}

/* There is no memory for the bid of a group: a bid that fits in any record objects. */
static size_t bid_write_starved(const tt_control *control, tt_name *name)
{
    tt_text text = {0};
    const uint32_t count = UINT32_C(1) | BID_IS_DIGEST;
    const int32_t status = TT_ERR_NO_MEMORY;
    memset(name->bid, 0, HEAD_BYTES + DIGEST_BYTES);
    memcpy(name->bid, &count, sizeof(count));
    memcpy(name->bid + 4, &status, sizeof(status));
    tt_text_add(&text, "rank %u is out of memory for a named call", control->world.rank);
    TT_ASSERT(HEAD_BYTES + DIGEST_BYTES + text.length <= sizeof(name->bid_short));
    memcpy(name->bid + HEAD_BYTES + DIGEST_BYTES, text.bytes, text.length);
    return HEAD_BYTES + DIGEST_BYTES + text.length;
}

bool tt_bid_is_of(tt_name *name, const tt_request *request)
{
    tt_claim claim;
    if (!name->has_bid) {
        return false;
    }
    TT_ASSERT(name->kind == NAME_TENSOR && name->ticket.claim == name->bid);
    if (!name->has_shape && request->shape[0] == 0 &&
        tt_request_has_key(request, request->count, request->segment_bytes, &name->key)) {
        return true;
    }
    if (!tt_claim_holds(request)) {
        return false;
    }
    tt_claim_make(&claim, request, name->set->size);
    if (memcmp(name->bid + HEAD_BYTES, &claim, CLAIM_FIXED_BYTES) != 0) {
        return false;
    }
    key_keep(name, request); /* it differs in what is no part of a claim, as the segment */
    return true;
}

void tt_bid_make(tt_control *control, tt_name *name, const tt_failure *objection)
{
    const size_t text_bytes = objection != NULL ? strlen(objection->text) : 0;
    size_t bytes = HEAD_BYTES;
    for (uint32_t i = 0; i < name->member_count; i++) {
        bytes += name->members[i]->is_regrouped ? 0 : record_bytes(name, name->members[i]);
    }
    TT_ASSERT(name->kind == NAME_TENSOR ? name->member_max == 0 : name->member_max > 0);
    const bool is_digest = bytes + text_bytes > TT_TICKET_CLAIM_BYTES_MAX;
    name->is_vast = is_digest && !needs_all(name, false);
    if (name->is_vast && objection == NULL) {
        vast_keep(control, name, records_hash(name), bytes);
    }
    if (is_digest) {
        bytes = HEAD_BYTES + DIGEST_BYTES +
                (has_hashes(name, text_bytes) ? HASH_BYTES * bid_members(name) : 0);
    }
    bytes += text_bytes;
    if (bid_reserve(control, name, bytes) == TT_OK) {
        bid_write(name, objection, is_digest);
    } else if (name->member_max == 0) {
        bytes = bid_write_cut(name, objection);
    } else {
        bytes = bid_write_starved(control, name);
        tt_name_starve(control); /* no member could learn which tensors are in it */
    }
    TT_ASSERT(bytes <= TT_TICKET_CLAIM_BYTES_MAX && bytes <= name->bid_capacity);
    name->has_bid = name->kind == NAME_TENSOR && objection == NULL;
    if (name->has_bid) {
        key_keep(name, name->request);
    }
    name->ticket.claim = name->bid;
    name->ticket.claim_bytes = (uint16_t)bytes;
    name->ticket.needs_all = needs_all(name, is_digest);
}

bool tt_bid_read(tt_bid *bid, const void *bytes, size_t byte_count)
{
    uint32_t count;
    int32_t status;
    if (byte_count < HEAD_BYTES) {
        return false;
    }
    memcpy(&count, bytes, sizeof(count));
    memcpy(&status, (const uint8_t *)bytes + 4, sizeof(status));
    *bid = (tt_bid){.member_count = count & ~(BID_IS_DIGEST | BID_HAS_HASHES),
                    .is_digest = (count & BID_IS_DIGEST) != 0,
                    .objection = (tt_status)status,
                    .records = (const uint8_t *)bytes + HEAD_BYTES,
                    .end = (const uint8_t *)bytes + byte_count};
    if (bid->member_count == 0 || bid->member_count > GROUP_MEMBERS_MAX || status > 0 ||
        status <= TT_JUDGED_LOWEST) {
        return false;
    }
    tt_bid look = *bid;
    tt_claim claim;
    if (bid->is_digest) {
        look.records +=
            DIGEST_BYTES + ((count & BID_HAS_HASHES) != 0 ? HASH_BYTES * bid->member_count : 0);
    } else if ((count & BID_HAS_HASHES) != 0) {
        return false;
    }
    while (!bid->is_digest && look.member_count > 0) {
        if (!tt_bid_next(&look, &claim)) {
            return false;
        }
    }
    if (look.records > bid->end || (status == 0 && look.records != bid->end)) {
        return false;
    }
    TT_DEBUG_ASSERT(bid->records <= bid->end);
    bid->text = (const char *)look.records;
    bid->text_bytes = (size_t)(bid->end - look.records);
    return true;
}

bool tt_bid_next(tt_bid *bid, tt_claim *claim_out)
{
    TT_DEBUG_ASSERT(bid->records <= bid->end);
    const size_t left = (size_t)(bid->end - bid->records);
    if (bid->member_count == 0 || bid->is_digest || left < RECORD_BYTES ||
        left - RECORD_BYTES < bid->records[CLAIM_FIXED_BYTES]) {
        return false;
    }
    const size_t name_bytes = bid->records[CLAIM_FIXED_BYTES];
    memcpy(claim_out, bid->records, CLAIM_FIXED_BYTES);
    memcpy(claim_out->name, bid->records + RECORD_BYTES, name_bytes);
    claim_out->name[name_bytes] = 0;
    bid->records += RECORD_BYTES + name_bytes;
    bid->member_count--;
    TT_DEBUG_ASSERT(bid->records <= bid->end);
    return true;
}

/* A place in a bid: number of the member, and where its record or hash lies. */
static uint32_t place_make(uint32_t member, size_t at)
{
    _Static_assert(TT_TICKET_CLAIM_BYTES_MAX < 1 << 16, "a place has 16 bits");
    TT_ASSERT(at <= UINT16_MAX);
    return member << 16 | (uint32_t)at;
}

static uint32_t part_record(const uint8_t *bytes, size_t left, uint32_t place, tt_part_name *part)
{
    const size_t at = place & UINT16_MAX;
    const uint16_t name_bytes = left < RECORD_BYTES ? 0 : bytes[at + CLAIM_FIXED_BYTES];
    if (name_bytes == 0 || left - RECORD_BYTES < name_bytes) {
        return 0; /* none, or a single request */
    }
    const char *name = (const char *)bytes + at + RECORD_BYTES;
    *part = (tt_part_name){
        .hash = tt_hash64(name, name_bytes, 0), .name = name, .name_bytes = name_bytes};
    return place_make((place >> 16) + 1, at + RECORD_BYTES + name_bytes);
}

/* The text of a member whose group was regrouped: the rest of the group fails. */
static void add_regrouped(const void *claim, size_t byte_count, tt_part_name *part)
{
    tt_bid bid;
    if (tt_bid_read(&bid, claim, byte_count) && bid.objection == BID_REGROUPED) {
        part->regrouped = bid.text;
        part->regrouped_bytes = (uint16_t)bid.text_bytes;
    }
}

uint32_t tt_bid_part(void *owner, const void *claim, uint16_t byte_count, uint32_t place,
                     tt_part_name *part_out)
{
    const uint8_t *bytes = claim;
    int32_t status;
    uint32_t count;
    (void)owner;
    if (byte_count < HEAD_BYTES) {
        return 0;
    }
    memcpy(&count, bytes, sizeof(count));
    memcpy(&status, bytes + 4, sizeof(status));
    const bool is_digest = (count & BID_IS_DIGEST) != 0, has_hash = (count & BID_HAS_HASHES) != 0;
    place = place != 0 ? place : HEAD_BYTES + (is_digest ? DIGEST_BYTES : 0);
    const size_t at = place & UINT16_MAX;
    const size_t left = byte_count > at ? byte_count - at : 0;
    if (place >> 16 >= (count & ~(BID_IS_DIGEST | BID_HAS_HASHES)) || status == BID_APART) {
        return 0;
    }
    uint32_t next = 0;
    if (!is_digest) {
        next = part_record(bytes, left, place, part_out);
    } else if (has_hash && left >= HASH_BYTES) {
        *part_out = (tt_part_name){0};
        memcpy(&part_out->hash, bytes + at, sizeof(part_out->hash));
        next = place_make((place >> 16) + 1, at + HASH_BYTES);
    }
    TT_DEBUG_ASSERT((next & UINT16_MAX) <= byte_count);
    if (next > 0 && status == BID_REGROUPED) {
        add_regrouped(claim, byte_count, part_out);
    }
    return next;
}

/* ---- texts ---- */

static void add_ranks(tt_text *text, const tt_set *set, const tt_claimant *claimant)
{
    tt_text_add(text, claimant->member_count == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < claimant->member_count; i++) {
        const uint32_t member = claimant->members[i] + (TT_PLANT(WRONG_BIDDERS_TOLD) ? 1 : 0);
        tt_text_add(text, "%s%u", i == 0 ? " " : ", ",
                    member < set->size ? set->members[member] : UINT32_MAX);
    }
}

/* The first member in which the bids differ; UINT32_MAX: in their number or by hash only. */
static uint32_t first_difference(const tt_claimant *claimants, uint32_t count)
{
    TT_ASSERT(count > 0);
    tt_bid first, other;
    if (!tt_bid_read(&first, claimants[0].claim, claimants[0].claim_bytes)) {
        return UINT32_MAX;
    }
    uint32_t lowest = UINT32_MAX;
    for (uint32_t i = 1; i < count; i++) {
        tt_bid look = first;
        tt_claim a, b;
        if (!tt_bid_read(&other, claimants[i].claim, claimants[i].claim_bytes)) {
            continue;
        }
        for (uint32_t at = 0; at < lowest && tt_bid_next(&look, &a); at++) {
            if (!tt_bid_next(&other, &b)) {
                break;
            }
            if (!tt_claim_equals(&a, &b)) {
                lowest = at;
            }
        }
    }
    return lowest;
}

static void tell_bid(tt_text *text, tt_bid *bid, uint32_t member)
{
    tt_claim claim;
    const uint32_t count = bid->member_count;
    if (bid->objection < 0) {
        tt_text_add_words(text, bid->text, bid->text_bytes);
        return;
    }
    for (uint32_t at = 0; member < count && tt_bid_next(bid, &claim); at++) {
        if (at == member) {
            tt_claim_tell(text, &claim);
            return;
        }
    }
    tt_text_add(text, "a group of %u", count);
}

tt_status tt_bid_explain(const tt_set *set, const char *name, const tt_claimant *claimants,
                         uint32_t count, tt_text *text)
{
    const uint32_t member = first_difference(claimants, count);
    tt_bid bid;
    for (uint32_t i = 0; i < count; i++) { /* checked first: no request may end with it */
        if (tt_bid_read(&bid, claimants[i].claim, claimants[i].claim_bytes) &&
            bid.objection == BID_APART) {
            tt_text_add_words(text, bid.text, bid.text_bytes);
            return bid.objection;
        }
    }
    for (uint32_t i = 0; i < count; i++) { /* a rank that cannot take part is the culprit */
        if (tt_bid_read(&bid, claimants[i].claim, claimants[i].claim_bytes) && bid.objection < 0) {
            tt_text_add(text, "%.*s", (int)bid.text_bytes, bid.text);
            return bid.objection == BID_REGROUPED ? TT_ERR_MISMATCH : bid.objection;
        }
    }
    tt_text_add(text, "ranks disagree about tensor ");
    tt_text_add_quoted(text, name, TT_NAME_BYTES);
    tt_text_add(text, ":");
    for (uint32_t i = 0; i < count; i++) {
        tt_text_add(text, i == 0 ? " " : "; ");
        add_ranks(text, set, &claimants[i]);
        tt_text_add(text, ": ");
        if (tt_bid_read(&bid, claimants[i].claim, claimants[i].claim_bytes)) {
            tell_bid(text, &bid, member);
        } else {
            tt_text_add(text, "a malformed claim");
        }
    }
    return TT_ERR_MISMATCH;
}
