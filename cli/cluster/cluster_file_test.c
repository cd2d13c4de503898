/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_file_test.c - clusters as users may write them, rightly and wrongly; what is written is
 * read as the same cluster. */
#include "cli/cluster/cluster_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static tt_status read_text(const char *text, tt_text *why, tt_cluster *cluster_out)
{
    const tt_cluster_text source = {.path = "my.json", .text = text, .bytes = strlen(text)};
    return tt_cluster_read_json(&source, why, cluster_out);
}

static void assert_same(const tt_cluster *a, const tt_cluster *b)
{
    const tt_cluster_field *field;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        if (tt_cluster_field_get(a, field) != tt_cluster_field_get(b, field)) {
            fail_msg("%s of %s differs", field->name, a->name);
        }
    }
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->summary, b->summary);
    assert_memory_equal(a->sources, b->sources, sizeof(a->sources));
}

/* What is written of `cluster`, read. */
static tt_cluster again(const tt_cluster *cluster)
{
    char *text = NULL;
    size_t bytes = 0;
    tt_text why = {.length = 0};
    tt_cluster read;
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    assert_true(tt_cluster_write_json(cluster, stream));
    fclose(stream);
    const tt_cluster_text source = {.path = "again.json", .text = text, .bytes = bytes};
    if (tt_cluster_read_json(&source, &why, &read) != TT_OK) {
        fail_msg("%s", why.bytes);
    }
    free(text);
    return read;
}

static void test_every_preset_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (size_t i = 0; tt_cluster_preset_at(i) != NULL; i++) {
        const tt_cluster read = again(tt_cluster_preset_at(i));
        assert_same(tt_cluster_preset_at(i), &read);
    }
}

static void test_numbers_of_many_digits_are_read_as_they_were_written(void **state)
{
    (void)state;
    tt_cluster cluster;
    tt_text why = {.length = 0};
    assert_int_equal(read_text("{\"base\": \"summit\", \"summary\": \"\\u00e4 \\\"b\\\"\",\n"
                               " \"network\": {\"latency_us\": 1.2345678901234567,"
                               " \"bandwidth_gbs\": 0.30000000000000004},\n"
                               " \"input\": {\"samples_per_s\": 123456789012.3}}",
                               &why, &cluster),
                     TT_OK);
    const tt_cluster read = again(&cluster);
    assert_same(&cluster, &read);
    assert_true(cluster.network.latency_us > 1.234567 && cluster.network.latency_us < 1.234569);
}

static void test_what_is_not_given_is_that_of_the_base(void **state)
{
    (void)state;
    tt_cluster cluster;
    tt_text why = {.length = 0};
    assert_int_equal(read_text("{\"noise\": {\"source\": \"measured\", \"spread_percent\": 2.5},\n"
                               " \"network\": {\"latency_us\": 3},\n"
                               " \"base\": \"dgx2\"}",
                               &why, &cluster),
                     TT_OK);
    const tt_cluster *base = tt_cluster_preset_find("dgx2");
    assert_true(cluster.spread_percent == 2.5 && cluster.hiccup_ms == base->hiccup_ms);
    assert_true(cluster.network.bandwidth_gbs == base->network.bandwidth_gbs);
    assert_int_equal(cluster.ranks_per_host, 16);
    assert_int_equal(cluster.sources[TT_CLUSTER_NOISE], TT_CLUSTER_MEASURED);
    assert_int_equal(cluster.sources[TT_CLUSTER_NETWORK], TT_CLUSTER_UNSTATED);
    assert_int_equal(cluster.sources[TT_CLUSTER_GPU], TT_CLUSTER_PUBLISHED);
    assert_string_equal(cluster.name, "my");
}

static void test_a_cluster_without_a_base_needs_its_bandwidths_only(void **state)
{
    (void)state;
    tt_cluster cluster;
    tt_text why = {.length = 0};
    assert_int_equal(read_text("{\"network\": {\"bandwidth_gbs\": 1.25}}", &why, &cluster), TT_OK);
    assert_int_equal(cluster.ranks_per_host, 1);
    assert_int_equal(cluster.head_bytes, 48);
}

