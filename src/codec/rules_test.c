/* SPDX-License-Identifier: Apache-2.0
 *
 * rules_test.c - the numbered rules of rules.h, and every reason to refuse a codec. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "codec/registry.h"

enum { MANY = 1 << 20 };

static tt_status create(const char *text, const char *codec, tt_rules **rules_out, tt_text *why)
{
    const tt_rules_source source = {.text = text,
                                    .text_bytes = strlen(text),
                                    .text_name = "TUTTI_RULES=file",
                                    .codec = codec,
                                    .plain_bytes_max = 64 * 1024};
    return tt_rules_create(&source, &tt_allocator_default, rules_out, why);
}

static tt_rules *make(const char *text, const char *codec)
{
    tt_rules *rules = NULL;
    tt_text why = {0};
    if (create(text, codec, &rules, &why) != TT_OK) {
        fail_msg("refused: %s", why.bytes);
    }
    return rules;
}

static void expect_refusal(const char *text, const char *codec, const char *const words[])
{
    tt_rules *rules = NULL;
    tt_text why = {0};
    assert_int_equal(create(text, codec, &rules, &why), TT_ERR_BAD_CONFIG);
    assert_null(rules);
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strstr(why.bytes, words[i]) == NULL) {
            fail_msg("no \"%s\" in: %s", words[i], why.bytes);
        }
    }
}

#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static const tt_rule_choice *find(const tt_rules *rules, const char *name)
{
    return tt_rules_find(rules, name, MANY, TT_F32, true);
}

static const char *codec_of(const tt_rule_choice *choice)
{
    assert_non_null(choice);
    const tt_codec_spec *spec = tt_rule_choice_at(choice, 0);
    return spec != NULL ? tt_codec_name(spec) : "plain";
}

static void test_the_first_rule_decides_also_for_plain(void **state)
{
    (void)state;
    tt_rules *rules = make("name=*.bias codec=none\nname=w.* codec=int4 where=all\n", "int8");
    assert_null(find(rules, "w.bias"));
    assert_string_equal(codec_of(find(rules, "w.x")), "int4");
    assert_true(find(rules, "w.x")->phases[0].spec.is_everywhere);
    assert_int_equal(find(rules, "w.x")->line, 2);
    assert_int_equal(find(rules, "w.x")->index, 1);
    assert_ptr_equal(find(rules, "w.x"), find(rules, "w.y"));
    const tt_rule_choice *others = find(rules, NULL);
    assert_string_equal(codec_of(others), "int8");
    assert_int_equal(others->index, 2);
    assert_int_equal(others->line, 0);
    assert_false(others->phases[0].spec.is_everywhere);
    tt_rules_destroy(rules);
}

static void test_without_rules_all_is_plain(void **state)
{
    (void)state;
    tt_rules *rules = make("", "");
    assert_null(find(NULL, "x"));
    assert_null(find(rules, "x"));
    tt_rules_destroy(rules);
    rules = make("", "none");
    assert_null(find(rules, "x"));
    tt_rules_destroy(rules);
}

static void test_small_tensors_are_plain(void **state)
{
    (void)state;
    tt_rules *rules = make("role=any codec=int8", "");
    assert_null(tt_rules_find(rules, "x", 0, TT_F32, true));
    assert_null(tt_rules_find(rules, "x", 16 * 1024, TT_F32, true));
    assert_non_null(tt_rules_find(rules, "x", 16 * 1024 + 1, TT_F32, true));
    assert_null(tt_rules_find(rules, "x", 32 * 1024, TT_BF16, true));
    assert_non_null(tt_rules_find(rules, "x", 32 * 1024 + 1, TT_F16, true));
    assert_non_null(tt_rules_find(rules, "x", UINT64_MAX, TT_F32, true));
    tt_rules_destroy(rules);
}

static void test_types_without_a_codec_are_plain(void **state)
{
    (void)state;
    tt_rules *rules = make("role=any codec=int8", "");
    for (int dtype = 0; dtype < TT_DTYPE_COUNT; dtype++) {
        const bool is_coded = dtype == TT_F32 || dtype == TT_F16 || dtype == TT_BF16;
        assert_int_equal(tt_rules_find(rules, "x", MANY, (tt_dtype)dtype, false) != NULL, is_coded);
    }
    tt_rules_destroy(rules);
}

static void test_the_codec_for_others_is_for_gradients(void **state)
{
    (void)state;
    tt_rules *rules = make("", "int8");
    assert_non_null(tt_rules_find(rules, "x", MANY, TT_F32, true));
    assert_null(tt_rules_find(rules, "x", MANY, TT_F32, false));
    tt_rules_destroy(rules);
}

static void test_steps_change_the_codec(void **state)
{
    (void)state;
    tt_rules *rules = make("codec=none@0,int8:block=512,ef=off@500,int4@1000 ef=on", "");
    const tt_rule_choice *choice = find(rules, "x");
    assert_non_null(choice);
    assert_int_equal(choice->phase_count, 3);
    assert_null(tt_rule_choice_at(choice, 0));
    assert_null(tt_rule_choice_at(choice, 499));
    assert_string_equal(tt_codec_name(tt_rule_choice_at(choice, 500)), "int8");
    assert_int_equal(tt_rule_choice_at(choice, 999)->block, 512);
    assert_true(tt_rule_choice_at(choice, 999)->has_feedback); /* the rule's ef */
    assert_string_equal(tt_codec_name(tt_rule_choice_at(choice, UINT64_MAX)), "int4");
    tt_rules_destroy(rules);
}

