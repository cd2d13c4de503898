/* SPDX-License-Identifier: Apache-2.0
 *
 * combine.h - the topology of frames, and the reduction of one value over all members.
 *
 * Layer:   negotiate, private.
 * Threads: one at a time.
 * Memory:  the host's allocator.
 */
#ifndef TUTTI_NEGOTIATE_COMBINE_H
#define TUTTI_NEGOTIATE_COMBINE_H

#include "negotiate/negotiate.h"
#include "negotiate/notice.h"

/* ---- place: the topology of frames ---- */

typedef struct tt_place {
    const uint32_t *locals; /* members of this host; the first leads */
    uint32_t local_count;
    uint32_t local; /* own place among them */
    uint32_t turn;  /* number of the leader, counted from the host of member 0 */
    uint32_t power; /* largest power of two of leaders */
    uint32_t dimensions;
    uint32_t child_count;
} tt_place;

tt_status tt_place_init(tt_negotiator *self);
uint32_t tt_place_leader(const tt_negotiator *self, uint32_t turn);
/* The number of `member` as a leader; TT_NONE. */
uint32_t tt_place_turn(const tt_negotiator *self, uint32_t member);
/* Among the members of this host; TT_NONE. */
uint32_t tt_place_local(const tt_negotiator *self, uint32_t member);
/* The tree to member 0: TT_NONE at its root, and for a member that is no child. */
uint32_t tt_place_parent(const tt_negotiator *self);
uint32_t tt_place_child(const tt_negotiator *self, uint32_t child);
uint32_t tt_place_child_of(const tt_negotiator *self, uint32_t member);

/* ---- combine: a reduction over all members ---- */

typedef struct tt_combine {
    uint64_t round;
    uint64_t digest;
    uint8_t kind;  /* TT_NOTICE_VECTOR or CUT */
    uint8_t flags; /* of all members seen so far */
    bool is_open;  /* some value is in it */
    bool is_begun; /* this member's own value is in it */
    bool is_over;
    bool is_folded; /* the frame from or to the leader beyond the power of two is in */
    bool is_fold_sent;
    uint32_t dimensions_in; /* bits */
    uint32_t dimensions_sent;
    uint32_t locals_in;
    uint64_t *locals_seen; /* [local_count] bits */
    uint8_t *bytes;        /* `size` of AND or MAX; `size` of OR */
    uint32_t size, capacity;
} tt_combine;

tt_status tt_combine_init(tt_negotiator *self, tt_combine *combine, tt_notice_kind kind);
void tt_combine_destroy(tt_negotiator *self, tt_combine *combine);
void tt_combine_reset(tt_negotiator *self, tt_combine *combine, uint64_t round);
/* This member's value: `size` bytes, twice if flags has INVALID. */
tt_status tt_combine_begin(tt_negotiator *self, tt_combine *combine, const tt_notice *own);
tt_status tt_combine_notice(tt_negotiator *self, tt_combine *combine, uint32_t member,
                            const tt_notice *notice);

#endif
