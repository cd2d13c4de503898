/* SPDX-License-Identifier: Apache-2.0
 *
 * option_test.c - the option parser over a small table that has every kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/option.h"

typedef struct values {
    bool flag;
    int64_t number;
    uint64_t bytes;
    double seconds;
    double rate;
    const char *text;
    int choice;
    int64_t maybe;
    tt_option_list list;
    uint64_t given;
} values;

static const tt_option options[] = {
    {'v', "verbose", TT_OPTION_FLAG, offsetof(values, flag), NULL, "", NULL, NULL, NULL, 0, 0},
    {'n', "ranks", TT_OPTION_INT, offsetof(values, number), "N", "", "1", NULL, "-np --num-proc", 1,
     100},
    {'b', "bytes", TT_OPTION_BYTES, offsetof(values, bytes), "B", "", "4K", NULL, NULL, 0, 0},
    {'\0', "wait", TT_OPTION_SECONDS, offsetof(values, seconds), "S", "", "1.5", NULL, NULL, 0, 0},
    {'\0', "pace", TT_OPTION_RATE, offsetof(values, rate), "R", "", NULL, NULL, NULL, 0, 0},
    {'H', "hosts", TT_OPTION_STRING, offsetof(values, text), "H", "", NULL, NULL, NULL, 0, 0},
    {'\0', "bind", TT_OPTION_CHOICE, offsetof(values, choice), NULL, "", "none", "none|core", NULL,
     0, 0},
    {'\0', "keep", TT_OPTION_MAYBE, offsetof(values, maybe), "MIN", "", NULL, NULL, NULL, 1, 100},
    {'x', "env", TT_OPTION_LIST, offsetof(values, list), "V", "", NULL, NULL, NULL, 0, 0},
};

static const tt_command command = {.name = "test",
                                   .summary = "",
                                   .operands = "A B C D",
                                   .operand_max = 4,
                                   .options = options,
                                   .option_count = TT_ARRAY_COUNT(options),
                                   .values_bytes = sizeof(values),
                                   .given_offset = offsetof(values, given)};

typedef struct fixture {
    char *argv[16];
    values values;
    tt_option_result result;
    tt_status status;
} fixture;

/* Parse words separated by blanks. */
static void parse(fixture *f, const tt_command *table, const char *line)
{
    static char storage[256];
    int argc = 0;
    strncpy(storage, line, sizeof(storage) - 1);
    for (char *rest = storage, *word; (word = strsep(&rest, " ")) != NULL;) {
        f->argv[argc++] = word;
    }
    f->argv[argc] = NULL;
    f->status = tt_option_parse(table, &f->values, argc, f->argv, &f->result);
}

static void expect_error(const char *line, const char *text)
{
    fixture f;
    parse(&f, &command, line);
    assert_int_equal(f.status, TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(f.result.error, text));
    tt_option_release(&command, &f.values);
}

static void test_defaults_hold_without_arguments(void **state)
{
    (void)state;
    fixture f;
    parse(&f, &command, "operand");
    assert_int_equal(f.status, TT_OK);
    assert_false(f.values.flag);
    assert_int_equal(f.values.number, 1);
    assert_int_equal(f.values.bytes, 4096);
    assert_true(f.values.seconds == 1.5);
    assert_null(f.values.text);
    assert_int_equal(f.values.choice, 0);
    assert_int_equal(f.values.list.count, 0);
    assert_int_equal(f.result.operand_count, 1);
}

static void test_every_spelling_of_a_value_is_the_same(void **state)
{
    (void)state;
    static const char *const lines[] = {"-n 7",  "-n7",   "--ranks 7",    "--ranks=7",
                                        "-np 7", "-np=7", "--num-proc=7", "--num-proc 7"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(lines); i++) {
        fixture f;
        parse(&f, &command, lines[i]);
        assert_int_equal(f.status, TT_OK);
        assert_int_equal(f.values.number, 7);
        assert_int_equal(f.result.operand_count, 0);
    }
}

