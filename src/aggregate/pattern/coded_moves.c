/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_moves.c - plan and moves that the coded algorithms share: exchanges along a rail, and the
 * works before and after them; see pattern.h. */
#include "aggregate/coding.h"
#include "aggregate/pattern/pattern.h"
#include "base/assert.h"
#include "base/base.h"

enum { SLOT_ALIGN = 64 };

/* Distance of slots. */
static uint64_t slot_bytes(const tt_plan *plan)
{
    return tt_round_up(plan->frame_bytes, SLOT_ALIGN);
}

enum { VALUES_PER_SEGMENT = 4 };

/* A frame is the wire bytes of one piece; of EF21 it may be longer by a stamp. A block that is
 * longer than a segment is sent whole. The time of a lane follows from values, not from wire bytes:
 * where a codec needs less than a quarter of the values' bytes, frames are shorter than a segment,
 * so that coding overlaps with the wire.
 */
void tt_coded_plan(const tt_problem *problem, uint64_t segment, tt_plan *plan_out)
{
    const tt_codec_spec *codec = problem->codec;
    const uint64_t by_wire = segment / tt_codec_wire_bytes(codec, codec->block);
    const uint64_t by_values =
        VALUES_PER_SEGMENT * segment / ((uint64_t)codec->block * problem->element_bytes);
    const uint64_t block_max = tt_min_u64(by_wire, by_values);
    TT_ASSERT(codec->block >= TT_CODEC_BLOCK_MIN && codec->block <= TT_CODEC_BLOCK_MAX);
    const uint64_t longest = tt_owned_longest(problem);
    const uint64_t needed = lanes_for(longest, codec->block);
    const uint64_t piece = tt_min_u64(tt_max_u64(block_max, 1), needed) * codec->block;
    const uint32_t slots = problem->size > 1 ? 2 * tt_rail_size(problem) : 0;
    *plan_out = (tt_plan){
        .lane_count = lanes_for(longest, piece),
        .lane_bytes = piece * problem->element_bytes,
        .fan = problem->size,
        .partner_max = problem->size,
        .frame_bytes = (uint32_t)tt_given_bytes(problem, tt_min_u64(longest, piece)),
    };
    plan_out->scratch_bytes = slots * slot_bytes(plan_out);
}

/* Nothing is sent of an empty piece, unless all are empty: then frames without bytes synchronise
 * the ranks, as in other calls. */
bool tt_coded_exchange_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                            bool is_result, tt_move *move_out)
{
    const uint32_t self = tt_rail_position(problem), size = tt_rail_size(problem);
    const uint32_t others = size - 1;
    if (at.index >= 2 * others) {
        return false;
    }
    const uint64_t slot = slot_bytes(plan);
    const bool is_send = at.index < others;
    const uint32_t position = (self + 1 + at.index % others) % size;
    const uint32_t peer = tt_rail_member(problem, position);
    const tt_owned piece =
        tt_owned_piece(problem, plan, at.lane, is_send != is_result ? peer : problem->self);
    move_out->bytes = is_result ? tt_codec_wire_bytes(problem->codec, piece.count)
                                : tt_given_bytes(problem, piece.count);
    TT_ASSERT(move_out->bytes <= plan->frame_bytes); /* it fits into its slot */
    move_out->kind = is_send ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = peer;
    move_out->source = spot_at(TT_SCRATCH, (is_result ? self : position) * slot);
    move_out->target = spot_at(TT_SCRATCH, (is_result ? position : size + position) * slot);
    if (move_out->bytes == 0 && plan->frame_bytes > 0) {
        move_out->kind = TT_MOVE_NONE;
    }
    return true;
}

/* Bytes as floats: `pieces` of `elements` each, in whole blocks. */
static uint64_t work_bytes(const tt_problem *problem, uint64_t pieces, uint64_t elements)
{
    TT_DEBUG_ASSERT(pieces > 0);
    return pieces * tt_round_up(elements, problem->codec->block) * sizeof(float);
}

static void merge_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane,
                       tt_move *move_out)
{
    const tt_owned own = tt_owned_piece(problem, plan, lane, problem->self);
    const bool is_scatter = problem->collective == TT_REDUCESCATTER;
    const uint32_t size = tt_rail_size(problem);
    TT_DEBUG_ASSERT(own.count <= tt_owned_longest_piece(problem, plan, lane));
    move_out->bytes = work_bytes(problem, size, own.count);
    move_out->source = spot_at(TT_SCRATCH, size > 1 ? size * move_out->slot : 0);
    move_out->target = spot_at(TT_OUTPUT, is_scatter ? lane * plan->lane_bytes
                                                     : own.first * problem->element_bytes);
}

void tt_coded_work_move(const tt_problem *problem, const tt_plan *plan, uint64_t lane, tt_work work,
                        tt_move *move_out)
{
    const uint64_t longest = tt_owned_longest_piece(problem, plan, lane);
    const uint32_t pieces = work == TT_WORK_STAGE ? tt_owner_count(problem) : tt_rail_size(problem);
    move_out->kind = TT_MOVE_WORK;
    move_out->work = work;
    move_out->slot = slot_bytes(plan);
    move_out->bytes = work_bytes(problem, pieces, longest);
    if (work == TT_WORK_ENCODE) {
        move_out->source = spot_at(TT_INPUT, 0);
        move_out->target = spot_at(TT_SCRATCH, 0);
    } else if (work == TT_WORK_DECODE) {
        move_out->source = spot_at(TT_SCRATCH, 0);
        move_out->target = spot_at(TT_OUTPUT, 0);
    } else if (work == TT_WORK_MERGE) {
        merge_move(problem, plan, lane, move_out);
    }
}
