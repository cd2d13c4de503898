/* SPDX-License-Identifier: Apache-2.0
 *
 * half.h - binary16 (f16) and bfloat16 to and from binary32, in plain C.
 *
 * Narrowing rounds to nearest, ties to even; too large becomes infinity; subnormals are exact.
 * NaN stays NaN and becomes quiet, sign and upper payload kept, as the F16C instructions do.
 * Everything is straight-line selects, so that loops over these functions vectorise.
 *
 * Layer:   kernel.
 * Threads: pure; the floating-point environment must round to nearest (the C default).
 */
#ifndef TUTTI_KERNEL_HALF_H
#define TUTTI_KERNEL_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t tt_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float tt_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float tt_f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t shifted = (uint32_t)(half & 0x7fffu) << 13;
    const uint32_t quiet = (half & 0x7fffu) > 0x7c00u ? UINT32_C(1) << 22 : 0;

    /* A subnormal m * 2^-24 is the exact difference (2^-14 + m * 2^-24) - 2^-14, which never
     * touches a binary32 subnormal: those are slow, and lost where the caller flushes them. */
    const float smallest_normal = tt_f32_from_bits(UINT32_C(113) << 23);
    const float subnormal = tt_f32_from_bits(shifted + (UINT32_C(113) << 23)) - smallest_normal;

    const uint32_t normal = shifted + (UINT32_C(112) << 23);
    const uint32_t special = shifted | (UINT32_C(255) << 23) | quiet;
    uint32_t bits = shifted < (UINT32_C(1) << 23) ? tt_f32_bits(subnormal) : normal;
    bits = shifted >= (UINT32_C(31) << 23) ? special : bits;
    return tt_f32_from_bits(bits | sign);
}

static inline uint16_t tt_f16_from_f32(float value)
{
    const uint32_t bits = tt_f32_bits(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & UINT32_C(0x7fffffff);

    /* Below 2^-14: adding 0.5 lets the adder round at the weight of a binary16 subnormal. */
    const uint32_t subnormal = tt_f32_bits(tt_f32_from_bits(magnitude) + 0.5f) - tt_f32_bits(0.5f);

    /* Re-bias the exponent and round: half of the last place, less one unless it is odd. */
    const uint32_t odd = (magnitude >> 13) & 1u;
    const uint32_t normal = (magnitude - (UINT32_C(112) << 23) + 0xfffu + odd) >> 13;

    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    const uint32_t special = magnitude > UINT32_C(0x7f800000) ? nan : 0x7c00u;
    uint32_t half = magnitude < (UINT32_C(113) << 23) ? subnormal : normal;
    half = magnitude >= (UINT32_C(143) << 23) ? special : half;
    return (uint16_t)(half | sign);
}

static inline float tt_bf16_to_f32(uint16_t half)
{
    return tt_f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t tt_bf16_from_f32(float value)
{
    const uint32_t bits = tt_f32_bits(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? nan : rounded);
}

#endif
