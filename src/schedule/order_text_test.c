/* SPDX-License-Identifier: Apache-2.0
 *
 * order_text_test.c - texts that are read, and texts that are refused with the number of a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "schedule/order_text.h"

typedef struct found {
    char names[4][32];
    uint32_t priorities[4];
    size_t count;
} found;

static tt_status note(void *user, const char *name, uint32_t priority, tt_text *why)
{
    found *lines = user;
    if (lines->count == 4) {
        tt_text_add(why, "unknown tensor");
        return TT_ERR_BAD_ARGUMENT;
    }
    memcpy(lines->names[lines->count], name, strlen(name) + 1);
    lines->priorities[lines->count++] = priority;
    return TT_OK;
}

static tt_status parse(const char *text, found *lines, tt_text *why)
{
    memset(lines, 0, sizeof(*lines));
    tt_text_clear(why);
    return tt_order_text_parse(text, strlen(text), note, lines, why);
}

static void test_priorities_and_names_are_read(void **state)
{
    (void)state;
    found lines;
    tt_text why;
    assert_int_equal(TT_OK, parse("tutti order 1\n# why\n\n0\tconv 1/w\n7\tb", &lines, &why));
    assert_int_equal(2, lines.count);
    assert_string_equal("conv 1/w", lines.names[0]);
    assert_int_equal(0, lines.priorities[0]);
    assert_string_equal("b", lines.names[1]);
    assert_int_equal(7, lines.priorities[1]);
    assert_int_equal(TT_OK, parse("tutti order 1", &lines, &why));
}

static void test_invalid_lines_are_refused_by_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "tutti order 2\n",
        "tutti order 1 \n0\ta",
        "tutti order 1\n0 a\n",
        "tutti order 1\n\ta\n",
        "tutti order 1\n-1\ta\n",
        "tutti order 1\n16777216\ta\n",
        "tutti order 1\n99999999999999999999\ta\n",
        "tutti order 1\n1\t\n",
        "tutti order 1\n1\ta\x01\n",
        "tutti order 1\n1\n",
        "tutti order 1\n1\ta\tb\n",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        found lines;
        tt_text why;
        assert_int_equal(TT_ERR_BAD_CONFIG, parse(wrong[i], &lines, &why));
        assert_non_null(strstr(why.bytes, i < 3 ? "line 1" : "line 2"));
        assert_int_equal(0, lines.count);
    }
}

static void test_a_failing_callback_ends_the_reading(void **state)
{
    (void)state;
    found lines;
    tt_text why;
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     parse("tutti order 1\n0\ta\n1\tb\n2\tc\n3\td\n4\te\n", &lines, &why));
    assert_string_equal("unknown tensor", why.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_priorities_and_names_are_read),
        cmocka_unit_test(test_invalid_lines_are_refused_by_number),
        cmocka_unit_test(test_a_failing_callback_ends_the_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