static void test_a_value_that_may_be_left_out_is_never_the_next_word(void **state)
{
    (void)state;
    fixture f;
    parse(&f, &command, "operand");
    assert_int_equal(f.values.maybe, 0);
    parse(&f, &command, "--keep 7");
    assert_int_equal(f.status, TT_OK);
    assert_int_equal(f.values.maybe, 1);
    assert_int_equal(f.result.operand_count, 1);
    parse(&f, &command, "--keep=7");
    assert_int_equal(f.values.maybe, 7);
    assert_int_equal(f.result.operand_count, 0);
    expect_error("--keep=0", "not between 1 and 100");
    expect_error("--keep=", "not a whole number");
}

static void test_operands_may_stand_between_options(void **state)
{
    (void)state;
    fixture f;
    parse(&f, &command, "one -v two --bind core -- -n three");
    assert_int_equal(f.status, TT_OK);
    assert_true(f.values.flag);
    assert_int_equal(f.values.choice, 1);
    assert_int_equal(f.result.operand_count, 4);
    assert_string_equal(f.argv[1], "two");
    assert_string_equal(f.argv[2], "-n");
    assert_null(f.argv[4]);
}

static void test_first_operand_ends_our_options_where_asked(void **state)
{
    (void)state;
    fixture f;
    tt_command strict = command;
    strict.options_first = true;
    parse(&f, &strict, "-n 3 program -n 4 --help");
    assert_int_equal(f.status, TT_OK);
    assert_int_equal(f.values.number, 3);
    assert_false(f.result.wants_help);
    assert_int_equal(f.result.operand_count, 4);
    assert_string_equal(f.argv[0], "program");
    assert_string_equal(f.argv[3], "--help");
}

static void test_list_keeps_its_order(void **state)
{
    (void)state;
    fixture f;
    parse(&f, &command, "-x A=1 --env B=2=3 -xC");
    assert_int_equal(f.status, TT_OK);
    assert_int_equal(f.values.list.count, 3);
    assert_string_equal(f.values.list.items[1], "B=2=3");
    assert_string_equal(f.values.list.items[2], "C");
    tt_option_release(&command, &f.values);
    assert_int_equal(f.values.list.count, 0);
}

static void test_errors_name_culprit_and_cure(void **state)
{
    (void)state;
    expect_error("--rnaks 4", "did you mean '--ranks'?");
    expect_error("--completely-different", "'tutti test --help' lists them");
    expect_error("-z", "unknown option '-z'");
    expect_error("--ranks", "--ranks needs a value");
    expect_error("--ranks four", "'four' is not a whole number");
    expect_error("--ranks 101", "101 is not between 1 and 100");
    expect_error("--ranks 99999999999999999999", "is not a whole number");
    expect_error("--bytes 4Q", "'4Q' is not a size");
    expect_error("--bytes -1", "is not a size");
    expect_error("--wait -1", "is not a number of seconds");
    expect_error("--wait nan", "is not a number of seconds");
    expect_error("--pace 0", "is not a number greater than 0");
    expect_error("--pace 1s", "is not a number greater than 0");
    expect_error("--bind socket", "'socket' is not one of none|core");
    expect_error("--verbose=yes", "--verbose takes no value");
}

static void test_sizes_have_suffixes_and_do_not_overflow(void **state)
{
    (void)state;
    uint64_t bytes = 7;
    assert_int_equal(tt_option_parse_bytes("64M", &bytes), TT_OK);
    assert_int_equal(bytes, 64 << 20);
    assert_int_equal(tt_option_parse_bytes("1GiB", &bytes), TT_OK);
    assert_int_equal(bytes, 1 << 30);
    assert_int_equal(tt_option_parse_bytes("17179869184G", &bytes), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(tt_option_parse_bytes("", &bytes), TT_ERR_BAD_ARGUMENT);
    assert_int_equal(bytes, 1 << 30);
}

static void test_surplus_operands_are_refused(void **state)
{
    (void)state;
    fixture f;
    parse(&f, &command, "a b c d e");
    assert_int_equal(f.status, TT_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(f.result.error, "unexpected argument 'e'"));
    tt_option_release(&command, &f.values);
    parse(&f, &command, "a b c d e --help");
    assert_int_equal(f.status, TT_OK);
    tt_option_release(&command, &f.values);
}

static void test_help_keeps_to_its_width(void **state)
{
    (void)state;
    static const int widths[] = {40, 60, 80, 120};
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        for (size_t j = 0; j < TT_ARRAY_COUNT(widths); j++) {
            char *text = NULL;
            size_t bytes = 0;
            FILE *out = open_memstream(&text, &bytes);
            assert_non_null(out);
            tt_option_print_help(tt_commands[i], widths[j], out);
            fclose(out);
            /* A line is longer only where it cannot be broken: one word, or an option's name. */
            for (const char *line = strstr(text, "\n\n"); line != NULL;
                 line = strchr(line + 1, '\n')) {
                const size_t length = strcspn(line + 1, "\n");
                const char *words = line + 1 + strspn(line + 1, " ");
                const bool is_name = words[0] == '-' || words[0] == '\'';
                const bool is_one_word = memchr(words, ' ', strcspn(words, "\n")) == NULL;
                assert_true(length <= (size_t)widths[j] || is_name || is_one_word);
            }
            free(text);
        }
    }
}