static void test_wrong_files_are_refused_with_line_cause_and_cure(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why; /* its beginning */
    } wrong[] = {
        {"", "my.json:1: not JSON: "},
        {"{\n\"name\": \"a\",\n", "my.json:3: not JSON: "},
        {"[]", "my.json:1: not a cluster: give groups"},
        {"{\n\"network\":\n {\"bandwith_gbs\": 1}}",
         "my.json:3: unknown field \"network.bandwith_gbs\"; did you mean network.bandwidth_gbs"},
        {"{\n\n\"netwrk\": {}}", "my.json:3: unknown group \"netwrk\"; did you mean network"},
        {"{\"colour\": 1}", "my.json:1: unknown group \"colour\"; 'tutti cluster --fields' lists"},
        {"{\n\"noise\": 3}", "my.json:2: \"noise\" is not a group: give its fields"},
        {"{\"noise\": {\n\"spread_percent\": \"3\"}}",
         "my.json:2: noise.spread_percent is not a number: give 0 to 100 %"},
        {"{\"noise\": {\n\"spread_percent\": 101}}",
         "my.json:2: noise.spread_percent is 101: give 0 to 100 %"},
        {"{\"gpu\": {\n\"generation\": 3}}",
         "my.json:2: gpu.generation is not a word: give none, volta, ampere or hopper"},
        {"{\"gpu\": {\"generation\": \"\xc3\xa4\"}}", "my.json:1: gpu.generation is \""},
        {"{\"hosts\": {\"source\": \"a\",\n\"source\": \"measured\"}}", "my.json:2: not JSON: "},
        {"{\"hosts\": {\n\"source\": \"guessed\"}}",
         "my.json:2: hosts.source is not known: give \"measured\", "},
        {"{\n\"base\": \"sumit\"}",
         "my.json:2: the base is not a known cluster; did you mean summit"},
        {"{\n\"base\": 7}", "my.json:2: the base is not a known cluster; 'tutti cluster --list'"},
        {"{\n\"name\": \"a b\"}", "my.json:2: the name is not of 1 to 63 letters"},
        {"{\n\"name\": \"\"}", "my.json:2: the name is not"},
        {"{\n\"summary\": \"a\\u0007\"}", "my.json:2: the summary is not one line"},
        {"{}", "my.json:1: network.bandwidth_gbs is 0: hosts cannot reach each other; give"},
        {"{\"base\": \"summit\",\n\"network\": {\n\"bandwidth_gbs\": 0}}",
         "my.json:3: network.bandwidth_gbs is 0: hosts cannot"},
        {"{\"network\": {\"bandwidth_gbs\": 1},\n\"hosts\": {\"ranks_per_host\": 2}}",
         "my.json:1: local.bandwidth_gbs is 0: ranks of a host"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(wrong); i++) {
        tt_text why = {.length = 0};
        tt_cluster cluster;
        assert_int_equal(read_text(wrong[i].text, &why, &cluster), TT_ERR_BAD_CONFIG);
        if (strstr(why.bytes, wrong[i].why) != why.bytes) {
            fail_msg("'%s' does not begin with '%s'", why.bytes, wrong[i].why);
        }
        assert_null(strchr(why.bytes, '\n'));
    }
}

static void test_names_are_files_or_presets(void **state)
{
    (void)state;
    tt_cluster cluster;
    tt_text why = {.length = 0};
    assert_true(tt_cluster_is_file("a.json") && tt_cluster_is_file("./a"));
    assert_false(tt_cluster_is_file("dgx2") || tt_cluster_is_file(".json"));
    assert_int_equal(tt_cluster_load("dgx2", &why, &cluster), TT_OK);
    assert_int_equal(tt_cluster_load("dgx-2", &why, &cluster), TT_ERR_BAD_CONFIG);
    assert_string_equal(why.bytes,
                        "dgx-2: neither a .json file nor a known cluster; did you mean dgx2");
    tt_text_clear(&why);
    assert_int_equal(tt_cluster_load("/nowhere/a.json", &why, &cluster), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.bytes, "/nowhere/a.json: cannot open: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_preset_is_read_as_it_was_written),
        cmocka_unit_test(test_numbers_of_many_digits_are_read_as_they_were_written),
        cmocka_unit_test(test_what_is_not_given_is_that_of_the_base),
        cmocka_unit_test(test_a_cluster_without_a_base_needs_its_bandwidths_only),
        cmocka_unit_test(test_wrong_files_are_refused_with_line_cause_and_cure),
        cmocka_unit_test(test_names_are_files_or_presets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
