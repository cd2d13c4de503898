/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_test.c - every kernel against a one-element oracle and against its plain twin.
 *
 * The oracle folds one element at a time in a wide type with its own decoding; inputs are random
 * bit patterns mixed with the special values of each type, so NaN, infinities, subnormals and
 * wrap-around all occur. Comparison is always of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kernel/half.h"
#include "kernel/reduce.h"
#include "kernel/reduce_internal.h"

enum {
    SOURCE_MAX = 9,
    COUNT_MAX = 2400, /* more than the prefetch distance, and a ragged tail */
};

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed ^ (*seed >> 29);
}

static const uint64_t specials[] = {0,
                                    1,
                                    0x7f,
                                    0x80,
                                    0xff,
                                    0x7fff,
                                    0x8000,
                                    0x7c00,
                                    0xfc00,
                                    0x7e00,
                                    0x7f80,
                                    0xff80,
                                    0x7fc1,
                                    0x3c00,
                                    0x3f80,
                                    0x0400,
                                    0x7bff,
                                    0x80000000,
                                    0x7f800000,
                                    0xff800000,
                                    0x7f800001,
                                    0xffc12345,
                                    0x3f800000,
                                    0x7fffffff,
                                    UINT64_C(1) << 63,
                                    UINT64_C(0x7ff) << 52,
                                    UINT64_C(0xfff) << 52,
                                    UINT64_C(0x7ff0000000000001),
                                    UINT64_C(0xfff8dead00000000),
                                    INT64_MAX};

static void fill_random(tt_dtype dtype, void *target, size_t count, uint64_t *seed)
{
    const size_t elem_bytes = tt_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = next_random(seed) ^ (next_random(seed) << 32);
        if (bits % 8 == 0) {
            bits = specials[(bits >> 8) % TT_ARRAY_COUNT(specials)];
        }
        memcpy((char *)target + i * elem_bytes, &bits, elem_bytes);
    }
}

/* Oracle, part one: one stored element as a number. Integers are in `integer`. */
typedef struct number {
    double real;
    float single;
    int64_t integer;
} number;

static number load_number(tt_dtype dtype, const void *source)
{
    number n = {0};
    uint64_t bits = 0;
    memcpy(&bits, source, tt_dtype_bytes(dtype));
    const int shift = 64 - 8 * (int)tt_dtype_bytes(dtype);
    switch (dtype) {
    case TT_I8:
    case TT_I16:
    case TT_I32:
    case TT_I64:
        n.integer = (int64_t)(bits << shift) >> shift;
        break;
    case TT_BOOL:
        n.integer = bits != 0;
        break;
    case TT_F16:
        n.single = tt_f16_to_f32((uint16_t)bits);
        break;
    case TT_BF16:
        n.single = tt_bf16_to_f32((uint16_t)bits);
        break;
    case TT_F32:
        n.single = tt_f32_from_bits((uint32_t)bits);
        break;
    case TT_F64:
        memcpy(&n.real, &bits, sizeof(bits));
        break;
    default:
        n.integer = (int64_t)bits;
        break;
    }
    return n;
}

static void store_number(tt_dtype dtype, void *target, number n)
{
    uint64_t bits = (uint64_t)n.integer;
    if (dtype == TT_F64) {
        memcpy(&bits, &n.real, sizeof(bits));
        bits = isnan(n.real) ? UINT64_C(0x7ff8) << 48 : bits;
    } else if (dtype == TT_F32) {
        bits = isnan(n.single) ? 0x7fc00000 : tt_f32_bits(n.single);
    } else if (dtype == TT_F16) {
        bits = isnan(n.single) ? 0x7e00 : tt_f16_from_f32(n.single);
    } else if (dtype == TT_BF16) {
        bits = isnan(n.single) ? 0x7fc0 : tt_bf16_from_f32(n.single);
    } else if (dtype == TT_BOOL) {
        bits = n.integer != 0;
    }
    memcpy(target, &bits, tt_dtype_bytes(dtype));
}

static double fold_real(tt_redop redop, double a, double b)
{
    if (redop == TT_MIN || redop == TT_MAX) {
        if (isnan(a) || isnan(b)) {
            return NAN;
        }
        return (redop == TT_MIN ? b < a : b > a) ? b : a;
    }
    return redop == TT_PRODUCT ? a * b : a + b;
}

