/* SPDX-License-Identifier: Apache-2.0
 *
 * summed.c - codes that are added as they are: int8sum (as int8, with scales that ranks share),
 * terngrad (Wen et al. 2017) and majority (signSGD by majority vote, Bernstein et al. 2018).
 *
 * int8sum divides the 127 steps of a byte among the ranks. An element of one rank is off by at most
 * half a step, scale / (2 * floor(127 / ranks)), and never by more than its own magnitude, because
 * 0 is a level, too. So residuals stay below half a step.
 *
 * terngrad sends the sign of x with probability |x| / scale. Its error depends on the scale of all
 * ranks, not on the block alone: it has no bound in terms of the block that error feedback needs.
 *
 * majority sends signs; zeros abstain. The result is the sign of the sum, times a scale, for each
 * rank that was summed; a tie is 0, so that elements that are zero on all ranks remain zero. The
 * papers leave the scale to the learning rate. Here it is the largest mean magnitude |x|_1 / n of
 * any rank's block: of a single rank that is the contraction of `sign`, but a vote is none, and
 * nothing that a rank keeps makes up for a vote that it has lost. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "codec/registry.h"

enum { HEAD_BYTES = sizeof(float), BLOCK = 512 };

/* Levels of one rank, from 0 to the scale. */
static uint32_t steps_of(const tt_summed *summed, uint32_t ranks)
{
    TT_ASSERT(ranks > 0 && ranks <= TT_CODEC_RANKS_MAX);
    return summed->is_divided ? TT_CODEC_RANKS_MAX / ranks : 1;
}

/* Levels of finite values; all are 0 where the scale itself would lose bits. */
static void fill_levels(const tt_block *block, float scale, uint32_t ranks, uint8_t *levels)
{
    const tt_summed *summed = block->spec->codec->summed;
    if (scale < TT_BLOCK_LEAST) {
        memset(levels, 0, block->count);
        return;
    }
    summed->levels(block, scale, steps_of(summed, ranks), levels);
}

/* ---- tensors in blocks ---- */

uint64_t tt_codec_block_count(const tt_codec_spec *spec, uint64_t count)
{
    return count / spec->block + (count % spec->block != 0);
}

void tt_codec_scales(const tt_codec_spec *spec, const tt_codec_source *source, float *scales)
{
    const tt_codec_kernel *kernel = tt_codec_kernel_at(0);
    float room[TT_CODEC_BLOCK_MAX];
    TT_ASSERT(spec->codec->summed != NULL && source->first % spec->block == 0);
    for (size_t at = 0; at < source->count; at += spec->block) {
        const tt_codec_source part = tt_block_of(spec, source, at);
        const float *values = tt_block_values(kernel, &part, room);
        *scales++ = spec->codec->summed->scale(kernel, values, part.count);
    }
}

/* One block; how many elements could not be coded. A faulty peer may have changed the scale: values
 * beyond it have no level. */
static uint64_t levels_of_block(const tt_codec_spec *spec, const tt_codec_source *part, float scale,
                                uint32_t ranks, uint8_t *levels)
{
    const tt_codec_kernel *kernel = tt_codec_kernel_at(0);
    const tt_summed *summed = spec->codec->summed;
    float room[TT_CODEC_BLOCK_MAX], sent[TT_CODEC_BLOCK_MAX];
    const float *values = tt_block_values(kernel, part, room);
    if (!isfinite(scale) || !(summed->scale(kernel, values, part->count) <= scale)) {
        memset(levels, 0, part->count);
        tt_block_keep_residual(part);
        return part->count;
    }
    const tt_block block = {
        .spec = spec,
        .kernel = kernel,
        .values = values,
        .count = part->count,
        .first = part->first,
        .draw = &part->draw,
    };
    fill_levels(&block, scale, ranks, levels);
    if (part->residual_out != NULL) {
        const float step = scale / (float)steps_of(summed, ranks);
        summed->decode(kernel, levels, step, sent, part->count);
        kernel->subtract(part->residual_out, values, sent, part->residual, part->count);
    }
    return 0;
}

uint64_t tt_codec_levels(const tt_codec_spec *spec, const tt_codec_source *source,
                         const tt_codec_shared *shared, uint8_t *levels)
{
    uint64_t uncoded = 0;
    TT_ASSERT(spec->codec->summed != NULL && source->first % spec->block == 0);
    for (size_t at = 0; at < source->count; at += spec->block) {
        const tt_codec_source part = tt_block_of(spec, source, at);
        uncoded += levels_of_block(spec, &part, shared->scales[at / spec->block], shared->ranks,
                                   levels + at);
    }
    return uncoded;
}

/* The factor is a part of the step, so that a mean is finite wherever its values are. */
static float step_of_sums(const tt_summed *summed, float scale, uint32_t ranks, float factor)
{
    const float weight = summed->is_vote ? (float)ranks : 1.0f;
    return isfinite(scale) ? scale / (float)steps_of(summed, ranks) * (factor * weight) : NAN;
}

