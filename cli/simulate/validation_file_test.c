/* SPDX-License-Identifier: Apache-2.0
 *
 * validation_file_test.c - rows of scenarios and expectations; errors have lines. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/simulate/validation_file.h"

static tt_status read_text(const char *text, tt_text *why, tt_validation *validation)
{
    return tt_validation_read("v.json", text, strlen(text), why, validation);
}

static json_int_t ranks_of(json_t *scenario)
{
    return json_integer_value(json_object_get(scenario, "ranks"));
}

static void test_rows_are_the_defaults_unless_they_say_otherwise(void **state)
{
    (void)state;
    static const char text[] =
        "{\"summary\": \"s\", \"median_percent\": 5, \"defaults\": {\"figure\": \"us.step\", "
        "\"kind\": \"predicted\", \"source\": \"a\", \"tolerance_percent\": 10, \"scenario\": "
        "{\"ranks\": 4, \"cross\": true}}, \"rows\": [{\"name\": \"one\", \"expected\": 2},"
        "{\"name\": \"two\", \"expected\": 3.5, \"scenario\": {\"ranks\": 8}, \"against\": "
        "{\"ranks\": 16}, \"figure\": \"efficiency\", \"kind\": \"fitted\", "
        "\"tolerance_percent\": \"shown\", \"source\": \"b\", \"assumption\": \"c\"},"
        "{\"name\": \"three\", \"at_least\": 1, \"at_most\": 2}]}";
    tt_text why = {.length = 0};
    tt_validation found;
    assert_int_equal(TT_OK, read_text(text, &why, &found));
    assert_int_equal(3, found.row_count);
    assert_string_equal("s", found.summary);
    assert_true(found.median_percent > 4.9 && found.median_percent < 5.1);
    const tt_validation_row *one = &found.rows[0], *two = &found.rows[1], *three = &found.rows[2];
    assert_string_equal("us.step", one->figure);
    assert_false(one->is_fitted);
    assert_true(one->has_expected && one->tolerance_percent > 9.9 && isinf(one->at_most));
    assert_int_equal(4, ranks_of(one->scenario));
    assert_null(one->against);
    assert_null(one->assumption);
    assert_string_equal("efficiency", two->figure);
    assert_true(two->is_fitted && isinf(two->tolerance_percent));
    assert_int_equal(8, ranks_of(two->scenario));
    assert_int_equal(16, ranks_of(two->against));
    assert_true(json_is_true(json_object_get(two->against, "cross")));
    assert_string_equal("c", two->assumption);
    assert_false(three->has_expected);
    assert_true(three->at_least > 0.9 && three->at_most < 2.1);
    tt_validation_fini(&found);
}

#define ROW(members)                                                                            \
    "{\"summary\": \"s\", \"rows\": [\n{\"name\": \"n\", \"scenario\": {}, \"figure\": \"f\", " \
    "\"source\": \"x\", \"kind\": \"fitted\"" members "}]}"

static void test_errors_have_a_line_and_a_cure(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "v.json:1: not JSON: "},
        {"[1]", "v.json:1: not a file of rows: give"},
        {"{\"rows\": [1]}", "v.json:1: summary: give a text of one line"},
        {"{\"summary\": \"s\",\n\"rows\": []}", "v.json:2: rows: give at least one, in brackets"},
        {"{\"summary\": \"s\",\n\"row\": []}",
         "v.json:2: unknown field \"row\"; did you mean rows"},
        {"{\"summary\": \"s\", \"rows\": [\n1]}", "v.json:2: not a row: give its fields in braces"},
        {"{\"summary\": \"s\", \"rows\": [1],\n\"defaults\": 1}",
         "v.json:2: defaults: give fields of rows in braces"},
        {"{\"summary\": \"s\", \"rows\": [1], \"defaults\": {\n\"tolerance\": 1}}",
         "v.json:2: unknown field \"tolerance\"; leave it out"},
        {"{\"summary\": \"s\", \"rows\": [{}]}", "v.json:1: scenario: give options in braces"},
        {ROW(",\n\"expectd\": 1"), "v.json:3: unknown field \"expectd\"; did you mean expected"},
        {ROW(""), "v.json:2: give expected, or at_least and at_most, and not both"},
        {ROW(", \"expected\": 1, \"at_most\": 2"), "v.json:2: give expected, or at_least"},
        {ROW(",\n\"expected\": \"1\""), "v.json:3: expected: give a number"},
        {ROW(",\n\"expected\": 0"), "v.json:3: expected: 0 has no error in percent; give at_most"},
        {ROW(", \"expected\": 1"),
         "v.json:2: tolerance_percent: give a number from 0, or \"shown\""},
        {ROW(", \"expected\": 1,\n\"tolerance_percent\": -1"), "v.json:3: tolerance_percent: give"},
        {ROW(", \"at_least\": 1,\n\"against\": 1"), "v.json:3: against: give options in braces"},
        {ROW(", \"at_least\": 1,\n\"assumption\": 1"), "v.json:3: assumption: give a text"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_text why = {.length = 0};
        tt_validation found = {.path = NULL};
        assert_int_equal(TT_ERR_BAD_CONFIG, read_text(cases[i].text, &why, &found));
        assert_null(found.root);
        if (strncmp(why.bytes, cases[i].error, strlen(cases[i].error)) != 0) {
            fail_msg("%s\n  said  %s\n  not   %s", cases[i].text, why.bytes, cases[i].error);
        }
    }
}

static void test_a_file_that_is_missing_is_named(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_validation found;
    assert_int_equal(TT_ERR_BAD_CONFIG, tt_validation_load("/no/such/v.json", &why, &found));
    assert_int_equal(0, strncmp(why.bytes, "/no/such/v.json: ", 17));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_the_defaults_unless_they_say_otherwise),
        cmocka_unit_test(test_errors_have_a_line_and_a_cure),
        cmocka_unit_test(test_a_file_that_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
