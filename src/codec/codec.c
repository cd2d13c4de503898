/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.c - tensors in blocks: scaling, residuals, values that are not finite. */
#include "codec/codec.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "codec/block.h"

const tt_codec_kernel *tt_codec_kernel_at(size_t index)
{
#if defined(__x86_64__)
#if defined(__clang__)
    const bool has_f16c = true; /* clang cannot ask; every processor with AVX2 has it */
#else
    const bool has_f16c = __builtin_cpu_supports("f16c");
#endif
    const bool has_avx2 = __builtin_cpu_supports("avx2") && has_f16c;
    const bool has_avx512 =
        has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (has_avx512 && index-- == 0) {
        return &tt_codec_kernel_avx512;
    }
    if (has_avx2 && index-- == 0) {
        return &tt_codec_kernel_avx2;
    }
#endif
    return index == 0 ? &tt_codec_kernel_plain : NULL;
}

float tt_block_head(const uint8_t *wire, size_t index)
{
    float value;
    memcpy(&value, wire + index * sizeof(value), sizeof(value));
    return value;
}

void tt_block_set_head(uint8_t *wire, size_t index, float value)
{
    memcpy(wire + index * sizeof(value), &value, sizeof(value));
}

const char *tt_codec_name(const tt_codec_spec *spec)
{
    return spec->codec->name;
}

uint32_t tt_codec_traits(const tt_codec_spec *spec)
{
    return spec->codec->traits;
}

double tt_codec_omega(const tt_codec_spec *spec)
{
    return spec->codec->omega != NULL ? spec->codec->omega(spec) : 0.0;
}

static size_t block_bytes(const tt_codec_spec *spec, size_t count)
{
    return spec->codec->head_bytes + spec->codec->bytes(spec, count);
}

uint64_t tt_codec_wire_bytes(const tt_codec_spec *spec, uint64_t count)
{
    const uint64_t rest = count % spec->block;
    return count / spec->block * block_bytes(spec, spec->block) +
           (rest > 0 ? block_bytes(spec, rest) : 0);
}

/* ---- encoding ---- */

static bool is_elementwise(const tt_codec_spec *spec)
{
    return spec->codec->head_bytes == 0;
}

/* A scale is not negative, and finite unless the block is all NaN. Of two heads the second is not
 * positive: see onebit.c. */
static bool has_good_heads(const tt_codec_spec *spec, const uint8_t *wire)
{
    const size_t heads = spec->codec->head_bytes / sizeof(float);
    if (heads == 0 || isnan(tt_block_head(wire, 0))) {
        return true;
    }
    const float first = tt_block_head(wire, 0);
    const float second = heads > 1 ? tt_block_head(wire, 1) : 0.0f;
    return isfinite(first) && first >= 0.0f && isfinite(second) && second <= 0.0f;
}

void tt_block_keep_residual(const tt_codec_source *part)
{
    if (part->residual_out != NULL && part->residual != NULL) {
        memmove(part->residual_out, part->residual, part->count * sizeof(float));
    } else if (part->residual_out != NULL) {
        memset(part->residual_out, 0, part->count * sizeof(float));
    }
}

/* NaN in all elements; the residual stays as it was. */
static void encode_nan(const tt_codec_spec *spec, const tt_codec_source *part, uint8_t *wire)
{
    memset(wire, 0, block_bytes(spec, part->count));
    tt_block_set_head(wire, 0, NAN);
    tt_block_keep_residual(part);
}

static uint64_t count_nonfinite(const float *values, size_t count)
{
    uint64_t nonfinite = 0;
    for (size_t i = 0; i < count; i++) {
        nonfinite += isfinite(values[i]) ? 0 : 1;
    }
    return nonfinite;
}

const float *tt_block_values(const tt_codec_kernel *kernel, const tt_codec_source *part,
                             float *room)
{
    if (part->dtype == TT_F32 && part->factor == 1.0f && part->residual == NULL) {
        return part->values;
    }
    kernel->load(room, part->values, part->dtype, part->factor, part->count);
    if (part->residual != NULL) {
        kernel->add(room, part->residual, part->count);
    }
    return room;
}

void tt_codec_load(const tt_codec_source *source, float *target)
{
    const tt_codec_kernel *kernel = tt_codec_kernel_at(0);
    TT_ASSERT(source->dtype == TT_F32 || source->dtype == TT_F16 || source->dtype == TT_BF16);
    kernel->load(target, source->values, source->dtype, source->factor, source->count);
    if (source->residual != NULL) {
        kernel->add(target, source->residual, source->count);
    }
}

void tt_codec_store(const float *source, const tt_codec_target *target)
{
    TT_ASSERT(target->dtype == TT_F32 || target->dtype == TT_F16 || target->dtype == TT_BF16);
    tt_codec_kernel_at(0)->store(target->values, target->dtype, source, target->factor,
                                 target->count);
}

