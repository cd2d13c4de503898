/* SPDX-License-Identifier: Apache-2.0
 *
 * rule_text_test.c - rules are read as written, errors name line and cure, the first match wins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "codec/rule_text.h"

static tt_rule_text *parse_bytes(const char *text, size_t bytes)
{
    tt_rule_text *rules = NULL;
    tt_text why = {0};
    if (tt_rule_text_parse(text, bytes, &tt_allocator_default, &rules, &why) != TT_OK) {
        fail_msg("refused: %s", why.bytes);
    }
    assert_int_equal(why.length, 0);
    return rules;
}

static tt_rule_text *parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

/* The text is refused, and the error has all of these words. */
static void expect_refusal(const char *text, const char *const words[])
{
    tt_rule_text *rules = NULL;
    tt_text why = {0};
    assert_int_equal(tt_rule_text_parse(text, strlen(text), &tt_allocator_default, &rules, &why),
                     TT_ERR_BAD_CONFIG);
    assert_null(rules);
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strstr(why.bytes, words[i]) == NULL) {
            fail_msg("\"%s\": no \"%s\" in: %s", text, words[i], why.bytes);
        }
    }
}

#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static size_t match(const tt_rule_text *rules, const char *name, uint64_t elements)
{
    return tt_rule_text_match(
        rules, &(tt_rule_subject){
                   .name = name, .elements = elements, .dtype = TT_F32, .is_gradient = true});
}

static void test_a_line_is_key_operator_value(void **state)
{
    (void)state;
    tt_rule_text *rules = parse("# head\n\n  name=*.bias\tcodec=none # rest\r\n"
                                "elements>=1M elements<2G codec=int4 ef=on where=all");
    assert_int_equal(tt_rule_text_count(rules), 2);
    const tt_rule *first = tt_rule_text_at(rules, 0), *second = tt_rule_text_at(rules, 1);
    assert_int_equal(first->line, 3);
    assert_int_equal(first->term_count, 2);
    assert_string_equal(tt_rule_find(first, TT_RULE_NAME)->value, "*.bias");
    assert_string_equal(tt_rule_find(first, TT_RULE_CODEC)->value, "none");
    assert_null(tt_rule_find(first, TT_RULE_EF));
    assert_int_equal(second->line, 4);
    assert_int_equal(second->terms[0].comparison, TT_RULE_AT_LEAST);
    assert_int_equal(second->terms[0].number, 1 << 20);
    assert_int_equal(second->terms[1].comparison, TT_RULE_BELOW);
    assert_int_equal(second->terms[1].number, UINT64_C(2) << 30);
    assert_int_equal(tt_rule_find(second, TT_RULE_EF)->number, 1);
    assert_int_equal(tt_rule_find(second, TT_RULE_WHERE)->number, TT_RULE_ALL);
    tt_rule_text_destroy(rules);
}

static void test_no_rules_are_rules(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n\n", "# nothing", "   \t \r\n#x=y\n"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(texts); i++) {
        tt_rule_text *rules = parse(texts[i]);
        assert_int_equal(tt_rule_text_count(rules), 0);
        assert_int_equal(match(rules, "x", 5), 0);
        tt_rule_text_destroy(rules);
    }
}

static void test_a_hash_inside_a_word_is_no_comment(void **state)
{
    (void)state;
    tt_rule_text *rules = parse("name=a#1 codec=none#2 #codec=int8");
    assert_string_equal(tt_rule_text_at(rules, 0)->terms[0].value, "a#1");
    assert_int_equal(tt_rule_text_at(rules, 0)->term_count, 2);
    tt_rule_text_destroy(rules);
}

static void test_globs(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *name;
        bool is_match;
    } cases[] = {
        {"*", "", true},
        {"", "", true},
        {"?", "", false},
        {"*.bias", "a.bias", true},
        {"*.bias", ".bias", true},
        {"*.bias", "a.bias2", false},
        {"fsdp.*", "fsdp.x", true},
        {"fsdp.*", "fsdp", false},
        {"a*b*c", "axxbyybc", true},
        {"a*b*c", "axxbyyb", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"**a**", "bab", true},
        {"*?*?", "x", false},
        {"*?*?", "xy", true},
        {"A", "a", false},
        {"*aab", "aaaab", true},
        {"a*", "*", false},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        if (tt_rule_glob(cases[i].glob, cases[i].name) != cases[i].is_match) {
            fail_msg("%s %s", cases[i].glob, cases[i].name);
        }
    }
}

