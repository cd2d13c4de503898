/* SPDX-License-Identifier: Apache-2.0
 *
 * config_test.c - every kind accepts and refuses values as its help states, errors name the
 * culprit, typos get a suggestion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/config.h"

typedef struct settings {
    bool verbose;
    int64_t streams;
    double ratio;
    uint64_t chunk_bytes;
    uint64_t timeout_ns;
    tt_config_string iface;
    int mode;
} settings;

static const char *const mode_names[] = {"auto", "plan", NULL};

static const tt_config_entry entries[] = {
    {.name = "VERBOSE",
     .kind = TT_CONFIG_BOOL,
     .fallback = "no",
     .unit = "",
     .help = "Say more.",
     .offset = offsetof(settings, verbose)},
    {.name = "STREAMS",
     .kind = TT_CONFIG_INT,
     .fallback = "1",
     .unit = "sockets",
     .help = "Sockets per peer.",
     .offset = offsetof(settings, streams),
     .minimum = 1,
     .maximum = 16},
    {.name = "RATIO",
     .kind = TT_CONFIG_REAL,
     .fallback = "0.01",
     .unit = "",
     .help = "Kept share.",
     .offset = offsetof(settings, ratio),
     .minimum = 0,
     .maximum = 1},
    {.name = "CHUNK",
     .kind = TT_CONFIG_BYTES,
     .fallback = "128K",
     .unit = "",
     .help = "Chunk.",
     .offset = offsetof(settings, chunk_bytes),
     .minimum = 1,
     .maximum = 1 << 30},
    {.name = "TIMEOUT",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "30",
     .unit = "",
     .help = "Patience.",
     .offset = offsetof(settings, timeout_ns)},
    {.name = "IFACE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "Interface.",
     .offset = offsetof(settings, iface)},
    {.name = "MODE",
     .kind = TT_CONFIG_ENUM,
     .fallback = "auto",
     .unit = "",
     .help = "Mode.",
     .offset = offsetof(settings, mode),
     .names = mode_names},
};
static const tt_config_table table = {entries, TT_ARRAY_COUNT(entries)};

/* A source made of one assignment. */
typedef struct assignment {
    const char *name;
    const char *value;
} assignment;

static const char *assignment_lookup(void *user, const char *name)
{
    const assignment *one = user;
    return strcmp(one->name, name) == 0 ? one->value : NULL;
}

static tt_status load(const char *name, const char *value, settings *target, tt_text *error)
{
    assignment one = {name, value};
    const tt_config_source source = {assignment_lookup, &one};
    return tt_config_load(&table, &source, target, error);
}

static void test_defaults_fill_every_member(void **state)
{
    (void)state;
    settings s;
    memset(&s, 0x5a, sizeof(s));
    tt_text error = {0};
    assert_int_equal(load("NOTHING", "", &s, &error), TT_OK);
    assert_false(s.verbose);
    assert_int_equal(s.streams, 1);
    assert_true(s.ratio == 0.01);
    assert_int_equal(s.chunk_bytes, 128 << 10);
    assert_int_equal(s.timeout_ns, UINT64_C(30000000000));
    assert_string_equal(s.iface, "");
    assert_int_equal(s.mode, 0);
}

static void test_a_set_variable_wins_and_an_empty_one_does_not(void **state)
{
    (void)state;
    settings s;
    tt_text error = {0};
    assert_int_equal(load("TUTTI_MODE", "plan", &s, &error), TT_OK);
    assert_int_equal(s.mode, 1);
    assert_int_equal(load("TUTTI_MODE", "", &s, &error), TT_OK);
    assert_int_equal(s.mode, 0);
    assert_int_equal(load("TUTTI_IFACE", "eth0", &s, &error), TT_OK);
    assert_string_equal(s.iface, "eth0");
    assert_int_equal(load("TUTTI_VERBOSE", "Yes", &s, &error), TT_OK);
    assert_true(s.verbose);
}

static void expect_error(const char *name, const char *value, const char *text)
{
    settings s;
    tt_text error = {0};
    assert_int_equal(load(name, value, &s, &error), TT_ERR_BAD_CONFIG);
    assert_string_equal(error.bytes, text);
}

