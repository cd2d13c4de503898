/* SPDX-License-Identifier: Apache-2.0
 *
 * own_update_test.c - updates of stores that the program gives as functions.
 *
 * Method: all processes of a job as threads of this one. A function that does what a built-in
 * update does must give its bits; a process that lacks the function is named to all workers.
 *
 * Labels: asan tsan api */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "tutti/store.h"

enum { SIZE_MAX_HERE = 5, COUNT = 40001, ITERATIONS = 6, NOBODY = -1 };

static const uint8_t secret[32] = {7};

typedef struct job {
    int workers, servers;
    int lacks;    /* the rank without the function, */
    int differs;  /* the one with another function of that name, or NOBODY */
    bool is_kept; /* saved in the middle, trained further, loaded and resharded */
    const char *policy, *update, *twin;
    char folder[32], meet[64];
} job;

typedef struct process {
    const job *own;
    tutti_options options;
    tutti_status status;
    bool is_equal;
    char error[512];
    pthread_t thread;
} process;

/* ---- functions that do what built-in updates do ---- */

static void sgd(void *user, const tutti_store_update_args *args)
{
    (void)user;
    for (size_t i = 0; i < args->count; i++) {
        args->value_out[i] = args->value[i] - args->options[0] * args->gradient[i];
    }
}

static void momentum(void *user, const tutti_store_update_args *args)
{
    float *velocity = args->states[0];
    (void)user;
    for (size_t i = 0; i < args->count; i++) {
        velocity[i] = args->options[1] * velocity[i] + args->gradient[i];
        args->value_out[i] = args->value[i] - args->options[0] * velocity[i];
    }
}

static const char *const names[] = {"lr", "mu"};
static const float values[] = {0.01f, 0.9f};
static const tutti_store_update others[] = {
    {sizeof(tutti_store_update), "sgd", sgd, NULL, 0, 2, names, values},
};
static const tutti_store_update updates[] = {
    {sizeof(tutti_store_update), "sgd", sgd, NULL, 0, 1, names, values},
    {sizeof(tutti_store_update), "momentum", momentum, NULL, 1, 2, names, values},
};

/* ---- jobs ---- */

static float gradient_at(int rank, int iteration, int i)
{
    return (float)((rank + 1) * 100 + iteration) / (float)(3 + (i + rank) % 17);
}

/* What is pushed between save and load is forgotten. */
static tutti_status keep(tutti_store *store, const job *own, const float *pushed)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/kept", own->folder);
    tutti_status status = tutti_store_save(store, path);
    if (status == TUTTI_OK) {
        status = tutti_store_push(store, "t", pushed);
    }
    if (status == TUTTI_OK) {
        status = tutti_store_clock(store, NULL);
    }
    if (status == TUTTI_OK) {
        status = tutti_store_load(store, path);
    }
    if (status == TUTTI_OK && own->lacks == NOBODY) {
        status = tutti_store_reshard(store, 1);
    }
    (void)unlink(path);
    return status;
}

/* Ends with the store's value in `read`. */
static tutti_status train(tutti_context *context, const job *own, const char *update, float *read)
{
    float *pushed = calloc(COUNT, sizeof(float));
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    tutti_store *store = NULL;
    config.policy = own->policy;
    config.update = update;
    tutti_status status = tutti_store_open(context, &config, &store);
    if (status != TUTTI_OK) {
        free(pushed);
        return status;
    }
    status = tutti_store_add(store, "t", pushed, COUNT, TUTTI_F32);
    for (int k = 0; status == TUTTI_OK && k < ITERATIONS; k++) {
        tutti_store_call push = TUTTI_STORE_CALL_INIT;
        tutti_handle *handle;
        for (int i = 0; i < COUNT; i++) {
            pushed[i] = gradient_at(tutti_rank(context), k, i);
        }
        if (k == ITERATIONS / 2 && own->lacks == NOBODY && tutti_rank(context) == 0) {
            status = tutti_store_set(store, "lr", 0.125, TUTTI_STORE_NOW);
        }
        if (k == ITERATIONS / 2 && own->is_kept && status == TUTTI_OK && update == own->update) {
            status = keep(store, own, pushed);
        }
        push.name = "t";
        push.input = pushed;
        status = status == TUTTI_OK ? tutti_store_start(store, &push, &handle) : status;
        if (status == TUTTI_OK) {
            status = tutti_store_clock(store, NULL);
            (void)tutti_wait(handle, -1.0);
            tutti_handle_free(handle);
        }
    }
    status = status == TUTTI_OK ? tutti_barrier(context) : status;
    status = status == TUTTI_OK ? tutti_store_pull(store, "t", read) : status;
    const tutti_status closed = tutti_store_close(store);
    free(pushed);
    return status == TUTTI_OK ? closed : status;
}

