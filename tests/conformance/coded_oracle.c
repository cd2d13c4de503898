/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_oracle.c - the result of coded exchanges, one block after the other, from codec.h and plain
 * arithmetic. It computes owners and numbers of draws itself, independently of the library. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "conformance/coded.h"
#include "kernel/half.h"

/* One block of the vector. */
typedef struct block {
    uint32_t size; /* ranks */
    uint32_t owner;
    uint64_t first;    /* element of the input */
    uint64_t in_slice; /* of the owner's slice */
    uint64_t draw;
    uint64_t count;
} block;

tt_codec_draw coded_draw(uint32_t rank)
{
    return (tt_codec_draw){.seed = 1000 + 77 * rank, .tensor = 3, .occurrence = 5};
}

tt_codec_draw coded_draw_of(const coded_call *call, uint32_t rank)
{
    return call->draws != NULL ? call->draws[rank] : coded_draw(rank);
}

static float value_at(const coded_call *call, const void *values, uint64_t index)
{
    if (call->dtype == TT_F32) {
        return ((const float *)values)[index];
    }
    const uint16_t half = ((const uint16_t *)values)[index];
    return call->dtype == TT_F16 ? tt_f16_to_f32(half) : tt_bf16_to_f32(half);
}

static void set_value(const coded_call *call, void *values, uint64_t index, float value)
{
    if (call->dtype == TT_F32) {
        ((float *)values)[index] = value;
    } else {
        ((uint16_t *)values)[index] =
            call->dtype == TT_F16 ? tt_f16_from_f32(value) : tt_bf16_from_f32(value);
    }
}

bool coded_is_summed(const coded_call *call)
{
    return call->collective == TT_ALLREDUCE &&
           (tt_codec_traits(call->codec) & TT_CODEC_SUMMABLE) != 0;
}

bool coded_has_rails(const coded_call *call)
{
    return call->hosts != NULL && call->collective == TT_ALLREDUCE && !coded_is_summed(call);
}

uint32_t coded_local(const coded_hosts *hosts, uint32_t rank)
{
    uint32_t before = 0;
    for (uint32_t r = 0; r < rank; r++) {
        before += hosts->host_of[r] == hosts->host_of[rank] ? 1 : 0;
    }
    return before;
}

uint32_t coded_rank_at(const coded_hosts *hosts, uint32_t host, uint32_t local)
{
    uint32_t rank = 0;
    while (hosts->host_of[rank] != host || coded_local(hosts, rank) != local) {
        rank++;
        TT_ASSERT(rank < hosts->size);
    }
    return rank;
}

/* Owners in the order of their slices: rail by rail, each host's. */
static uint32_t owner_count(const coded_call *call, uint32_t size)
{
    return coded_has_rails(call) ? call->hosts->rail_count * call->hosts->host_count : size;
}

static uint32_t owner_number(const coded_call *call, uint32_t rank)
{
    return coded_has_rails(call) ? coded_local(call->hosts, rank) * call->hosts->host_count +
                                       call->hosts->host_of[rank]
                                 : rank;
}

static uint64_t part_first(const coded_call *call, uint32_t rank)
{
    const uint64_t width = tt_dtype_bytes(call->dtype);
    return call->part_offsets != NULL ? call->part_offsets[rank] / width : rank * call->count;
}

uint64_t coded_input_count(const coded_call *call, uint32_t size)
{
    return call->collective == TT_ALLREDUCE ? call->count : part_first(call, size);
}

uint64_t coded_output_count(const coded_call *call, uint32_t size, uint32_t rank)
{
    TT_ASSERT(rank < size);
    return call->collective == TT_ALLREDUCE ? call->count
                                            : part_first(call, rank + 1) - part_first(call, rank);
}

uint64_t coded_slice_count(const coded_call *call, uint32_t size, uint32_t rank,
                           uint64_t *first_out)
{
    const uint64_t width = call->owner_block > 0 ? call->owner_block : call->codec->block;
    const uint64_t blocks = (call->count + width - 1) / width;
    uint64_t first = 0, next = 0;
    if (call->collective == TT_REDUCESCATTER) {
        *first_out = part_first(call, rank);
        return coded_output_count(call, size, rank);
    }
    const uint32_t owners = owner_count(call, size), number = owner_number(call, rank);
    *first_out = 0;
    if (number >= owners) {
        return 0;
    }
    for (uint32_t o = 0; o <= number; o++) { /* what remains, shared by the owners that remain */
        const uint64_t left = blocks - next, sharing = owners - o;
        first = next;
        next += (left + sharing - 1) / sharing;
    }
    *first_out = tt_min_u64(first * width, call->count);
    return tt_min_u64(next * width, call->count) - *first_out;
}

