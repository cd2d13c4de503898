/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_code.c - the local work of coded exchanges: encode, merge, decode, stage; see
 * pattern/owner.c and pattern/rails.c.
 *
 * Work is counted in units, each some whole blocks' worth of floats: one block of one owner where
 * pieces are encoded, decoded or staged, one block of the whole rail where they are added. A part
 * of an order does the units that begin in it, so it may be cut anywhere. What a unit computes
 * depends on nothing but its elements: bits are the same for any budget, number of hands, and cut
 * into lanes.
 *
 * With several rails the values are sums of a host. They are added in f32 whatever the dtype is, so
 * that f16 does not overflow and nothing is rounded before it is coded. Results are decoded once
 * and copied, so that all members of a host have the same bits.
 *
 * A part has its sums on its stack and a step of its own. What it finds out (how many elements
 * could not be coded, which member sent bytes that no encoder gives) goes to a place of its hand.
 */
#include <string.h>

#include "aggregate/exec_internal.h"
#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "codec/codec.h"
#include "kernel/reduce.h"

enum {
    CHUNK = TT_CODEC_BLOCK_MAX, /* elements coded at a time: near the first-level cache */
    HALF_CHUNK = 1024,          /* of f16 and bf16 turned into floats at a time */
};

_Static_assert(TT_CODEC_BLOCK_MIN * sizeof(float) % TT_WORK_GRAIN == 0, "orders hold whole units");

/* What the parts of one hand found out. */
typedef struct finding {
    uint64_t uncoded; /* elements */
    uint32_t culprit; /* member; UINT32_MAX: none */
    bool is_astray;   /* the culprit's bytes are good, its estimates are others */
} finding;

/* Each part works on a copy. */
typedef struct code_step {
    const tt_exec *exec;
    const tt_lane *lane;
    const tt_move *move;
    bool has_rails;
    uint64_t unit_bytes;
    uint64_t units_before; /* done in earlier steps */
    finding found;
    finding *by_hand; /* [hands, at least 1] */
} code_step;

/* Elements [at, at + count) of a piece, at most CHUNK. */
typedef struct stretch {
    uint32_t owner; /* member */
    tt_owned piece;
    uint64_t at;
    size_t count;
} stretch;

static const tt_codec_spec *codec_of(const code_step *step)
{
    TT_DEBUG_ASSERT(step->exec->stage->problem.codec != NULL);
    return step->exec->stage->problem.codec;
}

/* Wire bytes of a stretch, in the slot of a position on the rail. */
static uint8_t *wire_of(const code_step *step, tt_spot slots, uint32_t position,
                        const stretch *some)
{
    TT_DEBUG_ASSERT(some->at % codec_of(step)->block == 0);
    slots.offset += position * step->move->slot + tt_codec_wire_bytes(codec_of(step), some->at);
    return tt_exec_address(step->exec, step->lane, slots);
}

/* The same of what senders give to owners: behind the stamp. */
static uint8_t *given_of(const code_step *step, tt_spot slots, uint32_t position,
                         const stretch *some)
{
    return wire_of(step, slots, position, some) + (codec_of(step)->is_tracked ? TT_STAMP_BYTES : 0);
}

/* ---- memory of this host's members ---- */

static uint32_t host_member_count(const tt_problem *problem)
{
    const uint32_t *first =
        &problem->topology->host_first[problem->topology->host_of[problem->self]];
    TT_DEBUG_ASSERT(first[1] > first[0]);
    return first[1] - first[0];
}

static uint32_t host_member(const tt_problem *problem, uint32_t index)
{
    const tt_topology *topology = problem->topology;
    return topology->host_members[topology->host_first[topology->host_of[problem->self]] + index];
}

/* Where a stretch begins in a staging slot. */
static uint64_t slot_offset(const code_step *step, const stretch *some)
{
    const tt_stage *stage = step->exec->stage;
    const uint64_t number = tt_owner_number(&stage->problem, some->owner);
    TT_DEBUG_ASSERT(number < tt_owner_count(&stage->problem));
    return number * stage->plan.lane_bytes + some->at * stage->problem.element_bytes;
}

/* The whole vectors of members that share them, the lane's slots of the others: inputs to
 * pointers[0 ..), outputs to pointers[size ..). False: a view is missing, the exec has failed. */
