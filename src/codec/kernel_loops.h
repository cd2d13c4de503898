/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_loops.h - the loops of tt_codec_kernel. No include guard: a template, included once per
 * instruction set by kernel_<isa>.c, which defines TT_KERNEL_TABLE and TT_KERNEL_NAME.
 *
 * Plain C that compilers vectorise: straight-line bodies, selects instead of branches. A file may
 * define TT_HAS_SIGNS, TT_HAS_F16 and TT_HAS_DRAW, and bring these in a better form.
 *
 * Layer:   codec, private.
 */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "codec/kernel.h"
#include "kernel/half.h"

#define EXPONENT_BITS UINT32_C(0x7f800000)
#define MAGNITUDE_BITS UINT32_C(0x7fffffff)
#define SIGN_BIT UINT32_C(0x80000000)
#define CANONICAL_NAN UINT32_C(0x7fc00000)

/* Added and taken away again, it rounds a magnitude below 2^22 to an integer, ties to even; its low
 * bits are that integer then. */
#define ROUNDER 12582912.0f
#define ROUNDER_BITS UINT32_C(0x4b400000)

static inline bool is_finite(float value)
{
    return (tt_f32_bits(value) & EXPONENT_BITS) != EXPONENT_BITS;
}

/* ---- values and residuals ---- */

static void scale_f32(float *target, const void *values, float factor, size_t count)
{
    const float *source = values;
    if (factor == 1.0f) {
        memcpy(target, source, count * sizeof(*target));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        target[i] = source[i] * factor;
    }
}

static void scale_f16(float *target, const void *values, float factor, size_t count)
{
    const uint16_t *source = values;
    for (size_t i = 0; i < count; i++) {
        target[i] = tt_f16_to_f32(source[i]) * factor;
    }
}

static void scale_bf16(float *target, const void *values, float factor, size_t count)
{
    const uint16_t *source = values;
    for (size_t i = 0; i < count; i++) {
        target[i] = tt_bf16_to_f32(source[i]) * factor;
    }
}

static void add(float *target, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        target[i] += values[i];
    }
}

static void load(float *target, const void *values, tt_dtype dtype, float factor, size_t count)
{
    if (dtype == TT_F16) {
        scale_f16(target, values, factor, count);
    } else if (dtype == TT_BF16) {
        scale_bf16(target, values, factor, count);
    } else {
        scale_f32(target, values, factor, count);
    }
}

static void store(void *target, tt_dtype dtype, const float *values, float factor, size_t count)
{
    uint16_t *halves = target;
    if (dtype == TT_F16) {
        for (size_t i = 0; i < count; i++) {
            halves[i] = tt_f16_from_f32(values[i] * factor);
        }
    } else if (dtype == TT_BF16) {
        for (size_t i = 0; i < count; i++) {
            halves[i] = tt_bf16_from_f32(values[i] * factor);
        }
    } else {
        scale_f32(target, values, factor, count);
    }
}

static void subtract(float *target, const float *values, const float *sent, const float *old,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float kept = old != NULL ? old[i] : 0.0f;
        target[i] = is_finite(sent[i]) ? values[i] - sent[i] : kept;
    }
}

/* ---- sums of a fixed shape ---- */

static float tree(float lanes[TT_CODEC_LANES])
{
    for (size_t half = TT_CODEC_LANES / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            lanes[i] += lanes[i + half];
        }
    }
    return lanes[0];
}

static float largest(const float *values, size_t count)
{
    uint32_t lanes[TT_CODEC_LANES] = {0};
    size_t i = 0;
    for (; i + TT_CODEC_LANES <= count; i += TT_CODEC_LANES) {
        for (size_t k = 0; k < TT_CODEC_LANES; k++) {
            const uint32_t bits = tt_f32_bits(values[i + k]) & MAGNITUDE_BITS;
            lanes[k] = bits > lanes[k] ? bits : lanes[k];
        }
    }
    uint32_t most = 0;
    for (; i < count; i++) {
        const uint32_t bits = tt_f32_bits(values[i]) & MAGNITUDE_BITS;
        most = bits > most ? bits : most;
    }
    for (size_t k = 0; k < TT_CODEC_LANES; k++) {
        most = lanes[k] > most ? lanes[k] : most;
    }
    return tt_f32_from_bits(most);
}

