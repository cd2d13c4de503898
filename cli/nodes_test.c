/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: nodes of memory are counted as the kernel lists them, without a library for it.
 * Method: lists of cores; a folder like the kernel's, and one that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/nodes.h"

static void test_a_list_meets_the_cores_it_names(void **state)
{
    (void)state;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(5, &cores);
    CPU_SET(9, &cores);
    assert_true(tt_nodes_list_meets("0-5\n", &cores));
    assert_true(tt_nodes_list_meets("0,2,9", &cores));
    assert_true(tt_nodes_list_meets("0-3,8-11\n", &cores));
    assert_false(tt_nodes_list_meets("0-4,6-8,10-4096\n", &cores));
    assert_false(tt_nodes_list_meets("", &cores)); /* a NUMA node without cores */
    assert_false(tt_nodes_list_meets("\n", &cores));
    assert_false(tt_nodes_list_meets("x5", &cores));
    assert_false(tt_nodes_list_meets("99999999999999999999-1,7", &cores));
}

static void make_node(const char *folder, const char *name, const char *list)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/%s/cpulist", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(list, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_node(const char *folder, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s/cpulist", folder, name);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(rmdir(path), 0);
}

static void test_nodes_are_counted_with_those_near(void **state)
{
    (void)state;
    static const char *const names[] = {"node0", "node1", "node2", "power"};
    static const char *const lists[] = {"0-3\n", "4-7\n", "\n", "5\n"};
    char folder[] = "nodes_test.XXXXXX";
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(5, &cores);
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < 4; i++) {
        make_node(folder, names[i], lists[i]);
    }
    const tt_nodes nodes = tt_nodes_read(folder, &cores);
    for (size_t i = 0; i < 4; i++) {
        remove_node(folder, names[i]);
    }
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(nodes.count, 3);
    assert_int_equal(nodes.own_count, 1);
}

static void test_without_the_folder_nothing_is_known(void **state)
{
    (void)state;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    assert_int_equal(tt_nodes_read("/nonexistent", &cores).count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_meets_the_cores_it_names),
        cmocka_unit_test(test_nodes_are_counted_with_those_near),
        cmocka_unit_test(test_without_the_folder_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
