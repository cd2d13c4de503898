/* SPDX-License-Identifier: Apache-2.0
 *
 * algorithm.h - algorithms as pure rank arithmetic: which member sends what to which.
 *
 * An op is cut into lanes (chunks). Each lane runs the same number of rounds; a round is a handful
 * of moves: send, store an arrival, reduce an arrival, or local work. An algorithm is a pure
 * function from (problem, lane, round, index) to a move. exec.c runs the moves over the seam, so
 * that early frames, flow control and failure are solved once for all algorithms.
 *
 * Promises of an algorithm:
 *  (1) Plan and moves depend on the problem alone, which all ranks know alike but for `self`.
 *  (2) For every send there is exactly one store or reduce on the peer with the same lane, round
 *      and bytes, and the other way round.
 *  (3) In one round at most one send to and one arrival from any one peer.
 *  (4) A store may happen as soon as its lane is open, rounds before its own: its target must not
 *      be read by a send or reduce that its data does not causally follow.
 *  (5) A reduce's arrival slot belongs to its round alone, unless the plan has reduce_early: then
 *      each reduce is applied when it arrives, and its target is not read before its round.
 *  (6) A round has at most one reduce and one work. Within a round sends go first, then the reduce
 *      is applied, then the work is done; the next round follows when all are over.
 *
 * Layer:   aggregate; may include platform/, codec/ and base/.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_ALGORITHM_H
#define TUTTI_AGGREGATE_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "kernel/dtype.h"
#include "platform/platform.h"

typedef enum tt_collective { /* values are public ABI and sent in frames */
                             TT_ALLREDUCE,
                             TT_REDUCE,
                             TT_BROADCAST,
                             TT_ALLGATHER,
                             TT_GATHER,
                             TT_SCATTER,
                             TT_REDUCESCATTER,
                             TT_ALLTOALL,
                             TT_SEND,
                             TT_RECEIVE,
                             TT_BARRIER,
                             TT_COLLECTIVE_COUNT,
} tt_collective;

const char *tt_collective_name(tt_collective collective);

/* Which members of a process set share memory. Members of a host are listed together. */
typedef struct tt_topology {
    uint32_t host_count;
    uint32_t rail_count;          /* at most the smallest number of members on any host */
    const uint32_t *host_of;      /* [size] host index of a member */
    const uint32_t *local_of;     /* [size] its number among the members of its host */
    const uint32_t *host_first;   /* [host_count + 1] into host_members */
    const uint32_t *host_members; /* [size] members, host by host, ascending */
    bool has_views;               /* members of one host can see each other's arena */
    bool is_crowded;              /* ranks outnumber cores on some host */
} tt_topology;

/* What a member sends to the others of its host before they use its memory: where its buffers are.
 */
typedef struct tt_fact {
    uint64_t is_shared; /* 1: the parts of input and output that others access are in the arena */
    uint64_t input_offset; /* not shared: of its staging slots */
    uint64_t output_offset;
    uint64_t region;
} tt_fact;

/* Bytes up to which latency, not bandwidth, decides how long an exchange takes: a small part of a
 * frame, because the length of frames is chosen by the speed of the links. */
enum { TT_SHORT_BYTES_MAX = 16 * 1024, TT_SHORT_PARTS = 4 };

static inline uint64_t tt_short_bytes(uint32_t segment_bytes)
{
    const uint32_t part = segment_bytes / TT_SHORT_PARTS;
    return part < TT_SHORT_BYTES_MAX ? part : TT_SHORT_BYTES_MAX;
}

typedef struct tt_codec_spec tt_codec_spec; /* codec/codec.h */

typedef struct tt_problem {
    tt_collective collective;
    tt_dtype dtype;
    tt_redop redop;
    uint32_t self, size, root;
    uint32_t element_bytes;
    uint32_t segment_bytes; /* payload of the longest frame */
    uint64_t bytes;         /* the vector; of gathers, scatters, alltoall: one part if equal */
    /* Uneven parts, in bytes: [size + 1] offsets, or NULL when every part has `bytes`. Of the
     * output of gathers, the input of scatters, reducescatter and alltoall. */
    const uint64_t *part_offsets;
    const uint64_t *output_offsets; /* alltoall: of the output */
    double postscale;
    bool is_in_place;
    bool is_uneven; /* parts differ; their offsets may not be known yet */
    bool is_steady; /* the bits of an element must not depend on the elements beside it */
    const tt_topology *topology;
    const tt_fact *facts;       /* [size] known where shared memory is used */
    const tt_codec_spec *codec; /* data are sent coded (coding.h); kept by the owner of the stage.
                                   NULL: as they are */
    uint32_t owner_block; /* slices of owners begin at multiples of it (coding.h); 0: the codec's */
} tt_problem;