/* Quadratic at most: 255 stars are done at once. */
static void test_a_glob_of_stars_takes_no_time(void **state)
{
    (void)state;
    char glob[512], name[256];
    for (size_t i = 0; i < 510; i += 2) {
        memcpy(glob + i, "*a", 2);
    }
    memcpy(glob + 510, "b", 2);
    memset(name, 'a', 255);
    name[255] = '\0';
    for (int i = 0; i < 1000; i++) {
        assert_false(tt_rule_glob(glob, name));
    }
}

static void test_the_first_match_wins(void **state)
{
    (void)state;
    tt_rule_text *rules = parse("name=*.bias codec=none\n"
                                "elements>=1K elements<=4K codec=int8\n"
                                "elements>4K name=w.* codec=int4\n"
                                "name=* codec=fp16\n");
    assert_int_equal(match(rules, "w.bias", 1 << 20), 0);
    assert_int_equal(match(rules, "w.x", 1024), 1);
    assert_int_equal(match(rules, "w.x", 4096), 1);
    assert_int_equal(match(rules, "w.x", 4097), 2);
    assert_int_equal(match(rules, "v.x", 4097), 3);
    assert_int_equal(match(rules, NULL, 1023), 3);
    tt_rule_text_destroy(rules);
}

static void test_every_operator_compares(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool at[3]; /* 4, 5, 6 elements */
    } cases[] = {
        {"elements=5 codec=x", {false, true, false}}, {"elements<5 codec=x", {true, false, false}},
        {"elements>5 codec=x", {false, false, true}}, {"elements<=5 codec=x", {true, true, false}},
        {"elements>=5 codec=x", {false, true, true}},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_rule_text *rules = parse(cases[i].text);
        for (uint64_t count = 4; count < 7; count++) {
            assert_int_equal(match(rules, "", count) == 0, cases[i].at[count - 4]);
        }
        tt_rule_text_destroy(rules);
    }
}

static void test_rules_are_about_gradients_unless_they_say_any(void **state)
{
    (void)state;
    tt_rule_text *rules = parse("codec=int8 dtype=f32\nrole=any codec=int4\n");
    tt_rule_subject subject = {.name = "x", .elements = 1, .dtype = TT_F32, .is_gradient = true};
    assert_int_equal(tt_rule_text_match(rules, &subject), 0);
    subject.dtype = TT_BF16;
    assert_int_equal(tt_rule_text_match(rules, &subject), 1);
    subject.is_gradient = false;
    subject.dtype = TT_F32;
    assert_int_equal(tt_rule_text_match(rules, &subject), 1);
    tt_rule_text_destroy(rules);
    rules = parse("role=gradient codec=int8");
    assert_int_equal(tt_rule_text_match(rules, &subject), 1);
    tt_rule_text_destroy(rules);
}

static void test_errors_name_line_culprit_and_cure(void **state)
{
    (void)state;
    expect_refusal("\n\nnmae=x codec=int8", WORDS("line 3", "\"nmae\"", "did you mean 'name'"));
    expect_refusal("zzz=1", WORDS("line 1", "\"zzz\"", "name, elements, dtype, role, codec"));
    expect_refusal("int8", WORDS("line 1", "\"int8\" is not KEY=VALUE", "codec=none"));
    expect_refusal("=x", WORDS("line 1", "\"=x\" is not KEY=VALUE"));
    expect_refusal("name>=x codec=int8", WORDS("line 1", "name is compared by '=' alone"));
    expect_refusal("elements>=many codec=int8", WORDS("line 1", "elements", "\"many\"", "64K"));
    expect_refusal("dtype=f31 codec=int8", WORDS("line 1", "dtype", "\"f31\"", "bf16"));
    expect_refusal("role=all codec=int8", WORDS("line 1", "role", "\"all\"", "gradient or any"));
    expect_refusal("ef=yes codec=int8", WORDS("ef", "\"yes\"", "on, off or 21"));
    expect_refusal("where=here codec=int8", WORDS("where", "\"here\"", "across or all"));
    expect_refusal("codec= name=x", WORDS("codec does not accept \"\""));
    expect_refusal("codec=int8 codec=int4", WORDS("line 1", "codec is given twice"));
    expect_refusal("name=\x01 codec=int8", WORDS("line 1", "control characters"));
}

