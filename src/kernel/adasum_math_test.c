/* SPDX-License-Identifier: Apache-2.0
 *
 * adasum_math_test.c - Adasum of vectors with a known result, and of random ones against the plain
 * formula. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/philox.h"
#include "kernel/adasum_math.h"
#include "kernel/half.h"

enum { COUNT_MAX = 1500 };

static const tt_dtype floats[] = {TT_F16, TT_BF16, TT_F32, TT_F64};

static void put(tt_dtype dtype, void *target, size_t index, double value)
{
    const float single = (float)value;
    const uint16_t half = dtype == TT_F16 ? tt_f16_from_f32(single) : tt_bf16_from_f32(single);
    const void *from =
        dtype == TT_F64 ? (const void *)&value : (dtype == TT_F32 ? (const void *)&single : &half);
    memcpy((char *)target + index * tt_dtype_bytes(dtype), from, tt_dtype_bytes(dtype));
}

static double get(tt_dtype dtype, const void *source, size_t index)
{
    double value;
    float single;
    uint16_t half;
    const char *at = (const char *)source + index * tt_dtype_bytes(dtype);
    switch (dtype) {
    case TT_F64:
        memcpy(&value, at, sizeof(value));
        return value;
    case TT_F32:
        memcpy(&single, at, sizeof(single));
        return (double)single;
    default:
        memcpy(&half, at, sizeof(half));
        return (double)(dtype == TT_F16 ? tt_f16_to_f32(half) : tt_bf16_to_f32(half));
    }
}

static void blend(tt_dtype dtype, void *target, const void *a, const void *b, size_t count)
{
    tt_products products = {0};
    const tt_vectors pair = {.a = a, .b = b};
    tt_adasum_products(dtype, pair, count, &products);
    tt_adasum_blend(dtype, target, pair, count, &products);
}

static void test_orthogonal_vectors_are_added(void **state)
{
    (void)state;
    const float a[4] = {1.0f, 0.0f, 2.0f, 0.0f}, b[4] = {0.0f, 3.0f, 0.0f, -1.0f};
    const float sum[4] = {1.0f, 3.0f, 2.0f, -1.0f};
    float target[4];
    blend(TT_F32, target, a, b, 4);
    assert_memory_equal(target, sum, sizeof(sum));
}

static void test_parallel_vectors_are_averaged(void **state)
{
    (void)state;
    const float a[3] = {1.0f, -2.0f, 4.0f}, b[3] = {3.0f, -6.0f, 12.0f};
    const float average[3] = {2.0f, -4.0f, 8.0f};
    float target[3];
    blend(TT_F32, target, a, b, 3);
    assert_memory_equal(target, average, sizeof(average));
}

static void test_zeros_change_nothing_and_nan_is_kept(void **state)
{
    (void)state;
    double a[2] = {5.0, -7.0}, zero[2] = {0.0, 0.0}, target[2];
    blend(TT_F64, target, a, zero, 2);
    assert_memory_equal(target, a, sizeof(a));
    blend(TT_F64, target, zero, a, 2);
    assert_memory_equal(target, a, sizeof(a));
    a[0] = (double)NAN;
    blend(TT_F64, target, a, zero, 2);
    assert_true(isnan(target[0]));
}

/* Golden: the formula in exact fractions, of a = (1, 2, 3), b = (-2, 0.5, 4). */
static void test_known_numbers(void **state)
{
    (void)state;
    const double a[3] = {1.0, 2.0, 3.0}, b[3] = {-2.0, 0.5, 4.0};
    const double expected[3] = {-0.849647266313933, 1.5784832451499118, 4.735008818342152};
    double target[3];
    blend(TT_F64, target, a, b, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(target[i] - expected[i]) < 1e-14);
    }
}

static void check_formula(tt_dtype dtype, size_t count, tt_random *random)
{
    static uint8_t a[COUNT_MAX * 8], b[COUNT_MAX * 8], target[COUNT_MAX * 8];
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (size_t i = 0; i < count; i++) {
        put(dtype, a, i, (double)tt_random_below(random, 2000) / 1000.0 - 1.0);
        put(dtype, b, i, (double)tt_random_below(random, 2000) / 1000.0 - 0.7);
        const double x = get(dtype, a, i), y = get(dtype, b, i);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    blend(dtype, target, a, b, count);
    const double relative = dtype == TT_F64 ? 1e-12 : (dtype == TT_F32 ? 1e-6 : 1e-2);
    for (size_t i = 0; i < count; i++) {
        const double wanted =
            get(dtype, a, i) * (1.0 - ab / (2.0 * aa)) + get(dtype, b, i) * (1.0 - ab / (2.0 * bb));
        assert_true(fabs(get(dtype, target, i) - wanted) <= relative);
    }
}

static void test_every_type_and_length_by_the_formula(void **state)
{
    (void)state;
    tt_random random;
    tt_random_init(&random, 8, 0);
    static const size_t counts[] = {1, 7, 8, 9, 511, 512, 513, COUNT_MAX};
    for (size_t d = 0; d < sizeof(floats) / sizeof(floats[0]); d++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            check_formula(floats[d], counts[c], &random);
        }
    }
}

/* Computed in pieces of whole blocks, as the executor does, the bits are the same. */
static void test_pieces_give_the_same_products(void **state)
{
    (void)state;
    float a[COUNT_MAX], b[COUNT_MAX];
    for (size_t i = 0; i < COUNT_MAX; i++) {
        a[i] = 1.0f / (float)(i + 1);
        b[i] = (float)i / 7.0f;
    }
    tt_products whole = {0}, pieces = {0};
    tt_adasum_products(TT_F32, (tt_vectors){a, b}, COUNT_MAX, &whole);
    tt_adasum_products(TT_F32, (tt_vectors){a, b}, 1024, &pieces);
    tt_adasum_products(TT_F32, (tt_vectors){a + 1024, b + 1024}, COUNT_MAX - 1024, &pieces);
    assert_memory_equal(&whole, &pieces, sizeof(whole));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orthogonal_vectors_are_added),
        cmocka_unit_test(test_parallel_vectors_are_averaged),
        cmocka_unit_test(test_zeros_change_nothing_and_nan_is_kept),
        cmocka_unit_test(test_known_numbers),
        cmocka_unit_test(test_every_type_and_length_by_the_formula),
        cmocka_unit_test(test_pieces_give_the_same_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
