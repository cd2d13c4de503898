/* SPDX-License-Identifier: Apache-2.0
 *
 * moves.h - a collective of all ranks, walked move by move on a fabric: when is each rank done?
 *
 * Every rank runs the algorithm's own plan and move functions as the executor of lanes does
 * (aggregate/exec_lanes.c): up to eight lanes at once, each in one round at a time, and a round
 * ends when its sends are off the card, its arrivals are here and its sum and work are done. Long
 * frames wait for a grant of their receiver. No data is touched.
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  the allocator's, from start to end of a run; at most memory_bytes_max.
 */
#ifndef TUTTI_SIM_MOVES_H
#define TUTTI_SIM_MOVES_H

#include "aggregate/aggregate.h"
#include "sim/fabric.h"

typedef struct tt_moves_input {
    tt_fabric *fabric;  /* its cards may be busy with earlier frames */
    tt_problem problem; /* member i is rank i of the fabric; self and facts are set here */
    const char *forced; /* the algorithm, as tt_algorithm_choose takes it; NULL: the built-in one */
    bool is_staged;     /* buffers are not in the arena: algorithms that need places copy */
    uint32_t eager_bytes_max;  /* longer frames wait for a grant */
    const uint64_t *start_ns;  /* [size] when each rank makes the call; NULL: all at 0 */
    uint64_t memory_bytes_max; /* beyond, the run fails */
    const tt_allocator *allocator;
} tt_moves_input;

typedef struct tt_moves_result {
    const tt_algorithm *algorithm;
    uint64_t end_ns; /* the last rank is done */
    tt_fabric_traffic levels[TT_FABRIC_LEVELS];
    uint64_t grants; /* of these frames; the others carry data */
    uint64_t events;
    uint64_t memory_bytes; /* at most held at a time */
} tt_moves_result;

/* Bytes that a run holds at its start, allowed or not; 0: its input is refused. Frames in flight
 * take at most 32 and their events 64 more each, in arrays that double. */
uint64_t tt_moves_bytes(const tt_moves_input *input);

/* done_ns_out: [size]. TT_ERR_BAD_ARGUMENT, TT_ERR_UNSUPPORTED or TT_ERR_NO_MEMORY: see `why`. */
tt_status tt_moves_run(const tt_moves_input *input, tt_text *why, uint64_t *done_ns_out,
                       tt_moves_result *result_out);

#endif