static void test_errors_name_variable_value_and_cure(void **state)
{
    (void)state;
    expect_error("TUTTI_MODE", "planned", "TUTTI_MODE is \"planned\"; accepted: one of auto, plan");
    expect_error("TUTTI_STREAMS", "17",
                 "TUTTI_STREAMS is \"17\"; accepted: a whole number from 1 to 16");
    expect_error("TUTTI_CHUNK", "1Q\n",
                 "TUTTI_CHUNK is \"1Q\\x0a\"; accepted: bytes such as 4096, 64K or 1MiB, from 1 to "
                 "1073741824 bytes");
    expect_error("TUTTI_TIMEOUT", "-1",
                 "TUTTI_TIMEOUT is \"-1\"; accepted: a time such as 1.5, 200ms, 50us or 2min");
    expect_error("TUTTI_RATIO", "1.5", "TUTTI_RATIO is \"1.5\"; accepted: a number from 0 to 1");
    expect_error("TUTTI_VERBOSE", "maybe",
                 "TUTTI_VERBOSE is \"maybe\"; accepted: 1, 0, true, false, yes, no, on, off");
}

static void test_a_long_string_is_refused_not_cut(void **state)
{
    (void)state;
    settings s;
    tt_text error = {0};
    char value[TT_CONFIG_STRING_BYTES + 1];
    memset(value, 'x', sizeof(value));
    value[TT_CONFIG_STRING_BYTES] = '\0';
    assert_int_equal(load("TUTTI_IFACE", value, &s, &error), TT_ERR_BAD_CONFIG);
    value[TT_CONFIG_STRING_BYTES - 1] = '\0';
    assert_int_equal(load("TUTTI_IFACE", value, &s, &error), TT_OK);
    assert_string_equal(s.iface, value);
}

static void test_units_of_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"64K", 65536},
                {"64kb", 65536},
                {"1 MiB", 1 << 20},
                {"3G", UINT64_C(3) << 30},
                {"2TiB", UINT64_C(2) << 40},
                {"18446744073709551615", UINT64_MAX}};
    static const char *const bad[] = {
        "", "K", "-1", "1.5M", "1KK", "18446744073709551616", "0x10", " 1", "17179869184G"};
    uint64_t bytes = 7;
    for (size_t i = 0; i < TT_ARRAY_COUNT(good); i++) {
        assert_true(tt_config_parse_bytes(good[i].text, &bytes));
        assert_true(bytes == good[i].bytes);
    }
    bytes = 7;
    for (size_t i = 0; i < TT_ARRAY_COUNT(bad); i++) {
        assert_false(tt_config_parse_bytes(bad[i], &bytes));
    }
    assert_int_equal(bytes, 7);
}

static void test_units_of_seconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"0", 0},
                {"1.5", 1500000000},
                {"200ms", 200000000},
                {"0.1us", 100},
                {"7 ns", 7},
                {"2min", UINT64_C(120000000000)},
                {"1.5h", UINT64_C(5400000000000)},
                {"0.1234567891234", 123456789}};
    static const char *const bad[] = {"",
                                      ".",
                                      ".5",
                                      "-1",
                                      "1e3",
                                      "1d",
                                      "1.5.2",
                                      "99999999999999999999",
                                      "18446744073709s1",
                                      "6000000h"};
    uint64_t ns = 7;
    for (size_t i = 0; i < TT_ARRAY_COUNT(good); i++) {
        assert_true(tt_config_parse_seconds(good[i].text, &ns));
        assert_true(ns == good[i].ns);
    }
    ns = 7;
    for (size_t i = 0; i < TT_ARRAY_COUNT(bad); i++) {
        assert_false(tt_config_parse_seconds(bad[i], &ns));
    }
    assert_int_equal(ns, 7);
}

static void test_only_whole_numbers_are_read(void **state)
{
    (void)state;
    int64_t i = 0;
    assert_true(tt_config_parse_int("-9223372036854775808", &i));
    assert_true(i == INT64_MIN);
    assert_false(tt_config_parse_int("9223372036854775808", &i));
    assert_false(tt_config_parse_int("12x", &i));
    assert_false(tt_config_parse_int("-", &i));
    assert_false(tt_config_parse_int("", &i));
    double d = 0;
    assert_true(tt_config_parse_real("-0.1", &d) && d == -0.1);
    assert_true(tt_config_parse_real("1e-3", &d) && d == 1e-3);
    assert_true(tt_config_parse_real("2.5E+2", &d) && d == 250.0);
    assert_true(tt_config_parse_real(".5", &d) && d == 0.5);
    static const char *const bad[] = {"",   ".",   "nan", "inf", "1e400",
                                      "1e", "1,5", "1 ",  "--1", "99999999999999999999999"};
    for (size_t k = 0; k < TT_ARRAY_COUNT(bad); k++) {
        assert_false(tt_config_parse_real(bad[k], &d));
    }
    assert_true(d == 0.5);
}

