/* SPDX-License-Identifier: Apache-2.0
 *
 * scheme_test.c - schemes: phases, codes that ranks compare, codes that a peer may send, texts.
 *
 * Labels: codec */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/aggregate.h"
#include "aggregate/scheme.h"
#include "base/philox.h"

static void make(tt_scheme *scheme, const char *words)
{
    tt_rule_choice choice;
    tt_text why = {0};
    const tt_status status = tt_rule_choice_parse(words, &choice, &why);
    assert_int_equal(status, TT_OK);
    tt_scheme_make(scheme, &choice);
}

static void test_a_phase_begins_with_its_occurrence(void **state)
{
    tt_scheme scheme;
    (void)state;
    make(&scheme, "none@0,int8@3,int4@7");
    assert_int_equal(scheme.phase_count, 3);
    assert_int_equal(tt_scheme_phase_at(&scheme, 0), 0);
    assert_int_equal(tt_scheme_phase_at(&scheme, 2), 0);
    assert_int_equal(tt_scheme_phase_at(&scheme, 3), 1);
    assert_int_equal(tt_scheme_phase_at(&scheme, 6), 1);
    assert_int_equal(tt_scheme_phase_at(&scheme, 7), 2);
    assert_int_equal(tt_scheme_phase_at(&scheme, UINT64_MAX), 2);
    assert_null(scheme.phases[0].program.codec);
    assert_ptr_equal(scheme.phases[1].program.codec, &scheme.phases[1].spec);
    assert_ptr_equal(scheme.phases[2].program.scheme, &scheme);
}

static void test_state_is_kept_for_feedback_and_for_phases(void **state)
{
    tt_scheme scheme;
    (void)state;
    make(&scheme, "int8:ef=on");
    assert_true(scheme.keeps_state);
    make(&scheme, "int8:ef=off");
    assert_false(scheme.keeps_state);
    make(&scheme, "int8:ef=off@0,bf16@4"); /* how often it was called */
    assert_true(scheme.keeps_state);
}

/* So that an owner keeps its elements from phase to phase. */
static void test_the_largest_block_counts_in_every_phase(void **state)
{
    tt_scheme scheme;
    (void)state;
    make(&scheme, "int8:block=64@0,int4:block=256@3,sign:block=16@9");
    assert_int_equal(scheme.block, 256);
    make(&scheme, "none@0,int4:block=32@3");
    assert_int_equal(scheme.block, 32);
    make(&scheme, "int8:block=16");
    assert_int_equal(scheme.block, 16);
}

static void test_schemes_that_differ_have_codes_that_differ(void **state)
{
    static const char *const words[] = {
        "int8",          "int8:ef=off",   "int8:block=16",       "int8:where=all",
        "int4",          "none@0,int8@3", "none@0,int8@4",       "none@0,int8:block=16@3",
        "int8@0,none@3", "int8@0,int4@3", "none@0,int8@3,int4@9"};
    enum { COUNT = sizeof(words) / sizeof(words[0]) };
    uint64_t codes[COUNT];
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        tt_scheme scheme, again;
        make(&scheme, words[i]);
        make(&again, words[i]);
        codes[i] = scheme.code;
        assert_true(codes[i] != 0 && codes[i] == again.code);
        for (size_t k = 0; k < i; k++) {
            assert_true(codes[i] != codes[k]);
        }
    }
}

static void test_the_code_of_a_phase_has_its_number(void **state)
{
    tt_scheme scheme;
    (void)state;
    make(&scheme, "none@0,int8@3,int4@7");
    assert_true(tt_scheme_code_in(&scheme.phases[0].program) == scheme.code);
    for (uint32_t i = 1; i < 3; i++) {
        const uint64_t code = tt_scheme_code_in(&scheme.phases[i].program);
        assert_true(code != scheme.code && (code ^ scheme.code) == (uint64_t)i << 24);
    }
}

