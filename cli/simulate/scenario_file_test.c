/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_file_test.c - options from files are those of the command line, and errors have lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/simulate/scenario_file.h"

typedef struct values {
    const char *graph;
    bool is_quick;
    int64_t ranks;
    uint64_t chunk;
    double rate;
    int choice;
    const char *output;
    tt_option_list sweeps;
    uint64_t given;
} values;

static const tt_option options[] = {
    {'g', "graph", TT_OPTION_STRING, offsetof(values, graph), "G", "", NULL, NULL, NULL, 0, 0},
    {'\0', "quick", TT_OPTION_FLAG, offsetof(values, is_quick), NULL, "", NULL, NULL, NULL, 0, 0},
    {'n', "ranks", TT_OPTION_INT, offsetof(values, ranks), "N", "", "8", NULL, NULL, 1, 100},
    {'\0', "chunk", TT_OPTION_BYTES, offsetof(values, chunk), "B", "", "0", NULL, NULL, 0, 0},
    {'\0', "rate", TT_OPTION_RATE, offsetof(values, rate), "R", "", "1", NULL, NULL, 0, 0},
    {'\0', "dtype", TT_OPTION_CHOICE, offsetof(values, choice), NULL, "", "f32", "f32|f16", NULL, 0,
     0},
    {'o', "output", TT_OPTION_STRING, offsetof(values, output), "F", "", NULL, NULL, NULL, 0, 0},
    {'\0', "sweep", TT_OPTION_LIST, offsetof(values, sweeps), "S", "", NULL, NULL, NULL, 0, 0},
};

static const tt_command command = {.name = "simulate",
                                   .options = options,
                                   .option_count = TT_ARRAY_COUNT(options),
                                   .values_bytes = sizeof(values),
                                   .given_offset = offsetof(values, given)};

static const char *const files[] = {"graph", NULL};
static const char *const refused[] = {"output", NULL};
static const tt_scenario_rules rules = {.command = &command, .files = files, .refused = refused};

static tt_status read_text(const char *path, const char *text, tt_text *why, tt_scenario *scenario)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_DECODE_ANY, &error);
    const tt_scenario_text source = {.path = path, .text = text, .bytes = strlen(text)};
    assert_non_null(root);
    const tt_status status = tt_scenario_read(&rules, &source, root, why, scenario);
    json_decref(root);
    return status;
}

static void test_members_are_options(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_scenario scenario;
    assert_int_equal(TT_OK, read_text("folder/s.json",
                                      "{\"summary\": \"x\", \"graph\": \"resnet50\", \"quick\": "
                                      "true, \"ranks\": 64, \"chunk\": \"64K\", \"rate\": 2.5, "
                                      "\"dtype\": \"f16\", \"sweep\": {\"ranks\": [8, 64], "
                                      "\"network.bandwidth_gbs\": 0.125, \"chunk\": [\"1M\"]}}",
                                      &why, &scenario));
    const values *found = scenario.values;
    assert_string_equal("resnet50", found->graph);
    assert_true(found->is_quick);
    assert_int_equal(64, found->ranks);
    assert_int_equal(64 << 10, found->chunk);
    assert_true(found->rate > 2.4 && found->rate < 2.6);
    assert_int_equal(1, found->choice);
    assert_int_equal(3, found->sweeps.count);
    assert_string_equal("ranks=8,64", found->sweeps.items[0]);
    assert_string_equal("network.bandwidth_gbs=0.125", found->sweeps.items[1]);
    assert_string_equal("chunk=1M", found->sweeps.items[2]);
    tt_scenario_fini(&scenario);
}

static void test_what_is_left_out_is_the_default(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_scenario scenario;
    assert_int_equal(TT_OK,
                     read_text("s.json", "{\"quick\": false, \"sweep\": {}}", &why, &scenario));
    const values *found = scenario.values;
    assert_null(found->graph);
    assert_false(found->is_quick);
    assert_int_equal(8, found->ranks);
    assert_int_equal(0, found->sweeps.count);
    assert_int_equal(0, found->given);
    tt_scenario_fini(&scenario);
}

