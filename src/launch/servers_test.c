/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the last TUTTI_SERVERS ranks are servers, and every contradiction between number,
 * TUTTI_ROLE and call is refused with its values and the cure. Method: variables injected through
 * the lookup.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "launch/servers.h"

typedef struct variables {
    const char *servers, *role;
} variables;

static const char *lookup(void *context, const char *variable)
{
    const variables *values = context;
    if (strcmp(variable, "TUTTI_SERVERS") == 0) {
        return values->servers;
    }
    return strcmp(variable, "TUTTI_ROLE") == 0 ? values->role : NULL;
}

static tt_status read_rank(variables values, uint32_t rank, tt_launch_servers *servers_out,
                           tt_launch_why *why)
{
    const tt_launch_source source = {.lookup = lookup, .context = &values};
    const tt_launch_identity identity = {.rank = rank, .size = 6};
    return tt_launch_servers_read(&source, &identity, servers_out, why);
}

static tt_launch_servers servers_of(variables values, uint32_t rank)
{
    tt_launch_servers servers;
    tt_launch_why why = {""};
    if (read_rank(values, rank, &servers, &why) != TT_OK) {
        fail_msg("refused: %s", why.text);
    }
    return servers;
}

static void test_the_last_ranks_are_servers(void **state)
{
    (void)state;
    tt_launch_why why;
    for (uint32_t rank = 0; rank < 6; rank++) {
        const tt_launch_servers servers = servers_of((variables){"2", NULL}, rank);
        assert_int_equal(servers.count, 2);
        assert_int_equal(tt_launch_servers_is_server(&servers), rank >= 4);
        assert_int_equal(tt_launch_servers_check(&servers, rank >= 4, &why), TT_OK);
    }
}

static void test_without_the_variable_all_are_workers(void **state)
{
    (void)state;
    static const char *const nothing[] = {NULL, "", "0"};
    tt_launch_why why;
    for (size_t i = 0; i < 3; i++) {
        const tt_launch_servers servers = servers_of((variables){nothing[i], NULL}, 5);
        assert_false(tt_launch_servers_is_server(&servers));
        assert_int_equal(tt_launch_servers_check(&servers, false, &why), TT_OK);
    }
}

static void test_bad_values_are_named(void **state)
{
    (void)state;
    tt_launch_servers servers;
    tt_launch_why why;
    assert_int_equal(read_rank((variables){"two", NULL}, 0, &servers, &why), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.text, "TUTTI_SERVERS='two' is not a number"));
    assert_int_equal(read_rank((variables){"-1", NULL}, 0, &servers, &why), TT_ERR_BAD_CONFIG);
    assert_int_equal(read_rank((variables){"4294967296", NULL}, 0, &servers, &why),
                     TT_ERR_BAD_CONFIG);
    assert_int_equal(read_rank((variables){"2", "boss"}, 0, &servers, &why), TT_ERR_BAD_CONFIG);
    assert_non_null(strstr(why.text, "TUTTI_ROLE='boss'"));
}

typedef struct refusal {
    variables values;
    uint32_t rank;
    bool serves;
    const char *text;
} refusal;

static void test_contradictions_are_refused_with_their_values(void **state)
{
    (void)state;
    static const refusal refusals[] = {
        {{"6", NULL}, 0, false, "TUTTI_SERVERS=6 leaves no worker: the job has 6 processes"},
        {{"7", NULL}, 5, true, "TUTTI_SERVERS=7 leaves no worker"},
        {{"2", "server"}, 3, true, "TUTTI_ROLE=server, but rank 3 of 6 is a worker with "},
        {{"2", "worker"}, 4, false, "TUTTI_ROLE=worker, but rank 4 of 6 is a server with "},
        {{NULL, "server"}, 5, true, "is a worker with TUTTI_SERVERS=0"},
        {{"2", NULL},
         4,
         false,
         "this process is a server (rank 4 of 6, TUTTI_SERVERS=2): call tutti_server_run, or run "
         "`tutti server`"},
        {{"2", "worker"}, 1, true, "this process is a worker (rank 1 of 6, TUTTI_SERVERS=2): call"},
        {{NULL, NULL}, 1, true, "set TUTTI_SERVERS to the number of servers on every process"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const tt_launch_servers servers = servers_of(refusals[i].values, refusals[i].rank);
        tt_launch_why why = {""};
        assert_int_equal(tt_launch_servers_check(&servers, refusals[i].serves, &why),
                         TT_ERR_BAD_CONFIG);
        if (strstr(why.text, refusals[i].text) == NULL) {
            fail_msg("no '%s' in '%s'", refusals[i].text, why.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_ranks_are_servers),
        cmocka_unit_test(test_without_the_variable_all_are_workers),
        cmocka_unit_test(test_bad_values_are_named),
        cmocka_unit_test(test_contradictions_are_refused_with_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
