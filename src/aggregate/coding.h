/* SPDX-License-Identifier: Apache-2.0
 *
 * coding.h - sums whose data are sent coded: who owns what, and what a run keeps.
 *
 * An owner has a slice of the vector: it adds what the others of its rail send of it. There are two
 * algorithms:
 *
 *   pattern/owner.c  All members are one rail, and each of them is an owner. Everything that leaves
 *                    a rank is coded.
 *   pattern/rails.c  Rail l is member l of every host. It exchanges the sums of hosts, which its
 *                    members compute in shared memory. Only what leaves a host is coded. Members
 *                    beyond the number of rails own nothing.
 *
 * Owners follow from the length, the block of the codec and the number of members (of hosts and
 * rails) alone, never from the length of frames: the residual of an owner stays with it when tuning
 * changes the frames. Of a scheme of several codecs the largest block counts in every phase: so it
 * stays with it from phase to phase, too. The works are in exec_code.c.
 *
 * EF21 (codec->is_tracked): a sender keeps the negated estimate that its owners have of its values,
 * where others keep a residual, and an owner the sum of the estimates that the others of its rail
 * keep of its slice. A message moves both by the same decoded values. So they must belong together:
 * each frame to an owner begins with a stamp, which differs where states differ.
 *
 * Layer:   aggregate.
 * Threads: one at a time, as the machine; works read it from several.
 * Memory:  buffers are the caller's until the run is over.
 */
#ifndef TUTTI_AGGREGATE_CODING_H
#define TUTTI_AGGREGATE_CODING_H

#include "aggregate/algorithm.h"
#include "codec/codec.h"

enum { TT_STAMP_BYTES = 8 };

/* What one run of a coded exchange has of its own. Residuals are of floats, whatever the dtype is:
 *  (1) The old ones are only read. After a run that failed, they still count and the new ones are
 *      garbage. After one that succeeded, the new ones are complete.
 *  (2) The new residual is 0 for elements that this rank owns: it adds them as they are, with their
 *      old residual. With rails it is the residual of the host's sum: only elements of this rank's
 *      rail are read and written. The caller provides zeros for the others.
 *  (3) A single rank codes nothing: both old residuals are added to its result, both new ones are
 *      0.
 *  (4) reducescatter has no residual of owners: its sums are not coded.
 *  (5) An all-reduce with a summable codec (summed_stages.c) has no owners, either: the new
 *      residual is what this rank's levels leave of all of its elements.
 *  (6) With estimates, `residual` is the negated estimate of this rank's values. That of elements
 * it owns is 0 and not added. Elements that are not finite move no estimate: their result is NaN.
 *      A single rank uses none. */
typedef struct tt_coding {
    tt_codec_draw draw;          /* the seeds of ranks differ */
    float factor;                /* values (rails: sums of a host) are multiplied by it in f32,
                                    before they are coded */
    const float *residual;       /* [elements of the input]; NULL: none */
    float *residual_out;         /* NULL: not wanted */
    const float *owner_residual; /* [tt_coding_owned]; NULL: none */
    float *owner_residual_out;   /* NULL: not wanted */
    const float *estimate;       /* [tt_coding_estimated], negated; NULL: none */
    float *estimate_out;         /* NULL: not wanted */
    uint64_t stamp;              /* of the estimates */
    uint64_t uncoded;            /* counted: elements that could not be coded, see
                                    tt_codec_encode */
    uint64_t spent_ns;           /* of all works */
    uint32_t culprit; /* of local stages: a member whose bytes are bad, from 1; 0: none */
    bool is_astray;   /* the culprit of the run has estimates with another stamp */
} tt_coding;

/* Is it a sum of floats, sent coded? Other problems cannot be. */
bool tt_coding_fits(const tt_problem *problem);

/* Is it exchanged along rails, the host's sums in place of the ranks' values? */
bool tt_coding_has_rails(const tt_problem *problem);

/* Elements of this rank's residual as an owner; 0: it needs none. */
uint64_t tt_coding_owned(const tt_problem *problem);

/* Elements of the sum of estimates that this rank keeps as an owner; 0: it needs none. */
uint64_t tt_coding_estimated(const tt_problem *problem);

/* Bytes that a sender gives to the owner of so many elements: a stamp, if any, and wire bytes. */
uint64_t tt_given_bytes(const tt_problem *problem, uint64_t count);

/* Members of a rail, the position of this rank on its own, and the member at a position there.
 * Parts are added in the order of positions: ranks, or hosts. */
uint32_t tt_rail_size(const tt_problem *problem);
uint32_t tt_rail_position(const tt_problem *problem);
uint32_t tt_rail_member(const tt_problem *problem, uint32_t position);

/* Owners are numbered in the order of their slices, those of one rail one after the other. The
 * number of a member that owns nothing is not below the count. */
uint32_t tt_owner_count(const tt_problem *problem);
uint32_t tt_owner_number(const tt_problem *problem, uint32_t member);
uint32_t tt_owner_member(const tt_problem *problem, uint32_t number);

/* A part of the vector, in elements. */
typedef struct tt_owned {
    uint64_t first, count;
    uint64_t draw; /* number of the first element for random draws: a multiple of the block */
} tt_owned;

/* The slice of `member`; of a reducescatter its part. Slices of an all-reduce begin at multiples of
 * problem->owner_block. */
tt_owned tt_owned_slice(const tt_problem *problem, uint32_t member);

/* The piece of it that `lane` carries; it begins at a multiple of the block behind the slice's
 * begin. */
tt_owned tt_owned_piece(const tt_problem *problem, const tt_plan *plan, uint64_t lane,
                        uint32_t member);

/* Elements of the longest slice, and of its piece. */
uint64_t tt_owned_longest(const tt_problem *problem);
uint64_t tt_owned_longest_piece(const tt_problem *problem, const tt_plan *plan, uint64_t lane);

#endif
