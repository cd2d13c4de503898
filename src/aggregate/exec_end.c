/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_end.c - what an exec still needs, whether it has begun, and giving it up. */
#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/plant.h"

/* Is `move`, of a round of this open lane, still to come from its peer or to go to it? */
static bool is_ahead(const tt_exec *exec, const tt_lane *lane, uint32_t round, const tt_move *move)
{
    const uint64_t slot = tt_exec_slot(exec, move->peer);
    if (move->kind == TT_MOVE_SEND) {
        return round > lane->round || !lane->is_entered || !tt_bit_get(lane->issued, slot);
    }
    return !tt_bit_get(lane->received, (uint64_t)round * exec->plan.fan + slot);
}

/* The same for a lane that is not open yet; early frames are parked. */
static bool is_ahead_unopened(const tt_exec *exec, uint64_t number, uint32_t round,
                              const tt_move *move)
{
    return move->kind == TT_MOVE_SEND ||
           !tt_flow_has(exec->flow, &exec->arriving, exec->members[move->peer], number, round);
}

/* Does `lane`, from its round on, still need `member`? `has_edge_out`: do they exchange at all? */
static bool lane_needs(const tt_exec *exec, const tt_lane *lane, uint32_t member,
                       bool *has_edge_out)
{
    tt_move move = {0};
    for (uint32_t round = lane->round; round < exec->plan.round_count; round++) {
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

bool tt_exec_needs(const tt_exec *exec, uint32_t member)
{
    bool has_edge = false;
    if (exec->is_meeting) { /* the own place was told when it began */
        return (exec->unmet >> member & 1) != 0;
    }
    for (uint32_t i = 0; exec->is_running && i < TT_LANES_MAX; i++) {
        if (exec->lanes[i].is_open && lane_needs(exec, &exec->lanes[i], member, &has_edge)) {
            return true;
        }
    }
    /* Lane 0 has a frame for every pair that has any: without one the later lanes have none. */
    for (uint64_t number = exec->lanes_opened; exec->is_running && number < exec->plan.lane_count;
         number++) {
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

/* A frame that a link has copied is no longer open, but on its way: the bits know of it. */
static bool lane_is_untouched(const tt_exec *exec, const tt_lane *lane)
{
    const bool has_issued = lane->is_entered && has_bits(lane->issued, exec->plan.fan);
    return lane->round == 0 && !has_issued &&
           !has_bits(lane->received, (uint64_t)exec->plan.round_count * exec->plan.fan);
}

bool tt_exec_is_untouched(const tt_exec *exec)
{
    for (uint32_t i = 0; i < TT_LANES_MAX; i++) {
        if (exec->lanes[i].is_open && !lane_is_untouched(exec, &exec->lanes[i])) {
            return false;
        }
    }
    return exec->lanes_done == 0;
}

void tt_exec_stop(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    for (uint32_t i = 0; i < TT_LANES_MAX; i++) {
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
    for (uint32_t i = 0; i < exec->problem.size; i++) {
        tt_flow_peer *peer = &exec->flow->peers[exec->members[i]];
        if (peer->arriving == exec && !TT_PLANT(SINK_KEPT_AFTER_END)) {
            platform->ops->discard(platform, exec->members[i]);
            peer->arriving = NULL;
        }
    }
    exec->is_running = exec->is_quick = exec->is_meeting = exec->is_laid_out = false;
}

void tt_exec_forget(tt_exec *exec)
{
    TT_ASSERT(!exec->is_running);
    exec->is_planned = exec->is_laid_out = false;
    exec->problem = (tt_problem){0};
    exec->members = exec->member_of = NULL;
}

void tt_exec_fini(tt_exec *exec)
{
    tt_platform *platform = exec->flow->platform;
    tt_platform_release(platform, exec->workspace, exec->workspace_bytes);
    if (exec->slots != NULL) {
        platform->ops->release(platform, TT_MEMORY_SHARED, exec->slots, exec->slots_bytes);
    }
    exec->workspace = NULL;
    exec->slots = NULL;
    exec->workspace_bytes = exec->slots_bytes = 0;
}
