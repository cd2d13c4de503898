/* SPDX-License-Identifier: Apache-2.0
 *
 * bid.c - the claim of a ticket: what its requests are said to be, member by member.
 *
 *   u32 member count | i32 objection | records | text of the objection
 *
 * A record is the fixed part of a tt_claim, one byte of length and the name (of members of a group;
 * a single request's name is the ticket's). With more members than fit the records are one hash.
 */
#include <string.h>

#include "base/base.h"
#include "base/hash64.h"
#include "control/named.h"

enum { HEAD_BYTES = 8, RECORD_BYTES = CLAIM_FIXED_BYTES + 1, DIGEST_BYTES = 8 };

static size_t record_bytes(const tt_named *named, const tt_request *request)
{
    return RECORD_BYTES + (named->member_max > 0 ? strlen(request->name) : 0);
}

static uint8_t *record_write(const tt_named *named, const tt_request *request, uint8_t *at)
{
    tt_claim claim;
    const size_t name_bytes = record_bytes(named, request) - RECORD_BYTES;
    tt_claim_make(&claim, request, named->set->size);
    memcpy(at, &claim, CLAIM_FIXED_BYTES);
    at[CLAIM_FIXED_BYTES] = (uint8_t)name_bytes;
    if (name_bytes > 0) {
        memcpy(at + RECORD_BYTES, request->name, name_bytes);
    }
    return at + RECORD_BYTES + name_bytes;
}

static uint64_t records_hash(const tt_named *named)
{
    uint64_t hash = named->member_count;
    uint8_t record[RECORD_BYTES + TT_NAME_BYTES];
    for (uint32_t i = 0; i < named->member_count; i++) {
        const uint8_t *end = record_write(named, named->members[i], record);
        hash = tt_hash64(record, (size_t)(end - record), hash);
    }
    return hash;
}

static tt_status bid_reserve(tt_control *control, tt_named *named, size_t bytes)
{
    if (bytes <= named->bid_capacity) {
        return TT_OK;
    }
    uint8_t *bid = tt_platform_allocate(control->platform, bytes);
    if (bid == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (named->bid != named->bid_short) {
        tt_platform_release(control->platform, named->bid, named->bid_capacity);
    }
    named->bid = bid;
    named->bid_capacity = bytes;
    return TT_OK;
}

/* Reductions of even parts: a rank that has joined can stand in for them. */
static bool needs_all(const tt_named *named, bool is_digest)
{
    bool needs = is_digest;
    for (uint32_t i = 0; !needs && i < named->member_count; i++) {
        const tt_request *request = named->members[i];
        needs = request->is_uneven ||
                (request->collective != TT_ALLREDUCE && request->collective != TT_REDUCE &&
                 request->collective != TT_REDUCESCATTER);
    }
    return needs;
}

/* There is no memory for the bid: one that fits in any record says so. */
static size_t bid_write_starved(tt_named *named)
{
    static const char text[] = "out of memory";
    const uint32_t count = UINT32_C(1) | UINT32_C(1) << 31;
    const int32_t status = TT_ERR_NO_MEMORY;
    memset(named->bid, 0, HEAD_BYTES + DIGEST_BYTES);
    memcpy(named->bid, &count, sizeof(count));
    memcpy(named->bid + 4, &status, sizeof(status));
    memcpy(named->bid + HEAD_BYTES + DIGEST_BYTES, text, sizeof(text) - 1);
    return HEAD_BYTES + DIGEST_BYTES + sizeof(text) - 1;
}

static void bid_write(tt_named *named, const tt_failure *objection, bool is_digest)
{
    const int32_t status = objection != NULL ? objection->status : TT_OK;
    const uint32_t count = named->member_count | (is_digest ? UINT32_C(1) << 31 : 0);
    uint8_t *at = named->bid + HEAD_BYTES;
    memcpy(named->bid, &count, sizeof(count));
    memcpy(named->bid + 4, &status, sizeof(status));
    if (is_digest) {
        const uint64_t hash = records_hash(named);
        memcpy(at, &hash, sizeof(hash));
        at += sizeof(hash);
    }
    for (uint32_t i = 0; !is_digest && i < named->member_count; i++) {
        at = record_write(named, named->members[i], at);
    }
    if (objection != NULL) {
        memcpy(at, objection->text, strlen(objection->text));
    }
}

void tt_bid_make(tt_control *control, tt_named *named, const tt_failure *objection)
{
    const size_t text_bytes = objection != NULL ? strlen(objection->text) : 0;
    size_t bytes = HEAD_BYTES;
    for (uint32_t i = 0; i < named->member_count; i++) {
        bytes += record_bytes(named, named->members[i]);
    }
    const bool is_digest = bytes + text_bytes > TT_TICKET_CLAIM_BYTES_MAX;
    bytes = (is_digest ? HEAD_BYTES + DIGEST_BYTES : bytes) + text_bytes;
    if (bid_reserve(control, named, bytes) == TT_OK) {
        bid_write(named, objection, is_digest);
    } else {
        bytes = bid_write_starved(named);
    }
    named->ticket.claim = named->bid;
    named->ticket.claim_bytes = (uint16_t)bytes;
    named->ticket.needs_all = needs_all(named, is_digest);
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
    *bid = (tt_bid){.member_count = count & INT32_MAX,
                    .is_digest = (count >> 31) != 0,
                    .objection = (tt_status)status,
                    .records = (const uint8_t *)bytes + HEAD_BYTES,
                    .end = (const uint8_t *)bytes + byte_count};
    if (bid->member_count == 0 || bid->member_count > GROUP_MEMBERS_MAX || status > 0 ||
        status < -64) {
        return false;
    }
    tt_bid look = *bid;
    tt_claim claim;
    if (bid->is_digest) {
        look.records += DIGEST_BYTES;
    }
    while (!bid->is_digest && look.member_count > 0) {
        if (!tt_bid_next(&look, &claim)) {
            return false;
        }
    }
    if (look.records > bid->end || (status == 0 && look.records != bid->end)) {
        return false;
    }
    bid->text = (const char *)look.records;
    bid->text_bytes = (size_t)(bid->end - look.records);
    return true;
}

bool tt_bid_next(tt_bid *bid, tt_claim *claim_out)
{
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
    return true;
}

/* ---- words for people ---- */

static void add_ranks(tt_text *text, const tt_set *set, const tt_claimant *claimant)
{
    tt_text_add(text, claimant->member_count == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < claimant->member_count; i++) {
        const uint32_t member = claimant->members[i];
        tt_text_add(text, "%s%u", i == 0 ? " " : ", ",
                    member < set->size ? set->members[member] : UINT32_MAX);
    }
}

/* The first member in which the bids differ; UINT32_MAX: in their number or by hash only. */
static uint32_t first_difference(const tt_claimant *claimants, uint32_t count)
{
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
    for (uint32_t i = 0; i < count; i++) { /* before all else: no rank may count this as an end */
        if (tt_bid_read(&bid, claimants[i].claim, claimants[i].claim_bytes) &&
            bid.objection == BID_APART) {
            tt_text_add_words(text, bid.text, bid.text_bytes);
            return bid.objection;
        }
    }
    for (uint32_t i = 0; i < count; i++) { /* who cannot take part is the culprit */
        if (tt_bid_read(&bid, claimants[i].claim, claimants[i].claim_bytes) && bid.objection < 0) {
            tt_text_add(text, "%.*s", (int)bid.text_bytes, bid.text);
            return bid.objection;
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
            tt_text_add(text, "nothing that can be read");
        }
    }
    return TT_ERR_MISMATCH;
}
