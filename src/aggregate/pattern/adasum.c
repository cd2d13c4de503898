/* SPDX-License-Identifier: Apache-2.0
 *
 * adasum.c - Adasum by recursive halving (Maleki et al. 2020, section 4): all-reduce of 2^k ranks.
 *
 * As in halving.c, partners at distance 1, 2, 4 ... exchange halves of the range they are still
 * responsible for. But the two vectors that are combined at a level are spread over a block of
 * 2^(level + 1) ranks, and are blended by their products over all of it. So a level is: exchange
 * halves; take the products of the own part; add those up over the block by recursive doubling;
 * blend. Afterwards the parts are gathered on the way back. 2 (P - 1) / P of the bytes, and log2 P
 * (log2 P + 1) / 2 tiny exchanges.
 *
 * The vector is one lane, because its products are of the whole. Halves that are longer than a
 * frame take several rounds.
 *
 * Scratch: products (own and arriving, per level and exchange), then arrivals, per level.
 */
#include "aggregate/pattern/pattern.h"
#include "aggregate/registry.h"
#include "base/assert.h"
#include "kernel/adasum_math.h"

enum { PRODUCTS_BYTES = sizeof(tt_products) };

_Static_assert(PRODUCTS_BYTES == 24, "products are sent between ranks");

/* Kinds of rounds. */
typedef enum phase {
    PHASE_COPY,
    PHASE_HALVE,    /* step: which segment */
    PHASE_PRODUCTS, /* of the own part */
    PHASE_ADD,      /* step: which exchange */
    PHASE_BLEND,
    PHASE_FINISH,
    PHASE_GATHER, /* step: which segment */
} phase;

typedef struct place {
    phase phase;
    uint32_t level, step;
} place;

static bool adasum_fits(const tt_problem *problem)
{
    return problem->collective == TT_ALLREDUCE && problem->redop == TT_ADASUM &&
           (problem->size & (problem->size - 1)) == 0;
}

/* The longest half that is exchanged at `level`, over all ranks. */
static uint64_t half_bytes_max(const tt_problem *problem, uint32_t level)
{
    uint64_t elements = problem->bytes / problem->element_bytes;
    for (uint32_t i = 0; i <= level; i++) {
        elements = (elements + 1) / 2;
    }
    return elements * problem->element_bytes;
}

static uint64_t segment_bytes(const tt_problem *problem)
{
    const uint64_t whole = problem->segment_bytes / problem->element_bytes * problem->element_bytes;
    return whole > 0 ? whole : problem->element_bytes;
}

static uint32_t segment_count(const tt_problem *problem, uint32_t level)
{
    return (uint32_t)lanes_for(half_bytes_max(problem, level), segment_bytes(problem));
}

/* Rounds of one level on the way down. */
static uint32_t level_rounds(const tt_problem *problem, uint32_t level)
{
    return segment_count(problem, level) + 1 + (level + 1) + 1;
}

static place place_of(const tt_problem *problem, uint32_t round)
{
    const uint32_t levels = log2_floor(problem->size);
    if (round == 0) {
        return (place){.phase = PHASE_COPY};
    }
    round--;
    for (uint32_t level = 0; level < levels; level++) {
        const uint32_t segments = segment_count(problem, level);
        const uint32_t rounds = level_rounds(problem, level);
        if (round < segments) {
            return (place){.phase = PHASE_HALVE, .level = level, .step = round};
        }
        if (round == segments) {
            return (place){.phase = PHASE_PRODUCTS, .level = level};
        }
        if (round < rounds - 1) {
            return (place){.phase = PHASE_ADD, .level = level, .step = round - segments - 1};
        }
        if (round == rounds - 1) {
            return (place){.phase = PHASE_BLEND, .level = level};
        }
        round -= rounds;
    }
    if (round == 0) {
        return (place){.phase = PHASE_FINISH};
    }
    round--;
    for (uint32_t level = levels; level-- > 0; round -= segment_count(problem, level)) {
        if (round < segment_count(problem, level)) {
            return (place){.phase = PHASE_GATHER, .level = level, .step = round};
        }
    }
    return (place){.phase = PHASE_FINISH}; /* beyond the plan: never requested */
}

/* Own products of (level, exchange) in scratch, exchange 0 .. level + 1; arriving ones follow all
 * own ones. */
static uint64_t products_at(const tt_problem *problem, uint32_t level, uint32_t exchange,
                            bool is_arriving)
{
    const uint32_t levels = log2_floor(problem->size);
    TT_ASSERT(level < levels);
    TT_ASSERT(exchange <= level + 1);
    const uint64_t own_count = (uint64_t)levels * (levels + 1);
    const uint64_t index = (uint64_t)level * (levels + 1) + exchange;
    return (index + (is_arriving ? own_count : 0)) * PRODUCTS_BYTES;
}

/* Where arrivals of `level` wait. */
static uint64_t slot_of(const tt_problem *problem, uint32_t level)
{
    const uint32_t levels = log2_floor(problem->size);
    TT_ASSERT(level <= levels);
    uint64_t slot = 2 * (uint64_t)levels * (levels + 1) * PRODUCTS_BYTES;
    for (uint32_t i = 0; i < level; i++) {
        slot += half_bytes_max(problem, i);
    }
    return slot;
}

