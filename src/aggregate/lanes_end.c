/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes_end.c - which members lanes still need, whether lanes have exchanged anything, and stopping
 * them. */
#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/plant.h"

/* Is `move`, of a round of this open lane, still to be sent or received? */
static bool is_ahead(const tt_exec *exec, const tt_lane *lane, uint32_t round, const tt_move *move)
{
    TT_ASSERT(lane->is_open && round >= lane->round);
    const uint64_t slot = tt_exec_slot(exec, move->peer);
    if (move->kind == TT_MOVE_SEND) {
        return round > lane->round || !lane->is_entered || !tt_bit_get(lane->issued, slot);
    }
    return !tt_bit_get(lane->received, (uint64_t)round * exec->stage->plan.fan + slot);
}

/* The same for a lane that is not open yet; early frames are parked. */
static bool is_ahead_unopened(const tt_exec *exec, uint64_t number, uint32_t round,
                              const tt_move *move)
{
    const tt_head arriving = tt_exec_arriving(exec);
    return move->kind == TT_MOVE_SEND ||
           !tt_flow_has(exec->flow, &arriving, exec->members[move->peer], number, round);
}

/* Does `lane`, from its round on, still need `member`? `has_edge_out`: do they exchange at all? */
static bool lane_needs(const tt_exec *exec, const tt_lane *lane, uint32_t member,
                       bool *has_edge_out)
{
    tt_move move = {0};
    for (uint32_t round = lane->round; round < exec->stage->plan.round_count; round++) {
        for (uint32_t m = 0; tt_exec_move(exec, lane, round, m, &move); m++) {
            const bool is_exchange = move.kind == TT_MOVE_SEND || move.kind == TT_MOVE_STORE ||
                                     move.kind == TT_MOVE_REDUCE;
            if (!is_exchange || move.peer != member) {
                continue;
            }
            *has_edge_out = true;
            if (lane->is_open ? is_ahead(exec, lane, round, &move)
                              : is_ahead_unopened(exec, lane->number, round, &move)) {
                return true;
            }
        }
    }
    return false;
}

bool tt_lanes_need(const tt_exec *exec, uint32_t member)
{
    TT_ASSERT(member < exec->stage->problem.size && exec->laid_out == exec->stage);
    bool has_edge = false;
    for (uint32_t i = 0; i < exec->lane_slots; i++) {
        if (exec->lanes[i].is_open && lane_needs(exec, &exec->lanes[i], member, &has_edge)) {
            return true;
        }
    }
    /* Lane 0 has a frame for every pair that has any: without one the later lanes have none. */
    for (uint64_t number = exec->lanes_opened; number < exec->stage->plan.lane_count; number++) {
        const tt_lane lane = {.number = number};
        const tt_lane first = {.number = 0};
        if (!lane_needs(exec, &first, member, &has_edge) && !has_edge) {
            return false;
        }
        if (lane_needs(exec, &lane, member, &has_edge)) {
            return true;
        }
    }
    return false;
}

static bool has_bits(const uint64_t *words, uint64_t bit_count)
{
    uint64_t any = 0;
    for (uint64_t word = 0; word < tt_bit_words(bit_count); word++) {
        any |= words[word];
    }
    return any != 0;
}

/* A frame that a link has copied is no longer in `sends_open`, but it was sent: the bits record it.
 */
static bool lane_is_untouched(const tt_exec *exec, const tt_lane *lane)
{
    TT_ASSERT(lane->is_open && lane->number < exec->lanes_opened);
    const bool has_issued = lane->is_entered && has_bits(lane->issued, exec->stage->plan.fan);
    return lane->round == 0 && !has_issued &&
           !has_bits(lane->received,
                     (uint64_t)exec->stage->plan.round_count * exec->stage->plan.fan);
}

bool tt_lanes_are_untouched(const tt_exec *exec)
{
    TT_ASSERT(exec->laid_out == exec->stage);
    for (uint32_t i = 0; i < exec->lane_slots; i++) {
        if (exec->lanes[i].is_open && !lane_is_untouched(exec, &exec->lanes[i])) {
            return false;
        }
    }
    return exec->lanes_done == 0;
}

void tt_lanes_stop(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    for (uint32_t i = 0; exec->laid_out == exec->stage && i < exec->lane_slots; i++) {
        tt_lane *lane = &exec->lanes[i];
        tt_move move = {0};
        for (uint32_t m = 0; lane->is_open && lane->is_entered && lane->sends_open > 0 &&
                             tt_exec_move(exec, lane, lane->round, m, &move);
             m++) {
            if (move.kind == TT_MOVE_SEND && !TT_PLANT(PAYLOAD_KEPT_AFTER_END)) {
                platform->ops->recall(platform, exec->members[move.peer], exec->token + i);
            }
        }
        lane->is_open = false;
    }
}