void tt_codec_decode_sums(const tt_codec_spec *spec, const uint8_t *sums,
                          const tt_codec_shared *shared, const tt_codec_target *target)
{
    const tt_codec_kernel *kernel = tt_codec_kernel_at(0);
    const tt_summed *summed = spec->codec->summed;
    const size_t width = tt_dtype_bytes(target->dtype);
    float room[TT_CODEC_BLOCK_MAX];
    TT_ASSERT(summed != NULL);
    TT_ASSERT(target->dtype == TT_F32 || target->dtype == TT_F16 || target->dtype == TT_BF16);
    for (size_t at = 0; at < target->count; at += spec->block) {
        const size_t some = tt_min_u64(spec->block, target->count - at);
        const float scale = shared->scales[at / spec->block];
        const float step = step_of_sums(summed, scale, shared->ranks, target->factor);
        uint8_t *values = (uint8_t *)target->values + at * width;
        float *decoded = target->dtype == TT_F32 ? (float *)(void *)values : room;
        summed->decode(kernel, sums + at, step, decoded, some); /* NaN * 0 is NaN */
        if (decoded == room) {
            kernel->store(values, target->dtype, room, 1.0f, some);
        }
    }
}

/* ---- one block of a rank that sums alone: its scale, then its levels ---- */

static size_t level_bytes(const tt_codec_spec *spec, size_t count)
{
    (void)spec;
    return count;
}

static void alone_encode(const tt_block *block, uint8_t *wire)
{
    const tt_summed *summed = block->spec->codec->summed;
    const float scale = summed->scale(block->kernel, block->values, block->count);
    tt_block_set_head(wire, 0, scale < TT_BLOCK_LEAST ? 0.0f : scale);
    fill_levels(block, scale, 1, wire + HEAD_BYTES);
}

static void alone_decode(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                         const uint8_t *wire, float *target, size_t count)
{
    const tt_summed *summed = spec->codec->summed;
    const float step = tt_block_head(wire, 0) / (float)steps_of(summed, 1);
    summed->decode(kernel, wire + HEAD_BYTES, step, target, count);
}

/* ---- the codecs ---- */

static float largest_scale(const tt_codec_kernel *kernel, const float *values, size_t count)
{
    return kernel->largest(values, count);
}

static float mean_scale(const tt_codec_kernel *kernel, const float *values, size_t count)
{
    return kernel->magnitude_sum(values, count) / (float)count;
}

static void nearest_levels(const tt_block *block, float scale, uint32_t steps, uint8_t *levels)
{
    block->kernel->to_int8(levels, block->values, (float)steps / scale, block->count);
}

static void random_levels(const tt_block *block, float scale, uint32_t steps, uint8_t *levels)
{
    uint32_t random[TT_CODEC_BLOCK_MAX];
    const uint32_t stream[2] = {block->draw->tensor, block->draw->occurrence};
    TT_DEBUG_ASSERT(steps == 1);
    (void)steps;
    block->kernel->draw(random, block->draw->seed, block->first, stream, block->count);
    block->kernel->to_ternary(levels, block->values, scale, random, block->count);
}

static void vote_levels(const tt_block *block, float scale, uint32_t steps, uint8_t *levels)
{
    (void)scale;
    (void)steps;
    block->kernel->to_votes(levels, block->values, block->count);
}

static void level_decode(const tt_codec_kernel *kernel, const uint8_t *sums, float step,
                         float *target, size_t count)
{
    kernel->from_int8(target, sums, step, count);
}

static void vote_decode(const tt_codec_kernel *kernel, const uint8_t *sums, float step,
                        float *target, size_t count)
{
    kernel->from_votes(target, sums, step, count);
}

/* The variance of an element is |x| (s - |x|). With s the largest of n, the sum of |x| s is at most
 * (sqrt(n) + 1) / 2 times that of x^2: one element is s, all others s / (sqrt(n) + 1). */
static double ternary_omega(const tt_codec_spec *spec)
{
    return (sqrt((double)spec->block) - 1.0) / 2.0;
}

static const tt_summed int8sum = {
    .is_divided = true,
    .scale = largest_scale,
    .levels = nearest_levels,
    .decode = level_decode,
};

const tt_codec tt_codec_int8sum = {
    .name = "int8sum",
    .summary = "8-bit integers that are added as they are, a scale per block for all ranks",
    .traits = TT_CODEC_CONTRACTION | TT_CODEC_SUMMABLE,
    .block = BLOCK,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = level_bytes,
    .encode = alone_encode,
    .decode = alone_decode,
    .summed = &int8sum,
};

static const tt_summed terngrad = {
    .scale = largest_scale,
    .levels = random_levels,
    .decode = level_decode,
};

const tt_codec tt_codec_terngrad = {
    .name = "terngrad",
    .summary = "-1, 0 or 1 at random: right on average, a scale per block for all ranks",
    .traits = TT_CODEC_UNBIASED | TT_CODEC_SUMMABLE,
    .block = BLOCK,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = level_bytes,
    .encode = alone_encode,
    .decode = alone_decode,
    .omega = ternary_omega,
    .summed = &terngrad,
};

static const tt_summed majority = {
    .is_vote = true,
    .scale = mean_scale,
    .levels = vote_levels,
    .decode = vote_decode,
};

const tt_codec tt_codec_majority = {
    .name = "majority",
    .summary = "signs by majority vote, and the largest of the ranks' mean magnitudes of a block",
    .traits = TT_CODEC_SUMMABLE,
    .block = BLOCK,
    .has_block = true,
    .head_bytes = HEAD_BYTES,
    .bytes = level_bytes,
    .encode = alone_encode,
    .decode = alone_decode,
    .summed = &majority,
};