static bool collect_hosts_views(tt_exec *exec, const tt_lane *lane)
{
    const tt_stage *stage = exec->stage;
    const tt_problem *problem = &stage->problem;
    const uint64_t slot = lane->number % TT_LANES_MAX * stage->plan.slot_bytes;
    for (uint32_t i = 0; i < host_member_count(problem); i++) {
        const uint32_t member = host_member(problem, i);
        const tt_fact *fact = &problem->facts[member];
        const bool is_shared = fact->is_shared != 0;
        const uint64_t bytes = is_shared ? problem->bytes : stage->plan.slot_bytes;
        const uint64_t input = is_shared ? fact->input_offset : fact->input_offset + slot;
        const uint64_t output = is_shared ? fact->output_offset : input;
        exec->pointers[i] = tt_exec_view(exec, member, input, bytes);
        exec->pointers[problem->size + i] = tt_exec_view(exec, member, output, bytes);
        if (exec->pointers[i] == NULL || exec->pointers[problem->size + i] == NULL) {
            return false;
        }
    }
    return true;
}

/* A stretch in the memory of a member of this host: its input, or its output. */
static uint8_t *view_of(const code_step *step, uint32_t index, bool is_output, const stretch *some)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const uint8_t *base = step->exec->pointers[(is_output ? problem->size : 0) + index];
    const bool is_shared = problem->facts[host_member(problem, index)].is_shared != 0;
    const uint64_t offset = is_shared ? (some->piece.first + some->at) * problem->element_bytes
                                      : slot_offset(step, some);
    /* an input is never written through */
    return (uint8_t *)(uintptr_t)base + offset;
}

/* sums[i] += values[i] */
static void add_values(tt_dtype dtype, float *sums, const uint8_t *values, size_t count)
{
    float room[HALF_CHUNK];
    if (dtype == TT_F32) {
        tt_reduce(TT_F32, TT_SUM, sums, sums, values, count);
        return;
    }
    for (size_t at = 0; at < count; at += HALF_CHUNK) {
        const tt_codec_source source = {.values = values + at * tt_dtype_bytes(dtype),
                                        .dtype = dtype,
                                        .factor = 1.0f,
                                        .count = tt_min_u64(count - at, HALF_CHUNK)};
        tt_codec_load(&source, room);
        tt_reduce(TT_F32, TT_SUM, sums + at, sums + at, room, source.count);
    }
}

/* Sum of the inputs of this host's members, in their order. */
static void sum_host(const code_step *step, const stretch *some, float *sums)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const tt_codec_source first = {.values = view_of(step, 0, false, some),
                                   .dtype = problem->dtype,
                                   .factor = 1.0f,
                                   .count = some->count};
    TT_DEBUG_ASSERT(some->count <= CHUNK);
    tt_codec_load(&first, sums);
    for (uint32_t i = 1; i < host_member_count(problem); i++) {
        add_values(problem->dtype, sums, view_of(step, i, false, some), some->count);
    }
}

/* The result of a stretch, which is in the first member's output, to the others of this host. */
static void copy_to_host(const code_step *step, const stretch *some)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const uint8_t *source = view_of(step, 0, true, some);
    TT_DEBUG_ASSERT(step->has_rails);
    for (uint32_t i = 1; i < host_member_count(problem); i++) {
        memcpy(view_of(step, i, true, some), source, some->count * problem->element_bytes);
    }
}

/* ---- values ---- */