static float magnitude_sum(const float *values, size_t count)
{
    float lanes[TT_CODEC_LANES] = {0};
    size_t i = 0;
    for (; i + TT_CODEC_LANES <= count; i += TT_CODEC_LANES) {
        for (size_t k = 0; k < TT_CODEC_LANES; k++) {
            lanes[k] += tt_f32_from_bits(tt_f32_bits(values[i + k]) & MAGNITUDE_BITS);
        }
    }
    for (size_t k = 0; i + k < count; k++) {
        lanes[k] += tt_f32_from_bits(tt_f32_bits(values[i + k]) & MAGNITUDE_BITS);
    }
    return tree(lanes);
}

/* The value, if its sign bit is `wanted`; else 0. */
static inline float signed_part(float value, uint32_t wanted)
{
    const uint32_t bits = tt_f32_bits(value);
    return tt_f32_from_bits(bits >> 31 == wanted ? bits : 0);
}

static float sum_of_sign(const float *values, size_t count, uint32_t wanted)
{
    float lanes[TT_CODEC_LANES] = {0};
    size_t i = 0;
    for (; i + TT_CODEC_LANES <= count; i += TT_CODEC_LANES) {
        for (size_t k = 0; k < TT_CODEC_LANES; k++) {
            lanes[k] += signed_part(values[i + k], wanted);
        }
    }
    for (size_t k = 0; i + k < count; k++) {
        lanes[k] += signed_part(values[i + k], wanted);
    }
    return tree(lanes);
}

static void sums_by_sign(const float *values, size_t count, float sums_out[2],
                         size_t *negative_count_out)
{
    uint32_t negatives = 0;
    for (size_t i = 0; i < count; i++) {
        negatives += tt_f32_bits(values[i]) >> 31;
    }
    sums_out[0] = sum_of_sign(values, count, 0);
    sums_out[1] = sum_of_sign(values, count, 1);
    *negative_count_out = negatives;
}

/* ---- integers ---- */

static void to_int8(uint8_t *codes, const float *values, float inverse, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        codes[i] = (uint8_t)(tt_f32_bits(values[i] * inverse + ROUNDER) - ROUNDER_BITS);
    }
}

static void to_int8_random(uint8_t *codes, const float *values, float inverse,
                           const uint32_t *random, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float up = (float)(int32_t)(random[i] >> 8) * 0x1p-24f;
        const float value = values[i] * inverse;
        const float whole = (float)(int32_t)value;                 /* toward zero */
        const float below = whole - (whole > value ? 1.0f : 0.0f); /* toward -infinity */
        const int32_t code = (int32_t)below + (value - below > up ? 1 : 0);
        codes[i] = (uint8_t)code;
    }
}

static void from_int8(float *target, const uint8_t *codes, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        target[i] = (float)(int8_t)codes[i] * scale;
    }
}

static void to_ternary(uint8_t *codes, const float *values, float scale, const uint32_t *random,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float bound = (float)(int32_t)(random[i] >> 8) * 0x1p-24f * scale;
        const int32_t up = values[i] > bound ? 1 : 0, down = -values[i] > bound ? 1 : 0;
        codes[i] = (uint8_t)(up - down);
    }
}

static void to_votes(uint8_t *codes, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int32_t up = values[i] > 0.0f ? 1 : 0, down = values[i] < 0.0f ? 1 : 0;
        codes[i] = (uint8_t)(up - down);
    }
}

static void from_votes(float *target, const uint8_t *codes, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int32_t sum = (int8_t)codes[i];
        target[i] = (float)((sum > 0 ? 1 : 0) - (sum < 0 ? 1 : 0)) * scale;
    }
}

static void pack_int4(uint8_t *packed, const uint8_t *codes, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        packed[i] = (uint8_t)((codes[2 * i] & 15) | codes[2 * i + 1] << 4);
    }
    if (count % 2 != 0) {
        packed[count / 2] = codes[count - 1] & 15;
    }
}

