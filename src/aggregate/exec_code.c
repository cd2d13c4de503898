/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_code.c - the local work of coded exchanges: encode, merge, decode; see pattern/owner.c.
 *
 * Work is counted in units, each some whole blocks' worth of floats: one block of one member where
 * pieces are encoded or decoded, one block of all members where they are added. A part of an order
 * does the units that begin in it, so it may be cut anywhere. What a unit computes depends on
 * nothing but its elements: bits are the same for any budget, number of hands, and cut into lanes.
 *
 * A part has its sums on its stack and a step of its own. What it finds out (how many elements
 * could not be coded, which member sent bytes that no encoder gives) goes to a place of its hand.
 */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "codec/codec.h"
#include "kernel/reduce.h"

enum { CHUNK = TT_CODEC_BLOCK_MAX }; /* elements added at a time: near the first-level cache */

_Static_assert(TT_CODEC_BLOCK_MIN * sizeof(float) % TT_WORK_GRAIN == 0, "orders hold whole units");

/* What the parts of one hand found out. */
typedef struct finding {
    uint64_t uncoded; /* elements */
    uint32_t culprit; /* member; UINT32_MAX: none */
} finding;

/* Each part works on a copy. */
typedef struct code_step {
    const tt_exec *exec;
    const tt_lane *lane;
    const tt_move *move;
    uint64_t unit_bytes;
    uint64_t units_before; /* done in earlier steps */
    finding found;
    finding *by_hand; /* [hands, at least 1] */
} code_step;

/* Elements [at, at + count) of a piece. */
typedef struct stretch {
    tt_owned piece;
    uint64_t at;
    size_t count;
} stretch;

static const tt_codec_spec *codec_of(const code_step *step)
{
    TT_DEBUG_ASSERT(step->exec->stage->problem.codec != NULL);
    return step->exec->stage->problem.codec;
}

/* Wire bytes of a stretch, in the member's slot. */
static uint8_t *wire_of(const code_step *step, tt_spot slots, uint32_t member, const stretch *some)
{
    TT_DEBUG_ASSERT(some->at % codec_of(step)->block == 0);
    slots.offset += member * step->move->slot + tt_codec_wire_bytes(codec_of(step), some->at);
    return tt_exec_address(step->exec, step->lane, slots);
}

/* This rank's values. */
static tt_codec_source source_of(const code_step *step, const stretch *some)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const tt_coding *coding = step->exec->coding;
    const uint64_t first = some->piece.first + some->at;
    TT_DEBUG_ASSERT(some->at + some->count <= some->piece.count);
    return (tt_codec_source){
        .values = step->exec->input + first * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = coding->factor,
        .first = some->piece.draw + some->at,
        .count = some->count,
        .residual = coding->residual != NULL ? coding->residual + first : NULL,
        .residual_out = coding->residual_out != NULL ? coding->residual_out + first : NULL,
        .draw = coding->draw,
    };
}

static void encode(code_step *step, const tt_codec_source *source, uint8_t *wire)
{
    const uint64_t uncoded = tt_codec_encode(codec_of(step), source, wire);
    TT_DEBUG_ASSERT(uncoded <= source->count);
    step->found.uncoded += uncoded;
}

/* False: the bytes are not what an encoder gives, and their sender is to blame. */
static bool is_good(code_step *step, uint32_t member, const uint8_t *wire, size_t count)
{
    const tt_codec_spec *codec = codec_of(step);
    TT_DEBUG_ASSERT(member != step->exec->stage->problem.self);
    if (tt_codec_check(codec, wire, tt_codec_wire_bytes(codec, count), count) == TT_OK) {
        return true;
    }
    step->found.culprit = member;
    return false;
}

/* ---- encode and decode: units are blocks of one member ---- */

static void code_stretch(code_step *step, uint32_t member, const stretch *some)
{
    const tt_problem *problem = &step->exec->stage->problem;
    TT_DEBUG_ASSERT(member != problem->self && some->count > 0);
    if (step->move->work == TT_WORK_ENCODE) {
        const tt_codec_source source = source_of(step, some);
        encode(step, &source, wire_of(step, step->move->target, member, some));
        return;
    }
    const uint8_t *wire = wire_of(step, step->move->source, member, some);
    const tt_codec_target target = {
        .values = step->exec->output + (some->piece.first + some->at) * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = 1.0f,
        .count = some->count,
    };
    if (is_good(step, member, wire, some->count)) {
        tt_codec_decode(codec_of(step), wire, &target);
    }
}

