/* SPDX-License-Identifier: Apache-2.0
 *
 * json_line_test.c - members are found where they are, and nowhere else. */
#include "cli/cluster/json_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char text[] = "{\n"                                       /* 1 */
                           " \"a\": {\"x\": 1,\n"                      /* 2 */
                           "   \"y\"\n"                                /* 3 */
                           " : \"b\"},\n"                              /* 4 */
                           " \"note\": \"\\\"b\\\": \\\\\",\n"         /* 5 */
                           " \"list\": [{\"b\": 1}, \"x\"],\n"         /* 6 */
                           " \"deep\": {\"a\": {\"y\": 1}},\n"         /* 7 */
                           " \"b\": {\n"                               /* 8 */
                           "   \"x\": {\"z\": 1}, \"z\": [\"x\"]}}\n"; /* 9 */

static int line(const char *outer, const char *inner)
{
    return tt_json_line(text, strlen(text), outer, inner);
}

static void test_a_member_is_found_on_the_line_of_its_name(void **state)
{
    (void)state;
    assert_int_equal(line("a", NULL), 2);
    assert_int_equal(line("a", "x"), 2);
    assert_int_equal(line("a", "y"), 3);
    assert_int_equal(line("note", NULL), 5);
    assert_int_equal(line("b", NULL), 8);
    assert_int_equal(line("b", "x"), 9);
    assert_int_equal(line("b", "z"), 9);
}

static void test_what_looks_like_a_member_is_none(void **state)
{
    (void)state;
    assert_int_equal(line("x", NULL), 0); /* of a group */
    assert_int_equal(line("a", "z"), 0);  /* of another group */
    assert_int_equal(line("deep", "y"), 0);
    assert_int_equal(line("list", "b"), 0);
    assert_int_equal(line("b\": ", NULL), 0);
}

static int path(const char *first, const char *second, const char *third)
{
    const char *const steps[] = {first, second, third};
    return tt_json_path_line(text, strlen(text), steps, third != NULL ? 3 : 2);
}

static void test_elements_and_members_at_any_depth_are_found(void **state)
{
    (void)state;
    static const char rows[] = "[\n1, [\n], {}, \"]\",\n{\"a\":\n[\n0]}]";
    static const char *const steps[] = {"4", "a", "0"};
    assert_int_equal(path("list", "0", NULL), 6);
    assert_int_equal(path("list", "1", NULL), 6);
    assert_int_equal(path("list", "0", "b"), 6);
    assert_int_equal(path("deep", "a", "y"), 7);
    assert_int_equal(path("b", "z", "0"), 9);
    assert_int_equal(path("list", "2", NULL), 0);
    assert_int_equal(path("list", "x", NULL), 0);
    assert_int_equal(path("list", "0", "x"), 0);
    assert_int_equal(tt_json_path_line(rows, strlen(rows), steps, 1), 4);
    assert_int_equal(tt_json_path_line(rows, strlen(rows), steps, 2), 4);
    assert_int_equal(tt_json_path_line(rows, strlen(rows), steps, 3), 6);
    assert_int_equal(tt_json_path_line(rows, strlen(rows), (const char *const[]){"1"}, 1), 2);
    assert_int_equal(tt_json_path_line(rows, strlen(rows), (const char *const[]){"3"}, 1), 3);
}

static void test_a_text_that_ends_early_is_read_to_its_end(void **state)
{
    (void)state;
    /* Sanitizers see a byte behind the end. */
    for (size_t bytes = 0; bytes < strlen(text); bytes++) {
        char *part = malloc(bytes > 0 ? bytes : 1);
        assert_non_null(part);
        memcpy(part, text, bytes);
        const int found = tt_json_line(part, bytes, "b", "x");
        const bool is_there = bytes > (size_t)(strstr(text, "\"x\": {") + 3 - text);
        assert_int_equal(found, is_there ? 9 : 0);
        free(part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_member_is_found_on_the_line_of_its_name),
        cmocka_unit_test(test_elements_and_members_at_any_depth_are_found),
        cmocka_unit_test(test_what_looks_like_a_member_is_none),
        cmocka_unit_test(test_a_text_that_ends_early_is_read_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
