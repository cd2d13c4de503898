/* SPDX-License-Identifier: Apache-2.0
 *
 * rules_test.c - TUTTI_RULES and TUTTI_CODEC: every rank of a job has rank 0's rules, and the same
 * choices; a bad text is refused by tutti_init on all of them.
 *
 * Labels: asan tsan codec api */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api_internal.h"
#include "conformance/ranks.h"

enum { MANY = 1 << 20 };

static void with_file(const char *text, void (*body)(const char *path))
{
    char path[] = "/tmp/tutti-rules-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
    (void)setenv("TUTTI_RULES", path, 1);
    body(path);
    (void)unsetenv("TUTTI_RULES");
    (void)unlink(path);
}

static const char *codec_of(const tutti_context *context, const char *name)
{
    const tt_rule_choice *choice = tt_rules_find(context->rules, name, MANY, TT_F32, true);
    return choice != NULL ? tt_codec_name(tt_rule_choice_at(choice, 0)) : "plain";
}

static void choices_body(ranks_self *self)
{
    const tutti_context *context = self->context;
    EXPECT(strcmp(codec_of(context, "w.bias"), "plain") == 0);
    EXPECT(strcmp(codec_of(context, "w.x"), "int4") == 0);
    EXPECT(strcmp(codec_of(context, NULL), "int8") == 0);
    EXPECT(tt_rules_find(context->rules, "w.x", 25, TT_F32, true) == NULL);
    EXPECT(tt_rules_find(context->rules, "w.x", 26, TT_F32, true) != NULL);
    float one = 1.0f, sum = 0.0f;
    EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, &one, &sum, 1, TUTTI_F32, TUTTI_SUM));
    EXPECT(sum == (float)self->size);
}

static void run_three(const char *path)
{
    (void)path;
    ranks_run_both(3, choices_body, NULL);
}

static void test_every_rank_has_the_rules(void **state)
{
    (void)state;
    (void)setenv("TUTTI_CODEC", "int8:block=512", 1);
    (void)setenv("TUTTI_CODEC_MIN", "100", 1);
    with_file("name=*.bias codec=none\nname=w.* codec=int4 ef=on\n", run_three);
    (void)unsetenv("TUTTI_CODEC_MIN");
    (void)unsetenv("TUTTI_CODEC");
}

static void codec_body(ranks_self *self)
{
    EXPECT(strcmp(codec_of(self->context, "w.bias"), "fp16") == 0);
}

static void test_a_codec_needs_no_rules(void **state)
{
    (void)state;
    (void)setenv("TUTTI_CODEC", "fp16", 1);
    ranks_run(2, "tcp", codec_body, NULL);
    (void)unsetenv("TUTTI_CODEC");
}

static void plain_body(ranks_self *self)
{
    EXPECT(self->context->rules == NULL);
}

static void test_without_either_all_is_plain(void **state)
{
    (void)state;
    ranks_run(2, "shm", plain_body, NULL);
}

/* tutti_init of a job of one refuses, and the error has all of these words. */
static void expect_refusal(const char *const words[])
{
    tutti_context *context = NULL;
    tutti_options options = TUTTI_OPTIONS_INIT;
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_init(&options, &context), TUTTI_ERR_BAD_CONFIG);
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strstr(tutti_last_error(NULL), words[i]) == NULL) {
            fail_msg("no \"%s\" in: %s", words[i], tutti_last_error(NULL));
        }
    }
}

static void refuse_rule(const char *path)
{
    expect_refusal((const char *const[]){path, "line 2", "\"int9\"", "did you mean 'int8'?", NULL});
}

static void test_a_bad_rule_names_file_line_and_cure(void **state)
{
    (void)state;
    with_file("name=a codec=none\ncodec=int9\n", refuse_rule);
}

static void test_a_missing_file_is_named(void **state)
{
    (void)state;
    (void)setenv("TUTTI_RULES", "/nowhere/rules", 1);
    expect_refusal((const char *const[]){"TUTTI_RULES=/nowhere/rules", "No such file", NULL});
    (void)unsetenv("TUTTI_RULES");
}

static void test_a_bad_codec_is_named(void **state)
{
    (void)state;
    (void)setenv("TUTTI_CODEC", "int8:blok=4", 1);
    expect_refusal((const char *const[]){"TUTTI_CODEC=int8:blok=4", "\"blok\"", "block", NULL});
    (void)unsetenv("TUTTI_CODEC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_has_the_rules),
        cmocka_unit_test(test_a_codec_needs_no_rules),
        cmocka_unit_test(test_without_either_all_is_plain),
        cmocka_unit_test(test_a_bad_rule_names_file_line_and_cure),
        cmocka_unit_test(test_a_missing_file_is_named),
        cmocka_unit_test(test_a_bad_codec_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