/* This rank's values, or its host's, which are computed into `room`. */
static tt_codec_source source_of(const code_step *step, const stretch *some, float *room)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const tt_coding *coding = step->exec->coding;
    const uint64_t first = some->piece.first + some->at;
    TT_DEBUG_ASSERT(some->at + some->count <= some->piece.count);
    if (step->has_rails) {
        sum_host(step, some, room);
    }
    return (tt_codec_source){
        .values = step->has_rails ? (const void *)room
                                  : step->exec->input + first * problem->element_bytes,
        .dtype = step->has_rails ? TT_F32 : problem->dtype,
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

/* Elements that are decoded as finite move the estimate of this rank's values. */
static void encode_tracked(code_step *step, const tt_codec_source *source, uint8_t *wire)
{
    tt_codec_source lacking = *source;
    const size_t bytes = source->count * sizeof(float);
    lacking.residual_out = NULL;
    encode(step, &lacking, wire);
    if (source->residual_out == NULL) {
        return;
    }
    if (source->residual != NULL) {
        memmove(source->residual_out, source->residual, bytes);
    } else {
        memset(source->residual_out, 0, bytes);
    }
    tt_codec_decode_known(codec_of(step), wire, source->residual_out, NULL, source->count);
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

/* False: the sender's estimates do not belong to those that this rank has of it. */
static bool is_in_step(code_step *step, uint32_t position)
{
    const tt_spot slots = step->move->source;
    const tt_spot head = {.buffer = slots.buffer,
                          .offset = slots.offset + position * step->move->slot};
    uint64_t stamp;
    memcpy(&stamp, tt_exec_address(step->exec, step->lane, head), sizeof(stamp));
    if (stamp == step->exec->coding->stamp) {
        return true;
    }
    step->found.culprit = tt_rail_member(&step->exec->stage->problem, position);
    step->found.is_astray = true;
    return false;
}

/* ---- encode, decode and stage: units are blocks of one owner ---- */

static void encode_stretch(code_step *step, uint32_t position, const stretch *some)
{
    float room[CHUNK];
    TT_DEBUG_ASSERT(some->count <= CHUNK);
    const tt_codec_source source = source_of(step, some, room);
    uint8_t *wire = given_of(step, step->move->target, position, some);
    if (!codec_of(step)->is_tracked) {
        encode(step, &source, wire);
        return;
    }
    if (some->at == 0) {
        memcpy(wire - TT_STAMP_BYTES, &step->exec->coding->stamp, TT_STAMP_BYTES);
    }
    encode_tracked(step, &source, wire);
}

static void decode_stretch(code_step *step, uint32_t position, const stretch *some)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const uint8_t *wire = wire_of(step, step->move->source, position, some);
    const uint64_t first = some->piece.first + some->at;
    TT_DEBUG_ASSERT(some->count > 0);
    const tt_codec_target target = {
        .values = step->has_rails ? view_of(step, 0, true, some)
                                  : step->exec->output + first * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = 1.0f,
        .count = some->count,
    };
    if (!is_good(step, some->owner, wire, some->count)) {
        return;
    }
    tt_codec_decode(codec_of(step), wire, &target);
    if (step->has_rails) {
        copy_to_host(step, some);
    }
}

static void stage_stretch(const code_step *step, const stretch *some)
{
    const uint64_t width = step->exec->stage->problem.element_bytes;
    tt_spot source = step->move->source, target = step->move->target;
    const uint64_t in_vector = (some->piece.first + some->at) * width;
    TT_DEBUG_ASSERT((source.buffer == TT_SLOT) != (target.buffer == TT_SLOT));
    source.offset += source.buffer == TT_SLOT ? slot_offset(step, some) : in_vector;
    target.offset += target.buffer == TT_SLOT ? slot_offset(step, some) : in_vector;
    memcpy(tt_exec_address(step->exec, step->lane, target),
           tt_exec_address(step->exec, step->lane, source), some->count * width);
}

/* Of the index-th piece; the own one is neither encoded nor decoded. */
static void code_stretch(code_step *step, uint32_t index, const stretch *some)
{
    TT_DEBUG_ASSERT(some->count > 0 && some->count <= CHUNK);
    if (step->move->work == TT_WORK_STAGE) {
        stage_stretch(step, some);
    } else if (some->owner == step->exec->stage->problem.self) {
        return;
    } else if (step->move->work == TT_WORK_ENCODE) {
        encode_stretch(step, index, some);
    } else {
        decode_stretch(step, index, some);
    }
}

/* Units [from, to): pieces one after the other, each as long as the longest; of the rail, by
 * position, or of all owners, by number. */
static void code_units(code_step *step, uint64_t from, uint64_t to)
{
    const tt_stage *stage = step->exec->stage;
    const tt_problem *problem = &stage->problem;
    const uint64_t block = problem->codec->block;
    const bool is_stage = step->move->work == TT_WORK_STAGE;
    const uint32_t piece_count = is_stage ? tt_owner_count(problem) : tt_rail_size(problem);
    const uint64_t each = step->move->bytes / step->unit_bytes / piece_count;
    TT_DEBUG_ASSERT(to <= each * piece_count && CHUNK % block == 0);
    while (from < to) {
        const uint32_t index = (uint32_t)(from / each);
        const uint64_t first = from % each;
        const uint64_t count = tt_min_u64(tt_min_u64(each - first, to - from), CHUNK / block);
        stretch some = {.owner = is_stage ? tt_owner_member(problem, index)
                                          : tt_rail_member(problem, index),
                        .at = first * block};
        some.piece = tt_owned_piece(problem, &stage->plan, step->lane->number, some.owner);
        const uint64_t stop = tt_min_u64((first + count) * block, some.piece.count);
        some.count = stop > some.at ? stop - some.at : 0;
        if (some.count > 0) {
            code_stretch(step, index, &some);
        }
        from += count;
    }
}

/* ---- merge: units are blocks of the own piece, of the whole rail ---- */

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

/* The own values, not coded: no residual remains. There is no estimate of them. */
static void load_own(const code_step *step, const stretch *some, float *values)
{
    float room[CHUNK];
    tt_codec_source source = source_of(step, some, room);
    TT_DEBUG_ASSERT(some->count <= CHUNK);
    source.residual = codec_of(step)->is_tracked ? NULL : source.residual;
    tt_codec_load(&source, values);
    if (source.residual_out != NULL) {
        memset(source.residual_out, 0, some->count * sizeof(float));
    }
}

/* From zeros, in the order of the rail; false: a member's bytes are bad. */
static bool add_all(code_step *step, const stretch *some, float *sums)
{
    const tt_problem *problem = &step->exec->stage->problem;
    float own[CHUNK];
    const uint32_t self = tt_rail_position(problem);
    TT_DEBUG_ASSERT(problem->size > 1);
    memset(sums, 0, some->count * sizeof(float));
    const uint32_t count = tt_rail_size(problem);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t position = TT_PLANT(MERGE_BEGINS_AT_SELF) ? (self + i) % count : i;
        if (position == self) {
            load_own(step, some, own);
            tt_reduce(TT_F32, TT_SUM, sums, sums, own, some->count);
            continue;
        }
        const uint8_t *wire = wire_of(step, step->move->source, position, some);
        if (!is_good(step, tt_rail_member(problem, position), wire, some->count)) {
            return false;
        }
        tt_codec_decode_add(codec_of(step), wire, sums, some->count);
    }
    return true;
}