static void adasum_plan(const tt_problem *problem, tt_plan *plan_out)
{
    TT_ASSERT(adasum_fits(problem));
    const uint32_t levels = log2_floor(problem->size);
    uint32_t rounds = 2;
    for (uint32_t level = 0; level < levels; level++) {
        rounds += level_rounds(problem, level) + segment_count(problem, level);
    }
    const uint64_t segment = segment_bytes(problem);
    const uint64_t half = half_bytes_max(problem, 0);
    const uint64_t longest = half < segment ? half : segment;
    *plan_out = (tt_plan){
        .lane_count = 1,
        .lane_bytes = problem->bytes > 0 ? problem->bytes : 1,
        .round_count = rounds,
        .fan = 1,
        .partner_max = levels > 0 ? levels : 1,
        .frame_bytes = (uint32_t)(longest > PRODUCTS_BYTES ? longest : PRODUCTS_BYTES),
        .scratch_bytes = slot_of(problem, levels),
    };
}

/* The range that `rank` is responsible for after `turns` halvings. */
static tt_span range_after(const tt_problem *problem, uint32_t rank, uint32_t turns)
{
    tt_span range = {.first = 0, .bytes = problem->bytes};
    for (uint32_t turn = 0; turn < turns; turn++) {
        const tt_span half = tt_slice(range.bytes, problem->element_bytes, 2, (rank >> turn) & 1);
        range.first += half.first;
        range.bytes = half.bytes;
    }
    TT_ASSERT(range.first + range.bytes <= problem->bytes);
    return range;
}

/* One segment that partners exchange: down, send the partner's half and receive the own one; up,
 * send the own part and receive the partner's. */
static bool exchange_move(const tt_problem *problem, place at, uint32_t index, tt_move *move_out)
{
    const bool is_down = at.phase == PHASE_HALVE, is_send = index == 0;
    const uint32_t partner = problem->self ^ (UINT32_C(1) << at.level);
    TT_ASSERT(partner < problem->size);
    const tt_span range =
        range_after(problem, is_send == is_down ? partner : problem->self, at.level + 1);
    const uint64_t done = at.step * segment_bytes(problem);
    move_out->kind = is_send ? TT_MOVE_SEND : TT_MOVE_STORE;
    move_out->peer = partner;
    move_out->bytes = lane_length(range.bytes, segment_bytes(problem), at.step);
    move_out->source = move_out->target =
        spot_at(TT_OUTPUT, range.first + (move_out->bytes > 0 ? done : 0));
    if (is_down && !is_send) {
        move_out->target =
            spot_at(TT_SCRATCH, slot_of(problem, at.level) + (move_out->bytes > 0 ? done : 0));
    }
    return index < 2;
}

/* One exchange of products inside the block, which both partners then add. */
static bool add_move(const tt_problem *problem, place at, uint32_t index, tt_move *move_out)
{
    const tt_spot own = spot_at(TT_SCRATCH, products_at(problem, at.level, at.step, false));
    const tt_spot theirs = spot_at(TT_SCRATCH, products_at(problem, at.level, at.step, true));
    static const tt_move_kind kinds[] = {TT_MOVE_SEND, TT_MOVE_STORE, TT_MOVE_WORK};
    if (index > 2) {
        return false;
    }
    TT_ASSERT(at.step <= at.level); /* partners inside the block of 2^(level + 1) */
    move_out->kind = kinds[index];
    move_out->work = TT_WORK_ADD;
    move_out->peer = problem->self ^ (UINT32_C(1) << at.step);
    move_out->bytes = PRODUCTS_BYTES;
    move_out->source = own;
    move_out->slot = theirs.offset;
    move_out->target =
        index == 1 ? theirs
                   : spot_at(TT_SCRATCH, products_at(problem, at.level, at.step + 1, false));
    return true;
}

/* Local work on the own part of a level, or on the whole. */
static bool part_move(const tt_problem *problem, place at, uint32_t index, tt_move *move_out)
{
    const uint32_t turns = at.phase == PHASE_FINISH ? log2_floor(problem->size) : at.level + 1;
    const tt_span range = range_after(problem, problem->self, turns);
    move_out->kind = TT_MOVE_WORK;
    move_out->peer = problem->self ^ (UINT32_C(1) << at.level);
    move_out->bytes = range.bytes;
    move_out->source = move_out->target = spot_at(TT_OUTPUT, range.first);
    move_out->slot = slot_of(problem, at.level);
    switch (at.phase) {
    case PHASE_PRODUCTS:
        move_out->work = TT_WORK_PRODUCTS;
        move_out->target = spot_at(TT_SCRATCH, products_at(problem, at.level, 0, false));
        break;
    case PHASE_BLEND:
        move_out->work = TT_WORK_BLEND;
        move_out->offset = products_at(problem, at.level, at.level + 1, false);
        break;
    default:
        move_out->work = TT_WORK_FINISH;
        break;
    }
    return index == 0;
}

static bool adasum_move(const tt_problem *problem, const tt_plan *plan, tt_cursor at,
                        tt_move *move_out)
{
    TT_ASSERT(at.round < plan->round_count);
    TT_ASSERT(at.lane == 0);
    const place where = place_of(problem, at.round);
    switch (where.phase) {
    case PHASE_COPY:
        move_out->kind = TT_MOVE_WORK;
        move_out->work = TT_WORK_COPY;
        move_out->bytes = problem->bytes;
        move_out->source = spot_at(TT_INPUT, 0);
        move_out->target = spot_at(TT_OUTPUT, 0);
        return at.index == 0;
    case PHASE_HALVE:
    case PHASE_GATHER:
        return exchange_move(problem, where, at.index, move_out);
    case PHASE_ADD:
        return add_move(problem, where, at.index, move_out);
    default:
        return part_move(problem, where, at.index, move_out);
    }
}

const tt_algorithm tt_algorithm_adasum = {
    .name = "adasum",
    .needs_facts = false,
    .fits = adasum_fits,
    .plan = adasum_plan,
    .move = adasum_move,
};
