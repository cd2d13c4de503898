/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_arith.h - the arithmetic of one element, for reduce_kernel.h: apply, scale, divide.
 *
 * Everything is inlined, so that it is compiled for the instruction set of the including file.
 *
 * Layer:   base, private to reduce_kernel.h. No include guard: a part of that template.
 * Threads: pure.
 */
#define TT_INLINE static inline __attribute__((always_inline))

/* `redop` is a constant at every call, so only one arm remains. `wide` is an unsigned type that
 * neither overflows nor is promoted to a signed one. */
#define TT_INTEGER_APPLY(name, type, wide)                      \
    TT_INLINE type apply_##name(tt_redop redop, type a, type b) \
    {                                                           \
        switch (redop) {                                        \
        case TT_MIN:                                            \
            return b < a ? b : a;                               \
        case TT_MAX:                                            \
            return b > a ? b : a;                               \
        case TT_PRODUCT:                                        \
            return (type)((wide)a * (wide)b);                   \
        case TT_AND:                                            \
            return (type)(a & b);                               \
        case TT_OR:                                             \
            return (type)(a | b);                               \
        case TT_XOR:                                            \
            return (type)(a ^ b);                               \
        default:                                                \
            return (type)((wide)a + (wide)b);                   \
        }                                                       \
    }

TT_INTEGER_APPLY(u8, uint8_t, uint32_t)
TT_INTEGER_APPLY(i8, int8_t, uint32_t)
TT_INTEGER_APPLY(u16, uint16_t, uint32_t)
TT_INTEGER_APPLY(i16, int16_t, uint32_t)
TT_INTEGER_APPLY(i32, int32_t, uint32_t)
TT_INTEGER_APPLY(i64, int64_t, uint64_t)

/* Either operand NaN gives a NaN here; the store makes it the canonical one. */
#define TT_FLOAT_APPLY(name, type)                              \
    TT_INLINE type apply_##name(tt_redop redop, type a, type b) \
    {                                                           \
        switch (redop) {                                        \
        case TT_MIN:                                            \
            return b != b ? b : (b < a ? b : a);                \
        case TT_MAX:                                            \
            return b != b ? b : (b > a ? b : a);                \
        case TT_PRODUCT:                                        \
            return a * b;                                       \
        default:                                                \
            return a + b;                                       \
        }                                                       \
    }

TT_FLOAT_APPLY(f32, float)
TT_FLOAT_APPLY(f64, double)

/* Operands are 0 or 1. */
TT_INLINE uint8_t apply_boolean(tt_redop redop, uint8_t a, uint8_t b)
{
    switch (redop) {
    case TT_MIN:
    case TT_PRODUCT:
    case TT_AND:
        return a & b;
    case TT_XOR:
        return a ^ b;
    default:
        return a | b;
    }
}

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