/* Where a stretch of the own piece begins in the own slice. */
static uint64_t slice_offset(const code_step *step, const stretch *some)
{
    const tt_problem *problem = &step->exec->stage->problem;
    TT_DEBUG_ASSERT(some->owner == problem->self);
    return some->piece.first + some->at - tt_owned_slice(problem, problem->self).first;
}

/* Move the sum of the others' estimates by what they sent, in the order of the rail; `lost` is NaN
 * where that is not finite. False: a member's bytes are bad, or its estimates are others. */
static bool learn_others(code_step *step, const stretch *some, float *known, float *lost)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const uint32_t self = tt_rail_position(problem), count = tt_rail_size(problem);
    TT_DEBUG_ASSERT(problem->size > 1);
    for (uint32_t position = 0; position < count; position++) {
        if (position == self) {
            continue;
        }
        const uint8_t *wire = given_of(step, step->move->source, position, some);
        if (!is_in_step(step, position) ||
            !is_good(step, tt_rail_member(problem, position), wire, some->count)) {
            return false;
        }
        tt_codec_decode_known(codec_of(step), wire, known, lost, some->count);
    }
    return true;
}

/* The own values and the others' estimates; false: as above. */
static bool add_estimates(code_step *step, const stretch *some, float *sums)
{
    const tt_coding *coding = step->exec->coding;
    const uint64_t first = slice_offset(step, some);
    const size_t bytes = some->count * sizeof(float);
    float known[CHUNK], own[CHUNK];
    memset(sums, 0, bytes);
    if (coding->estimate != NULL) {
        memcpy(known, coding->estimate + first, bytes);
    } else {
        memset(known, 0, bytes);
    }
    if (!learn_others(step, some, known, sums)) {
        return false;
    }
    if (coding->estimate_out != NULL) {
        memcpy(coding->estimate_out + first, known, bytes);
    }
    load_own(step, some, own);
    for (size_t i = 0; i < some->count; i++) {
        sums[i] += own[i] - known[i];
    }
    return true;
}

