/* SPDX-License-Identifier: Apache-2.0
 *
 * dtype_test.c - the tables agree with the C types, and every name parses back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel/dtype.h"

static void test_bytes_are_those_of_the_c_types(void **state)
{
    (void)state;
    assert_int_equal(tt_dtype_bytes(TT_U8), sizeof(uint8_t));
    assert_int_equal(tt_dtype_bytes(TT_I16), sizeof(int16_t));
    assert_int_equal(tt_dtype_bytes(TT_I32), sizeof(int32_t));
    assert_int_equal(tt_dtype_bytes(TT_I64), sizeof(int64_t));
    assert_int_equal(tt_dtype_bytes(TT_F16), 2);
    assert_int_equal(tt_dtype_bytes(TT_BF16), 2);
    assert_int_equal(tt_dtype_bytes(TT_F32), sizeof(float));
    assert_int_equal(tt_dtype_bytes(TT_F64), sizeof(double));
    assert_int_equal(tt_dtype_bytes(TT_BOOL), sizeof(_Bool));
    assert_int_equal(tt_dtype_bytes(TT_DTYPE_COUNT), 0);
}

static void test_wire_numbers_never_change(void **state)
{
    (void)state;
    assert_int_equal(TT_U8, 0);
    assert_int_equal(TT_I64, 5);
    assert_int_equal(TT_F16, 6);
    assert_int_equal(TT_F64, 9);
    assert_int_equal(TT_BOOL, 10);
    assert_int_equal(TT_SUM, 0);
    assert_int_equal(TT_PRODUCT, 4);
    assert_int_equal(TT_XOR, 7);
    assert_int_equal(TT_ADASUM, 8);
}

static void test_every_name_parses_back(void **state)
{
    (void)state;
    for (int i = 0; i < TT_DTYPE_COUNT; i++) {
        tt_dtype dtype = TT_DTYPE_COUNT;
        assert_true(tt_dtype_parse(tt_dtype_name((tt_dtype)i), &dtype));
        assert_int_equal(dtype, i);
    }
    for (int i = 0; i < TT_REDOP_COUNT; i++) {
        tt_redop redop = TT_REDOP_COUNT;
        assert_true(tt_redop_parse(tt_redop_name((tt_redop)i), &redop));
        assert_int_equal(redop, i);
    }
}

static void test_framework_names_are_accepted(void **state)
{
    (void)state;
    tt_dtype dtype;
    tt_redop redop;
    assert_true(tt_dtype_parse("bfloat16", &dtype));
    assert_int_equal(dtype, TT_BF16);
    assert_true(tt_redop_parse("mean", &redop));
    assert_int_equal(redop, TT_AVERAGE);
}

static void test_a_wrong_name_leaves_the_output_alone(void **state)
{
    (void)state;
    tt_dtype dtype = TT_I8;
    tt_redop redop = TT_MAX;
    assert_false(tt_dtype_parse("F32", &dtype));
    assert_false(tt_dtype_parse("", &dtype));
    assert_false(tt_redop_parse("summ", &redop));
    assert_int_equal(dtype, TT_I8);
    assert_int_equal(redop, TT_MAX);
    assert_string_equal(tt_dtype_name((tt_dtype)99), "invalid");
    assert_string_equal(tt_redop_name((tt_redop)99), "invalid");
}

static void test_meaningless_pairs_are_refused(void **state)
{
    (void)state;
    assert_false(tt_redop_allowed(TT_F32, TT_XOR));
    assert_false(tt_redop_allowed(TT_BF16, TT_AND));
    assert_false(tt_redop_allowed(TT_BOOL, TT_AVERAGE));
    assert_false(tt_redop_allowed((tt_dtype)-1, TT_SUM));
    assert_false(tt_redop_allowed(TT_F32, (tt_redop)9));
    assert_true(tt_redop_allowed(TT_BF16, TT_ADASUM));
    assert_false(tt_redop_allowed(TT_I32, TT_ADASUM));
    assert_true(tt_redop_allowed(TT_BOOL, TT_XOR));
    assert_true(tt_redop_allowed(TT_I32, TT_AVERAGE));
    assert_true(tt_redop_allowed(TT_F16, TT_AVERAGE));
}

static void test_bool_is_neither_float_nor_integer(void **state)
{
    (void)state;
    int float_count = 0;
    int integer_count = 0;
    for (int i = -1; i <= TT_DTYPE_COUNT; i++) {
        float_count += tt_dtype_is_float((tt_dtype)i);
        integer_count += tt_dtype_is_integer((tt_dtype)i);
    }
    assert_int_equal(float_count, 4);
    assert_int_equal(integer_count, 6);
    assert_false(tt_dtype_is_integer(TT_BOOL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_those_of_the_c_types),
        cmocka_unit_test(test_wire_numbers_never_change),
        cmocka_unit_test(test_every_name_parses_back),
        cmocka_unit_test(test_framework_names_are_accepted),
        cmocka_unit_test(test_a_wrong_name_leaves_the_output_alone),
        cmocka_unit_test(test_meaningless_pairs_are_refused),
        cmocka_unit_test(test_bool_is_neither_float_nor_integer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
