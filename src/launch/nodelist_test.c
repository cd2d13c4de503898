/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the bracket syntax gives the hosts that Slurm gives, and no list causes a long walk, an
 * overflow or a truncated name. Method: literal lists with their expansion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "launch/nodelist.h"

static void assert_expands(const char *list, const char *const *hosts, uint32_t count)
{
    tt_launch_why why = {""};
    char host[TT_LAUNCH_HOST_BYTES];
    uint32_t found = 0;
    assert_int_equal(tt_launch_nodelist_count(list, &found, &why), TT_OK);
    assert_int_equal(found, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(tt_launch_nodelist_host(list, i, host, &why), TT_OK);
        assert_string_equal(host, hosts[i]);
    }
    assert_int_equal(tt_launch_nodelist_host(list, count, host, &why), TT_ERR_BAD_CONFIG);
}

static void test_lists_expand_in_order(void **state)
{
    (void)state;
    assert_expands("m5", (const char *[]){"m5"}, 1);
    assert_expands("n[0-3,7],m5", (const char *[]){"n0", "n1", "n2", "n3", "n7", "m5"}, 6);
    assert_expands("a,b.c,d-e_f", (const char *[]){"a", "b.c", "d-e_f"}, 3);
    assert_expands("r[1-2]n[3-4]x", (const char *[]){"r1n3x", "r1n4x", "r2n3x", "r2n4x"}, 4);
    assert_expands("[3-4]", (const char *[]){"3", "4"}, 2);
}

static void test_zero_padding_is_kept(void **state)
{
    (void)state;
    assert_expands("n[008-010]", (const char *[]){"n008", "n009", "n010"}, 3);
    assert_expands("n[8-10]", (const char *[]){"n8", "n9", "n10"}, 3);
    assert_expands("n[4294967295]", (const char *[]){"n4294967295"}, 1);
}

static void test_broken_lists_are_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "",         ",",
        "a,",       "a,,b",
        "n[",       "n[]",
        "n[0-",     "n[0-]",
        "n[-1]",    "n[3-2]",
        "n[0,]",    "n[0",
        "n]0[",     "n[[0]]",
        "n[a]",     "n 1",
        "n[0-1]]",  "n[4294967296]",
        "n[0-3:2]", "n[00000000001]",
        "n\n",      "a[1]b[1]c[1]d[1]e[1]f[1]g[1]h[1]i[1]",
    };
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        tt_launch_why why = {""};
        uint32_t count;
        if (tt_launch_nodelist_count(broken[i], &count, &why) != TT_ERR_BAD_CONFIG) {
            fail_msg("'%s' was accepted", broken[i]);
        }
        assert_non_null(strstr(why.text, "node list"));
    }
}

static void test_expansion_is_limited(void **state)
{
    (void)state;
    static const char *const vast[] = {"n[0-4294967295]", "n[1-1000]m[1-1000]",
                                       "n[0-99999,0-99999]", "n[0-131071],m[0-131071]",
                                       "a[0-9]b[0-9]c[0-9]d[0-9]e[0-9]f[0-9]g[0-9]h[0-9]"};
    for (size_t i = 0; i < sizeof(vast) / sizeof(vast[0]); i++) {
        tt_launch_why why = {""};
        uint32_t count;
        assert_int_equal(tt_launch_nodelist_count(vast[i], &count, &why), TT_ERR_BAD_CONFIG);
        assert_non_null(strstr(why.text, "too many hosts"));
    }
}

static void test_long_names_are_refused_not_cut(void **state)
{
    (void)state;
    char list[TT_LAUNCH_HOST_BYTES + 16];
    char host[TT_LAUNCH_HOST_BYTES];
    tt_launch_why why = {""};
    memset(list, 'n', sizeof(list));
    list[TT_LAUNCH_HOST_BYTES - 1] = '\0';
    assert_int_equal(tt_launch_nodelist_host(list, 0, host, &why), TT_OK);
    assert_string_equal(host, list);
    list[TT_LAUNCH_HOST_BYTES - 1] = 'n';
    list[TT_LAUNCH_HOST_BYTES] = '\0';
    assert_int_equal(tt_launch_nodelist_host(list, 0, host, &why), TT_ERR_BAD_CONFIG);
}

static void test_tasks_per_node(void **state)
{
    (void)state;
    tt_launch_why why;
    uint32_t tasks = 0;
    assert_int_equal(tt_launch_tasks_on_node("2(x3),1", 0, &tasks, &why), TT_OK);
    assert_int_equal(tasks, 2);
    assert_int_equal(tt_launch_tasks_on_node("2(x3),1", 2, &tasks, &why), TT_OK);
    assert_int_equal(tasks, 2);
    assert_int_equal(tt_launch_tasks_on_node("2(x3),1", 3, &tasks, &why), TT_OK);
    assert_int_equal(tasks, 1);
    static const char *const broken[] = {"", "2(", "2(x)", "2(x3", "2(x3)1", "x", "2,", "-1"};
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        assert_int_equal(tt_launch_tasks_on_node(broken[i], 9, &tasks, &why), TT_ERR_BAD_CONFIG);
    }
    assert_int_equal(tt_launch_tasks_on_node("2(x3),1", 4, &tasks, &why), TT_ERR_BAD_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_expand_in_order),
        cmocka_unit_test(test_zero_padding_is_kept),
        cmocka_unit_test(test_broken_lists_are_refused),
        cmocka_unit_test(test_expansion_is_limited),
        cmocka_unit_test(test_long_names_are_refused_not_cut),
        cmocka_unit_test(test_tasks_per_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