static void work(process *self, tutti_context *context)
{
    float *read = calloc(COUNT, sizeof(float)), *twin = calloc(COUNT, sizeof(float));
    self->status = train(context, self->own, self->own->update, read);
    (void)snprintf(self->error, sizeof(self->error), "%s", tutti_last_error(context));
    if (self->status == TUTTI_OK && self->own->twin != NULL) {
        self->status = train(context, self->own, self->own->twin, twin);
        self->is_equal = memcmp(read, twin, COUNT * sizeof(float)) == 0 && read[0] != 0.0f;
    }
    (void)tutti_barrier(context); /* all have their texts before one leaves */
    free(read);
    free(twin);
}

static void *run(void *argument)
{
    process *self = argument;
    tutti_context *context;
    if (self->options.rank >= self->own->workers) {
        self->status = tutti_server_run(&self->options);
        return NULL;
    }
    self->status = tutti_init(&self->options, &context);
    if (self->status == TUTTI_OK) {
        work(self, context);
        (void)tutti_shutdown(context);
    }
    return NULL;
}

static void run_job(job *own, process *processes)
{
    const int size = own->workers + own->servers;
    (void)snprintf(own->folder, sizeof(own->folder), "/tmp/tutti-update-XXXXXX");
    assert_non_null(mkdtemp(own->folder));
    (void)snprintf(own->meet, sizeof(own->meet), "file://%s", own->folder);
    for (int rank = 0; rank < size; rank++) {
        processes[rank] = (process){.own = own, .options = TUTTI_OPTIONS_INIT};
        tutti_options *options = &processes[rank].options;
        options->rank = rank;
        options->size = size;
        options->servers = own->servers > 0 ? own->servers : -1;
        options->rendezvous = own->meet;
        options->job_id = own->folder;
        options->secret = secret;
        options->updates = rank == own->lacks ? NULL : rank == own->differs ? others : updates;
        options->update_count = rank == own->lacks     ? 0
                                : rank == own->differs ? TT_ARRAY_COUNT(others)
                                                       : TT_ARRAY_COUNT(updates);
        assert_int_equal(pthread_create(&processes[rank].thread, NULL, run, &processes[rank]), 0);
    }
    for (int rank = 0; rank < size; rank++) {
        assert_int_equal(pthread_join(processes[rank].thread, NULL), 0);
    }
    (void)rmdir(own->folder);
}

static void test_the_same_function_gives_the_same_bits(void **state)
{
    static const char *const pairs[][2] = {
        {"own:sgd:lr=0.25", "sgd:lr=0.25"},
        {"own:momentum:lr=0.25,mu=0.5", "momentum:lr=0.25,momentum=0.5"}};
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(pairs); i++) {
        for (int servers = 0; servers <= 2; servers++) {
            process processes[SIZE_MAX_HERE];
            job own = {.workers = 3,
                       .servers = servers,
                       .lacks = NOBODY,
                       .differs = NOBODY,
                       .policy = "bulk",
                       .update = pairs[i][0],
                       .twin = pairs[i][1]};
            run_job(&own, processes);
            for (int rank = 0; rank < own.workers + servers; rank++) {
                assert_int_equal(processes[rank].status, TUTTI_OK);
                assert_true(processes[rank].is_equal || rank >= own.workers);
            }
        }
    }
}

static void test_every_policy_applies_it(void **state)
{
    static const char *const policies[] = {"stale:1", "async", "quorum:2"};
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(policies); i++) {
        process processes[SIZE_MAX_HERE];
        job own = {.workers = 2,
                   .servers = 1,
                   .lacks = NOBODY,
                   .differs = NOBODY,
                   .policy = policies[i],
                   .update = "own:momentum:lr=0.25"};
        run_job(&own, processes);
        for (int rank = 0; rank < 3; rank++) {
            assert_int_equal(processes[rank].status, TUTTI_OK);
        }
    }
}