static void unpack_int4(uint8_t *codes, const uint8_t *packed, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        codes[2 * i] = (uint8_t)((int8_t)(uint8_t)(packed[i] << 4) >> 4);
        codes[2 * i + 1] = (uint8_t)((int8_t)packed[i] >> 4);
    }
    if (count % 2 != 0) {
        codes[count - 1] = (uint8_t)((int8_t)(uint8_t)(packed[count / 2] << 4) >> 4);
    }
}

/* ---- floats of 16 bits ---- */

#ifndef TT_HAS_F16
static void halves_from_f32(uint16_t *target, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        target[i] = tt_f16_from_f32(values[i]);
    }
}

static void halves_to_f32(float *target, const uint16_t *halves, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        target[i] = tt_f16_to_f32(halves[i]);
    }
}
#endif

enum { CAST_CHUNK = 256 };

static void to_f16(uint8_t *wire, const float *values, size_t count)
{
    float clamped[CAST_CHUNK];
    uint16_t halves[CAST_CHUNK];
    for (size_t i = 0; i < count; i += CAST_CHUNK) {
        const size_t chunk = count - i < CAST_CHUNK ? count - i : CAST_CHUNK;
        for (size_t k = 0; k < chunk; k++) {
            const uint32_t bits = tt_f32_bits(values[i + k]);
            const uint32_t magnitude = bits & MAGNITUDE_BITS;
            const uint32_t most = UINT32_C(0x477fe000); /* 65504 */
            const uint32_t bounded = magnitude > most ? most : magnitude;
            const uint32_t is_nonfinite = (magnitude & EXPONENT_BITS) == EXPONENT_BITS;
            clamped[k] =
                tt_f32_from_bits(is_nonfinite ? CANONICAL_NAN : bounded | (bits & SIGN_BIT));
        }
        halves_from_f32(halves, clamped, chunk);
        memcpy(wire + 2 * i, halves, chunk * sizeof(*halves));
    }
}

static void to_f16_in_range(uint8_t *wire, const float *values, size_t count)
{
    uint16_t halves[CAST_CHUNK];
    for (size_t i = 0; i < count; i += CAST_CHUNK) {
        const size_t chunk = count - i < CAST_CHUNK ? count - i : CAST_CHUNK;
        halves_from_f32(halves, values + i, chunk);
        memcpy(wire + 2 * i, halves, chunk * sizeof(*halves));
    }
}

static void from_f16(float *target, const uint8_t *wire, size_t count)
{
    uint16_t halves[CAST_CHUNK];
    for (size_t i = 0; i < count; i += CAST_CHUNK) {
        const size_t chunk = count - i < CAST_CHUNK ? count - i : CAST_CHUNK;
        memcpy(halves, wire + 2 * i, chunk * sizeof(*halves));
        halves_to_f32(target + i, halves, chunk);
    }
}

static void to_bf16(uint8_t *wire, const float *values, size_t count)
{
    uint16_t halves[CAST_CHUNK];
    for (size_t i = 0; i < count; i += CAST_CHUNK) {
        const size_t chunk = count - i < CAST_CHUNK ? count - i : CAST_CHUNK;
        for (size_t k = 0; k < chunk; k++) {
            const uint32_t bits = tt_f32_bits(values[i + k]);
            const uint32_t magnitude = bits & MAGNITUDE_BITS;
            const uint32_t most = UINT32_C(0x7f7f0000); /* rounding must not reach infinity */
            const uint32_t bounded = magnitude > most ? most : magnitude;
            const uint32_t rounded = (bounded + 0x7fffu + ((bounded >> 16) & 1u)) >> 16;
            const uint32_t is_nonfinite = (magnitude & EXPONENT_BITS) == EXPONENT_BITS;
            halves[k] =
                (uint16_t)(is_nonfinite ? CANONICAL_NAN >> 16 : rounded | (bits & SIGN_BIT) >> 16);
        }
        memcpy(wire + 2 * i, halves, chunk * sizeof(*halves));
    }
}