static int64_t fold_integer(tt_redop redop, int64_t a, int64_t b)
{
    switch (redop) {
    case TT_MIN:
        return a < b ? a : b;
    case TT_MAX:
        return a > b ? a : b;
    case TT_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case TT_AND:
        return a & b;
    case TT_OR:
        return a | b;
    case TT_XOR:
        return a ^ b;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* Part two: sums and products of two f32 are exact or correctly rounded twice in double (53 >= 2 *
 * 24 + 2 bits), so rounding to float after each step is the f32 operation. */
static number fold_number(tt_dtype dtype, tt_redop redop, number a, number b)
{
    number n = {0};
    n.real = fold_real(redop, a.real, b.real);
    n.single = (float)fold_real(redop, (double)a.single, (double)b.single);
    n.integer = fold_integer(redop, a.integer, b.integer);
    if (dtype != TT_I64 && tt_dtype_is_integer(dtype)) { /* wrap between the steps, for min */
        unsigned char wrapped[8];
        store_number(dtype, wrapped, n);
        n = load_number(dtype, wrapped);
    } else if (dtype == TT_BOOL) {
        n.integer = n.integer != 0;
    }
    return n;
}

typedef struct sample {
    unsigned char *memory; /* one allocation; freed by sample_fini */
    const void *sources[SOURCE_MAX];
    unsigned char *expected;
    unsigned char *target;
    unsigned char *second;
} sample;

/* Sources lie at odd addresses on purpose. */
static sample sample_init(tt_dtype dtype, uint64_t *seed)
{
    const size_t stride = COUNT_MAX * 8 + 16;
    sample s = {.memory = malloc(stride * (SOURCE_MAX + 3))};
    assert_non_null(s.memory);
    for (size_t k = 0; k < SOURCE_MAX; k++) {
        unsigned char *source = s.memory + k * stride + 1 + k % 3;
        fill_random(dtype, source, COUNT_MAX, seed);
        s.sources[k] = source;
    }
    s.expected = s.memory + SOURCE_MAX * stride;
    s.target = s.memory + (SOURCE_MAX + 1) * stride + 1;
    s.second = s.memory + (SOURCE_MAX + 2) * stride + 3;
    return s;
}

static void sample_fini(sample *s)
{
    free(s->memory);
}

static void expect_fold(tt_dtype dtype, tt_redop redop, const sample *s, size_t source_count,
                        size_t count)
{
    const size_t elem_bytes = tt_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        number sum = load_number(dtype, (const char *)s->sources[0] + i * elem_bytes);
        for (size_t k = 1; k < source_count; k++) {
            const number next = load_number(dtype, (const char *)s->sources[k] + i * elem_bytes);
            sum = fold_number(dtype, redop, sum, next);
        }
        store_number(dtype, s->expected + i * elem_bytes, sum);
    }
}

static void check_pair(tt_dtype dtype, tt_redop redop)
{
    static const size_t counts[] = {0, 1, 7, 33, 513, COUNT_MAX};
    uint64_t seed = (uint64_t)dtype * 31 + (uint64_t)redop;
    sample s = sample_init(dtype, &seed);
    for (size_t source_count = 2; source_count <= SOURCE_MAX; source_count++) {
        for (size_t c = 0; c < TT_ARRAY_COUNT(counts); c++) {
            const size_t bytes = counts[c] * tt_dtype_bytes(dtype);
            expect_fold(dtype, redop, &s, source_count, counts[c]);
            void *const targets[2] = {s.target, s.second};
            for (size_t isa = 0; tt_reduce_isa_at(isa) != NULL; isa++) {
                for (size_t way = 0; way < 4; way++) {
                    const size_t target_count = 1 + way % 2;
                    const tt_fold fold = {.targets = targets,
                                          .target_count = target_count,
                                          .sources = s.sources,
                                          .source_count = source_count,
                                          .count = counts[c],
                                          .is_far = way >= 2,
                                          .near = way % source_count};
                    memset(s.target, 0x5a, bytes + 1);
                    memset(s.second, 0x5a, bytes + 1);
                    tt_reduce_isa_many(tt_reduce_isa_at(isa), dtype, redop, &fold);
                    assert_memory_equal(s.target, s.expected, bytes);
                    assert_int_equal(s.target[bytes], 0x5a);
                    assert_memory_equal(target_count == 2 ? s.second : s.target, s.expected, bytes);
                    assert_int_equal(s.second[bytes], 0x5a);
                }
            }
        }
    }
    sample_fini(&s);
}

static void test_every_instruction_set_gives_the_bits_of_the_oracle(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < TT_DTYPE_COUNT; dtype++) {
        for (int redop = 0; redop < TT_REDOP_COUNT; redop++) {
            if (tt_redop_allowed((tt_dtype)dtype, (tt_redop)redop) &&
                tt_redop_is_elementwise((tt_redop)redop)) {
                check_pair((tt_dtype)dtype, (tt_redop)redop);
            }
        }
    }
}

static void test_plain_is_always_the_last_choice(void **state)
{
    (void)state;
    size_t isa_count = 0;
    while (tt_reduce_isa_at(isa_count) != NULL) {
        isa_count++;
    }
    assert_true(isa_count >= 1);
    assert_ptr_equal(tt_reduce_isa_at(isa_count - 1), &tt_reduce_plain);
    assert_null(tt_reduce_isa_at(isa_count + 5));
}

