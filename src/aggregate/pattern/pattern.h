/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern.h - rank arithmetic shared by the algorithms in this folder.
 *
 * Layer:   aggregate, private to pattern/.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_PATTERN_PATTERN_H
#define TUTTI_AGGREGATE_PATTERN_PATTERN_H

#include "aggregate/algorithm.h"
#include "base/assert.h"

/* `spot` moved by `bytes`. */
static inline tt_spot spot_plus(tt_spot spot, uint64_t bytes)
{
    return (tt_spot){.buffer = spot.buffer, .offset = spot.offset + bytes};
}

static inline tt_spot spot_at(tt_buffer buffer, uint64_t offset)
{
    return (tt_spot){.buffer = buffer, .offset = offset};
}

/* ceil(a / b), and at least 1: an empty vector still has one lane, so that it synchronises. */
static inline uint64_t lanes_for(uint64_t bytes, uint64_t lane_bytes)
{
    TT_ASSERT(lane_bytes > 0);
    const uint64_t count = bytes / lane_bytes + (bytes % lane_bytes != 0);
    return count > 0 ? count : 1;
}

/* Bytes of [0, total) that fall into lane `lane`. */
static inline uint64_t lane_length(uint64_t total, uint64_t lane_bytes, uint64_t lane)
{
    TT_DEBUG_ASSERT(lane_bytes > 0);
    const uint64_t first = lane * lane_bytes;
    if (first >= total) {
        return 0;
    }
    return total - first < lane_bytes ? total - first : lane_bytes;
}

/* Smallest k with 2^k >= value. */
static inline uint32_t log2_ceil(uint32_t value)
{
    uint32_t log2 = 0;
    while ((UINT64_C(1) << log2) < value) {
        log2++;
    }
    return log2;
}

/* Largest k with 2^k <= value, value > 0. */
static inline uint32_t log2_floor(uint32_t value)
{
    TT_ASSERT(value > 0);
    uint32_t log2 = 0;
    while ((UINT64_C(2) << log2) <= value) {
        log2++;
    }
    return log2;
}

/* The longest part of an uneven problem. */
uint64_t tt_part_bytes_max(const tt_problem *problem);

/* A ring all-reduce among `count` ranks; peers are positions in the ring. Of each slice only the
 * piece in `lane` is sent. */
typedef struct tt_ring {
    uint32_t position, count;
    uint32_t element_bytes;
    uint64_t bytes;       /* of the vector */
    uint64_t piece_bytes; /* of a slice that one lane carries; UINT64_MAX: all of it */
    uint64_t lane;
    tt_spot source; /* own contribution */
    tt_spot target; /* the result */
    uint64_t slot;  /* of arrivals, in scratch */
} tt_ring;

/* With P not a power of two the first 2 r ranks, r = P - 2^floor(log2 P), fold in pairs (even into
 * odd) before an exchange among 2^k ranks, and unfold after. False: this rank takes no part. */
bool tt_fold_move(const tt_problem *problem, bool is_unfold, tt_move *move_out);

/* By the facts: do all members share the buffers that the algorithm needs? */
bool tt_all_shared(const tt_problem *problem);

/* A barrier: an empty frame to and from every other member; two ranks or more. */
bool tt_notify_move(const tt_problem *problem, uint32_t index, tt_move *move_out);

/* The same among the members of this host. */
bool tt_host_notify_move(const tt_problem *problem, uint32_t index, tt_move *move_out);

/* Longest frame of a rail. Rails share a segment: lanes stay short, however many rails there are,
 * and so overlap better. */
uint32_t tt_rail_segment(const tt_problem *problem);

/* As tt_slice, but slices begin on cache lines; the last takes the remainder. */
tt_span tt_line_slice(uint64_t bytes, uint32_t count, uint32_t index);

/* Copy the lane's chunk into the own shared slot, or out of it; false where the buffer itself is
 * shared. */
bool tt_staging_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane, bool is_in,
                     tt_move *move_out);

/* Coded data are exchanged along a rail (coding.h). Scratch: a slot per position for what is sent
 * to that owner, then one per position for what arrives from there. The coded result of an owner
 * goes to the slot of what was sent to it: it causally follows that. */

/* Lanes, frames and scratch, for frames of at most `segment` bytes, but at least one block. */
void tt_coded_plan(const tt_problem *problem, uint64_t segment, tt_plan *plan_out);

/* Pieces to their owners, or results to all others. */
bool tt_coded_exchange_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                            bool is_result, tt_move *move_out);

/* ENCODE, MERGE, DECODE or STAGE; the spots of the last are the caller's. */
void tt_coded_work_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane, tt_work work,
                        tt_move *move_out);

uint32_t tt_ring_round_count(uint32_t count);
bool tt_ring_move(const tt_ring *ring, uint32_t round, uint32_t index, tt_move *move_out);

#endif