static void test_a_process_without_it_is_named_to_all(void **state)
{
    static const struct {
        int workers, servers, lacks;
        const char *words;
    } cases[] = {{2, 2, 3, "server 1 (rank 3) cannot apply"},
                 {3, 1, 1, "worker 1 (rank 1) cannot apply"},
                 {2, 0, 0, "worker 0 (rank 0) cannot apply"}};
    (void)state;
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        process processes[SIZE_MAX_HERE];
        job own = {.workers = cases[i].workers,
                   .servers = cases[i].servers,
                   .lacks = cases[i].lacks,
                   .differs = NOBODY,
                   .policy = "bulk",
                   .update = "own:sgd"};
        run_job(&own, processes);
        for (int rank = 0; rank < own.workers; rank++) {
            assert_int_equal(processes[rank].status, TUTTI_ERR_BAD_ARGUMENT);
            assert_non_null(strstr(processes[rank].error, cases[i].words));
            assert_non_null(strstr(processes[rank].error, "tutti_options.updates"));
        }
    }
}

static void test_a_worker_that_owns_nothing_needs_none(void **state)
{
    process processes[SIZE_MAX_HERE];
    job own = {.workers = 2,
               .servers = 2,
               .lacks = 1,
               .differs = NOBODY,
               .is_kept = true,
               .policy = "bulk",
               .update = "own:momentum"};
    (void)state;
    run_job(&own, processes);
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(processes[rank].status, TUTTI_OK);
    }
}

static void test_values_and_states_are_saved_loaded_and_moved(void **state)
{
    (void)state;
    for (int servers = 0; servers <= 2; servers++) {
        process processes[SIZE_MAX_HERE];
        job own = {.workers = 3,
                   .servers = servers,
                   .lacks = NOBODY,
                   .differs = NOBODY,
                   .is_kept = true,
                   .policy = "bulk",
                   .update = "own:momentum:lr=0.25,mu=0.5",
                   .twin = "momentum:lr=0.25,momentum=0.5"};
        run_job(&own, processes);
        for (int rank = 0; rank < own.workers + servers; rank++) {
            assert_int_equal(processes[rank].status, TUTTI_OK);
            assert_true(processes[rank].is_equal || rank >= own.workers);
        }
    }
}

/* Also to a worker that has no function of that name. */
static void test_functions_that_differ_are_named_to_all(void **state)
{
    process processes[SIZE_MAX_HERE];
    job own = {.workers = 2,
               .servers = 2,
               .lacks = 1,
               .differs = 3,
               .policy = "bulk",
               .update = "own:sgd"};
    (void)state;
    run_job(&own, processes);
    for (int rank = 0; rank < own.workers; rank++) {
        assert_int_equal(processes[rank].status, TUTTI_ERR_MISMATCH);
        assert_non_null(strstr(processes[rank].error, "update own:sgd differs: "));
        assert_non_null(strstr(processes[rank].error, "server 1 (rank 3) has \"0 lr mu\""));
    }
}

static void test_bad_functions_are_refused(void **state)
{
    static const char *const taken[] = {"tau"};
    tutti_store_update bad = TUTTI_STORE_UPDATE_INIT;
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_context *context;
    (void)state;
    options.rank = 0;
    options.size = 1;
    options.updates = &bad;
    options.update_count = 1;
    assert_int_equal(tutti_init(&options, &context), TUTTI_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(tutti_last_error(NULL), "updates[0]: it needs a function"));
    bad.name = "x";
    bad.apply = sgd;
    bad.option_count = 1;
    bad.option_names = taken;
    bad.option_values = values;
    assert_int_equal(tutti_init(&options, &context), TUTTI_ERR_BAD_ARGUMENT);
    assert_non_null(strstr(tutti_last_error(NULL), "other than tau and dc"));
    bad.option_names = names;
    assert_int_equal(tutti_init(&options, &context), TUTTI_OK);
    assert_int_equal(tutti_shutdown(context), TUTTI_OK);
    options.struct_bytes = offsetof(tutti_options, updates); /* of a program built before */
    bad.apply = NULL;
    assert_int_equal(tutti_init(&options, &context), TUTTI_OK);
    assert_int_equal(tutti_shutdown(context), TUTTI_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_function_gives_the_same_bits),
        cmocka_unit_test(test_every_policy_applies_it),
        cmocka_unit_test(test_a_process_without_it_is_named_to_all),
        cmocka_unit_test(test_a_worker_that_owns_nothing_needs_none),
        cmocka_unit_test(test_values_and_states_are_saved_loaded_and_moved),
        cmocka_unit_test(test_functions_that_differ_are_named_to_all),
        cmocka_unit_test(test_bad_functions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
