/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - what a rank believes an op to be: made, hashed, compared, sent, told. */
#include <string.h>

#include "base/base.h"
#include "base/hash64.h"
#include "control/control_internal.h"

static bool is_reduction(tt_collective collective)
{
    return collective == TT_ALLREDUCE || collective == TT_REDUCE || collective == TT_REDUCESCATTER;
}

static bool is_rooted(tt_collective collective)
{
    return collective == TT_REDUCE || collective == TT_BROADCAST || collective == TT_GATHER ||
           collective == TT_SCATTER;
}

void tt_claim_make(tt_claim *claim, const tt_request *request, uint32_t size)
{
    const bool is_pair = request->collective == TT_SEND || request->collective == TT_RECEIVE;
    claim->collective = (uint8_t)(is_pair ? TT_SEND : request->collective);
    claim->dtype = (uint8_t)request->dtype;
    claim->redop = is_reduction(request->collective) ? (uint8_t)request->redop : 0;
    claim->form =
        (uint8_t)((request->is_uneven ? CLAIM_UNEVEN : 0) |
                  (request->is_by_active ? CLAIM_BY_ACTIVE : 0) |
                  (request->is_alone ? CLAIM_ALONE : 0) | (request->is_tuned ? CLAIM_TUNED : 0));
    claim->root = is_rooted(request->collective) ? request->root : 0;
    claim->count = request->is_uneven ? 0 : request->count;
    claim->prescale = request->prescale;
    claim->postscale = request->postscale;
    claim->salt = request->salt;
    claim->name[0] = 0;
    if (request->collective == TT_REDUCESCATTER && request->is_uneven &&
        request->input_counts != NULL) {
        claim->salt ^= tt_hash64(request->input_counts, size * sizeof(uint64_t), 1);
    }
}

uint64_t tt_claim_hash(const tt_claim *claim, uint32_t size)
{
    return tt_hash64(claim, tt_claim_bytes(claim), size);
}

bool tt_claim_equals(const tt_claim *a, const tt_claim *b)
{
    return memcmp(a, b, CLAIM_FIXED_BYTES) == 0 && strcmp(a->name, b->name) == 0;
}

void tt_claim_copy(tt_claim *target, const tt_claim *source)
{
    memcpy(target, source, CLAIM_FIXED_BYTES);
    if (source->name[0] == 0) {
        target->name[0] = 0;
    } else {
        memcpy(target->name, source->name, sizeof(target->name));
    }
}

size_t tt_claim_bytes(const tt_claim *claim)
{
    return CLAIM_FIXED_BYTES + (claim->name[0] == 0 ? 0 : strlen(claim->name));
}

bool tt_claim_read(tt_claim *claim, const void *bytes, size_t byte_count)
{
    if (byte_count < CLAIM_FIXED_BYTES || byte_count >= sizeof(*claim)) {
        return false;
    }
    memset(claim, 0, sizeof(*claim));
    memcpy(claim, bytes, byte_count);
    return true;
}

void tt_claim_tell(tt_text *text, const tt_claim *claim)
{
    const tt_collective collective = (tt_collective)claim->collective;
    tt_text_add(text, "%s", tt_collective_name(collective));
    if (is_reduction(collective)) {
        tt_text_add(text, " %s", tt_redop_name((tt_redop)claim->redop));
    }
    if (collective != TT_BARRIER) {
        if ((claim->form & CLAIM_UNEVEN) != 0 && claim->count == 0) {
            tt_text_add(text, " of uneven %s", tt_dtype_name((tt_dtype)claim->dtype));
        } else {
            tt_text_add(text, " of %llu %s", (unsigned long long)claim->count,
                        tt_dtype_name((tt_dtype)claim->dtype));
        }
    }
    if (is_rooted(collective)) {
        tt_text_add(text, " root %u", claim->root);
    }
    if ((claim->form & CLAIM_BY_ACTIVE) != 0) {
        tt_text_add(text, " by active ranks");
    }
    if ((claim->form & CLAIM_ALONE) != 0) {
        tt_text_add(text, " alone");
    }
    if ((claim->form & CLAIM_TUNED) != 0) {
        tt_text_add(text, " under a tuned TUTTI_FUSE");
    }
    if (claim->prescale != 1.0 || claim->postscale != 1.0) {
        tt_text_add(text, " scaled by %g and %g", claim->prescale, claim->postscale);
    }
    if (claim->name[0] != 0) {
        tt_text_add(text, " ");
        tt_text_add_quoted(text, claim->name, sizeof(claim->name));
    }
    if (claim->salt != 0) {
        tt_text_add(text, " (key %016llx)", (unsigned long long)claim->salt);
    }
}