/* What the tables promise: defaults parse, and no spelling has two meanings. */
static void test_tables_of_all_commands_are_sound(void **state)
{
    (void)state;
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        const tt_command *item = tt_commands[i];
        tt_option_result result;
        char *argv[1] = {NULL};
        void *memory = calloc(1, item->values_bytes + 1);
        assert_int_equal(tt_option_parse(item, memory, 0, argv, &result), TT_OK);
        tt_option_release(item, memory);
        free(memory);
        assert_true(item->is_internal || (item->examples != NULL && item->summary[0] != '\0'));
        for (size_t j = 0; j < item->option_count; j++) {
            for (size_t k = j + 1; k < item->option_count; k++) {
                assert_string_not_equal(item->options[j].name, item->options[k].name);
                assert_true(item->options[j].letter == '\0' ||
                            item->options[j].letter != item->options[k].letter);
            }
        }
    }
}

static void test_only_what_was_given_overrides(void **state)
{
    (void)state;
    fixture f = {.status = TT_OK}, given = {.status = TT_OK};
    /* of words that live as long as the values */
    char *first[] = {"-v", "-n", "7", "--bind=core", "-x", "a", "--keep", "-H", "h", NULL};
    char *second[] = {"--ranks=1", "-x", "b", "-x", "c", "--wait=3", "--pace=2", "-b1K", NULL};
    assert_int_equal(TT_OK, tt_option_parse(&command, &f.values, 9, first, &f.result));
    assert_int_equal(TT_OK, tt_option_parse(&command, &given.values, 8, second, &given.result));
    assert_true(tt_option_is_given(&command, &given.values, "ranks"));
    assert_false(tt_option_is_given(&command, &given.values, "hosts"));
    assert_false(tt_option_is_given(&command, &given.values, "no-option"));
    tt_option_override(&command, &f.values, &given.values);
    assert_true(f.values.flag);
    assert_int_equal(1, f.values.number); /* its default, but given */
    assert_int_equal(1, f.values.choice);
    assert_int_equal(1, f.values.maybe);
    assert_int_equal(1024, f.values.bytes);
    assert_true(f.values.seconds > 2.9 && f.values.rate > 1.9);
    assert_string_equal("h", f.values.text);
    assert_int_equal(2, f.values.list.count);
    assert_string_equal("b", f.values.list.items[0]);
    assert_string_equal("c", f.values.list.items[1]);
    tt_option_release(&command, &given.values);
    assert_string_equal("c", f.values.list.items[1]); /* a copy */
    tt_option_release(&command, &f.values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_hold_without_arguments),
        cmocka_unit_test(test_every_spelling_of_a_value_is_the_same),
        cmocka_unit_test(test_a_value_that_may_be_left_out_is_never_the_next_word),
        cmocka_unit_test(test_operands_may_stand_between_options),
        cmocka_unit_test(test_first_operand_ends_our_options_where_asked),
        cmocka_unit_test(test_list_keeps_its_order),
        cmocka_unit_test(test_errors_name_culprit_and_cure),
        cmocka_unit_test(test_sizes_have_suffixes_and_do_not_overflow),
        cmocka_unit_test(test_only_what_was_given_overrides),
        cmocka_unit_test(test_surplus_operands_are_refused),
        cmocka_unit_test(test_help_keeps_to_its_width),
        cmocka_unit_test(test_tables_of_all_commands_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
