/* SPDX-License-Identifier: Apache-2.0
 *
 * log_test.c - levels, the default line as stderr gets it, and the rate limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

typedef struct captured {
    int level;
    unsigned count;
    char text[TT_TEXT_BYTES];
} captured;

static void capture(void *user, int level, const char *text)
{
    captured *last = user;
    last->level = level;
    last->count++;
    snprintf(last->text, sizeof(last->text), "%s", text);
    errno = EIO; /* a writer may fail; the caller's errno must survive */
}

static void test_lines_above_the_level_are_dropped(void **state)
{
    (void)state;
    captured last = {0};
    const tt_log log = {.level = TT_LOG_WARN, .write = capture, .user = &last};
    tt_log_write(&log, TT_LOG_INFO, "not this");
    assert_int_equal(last.count, 0);
    errno = ENOENT;
    tt_log_write(&log, TT_LOG_WARN, "peer %d: %s", 3, strerror(errno));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(last.count, 1);
    assert_int_equal(last.level, TT_LOG_WARN);
    assert_string_equal(last.text, "peer 3: No such file or directory");
    tt_log_write(NULL, TT_LOG_ERROR, "nobody listens");
}

/* Run one default write with stderr turned into a pipe; what came out goes to `line`. */
static void default_line(const tt_log *log, const char *text, char *line, size_t line_bytes)
{
    int ends[2];
    const int saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    tt_log_write(log, TT_LOG_ERROR, "%s", text);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(ends[1]);
    const ssize_t got = read(ends[0], line, line_bytes - 1);
    assert_true(got > 0);
    line[got] = '\0';
    close(ends[0]);
    close(saved);
}

static void test_the_default_line_names_rank_and_level(void **state)
{
    (void)state;
    char line[2 * TT_TEXT_BYTES];
    const tt_log ranked = {.level = TT_LOG_INFO, .rank = 2, .size = 8};
    default_line(&ranked, "hello", line, sizeof(line));
    assert_string_equal(line, "tutti[2/8] error: hello\n");
    const tt_log early = {.level = TT_LOG_INFO};
    default_line(&early, "hello", line, sizeof(line));
    assert_string_equal(line, "tutti error: hello\n");
}

static void test_a_long_line_is_cut_and_still_ends(void **state)
{
    (void)state;
    char text[2 * TT_TEXT_BYTES];
    char line[4 * TT_TEXT_BYTES];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    const tt_log log = {.level = TT_LOG_INFO, .rank = 0, .size = 1};
    default_line(&log, text, line, sizeof(line));
    assert_int_equal(strlen(line), TT_TEXT_BYTES);
    assert_string_equal(line + TT_TEXT_BYTES - 5, "x...\n");
}

static void test_a_limit_passes_the_first_and_every_nth(void **state)
{
    (void)state;
    tt_log_limit once = {.interval = 0};
    tt_log_limit tenth = {.interval = 10};
    unsigned once_count = 0;
    unsigned tenth_count = 0;
    for (int i = 0; i < 100; i++) {
        once_count += tt_log_limit_pass(&once);
        tenth_count += tt_log_limit_pass(&tenth);
    }
    assert_int_equal(once_count, 1);
    assert_int_equal(tenth_count, 10);
}

static void test_levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(tt_log_level_name(TT_LOG_TRACE), "trace");
    assert_string_equal(tt_log_level_name(99), "invalid");
    assert_null(tt_log_level_names[TT_LOG_LEVEL_COUNT]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_above_the_level_are_dropped),
        cmocka_unit_test(test_the_default_line_names_rank_and_level),
        cmocka_unit_test(test_a_long_line_is_cut_and_still_ends),
        cmocka_unit_test(test_a_limit_passes_the_first_and_every_nth),
        cmocka_unit_test(test_levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
