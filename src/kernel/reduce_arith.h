/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_arith.h - the arithmetic of one element, for reduce_kernel.h: scale, divide.
 *
 * Everything is inlined, so that it is compiled for the instruction set of the including file.
 *
 * Layer:   kernel, private to reduce_kernel.h. No include guard: a part of that template.
 * Threads: pure.
 */

TT_INLINE float canonical_f32(float value)
{
    return value != value ? tt_f32_from_bits(UINT32_C(0x7fc00000)) : value;
}

TT_INLINE double canonical_f64(double value)
{
    return value != value ? (double)NAN : value;
}

TT_INLINE uint8_t truth(uint8_t byte)
{
    return byte != 0;
}

/* On magnitudes, because a divisor may exceed what int64_t holds. */
TT_INLINE int64_t divided_toward_zero(int64_t value, uint64_t divisor)
{
    const uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const uint64_t quotient = magnitude / divisor;
    return (int64_t)(value < 0 ? 0 - quotient : quotient);
}

/* The limit of i64 rounds up to 2^63 as a double, so it is compared with >= and never converted. */
#define TT_INTEGER_SCALE(name, type, lowest, highest)                  \
    TT_INLINE type scaled_##name(type value, double factor)            \
    {                                                                  \
        const double product = (double)value * factor;                 \
        if (product != product) {                                      \
            return 0;                                                  \
        }                                                              \
        if (product >= (double)(highest)) {                            \
            return (highest);                                          \
        }                                                              \
        return product <= (double)(lowest) ? (lowest) : (type)product; \
    }                                                                  \
    TT_INLINE type divided_##name(type value, uint64_t divisor)        \
    {                                                                  \
        return (type)divided_toward_zero(value, divisor);              \
    }

TT_INTEGER_SCALE(u8, uint8_t, 0, UINT8_MAX)
TT_INTEGER_SCALE(i8, int8_t, INT8_MIN, INT8_MAX)
TT_INTEGER_SCALE(u16, uint16_t, 0, UINT16_MAX)
TT_INTEGER_SCALE(i16, int16_t, INT16_MIN, INT16_MAX)
TT_INTEGER_SCALE(i32, int32_t, INT32_MIN, INT32_MAX)
TT_INTEGER_SCALE(i64, int64_t, INT64_MIN, INT64_MAX)

TT_INLINE float scaled_f32(float value, double factor)
{
    return value * (float)factor;
}

TT_INLINE float divided_f32(float value, uint64_t divisor)
{
    return value / (float)divisor;
}

TT_INLINE double scaled_f64(double value, double factor)
{
    return value * factor;
}

TT_INLINE double divided_f64(double value, uint64_t divisor)
{
    return value / (double)divisor;
}

TT_INLINE uint8_t scaled_boolean(uint8_t value, double factor)
{
    return factor == 0.0 ? 0 : value;
}

TT_INLINE uint8_t divided_boolean(uint8_t value, uint64_t divisor)
{
    (void)divisor;
    return value;
}