/* Code the result, and decode it as all others will. */
static void send_on(code_step *step, const stretch *some, const float *sums,
                    const tt_codec_target *target)
{
    const tt_problem *problem = &step->exec->stage->problem;
    const tt_coding *coding = step->exec->coding;
    const uint64_t in_slice = slice_offset(step, some);
    const tt_spot slots = {.buffer = TT_SCRATCH, .offset = 0};
    uint8_t *wire = wire_of(step, slots, tt_rail_position(problem), some);
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
    if (TT_PLANT(OWNER_KEEPS_ITS_SUM)) {
        tt_codec_store(sums, target);
        return;
    }
    tt_codec_decode(codec_of(step), wire, target);
    if (step->has_rails) {
        copy_to_host(step, some);
    }
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
    if (coding->estimate_out != NULL) {
        memset(coding->estimate_out + first, 0, some->count * sizeof(float));
    }
}

static void merge_stretch(code_step *step, const stretch *some)
{
    const tt_problem *problem = &step->exec->stage->problem;
    float sums[CHUNK];
    TT_DEBUG_ASSERT(some->count > 0 && some->count <= CHUNK);
    uint8_t *output = tt_exec_address(step->exec, step->lane, step->move->target);
    const tt_codec_target target = {
        .values = step->has_rails ? view_of(step, 0, true, some)
                                  : output + some->at * problem->element_bytes,
        .dtype = problem->dtype,
        .factor = 1.0f,
        .count = some->count,
    };
    if (problem->size == 1) {
        finish_alone(step, some, sums);
        tt_codec_store(sums, &target);
        return;
    }
    if (!(codec_of(step)->is_tracked ? add_estimates : add_all)(step, some, sums)) {
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
    stretch some = {.owner = problem->self};
    some.piece = tt_owned_piece(problem, &stage->plan, step->lane->number, problem->self);
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
        step.by_hand[hand].is_astray = step.found.is_astray;
    }
}

/* Bytes done: see tt_platform_ops.work. A unit that has begun is done. */
static uint64_t run_step(code_step *step, uint64_t bytes)
{
    tt_platform *platform = step->exec->flow->platform;
    uint64_t done = bytes;
    TT_DEBUG_ASSERT(bytes % step->unit_bytes == 0);
    if (platform->phantom_bytes > 0) {
        return done; /* others' may be phantom, if not the own buffers */
    }
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
        if (by_hand[hand].culprit != UINT32_MAX && exec->status == TT_OK) {
            exec->coding->is_astray = by_hand[hand].is_astray;
            tt_exec_fail(exec, by_hand[hand].is_astray ? TT_ERR_MISMATCH : TT_ERR_BAD_WIRE,
                         by_hand[hand].culprit);
        }
    }
}

static uint64_t unit_bytes_of(const tt_problem *problem, tt_work work)
{
    const uint64_t block_bytes = problem->codec->block * sizeof(float);
    return work == TT_WORK_MERGE ? tt_rail_size(problem) * block_bytes : block_bytes;
}

bool tt_exec_code(tt_exec *exec, tt_lane *lane, const tt_move *move, uint64_t bytes)
{
    tt_platform *platform = exec->flow->platform;
    const uint32_t hand_count = platform->hands > 0 ? platform->hands : 1;
    const uint64_t begun_ns = tt_now(platform);
    finding by_hand[TT_HANDS_MAX];
    const bool is_copy = move->work == TT_WORK_STAGE;
    code_step step = {
        .exec = exec,
        .lane = lane,
        .move = move,
        .has_rails = tt_coding_has_rails(&exec->stage->problem),
        .unit_bytes = unit_bytes_of(&exec->stage->problem, move->work),
        .found = {.culprit = UINT32_MAX},
        .by_hand = by_hand,
    };
    for (uint32_t hand = 0; hand < hand_count; hand++) {
        by_hand[hand] = step.found;
    }
    TT_ASSERT(exec->coding != NULL && bytes > 0);
    TT_ASSERT(move->bytes % step.unit_bytes == 0 && lane->work_done % step.unit_bytes == 0);
    if (step.has_rails && !is_copy && !collect_hosts_views(exec, lane)) {
        return false;
    }
    step.units_before = lane->work_done / step.unit_bytes;
    const uint64_t done = run_step(
        &step, tt_min_u64(tt_round_up(bytes, step.unit_bytes), move->bytes - lane->work_done));
    lane->work_done += done;
    collect(exec, by_hand, hand_count);
    platform->ops->spend(platform, is_copy ? TT_SPEND_COPY : TT_SPEND_CODE, done, 1);
    exec->coding->spent_ns += tt_now(platform) - begun_ns;
    return lane->work_done == move->bytes;
}
