/* SPDX-License-Identifier: Apache-2.0
 *
 * text_test.c - nothing overflows, and a hostile string stays one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/config.h"
#include "base/text.h"

static void test_pieces_are_joined(void **state)
{
    (void)state;
    tt_text text = {0};
    tt_text_add(&text, "rank %d", 3);
    tt_text_add(&text, " of %s", "four");
    assert_string_equal(text.bytes, "rank 3 of four");
    assert_int_equal(text.length, strlen(text.bytes));
    tt_text_clear(&text);
    assert_string_equal(text.bytes, "");
}

static void test_too_much_is_cut_with_an_ellipsis(void **state)
{
    (void)state;
    struct {
        tt_text text;
        char guard[8];
    } guarded = {{{0}, 0}, "guarded"};
    for (int i = 0; i < 100; i++) {
        tt_text_add(&guarded.text, "%s", "0123456789");
        assert_int_equal(guarded.text.length, strlen(guarded.text.bytes));
    }
    assert_int_equal(guarded.text.length, TT_TEXT_BYTES - 1);
    assert_string_equal(guarded.text.bytes + TT_TEXT_BYTES - 5, "7...");
    assert_string_equal(guarded.guard, "guarded");
}

static void test_an_exact_fit_is_not_cut(void **state)
{
    (void)state;
    tt_text text = {0};
    tt_text_add(&text, "%*s", TT_TEXT_BYTES - 1, "x");
    assert_int_equal(text.length, TT_TEXT_BYTES - 1);
    assert_int_equal(text.bytes[TT_TEXT_BYTES - 2], 'x');
}

static void test_hostile_bytes_stay_on_one_line(void **state)
{
    (void)state;
    tt_text text = {0};
    tt_text_add_quoted(&text, "a\n\"\x1b%s", 80);
    assert_string_equal(text.bytes, "\"a\\x0a\\x22\\x1b%s\"");
    tt_text_clear(&text);
    tt_text_add_quoted(&text, "abcdef", 3);
    assert_string_equal(text.bytes, "\"abc\"");
}

static void test_words_keep_letters_of_all_languages_and_nothing_else(void **state)
{
    (void)state;
    static const char *const kept[] = {"gr\xc3\xb6\xc3\x9f", "\xe6\x97\xa5\xe6\x9c\xac",
                                       "\xf0\x9f\x99\x82"};
    static const char *const not_kept[] = {"\xc3",
                                           "\x80",
                                           "\xc0\xaf",
                                           "\xed\xa0\x80",
                                           "\xe0\x80\xaf",
                                           "\xc2\x85",
                                           "\xe2\x80\xa8",
                                           "\xe2\x80\xae",
                                           "\xf8\x88\x80\x80",
                                           "\xf4\x90\x80\x80",
                                           "\xef\xbb\xbf",
                                           "\x1b",
                                           "\xc3(",
                                           "\xff"};
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        tt_text text = {0};
        tt_text_add_words(&text, kept[i], 80);
        assert_string_equal(text.bytes, kept[i]);
    }
    for (size_t i = 0; i < sizeof(not_kept) / sizeof(not_kept[0]); i++) {
        tt_text text = {0};
        tt_text_add_words(&text, not_kept[i], 80);
        assert_int_equal(text.bytes[0], '?');
        assert_int_equal(text.length, strlen(not_kept[i]));
    }
    tt_text cut = {0};
    tt_text_add_words(&cut, "a\xc3\xb6", 2);
    assert_string_equal(cut.bytes, "a?");
}

static void test_words_of_ours_are_not_quoted(void **state)
{
    (void)state;
    tt_text text = {0};
    tt_text_add_words(&text, "ranks 2 and 3\n\x1b%s", 80);
    assert_string_equal(text.bytes, "ranks 2 and 3??%s");
    tt_text_add_words(&text, ", 4 and 5", 3);
    assert_string_equal(text.bytes, "ranks 2 and 3??%s, 4");
}

/* A locale of another point would be needed to see it, and none may be installed. */
static void test_reals_are_read_again(void **state)
{
    static const float values[] = {0.1f, 1.0f, 0.001f, 3e38f, 1e-38f, -2.5f, 16777216.0f, 0.0f};
    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        tt_text text = {0};
        double read = -1.0;
        tt_text_add_real(&text, (double)values[i]);
        assert_true(tt_config_parse_real(text.bytes, &read));
        assert_true((float)read == values[i]);
        assert_null(strchr(text.bytes, ','));
    }
}

static void test_words_are_taken_up_to_a_stop(void **state)
{
    const char *source = "int8:block=512";
    char word[5];
    (void)state;
    assert_true(tt_text_take_word(&source, ":", word, sizeof(word)));
    assert_string_equal(word, "int8");
    assert_string_equal(source, ":block=512");
    source++;
    assert_false(tt_text_take_word(&source, "=", word, sizeof(word))); /* no room for its zero */
    assert_string_equal(source, "block=512");
    source += strlen(source);
    assert_true(tt_text_take_word(&source, "=", word, sizeof(word)));
    assert_string_equal(word, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_joined),
        cmocka_unit_test(test_too_much_is_cut_with_an_ellipsis),
        cmocka_unit_test(test_an_exact_fit_is_not_cut),
        cmocka_unit_test(test_hostile_bytes_stay_on_one_line),
        cmocka_unit_test(test_words_of_ours_are_not_quoted),
        cmocka_unit_test(test_words_keep_letters_of_all_languages_and_nothing_else),
        cmocka_unit_test(test_reals_are_read_again),
        cmocka_unit_test(test_words_are_taken_up_to_a_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