/* Units [from, to): the members' pieces one after the other, each as long as the longest. */
static void code_units(code_step *step, uint64_t from, uint64_t to)
{
    const tt_stage *stage = step->exec->stage;
    const uint64_t block = stage->problem.codec->block;
    const uint64_t each = step->move->bytes / step->unit_bytes / stage->problem.size;
    TT_DEBUG_ASSERT(to <= each * stage->problem.size);
    while (from < to) {
        const uint32_t member = (uint32_t)(from / each);
        const uint64_t first = from % each, end = tt_min_u64(each, first + (to - from));
        stretch some = {
            .piece = tt_owned_piece(&stage->problem, &stage->plan, step->lane->number, member),
            .at = first * block};
        const uint64_t stop = tt_min_u64(end * block, some.piece.count);
        some.count = stop > some.at ? stop - some.at : 0;
        if (some.count > 0 && member != stage->problem.self) {
            code_stretch(step, member, &some);
        }
        from += end - first;
    }
}

/* ---- merge: units are blocks of the own piece, of all members ---- */

/* Averages and factors, of floats. */
static void finish(const tt_exec *exec, float *sums, size_t count)
{
    TT_DEBUG_ASSERT(count <= CHUNK);
    if (exec->divisor > 1) {
        tt_divide(TT_F32, sums, count, exec->divisor);
    }
    if (exec->stage->problem.postscale != 1.0) {
        tt_scale(TT_F32, sums, sums, count, exec->stage->problem.postscale);
    }
}

/* The own values, not coded: no residual remains. */
static void load_own(const code_step *step, const stretch *some, float *values)
{
    const tt_codec_source source = source_of(step, some);
    TT_DEBUG_ASSERT(some->count <= CHUNK);
    tt_codec_load(&source, values);
    if (source.residual_out != NULL) {
        memset(source.residual_out, 0, some->count * sizeof(float));
    }
}

/* From zeros, in the order of ranks; false: a member's bytes are bad. */
static bool add_all(code_step *step, const stretch *some, float *sums)
{
    const tt_problem *problem = &step->exec->stage->problem;
    float own[CHUNK];
    TT_DEBUG_ASSERT(problem->size > 1);
    memset(sums, 0, some->count * sizeof(float));
    for (uint32_t member = 0; member < problem->size; member++) {
        if (member == problem->self) {
            load_own(step, some, own);
            tt_reduce(TT_F32, TT_SUM, sums, sums, own, some->count);
            continue;
        }
        const uint8_t *wire = wire_of(step, step->move->source, member, some);
        if (!is_good(step, member, wire, some->count)) {
            return false;
        }
        tt_codec_decode_add(codec_of(step), wire, sums, some->count);
    }
    return true;
}

/* Code the result, and decode it as all others will. */
static void send_on(code_step *step, const stretch *some, const float *sums,
                    const tt_codec_target *target)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const tt_coding *coding = step->exec->coding;
    const uint64_t in_slice =
        some->piece.first + some->at - tt_owned_slice(problem, problem->self).first;
    const tt_spot slots = {.buffer = TT_SCRATCH, .offset = 0};
    uint8_t *wire = wire_of(step, slots, problem->self, some);
    TT_DEBUG_ASSERT(problem->collective == TT_ALLREDUCE);
    const tt_codec_source source = {
        .values = sums,
        .dtype = TT_F32,
        .factor = 1.0f,
        .first = some->piece.draw + some->at,
        .count = some->count,
        .residual = coding->owner_residual != NULL ? coding->owner_residual + in_slice : NULL,
        .residual_out =
            coding->owner_residual_out != NULL ? coding->owner_residual_out + in_slice : NULL,
        .draw = coding->draw,
    };
    encode(step, &source, wire);
    tt_codec_decode(codec_of(step), wire, target);
}

/* The vector of a single rank is its slice. */
static void finish_alone(const code_step *step, const stretch *some, float *sums)
{
    const tt_coding *coding = step->exec->coding;
    const uint64_t first = some->piece.first + some->at;
    TT_DEBUG_ASSERT(step->exec->stage->problem.size == 1);
    load_own(step, some, sums);
    finish(step->exec, sums, some->count);
    if (coding->owner_residual != NULL) {
        tt_reduce(TT_F32, TT_SUM, sums, sums, coding->owner_residual + first, some->count);
    }
    if (coding->owner_residual_out != NULL) {
        memset(coding->owner_residual_out + first, 0, some->count * sizeof(float));
    }
}