typedef struct finding {
    char name[64];
    char nearest[64];
} finding;

static void note_unknown(void *user, const char *name, const char *nearest)
{
    finding *found = user;
    snprintf(found->name, sizeof(found->name), "%s", name);
    snprintf(found->nearest, sizeof(found->nearest), "%s", nearest == NULL ? "" : nearest);
}

static void test_a_typo_finds_its_nearest_name(void **state)
{
    (void)state;
    char known[] = "TUTTI_CHUNK=1";
    char typo[] = "TUTTI_TIMOUT=1";
    char other[] = "PATH=TUTTI_X";
    char *const environment[] = {known, typo, other, NULL};
    finding found = {0};
    assert_int_equal(tt_config_find_unknown(&table, 1, environment, note_unknown, &found), 1);
    assert_string_equal(found.name, "TUTTI_TIMOUT");
    assert_string_equal(found.nearest, "TUTTI_TIMEOUT");
    char stranger[] = "TUTTI_SOMETHING_ELSE=1";
    char *const strangers[] = {stranger, NULL};
    assert_int_equal(tt_config_find_unknown(&table, 1, strangers, note_unknown, &found), 1);
    assert_string_equal(found.nearest, "");
}

static void count_bad(void *user, const char *sentence)
{
    tt_text *all = user;
    tt_text_add(all, "%s\n", sentence);
}

static const char *two_bad_lookup(void *user, const char *name)
{
    (void)user;
    return strcmp(name, "TUTTI_MODE") == 0      ? "x"
           : strcmp(name, "TUTTI_STREAMS") == 0 ? "99"
           : strcmp(name, "TUTTI_RATIO") == 0   ? "0.5"
                                                : NULL;
}

static void test_every_bad_value_is_reported_with_the_text_of_load(void **state)
{
    (void)state;
    settings s;
    tt_text all = {0};
    const tt_config_source source = {two_bad_lookup, NULL};
    assert_int_equal(tt_config_find_bad(&table, &source, &s, count_bad, &all), 2);
    assert_string_equal(all.bytes,
                        "TUTTI_STREAMS is \"99\"; accepted: a whole number from 1 to 16\n"
                        "TUTTI_MODE is \"x\"; accepted: one of auto, plan\n");
    assert_true(s.ratio == 0.5);
}

static bool is_even(const char *value)
{
    return (value[strlen(value) - 1] - '0') % 2 == 0;
}

static void list_colours(tt_text *text)
{
    tt_text_add(text, "red, blue");
}

static void test_a_rule_beyond_the_kind(void **state)
{
    (void)state;
    int64_t number = 0;
    tt_text error = {0};
    tt_config_entry entry = {.name = "EVEN",
                             .kind = TT_CONFIG_INT,
                             .fallback = "2",
                             .unit = "",
                             .help = "",
                             .accepts = is_even,
                             .accepted = "an even one"};
    assert_int_equal(tt_config_set(&entry, "4", &number, &error), TT_OK);
    assert_int_equal(number, 4);
    assert_int_equal(tt_config_set(&entry, "5", &number, &error), TT_ERR_BAD_CONFIG);
    assert_string_equal(error.bytes, "a whole number, an even one");
    assert_int_equal(number, 4);
    tt_config_string text = "";
    entry.kind = TT_CONFIG_STRING;
    entry.accepted = NULL;
    entry.list_accepted = list_colours;
    assert_int_equal(tt_config_set(&entry, "", text, &error), TT_OK);
    tt_text_clear(&error);
    assert_int_equal(tt_config_set(&entry, "3", text, &error), TT_ERR_BAD_CONFIG);
    assert_string_equal(error.bytes, "red, blue");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_fill_every_member),
        cmocka_unit_test(test_a_set_variable_wins_and_an_empty_one_does_not),
        cmocka_unit_test(test_errors_name_variable_value_and_cure),
        cmocka_unit_test(test_a_long_string_is_refused_not_cut),
        cmocka_unit_test(test_units_of_bytes),
        cmocka_unit_test(test_units_of_seconds),
        cmocka_unit_test(test_only_whole_numbers_are_read),
        cmocka_unit_test(test_a_typo_finds_its_nearest_name),
        cmocka_unit_test(test_every_bad_value_is_reported_with_the_text_of_load),
        cmocka_unit_test(test_a_rule_beyond_the_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