static void to_bf16_in_range(uint8_t *wire, const float *values, size_t count)
{
    uint16_t halves[CAST_CHUNK];
    for (size_t i = 0; i < count; i += CAST_CHUNK) {
        const size_t chunk = count - i < CAST_CHUNK ? count - i : CAST_CHUNK;
        for (size_t k = 0; k < chunk; k++) {
            const uint32_t bits = tt_f32_bits(values[i + k]);
            halves[k] = (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
        }
        memcpy(wire + 2 * i, halves, chunk * sizeof(*halves));
    }
}

static void from_bf16(float *target, const uint8_t *wire, size_t count)
{
    uint16_t halves[CAST_CHUNK];
    for (size_t i = 0; i < count; i += CAST_CHUNK) {
        const size_t chunk = count - i < CAST_CHUNK ? count - i : CAST_CHUNK;
        memcpy(halves, wire + 2 * i, chunk * sizeof(*halves));
        for (size_t k = 0; k < chunk; k++) {
            target[i + k] = tt_bf16_to_f32(halves[k]);
        }
    }
}

/* ---- floats of 8 bits: as half.h does it, with other widths ---- */

/* E exponent bits, bias 2^(E-1) - 1, M mantissa bits. Subnormals are rounded by an addition at the
 * weight of their last place, 2^(1 - bias - M). */
#define FLOAT8_LOOPS(name, BIAS, M)                                                          \
    static void to_##name(uint8_t *wire, const float *values, float inverse, size_t count)   \
    {                                                                                        \
        const float unit = tt_f32_from_bits((uint32_t)(127 + 24 - (BIAS) - (M)) << 23);      \
        const uint32_t least = (uint32_t)(127 + 1 - (BIAS)) << 23;                           \
        for (size_t i = 0; i < count; i++) {                                                 \
            const uint32_t bits = tt_f32_bits(values[i] * inverse);                          \
            const uint32_t magnitude = bits & MAGNITUDE_BITS;                                \
            const uint32_t below =                                                           \
                tt_f32_bits(tt_f32_from_bits(magnitude) + unit) - tt_f32_bits(unit);         \
            const uint32_t odd = (magnitude >> (23 - (M))) & 1u;                             \
            const uint32_t half = (UINT32_C(1) << (22 - (M))) - 1;                           \
            const uint32_t normal =                                                          \
                (magnitude - ((uint32_t)(127 - (BIAS)) << 23) + half + odd) >> (23 - (M));   \
            const uint32_t code = magnitude < least ? below : normal;                        \
            wire[i] = (uint8_t)(code | (bits >> 24 & 0x80u));                                \
        }                                                                                    \
    }                                                                                        \
    static void from_##name(float *target, const uint8_t *wire, float scale, size_t count)   \
    {                                                                                        \
        const uint32_t least = (uint32_t)(127 + 1 - (BIAS)) << 23;                           \
        for (size_t i = 0; i < count; i++) {                                                 \
            const uint32_t shifted = (uint32_t)(wire[i] & 0x7fu) << (23 - (M));              \
            const float below = tt_f32_from_bits(shifted + least) - tt_f32_from_bits(least); \
            const uint32_t normal = shifted + ((uint32_t)(127 - (BIAS)) << 23);              \
            const uint32_t is_below = shifted < UINT32_C(1) << 23;                           \
            const uint32_t magnitude = is_below ? tt_f32_bits(below) : normal;               \
            const uint32_t sign = (uint32_t)(wire[i] & 0x80u) << 24;                         \
            target[i] = tt_f32_from_bits(magnitude | sign) * scale;                          \
        }                                                                                    \
    }

FLOAT8_LOOPS(e4m3, 7, 3)
FLOAT8_LOOPS(e5m2, 15, 2)

/* ---- powers of two ---- */

/* Codes 1 to 127 are 2^-94 to 2^32, 0 is zero; bit 7 is the sign. A mantissa of m/2^23 goes up with
 * probability m/2^23. */
enum { POWER_LEAST = 127 - 94, POWER_MOST = 127 + 32 };

static void to_powers(uint8_t *wire, const float *values, const uint32_t *random, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = tt_f32_bits(values[i]);
        const uint32_t mantissa = bits & UINT32_C(0x7fffff);
        const uint32_t up = mantissa > random[i] >> 9 ? 1 : 0;
        const uint32_t exponent = ((bits & MAGNITUDE_BITS) >> 23) + up;
        const uint32_t most = exponent > POWER_MOST ? POWER_MOST : exponent;
        const uint32_t code = most < POWER_LEAST ? 0 : most - POWER_LEAST + 1;
        wire[i] = (uint8_t)(code | (bits >> 24 & 0x80u));
    }
}