static void merge_stretch(code_step *step, const stretch *some)
{
    const tt_problem *problem = &step->exec->stage->problem;
    float sums[CHUNK];
    TT_DEBUG_ASSERT(some->count > 0 && some->count <= CHUNK);
    uint8_t *output = tt_exec_address(step->exec, step->lane, step->move->target);
    const tt_codec_target target = {
        .values = output + some->at * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = 1.0f,
        .count = some->count,
    };
    if (problem->size == 1) {
        finish_alone(step, some, sums);
        tt_codec_store(sums, &target);
        return;
    }
    if (!add_all(step, some, sums)) {
        return;
    }
    finish(step->exec, sums, some->count);
    if (problem->collective == TT_ALLREDUCE) {
        send_on(step, some, sums, &target);
    } else {
        tt_codec_store(sums, &target);
    }
}

static void merge_units(code_step *step, uint64_t from, uint64_t to)
{
    const tt_stage *stage = step->exec->stage;
    const tt_problem *problem = &stage->problem;
    stretch some = {.piece =
                        tt_owned_piece(problem, &stage->plan, step->lane->number, problem->self)};
    const uint64_t end = tt_min_u64(to * problem->codec->block, some.piece.count);
    TT_DEBUG_ASSERT(CHUNK % problem->codec->block == 0);
    for (some.at = from * problem->codec->block; some.at < end; some.at += some.count) {
        some.count = tt_min_u64(CHUNK, end - some.at);
        merge_stretch(step, &some);
    }
}

/* ---- steps ---- */

/* tt_work_order.part: the units that begin in it. */
static void code_part(void *argument, uint32_t hand, uint64_t first, uint64_t bytes)
{
    const code_step *whole = argument;
    code_step step = *whole;
    const uint64_t unit = step.unit_bytes;
    const uint64_t from = step.units_before + (first + unit - 1) / unit;
    const uint64_t to = step.units_before + (first + bytes + unit - 1) / unit;
    TT_DEBUG_ASSERT(to * unit <= step.move->bytes && hand < TT_HANDS_MAX);
    if (step.move->work == TT_WORK_MERGE) {
        merge_units(&step, from, to);
    } else {
        code_units(&step, from, to);
    }
    step.by_hand[hand].uncoded += step.found.uncoded;
    if (step.found.culprit != UINT32_MAX) {
        step.by_hand[hand].culprit = step.found.culprit;
    }
}

/* Bytes done: see tt_platform_ops.work. A unit that has begun is done. */
static uint64_t run_step(code_step *step, uint64_t bytes)
{
    tt_platform *platform = step->exec->flow->platform;
    uint64_t done = bytes;
    TT_DEBUG_ASSERT(bytes % step->unit_bytes == 0);
    if (platform->hands > 0 && bytes >= platform->work_bytes_min) {
        const tt_work_order order = {.part = code_part, .argument = step, .bytes = bytes};
        done = platform->ops->work(platform, &order);
    } else {
        code_part(step, 0, 0, bytes);
    }
    return tt_round_up(done, step->unit_bytes);
}

/* Take over what the hands found out. */
static void collect(tt_exec *exec, const finding *by_hand, uint32_t hand_count)
{
    TT_DEBUG_ASSERT(hand_count > 0 && hand_count <= TT_HANDS_MAX);
    for (uint32_t hand = 0; hand < hand_count; hand++) {
        exec->coding->uncoded += by_hand[hand].uncoded;
        if (by_hand[hand].culprit != UINT32_MAX) {
            tt_exec_fail(exec, TT_ERR_BAD_WIRE, by_hand[hand].culprit);
        }
    }
}

bool tt_exec_code(tt_exec *exec, tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    tt_platform *platform = exec->flow->platform;
    const uint32_t hand_count = platform->hands > 0 ? platform->hands : 1;
    finding by_hand[TT_HANDS_MAX];
    const tt_problem *problem = &exec->stage->problem;
    const uint64_t block_bytes = problem->codec->block * sizeof(float);
    code_step step = {
        .exec = exec,
        .lane = lane,
        .move = move,
        .unit_bytes = move->work == TT_WORK_MERGE ? problem->size * block_bytes : block_bytes,
        .found = {.culprit = UINT32_MAX},
        .by_hand = by_hand,
    };
    for (uint32_t hand = 0; hand < hand_count; hand++) {
        by_hand[hand] = step.found;
    }
    TT_ASSERT(exec->coding != NULL && bytes > 0);
    TT_ASSERT(move->bytes % step.unit_bytes == 0 && lane->work_done % step.unit_bytes == 0);
    step.units_before = lane->work_done / step.unit_bytes;
    const uint64_t done = run_step(
        &step, tt_min_u64(tt_round_up(bytes, step.unit_bytes), move->bytes - lane->work_done));
    lane->work_done += done;
    collect(exec, by_hand, hand_count);
    platform->ops->spend(platform, TT_SPEND_CODE, done);
    return lane->work_done == move->bytes;
}
