/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_file_test.c - graphs and traces as users may write them, rightly and wrongly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/schedule/graph_file.h"

static void test_wrong_json_is_refused_with_the_cause(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *word;
    } wrong[] = {
        {"", "line"},
        {"{", "line"},
        {"[]", "\"tensors\" is not a list"},
        {"{\"tensors\":[]}", "\"ops\" is not a list"},
        {"{\"tensors\":[],\"ops\":[]}", "empty"},
        {"{\"tensors\":[{\"name\":\"w\",\"bytes\":-1}],\"ops\":[]}", "tensors[0]"},
        {"{\"tensors\":[{\"name\":\"w\",\"bytes\":1},{\"name\":\"w\",\"bytes\":1}],\"ops\":[]}",
         "appears twice"},
        {"{\"tensors\":[],\"ops\":[{\"kind\":\"compute\"}]}", "ops[0]"},
        {"{\"tensors\":[],\"ops\":[{\"id\":\"a\",\"kind\":\"magic\"}]}", "ops[0]"},
        {"{\"tensors\":[],\"ops\":[{\"id\":\"a\",\"time_us\":-3}]}", "negative"},
        {"{\"tensors\":[],\"ops\":[{\"id\":\"a\"},{\"id\":\"a\"}]}", "appears twice"},
        {"{\"tensors\":[],\"ops\":[{\"id\":\"a\",\"kind\":\"recv\",\"tensor\":\"x\"}]}",
         "ops[0]: unknown tensor \"x\""},
        {"{\"tensors\":[],\"ops\":[{\"id\":\"a\",\"kind\":\"send\"}]}", "needs a \"tensor\""},
        {"{\"tensors\":[],\"ops\":[{\"id\":\"a\",\"time_us\":1e308}]}", "more than 1e15 us"},
        {"{\"tensors\":[],\"ops\":[{\"id\":\"a\",\"after\":[\"b\"]}]}", "unknown op \"b\""},
        {"{\"tensors\":[],\"ops\":[{\"id\":\"a\",\"after\":7}]}", "not a list"},
        {"{\"tensors\":[{\"name\":\"w\",\"bytes\":1}],\"ops\":[{\"id\":\"a\",\"after\":[\"b\"]},"
         "{\"id\":\"b\",\"after\":[\"a\"]}]}",
         "cycle"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tt_text why = {0};
        tt_graph *graph = NULL;
        assert_int_equal(TT_ERR_BAD_ARGUMENT,
                         tt_graph_read_json(wrong[i].text, strlen(wrong[i].text), &why, &graph));
        if (strstr(why.bytes, wrong[i].word) == NULL) {
            fail_msg("'%s' does not say '%s'", why.bytes, wrong[i].word);
        }
        assert_null(graph);
    }
}

static void test_a_graph_is_read_as_it_was_written(void **state)
{
    (void)state;
    tt_text why = {0};
    tt_graph *graph;
    tt_graph *again;
    char *text;
    size_t bytes;
    assert_int_equal(TT_OK, tt_graph_load("inception-v1", &(tt_network_config){0}, &why, &graph));
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    assert_true(tt_graph_write_json(graph, stream));
    fclose(stream);
    assert_int_equal(TT_OK, tt_graph_read_json(text, bytes, &why, &again));
    assert_int_equal(tt_graph_node_count(graph), tt_graph_node_count(again));
    for (uint32_t i = 0; i < tt_graph_node_count(graph); i++) {
        const tt_node *a = tt_graph_node(graph, i);
        const tt_node *b = tt_graph_node(again, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->phase, b->phase);
        assert_int_equal(a->tensor, b->tensor);
        assert_true(fabs(a->time_us - b->time_us) <= 1e-12 * a->time_us);
        assert_int_equal(tt_graph_order(graph)[i], tt_graph_order(again)[i]);
    }
    tt_graph_destroy(graph);
    tt_graph_destroy(again);
    free(text);
}

