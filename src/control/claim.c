/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - claims: built, hashed, compared, sent, printed. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"
#include "kernel/hash64.h"

static bool is_reduction(tt_collective collective)
{
    return collective == TT_ALLREDUCE || collective == TT_REDUCE || collective == TT_REDUCESCATTER;
}

static bool is_rooted(tt_collective collective)
{
    return collective == TT_REDUCE || collective == TT_BROADCAST || collective == TT_GATHER ||
           collective == TT_SCATTER;
}

/* ---- shapes ---- */

/* The number of dimensions, then each in 7 bits per byte (LEB128), plus one; 0 is a first dimension
 * that may differ. A shape that does not fit is SHAPE_IS_HASH, the number of dimensions, and a
 * hash. */
enum { SHAPE_IS_HASH = 255, SHAPE_DIM_BYTES_MAX = 10 };

static uint32_t dim_write(uint8_t *at, uint64_t dim)
{
    uint32_t bytes = 0;
    for (; dim >= 0x80; dim >>= 7) {
        at[bytes++] = (uint8_t)(dim | 0x80);
    }
    at[bytes++] = (uint8_t)dim;
    TT_DEBUG_ASSERT(bytes <= SHAPE_DIM_BYTES_MAX);
    return bytes;
}

void tt_shape_write(uint8_t *shape, const uint64_t *dims, uint32_t ndim, bool is_first_free)
{
    uint8_t longest[1 + TT_SHAPE_DIMS_MAX * SHAPE_DIM_BYTES_MAX];
    uint32_t bytes = 0;
    TT_ASSERT(ndim >= 1 && ndim <= TT_SHAPE_DIMS_MAX);
    longest[bytes++] = (uint8_t)ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        const bool is_free = is_first_free && i == 0;
        bytes += dim_write(longest + bytes, is_free ? 0 : tt_min_u64(dims[i], UINT64_MAX - 1) + 1);
    }
    TT_ASSERT(bytes <= sizeof(longest));
    memset(shape, 0, TT_SHAPE_BYTES);
    if (bytes <= TT_SHAPE_BYTES) {
        memcpy(shape, longest, bytes);
        return;
    }
    const uint64_t hash = tt_hash64(longest, bytes, 0);
    shape[0] = SHAPE_IS_HASH;
    shape[1] = (uint8_t)ndim;
    memcpy(shape + 2, &hash, sizeof(hash));
}

/* Bytes may be a peer's: nothing beyond them is read. */
static void shape_tell(tt_text *text, const char *what, const uint8_t *shape)
{
    if (shape[0] == SHAPE_IS_HASH) {
        tt_text_add(text, " %s of %u numbers", what, shape[1]);
        return;
    }
    uint32_t at = 1;
    tt_text_add(text, " %s (", what);
    for (uint32_t i = 0; i < shape[0] && at < TT_SHAPE_BYTES; i++) {
        uint64_t dim = 0;
        for (uint32_t shift = 0; at < TT_SHAPE_BYTES && shift < 64; shift += 7) {
            dim |= (uint64_t)(shape[at] & 0x7f) << shift;
            if (shape[at++] < 0x80) {
                break;
            }
        }
        tt_text_add(text, i == 0 ? "" : ", ");
        if (dim == 0) {
            tt_text_add(text, "any");
        } else {
            tt_text_add(text, "%llu", (unsigned long long)(dim - 1));
        }
    }
    TT_DEBUG_ASSERT(at <= TT_SHAPE_BYTES);
    tt_text_add(text, ")");
}

/* ---- claims ---- */

const char *tt_request_what(const tt_request *request)
{
    switch (request->about) {
    case TT_ABOUT_SET_CREATE:
        return "tutti_set_create";
    case TT_ABOUT_SET_REMOVE:
        return "tutti_set_remove";
    case TT_ABOUT_NOTHING:
        break;
    }
    return tt_collective_name(request->collective);
}

