/* SPDX-License-Identifier: Apache-2.0
 *
 * allocation_test.c - recorded variables of each batch system give its nodes and slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/run/allocation.h"

static const char *const *variables; /* "NAME=value", ends in NULL */

static const char *lookup(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; variables[i] != NULL; i++) {
        if (strncmp(variables[i], name, length) == 0 && variables[i][length] == '=') {
            return variables[i] + length + 1;
        }
    }
    return NULL;
}

static char *read_nodes(const char *path)
{
    return strcmp(path, "/nodes") == 0 ? strdup("n1.site\nn1.site\nn2.site\n") : NULL;
}

static const tt_allocation_source source = {lookup, read_nodes};

typedef struct expectation {
    const char *variables[6];
    const char *system; /* NULL: none */
    const char *hosts[4];
    int slots[4];
} expectation;

static const expectation cases[] = {
    {{"SLURM_JOB_NODELIST=n[1-2],gpu7", "SLURM_TASKS_PER_NODE=4(x2),1", "SLURM_JOB_ID=7"},
     "Slurm",
     {"n1", "n2", "gpu7"},
     {4, 4, 1}},
    {{"SLURM_JOB_NODELIST=n3", "SLURM_JOB_CPUS_PER_NODE=16"}, "Slurm", {"n3"}, {16}},
    {{"SLURM_JOB_NODELIST=n3"}, "Slurm", {"n3"}, {1}},
    {{"SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_STEP_NUM_TASKS=4"},
     NULL,
     {NULL},
     {0}},
    {{"PBS_NODEFILE=/nodes", "PBS_JOBID=1.server"}, "PBS", {"n1.site", "n2.site"}, {2, 1}},
    {{"LSB_MCPU_HOSTS=a 4 b 8 ", "LSB_JOBID=9"}, "LSF", {"a", "b"}, {4, 8}},
    {{"HOME=/root"}, NULL, {NULL}, {0}},
};

static void test_recorded_variables(void **state)
{
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        const expectation *item = &cases[i];
        tt_hosts hosts = {0};
        tt_allocation found;
        char error[256] = "";
        variables = item->variables;
        assert_int_equal(tt_allocation_find(&source, &hosts, &found, error, sizeof(error)), TT_OK);
        assert_true((found.system == NULL) == (item->system == NULL));
        size_t count = 0;
        for (; item->hosts[count] != NULL; count++) {
            assert_true(count < hosts.count);
            assert_string_equal(hosts.items[count].name, item->hosts[count]);
            assert_int_equal(hosts.items[count].slots, item->slots[count]);
        }
        assert_int_equal(hosts.count, count);
        tt_hosts_fini(&hosts);
    }
}

static void test_slots_that_the_user_gives_count(void **state)
{
    (void)state;
    tt_hosts hosts = {.slots_default = 3};
    tt_allocation found;
    char error[256] = "";
    variables = cases[0].variables;
    assert_int_equal(tt_allocation_find(&source, &hosts, &found, error, sizeof(error)), TT_OK);
    assert_string_equal(found.job, "7");
    assert_int_equal(tt_hosts_slots(&hosts), 9);
    tt_hosts_fini(&hosts);
}

static void test_more_ranks_than_slots_are_spread(void **state)
{
    (void)state;
    tt_hosts hosts = {0};
    char error[64];
    assert_int_equal(tt_hosts_parse_list(&hosts, "a:1,b:4,c:1", error, sizeof(error)), TT_OK);
    tt_allocation_widen(&hosts, 5);
    assert_int_equal(tt_hosts_slots(&hosts), 6);
    tt_allocation_widen(&hosts, 20);
    assert_true(tt_hosts_slots(&hosts) >= 20);
    assert_true(hosts.items[0].slots == 7 && hosts.items[1].slots == 7);
    tt_hosts_fini(&hosts);
}

static void test_broken_variables_are_named(void **state)
{
    (void)state;
    static const char *const broken[][3] = {{"SLURM_JOB_NODELIST=n[1-", NULL},
                                            {"SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=x"},
                                            {"PBS_NODEFILE=/missing", NULL},
                                            {"LSB_MCPU_HOSTS=a b", NULL},
                                            {"LSB_MCPU_HOSTS=-oProxyCommand=x 1", NULL}};
    for (size_t i = 0; i < TT_ARRAY_COUNT(broken); i++) {
        tt_hosts hosts = {0};
        tt_allocation found;
        char error[256] = "";
        variables = broken[i];
        assert_int_equal(tt_allocation_find(&source, &hosts, &found, error, sizeof(error)),
                         TT_ERR_BAD_ARGUMENT);
        assert_non_null(strstr(error, i < 2 ? "SLURM_JOB_NODELIST" : i < 3 ? "PBS" : "LSB"));
        tt_hosts_fini(&hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_variables),
        cmocka_unit_test(test_slots_that_the_user_gives_count),
        cmocka_unit_test(test_more_ranks_than_slots_are_spread),
        cmocka_unit_test(test_broken_variables_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