/* A rank's value of an element; with rails, the sum of its host's. */
static float exact_value(const coded_call *call, uint32_t size, const coded_buffers *all,
                         uint32_t rank, uint64_t index)
{
    bool is_first = true;
    float sum = 0.0f;
    if (!coded_has_rails(call)) {
        return value_at(call, all[rank].input, index);
    }
    for (uint32_t r = 0; r < size; r++) {
        if (call->hosts->host_of[r] == call->hosts->host_of[rank]) {
            const float value = value_at(call, all[r].input, index);
            sum = is_first ? value : sum + value;
            is_first = false;
        }
    }
    return sum;
}

/* Scaled, the residual added. */
static float contribution(const coded_call *call, const coded_buffers *buffers, float value,
                          uint64_t index)
{
    const float scaled = value * call->prescale;
    const bool has_residual = buffers->residual != NULL && !call->codec->is_tracked;
    return has_residual ? scaled + buffers->residual[index] : scaled;
}

/* EF21: what a sender keeps is moved by what its owner decodes. */
static void track(coded_buffers *buffers, const block *at, const float *decoded)
{
    for (uint64_t i = 0; i < at->count && buffers->residual_out != NULL; i++) {
        const uint64_t index = at->first + i;
        const float old = buffers->residual != NULL ? buffers->residual[index] : 0.0f;
        buffers->residual_out[index] = isfinite(decoded[i]) ? old - decoded[i] : old;
    }
}

/* What the owner gets of one rank's block: coded, unless the rank is the owner. */
static void receive(const coded_call *call, uint32_t rank, coded_buffers *all, const block *at,
                    float *values)
{
    coded_buffers *buffers = &all[rank];
    float exact[TT_CODEC_BLOCK_MAX];
    uint8_t wire[8 * TT_CODEC_BLOCK_MAX];
    for (uint64_t i = 0; i < at->count; i++) {
        exact[i] = exact_value(call, at->size, all, rank, at->first + i);
    }
    if (rank == at->owner) {
        for (uint64_t i = 0; i < at->count; i++) {
            values[i] = contribution(call, buffers, exact[i], at->first + i);
            if (buffers->residual_out != NULL) {
                buffers->residual_out[at->first + i] = 0.0f;
            }
        }
        return;
    }
    const bool has_old = buffers->residual != NULL;
    const bool has_new = buffers->residual_out != NULL && !call->codec->is_tracked;
    const tt_codec_source source = {.values = exact,
                                    .dtype = TT_F32,
                                    .factor = call->prescale,
                                    .first = at->draw,
                                    .count = at->count,
                                    .residual = has_old ? buffers->residual + at->first : NULL,
                                    .residual_out =
                                        has_new ? buffers->residual_out + at->first : NULL,
                                    .draw = coded_draw_of(call, rank)};
    const tt_codec_target target = {
        .values = values, .dtype = TT_F32, .factor = 1.0f, .count = at->count};
    buffers->uncoded += tt_codec_encode(call->codec, &source, wire);
    tt_codec_decode(call->codec, wire, &target);
    if (call->codec->is_tracked) {
        track(buffers, at, values);
    }
}

static float finished(const coded_call *call, uint32_t size, float sum)
{
    const float mean = call->redop == TT_AVERAGE ? sum / (float)size : sum;
    return call->postscale != 1.0 ? mean * (float)call->postscale : mean;
}

/* The owner codes its result, and all ranks decode it. */
static void share(const coded_call *call, uint32_t size, coded_buffers *buffers, const block *at,
                  const float *sums)
{
    coded_buffers *owner = &buffers[at->owner];
    uint8_t wire[8 * TT_CODEC_BLOCK_MAX];
    const bool has_new = owner->owner_residual_out != NULL, has_old = owner->owner_residual != NULL;
    const tt_codec_source source = {
        .values = sums,
        .dtype = TT_F32,
        .factor = 1.0f,
        .first = at->draw,
        .count = at->count,
        .residual = has_old ? owner->owner_residual + at->in_slice : NULL,
        .residual_out = has_new ? owner->owner_residual_out + at->in_slice : NULL,
        .draw = coded_draw_of(call, at->owner)};
    owner->uncoded += tt_codec_encode(call->codec, &source, wire);
    for (uint32_t r = 0; r < size; r++) {
        const tt_codec_target target = {.values = (uint8_t *)buffers[r].output +
                                                  at->first * tt_dtype_bytes(call->dtype),
                                        .dtype = call->dtype,
                                        .factor = 1.0f,
                                        .count = at->count};
        tt_codec_decode(call->codec, wire, &target);
    }
}