static void test_ef_of_a_rule_has_precedence(void **state)
{
    (void)state;
    tt_rules *rules = make("name=a codec=int8 ef=off\nname=b codec=qsgd ef=on\nname=c codec=int8\n",
                           "fp16:ef=on");
    assert_false(tt_rule_choice_at(find(rules, "a"), 0)->has_feedback);
    assert_true(tt_rule_choice_at(find(rules, "b"), 0)->has_feedback);
    assert_true(tt_rule_choice_at(find(rules, "c"), 0)->has_feedback); /* int8's default */
    assert_true(tt_rule_choice_at(find(rules, "d"), 0)->has_feedback);
    tt_rules_destroy(rules);
}

static void test_estimates_and_residuals_are_not_mixed(void **state)
{
    (void)state;
    tt_rules *rules = make("name=a codec=none@0,int4:ef=21@5\n"
                           "name=b codec=int8:ef=off@0,sign:ef=21@5\n"
                           "name=c codec=int8@0,int4:ef=21@5 ef=21\n"
                           "name=d codec=int8:ef=21 ef=on\n",
                           "qsgd:ef=21");
    assert_true(tt_rule_choice_at(find(rules, "a"), 5)->is_tracked);
    assert_false(tt_rule_choice_at(find(rules, "b"), 0)->is_tracked);
    assert_true(tt_rule_choice_at(find(rules, "b"), 5)->is_tracked);
    assert_true(tt_rule_choice_at(find(rules, "c"), 0)->is_tracked); /* the rule's ef */
    assert_true(tt_rule_choice_at(find(rules, "d"), 0)->has_feedback);
    assert_false(tt_rule_choice_at(find(rules, "d"), 0)->is_tracked);
    assert_true(tt_rule_choice_at(find(rules, "e"), 0)->is_tracked);
    tt_rules_destroy(rules);
    expect_refusal("codec=int8@0,int4:ef=21@5", "",
                   WORDS("codec int8 keeps residuals (ef=on)", "int4 estimates (ef=21)", "ef=off"));
    expect_refusal("", "int8:ef=21@0,sign@5", WORDS("TUTTI_CODEC=", "codec sign keeps residuals"));
    expect_refusal("codec=int8sum ef=21", "", WORDS("line 1", "int8sum has no owners", "use int8"));
    expect_refusal("codec=none ef=21", "", WORDS("none loses nothing", "leave out ef=21"));
}

static void test_every_registered_codec_can_be_chosen(void **state)
{
    (void)state;
    for (size_t i = 0; tt_codec_at(i) != NULL; i++) {
        tt_rules *rules = make("", tt_codec_at(i)->name);
        const tt_rule_choice *choice = find(rules, "x");
        assert_int_equal(choice == NULL, tt_codec_at(i) == &tt_codec_none);
        if (choice != NULL) {
            assert_ptr_equal(tt_rule_choice_at(choice, 0)->codec, tt_codec_at(i));
        }
        tt_rules_destroy(rules);
    }
}

