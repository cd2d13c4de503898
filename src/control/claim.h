/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.h - what a rank believes an op to be, and its hash, the descriptor.
 *
 * Layer:   control, private.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_CONTROL_CLAIM_H
#define TUTTI_CONTROL_CLAIM_H

#include <stddef.h>

#include "aggregate/aggregate.h"
#include "base/text.h"
#include "control/control.h"
#include "kernel/hash64.h"

/* What a rank believes an op to be. Its hash is in every frame; the claim itself, up to the end of
 * the name, is sent in a dispute. */
typedef struct tt_claim {
    uint8_t collective, dtype, redop, form;
    uint32_t root;
    uint64_t count;
    double prescale, postscale;
    uint64_t salt;                 /* of set creation; of reducescatter: hash of the counts */
    uint64_t codec;                /* see aggregate/scheme.h; 0: none was asked for */
    uint8_t shape[TT_SHAPE_BYTES]; /* see tt_shape_write; zeros: not given */
    char name[TT_NAME_BYTES];
} tt_claim;

/* Bits of `form`. TUNED: the tensor is small by the current fuse_bytes and large by the configured
 * one, or the other way round.
 * SETS: a barrier about a process set; `root` is a tt_about, `shape` the ranks or the set. PARTS:
 * `shape` has the counts of an uneven reducescatter. */
enum {
    CLAIM_UNEVEN = 1,
    CLAIM_BY_ACTIVE = 2,
    CLAIM_ALONE = 4,
    CLAIM_TUNED = 8,
    CLAIM_SETS = 16,
    CLAIM_PARTS = 32,
};
enum { CLAIM_FIXED_BYTES = offsetof(tt_claim, name) };

_Static_assert(CLAIM_FIXED_BYTES == 80, "tt_claim is a wire format");
_Static_assert(sizeof(tt_claim) <= TT_ERROR_BYTES, "an outgoing frame holds a claim");

/* The fields of a request's claim. */
static inline uint8_t tt_claim_form(const tt_request *request)
{
    return (uint8_t)((request->is_uneven ? CLAIM_UNEVEN : 0) |
                     (request->is_by_active ? CLAIM_BY_ACTIVE : 0) |
                     (request->is_alone ? CLAIM_ALONE : 0) | (request->is_tuned ? CLAIM_TUNED : 0) |
                     (request->about != TT_ABOUT_NOTHING ? CLAIM_SETS : 0));
}
static inline uint64_t tt_claim_salt(const tt_request *request)
{
    const tt_program *program = request->program;
    return program == NULL || program->scheme != NULL
               ? request->salt
               : tt_hash64_mix(request->salt, program->number);
}
/* A recipe's claim adds which phase of the scheme runs: if ranks differ in how often they have
 * called a tensor, the call fails with a mismatch before data are exchanged. */
static inline uint64_t tt_claim_codec(const tt_request *request)
{
    const tt_program *program = request->program;
    return program == NULL || program->scheme == NULL ? 0 : program->scheme->code;
}
static inline uint8_t tt_claim_collective(const tt_request *request)
{
    return (uint8_t)(request->collective == TT_RECEIVE ? TT_SEND : request->collective);
}
static inline uint8_t tt_claim_redop(const tt_request *request)
{
    const bool is_reduction = request->collective == TT_ALLREDUCE ||
                              request->collective == TT_REDUCE ||
                              request->collective == TT_REDUCESCATTER;
    return is_reduction ? (uint8_t)request->redop : 0;
}
static inline uint32_t tt_claim_root(const tt_request *request)
{
    const bool is_rooted = request->collective == TT_REDUCE ||
                           request->collective == TT_BROADCAST ||
                           request->collective == TT_GATHER || request->collective == TT_SCATTER;
    return is_rooted ? request->root : (uint32_t)request->about;
}
/* A claim, like a recipe's key, has one byte per enumeration: a request with a larger value matches
 * no recipe. */
static inline bool tt_claim_holds(const tt_request *request)
{
    return ((uint32_t)request->collective | (uint32_t)request->dtype | (uint32_t)request->redop) <=
           UINT8_MAX;
}
/* Fill in all that must be equal on all ranks, without the name. */
void tt_claim_make(tt_claim *claim, const tt_request *request, uint32_t size);
uint64_t tt_claim_hash(const tt_claim *claim, uint32_t size);
bool tt_claim_equals(const tt_claim *a, const tt_claim *b);
/* Equal, except for the salt. */
bool tt_claim_asks_same(const tt_claim *a, const tt_claim *b);
void tt_claim_copy(tt_claim *target, const tt_claim *source);
/* On the wire: bytes up to the end of the name. */
size_t tt_claim_bytes(const tt_claim *claim);
bool tt_claim_read(tt_claim *claim, const void *bytes, size_t byte_count);
/* Adds a readable form. */
void tt_claim_tell(tt_text *text, const tt_claim *claim);

#endif
