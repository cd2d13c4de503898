/* SPDX-License-Identifier: Apache-2.0
 *
 * hostfile_test.c - both notations for hosts, and what they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/run/hostfile.h"

static void expect_host(const tt_hosts *hosts, size_t index, const char *name, int slots)
{
    assert_true(index < hosts->count);
    assert_string_equal(hosts->items[index].name, name);
    assert_int_equal(hosts->items[index].slots, slots);
}

static void test_list_gives_names_and_slots(void **state)
{
    (void)state;
    tt_hosts hosts = {0};
    char error[256];
    assert_int_equal(tt_hosts_parse_list(&hosts, "a:4, b,[::1]:2,fe80::1%eth0,user@c", error, 256),
                     TT_OK);
    assert_int_equal(hosts.count, 5);
    expect_host(&hosts, 0, "a", 4);
    expect_host(&hosts, 1, "b", 1);
    expect_host(&hosts, 2, "::1", 2);
    expect_host(&hosts, 3, "fe80::1%eth0", 1);
    expect_host(&hosts, 4, "user@c", 1);
    assert_int_equal(tt_hosts_slots(&hosts), 9);
    tt_hosts_fini(&hosts);
}

static void test_host_named_twice_gets_the_sum(void **state)
{
    (void)state;
    tt_hosts hosts = {.slots_default = 3};
    char error[256];
    assert_int_equal(tt_hosts_parse_list(&hosts, "a:4,b,a:2", error, 256), TT_OK);
    expect_host(&hosts, 0, "a", 6);
    expect_host(&hosts, 1, "b", 3);
    tt_hosts_fini(&hosts);
}

static void test_file_knows_comments_blanks_and_both_forms(void **state)
{
    (void)state;
    tt_hosts hosts = {0};
    char error[256];
    const char *text = "# cluster\n\n  a slots=4 # big\r\nb:2\n[::2] slots=3\nc";
    assert_int_equal(tt_hosts_parse_file(&hosts, "f", text, error, 256), TT_OK);
    assert_int_equal(hosts.count, 4);
    expect_host(&hosts, 0, "a", 4);
    expect_host(&hosts, 1, "b", 2);
    expect_host(&hosts, 2, "::2", 3);
    expect_host(&hosts, 3, "c", 1);
    tt_hosts_fini(&hosts);
}

static void test_max_slots_is_a_bound(void **state)
{
    (void)state;
    tt_hosts hosts = {.slots_default = 6};
    char error[256];
    const char *text = "a slots=4 max_slots=8\nb max-slots=2\nc max_slots=8\nd:3 max_slots=3\n";
    assert_int_equal(tt_hosts_parse_file(&hosts, "f", text, error, 256), TT_OK);
    expect_host(&hosts, 0, "a", 4);
    expect_host(&hosts, 1, "b", 2);
    expect_host(&hosts, 2, "c", 6);
    expect_host(&hosts, 3, "d", 3);
    tt_hosts_fini(&hosts);
}

static void test_file_errors_name_file_line_and_culprit(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a\nb slots=0\n", "f:2: slots must be a number from 1 to 4096: 'slots=0'"},
        {"a slots=5000", "f:1: slots must be"},
        {"a:x", "f:1: slots must be"},
        {"a:4 slots=4", "f:1: slots given twice for 'a:4'"},
        {"a cores=4", "f:1: expected slots=NUMBER or max_slots=NUMBER, found 'cores=4'"},
        {"a slots=8 max_slots=4", "f:1: more slots than max_slots: 'a slots=8 max_slots=4'"},
        {"a max_slots=0", "f:1: slots must be a number from 1 to 4096: 'max_slots=0'"},
        {"\n-oProxyCommand=evil", "f:2: not a host name"},
        {"a;rm", "f:1: not a host name"},
        {"[::1", "f:1: not a host name"},
        {"[::1]x", "f:1: not a host name"},
        {"# nothing\n", "f: names no host"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_hosts hosts = {0};
        char error[256] = "";
        assert_int_equal(tt_hosts_parse_file(&hosts, "f", cases[i][0], error, sizeof(error)),
                         TT_ERR_BAD_ARGUMENT);
        assert_ptr_equal(strstr(error, cases[i][1]), error);
        tt_hosts_fini(&hosts);
    }
}

static void test_empty_place_in_a_list_is_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "a,,b", ",a", "a,", ":4", "a:"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(lists); i++) {
        tt_hosts hosts = {0};
        char error[256] = "";
        assert_int_equal(tt_hosts_parse_list(&hosts, lists[i], error, 256), TT_ERR_BAD_ARGUMENT);
        assert_true(strlen(error) > 0);
        tt_hosts_fini(&hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_gives_names_and_slots),
        cmocka_unit_test(test_host_named_twice_gets_the_sum),
        cmocka_unit_test(test_file_knows_comments_blanks_and_both_forms),
        cmocka_unit_test(test_max_slots_is_a_bound),
        cmocka_unit_test(test_file_errors_name_file_line_and_culprit),
        cmocka_unit_test(test_empty_place_in_a_list_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