static void test_numbers_have_bounds(void **state)
{
    (void)state;
    static const char *const bad[] = {"elements>1T codec=x", "elements>1KB codec=x",
                                      "elements>-1 codec=x", "elements>1.5K codec=x",
                                      "elements>K codec=x",  "elements>99999999999G codec=x",
                                      "elements==5 codec=x", "elements> codec=x"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(bad); i++) {
        expect_refusal(bad[i], WORDS("line 1", "elements"));
    }
}

static void test_zeros_in_a_text_are_refused(void **state)
{
    (void)state;
    tt_rule_text *rules = NULL;
    tt_text why = {0};
    assert_int_equal(tt_rule_text_parse("codec=int8\0x", 12, &tt_allocator_default, &rules, &why),
                     TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.bytes, "control characters"));
}

/* `count` times the line. */
static char *repeat(const char *line, size_t count)
{
    const size_t bytes = strlen(line);
    char *text = calloc(count * bytes + 1, 1);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + i * bytes, line, bytes);
    }
    return text;
}

static void test_lengths_have_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *part;
        size_t good, bad;
        const char *word;
    } cases[] = {
        {"codec=int8\n", TT_RULES_MAX, TT_RULES_MAX + 1, "line 1025"},
        {"#", TT_RULE_LINE_BYTES_MAX, TT_RULE_LINE_BYTES_MAX + 1, "1024 bytes"},
        {"\n", TT_RULE_TEXT_BYTES_MAX, TT_RULE_TEXT_BYTES_MAX + 1, "64 KiB"},
        {"name=x ", TT_RULE_TERMS_MAX, TT_RULE_TERMS_MAX + 1, "16 words"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        char *good = repeat(cases[i].part, cases[i].good);
        char *bad = repeat(cases[i].part, cases[i].bad);
        tt_rule_text_destroy(parse(good));
        expect_refusal(bad, WORDS(cases[i].word));
        free(good);
        free(bad);
    }
}

static void test_a_text_needs_no_zero_behind_it(void **state)
{
    (void)state;
    const char *whole = "name=abc codec=int8xyz";
    char *exact = malloc(19);
    assert_non_null(exact);
    memcpy(exact, whole, 19);
    tt_rule_text *rules = parse_bytes(exact, 19);
    free(exact);
    assert_string_equal(tt_rule_text_at(rules, 0)->terms[1].value, "int8");
    tt_rule_text_destroy(rules);
}

static void test_memory_that_fails_is_given_back(void **state)
{
    (void)state;
    for (uint64_t fail_at = 1; fail_at <= 4; fail_at++) {
        tt_counting_allocator counter = {.fail_at = fail_at};
        const tt_allocator allocator = tt_counting_allocator_borrow(&counter);
        tt_rule_text *rules = NULL;
        tt_text why = {0};
        assert_int_equal(tt_rule_text_parse("codec=int8", 10, &allocator, &rules, &why),
                         TT_ERR_NO_MEMORY);
        assert_int_equal(counter.live_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_is_key_operator_value),
        cmocka_unit_test(test_no_rules_are_rules),
        cmocka_unit_test(test_a_hash_inside_a_word_is_no_comment),
        cmocka_unit_test(test_globs),
        cmocka_unit_test(test_a_glob_of_stars_takes_no_time),
        cmocka_unit_test(test_the_first_match_wins),
        cmocka_unit_test(test_every_operator_compares),
        cmocka_unit_test(test_rules_are_about_gradients_unless_they_say_any),
        cmocka_unit_test(test_errors_name_line_culprit_and_cure),
        cmocka_unit_test(test_numbers_have_bounds),
        cmocka_unit_test(test_zeros_in_a_text_are_refused),
        cmocka_unit_test(test_lengths_have_bounds),
        cmocka_unit_test(test_a_text_needs_no_zero_behind_it),
        cmocka_unit_test(test_memory_that_fails_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
