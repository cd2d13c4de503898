/* SPDX-License-Identifier: Apache-2.0
 *
 * owner.c - coded all-reduce and reducescatter: rank r owns slice r; all ranks send it there coded,
 * r adds them in rank order and (for an all-reduce) sends the result to all, coded once more.
 *
 * As in direct.c, but slices are of the whole vector and begin at multiples of the codec's block
 * (coding.h); lane l carries piece l of every slice. Five rounds:
 *
 *   0 work  encode the others' pieces of the input
 *   1 send  them to their owners
 *   2 work  add the pieces that arrived and the own one, which was never coded; encode the result,
 *           and decode it again, so that the owner has the bits that all others get
 *   3 send  the coded result to all others
 *   4 work  decode their results
 *
 * A reducescatter ends after round 2, with the sum itself. A single rank has round 2 alone.
 *
 * Scratch: a slot per member for what is sent to it, then a slot per member for its piece. The
 * coded result of an owner goes to the slot of what was sent to it: it causally follows that.
 */
#include "aggregate/coding.h"
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"
#include "base/base.h"

typedef enum phase { PHASE_ENCODE, PHASE_GIVE, PHASE_MERGE, PHASE_SPREAD, PHASE_DECODE } phase;

enum { SLOT_ALIGN = 64 };

static bool owner_fits(const tt_problem *problem)
{
    const bool is_sum = problem->redop == TT_SUM || problem->redop == TT_AVERAGE;
    const bool is_float =
        problem->dtype == TT_F32 || problem->dtype == TT_F16 || problem->dtype == TT_BF16;
    return problem->codec != NULL && is_sum && is_float &&
           (problem->collective == TT_ALLREDUCE || problem->collective == TT_REDUCESCATTER);
}

static uint32_t round_count(const tt_problem *problem)
{
    if (problem->size == 1) {
        return 1;
    }
    return problem->collective == TT_ALLREDUCE ? PHASE_DECODE + 1 : PHASE_MERGE + 1;
}

/* Distance of slots. */
static uint64_t slot_bytes(const tt_plan *plan)
{
    return tt_round_up(plan->frame_bytes, SLOT_ALIGN);
}

/* A frame is the wire bytes of one piece. A block that is longer than a segment is sent whole. */
static void owner_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(owner_fits(problem));
    const tt_codec_spec *codec = problem->codec;
    TT_ASSERT(codec->block >= TT_CODEC_BLOCK_MIN && codec->block <= TT_CODEC_BLOCK_MAX);
    const uint64_t longest = tt_owned_longest(problem);
    const uint64_t fitting = problem->segment_bytes / tt_codec_wire_bytes(codec, codec->block);
    const uint64_t needed = lanes_for(longest, codec->block);
    const uint64_t piece = tt_min_u64(tt_max_u64(fitting, 1), needed) * codec->block;
    const uint32_t slots = problem->size > 1 ? 2 * problem->size : 0;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(longest, piece),
        .lane_bytes = piece * problem->element_bytes,
        .round_count = round_count(problem),
        .fan = problem->size,
        .partner_max = problem->size,
        .frame_bytes = (uint32_t)tt_codec_wire_bytes(codec, tt_min_u64(longest, piece)),
    };
    plan_out->scratch_bytes = slots * slot_bytes(plan_out);
}

/* Bytes of a work, as floats: `pieces` of `elements` each, in whole blocks. */
static uint64_t work_bytes(const tt_problem *problem, uint64_t pieces, uint64_t elements)
{
    TT_DEBUG_ASSERT(pieces > 0);
    return pieces * tt_round_up(elements, problem->codec->block) * sizeof(float);
}

static void work_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane, phase at,
                      tt_move *move_out)
{
    const tt_owned own = tt_owned_piece(problem, plan, lane, problem->self);
    const uint64_t slot = slot_bytes(plan);
    const bool is_scatter = problem->collective == TT_REDUCESCATTER;
    const uint64_t longest =
        lane_length(tt_owned_longest(problem) * problem->element_bytes, plan->lane_bytes, lane) /
        problem->element_bytes;
    TT_DEBUG_ASSERT(own.count <= longest);
    move_out->kind = TT_MOVE_WORK;
    move_out->slot = slot;
    move_out->bytes = work_bytes(problem, problem->size, at == PHASE_MERGE ? own.count : longest);
    if (at == PHASE_ENCODE) {
        move_out->work = TT_WORK_ENCODE;
        move_out->source = spot_at(TT_INPUT, 0);
        move_out->target = spot_at(TT_SCRATCH, 0);
    } else if (at == PHASE_MERGE) {
        move_out->work = TT_WORK_MERGE;
        move_out->source = spot_at(TT_SCRATCH, problem->size > 1 ? problem->size * slot : 0);
        move_out->target = spot_at(TT_OUTPUT, is_scatter ? lane * plan->lane_bytes
                                                         : own.first * problem->element_bytes);
    } else {
        move_out->work = TT_WORK_DECODE;
        move_out->source = spot_at(TT_SCRATCH, 0);
        move_out->target = spot_at(TT_OUTPUT, 0);
    }
}

/* Nothing is sent of an empty piece, unless all are empty: then frames without bytes synchronise
 * the ranks, as in other calls. */
static bool exchange_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                          tt_move *move_out)
{
    const uint32_t self = problem->self, size = problem->size, others = size - 1;
    if (at.index >= 2 * others) {
        return false;
    }
    const uint64_t slot = slot_bytes(plan);
    const bool is_send = at.index < others, is_first = at.round == PHASE_GIVE;
    const uint32_t peer = (self + 1 + at.index % others) % size;
    const tt_owned piece =
        tt_owned_piece(problem, plan, at.lane, is_send == is_first ? peer : self);
    move_out->bytes = tt_codec_wire_bytes(problem->codec, piece.count);
    TT_ASSERT(move_out->bytes <= plan->frame_bytes); /* it fits into its slot */
    move_out->kind = is_send ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = peer;
    move_out->source = spot_at(TT_SCRATCH, (is_first ? peer : self) * slot);
    move_out->target = spot_at(TT_SCRATCH, (is_first ? size + peer : peer) * slot);
    if (move_out->bytes == 0 && plan->frame_bytes > 0) {
        move_out->kind = TT_MOVE_NONE;
    }
    return true;
}

static bool owner_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                       tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    const phase where = problem->size == 1 ? PHASE_MERGE : (phase)at.round;
    if (where == PHASE_GIVE || where == PHASE_SPREAD) {
        return exchange_move(problem, plan, at, move_out);
    }
    if (at.index > 0) {
        return false;
    }
    work_move(problem, plan, at.lane, where, move_out);
    return true;
}

const tt_algorithm tt_algorithm_owner = {
    .name = "owner",
    .needs_facts = false,
    .is_by_rank = true,
    .fits = owner_fits,
    .plan = owner_plan,
    .move = owner_move,
};