/* The parts of a reducescatter take the place of the shape if the caller gives none. */
static void claim_parts(tt_claim *claim, const tt_request *request, uint32_t size)
{
    TT_DEBUG_ASSERT(request->is_uneven && size > 0);
    claim->salt ^= tt_hash64(request->input_counts, size * sizeof(uint64_t), 1);
    if (claim->shape[0] == 0 && size <= TT_SHAPE_DIMS_MAX) {
        tt_shape_write(claim->shape, request->input_counts, size, false);
        claim->form |= CLAIM_PARTS;
    }
}

void tt_claim_make(tt_claim *claim, const tt_request *request, uint32_t size)
{
    TT_DEBUG_ASSERT(size > 0);
    claim->collective = tt_claim_collective(request);
    claim->dtype = (uint8_t)request->dtype;
    claim->redop = tt_claim_redop(request);
    claim->form = tt_claim_form(request);
    claim->root = tt_claim_root(request);
    claim->count = request->is_uneven ? 0 : request->count;
    claim->prescale = request->prescale;
    claim->postscale = request->postscale;
    claim->salt = tt_claim_salt(request);
    claim->codec = tt_claim_codec(request);
    claim->name[0] = 0;
    if (request->shape[0] == 0) {
        memset(claim->shape, 0, sizeof(claim->shape));
    } else {
        memcpy(claim->shape, request->shape, sizeof(claim->shape));
    }
    if (request->collective == TT_REDUCESCATTER && request->is_uneven &&
        request->input_counts != NULL) {
        claim_parts(claim, request, size);
    }
}

uint64_t tt_claim_hash(const tt_claim *claim, uint32_t size)
{
    TT_DEBUG_ASSERT(size > 0);
    return tt_hash64(claim, tt_claim_bytes(claim), size);
}

bool tt_claim_equals(const tt_claim *a, const tt_claim *b)
{
    return memcmp(a, b, CLAIM_FIXED_BYTES) == 0 && strcmp(a->name, b->name) == 0;
}

bool tt_claim_asks_same(const tt_claim *a, const tt_claim *b)
{
    tt_claim other;
    tt_claim_copy(&other, b);
    other.salt = a->salt;
    return tt_claim_equals(a, &other);
}

void tt_claim_copy(tt_claim *target, const tt_claim *source)
{
    TT_DEBUG_ASSERT(strlen(source->name) < sizeof(source->name));
    memcpy(target, source, CLAIM_FIXED_BYTES);
    memcpy(target->name, source->name, strlen(source->name) + 1);
}

size_t tt_claim_bytes(const tt_claim *claim)
{
    TT_DEBUG_ASSERT(strlen(claim->name) < sizeof(claim->name));
    return CLAIM_FIXED_BYTES + (claim->name[0] == 0 ? 0 : strlen(claim->name));
}

bool tt_claim_read(tt_claim *claim, const void *bytes, size_t byte_count)
{
    if (byte_count < CLAIM_FIXED_BYTES || byte_count >= sizeof(*claim)) {
        return false;
    }
    memset(claim, 0, sizeof(*claim));
    memcpy(claim, bytes, byte_count);
    TT_ASSERT(claim->name[sizeof(claim->name) - 1] == 0);
    return true;
}

void tt_claim_tell(tt_text *text, const tt_claim *claim)
{
    const tt_collective collective = (tt_collective)claim->collective;
    if ((claim->form & CLAIM_SETS) != 0) {
        const bool is_new = claim->root == TT_ABOUT_SET_CREATE;
        tt_text_add(text, is_new ? "tutti_set_create" : "tutti_set_remove");
        shape_tell(text, is_new ? "of ranks" : "of set", claim->shape);
        return;
    }
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
    if (claim->shape[0] != 0) {
        shape_tell(text, (claim->form & CLAIM_PARTS) != 0 ? "in parts" : "in shape", claim->shape);
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
    if (claim->codec != 0) {
        tt_scheme_tell(text, claim->codec);
    }
    if (claim->prescale != 1.0 || claim->postscale != 1.0) {
        tt_text_add(text, " scaled by %g and %g", claim->prescale, claim->postscale);
    }
    if (claim->name[0] != 0) {
        tt_text_add(text, " ");
        tt_text_add_quoted(text, claim->name, sizeof(claim->name));
    }
}
