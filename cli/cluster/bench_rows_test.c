/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_rows_test.c - lines of tutti bench as they are, and as they are not. */
#include "cli/cluster/bench_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

#define LINE(op, more) \
    "{\"op\":\"" op "\",\"bytes\":4096,\"ranks\":4,\"time_us\":12.5,\"wrong\":0" more "}\n"

static tt_status read_text(const char *text, tt_text *why, tt_bench_rows *rows)
{
    tt_bench_rows_init(rows);
    return tt_bench_rows_read(rows, "a.json", text, why);
}

static void test_a_line_of_the_bench_is_read(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_bench_rows rows;
    assert_int_equal(
        read_text("# of a quiet machine\n\n" LINE("allreduce", "")
                      LINE("sendrecv", ",\"hosts\":2,\"dtype\":\"f16\",\"buffers\":\"foreign\"")
                          LINE("barrier", ",\"algorithm\":\"flat\",\"in_place\":true"),
                  &why, &rows),
        TT_OK);
    assert_int_equal(rows.count, 3);
    const tt_bench_row *row = rows.rows;
    assert_int_equal(row[0].collective, TT_ALLREDUCE);
    assert_int_equal(row[0].hosts, 1);
    assert_int_equal(row[0].ranks, 4);
    assert_int_equal(row[0].dtype, TT_F32);
    assert_true(row[0].time_us == 12.5 && tt_bench_row_is_local(&row[0]));
    assert_string_equal(tt_bench_row_name(&row[1]), "sendrecv");
    assert_int_equal(tt_bench_row_ranks_per_host(&row[1]), 2);
    assert_int_equal(row[1].dtype, TT_F16);
    assert_true(row[1].is_staged && !row[0].is_staged && row[2].is_in_place);
    assert_string_equal(row[2].algorithm, "flat");
    tt_bench_rows_fini(&rows);
}

static void test_ranks_of_one_host_over_tcp_are_like_hosts(void **state)
{
    (void)state;
    tt_text why = {.length = 0};
    tt_bench_rows rows;
    assert_int_equal(read_text(LINE("sendrecv", ",\"hosts\":1,\"transport\":\"tcp\"")
                                   LINE("sendrecv", ",\"hosts\":1,\"transport\":\"shm\""),
                               &why, &rows),
                     TT_OK);
    assert_int_equal(rows.rows[0].hosts, 4);
    assert_int_equal(rows.rows[1].hosts, 1);
    tt_bench_rows_fini(&rows);
}

static void test_wrong_lines_are_refused_with_their_number(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "a.json:1: has no measurements; write it by"},
        {"# nothing\n", "a.json:1: has no measurements"},
        {LINE("allreduce", "") "{", "a.json:2: is not a line of tutti bench --json: "},
        {"8 1.5\n", "a.json:1: is not a line of tutti bench"},
        {"[]", "a.json:1: is not a line of tutti bench --json: it has no known \"op\""},
        {LINE("scan", ""), "a.json:1: is not a line of tutti bench --json: it has no known \"op\""},
        {LINE("allreduce", ",\"hosts\":5"), "a.json:1: is not a line"},
        {LINE("allreduce", ",\"hosts\":0"), "a.json:1: was measured with one rank"},
        {LINE("allreduce", ",\"dtype\":\"f8\""), "a.json:1: is not a line"},
        {"{\"op\":\"allreduce\",\"bytes\":-1,\"ranks\":4,\"time_us\":1,\"wrong\":0}",
         "a.json:1: is not a line"},
        {"{\"op\":\"allreduce\",\"bytes\":8,\"ranks\":4,\"time_us\":1}", "a.json:1: is not a line"},
        {"{\"op\":\"allreduce\",\"bytes\":8,\"ranks\":1,\"time_us\":1,\"wrong\":0}",
         "a.json:1: was measured with one rank; measure with two"},
        {"{\"op\":\"allreduce\",\"bytes\":8,\"ranks\":2,\"time_us\":1,\"wrong\":3}",
         "a.json:1: its results were wrong; measure again"},
        {"{\"op\":\"allreduce\",\"bytes\":8,\"ranks\":2,\"time_us\":0,\"wrong\":0}",
         "a.json:1: time_us is not above 0"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(wrong); i++) {
        tt_text why = {.length = 0};
        tt_bench_rows rows;
        assert_int_equal(read_text(wrong[i].text, &why, &rows), TT_ERR_BAD_ARGUMENT);
        if (strstr(why.bytes, wrong[i].why) != why.bytes) {
            fail_msg("'%s' does not begin with '%s'", why.bytes, wrong[i].why);
        }
        tt_bench_rows_fini(&rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_of_the_bench_is_read),
        cmocka_unit_test(test_ranks_of_one_host_over_tcp_are_like_hosts),
        cmocka_unit_test(test_wrong_lines_are_refused_with_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