/* As the shared-memory all-reduce does it: every source is also a target. */
static void test_every_target_gets_the_same_bits_in_place(void **state)
{
    (void)state;
    for (int d = 0; d < TT_DTYPE_COUNT; d++) {
        const tt_dtype dtype = (tt_dtype)d;
        const size_t bytes = COUNT_MAX * tt_dtype_bytes(dtype);
        for (size_t rank_count = 2; rank_count <= SOURCE_MAX; rank_count++) {
            uint64_t seed = 77 + rank_count;
            sample s = sample_init(dtype, &seed);
            expect_fold(dtype, TT_SUM, &s, rank_count, COUNT_MAX);
            void *targets[SOURCE_MAX];
            memcpy(targets, s.sources, sizeof(targets));
            tt_reduce_many(dtype, TT_SUM, targets, rank_count, s.sources, rank_count, COUNT_MAX);
            for (size_t t = 0; t < rank_count; t++) {
                assert_memory_equal(targets[t], s.expected, bytes);
            }
            sample_fini(&s);
        }
    }
}

static void test_one_target_may_be_any_source(void **state)
{
    (void)state;
    for (size_t source_count = 2; source_count <= SOURCE_MAX; source_count++) {
        for (size_t alias = 0; alias < source_count; alias++) {
            uint64_t seed = 5 + alias;
            sample s = sample_init(TT_BF16, &seed);
            expect_fold(TT_BF16, TT_SUM, &s, source_count, COUNT_MAX);
            void *target = NULL;
            memcpy(&target, &s.sources[alias], sizeof(target));
            tt_reduce_many(TT_BF16, TT_SUM, &target, 1, s.sources, source_count, COUNT_MAX);
            assert_memory_equal(target, s.expected, COUNT_MAX * 2);
            sample_fini(&s);
        }
    }
}

static void test_two_operands_may_be_reduced_in_place(void **state)
{
    (void)state;
    float a[3] = {1.0f, -2.0f, 3.0f};
    float b[3] = {0.5f, 0.25f, -4.0f};
    tt_reduce(TT_F32, TT_AVERAGE, a, a, b, 3);
    assert_true(a[0] == 1.5f && a[1] == -1.75f && a[2] == -1.0f);
    tt_reduce(TT_F32, TT_MAX, b, a, b, 3);
    assert_true(b[0] == 1.5f && b[1] == 0.25f && b[2] == -1.0f);
}

static void test_one_source_is_copied(void **state)
{
    (void)state;
    const int32_t source[2] = {7, -9};
    int32_t x[2];
    int32_t y[2];
    void *const targets[2] = {x, y};
    const void *const sources[1] = {source};
    tt_reduce_many(TT_I32, TT_SUM, targets, 2, sources, 1, 2);
    assert_memory_equal(x, source, sizeof(source));
    assert_memory_equal(y, source, sizeof(source));
}

/* Folding halves one by one would round at each step and stay at 2048. */
static void test_halves_round_once_at_the_end(void **state)
{
    (void)state;
    const uint16_t big = tt_f16_from_f32(2048.0f);
    const uint16_t one = tt_f16_from_f32(1.0f);
    const void *const sources[5] = {&big, &one, &one, &one, &one};
    uint16_t sum = 0;
    void *const targets[1] = {&sum};
    tt_reduce_many(TT_F16, TT_SUM, targets, 1, sources, 5, 1);
    assert_true(tt_f16_to_f32(sum) == 2052.0f);
}

static void test_nan_wins_in_min_and_max(void **state)
{
    (void)state;
    const double number_first[2] = {1.0, (double)NAN};
    const double nan_first[2] = {(double)NAN, 1.0};
    double target[2];
    tt_reduce(TT_F64, TT_MIN, target, number_first, nan_first, 2);
    assert_true(isnan(target[0]) && isnan(target[1]));
    tt_reduce(TT_F64, TT_MAX, target, number_first, nan_first, 2);
    assert_true(isnan(target[0]) && isnan(target[1]));
}

static void test_identity_changes_nothing(void **state)
{
    (void)state;
    for (int d = 0; d < TT_DTYPE_COUNT; d++) {
        for (int r = 0; r < TT_REDOP_COUNT; r++) {
            const tt_dtype dtype = (tt_dtype)d;
            const tt_redop redop = (tt_redop)r;
            if (!tt_redop_allowed(dtype, redop) || !tt_redop_is_elementwise(redop)) {
                continue;
            }
            const uint64_t values[] = {0, 1, 0x3c, 0x3c01, 0xbc01, 0x42280000, 0xffffffff};
            for (size_t v = dtype == TT_BOOL ? 0 : 1; v < TT_ARRAY_COUNT(values); v++) {
                unsigned char value[8] = {0};
                unsigned char identity[8] = {0};
                unsigned char target[8] = {0};
                const size_t elem_bytes = tt_dtype_bytes(dtype);
                store_number(dtype, value, load_number(dtype, &values[v])); /* canonical */
                tt_fill_identity(dtype, redop, identity, 1);
                tt_reduce(dtype, redop, target, value, identity, 1);
                assert_memory_equal(target, value, elem_bytes);
                tt_reduce(dtype, redop, target, identity, value, 1);
                assert_memory_equal(target, value, elem_bytes);
            }
        }
    }
}

