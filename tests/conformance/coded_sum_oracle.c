/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_sum_oracle.c - the result of sums of levels, one block after the other, from the
 * definitions of the three codecs. Of the library it has draws and the mean magnitude, whose order
 * of additions is a part of the definition. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "codec/registry.h"
#include "conformance/coded.h"
#include "kernel/half.h"

/* One block, of all ranks. */
typedef struct summed_block {
    const coded_call *call;
    uint32_t size;
    uint64_t first, count;
    float scale; /* the largest of all ranks; NaN: of a rank that has no finite one */
    float values[CODED_RANKS_MAX][TT_CODEC_BLOCK_MAX];
    int32_t sums[TT_CODEC_BLOCK_MAX];
} summed_block;

static bool is_named(const coded_call *call, const char *name)
{
    return strcmp(tt_codec_name(call->codec), name) == 0;
}

static void load(summed_block *block, uint32_t rank, const coded_buffers *buffers)
{
    const coded_call *call = block->call;
    for (uint64_t i = 0; i < block->count; i++) {
        const uint64_t index = block->first + i;
        float value;
        if (call->dtype == TT_F32) {
            value = ((const float *)buffers->input)[index];
        } else {
            const uint16_t half = ((const uint16_t *)buffers->input)[index];
            value = call->dtype == TT_F16 ? tt_f16_to_f32(half) : tt_bf16_to_f32(half);
        }
        value *= call->prescale;
        block->values[rank][i] =
            buffers->residual != NULL ? value + buffers->residual[index] : value;
    }
}

static float own_scale(const summed_block *block, uint32_t rank)
{
    const float *values = block->values[rank];
    float most = 0.0f;
    for (uint64_t i = 0; i < block->count; i++) {
        if (!isfinite(values[i])) {
            return NAN;
        }
        most = fmaxf(most, fabsf(values[i]));
    }
    if (!is_named(block->call, "majority")) {
        return most;
    }
    return tt_codec_kernel_plain.magnitude_sum(values, block->count) / (float)block->count;
}

/* Steps from zero to the scale. */
static uint32_t steps_of(const summed_block *block)
{
    return is_named(block->call, "int8sum") ? 127 / block->size : 1;
}

static int32_t sign_of(float value)
{
    return value > 0.0f ? 1 : value < 0.0f ? -1 : 0;
}

static int32_t level_of(const summed_block *block, uint32_t rank, uint64_t index)
{
    const float value = block->values[rank][index];
    if (block->scale < 0x1p-100f) {
        return 0;
    }
    if (is_named(block->call, "int8sum")) {
        return (int32_t)nearbyintf(value * ((float)steps_of(block) / block->scale));
    }
    if (is_named(block->call, "majority")) {
        return sign_of(value);
    }
    const tt_codec_draw draw = coded_draw_of(block->call, rank);
    const uint32_t stream[2] = {draw.tensor, draw.occurrence};
    const uint64_t element = block->first + index;
    uint32_t random[4];
    tt_codec_kernel_plain.draw(random, draw.seed, element / 4 * 4, stream, 4);
    const float part = (float)(random[element % 4] >> 8) / 16777216.0f;
    return fabsf(value) > part * block->scale ? sign_of(value) : 0;
}

/* The levels of one rank, and what they leave. */
static void add_rank(summed_block *block, uint32_t rank, coded_buffers *buffers)
{
    const float step = block->scale / (float)steps_of(block);
    for (uint64_t i = 0; i < block->count; i++) {
        const uint64_t index = block->first + i;
        const int32_t level = isnan(block->scale) ? 0 : level_of(block, rank, i);
        const float old = buffers->residual != NULL ? buffers->residual[index] : 0.0f;
        block->sums[i] += level;
        if (buffers->residual_out != NULL) {
            buffers->residual_out[index] =
                isnan(block->scale) ? old : block->values[rank][i] - (float)level * step;
        }
    }
    buffers->uncoded += isnan(block->scale) ? block->count : 0;
}

static float result_of(const summed_block *block, int32_t sum)
{
    const coded_call *call = block->call;
    const bool is_vote = is_named(call, "majority");
    const double divisor = call->redop == TT_AVERAGE ? block->size : 1.0;
    const float factor = (float)(call->postscale / divisor) * (is_vote ? (float)block->size : 1.0f);
    const float step = block->scale / (float)steps_of(block) * factor;
    return (float)(is_vote ? sign_of((float)sum) : sum) * step;
}

static void store(const coded_call *call, void *values, uint64_t index, float value)
{
    if (call->dtype == TT_F32) {
        ((float *)values)[index] = value;
    } else {
        ((uint16_t *)values)[index] =
            call->dtype == TT_F16 ? tt_f16_from_f32(value) : tt_bf16_from_f32(value);
    }
}

void coded_expect_summed(const coded_call *call, uint32_t size, coded_buffers *buffers)
{
    static summed_block block;
    TT_ASSERT(size <= CODED_RANKS_MAX);
    for (uint64_t first = 0; first < call->count; first += call->codec->block) {
        memset(&block, 0, sizeof(block));
        block.call = call;
        block.size = size;
        block.first = first;
        block.count = tt_min_u64(call->codec->block, call->count - first);
        for (uint32_t r = 0; r < size; r++) {
            load(&block, r, &buffers[r]);
            const float own = own_scale(&block, r);
            block.scale = isnan(own) || isnan(block.scale) ? NAN : fmaxf(own, block.scale);
        }
        for (uint32_t r = 0; r < size; r++) {
            add_rank(&block, r, &buffers[r]);
        }
        for (uint32_t r = 0; r < size; r++) {
            for (uint64_t i = 0; i < block.count; i++) {
                store(call, buffers[r].output, first + i, result_of(&block, block.sums[i]));
            }
        }
    }
}
