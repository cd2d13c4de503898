/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_oracle.c - the result of coded exchanges, one block after the other, from codec.h and plain
 * arithmetic. It computes owners and numbers of draws itself, independently of the library. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "conformance/coded.h"
#include "kernel/half.h"

/* One block of the vector. */
typedef struct block {
    uint32_t owner;
    uint64_t first;    /* element of the input */
    uint64_t in_slice; /* of the owner's slice */
    uint64_t draw;
    uint64_t count;
} block;

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
    const uint64_t width = call->codec->block;
    const uint64_t blocks = (call->count + width - 1) / width;
    uint64_t first = 0, next = 0;
    if (call->collective == TT_REDUCESCATTER) {
        *first_out = part_first(call, rank);
        return coded_output_count(call, size, rank);
    }
    for (uint32_t r = 0; r <= rank; r++) { /* the blocks that remain, shared by those that remain */
        const uint64_t left = blocks - next, ranks = size - r;
        first = next;
        next += (left + ranks - 1) / ranks;
    }
    *first_out = tt_min_u64(first * width, call->count);
    return tt_min_u64(next * width, call->count) - *first_out;
}

/* The value of rank `rank` for element `i` of a block: scaled, its residual added. */
static float contribution(const coded_call *call, const coded_buffers *buffers, uint64_t index)
{
    const float scaled = value_at(call, buffers->input, index) * call->prescale;
    return buffers->residual != NULL ? scaled + buffers->residual[index] : scaled;
}

/* What the owner gets of one rank's block: coded, unless the rank is the owner. */
static void receive(const coded_call *call, uint32_t rank, coded_buffers *buffers, const block *at,
                    float *values)
{
    float exact[TT_CODEC_BLOCK_MAX];
    uint8_t wire[8 * TT_CODEC_BLOCK_MAX];
    for (uint64_t i = 0; i < at->count; i++) {
        exact[i] = contribution(call, buffers, at->first + i);
    }
    if (rank == at->owner) {
        memcpy(values, exact, at->count * sizeof(float));
        for (uint64_t i = 0; buffers->residual_out != NULL && i < at->count; i++) {
            buffers->residual_out[at->first + i] = 0.0f;
        }
        return;
    }
    const bool has_new = buffers->residual_out != NULL, has_old = buffers->residual != NULL;
    const tt_codec_source source = {
        .values = (const uint8_t *)buffers->input + at->first * tt_dtype_bytes(call->dtype),
        .dtype = call->dtype,
        .factor = call->prescale,
        .first = at->draw,
        .count = at->count,
        .residual = has_old ? buffers->residual + at->first : NULL,
        .residual_out = has_new ? buffers->residual_out + at->first : NULL,
        .draw = coded_draw(rank)};
    const tt_codec_target target = {
        .values = values, .dtype = TT_F32, .factor = 1.0f, .count = at->count};
    buffers->uncoded += tt_codec_encode(call->codec, &source, wire);
    tt_codec_decode(call->codec, wire, &target);
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
        .draw = coded_draw(at->owner)};
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

static void expect_block(const coded_call *call, uint32_t size, coded_buffers *buffers,
                         const block *at)
{
    float sums[TT_CODEC_BLOCK_MAX] = {0}, values[TT_CODEC_BLOCK_MAX];
    for (uint32_t r = 0; r < size; r++) {
        receive(call, r, &buffers[r], at, values);
        for (uint64_t i = 0; i < at->count; i++) {
            sums[i] += values[i];
        }
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
        float value = finished(call, 1, contribution(call, self, i));
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
    }
}

void coded_expect(const coded_call *call, uint32_t size, coded_buffers *buffers)
{
    const uint64_t width = call->codec->block;
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
            const block at = {.owner = r,
                              .first = first + in_slice,
                              .in_slice = in_slice,
                              .draw = draw + in_slice,
                              .count = tt_min_u64(width, count - in_slice)};
            expect_block(call, size, buffers, &at);
        }
    }
}