/* How a problem is cut up. */
typedef struct tt_plan {
    uint64_t lane_count;
    uint64_t lane_bytes; /* of the vector (or of each part) that one lane covers */
    uint32_t round_count;
    uint32_t fan;           /* 1: one peer per direction and round; else problem size */
    uint32_t partner_max;   /* distinct peers */
    uint32_t frame_bytes;   /* longest frame */
    uint64_t scratch_bytes; /* per lane */
    bool reduce_early;      /* see (5) */
    bool sends_alike;       /* a round with sends sends the same bytes to every other member */
    bool is_flat; /* the only exchange is one frame from each member to all others, in round 0:
                     arrivals are stored in scratch, frame_bytes each, and summed in round 1; those
                     of a gather at their places in the output */
    uint64_t slot_bytes; /* shared staging per lane; 0: none */
} tt_plan;

typedef enum tt_move_kind {
    TT_MOVE_NONE,
    TT_MOVE_SEND,   /* `source` to `peer` */
    TT_MOVE_STORE,  /* from `peer` to `target` */
    TT_MOVE_REDUCE, /* from `peer`, via `slot` in scratch; target = arrival op source */
    TT_MOVE_WORK,   /* local; see tt_work */
} tt_move_kind;

typedef enum tt_work {
    TT_WORK_COPY,   /* target = source */
    TT_WORK_FINISH, /* target = source, divided and scaled as the op requires */
    TT_WORK_SUM,    /* target = members' inputs: slots in scratch, own from source; finished */
    TT_WORK_VIEWS,  /* sum a slice over views to scratch; or, finished, to views, where the own
                       buffers are used even if they are not shared */
    TT_WORK_SPREAD, /* copy a slice from scratch to the views' outputs */
    TT_WORK_PULL,   /* own target = source in the peer's input */
    TT_WORK_PUSH,   /* target in the peer's output = own source */
    TT_WORK_CAST,   /* target in every member's output = source in the peer's input */
    TT_WORK_FOLD,   /* target in the peer's output = members' inputs at source, finished */
    /* Adasum; of the own vector and the peer's, the lower rank's comes first: */
    TT_WORK_PRODUCTS, /* target = tt_products of source and of the data at `slot` in scratch */
    TT_WORK_ADD,      /* target = tt_products at source and at `slot`, added */
    TT_WORK_BLEND, /* target = source blended with the data at `slot`, by the products at `offset`
                    */
    /* Coded data (coding.h). Slots in scratch are `slot` apart, one per member of the rail; `bytes`
     * are those of the values as floats, every piece rounded up to the longest and to whole blocks.
     * With several rails, the input is the sum of the inputs of this host's members, and the output
     * is stored to those of all of them: */
    TT_WORK_ENCODE, /* slots at target = the others' pieces of the input, coded */
    TT_WORK_MERGE,  /* target = own piece, summed over the slots at source and finished; if it is
                       sent on, coded into the own slot at 0 and decoded from there */
    TT_WORK_DECODE, /* the others' pieces of the output = slots at source, decoded */
    TT_WORK_STAGE,  /* the own shared slot = all owners' pieces of the own input, one after the
                       other; or those pieces of the own output = the slot */
} tt_work;

typedef enum tt_buffer { TT_INPUT, TT_OUTPUT, TT_SCRATCH, TT_SLOT } tt_buffer;

typedef struct tt_spot {
    tt_buffer buffer;
    uint64_t offset; /* in the whole vector; scratch and slot: in the lane's own */
} tt_spot;

typedef struct tt_move {
    tt_move_kind kind;
    tt_work work;
    uint32_t peer; /* member of the set */
    uint64_t bytes;
    tt_spot source;
    tt_spot target;
    uint64_t slot;   /* reduce: arrival in scratch. sum: distance of the slots in scratch */
    uint64_t offset; /* views, spread: of the slice in the lane's chunk. blend: in scratch */
} tt_move;

/* Identifies a move: the index-th of a round of a lane. */
typedef struct tt_cursor {
    uint64_t lane;
    uint32_t round;
    uint32_t index;
} tt_cursor;

/* An algorithm. Every member is required. */
typedef struct tt_algorithm {
    const char *name; /* as users write it: TUTTI_ALGORITHM=<name> */
    bool needs_facts; /* places of buffers are exchanged first */
    bool is_by_rank;  /* every element is summed in the order of ranks, wherever it lies */
    bool (*fits)(const tt_problem *problem);
    void (*plan)(const tt_problem *problem, tt_plan *plan_out);
    /* False: the round has no index-th move. */
    bool (*move)(const tt_problem *problem, const tt_plan *plan, tt_cursor at, tt_move *move_out);
} tt_algorithm;

/* The algorithm for a problem: the one named `forced` if it fits, else by size and placement.
 * A pure function of the problem (self and facts apart), so that all ranks choose alike. */
const tt_algorithm *tt_algorithm_choose(const tt_problem *problem, const char *forced);

/* First byte and length of part `index`. */
uint64_t tt_part_offset(const tt_problem *problem, uint32_t index);
uint64_t tt_part_bytes(const tt_problem *problem, uint32_t index);

typedef struct tt_span {
    uint64_t first, bytes;
} tt_span;

/* The index-th of `count` nearly equal slices of `bytes`, cut between elements. */
tt_span tt_slice(uint64_t bytes, uint32_t element_bytes, uint32_t count, uint32_t index);

#endif