static void from_powers(float *target, const uint8_t *wire, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t code = wire[i] & 0x7fu;
        const uint32_t magnitude = code == 0 ? 0 : (code + POWER_LEAST - 1) << 23;
        const uint32_t sign = (uint32_t)(wire[i] & 0x80u) << 24;
        target[i] = tt_f32_from_bits(magnitude | sign) * factor;
    }
}

/* ---- signs ---- */

static void to_signs_from(uint8_t *bits, const float *values, size_t first, size_t count)
{
    for (size_t i = first; i < count; i += 8) {
        uint32_t byte = 0;
        for (size_t k = 0; k < 8 && i + k < count; k++) {
            byte |= (tt_f32_bits(values[i + k]) >> 31) << k;
        }
        bits[i / 8] = (uint8_t)byte;
    }
}

static void from_signs_from(float *target, const uint8_t *bits, const float pair[2], size_t first,
                            size_t count)
{
    for (size_t i = first; i < count; i++) {
        target[i] = pair[bits[i / 8] >> i % 8 & 1];
    }
}

#ifndef TT_HAS_SIGNS
static void to_signs(uint8_t *bits, const float *values, size_t count)
{
    to_signs_from(bits, values, 0, count);
}

static void from_signs(float *target, const uint8_t *bits, const float pair[2], size_t count)
{
    from_signs_from(target, bits, pair, 0, count);
}
#else
static void to_signs(uint8_t *bits, const float *values, size_t count)
{
    to_signs_from(bits, values, signs_of(bits, values, count), count);
}

static void from_signs(float *target, const uint8_t *bits, const float pair[2], size_t count)
{
    from_signs_from(target, bits, pair, values_of(target, bits, pair, count), count);
}
#endif

/* ---- random numbers ---- */

#ifndef TT_HAS_DRAW
/* How many counters were done. */
static size_t draw_wide(uint32_t *random, uint64_t seed, uint64_t counter, const uint32_t stream[2],
                        size_t blocks)
{
    (void)random;
    (void)seed;
    (void)counter;
    (void)stream;
    (void)blocks;
    return 0;
}
#endif

static void draw(uint32_t *random, uint64_t seed, uint64_t first, const uint32_t stream[2],
                 size_t count)
{
    const size_t blocks = (count + 3) / 4;
    const tt_philox_key key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    for (size_t at = draw_wide(random, seed, first / 4, stream, blocks); at < blocks; at++) {
        const uint64_t counter = first / 4 + at;
        const tt_philox_block block = tt_philox_at(
            key, (tt_philox_block){
                     {(uint32_t)counter, (uint32_t)(counter >> 32) ^ stream[0], stream[1], 0}});
        memcpy(random + 4 * at, block.word, sizeof(block.word));
    }
}

const tt_codec_kernel TT_KERNEL_TABLE = {
    .name = TT_KERNEL_NAME,
    .load = load,
    .store = store,
    .add = add,
    .subtract = subtract,
    .largest = largest,
    .magnitude_sum = magnitude_sum,
    .sums_by_sign = sums_by_sign,
    .to_int8 = to_int8,
    .from_int8 = from_int8,
    .pack_int4 = pack_int4,
    .unpack_int4 = unpack_int4,
    .to_int8_random = to_int8_random,
    .to_ternary = to_ternary,
    .to_votes = to_votes,
    .from_votes = from_votes,
    .to_f16 = to_f16,
    .to_f16_in_range = to_f16_in_range,
    .from_f16 = from_f16,
    .to_bf16 = to_bf16,
    .to_bf16_in_range = to_bf16_in_range,
    .from_bf16 = from_bf16,
    .to_e4m3 = to_e4m3,
    .from_e4m3 = from_e4m3,
    .to_e5m2 = to_e5m2,
    .from_e5m2 = from_e5m2,
    .to_powers = to_powers,
    .from_powers = from_powers,
    .to_signs = to_signs,
    .from_signs = from_signs,
    .draw = draw,
};