static void test_errors_name_source_line_culprit_and_cure(void **state)
{
    (void)state;
    expect_refusal("\ncodec=int9", "",
                   WORDS("TUTTI_RULES=file: line 2: ", "\"int9\"", "did you mean 'int8'"));
    expect_refusal("codec=int8:blok=512", "", WORDS("line 1", "\"blok\"", "did you mean 'block'"));
    expect_refusal("codec=none ef=on", "", WORDS("line 1", "none loses nothing", "leave out"));
    expect_refusal("codec=none:ef=on", "", WORDS("line 1", "none loses nothing", "leave out"));
    expect_refusal("name=x ef=on", "", WORDS("line 1", "no codec", "codec=none"));
    expect_refusal("dtype=i64 codec=int8", "", WORDS("line 1", "dtype=i64", "f32, f16 and bf16"));
    expect_refusal("nmae=x codec=int8", "", WORDS("TUTTI_RULES=file: line 1", "'name'"));
    expect_refusal("", "int9", WORDS("TUTTI_CODEC=int9: ", "did you mean 'int8'"));
    expect_refusal("", "int8:block=1\n2", WORDS("TUTTI_CODEC=int8:block=1?2: ", "block=1?2 is"));
    expect_refusal("", "int8:block=7", WORDS("TUTTI_CODEC=int8:block=7: ", "power of two"));
}

static void test_errors_about_steps(void **state)
{
    (void)state;
    expect_refusal("codec=int8@500", "", WORDS("line 1", "step 500", "none@0"));
    expect_refusal("codec=none@0,int8@0", "", WORDS("step 0 comes after step 0"));
    expect_refusal("codec=none@0,int8", "", WORDS("int8 has no step", "int8@500"));
    expect_refusal("codec=none@0,int8@", "", WORDS("number of a step", "none@0,int8@500"));
    expect_refusal("codec=none@0,int8@-5", "", WORDS("number of a step", "\"-5\""));
    expect_refusal("codec=none@0,", "", WORDS("there is no codec \"\""));
    expect_refusal("codec=@0", "", WORDS("there is no codec \"\""));
    expect_refusal("codec=none@0,int8@1,int4@2,fp16@3,int8@4,int4@5,int8@6,int4@7,int8@8", "",
                   WORDS("more than 8 codecs"));
}

/* ---- who sums ---- */

static tt_rule_sum sum_as(const tt_rules *rules, const char *name, uint64_t elements,
                          tt_rule_sum otherwise)
{
    const tt_rule_subject subject = {
        .name = name, .elements = elements, .dtype = TT_F32, .is_gradient = true};
    return tt_rules_sum(rules, &subject, otherwise);
}

/* No rule decides: the setting of the job does. */
static void expect_default(const tt_rules *rules, const char *name)
{
    assert_int_equal(sum_as(rules, name, MANY, TT_RULE_SUM_SERVER), TT_RULE_SUM_SERVER);
    assert_int_equal(sum_as(rules, name, MANY, TT_RULE_SUM_ALLREDUCE), TT_RULE_SUM_ALLREDUCE);
}

/* A rule does, whatever the setting. */
static void expect_sum(const tt_rules *rules, const char *name, uint64_t elements,
                       tt_rule_sum wanted)
{
    assert_int_equal(sum_as(rules, name, elements, TT_RULE_SUM_SERVER), wanted);
    assert_int_equal(sum_as(rules, name, elements, TT_RULE_SUM_ALLREDUCE), wanted);
}

static void test_without_a_rule_about_it_the_default_sums(void **state)
{
    (void)state;
    expect_default(NULL, "x");
    tt_rules *rules = make("", "int8");
    expect_default(rules, "x");
    tt_rules_destroy(rules);
    rules = make("name=w codec=int8\nname=y sum=server\n", "");
    expect_default(rules, "x");
    expect_default(rules, "w");
    expect_default(rules, NULL);
    tt_rules_destroy(rules);
}

static void test_the_first_rule_decides_who_sums(void **state)
{
    (void)state;
    tt_rules *rules = make("name=*.bias sum=allreduce\n"
                           "name=w.scale codec=none\n"
                           "elements>=64K sum=server\n"
                           "name=w.* sum=allreduce\n",
                           "");
    expect_sum(rules, "w.bias", MANY, TT_RULE_SUM_ALLREDUCE);
    expect_default(rules, "w.scale"); /* its rule is not about sums; no later one is asked */
    expect_sum(rules, "w.x", 64 * 1024, TT_RULE_SUM_SERVER);
    expect_sum(rules, "w.x", 64 * 1024 - 1, TT_RULE_SUM_ALLREDUCE);
    expect_sum(rules, NULL, MANY, TT_RULE_SUM_SERVER);
    tt_rules_destroy(rules);
}