static void test_integers_scale_toward_zero_and_saturate(void **state)
{
    (void)state;
    int32_t a[4] = {7, -7, INT32_MAX, INT32_MIN};
    tt_scale(TT_I32, a, a, 2, 0.5);
    assert_true(a[0] == 3 && a[1] == -3);
    tt_scale(TT_I32, a + 2, a + 2, 2, 3.0);
    assert_true(a[2] == INT32_MAX && a[3] == INT32_MIN);
    int64_t b[2] = {INT64_MAX, INT64_MIN};
    tt_scale(TT_I64, b, b, 2, 1.5);
    assert_true(b[0] == INT64_MAX && b[1] == INT64_MIN);
    uint8_t c[2] = {200, 3};
    tt_scale(TT_U8, c, c, 2, -1.0);
    assert_true(c[0] == 0 && c[1] == 0);
    tt_scale(TT_I64, b, b, 2, (double)NAN);
    assert_true(b[0] == 0 && b[1] == 0);
}

static void test_a_factor_of_one_copies_every_bit(void **state)
{
    (void)state;
    const uint32_t source[2] = {0x7f812345, 0x80000000};
    uint32_t target[2];
    tt_scale(TT_F32, target, source, 2, 1.0);
    assert_memory_equal(target, source, sizeof(source));
}

static void test_averages_divide_truly(void **state)
{
    (void)state;
    float a[1] = {1.0f};
    tt_divide(TT_F32, a, 1, 3);
    assert_true(a[0] == 1.0f / 3.0f);
    uint16_t h[1] = {tt_f16_from_f32(10.0f)};
    tt_divide(TT_F16, h, 1, 3);
    assert_int_equal(h[0], tt_f16_from_f32(10.0f / 3.0f));
    int8_t i[2] = {-7, 7};
    tt_divide(TT_I8, i, 2, 2);
    assert_true(i[0] == -3 && i[1] == 3);
    int64_t l[2] = {INT64_MIN, INT64_MAX};
    tt_divide(TT_I64, l, 2, UINT64_C(1) << 63);
    assert_true(l[0] == -1 && l[1] == 0);
}

static void test_every_instruction_set_scales_and_divides_alike(void **state)
{
    (void)state;
    for (int d = 0; d < TT_DTYPE_COUNT; d++) {
        const tt_dtype dtype = (tt_dtype)d;
        const size_t bytes = COUNT_MAX * tt_dtype_bytes(dtype);
        uint64_t seed = 3;
        sample s = sample_init(dtype, &seed);
        tt_reduce_plain.scale[d](s.expected, s.sources[0], COUNT_MAX, -0.37);
        for (size_t isa = 0; tt_reduce_isa_at(isa) != NULL; isa++) {
            tt_reduce_isa_at(isa)->scale[d](s.target, s.sources[0], COUNT_MAX, -0.37);
            assert_memory_equal(s.target, s.expected, bytes);
        }
        memcpy(s.expected, s.sources[1], bytes);
        tt_reduce_plain.divide[d](s.expected, COUNT_MAX, 7);
        for (size_t isa = 0; tt_reduce_isa_at(isa) != NULL; isa++) {
            memcpy(s.target, s.sources[1], bytes);
            tt_reduce_isa_at(isa)->divide[d](s.target, COUNT_MAX, 7);
            assert_memory_equal(s.target, s.expected, bytes);
        }
        sample_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_instruction_set_gives_the_bits_of_the_oracle),
        cmocka_unit_test(test_plain_is_always_the_last_choice),
        cmocka_unit_test(test_every_target_gets_the_same_bits_in_place),
        cmocka_unit_test(test_one_target_may_be_any_source),
        cmocka_unit_test(test_two_operands_may_be_reduced_in_place),
        cmocka_unit_test(test_one_source_is_copied),
        cmocka_unit_test(test_halves_round_once_at_the_end),
        cmocka_unit_test(test_nan_wins_in_min_and_max),
        cmocka_unit_test(test_identity_changes_nothing),
        cmocka_unit_test(test_integers_scale_toward_zero_and_saturate),
        cmocka_unit_test(test_a_factor_of_one_copies_every_bit),
        cmocka_unit_test(test_averages_divide_truly),
        cmocka_unit_test(test_every_instruction_set_scales_and_divides_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