static void test_a_trace_becomes_a_chain(void **state)
{
    (void)state;
    static const char text[] = "# model=x\n# forward_us=10 backward_us=20 step_us=31\n"
                               "name\telements\tfirst_use_us\tready_us\n"
                               "a\t100\t0.5\t29\nb\t50\t\t\nc\t25\t99\t15\n";
    tt_text why = {0};
    tt_graph *graph;
    assert_int_equal(TT_OK, tt_graph_read_trace(text, strlen(text), &why, &graph));
    assert_string_equal("1 time lies outside the pass, moved to its edge; the first: line 6, "
                        "first used at 99 us, taken as 10",
                        why.bytes);
    tt_text_clear(&why);
    tt_scratch scratch;
    tt_scratch_init(&scratch, &tt_allocator_default);
    tt_workload workload;
    assert_int_equal(TT_OK, tt_graph_workload(graph, NULL, &scratch, &why, &workload));
    assert_int_equal(3, workload.tensor_count);
    assert_int_equal(400, workload.tensors[0].bytes);
    assert_true(fabs(workload.tensors[0].first_use_us - 0.5) < 1e-9);
    assert_true(fabs(workload.tensors[1].first_use_us) < 1e-9); /* not given: the earliest */
    assert_true(fabs(workload.tensors[1].ready_us - 30) < 1e-9);
    assert_true(fabs(workload.tensors[2].first_use_us - 10) < 1e-9); /* beyond forward: its end */
    assert_true(fabs(workload.tensors[2].ready_us - 15) < 1e-9);
    tt_scratch_fini(&scratch);
    tt_graph_destroy(graph);
}

static void test_a_trace_whose_times_lie_within_their_passes_is_read_without_a_remark(void **state)
{
    (void)state;
    static const char text[] = "# forward_us=0.1 backward_us=0.2\na\t1\t0.1\t0.3\nb\t1\t\t0.1\n";
    tt_text why = {0};
    tt_graph *graph;
    assert_int_equal(TT_OK, tt_graph_read_trace(text, strlen(text), &why, &graph));
    assert_int_equal(0, why.length);
    tt_graph_destroy(graph);
}

static void test_wrong_traces_are_refused_by_line(void **state)
{
    (void)state;
    static const char *const wrong[] = {"# forward_us=1 backward_us=1\na\tx\t1\t1\n",
                                        "# forward_us=1 backward_us=1\na\t1\t1\n",
                                        "# forward_us=1 backward_us=1\na\t-1\t1\t1\n",
                                        "# forward_us=1 backward_us=1\na\t1\t-1\t1\n",
                                        "# forward_us=1 backward_us=1\na\t1\t1\tnan\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tt_text why = {0};
        tt_graph *graph;
        assert_int_equal(TT_ERR_BAD_ARGUMENT,
                         tt_graph_read_trace(wrong[i], strlen(wrong[i]), &why, &graph));
        assert_non_null(strstr(why.bytes, "line 2"));
    }
    tt_text why = {0};
    tt_graph *graph;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_read_trace("", 0, &why, &graph));
    assert_non_null(strstr(why.bytes, "no tensor"));
    static const char negative[] = "# forward_us=-1 backward_us=1\na\t1\t0\t1\n";
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_graph_read_trace(negative, strlen(negative), &why, &graph));
    assert_non_null(strstr(why.bytes, "must not be negative"));
    static const char *const long_ones[] = {"# forward_us=1e308 backward_us=1e308\na\t1\t0\t1\n",
                                            "# forward_us=1e307 backward_us=1\na\t1\t0\t1\n",
                                            "# forward_us=1 backward_us=inf\na\t1\t0\t1\n"};
    for (size_t i = 0; i < sizeof(long_ones) / sizeof(long_ones[0]); i++) {
        tt_text_clear(&why);
        assert_int_equal(TT_ERR_BAD_ARGUMENT,
                         tt_graph_read_trace(long_ones[i], strlen(long_ones[i]), &why, &graph));
        assert_non_null(strstr(why.bytes, "a step has at most 1e+15 us"));
    }
}

static void test_an_unknown_network_is_refused_with_a_guess(void **state)
{
    (void)state;
    tt_text why = {0};
    tt_graph *graph;
    assert_int_equal(TT_ERR_BAD_ARGUMENT,
                     tt_graph_load("vgg17", &(tt_network_config){0}, &why, &graph));
    assert_non_null(strstr(why.bytes, "did you mean vgg1"));
    tt_text_clear(&why);
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_graph_load("missing.json", NULL, &why, &graph));
    assert_non_null(strstr(why.bytes, "cannot open"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_json_is_refused_with_the_cause),
        cmocka_unit_test(test_a_graph_is_read_as_it_was_written),
        cmocka_unit_test(test_a_trace_becomes_a_chain),
        cmocka_unit_test(test_a_trace_whose_times_lie_within_their_passes_is_read_without_a_remark),
        cmocka_unit_test(test_wrong_traces_are_refused_by_line),
        cmocka_unit_test(test_an_unknown_network_is_refused_with_a_guess),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
