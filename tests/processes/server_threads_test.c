/* SPDX-License-Identifier: Apache-2.0
 *
 * server_threads_test.c - servers by option: all processes of a job as threads of this one.
 *
 * Method: ranks meet in a fresh folder; workers sum while servers wait; then everyone returns.
 *
 * Labels: asan tsan api */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "tutti/store.h"

enum { SIZE = 5, SERVERS = 2, WORKERS = SIZE - SERVERS };

static const uint8_t secret[32] = {7};

typedef struct process {
    tutti_options options;
    tutti_status status;
    int size;
    int32_t sum;
    pthread_t thread;
} process;

static void *run(void *argument)
{
    process *self = argument;
    tutti_context *context;
    if (self->options.rank >= WORKERS) {
        self->status = tutti_server_run(&self->options);
        return NULL;
    }
    self->status = tutti_init(&self->options, &context);
    if (self->status == TUTTI_OK) {
        self->size = tutti_size(context);
        self->sum = 1 + self->options.rank;
        self->status = tutti_allreduce(context, &self->sum, &self->sum, 1, TUTTI_I32, TUTTI_SUM);
        (void)tutti_shutdown(context);
    }
    return NULL;
}

static void test_all_processes_may_be_threads(void **state)
{
    (void)state;
    process processes[SIZE];
    char folder[] = "/tmp/tutti-server-XXXXXX", meet[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(meet, sizeof(meet), "file://%s", folder);
    for (int rank = 0; rank < SIZE; rank++) {
        processes[rank] = (process){.options = TUTTI_OPTIONS_INIT};
        tutti_options *options = &processes[rank].options;
        options->rank = rank;
        options->size = SIZE;
        options->servers = SERVERS;
        options->rendezvous = meet;
        options->job_id = folder;
        options->secret = secret;
        assert_int_equal(pthread_create(&processes[rank].thread, NULL, run, &processes[rank]), 0);
    }
    for (int rank = 0; rank < SIZE; rank++) {
        assert_int_equal(pthread_join(processes[rank].thread, NULL), 0);
        assert_int_equal(processes[rank].status, TUTTI_OK);
        assert_int_equal(processes[rank].size, rank < WORKERS ? WORKERS : 0);
        assert_int_equal(processes[rank].sum, rank < WORKERS ? 6 : 0);
    }
    (void)rmdir(folder);
}

static void test_a_program_can_do_without_the_servers_of_its_launcher(void **state)
{
    (void)state;
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_context *context;
    assert_int_equal(setenv("TUTTI_SERVERS", "1", 1), 0);
    assert_int_equal(setenv("TUTTI_ROLE", "server", 1), 0);
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_init(&options, &context), TUTTI_ERR_BAD_CONFIG);
    assert_non_null(strstr(tutti_last_error(NULL), "TUTTI_SERVERS=1 leaves no worker"));
    options.servers = -1;
    assert_int_equal(tutti_init(&options, &context), TUTTI_OK);
    assert_int_equal(tutti_shutdown(context), TUTTI_OK);
    assert_int_equal(unsetenv("TUTTI_SERVERS"), 0);
    assert_int_equal(unsetenv("TUTTI_ROLE"), 0);
}

static void test_a_lone_process_is_a_worker(void **state)
{
    (void)state;
    tutti_options options = TUTTI_OPTIONS_INIT;
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_server_run(&options), TUTTI_ERR_BAD_CONFIG);
    assert_non_null(strstr(tutti_last_error(NULL), "this process is a worker (rank 0 of 1"));
    options.struct_bytes = 3;
    assert_int_equal(tutti_server_run(&options), TUTTI_ERR_BAD_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_processes_may_be_threads),
        cmocka_unit_test(test_a_program_can_do_without_the_servers_of_its_launcher),
        cmocka_unit_test(test_a_lone_process_is_a_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