static void test_files_are_found_from_the_folder_of_the_scenario(void **state)
{
    (void)state;
    static const struct {
        const char *path, *text, *graph, *sweep;
    } cases[] = {
        {"a/b/s.json", "{\"graph\": \"t.tsv\", \"sweep\": {\"graph\": [\"../u.json\", \"net\"]}}",
         "a/b/t.tsv", "graph=a/b/../u.json,net"},
        {"s.json", "{\"graph\": \"t.tsv\", \"sweep\": {\"graph\": [\"x/u\"]}}", "t.tsv",
         "graph=x/u"},
        {"a/s.json", "{\"graph\": \"/t.tsv\", \"sweep\": {\"other\": [\"u.json\"]}}", "/t.tsv",
         "other=u.json"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_text why = {.length = 0};
        tt_scenario scenario;
        assert_int_equal(TT_OK, read_text(cases[i].path, cases[i].text, &why, &scenario));
        const values *found = scenario.values;
        assert_string_equal(cases[i].graph, found->graph);
        assert_string_equal(cases[i].sweep, found->sweeps.items[0]);
        tt_scenario_fini(&scenario);
    }
}

static void test_errors_have_a_line_and_a_cure(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"[]", "s.json:1: not a scenario: give options in braces"},
        {"{\n\"rank\": 3}", "s.json:2: unknown field \"rank\"; did you mean ranks"},
        {"{\n\n\"zzz\": 3}", "s.json:3: unknown field \"zzz\"; fields are named as the options of "
                             "'tutti simulate --help'"},
        {"{\"output\": \"x\"}", "s.json:1: output has no place in a scenario; give --output"},
        {"{\n\"ranks\": 0}", "s.json:2: ranks: 0 is not between 1 and 100"},
        {"{\"ranks\": 1.5}", "s.json:1: ranks: give a whole number"},
        {"{\"ranks\": \"8\"}", "s.json:1: ranks: give a whole number"},
        {"{\"chunk\": \"64X\"}", "s.json:1: chunk: '64X' is not a size such as 4096, 64K or 1G"},
        {"{\"chunk\": -1}", "s.json:1: chunk: '-1' is not a size such as 4096, 64K or 1G"},
        {"{\"rate\": 0}", "s.json:1: rate: '0' is not a number greater than 0"},
        {"{\"rate\": null}", "s.json:1: rate: give a number"},
        {"{\"quick\": 1}", "s.json:1: quick: give true or false"},
        {"{\"dtype\": \"f8\"}", "s.json:1: dtype: 'f8' is not one of f32|f16"},
        {"{\"graph\": \"a\\nb\"}", "s.json:1: graph: give a text of one line"},
        {"{\"graph\": \"\"}", "s.json:1: graph: give a text of one line"},
        {"{\"summary\": 1}", "s.json:1: summary: give a text"},
        {"{\n\"sweep\": [1]}", "s.json:2: sweep: give an object, such as {\"NAME\": [1, 2]}"},
        {"{\"sweep\": {\n\"ranks\": []}}",
         "s.json:2: sweep is no object of names and their values: "
         "give {\"NAME\": [1, 2]}, or texts without commas"},
        {"{\"sweep\": {\n\"ranks\": [[1]]}}", "s.json:2: sweep is no object"},
        {"{\"sweep\": {\n\"ranks\": [\"1,2\"]}}", "s.json:2: sweep is no object"},
        {"{\"sweep\": {\n\"a=b\": [1]}}", "s.json:2: sweep is no object"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_text why = {.length = 0};
        tt_scenario scenario = {.values = NULL};
        assert_int_equal(TT_ERR_BAD_CONFIG, read_text("s.json", cases[i].text, &why, &scenario));
        assert_null(scenario.values);
        if (strncmp(why.bytes, cases[i].error, strlen(cases[i].error)) != 0) {
            fail_msg("%s\n  said  %s\n  not   %s", cases[i].text, why.bytes, cases[i].error);
        }
    }
}

