/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_kernel.h - the reduction kernels, written once, in vectors of any length.
 *
 * Included once by each reduce_<isa>.c, which has set the instruction set and optimisation by
 * pragma before, and defines
 *   TT_ISA_TABLE, TT_ISA_NAME   the table to define, its name
 *   TT_VECTOR_BYTES             of one register
 *   TT_HAS_CONVERSIONS          if it also defines what compilers do not vectorise well, for
 *                               one register: f16_to_f32, f16_from_f32, u16_to_u32, u16_from_u32,
 *                               clean_f32, clean_f64 (a NaN becomes the canonical one)
 * Vectors are the compiler's own (vector_size), which gcc and clang have for every processor.
 * Per element type it includes reduce_type.h or reduce_half.h, which hold the loops.
 *
 * Layer:   kernel, private to reduce_<isa>.c. No include guard: a template.
 * Threads: pure.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "kernel/half.h"
#include "kernel/reduce_internal.h"

/* Elements in memory: any alignment, any effective type. */
typedef uint8_t elem_u8 __attribute__((may_alias));
typedef int8_t elem_i8 __attribute__((may_alias));
typedef uint16_t elem_u16 __attribute__((may_alias, aligned(1)));
typedef int16_t elem_i16 __attribute__((may_alias, aligned(1)));
typedef int32_t elem_i32 __attribute__((may_alias, aligned(1)));
typedef int64_t elem_i64 __attribute__((may_alias, aligned(1)));
typedef float elem_f32 __attribute__((may_alias, aligned(1)));
typedef double elem_f64 __attribute__((may_alias, aligned(1)));

/* Promise for the loop that follows: arrays are the same or disjoint, never shifted. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* unoptimised builds cannot keep the promise */
#define TT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TT_INDEPENDENT _Pragma("GCC ivdep")
#endif

#include "kernel/reduce_arith.h"

#define TT_SAME(value) (value)

enum {
    LINE_BYTES = 64,
    AHEAD_BYTES = 2048, /* a line takes some 100 ns from another core; 1 to 8 KiB perform alike */
};

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

/* A function of its own for many elements, so that one element does not pay for its stack. */
#define TT_DEFINE_FOLD_(name, verb, redop)                                                 \
    static __attribute__((noinline)) void fold_##name##_##verb##_many(const tt_fold *fold) \
    {                                                                                      \
        fold_##name(redop, fold);                                                          \
    }                                                                                      \
    static void fold_##name##_##verb(const tt_fold *fold)                                  \
    {                                                                                      \
        if (fold->count == 1) {                                                            \
            fold_one_##name(redop, fold);                                                  \
        } else {                                                                           \
            fold_##name##_##verb##_many(fold);                                             \
        }                                                                                  \
    }
#define TT_DEFINE_FOLD(name, verb, redop) TT_DEFINE_FOLD_(name, verb, redop)

#if !defined(TT_HAS_CONVERSIONS)
#define clean_f32(pack) select_f32(differ_f32(pack, pack), (pack_f32){0} + NAN, pack)
#define clean_f64(pack) select_f64(differ_f64(pack, pack), (pack_f64){0} + (double)NAN, pack)
#endif

/* The values of TT_KIND for reduce_type.h. */
#define TT_NUMBER 0
#define TT_TRUTH 1

#define TT_NAME u8
#define TT_ELEM elem_u8
#define TT_VALUE uint8_t
#define TT_WRAP uint8_t
#define TT_MASK int8_t
#define TT_CLEAN TT_SAME
#define TT_KIND TT_NUMBER
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "kernel/reduce_type.h"

#define TT_NAME i8
#define TT_ELEM elem_i8
#define TT_VALUE int8_t
#define TT_WRAP uint8_t
#define TT_MASK int8_t
#define TT_CLEAN TT_SAME
#define TT_KIND TT_NUMBER
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "kernel/reduce_type.h"

#define TT_NAME u16
#define TT_ELEM elem_u16
#define TT_VALUE uint16_t
#define TT_WRAP uint16_t
#define TT_MASK int16_t
#define TT_CLEAN TT_SAME
#define TT_KIND TT_NUMBER
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "kernel/reduce_type.h"

#define TT_NAME i16
#define TT_ELEM elem_i16
#define TT_VALUE int16_t
#define TT_WRAP uint16_t
#define TT_MASK int16_t
#define TT_CLEAN TT_SAME
#define TT_KIND TT_NUMBER
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "kernel/reduce_type.h"

#define TT_NAME i32
#define TT_ELEM elem_i32
#define TT_VALUE int32_t
#define TT_WRAP uint32_t
#define TT_MASK int32_t
#define TT_CLEAN TT_SAME
#define TT_KIND TT_NUMBER
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "kernel/reduce_type.h"

