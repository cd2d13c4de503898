/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: lines are cut into fields exactly, and nothing we write can be read as two lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "launch/pmi/pmi_line.h"

static tt_status decode(const char *text, tt_launch_pmi_line *line)
{
    return tt_launch_pmi_line_decode(text, strlen(text), line);
}

static void test_fields_are_found_by_name(void **state)
{
    (void)state;
    tt_launch_pmi_line line;
    assert_int_equal(decode("cmd=get_result rc=0  msg=all is well value=a=b= x=", &line), TT_OK);
    assert_true(tt_launch_pmi_line_has(&line, "cmd", "get_result"));
    assert_true(tt_launch_pmi_line_has(&line, "msg", "all is well"));
    assert_true(tt_launch_pmi_line_has(&line, "value", "a=b="));
    assert_true(tt_launch_pmi_line_has(&line, "x", ""));
    assert_false(tt_launch_pmi_line_has(&line, "rc", "00"));
    assert_null(tt_launch_pmi_line_find(&line, "c"));
    assert_null(tt_launch_pmi_line_find(&line, "cmdx"));
}

static void test_odd_lines_are_refused(void **state)
{
    (void)state;
    static const char *const odd[] = {"", " ", "word", "=x", "cmd=a =b", "cmd=a\tb", "a=\x7f"};
    tt_launch_pmi_line line = {.field_count = 7};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        assert_int_equal(decode(odd[i], &line), TT_ERR_BAD_WIRE);
        assert_int_equal(line.field_count, 7);
    }
    assert_int_equal(tt_launch_pmi_line_decode("a=b\0c", 5, &line), TT_ERR_BAD_WIRE);
}

static void test_fields_and_length_are_limited(void **state)
{
    (void)state;
    char text[TT_LAUNCH_PMI_LINE_BYTES + 1] = "";
    tt_launch_pmi_line line;
    for (size_t i = 0; i < TT_LAUNCH_PMI_FIELDS_MAX; i++) {
        strncat(text, "a=b ", sizeof(text) - strlen(text) - 1);
    }
    assert_int_equal(decode(text, &line), TT_OK);
    strncat(text, "a=b ", sizeof(text) - strlen(text) - 1);
    assert_int_equal(decode(text, &line), TT_ERR_BAD_WIRE);
    memset(text, 'a', sizeof(text));
    text[1] = '=';
    assert_int_equal(tt_launch_pmi_line_decode(text, TT_LAUNCH_PMI_LINE_BYTES, &line),
                     TT_ERR_BAD_WIRE);
    assert_int_equal(tt_launch_pmi_line_decode(text, TT_LAUNCH_PMI_LINE_BYTES - 1, &line), TT_OK);
}

static void test_text_that_would_break_the_line_is_bad(void **state)
{
    (void)state;
    static const char *const values[] = {"", "a b", "a\nb", "\x80", "a\tb"};
    tt_launch_pmi_text text;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        tt_launch_pmi_text_start(&text, "put");
        tt_launch_pmi_text_add(&text, "value", values[i]);
        assert_false(tt_launch_pmi_text_end(&text));
    }
    tt_launch_pmi_text_start(&text, "put");
    tt_launch_pmi_text_add(&text, "k=", "v");
    assert_false(tt_launch_pmi_text_end(&text));
    tt_launch_pmi_text_start(&text, "put");
    tt_launch_pmi_text_add(&text, "key", "v=w");
    assert_true(tt_launch_pmi_text_end(&text));
    assert_memory_equal(text.bytes, "cmd=put key=v=w\n", text.count);
}

static void test_text_fills_the_line_and_no_more(void **state)
{
    (void)state;
    char value[TT_LAUNCH_PMI_LINE_BYTES];
    tt_launch_pmi_text text;
    const size_t value_bytes = TT_LAUNCH_PMI_LINE_BYTES - sizeof("cmd=c k=\n") + 1;
    memset(value, 'v', sizeof(value));
    value[value_bytes] = '\0';
    tt_launch_pmi_text_start(&text, "c");
    tt_launch_pmi_text_add(&text, "k", value);
    assert_true(tt_launch_pmi_text_end(&text));
    assert_int_equal(text.count, TT_LAUNCH_PMI_LINE_BYTES);
    value[value_bytes] = 'v';
    value[value_bytes + 1] = '\0';
    tt_launch_pmi_text_start(&text, "c");
    tt_launch_pmi_text_add(&text, "k", value);
    assert_false(tt_launch_pmi_text_end(&text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_are_found_by_name),
        cmocka_unit_test(test_odd_lines_are_refused),
        cmocka_unit_test(test_fields_and_length_are_limited),
        cmocka_unit_test(test_text_that_would_break_the_line_is_bad),
        cmocka_unit_test(test_text_fills_the_line_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
