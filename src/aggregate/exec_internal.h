/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_internal.h - interfaces between the executors (exec_flat.c, exec_lanes.c, exec_local.c),
 * local work (exec_work.c, exec_code.c) and their shared part (exec.c).
 *
 * Layer:   aggregate, private.
 * Threads: as exec.h.
 * Memory:  none.
 */
#ifndef TUTTI_AGGREGATE_EXEC_INTERNAL_H
#define TUTTI_AGGREGATE_EXEC_INTERNAL_H

#include "aggregate/exec.h"

enum {
    TT_WORK_SHORT_BYTES = 32 * 1024,   /* done at once, inside the upcall */
    TT_WORK_STEP_BYTES = 256 * 1024,   /* one step of one hand: some tens of microseconds */
    TT_WORK_CODE_ELEMENTS = 16 * 1024, /* the same, of values to code: 64 KiB at 1.5 to 5 GB/s */
    TT_WORK_HANDS_MAX = 16,            /* a step grows with the hands that share it, to here */
};

static inline bool tt_bit_get(const uint64_t *bits, uint64_t index)
{
    return (bits[index / 64] >> (index % 64) & 1) != 0;
}

static inline uint64_t tt_bit_words(uint64_t bits)
{
    return (bits + 63) / 64;
}

/* Is there nothing to do but to spend: are the buffers phantom, or the payload that has arrived? */
static inline bool tt_exec_is_phantom(const tt_exec *exec, const void *payload)
{
    const tt_platform *platform = exec->flow->platform;
    return platform->phantom_bytes > 0 && (tt_has_phantom(platform, exec->input, exec->output) ||
                                           tt_is_phantom(platform, payload));
}

/* Index of a peer among those of one round. */
static inline uint64_t tt_exec_slot(const tt_exec *exec, uint32_t member)
{
    TT_DEBUG_ASSERT(member < exec->stage->problem.size);
    return exec->stage->plan.fan == 1 ? 0 : member;
}

static inline bool tt_exec_move(const tt_exec *exec, const tt_lane *lane, uint32_t round,
                                uint32_t index, tt_move *move_out)
{
    const tt_stage *stage = exec->stage;
    TT_DEBUG_ASSERT(round < stage->plan.round_count);
    const tt_cursor at = {.lane = lane->number, .round = round, .index = index};
    return stage->algorithm->move(&stage->problem, &stage->plan, at, move_out);
}

/* ---- exec.c ---- */

/* The first failure counts. */
void tt_exec_fail(tt_exec *exec, tt_status status, uint32_t culprit);
/* Head of the frames to expect; those of a pair have the other direction. */
tt_head tt_exec_arriving(const tt_exec *exec);
/* The other side of a send or receive; meaningless for collectives. */
uint32_t tt_exec_pair_peer(const tt_exec *exec);
/* Provide at least `bytes` of workspace; its layout is lost if it grows. `scratch` more bytes are
 * phantom. */
tt_status tt_exec_reserve(tt_exec *exec, size_t bytes, size_t scratch);
/* Reset all state of an earlier stage. */
static inline void tt_exec_reset(tt_exec *exec)
{
    exec->status = TT_OK;
    exec->is_blocked = exec->has_work = exec->is_opening = false;
    exec->lanes_opened = exec->lanes_done = 0;
    exec->partner_count = 0;
}
void tt_exec_signal(tt_exec *exec, tt_frame_kind kind, uint32_t member, uint64_t argument);
/* Take parked frames of lanes below lanes_opened. */
void tt_exec_replay_parked(tt_exec *exec);
/* The next note (GRANT or WANT) for this stage; false: none is left. */
bool tt_exec_take_note(tt_exec *exec, uint32_t *member_out, tt_head *head_out);

/* ---- exec_work.c ---- */

/* Address of a spot, for this lane. */
void *tt_exec_address(const tt_exec *exec, const tt_lane *lane, tt_spot spot);
/* `bytes` at `offset` of the region in the member's facts; NULL: there is no view of them, and the
 * exec has failed. */
void *tt_exec_view(tt_exec *exec, uint32_t member, uint64_t offset, uint64_t bytes);
/* Do up to `budget` bytes of a work move; true when it is complete. */
bool tt_exec_work(tt_exec *exec, tt_lane *lane, const tt_move *move, uint64_t budget);
/* target = a op b, by several hands if it is long. */
void tt_exec_fold_two(tt_exec *exec, void *target, const void *a, const void *b, uint64_t bytes);
/* Divide and scale a sum, as the op requires. */
void tt_exec_finish(const tt_exec *exec, void *target, uint64_t bytes);

/* ---- exec_code.c ---- */

/* Do about `bytes` of a work move of coded exchanges, in whole blocks; true when it is complete. */
bool tt_exec_code(tt_exec *exec, tt_lane *lane, const tt_move *move, uint64_t bytes);

/* ---- lanes_end.c ---- */

bool tt_lanes_need(const tt_exec *exec, uint32_t member);
bool tt_lanes_are_untouched(const tt_exec *exec);
void tt_lanes_stop(tt_exec *exec);

#endif
