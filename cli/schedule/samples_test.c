/* SPDX-License-Identifier: Apache-2.0
 *
 * samples_test.c - measured transfers as pairs and as lines of `tutti bench --json`. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/schedule/samples.h"

#define OBJECT(bytes, time_us, ranks)                                                    \
    "{\"op\":\"allreduce\",\"bytes\":" bytes ",\"ranks\":" ranks ",\"time_us\":" time_us \
    ",\"wrong\":0,\"algorithm\":\"ring\"}\n"

static void assert_line(const char *text, size_t count, int64_t rank_count)
{
    tt_text why = {0};
    tt_samples samples;
    assert_int_equal(TT_OK, tt_samples_read(text, &why, &samples));
    assert_int_equal(count, samples.count);
    assert_int_equal(rank_count, samples.rank_count);
    assert_true(fabs(samples.line.start_us - 100) < 1e-9);
    assert_true(fabs(samples.line.byte_us - 0.002) < 1e-12);
}

static void test_pairs_and_lines_of_the_bench_make_the_same_line(void **state)
{
    (void)state;
    assert_line("# bytes us\n1000 102\n\n 2000\t104 \r\n3000 106", 3, 0);
    assert_line(OBJECT("1000", "102", "4") OBJECT("2000", "104.0", "4") OBJECT("3000", "106", "4"),
                3, 4);
    assert_line("1000 102\n" OBJECT("2000", "104", "2"), 2, 2);
}

static void test_wrong_lines_are_refused_by_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *word;
    } wrong[] = {
        {"", "at least two sizes"},
        {"1000 5\n1000 6\n", "at least two sizes"},
        {"1000 5\n2000\n", "line 2: expected"},
        {"1000 5 7\n", "line 1: expected"},
        {"size 5\n", "line 1: expected"},
        {"1000 -5\n", "line 1: bytes and microseconds"},
        {"1000 nan\n", "line 1: bytes and microseconds"},
        {"1000 1e300\n", "line 1: bytes and microseconds"},
        {"{\"op\":\n", "line 1: is not JSON"},
        {"{\"bytes\":1000,\"time_us\":5}\n", "line 1: is not a line of tutti bench"},
        {"{\"op\":\"allreduce\",\"bytes\":1000,\"ranks\":1,\"time_us\":5}\n", "two or more ranks"},
        {"{\"op\":\"alltoall\",\"bytes\":1000,\"ranks\":2,\"time_us\":5}\n",
         "the time of \"alltoall\""},
        {"{\"op\":\"allreduce\",\"bytes\":1000,\"ranks\":2,\"time_us\":5,\"wrong\":3}\n",
         "were wrong"},
        {OBJECT("1000", "5", "2") OBJECT("2000", "6", "4"),
         "line 2: was measured with 4 ranks, earlier lines with 2"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tt_text why = {0};
        tt_samples samples;
        assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_samples_read(wrong[i].text, &why, &samples));
        if (strstr(why.bytes, wrong[i].word) == NULL) {
            fail_msg("'%s' does not say '%s'", why.bytes, wrong[i].word);
        }
    }
}

static void test_more_samples_than_fit_are_refused(void **state)
{
    (void)state;
    char text[8 * (TT_LINEAR_SAMPLES_MAX + 1) + 1];
    for (int i = 0; i <= TT_LINEAR_SAMPLES_MAX; i++) {
        memcpy(text + (size_t)8 * (size_t)i, "1000 55\n", 8);
    }
    text[sizeof(text) - 1] = '\0';
    tt_text why = {0};
    tt_samples samples;
    assert_int_equal(TT_ERR_BAD_ARGUMENT, tt_samples_read(text, &why, &samples));
    assert_non_null(strstr(why.bytes, "line 129: more than 128 samples"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_and_lines_of_the_bench_make_the_same_line),
        cmocka_unit_test(test_wrong_lines_are_refused_by_number),
        cmocka_unit_test(test_more_samples_than_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