#define TT_NAME i64
#define TT_ELEM elem_i64
#define TT_VALUE int64_t
#define TT_WRAP uint64_t
#define TT_MASK int64_t
#define TT_CLEAN TT_SAME
#define TT_KIND TT_NUMBER
#define TT_LOAD TT_SAME
#define TT_STORE TT_SAME
#include "kernel/reduce_type.h"

#define TT_NAME f32
#define TT_ELEM elem_f32
#define TT_VALUE float
#define TT_WRAP float
#define TT_MASK int32_t
#define TT_KIND TT_NUMBER
#define TT_CLEAN clean_f32
#define TT_LOAD TT_SAME
#define TT_STORE canonical_f32
#include "kernel/reduce_type.h"

#define TT_NAME f64
#define TT_ELEM elem_f64
#define TT_VALUE double
#define TT_WRAP double
#define TT_MASK int64_t
#define TT_KIND TT_NUMBER
#define TT_CLEAN clean_f64
#define TT_LOAD TT_SAME
#define TT_STORE canonical_f64
#include "kernel/reduce_type.h"

#define TT_NAME boolean
#define TT_ELEM elem_u8
#define TT_VALUE uint8_t
#define TT_WRAP uint8_t
#define TT_MASK int8_t
#define TT_CLEAN TT_SAME
#define TT_KIND TT_TRUTH
#define TT_LOAD truth
#define TT_STORE TT_SAME
#include "kernel/reduce_type.h"

/* Halves are folded as pack_f32. */
typedef uint32_t bits_f32 __attribute__((vector_size(TT_VECTOR_BYTES)));
typedef uint16_t kept_half __attribute__((vector_size(TT_VECTOR_BYTES / 2)));

#if !defined(TT_HAS_CONVERSIONS)
#define u16_to_u32(kept) __builtin_convertvector(kept, bits_f32)
#define u16_from_u32(bits) __builtin_convertvector(bits, kept_half)
#endif

#if defined(TT_HAS_CONVERSIONS)
TT_INLINE pack_f32 widen_f16(kept_half kept)
{
    return f16_to_f32(kept);
}

TT_INLINE kept_half narrow_f16(pack_f32 pack)
{
    return f16_from_f32(narrow_f32(pack));
}
#else
/* As tt_f16_to_f32, but for the payload of NaN: the exponent is moved, subnormals are counted in
 * units of 2^-24. */
TT_INLINE pack_f32 widen_f16(kept_half kept)
{
    const bits_f32 half = u16_to_u32(kept);
    const bits_f32 magnitude = half & 0x7fff;
    const bits_f32 is_small = (bits_f32)(magnitude < 0x400),
                   is_huge = (bits_f32)(magnitude > 0x7bff);
    const bits_f32 normal = (magnitude << 13) + (112U << 23) + (is_huge & (112U << 23));
    const bits_f32 small =
        (bits_f32)(__builtin_convertvector((mask_f32)magnitude, pack_f32) * 0x1p-24F);
    return (pack_f32)((half & 0x8000) << 16 | (is_small & small) | (~is_small & normal));
}

/* As tt_f16_from_f32. Adding 0.5 rounds what is below 2^-14 to units of 2^-24. */
TT_INLINE kept_half narrow_f16(pack_f32 pack)
{
    const bits_f32 bits = (bits_f32)narrow_f32(pack);
    const bits_f32 magnitude = bits & 0x7fffffff;
    const bits_f32 is_small = (bits_f32)(magnitude < 0x38800000);
    const bits_f32 is_huge = (bits_f32)(magnitude >= 0x47800000);
    const bits_f32 is_nan = (bits_f32)(magnitude > 0x7f800000);
    const bits_f32 normal = (magnitude - (112U << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const bits_f32 small = (bits_f32)((pack_f32)magnitude + 0.5F) - 0x3f000000;
    const bits_f32 half = (is_small & small) | (~is_small & ~is_huge & normal) | (is_huge & 0x7c00);
    return u16_from_u32((bits >> 16 & 0x8000) | half | (is_nan & 0x200));
}
#endif

TT_INLINE pack_f32 widen_bf16(kept_half kept)
{
    return (pack_f32)(u16_to_u32(kept) << 16);
}

/* As tt_bf16_from_f32. The canonical NaN rounds to itself. */
TT_INLINE kept_half narrow_bf16(pack_f32 pack)
{
    const bits_f32 bits = (bits_f32)narrow_f32(pack);
    return u16_from_u32((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#define TT_NAME f16
#include "kernel/reduce_half.h"

#define TT_NAME bf16
#include "kernel/reduce_half.h"

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
