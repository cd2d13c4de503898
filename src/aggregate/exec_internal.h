/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_internal.h - between exec.c (lanes and rounds), exec_work.c (local work) and exec_end.c.
 *
 * Layer:   aggregate, private.
 * Threads: as exec.h.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_EXEC_INTERNAL_H
#define TUTTI_AGGREGATE_EXEC_INTERNAL_H

#include "aggregate/exec.h"

enum {
    TT_WORK_SHORT_BYTES = 32 * 1024, /* done at once, inside the upcall */
    TT_WORK_STEP_BYTES = 256 * 1024, /* one step of one hand: some tens of microseconds */
    TT_WORK_HANDS_MAX = 16,          /* a step grows with the hands that share it, to here */
};

static inline bool tt_bit_get(const uint64_t *bits, uint64_t index)
{
    return (bits[index / 64] >> (index % 64) & 1) != 0;
}

static inline uint64_t tt_bit_words(uint64_t bits)
{
    return (bits + 63) / 64;
}

/* Index of a peer among those of one round. */
static inline uint64_t tt_exec_slot(const tt_exec *exec, uint32_t member)
{
    return exec->plan.fan == 1 ? 0 : member;
}

static inline bool tt_exec_move(const tt_exec *exec, const tt_lane *lane, uint32_t round,
                                uint32_t index, tt_move *move_out)
{
    const tt_cursor at = {.lane = lane->number, .round = round, .index = index};
    return exec->algorithm->move(&exec->problem, &exec->plan, at, move_out);
}

/* Address of a spot, for this lane. */
void *tt_exec_address(const tt_exec *exec, const tt_lane *lane, tt_spot spot);

/* Do up to `budget` bytes of a work move; true when it is complete. */
bool tt_exec_work(tt_exec *exec, tt_lane *lane, const tt_move *move, uint64_t budget);

/* target = a op b, by several hands if it is long. */
void tt_exec_fold_two(tt_exec *exec, void *target, const void *a, const void *b, uint64_t bytes);

/* exec.c: the lane has begun; it is over; frames that came before it. */
void tt_exec_lane_reset(tt_exec *exec, tt_lane *lane, uint64_t number);
void tt_exec_lane_close(tt_exec *exec, tt_lane *lane);
void tt_exec_replay_parked(tt_exec *exec);

/* exec_quick.c */
/* Begin a planned exec at once; false: nothing was done. */
bool tt_exec_quick_start(tt_exec *exec);

/* Divide and scale what was summed, as the op asks. */
void tt_exec_finish(const tt_exec *exec, void *target, uint64_t bytes);

void tt_exec_fail(tt_exec *exec, tt_status status, uint32_t culprit);

#endif