static void test_one_codec_is_known_by_its_code(void **state)
{
    tt_scheme scheme, copy;
    (void)state;
    make(&scheme, "int8:block=64,where=all");
    assert_true(tt_scheme_from_code(&copy, scheme.code));
    assert_true(copy.code == scheme.code && copy.phase_count == 1 && copy.keeps_state);
    assert_int_equal(copy.block, 64);
    assert_int_equal(tt_codec_pack(&copy.phases[0].spec), tt_codec_pack(&scheme.phases[0].spec));
    assert_ptr_equal(copy.phases[0].program.scheme, &copy);
}

static void test_several_codecs_are_not(void **state)
{
    tt_scheme scheme, copy;
    (void)state;
    make(&scheme, "none@0,int8@3");
    assert_false(tt_scheme_from_code(&copy, scheme.code));
    assert_false(tt_scheme_from_code(&copy, tt_scheme_code_in(&scheme.phases[1].program)));
}

/* A peer may send any number. */
static void test_hostile_codes_are_refused_or_whole(void **state)
{
    tt_random random;
    tt_scheme scheme;
    uint32_t taken = 0;
    (void)state;
    assert_false(tt_scheme_from_code(&scheme, 0));
    assert_false(tt_scheme_from_code(&scheme, UINT64_MAX));
    tt_random_init(&random, 1, 1);
    for (uint32_t i = 0; i < 200000; i++) {
        const uint64_t bits = tt_random_u64(&random);
        const uint64_t code = i % 2 == 0 ? bits : bits & 0x3ffff;
        tt_text text = {0};
        tt_scheme_tell(&text, code);
        assert_true(text.length > 0);
        if (tt_scheme_from_code(&scheme, code)) {
            const tt_codec_spec *spec = &scheme.phases[0].spec;
            assert_true(scheme.code == code && tt_codec_pack(spec) == code);
            assert_in_range(spec->block, 1, TT_CODEC_BLOCK_MAX);
            taken++;
        }
    }
    assert_true(taken > 0);
}

static void test_texts_name_codec_and_phase(void **state)
{
    tt_scheme scheme;
    tt_text text = {0};
    (void)state;
    make(&scheme, "int8:block=512,ef=on");
    tt_scheme_tell(&text, scheme.code);
    assert_string_equal(text.bytes, " coded by int8:block=512,ef=on");
    make(&scheme, "none@0,int8:block=512@3");
    tt_text_clear(&text);
    tt_scheme_tell(&text, tt_scheme_code_in(&scheme.phases[1].program));
    assert_non_null(strstr(text.bytes, " coded by int8:block=512,ef=on among others (schedule "));
    assert_non_null(strstr(text.bytes, ", codec 2)"));
    tt_text_clear(&text);
    tt_scheme_tell(&text, 0xff);
    assert_string_equal(text.bytes, " coded by an unknown codec");
}

static void test_a_host_codes_only_if_asked_to(void **state)
{
    tt_scheme scheme, everywhere;
    const tt_topology one = {.host_count = 1}, two = {.host_count = 2};
    (void)state;
    make(&scheme, "int8");
    make(&everywhere, "int8:where=all");
    const tt_program *across = &scheme.phases[0].program, *all = &everywhere.phases[0].program;
    assert_null(tt_program_codec(across, 4, &one));
    assert_ptr_equal(tt_program_codec(across, 4, &two), across->codec);
    assert_ptr_equal(tt_program_codec(all, 4, &one), all->codec);
    assert_null(tt_program_codec(all, 1, &one)); /* nothing is sent */
    assert_null(tt_program_codec(NULL, 4, &two));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_phase_begins_with_its_occurrence),
        cmocka_unit_test(test_state_is_kept_for_feedback_and_for_phases),
        cmocka_unit_test(test_the_largest_block_counts_in_every_phase),
        cmocka_unit_test(test_schemes_that_differ_have_codes_that_differ),
        cmocka_unit_test(test_the_code_of_a_phase_has_its_number),
        cmocka_unit_test(test_one_codec_is_known_by_its_code),
        cmocka_unit_test(test_several_codecs_are_not),
        cmocka_unit_test(test_hostile_codes_are_refused_or_whole),
        cmocka_unit_test(test_texts_name_codec_and_phase),
        cmocka_unit_test(test_a_host_codes_only_if_asked_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
