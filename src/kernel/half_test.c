/* SPDX-License-Identifier: Apache-2.0
 *
 * half_test.c - every 16-bit input, and every rounding boundary between neighbours.
 *
 * The oracle works on values, not on bits: ldexp decodes, and rounding is "the nearer neighbour of
 * the two, the even one if both are as near", in double arithmetic, where all of it is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>

#include "kernel/half.h"

typedef struct half_format {
    int exponent_bits;
    int mantissa_bits;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
} half_format;

static const half_format f16 = {5, 10, tt_f16_to_f32, tt_f16_from_f32};
static const half_format bf16 = {8, 7, tt_bf16_to_f32, tt_bf16_from_f32};

static double decode(const half_format *format, uint16_t half)
{
    const int exponent_max = (1 << format->exponent_bits) - 1;
    const int mantissa = half & ((1 << format->mantissa_bits) - 1);
    const int exponent = (half >> format->mantissa_bits) & exponent_max;
    const int bias = exponent_max / 2;
    const double sign = (half & 0x8000) ? -1.0 : 1.0;
    if (exponent == exponent_max) {
        return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(mantissa, 1 - bias - format->mantissa_bits);
    }
    return sign *
           ldexp(mantissa + (1 << format->mantissa_bits), exponent - bias - format->mantissa_bits);
}

static bool same_f32(float a, float b)
{
    return tt_f32_bits(a) == tt_f32_bits(b);
}

static void check_every_input(const half_format *format)
{
    for (uint32_t i = 0; i <= UINT16_MAX; i++) {
        const uint16_t half = (uint16_t)i;
        const double expected = decode(format, half);
        const float widened = format->widen(half);
        if (isnan(expected)) {
            assert_true(isnan(widened));
            assert_int_equal(signbit(widened) != 0, (half & 0x8000) != 0);
            assert_true(isnan(format->widen(format->narrow(widened))));
        } else {
            assert_true(same_f32(widened, (float)expected));
            assert_int_equal(format->narrow(widened), half);
        }
    }
}

/* Around the middle between each value and the next one up, including the step to infinity. */
static void check_every_boundary(const half_format *format)
{
    const uint16_t infinity =
        (uint16_t)(((1 << format->exponent_bits) - 1) << format->mantissa_bits);
    for (uint16_t half = 0; half < infinity; half++) {
        const double low = decode(format, half);
        const double below = half > 0 ? decode(format, (uint16_t)(half - 1)) : 0.0;
        const double high =
            half + 1 < infinity ? decode(format, (uint16_t)(half + 1)) : low + (low - below);
        const float middle = (float)((low + high) / 2);
        if ((double)middle != (low + high) / 2) {
            continue; /* no binary32 value lies there: bf16 subnormals at the very bottom */
        }
        const uint16_t even = (uint16_t)((half & 1) ? half + 1 : half);
        assert_int_equal(format->narrow(middle), even);
        assert_int_equal(format->narrow(nextafterf(middle, 0.0f)), half);
        assert_int_equal(format->narrow(nextafterf(middle, INFINITY)), half + 1);
        assert_int_equal(format->narrow(-middle), even | 0x8000);
    }
}

static void test_every_f16_converts_both_ways(void **state)
{
    (void)state;
    check_every_input(&f16);
}

static void test_every_bf16_converts_both_ways(void **state)
{
    (void)state;
    check_every_input(&bf16);
}

static void test_f16_rounds_to_nearest_even_everywhere(void **state)
{
    (void)state;
    check_every_boundary(&f16);
}

static void test_bf16_rounds_to_nearest_even_everywhere(void **state)
{
    (void)state;
    check_every_boundary(&bf16);
}

static void test_too_large_becomes_infinity_and_too_small_zero(void **state)
{
    (void)state;
    assert_int_equal(tt_f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(tt_f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(tt_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(tt_f16_from_f32(-3e38f), 0xfc00);
    assert_int_equal(tt_f16_from_f32(INFINITY), 0x7c00);
    assert_int_equal(tt_f16_from_f32(0x1p-25f), 0x0000);
    assert_int_equal(tt_f16_from_f32(0x1.000002p-25f), 0x0001);
    assert_int_equal(tt_f16_from_f32(-0x1p-149f), 0x8000);
    assert_int_equal(tt_bf16_from_f32(3.4e38f), 0x7f80);
    assert_int_equal(tt_bf16_from_f32(-INFINITY), 0xff80);
}

static void test_a_nan_never_becomes_infinity(void **state)
{
    (void)state;
    for (uint32_t mantissa = 1; mantissa < (1u << 23); mantissa += mantissa < 4096 ? 1 : 4093) {
        const float nan = tt_f32_from_bits(UINT32_C(0xff800000) | mantissa);
        assert_true((tt_f16_from_f32(nan) & 0x7fff) > 0x7c00);
        assert_true((tt_bf16_from_f32(nan) & 0x7fff) > 0x7f80);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_f16_converts_both_ways),
        cmocka_unit_test(test_every_bf16_converts_both_ways),
        cmocka_unit_test(test_f16_rounds_to_nearest_even_everywhere),
        cmocka_unit_test(test_bf16_rounds_to_nearest_even_everywhere),
        cmocka_unit_test(test_too_large_becomes_infinity_and_too_small_zero),
        cmocka_unit_test(test_a_nan_never_becomes_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
