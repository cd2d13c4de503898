/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest_test.c - typos find their word; words of merely equal length find none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/nearest.h"

static const char *nearest_of(const char *prefix, const char *wanted)
{
    static const char *const known[] = {"LOG",  "TIMEOUT", "TRANSPORT", "run",
                                        "info", "hosts",   "grace",     "env"};
    static tt_nearest nearest;
    tt_nearest_init(&nearest, prefix, wanted);
    for (size_t i = 0; i < TT_ARRAY_COUNT(known); i++) {
        tt_nearest_offer(&nearest, known[i]);
    }
    return nearest.best;
}

static void test_typos_find_their_word(void **state)
{
    (void)state;
    assert_string_equal(nearest_of("TUTTI_", "TUTTI_TRANPORT"), "TUTTI_TRANSPORT");
    assert_string_equal(nearest_of("TUTTI_", "TUTTI_TIMEUOT"), "TUTTI_TIMEOUT");
    assert_string_equal(nearest_of("", "rnu"), "run");
    assert_string_equal(nearest_of("--", "--hsots"), "--hosts");
}

static void test_the_prefix_makes_no_word_near(void **state)
{
    (void)state;
    assert_string_equal(nearest_of("TUTTI_", "TUTTI_FOO"), "");
    assert_string_equal(nearest_of("--", "--force"), "");
    assert_string_equal(nearest_of("--", "--x"), "");
    assert_string_equal(nearest_of("TUTTI_", "LOG"), "");
}

static void test_short_and_very_long_words_find_none(void **state)
{
    (void)state;
    char endless[4 * TT_NEAREST_BYTES];
    for (size_t i = 0; i < sizeof(endless); i++) {
        endless[i] = i + 1 < sizeof(endless) ? 'x' : '\0';
    }
    assert_string_equal(nearest_of("", "x"), "");
    assert_string_equal(nearest_of("", ""), "");
    assert_string_equal(nearest_of("", endless), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typos_find_their_word),
        cmocka_unit_test(test_the_prefix_makes_no_word_near),
        cmocka_unit_test(test_short_and_very_long_words_find_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
