/* SPDX-License-Identifier: Apache-2.0
 *
 * coding.h - sums whose data are sent coded: who owns what, and what a run keeps.
 *
 * A member owns a slice of the vector: it adds what all members send of it. Owners follow from the
 * length, the block of the codec and the number of members alone, never from the length of frames:
 * the residual of an owner stays with it when tuning changes the frames. The algorithm is
 * pattern/owner.c; its works are in exec_code.c.
 *
 * Layer:   aggregate.
 * Threads: one at a time, as the machine; works read it from several.
 * Memory:  buffers are the caller's until the run is over.
 */
#ifndef TUTTI_AGGREGATE_CODING_H
#define TUTTI_AGGREGATE_CODING_H

#include "aggregate/algorithm.h"
#include "codec/codec.h"

/* What one run of a coded exchange has of its own. Residuals are of floats, whatever the dtype is:
 *  (1) The old ones are only read. After a run that failed, they still count and the new ones are
 *      garbage. After one that succeeded, the new ones are complete.
 *  (2) The new residual is 0 for elements that this rank owns: it adds them as they are, with their
 *      old residual.
 *  (3) A single rank codes nothing: both old residuals are added to its result, both new ones are
 *      0.
 *  (4) reducescatter has no residual of owners: its sums are not coded. */
typedef struct tt_coding {
    tt_codec_draw draw;          /* the seeds of ranks differ */
    float factor;                /* values are multiplied by it before they are coded */
    const float *residual;       /* [elements of the input]; NULL: none */
    float *residual_out;         /* NULL: not wanted */
    const float *owner_residual; /* [elements of the own slice]; NULL: none */
    float *owner_residual_out;   /* NULL: not wanted */
    uint64_t uncoded;            /* counted: elements that could not be coded, see
                                    tt_codec_encode */
} tt_coding;

/* A part of the vector, in elements. */
typedef struct tt_owned {
    uint64_t first, count;
    uint64_t draw; /* number of the first element for random draws: a multiple of the block */
} tt_owned;

/* The slice of `member`; of a reducescatter its part. Slices of an all-reduce begin at multiples of
 * the block. */
tt_owned tt_owned_slice(const tt_problem *problem, uint32_t member);

/* The piece of it that `lane` carries; it begins at a multiple of the block behind the slice's
 * begin. */
tt_owned tt_owned_piece(const tt_problem *problem, const tt_plan *plan, uint64_t lane,
                        uint32_t member);

/* Elements of the longest slice. */
uint64_t tt_owned_longest(const tt_problem *problem);

#endif