static void test_who_sums_depends_on_type_and_role(void **state)
{
    (void)state;
    tt_rules *rules = make("dtype=f16 role=any sum=server\nsum=allreduce", "");
    tt_rule_subject subject = {.name = "x", .elements = 1, .dtype = TT_F16};
    assert_int_equal(tt_rules_sum(rules, &subject, TT_RULE_SUM_ALLREDUCE), TT_RULE_SUM_SERVER);
    subject.dtype = TT_I32;
    assert_int_equal(tt_rules_sum(rules, &subject, TT_RULE_SUM_SERVER), TT_RULE_SUM_SERVER);
    subject.is_gradient = true;
    assert_int_equal(tt_rules_sum(rules, &subject, TT_RULE_SUM_SERVER), TT_RULE_SUM_ALLREDUCE);
    tt_rules_destroy(rules);
}

static void test_servers_are_wanted_if_a_rule_says_so(void **state)
{
    static const struct {
        const char *text;
        bool has_servers;
    } cases[] = {{"", false},
                 {"codec=int8", false},
                 {"sum=allreduce", false},
                 {"name=a sum=server", true},
                 {"sum=allreduce\nname=b codec=int8 sum=server", true}};
    (void)state;
    assert_false(tt_rules_have_servers(NULL));
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_rules *rules = make(cases[i].text, "");
        assert_int_equal(tt_rules_have_servers(rules), cases[i].has_servers);
        tt_rules_destroy(rules);
    }
}

static void test_a_rule_about_sums_leaves_tensors_plain(void **state)
{
    (void)state;
    tt_rules *rules = make("name=w.* sum=server\nname=v.* sum=server codec=int4", "int8");
    assert_null(find(rules, "w.x"));
    assert_string_equal(codec_of(find(rules, "v.x")), "int4");
    assert_string_equal(codec_of(find(rules, "u.x")), "int8");
    tt_rules_destroy(rules);
}

static void test_errors_about_sums(void **state)
{
    (void)state;
    expect_refusal("name=a sum=server\nsum=servers", "",
                   WORDS("line 2: sum does not accept \"servers\"", "takes allreduce or server"));
    expect_refusal("sum=", "", WORDS("line 1: sum does not accept \"\"", "allreduce or server"));
    expect_refusal("sum=server sum=allreduce", "", WORDS("sum is given twice", "keep one"));
    expect_refusal("sum>=server", "", WORDS("sum is compared by '=' alone", "write sum=..."));
}

static void test_a_plain_rule_may_name_any_type(void **state)
{
    (void)state;
    tt_rules_destroy(make("dtype=f64 codec=none", ""));
}

static void test_memory_that_fails_is_given_back(void **state)
{
    (void)state;
    const tt_rules_source source = {
        .text = "codec=int8", .text_bytes = 10, .text_name = "x", .codec = "int4"};
    tt_rules *rules = NULL;
    for (uint64_t fail_at = 1; fail_at <= 6; fail_at++) {
        tt_counting_allocator counter = {.fail_at = fail_at};
        const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
        tt_text why = {0};
        assert_int_equal(tt_rules_create(&source, &allocator, &rules, &why), TT_ERR_NO_MEMORY);
        assert_true(why.length > 0);
        assert_int_equal(counter.live_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_rule_decides_also_for_plain),
        cmocka_unit_test(test_without_rules_all_is_plain),
        cmocka_unit_test(test_small_tensors_are_plain),
        cmocka_unit_test(test_types_without_a_codec_are_plain),
        cmocka_unit_test(test_the_codec_for_others_is_for_gradients),
        cmocka_unit_test(test_steps_change_the_codec),
        cmocka_unit_test(test_ef_of_a_rule_has_precedence),
        cmocka_unit_test(test_estimates_and_residuals_are_not_mixed),
        cmocka_unit_test(test_every_registered_codec_can_be_chosen),
        cmocka_unit_test(test_errors_name_source_line_culprit_and_cure),
        cmocka_unit_test(test_errors_about_steps),
        cmocka_unit_test(test_without_a_rule_about_it_the_default_sums),
        cmocka_unit_test(test_the_first_rule_decides_who_sums),
        cmocka_unit_test(test_who_sums_depends_on_type_and_role),
        cmocka_unit_test(test_servers_are_wanted_if_a_rule_says_so),
        cmocka_unit_test(test_a_rule_about_sums_leaves_tensors_plain),
        cmocka_unit_test(test_errors_about_sums),
        cmocka_unit_test(test_a_plain_rule_may_name_any_type),
        cmocka_unit_test(test_memory_that_fails_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