static void test_too_many_values_are_refused(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_scenario scenario;
    json_t *root = json_object(), *list = json_array(), *sweep = json_object();
    for (int i = 0; i < 20000; i++) {
        json_array_append_new(list, json_integer(10000 + i));
    }
    json_object_set_new(sweep, "ranks", list);
    json_object_set_new(root, "sweep", sweep);
    char *text = json_dumps(root, 0);
    assert_int_equal(TT_ERR_BAD_CONFIG, read_text("s.json", text, &why, &scenario));
    assert_string_equal("s.json:1: sweep is too long: leave out some of its values", why.bytes);
    free(text);
    json_decref(root);
}

static void test_a_scenario_inside_a_file_has_its_lines(void **state)
{
    (void)state;
    static const char text[] = "{\"rows\": [{},\n{\"scenario\":\n{\"ranks\":\n0}}]}";
    tt_text why = {.length = 0};
    tt_scenario scenario;
    json_t *root = json_loads(text, 0, NULL);
    const tt_scenario_text source = {.path = "v.json",
                                     .text = text,
                                     .bytes = strlen(text),
                                     .steps = {"rows", "1", "scenario"},
                                     .step_count = 3};
    json_t *members = json_object_get(json_array_get(json_object_get(root, "rows"), 1), "scenario");
    assert_int_equal(TT_ERR_BAD_CONFIG,
                     tt_scenario_read(&rules, &source, members, &why, &scenario));
    assert_string_equal("v.json:3: ranks: 0 is not between 1 and 100", why.bytes);
    json_decref(root);
}

static void test_a_file_is_loaded_and_remembers_its_lines(void **state)
{
    (void)state;
    tt_text path = {.length = 0}, why = {.length = 0}, where = {.length = 0};
    tt_scenario scenario;
    tt_text_add(&path, "/tmp/scenario_file_test.%ld.json", (long)getpid());
    FILE *stream = fopen(path.bytes, "we");
    assert_non_null(stream);
    fputs("{\"ranks\": 4,\n \"graph\": \"vgg16\"}", stream);
    assert_int_equal(0, fclose(stream));
    assert_int_equal(TT_OK, tt_scenario_load(&rules, path.bytes, &why, &scenario));
    tt_scenario_where(&scenario, "sweep", &where);
    assert_int_equal(0, where.length);
    tt_scenario_where(&scenario, "graph", &where);
    tt_text_add(&path, ":2: ");
    assert_string_equal(path.bytes, where.bytes);
    tt_scenario_fini(&scenario);
    path.bytes[path.length - strlen(":2: ")] = '\0';
    stream = fopen(path.bytes, "we");
    assert_non_null(stream);
    fputs("{\"ranks\": 4,\n \"ranks\": 5}", stream);
    assert_int_equal(0, fclose(stream));
    assert_int_equal(TT_ERR_BAD_CONFIG, tt_scenario_load(&rules, path.bytes, &why, &scenario));
    assert_non_null(strstr(why.bytes, ".json:2: not JSON: duplicate object key"));
    assert_int_equal(0, unlink(path.bytes));
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_CONFIG, tt_scenario_load(&rules, path.bytes, &why, &scenario));
    assert_non_null(strstr(why.bytes, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_are_options),
        cmocka_unit_test(test_what_is_left_out_is_the_default),
        cmocka_unit_test(test_files_are_found_from_the_folder_of_the_scenario),
        cmocka_unit_test(test_errors_have_a_line_and_a_cure),
        cmocka_unit_test(test_too_many_values_are_refused),
        cmocka_unit_test(test_a_scenario_inside_a_file_has_its_lines),
        cmocka_unit_test(test_a_file_is_loaded_and_remembers_its_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
