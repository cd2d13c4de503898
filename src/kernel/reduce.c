/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce.c - choose the instruction set, check arguments, fill identities. */
#include "kernel/reduce.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/reduce_internal.h"

/* Every processor with AVX2 has F16C, but a hypervisor may hide it. clang has no test for it. */
#if defined(__clang__)
#define HAS_F16C true
#else
#define HAS_F16C __builtin_cpu_supports("f16c")
#endif

const tt_reduce_isa *tt_reduce_isa_at(size_t index)
{
#if defined(__x86_64__)
    const bool has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HAS_F16C;
    const bool has_avx512 =
        has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (has_avx512 && index-- == 0) {
        return &tt_reduce_avx512;
    }
    if (has_avx2 && index-- == 0) {
        return &tt_reduce_avx2;
    }
#endif
    return index == 0 ? &tt_reduce_plain : NULL;
}

void tt_reduce_isa_many(const tt_reduce_isa *isa, tt_dtype dtype, tt_redop redop,
                        const tt_fold *fold)
{
    TT_ASSERT(tt_redop_allowed(dtype, redop));
    TT_ASSERT(tt_redop_is_elementwise(redop));
    TT_ASSERT(fold->source_count >= 2);
    isa->fold[dtype][redop == TT_AVERAGE ? TT_SUM : redop](fold);
}

tt_fold_fn *tt_reduce_find(tt_dtype dtype, tt_redop redop)
{
    const bool has_one = tt_redop_allowed(dtype, redop) && tt_redop_is_elementwise(redop);
    return has_one ? tt_reduce_isa_at(0)->fold[dtype][redop == TT_AVERAGE ? TT_SUM : redop] : NULL;
}

void tt_reduce_fold(tt_dtype dtype, tt_redop redop, const tt_fold *fold)
{
    TT_ASSERT(fold->source_count > 0);
    if (fold->source_count == 1) {
        for (size_t t = 0; t < fold->target_count; t++) {
            memmove(fold->targets[t], fold->sources[0], fold->count * tt_dtype_bytes(dtype));
        }
        return;
    }
    tt_reduce_isa_many(tt_reduce_isa_at(0), dtype, redop, fold);
}

void tt_reduce(tt_dtype dtype, tt_redop redop, void *target, const void *a, const void *b,
               size_t count)
{
    const void *const sources[2] = {a, b};
    tt_reduce_many(dtype, redop, &target, 1, sources, 2, count);
}

void tt_reduce_many(tt_dtype dtype, tt_redop redop, void *const targets[], size_t target_count,
                    const void *const sources[], size_t source_count, size_t count)
{
    const tt_fold fold = {.targets = targets,
                          .target_count = target_count,
                          .sources = sources,
                          .source_count = source_count,
                          .count = count};
    tt_reduce_fold(dtype, redop, &fold);
}

void tt_scale(tt_dtype dtype, void *target, const void *source, size_t count, double factor)
{
    TT_ASSERT(tt_dtype_is_valid((int)dtype));
    if (factor == 1.0) {
        memmove(target, source, count * tt_dtype_bytes(dtype));
        return;
    }
    tt_reduce_isa_at(0)->scale[dtype](target, source, count, factor);
}

void tt_divide(tt_dtype dtype, void *target, size_t count, uint64_t divisor)
{
    TT_ASSERT(tt_dtype_is_valid((int)dtype));
    TT_ASSERT(divisor != 0);
    if (divisor == 1) {
        return;
    }
    tt_reduce_isa_at(0)->divide[dtype](target, count, divisor);
}

/* Little-endian bits of the smallest and the largest value of a type, and of one. */
typedef struct dtype_limits {
    uint64_t lowest;
    uint64_t highest;
    uint64_t one;
} dtype_limits;

static const dtype_limits limits[TT_DTYPE_COUNT] = {
    [TT_U8] = {0, UINT8_MAX, 1},
    [TT_I8] = {0x80, INT8_MAX, 1},
    [TT_U16] = {0, UINT16_MAX, 1},
    [TT_I16] = {0x8000, INT16_MAX, 1},
    [TT_I32] = {0x80000000, INT32_MAX, 1},
    [TT_I64] = {UINT64_C(1) << 63, INT64_MAX, 1},
    [TT_F16] = {0xfc00, 0x7c00, 0x3c00},
    [TT_BF16] = {0xff80, 0x7f80, 0x3f80},
    [TT_F32] = {0xff800000, 0x7f800000, 0x3f800000},
    [TT_F64] = {UINT64_C(0xfff) << 52, UINT64_C(0x7ff) << 52, UINT64_C(0x3ff) << 52},
    [TT_BOOL] = {0, 1, 1},
};

static uint64_t identity_bits(tt_dtype dtype, tt_redop redop)
{
    switch (redop) {
    case TT_MIN:
        return limits[dtype].highest;
    case TT_MAX:
        return limits[dtype].lowest;
    case TT_PRODUCT:
        return limits[dtype].one;
    case TT_AND:
        return dtype == TT_BOOL ? 1 : UINT64_MAX;
    case TT_SUM:
    case TT_AVERAGE:
    case TT_OR:
    case TT_XOR:
    case TT_ADASUM: /* a vector of length zero is ignored */
    case TT_REDOP_COUNT:
        break;
    }
    return 0;
}

void tt_fill_identity(tt_dtype dtype, tt_redop redop, void *target, size_t count)
{
    TT_ASSERT(tt_redop_allowed(dtype, redop));
    const uint64_t bits = identity_bits(dtype, redop);
    const size_t elem_bytes = tt_dtype_bytes(dtype);
    if (bits == 0) {
        memset(target, 0, count * elem_bytes);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)target + i * elem_bytes, &bits, elem_bytes);
    }
}