/* One block. */
static uint64_t encode_block(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                             const tt_codec_source *part, uint8_t *wire)
{
    float room[TT_CODEC_BLOCK_MAX], sent[TT_CODEC_BLOCK_MAX];
    TT_ASSERT(part->count > 0 && part->count <= spec->block);
    const float *values = tt_block_values(kernel, part, room);
    const float largest = kernel->largest(values, part->count);
    const uint64_t nonfinite = isfinite(largest) ? 0 : count_nonfinite(values, part->count);
    if (nonfinite > 0 && !is_elementwise(spec)) {
        encode_nan(spec, part, wire);
        return nonfinite;
    }
    const tt_block block = {
        .spec = spec,
        .kernel = kernel,
        .values = values,
        .count = part->count,
        .largest = largest,
        .first = part->first,
        .draw = &part->draw,
        .shrink = spec->has_feedback ? (float)(1.0 / (1.0 + tt_codec_omega(spec))) : 1.0f,
    };
    spec->codec->encode(&block, wire);
    if (!has_good_heads(spec, wire)) { /* a sum of huge values was too large */
        encode_nan(spec, part, wire);
        return part->count;
    }
    if (part->residual_out != NULL) {
        spec->codec->decode(spec, kernel, wire, sent, part->count);
        kernel->subtract(part->residual_out, values, sent, part->residual, part->count);
    }
    return nonfinite;
}

tt_codec_source tt_block_of(const tt_codec_spec *spec, const tt_codec_source *source, size_t at)
{
    tt_codec_source part = *source;
    part.first += at;
    part.count = tt_min_u64(spec->block, source->count - at);
    part.values = (const uint8_t *)source->values + at * tt_dtype_bytes(source->dtype);
    part.residual = source->residual != NULL ? source->residual + at : NULL;
    part.residual_out = source->residual_out != NULL ? source->residual_out + at : NULL;
    return part;
}

uint64_t tt_codec_encode(const tt_codec_spec *spec, const tt_codec_source *source, uint8_t *wire)
{
    const tt_codec_kernel *kernel = tt_codec_kernel_at(0);
    uint64_t nonfinite = 0;
    TT_ASSERT(source->dtype == TT_F32 || source->dtype == TT_F16 || source->dtype == TT_BF16);
    TT_ASSERT(source->first % spec->block == 0);
    for (size_t at = 0; at < source->count; at += spec->block) {
        const tt_codec_source part = tt_block_of(spec, source, at);
        nonfinite += encode_block(spec, kernel, &part, wire);
        wire += block_bytes(spec, part.count);
    }
    return nonfinite;
}

/* ---- decoding ---- */

tt_status tt_codec_check(const tt_codec_spec *spec, const uint8_t *wire, size_t wire_bytes,
                         uint64_t count)
{
    if (wire_bytes != tt_codec_wire_bytes(spec, count)) {
        return TT_ERR_BAD_WIRE;
    }
    const size_t bytes = block_bytes(spec, spec->block);
    for (uint64_t at = 0; at < count; at += spec->block, wire += bytes) {
        if (!has_good_heads(spec, wire)) {
            return TT_ERR_BAD_WIRE;
        }
    }
    return TT_OK;
}

static void decode_block(const tt_codec_spec *spec, const tt_codec_kernel *kernel,
                         const uint8_t *wire, float *values, size_t count)
{
    if (!is_elementwise(spec) && isnan(tt_block_head(wire, 0))) {
        for (size_t i = 0; i < count; i++) {
            values[i] = NAN;
        }
        return;
    }
    spec->codec->decode(spec, kernel, wire, values, count);
}

void tt_codec_decode_add(const tt_codec_spec *spec, const uint8_t *wire, float *target,
                         size_t count)
{
    const tt_codec_kernel *kernel = tt_codec_kernel_at(0);
    float values[TT_CODEC_BLOCK_MAX];
    for (size_t at = 0; at < count; at += spec->block) {
        const size_t some = tt_min_u64(spec->block, count - at);
        decode_block(spec, kernel, wire, values, some);
        kernel->add(target + at, values, some);
        wire += block_bytes(spec, some);
    }
}

void tt_codec_decode(const tt_codec_spec *spec, const uint8_t *wire, const tt_codec_target *target)
{
    const tt_codec_kernel *kernel = tt_codec_kernel_at(0);
    const size_t element_bytes = tt_dtype_bytes(target->dtype);
    float values[TT_CODEC_BLOCK_MAX];
    TT_ASSERT(target->dtype == TT_F32 || target->dtype == TT_F16 || target->dtype == TT_BF16);
    for (size_t at = 0; at < target->count; at += spec->block) {
        const size_t some = tt_min_u64(spec->block, target->count - at);
        decode_block(spec, kernel, wire, values, some);
        kernel->store((uint8_t *)target->values + at * element_bytes, target->dtype, values,
                      target->factor, some);
        wire += block_bytes(spec, some);
    }
}

void tt_codec_decode_known(const tt_codec_spec *spec, const uint8_t *wire, float *known,
                           float *lost, size_t count)
{
    const tt_codec_kernel *kernel = tt_codec_kernel_at(0);
    float values[TT_CODEC_BLOCK_MAX], room[TT_CODEC_BLOCK_MAX];
    for (size_t at = 0; at < count; at += spec->block) {
        const size_t some = tt_min_u64(spec->block, count - at);
        decode_block(spec, kernel, wire, values, some);
        kernel->subtract(room, known + at, values, known + at, some);
        memcpy(known + at, room, some * sizeof(float));
        if (lost != NULL) { /* x - x is 0, unless x is not finite */
            kernel->subtract(room, values, values, values, some);
            kernel->add(lost + at, room, some);
        }
        wire += block_bytes(spec, some);
    }
}