/* The g-th rank that gives the owner something. */
static uint32_t giver(const coded_call *call, uint32_t g, const block *at)
{
    return coded_has_rails(call)
               ? coded_rank_at(call->hosts, g, coded_local(call->hosts, at->owner))
               : g;
}

static void add_values(const coded_call *call, uint32_t giver_count, coded_buffers *buffers,
                       const block *at, float *sums)
{
    float values[TT_CODEC_BLOCK_MAX];
    for (uint32_t g = 0; g < giver_count; g++) {
        receive(call, giver(call, g, at), buffers, at, values);
        for (uint64_t i = 0; i < at->count; i++) {
            sums[i] += values[i];
        }
    }
}

/* EF21: the owner's own values, and the estimates of all others, moved by what it receives. */
static void add_estimates(const coded_call *call, uint32_t giver_count, coded_buffers *buffers,
                          const block *at, float *sums)
{
    coded_buffers *owner = &buffers[at->owner];
    float known[TT_CODEC_BLOCK_MAX], own[TT_CODEC_BLOCK_MAX], values[TT_CODEC_BLOCK_MAX];
    for (uint64_t i = 0; i < at->count; i++) {
        known[i] = owner->estimate != NULL ? owner->estimate[at->in_slice + i] : 0.0f;
    }
    for (uint32_t g = 0; g < giver_count; g++) {
        const uint32_t rank = giver(call, g, at);
        receive(call, rank, buffers, at, rank == at->owner ? own : values);
        for (uint64_t i = 0; i < at->count && rank != at->owner; i++) {
            if (isfinite(values[i])) {
                known[i] -= values[i];
            } else {
                sums[i] = NAN;
            }
        }
    }
    for (uint64_t i = 0; i < at->count; i++) {
        sums[i] += own[i] - known[i];
        if (owner->estimate_out != NULL) {
            owner->estimate_out[at->in_slice + i] = known[i];
        }
    }
}

static void expect_block(const coded_call *call, uint32_t size, coded_buffers *buffers,
                         const block *at)
{
    float sums[TT_CODEC_BLOCK_MAX] = {0};
    const uint32_t giver_count = coded_has_rails(call) ? call->hosts->host_count : size;
    if (call->codec->is_tracked) {
        add_estimates(call, giver_count, buffers, at, sums);
    } else {
        add_values(call, giver_count, buffers, at, sums);
    }
    for (uint64_t i = 0; i < at->count; i++) {
        sums[i] = finished(call, size, sums[i]);
    }
    if (call->collective == TT_ALLREDUCE) {
        share(call, size, buffers, at, sums);
        return;
    }
    for (uint64_t i = 0; i < at->count; i++) {
        set_value(call, buffers[at->owner].output, at->in_slice + i, sums[i]);
    }
}

/* Nothing is coded. */
static void expect_alone(const coded_call *call, coded_buffers *self)
{
    for (uint64_t i = 0; i < coded_input_count(call, 1); i++) {
        float value =
            finished(call, 1, contribution(call, self, value_at(call, self->input, i), i));
        if (self->owner_residual != NULL) {
            value += self->owner_residual[i];
        }
        set_value(call, self->output, i, value);
        if (self->residual_out != NULL) {
            self->residual_out[i] = 0.0f;
        }
        if (self->owner_residual_out != NULL) {
            self->owner_residual_out[i] = 0.0f;
        }
        if (self->estimate_out != NULL) {
            self->estimate_out[i] = 0.0f;
        }
    }
}

void coded_expect(const coded_call *call, uint32_t size, coded_buffers *buffers)
{
    const uint64_t width = call->codec->block;
    if (coded_is_summed(call) && size > 1) {
        coded_expect_summed(call, size, buffers);
        return;
    }
    if (size == 1) {
        expect_alone(call, &buffers[0]);
        return;
    }
    for (uint32_t r = 0; r < size; r++) {
        uint64_t first;
        const uint64_t count = coded_slice_count(call, size, r, &first);
        const uint64_t draw = call->collective == TT_ALLREDUCE
                                  ? first
                                  : (first + width - 1) / width * width + r * width;
        for (uint64_t in_slice = 0; in_slice < count; in_slice += width) {
            const block at = {.size = size,
                              .owner = r,
                              .first = first + in_slice,
                              .in_slice = in_slice,
                              .draw = draw + in_slice,
                              .count = tt_min_u64(width, count - in_slice)};
            expect_block(call, size, buffers, &at);
        }
    }
}
