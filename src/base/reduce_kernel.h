/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_kernel.h - the reduction kernels, as plain C that the compiler vectorises.
 *
 * Included once by each reduce_<isa>.c, which has set the instruction set and optimisation by
 * pragma before, and defines
 *   TT_ISA_TABLE, TT_ISA_NAME   the table to define, its name
 *   widen_f16, narrow_f16, widen_bf16, narrow_bf16
 *                               to and from f32, whole arrays, NaN narrowed to the canonical one
 * and, where there are vectors of floats, TT_VECTOR_LANES, vector, vector_apply and
 * vector_load_f16, vector_store_f16, vector_load_bf16, vector_store_bf16.
 * Per element type it includes reduce_type.h or reduce_half.h, which hold the loops.
 *
 * Layer:   base, private to reduce_<isa>.c. No include guard: a template.
 * Threads: pure.
 */
#include <math.h>
#include <stdbool.h>

#include "base/half.h"
#include "base/reduce_internal.h"

/* Elements where they lie: any alignment, any effective type. */
typedef uint8_t elem_u8 __attribute__((may_alias));
typedef int8_t elem_i8 __attribute__((may_alias));
typedef uint16_t elem_u16 __attribute__((may_alias, aligned(1)));
typedef int16_t elem_i16 __attribute__((may_alias, aligned(1)));
typedef int32_t elem_i32 __attribute__((may_alias, aligned(1)));
typedef int64_t elem_i64 __attribute__((may_alias, aligned(1)));
typedef float elem_f32 __attribute__((may_alias, aligned(1)));
typedef double elem_f64 __attribute__((may_alias, aligned(1)));

/* Promise for the loop that follows: arrays are the same or apart, never shifted. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* unoptimised builds cannot keep the promise */
#define TT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TT_INDEPENDENT _Pragma("GCC ivdep")
#endif

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

#define TT_SAME(value) (value)

/* The operators every type has. The bitwise ones are added where they have a meaning. */
#define TT_ARITHMETIC_MAP(X, name) \
    X(name, sum, TT_SUM)           \
    X(name, min, TT_MIN)           \
    X(name, max, TT_MAX)           \
    X(name, product, TT_PRODUCT)
#define TT_BITWISE_MAP(X, name) \
    X(name, and, TT_AND)        \
    X(name, or, TT_OR)          \
    X(name, xor, TT_XOR)

#define TT_DEFINE_FOLD(name, verb, redop)                               \
    static void fold_##name##_##verb(void *target, const tt_fold *fold) \
    {                                                                   \
        fold_##name(redop, target, fold);                               \
    }

#define TT_NAME u8
#define TT_ELEM elem_u8
#define TT_VALUE uint8_t
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "base/reduce_type.h"

#define TT_NAME i8
#define TT_ELEM elem_i8
#define TT_VALUE int8_t
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "base/reduce_type.h"

#define TT_NAME u16
#define TT_ELEM elem_u16
#define TT_VALUE uint16_t
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "base/reduce_type.h"

#define TT_NAME i16
#define TT_ELEM elem_i16
#define TT_VALUE int16_t
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "base/reduce_type.h"

#define TT_NAME i32
#define TT_ELEM elem_i32
#define TT_VALUE int32_t
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "base/reduce_type.h"

#define TT_NAME i64
#define TT_ELEM elem_i64
#define TT_VALUE int64_t
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "base/reduce_type.h"

#define TT_NAME f32
#define TT_ELEM elem_f32
#define TT_VALUE float
#define TT_LOAD TT_SAME
#define TT_STORE canonical_f32
#include "base/reduce_type.h"

#define TT_NAME f64
#define TT_ELEM elem_f64
#define TT_VALUE double
#define TT_LOAD TT_SAME
#define TT_STORE canonical_f64
#include "base/reduce_type.h"

#define TT_NAME boolean
#define TT_ELEM elem_u8
#define TT_VALUE uint8_t
#define TT_LOAD truth
#define TT_STORE TT_SAME
#include "base/reduce_type.h"

#define TT_NAME f16
#include "base/reduce_half.h"

#define TT_NAME bf16
#include "base/reduce_half.h"

TT_BITWISE_MAP(TT_DEFINE_FOLD, u8)
TT_BITWISE_MAP(TT_DEFINE_FOLD, i8)
TT_BITWISE_MAP(TT_DEFINE_FOLD, u16)
TT_BITWISE_MAP(TT_DEFINE_FOLD, i16)
TT_BITWISE_MAP(TT_DEFINE_FOLD, i32)
TT_BITWISE_MAP(TT_DEFINE_FOLD, i64)
TT_BITWISE_MAP(TT_DEFINE_FOLD, boolean)

#define TT_FOLD_SLOT(name, verb, redop) [redop] = fold_##name##_##verb,
#define TT_FLOAT_ROW(name)                    \
    {                                         \
        TT_ARITHMETIC_MAP(TT_FOLD_SLOT, name) \
    }
#define TT_BITS_ROW(name)                                                        \
    {                                                                            \
        TT_ARITHMETIC_MAP(TT_FOLD_SLOT, name) TT_BITWISE_MAP(TT_FOLD_SLOT, name) \
    }
#define TT_EACH_TYPE(verb)                                                                      \
    {                                                                                           \
        [TT_U8] = verb##_u8, [TT_I8] = verb##_i8, [TT_U16] = verb##_u16, [TT_I16] = verb##_i16, \
        [TT_I32] = verb##_i32, [TT_I64] = verb##_i64, [TT_F16] = verb##_f16,                    \
        [TT_BF16] = verb##_bf16, [TT_F32] = verb##_f32, [TT_F64] = verb##_f64,                  \
        [TT_BOOL] = verb##_boolean                                                              \
    }

const tt_reduce_isa TT_ISA_TABLE = {
    .name = TT_ISA_NAME,
    .fold =
        {
            [TT_U8] = TT_BITS_ROW(u8),
            [TT_I8] = TT_BITS_ROW(i8),
            [TT_U16] = TT_BITS_ROW(u16),
            [TT_I16] = TT_BITS_ROW(i16),
            [TT_I32] = TT_BITS_ROW(i32),
            [TT_I64] = TT_BITS_ROW(i64),
            [TT_F16] = TT_FLOAT_ROW(f16),
            [TT_BF16] = TT_FLOAT_ROW(bf16),
            [TT_F32] = TT_FLOAT_ROW(f32),
            [TT_F64] = TT_FLOAT_ROW(f64),
            [TT_BOOL] = TT_BITS_ROW(boolean),
        },
    .scale = TT_EACH_TYPE(scale),
    .divide = TT_EACH_TYPE(divide),
};
