/* SPDX-License-Identifier: Apache-2.0
 *
 * sums_test.c - TUTTI_SUM=server: named all-reduces that owners sum, with and without servers.
 *
 * Method: workers and servers are threads of this process, or processes on hosts that are names
 * only. Results are compared with the oracle of the other algorithms; ranks that differ, object or
 * join are judged by what every rank gets, and payloads between hosts by their bytes.
 *
 * Labels: asan tsan
 * Timeout: 300
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "conformance/cases.h"
#include "conformance/oracle.h"
#include "conformance/ranks.h"
#include "tutti/store.h"

enum { PROCESSES_MAX = 8, TEXT_BYTES = 512, NAME_BYTES = 32 };

static const uint8_t secret[32] = {11};

/* ---- jobs ---- */

typedef struct sums_job {
    int workers, servers;
    const char *transport;
    ranks_fn *body;
    char hosts[PROCESSES_MAX];
    char meet[64];
    char texts[PROCESSES_MAX][TEXT_BYTES];
    tutti_status statuses[PROCESSES_MAX];
    ranks_job ranks;
} sums_job;

typedef struct process {
    sums_job *job;
    int rank;
    pthread_t thread;
} process;

static void *process_run(void *argument)
{
    process *self = argument;
    sums_job *job = self->job;
    tutti_options options = TUTTI_OPTIONS_INIT;
    options.rank = self->rank;
    options.size = job->workers + job->servers;
    options.servers = job->servers > 0 ? job->servers : -1;
    options.rendezvous = job->meet;
    options.job_id = job->meet;
    options.secret = secret;
    options.transport = job->transport;
    if (self->rank >= job->workers) {
        EXPECT_STATUS(TUTTI_OK, tutti_server_run(&options));
        return NULL;
    }
    ranks_self worker = {.job = &job->ranks, .rank = self->rank, .size = job->workers, .user = job};
    EXPECT_STATUS(TUTTI_OK, tutti_init(&options, &worker.context));
    job->body(&worker);
    EXPECT_STATUS(TUTTI_OK, tutti_shutdown(worker.context));
    return NULL;
}

static void job_run(int workers, int servers, const char *transport, ranks_fn *body)
{
    char folder[] = "/tmp/tutti-sums-XXXXXX";
    process processes[PROCESSES_MAX];
    sums_job job = {.workers = workers, .servers = servers, .transport = transport, .body = body};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(job.meet, sizeof(job.meet), "file://%s", folder);
    assert_int_equal(pthread_barrier_init(&job.ranks.barrier, NULL, (unsigned)workers), 0);
    for (int rank = 0; rank < workers + servers; rank++) {
        processes[rank] = (process){.job = &job, .rank = rank};
        assert_int_equal(
            pthread_create(&processes[rank].thread, NULL, process_run, &processes[rank]), 0);
    }
    for (int rank = 0; rank < workers + servers; rank++) {
        assert_int_equal(pthread_join(processes[rank].thread, NULL), 0);
    }
    (void)pthread_barrier_destroy(&job.ranks.barrier);
    (void)rmdir(folder);
}

/* A process for each worker, on the host of its letter, and for each server, on one of its own. The
 * job is in memory that they share. */
static void job_run_hosts(const char *hosts, int servers, ranks_fn *body)
{
    char folder[] = "/tmp/tutti-sums-XXXXXX";
    const int workers = (int)strlen(hosts);
    pid_t children[PROCESSES_MAX];
    pthread_barrierattr_t shared;
    sums_job *job =
        mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(job != MAP_FAILED && mkdtemp(folder) != NULL);
    *job = (sums_job){.workers = workers, .servers = servers, .transport = "shm", .body = body};
    (void)snprintf(job->hosts, sizeof(job->hosts), "%s", hosts);
    (void)snprintf(job->meet, sizeof(job->meet), "file://%s", folder);
    assert_int_equal(pthread_barrierattr_init(&shared), 0);
    assert_int_equal(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED), 0);
    assert_int_equal(pthread_barrier_init(&job->ranks.barrier, &shared, (unsigned)workers), 0);
    for (int rank = 0; rank < workers + servers; rank++) {
        children[rank] = fork();
        if (children[rank] == 0) {
            const char name[] = {rank < workers ? hosts[rank] : (char)('0' + rank), '\0'};
            process self = {.job = job, .rank = rank};
            (void)setenv("TUTTI_HOSTID", name, 1);
            (void)process_run(&self);
            _exit(0);
        }
        assert_true(children[rank] > 0);
    }
    for (int rank = 0; rank < workers + servers; rank++) {
        int status = -1;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_int_equal(status, 0);
    }
    (void)pthread_barrier_destroy(&job->ranks.barrier);
    (void)munmap(job, sizeof(*job));
    (void)rmdir(folder);
}

/* Even hosts, uneven ones, and ranks that take turns; workers own all, some, or nothing. */
static void job_run_all_hosts(ranks_fn *body)
{
    job_run_hosts("aabb", 0, body);
    job_run_hosts("aaab", 2, body);
    job_run_hosts("abcab", 1, body);
}

/* Workers own all, some, or nothing. */
static void job_run_all(int workers, ranks_fn *body)
{
    job_run(workers, 0, "shm", body);
    job_run(workers, 2, "shm", body);
    job_run(workers, workers, "tcp", body);
}

static tutti_call named(const char *name, void *values, uint64_t count)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.name = name;
    call.input = call.output = values;
    call.count = count;
    call.dtype = TUTTI_I32;
    return call;
}

/* The sum of rank + 1 over all ranks, by name. */
static void check_sum(const ranks_self *self, const char *name, uint64_t count)
{
    int32_t *values = malloc((count + 1) * sizeof(*values));
    const tutti_call call = named(name, values, count);
    for (uint64_t i = 0; i < count; i++) {
        values[i] = self->rank + 1;
    }
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    for (uint64_t i = 0; i < count; i++) {
        EXPECT_SAY(values[i] == self->size * (self->size + 1) / 2, "%s: %d", name, values[i]);
    }
    free(values);
}

/* Named calls that the workers made. Owners sum without a negotiation. */
static uint64_t negotiated(const ranks_self *self)
{
    const tutti_counters counters = ranks_counters(self);
    return counters.agreed + counters.planned;
}

/* All workers got the same status and text, and it contains both. */
static void check_texts(const ranks_self *self, tutti_status wanted, const char *one,
                        const char *other)
{
    const sums_job *job = self->user;
    ranks_meet((ranks_self *)(uintptr_t)self);
    for (int rank = 0; rank < self->size; rank++) {
        EXPECT_SAY(job->statuses[rank] == wanted, "rank %d: %s: %s", rank,
                   tutti_status_text(job->statuses[rank]), job->texts[rank]);
        EXPECT_SAY(strcmp(job->texts[rank], job->texts[0]) == 0, "%s / %s", job->texts[rank],
                   job->texts[0]);
        EXPECT_SAY(strstr(job->texts[rank], one) != NULL, "%s", job->texts[rank]);
        EXPECT_SAY(strstr(job->texts[rank], other) != NULL, "%s", job->texts[rank]);
    }
    ranks_meet((ranks_self *)(uintptr_t)self);
}

static void keep_result(const ranks_self *self, tutti_status status)
{
    sums_job *job = self->user;
    job->statuses[self->rank] = status;
    (void)snprintf(job->texts[self->rank], TEXT_BYTES, "%s",
                   status < 0 ? tutti_last_error(self->context) : "");
}

/* ---- values ---- */

static void check_case(const ranks_self *self, const oracle_case *one, bool is_in_place)
{
    char name[NAME_BYTES];
    const size_t bytes = one->count * 8 + 8;
    uint8_t *input = calloc(1, bytes), *output = calloc(1, bytes), *expected = calloc(1, bytes);
    tutti_call call = TUTTI_CALL_INIT;
    (void)snprintf(name, sizeof(name), "t%d.%d", (int)one->dtype, (int)one->op);
    oracle_fill_input(one, self->rank, input);
    oracle_fill_expected(one, self->rank, expected);
    call.name = name;
    call.input = input;
    call.output = is_in_place ? input : output;
    call.count = one->count;
    call.dtype = one->dtype;
    call.op = one->op;
    call.prescale = one->prescale;
    call.postscale = one->postscale;
    const tutti_status status = tutti_run(self->context, &call);
    EXPECT_SAY(status == TUTTI_OK, "%s", tutti_last_error(self->context));
    char text[256];
    oracle_describe(one, text, sizeof(text));
    EXPECT_SAY(memcmp(call.output, expected, bytes - 8) == 0, "%s", text);
    free(input);
    free(output);
    free(expected);
}

/* The same name with another length each time: each is a new generation of its key. */
static void every_type(ranks_self *self)
{
    static const uint64_t counts[] = {0, 1, 100, 3000};
    for (int dtype = 0; dtype <= (int)TUTTI_BOOL; dtype++) {
        for (int op = 0; op < (int)TUTTI_ADASUM; op++) {
            oracle_case one = {.collective = TUTTI_ALLREDUCE,
                               .dtype = (tutti_dtype)dtype,
                               .op = (tutti_op)op,
                               .size = self->size,
                               .prescale = 1.0,
                               .postscale = 1.0};
            for (size_t i = 0; oracle_allows(one.dtype, one.op) && i < TT_ARRAY_COUNT(counts);
                 i++) {
                one.count = counts[i];
                one.seed = i;
                check_case(self, &one, i % 2 == 0);
                check_case(self, &one, i % 2 == 1);
            }
        }
    }
}

static void test_every_type_and_operator(void **state)
{
    (void)state;
    job_run_all(3, every_type);
    job_run(1, 0, "shm", every_type);
}

static void long_ones(ranks_self *self)
{
    oracle_case one = {.collective = TUTTI_ALLREDUCE,
                       .dtype = TUTTI_F32,
                       .op = TUTTI_AVERAGE,
                       .size = self->size,
                       .count = 700000,
                       .prescale = 2.0,
                       .postscale = 0.5};
    check_case(self, &one, true);
    one.op = TUTTI_SUM;
    check_case(self, &one, false);
    one.dtype = TUTTI_F16;
    one.prescale = 1.0;
    check_case(self, &one, true);
}

static void test_parts_of_long_tensors(void **state)
{
    (void)state;
    job_run_all(4, long_ones);
}

/* What every algorithm is tried with, as far as owners sum it. A name has all lengths and forms of
 * its type and operator. */
static void try_case(const collective_case *one, void *owner)
{
    const ranks_self *self = owner;
    if (one->collective != TT_ALLREDUCE || one->redop == TT_ADASUM) {
        return;
    }
    char name[NAME_BYTES], text[256];
    const size_t bytes = one->count * tt_dtype_bytes(one->dtype);
    uint8_t *input = calloc(1, bytes + 1), *output = calloc(1, bytes + 1);
    uint8_t *expected = calloc(1, bytes + 1);
    tutti_call call = TUTTI_CALL_INIT;
    (void)snprintf(name, sizeof(name), "c%d.%d", (int)one->dtype, (int)one->redop);
    case_describe(one, text, sizeof(text));
    case_fill_input(one, (uint32_t)self->rank, input);
    case_fill_expected(one, (uint32_t)self->rank, expected);
    call.name = name;
    call.input = input;
    call.output = one->is_in_place ? input : output;
    call.count = one->count;
    call.dtype = (tutti_dtype)one->dtype;
    call.op = (tutti_op)one->redop;
    call.prescale = one->prescale;
    call.postscale = one->postscale;
    const tutti_status status = tutti_run(self->context, &call);
    EXPECT_SAY(status == TUTTI_OK, "%s: %s", text, tutti_last_error(self->context));
    EXPECT_SAY(memcmp(call.output, expected, bytes) == 0, "%s", text);
    free(input);
    free(output);
    free(expected);
}

static void every_case(ranks_self *self)
{
    cases_for_each((uint32_t)self->size, try_case, self);
    EXPECT(negotiated(self) == 0); /* workers made none of them */
}

static void test_the_cases_of_all_algorithms(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 5; workers++) {
        job_run(workers, 0, "shm", every_case);
        job_run(workers, 2, "shm", every_case);
    }
}

/* ---- order of adding ---- */

enum { ROUNDING_COUNT = 20000 }; /* parts for all owners */

static collective_case rounding_case(const ranks_self *self)
{
    return (collective_case){.collective = TT_ALLREDUCE,
                             .dtype = TT_F32,
                             .redop = TT_SUM,
                             .size = (uint32_t)self->size,
                             .count = ROUNDING_COUNT,
                             .is_rounding = true,
                             .prescale = 1.0,
                             .postscale = 1.0,
                             .salt = 9};
}

/* In the order of ranks from first to last; or backwards. */
static void add_up(const ranks_self *self, bool is_backwards, float *sum)
{
    const collective_case one = rounding_case(self);
    float *values = malloc(ROUNDING_COUNT * sizeof(*values));
    for (int i = 0; i < self->size; i++) {
        const int rank = is_backwards ? self->size - 1 - i : i;
        case_fill_input(&one, (uint32_t)rank, values);
        for (int k = 0; k < ROUNDING_COUNT; k++) {
            sum[k] = i == 0 ? values[k] : sum[k] + values[k];
        }
    }
    free(values);
}

/* The sum of one iteration of a store. */
static void store_sum(const ranks_self *self, const char *policy, const float *input, float *sum)
{
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    tutti_store *store = NULL;
    tutti_handle *handle = NULL;
    config.policy = policy;
    config.update = "sum";
    EXPECT_STATUS(TUTTI_OK, tutti_store_open(self->context, &config, &store));
    EXPECT_STATUS(TUTTI_OK, tutti_store_add(store, "w", NULL, ROUNDING_COUNT, TUTTI_F32));
    tutti_store_call call = TUTTI_STORE_CALL_INIT;
    call.verb = TUTTI_STORE_PUSH_PULL;
    call.name = "w";
    call.input = input;
    call.output = sum;
    EXPECT_STATUS(TUTTI_OK, tutti_store_start(store, &call, &handle));
    EXPECT_STATUS(TUTTI_OK, tutti_store_clock(store, NULL)); /* which closes that of a quorum */
    EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1));
    tutti_handle_free(handle);
    EXPECT_STATUS(TUTTI_OK, tutti_store_close(store));
}

static void sums_that_round(ranks_self *self)
{
    const collective_case one = rounding_case(self);
    const size_t bytes = ROUNDING_COUNT * sizeof(float);
    float *input = malloc(bytes), *expected = malloc(bytes), *sum = malloc(bytes);
    case_fill_input(&one, (uint32_t)self->rank, input);
    add_up(self, true, sum);
    add_up(self, false, expected);
    EXPECT(memcmp(sum, expected, bytes) != 0); /* the order matters */
    const tutti_status status =
        tutti_allreduce(self->context, input, sum, ROUNDING_COUNT, TUTTI_F32, TUTTI_SUM);
    EXPECT_STATUS(TUTTI_OK, status);
    EXPECT(memcmp(sum, expected, bytes) == 0);
    memset(sum, 0, bytes);
    store_sum(self, "bulk", input, sum);
    EXPECT(memcmp(sum, expected, bytes) == 0);
    memset(sum, 0, bytes);
    store_sum(self, self->size == 4 ? "quorum:4" : "quorum:3", input, sum);
    EXPECT(memcmp(sum, expected, bytes) == 0);
    tutti_call call = named("w", input, ROUNDING_COUNT);
    call.dtype = TUTTI_F32;
    call.output = sum;
    memset(sum, 0, bytes);
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT(memcmp(sum, expected, bytes) == 0);
    free(input);
    free(expected);
    free(sum);
}

/* A store's sum, a named sum and the all-reduce that adds in the order of ranks. */
static void test_sums_that_round_have_the_bits_of_direct(void **state)
{
    (void)state;
    (void)setenv("TUTTI_ALGORITHM", "direct", 1);
    job_run_all(4, sums_that_round);
    job_run_all(3, sums_that_round);
    (void)unsetenv("TUTTI_ALGORITHM");
}

/* ---- rules ---- */

/* A sum of so many elements, and whether the workers made it. */
static void check_maker(const ranks_self *self, const char *name, uint64_t count, bool is_workers)
{
    const uint64_t before = negotiated(self);
    check_sum(self, name, count);
    EXPECT_SAY(negotiated(self) - before == (is_workers ? 1 : 0), "%s of %llu", name,
               (unsigned long long)count);
}

/* With either default. */
static void check_rules(const ranks_self *self)
{
    for (int step = 0; step < 3; step++) {
        check_maker(self, "a.bias", 500, true);
        check_maker(self, "a.weight", 500, false);
        check_maker(self, "a.weight", 499, true);
        check_maker(self, "b.bias", 499, true);
    }
}

static void rules_and_servers(ranks_self *self)
{
    check_rules(self);
    check_maker(self, "c", 40, false);
    check_rules(self);
}

static void rules_and_workers(ranks_self *self)
{
    check_rules(self);
    check_maker(self, "c", 40, true);
    check_rules(self);
}

/* Both kinds in flight, each rank in an order of its own. */
static void rules_in_any_order(ranks_self *self)
{
    enum { TENSORS = 8, COUNT = 20 };
    for (int step = 0; step < 4; step++) {
        int32_t values[TENSORS][COUNT];
        tutti_handle *handles[TENSORS];
        const uint64_t before = negotiated(self);
        for (int i = 0; i < TENSORS; i++) {
            const int tensor = (i * 3 + self->rank + step) % TENSORS;
            char name[NAME_BYTES];
            (void)snprintf(name, sizeof(name), "w%d.%s", tensor, tensor % 2 == 0 ? "bias" : "c");
            for (int k = 0; k < COUNT; k++) {
                values[tensor][k] = self->rank + tensor;
            }
            const tutti_call call = named(name, values[tensor], COUNT);
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[tensor]));
        }
        for (int i = 0; i < TENSORS; i++) {
            const int wanted = self->size * (self->size - 1) / 2 + self->size * i;
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1));
            EXPECT_SAY(values[i][COUNT - 1] == wanted, "%d, not %d", values[i][COUNT - 1], wanted);
            tutti_handle_free(handles[i]);
        }
        EXPECT(negotiated(self) - before == TENSORS / 2);
    }
}

static void test_rules_choose_who_sums(void **state)
{
    static const char rules[] = "role=any name=*.bias sum=allreduce\n"
                                "role=any name=a.* elements>=500 sum=server\n"
                                "role=any name=a.* sum=allreduce\n"
                                "role=any name=c codec=none\n";
    char path[] = "/tmp/tutti-sums-rules-XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0 && write(fd, rules, sizeof(rules) - 1) == (ssize_t)sizeof(rules) - 1);
    (void)close(fd);
    (void)setenv("TUTTI_RULES", path, 1);
    job_run_all(3, rules_and_servers);
    job_run_all(4, rules_in_any_order);
    (void)setenv("TUTTI_SUM", "allreduce", 1);
    job_run_all(3, rules_and_workers);
    (void)setenv("TUTTI_SUM", "server", 1);
    (void)unsetenv("TUTTI_RULES");
    (void)unlink(path);
}

/* ---- order ---- */

static void any_order(ranks_self *self)
{
    enum { TENSORS = 12, STEPS = 6 };
    static int32_t values[PROCESSES_MAX][TENSORS][2][300];
    for (int step = 0; step < STEPS; step++) {
        tutti_handle *handles[TENSORS][2];
        for (int i = 0; i < TENSORS; i++) {
            const int tensor = (i * 5 + self->rank * 3 + step) % TENSORS;
            char name[NAME_BYTES];
            (void)snprintf(name, sizeof(name), "w%d", tensor);
            for (int k = 0; k < 2; k++) { /* the second waits for the first */
                int32_t *value = values[self->rank][tensor][k];
                for (int j = 0; j < 300; j++) {
                    value[j] = self->rank + 100 * k + tensor;
                }
                tutti_call call = named(name, value, 300);
                call.priority = tensor;
                EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[tensor][k]));
            }
        }
        for (int i = 0; i < TENSORS; i++) {
            for (int k = 0; k < 2; k++) {
                EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i][k], -1));
                const int wanted = self->size * (self->size - 1) / 2 + self->size * (100 * k + i);
                EXPECT_SAY(values[self->rank][i][k][299] == wanted, "%d, not %d",
                           values[self->rank][i][k][299], wanted);
                tutti_handle_free(handles[i][k]);
            }
        }
    }
}

static void test_ranks_may_call_in_any_order(void **state)
{
    (void)state;
    job_run_all(4, any_order);
}

/* A group of which one call is the owners' and one the workers': neither waits for the other. */
static void mixed_group(ranks_self *self)
{
    enum { STEPS = 3, COUNT = 20 };
    for (int step = 0; step < STEPS; step++) {
        int32_t summed[COUNT] = {self->rank}, gathered[PROCESSES_MAX] = {0}, own = self->rank + 7;
        tutti_call calls[2] = {named("summed", summed, COUNT), named("gathered", NULL, 1)};
        tutti_handle *handles[2];
        calls[1].collective = TUTTI_ALLGATHER;
        calls[1].input = &own;
        calls[1].output = gathered;
        EXPECT_STATUS(TUTTI_OK, tutti_start_group(self->context, calls, 2, handles));
        for (int i = 0; i < 2; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1));
            tutti_handle_free(handles[i]);
        }
        EXPECT_SAY(summed[0] == self->size * (self->size - 1) / 2, "sum %d", summed[0]);
        EXPECT_SAY(gathered[self->size - 1] == self->size + 6, "last %d", gathered[self->size - 1]);
    }
}

static void test_groups_may_be_mixed(void **state)
{
    (void)state;
    job_run_all(3, mixed_group);
}

/* ---- disagreement ---- */

static void one_differs(ranks_self *self)
{
    for (int round = 0; round < 3; round++) {
        int32_t values[50] = {0};
        tutti_call call = named("x", values, self->rank == 1 ? 41 + (uint64_t)round : 40);
        keep_result(self, tutti_run(self->context, &call));
        check_texts(self, TUTTI_ERR_MISMATCH, "rank 1 has 4", "has 40 elements of i32");
        check_sum(self, "x", 40); /* as it was, */
        check_sum(self, "x", 40);
        call = named("x", values, 40);
        call.op = self->rank == 2 ? TUTTI_MAX : TUTTI_SUM;
        keep_result(self, tutti_run(self->context, &call));
        check_texts(self, TUTTI_ERR_MISMATCH, "op sum", "op max");
        check_sum(self, "x", 20 + (uint64_t)round); /* or another one */
        check_sum(self, "y", 20);
    }
}

static void test_ranks_that_differ_fail_one_call_on_all(void **state)
{
    (void)state;
    job_run_all(4, one_differs);
}

static void one_objects(ranks_self *self)
{
    for (int round = 0; round < 3; round++) {
        int32_t values[40] = {0};
        tutti_call call = named("x", values, 40);
        keep_result(self, self->rank == 2 ? tutti_refuse(self->context, &call, "no such layer")
                                          : tutti_run(self->context, &call));
        check_texts(self, TUTTI_ERR_BAD_ARGUMENT, "rank 2", "no such layer");
        check_sum(self, "x", 40);
        call.input = self->rank == 0 ? NULL : values;
        keep_result(self, tutti_run(self->context, &call));
        check_texts(self, TUTTI_ERR_BAD_ARGUMENT, "rank 0", "input is NULL");
        check_sum(self, "x", 40);
        check_sum(self, "x", 30);
    }
}

static void test_a_rank_that_objects_fails_one_call_on_all(void **state)
{
    (void)state;
    job_run_all(4, one_objects);
}

/* ---- joining ---- */

static void uneven_ends(ranks_self *self)
{
    for (int round = 0; round < 3; round++) {
        const int steps = 2 + (self->rank + round) % 3;
        for (int step = 0; step < steps; step++) {
            int32_t value[3] = {1, 1, 1};
            const tutti_call call = named("loss", value, 3);
            EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
            int active = 0;
            for (int rank = 0; rank < self->size; rank++) {
                active += step < 2 + (rank + round) % 3 ? 1 : 0;
            }
            EXPECT_SAY(value[2] == active, "step %d: %d, not %d", step, value[2], active);
        }
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, 0, NULL));
        check_sum(self, "loss", 3);
        check_sum(self, "other", 5);
    }
}

/* Each rank has calls in flight that no other rank makes. */
static void crossed_ends(ranks_self *self)
{
    for (int round = 0; round < 3; round++) {
        int32_t values[2] = {self->rank, self->rank + 10};
        char name[NAME_BYTES];
        tutti_handle *handles[2];
        (void)snprintf(name, sizeof(name), "own.%d", self->rank);
        for (int i = 0; i < 2; i++) {
            const tutti_call call = named(name, &values[i], 1);
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
        }
        EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, 0, NULL));
        for (int i = 0; i < 2; i++) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1));
            EXPECT_SAY(values[i] == self->rank + 10 * i, "%d", values[i]);
            tutti_handle_free(handles[i]);
        }
    }
}

static void averages(ranks_self *self)
{
    float value = 6;
    tutti_call call = named("mean", &value, 1);
    call.dtype = TUTTI_F32;
    call.op = TUTTI_AVERAGE;
    if (self->rank != 0) {
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        EXPECT_SAY(value == 6.0F * (float)(self->size - 1) / (float)self->size, "%f",
                   (double)value);
        value = 6;
        call.flags = TUTTI_BY_ACTIVE;
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        EXPECT_SAY(value == 6.0F, "%f", (double)value);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, 0, NULL));
}

static void test_joined_ranks_count_as_zeros(void **state)
{
    (void)state;
    job_run_all(3, uneven_ends);
    job_run_all(4, crossed_ends);
    job_run_all(3, averages);
}

/* ---- hosts ---- */

static void test_ranks_of_a_host_sum_first(void **state)
{
    (void)state;
    job_run_all_hosts(every_type);
    job_run_all_hosts(long_ones);
    job_run_all_hosts(any_order);
}

static void test_hosts_may_have_ranks_that_differ_or_object(void **state)
{
    (void)state;
    job_run_all_hosts(one_differs);
    job_run_all_hosts(one_objects);
}

static void test_hosts_may_have_joined_ranks(void **state)
{
    (void)state;
    job_run_all_hosts(uneven_ends);
    job_run_all_hosts(crossed_ends);
    job_run_all_hosts(averages);
}

/* ---- handles, and the end ---- */

static void handles(ranks_self *self)
{
    void *result = NULL;
    int32_t value[4] = {1, 2, 3, 4};
    tutti_call call = named("given", value, 4);
    tutti_handle *handle;
    call.output = NULL;
    call.result_out = &result;
    EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
    EXPECT(result != NULL && ((int32_t *)result)[3] == 4 * self->size);
    tutti_free(self->context, result);
    call = named("again", value, 4);
    EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &handle));
    for (int i = 0; i < 5; i++) {
        value[0] = i;
        EXPECT_STATUS(TUTTI_OK, tutti_rerun(handle));
        EXPECT_SAY(value[0] == i * self->size, "%d", value[0]);
    }
    tutti_handle_free(handle);
    call = named("late", value, 4);
    if (self->rank == 0) { /* the others have left: it ends all the same */
        const tutti_status status = tutti_run(self->context, &call);
        EXPECT_SAY(self->size == 1 ? status == TUTTI_OK : status == TUTTI_ERR_PEER_LEFT, "%s",
                   tutti_status_text(status));
    }
}

static void test_handles_and_leaving(void **state)
{
    (void)state;
    job_run_all(3, handles);
    job_run(1, 0, "shm", handles);
    job_run_all_hosts(handles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_and_operator),
        cmocka_unit_test(test_parts_of_long_tensors),
        cmocka_unit_test(test_the_cases_of_all_algorithms),
        cmocka_unit_test(test_sums_that_round_have_the_bits_of_direct),
        cmocka_unit_test(test_rules_choose_who_sums),
        cmocka_unit_test(test_ranks_may_call_in_any_order),
        cmocka_unit_test(test_groups_may_be_mixed),
        cmocka_unit_test(test_ranks_that_differ_fail_one_call_on_all),
        cmocka_unit_test(test_a_rank_that_objects_fails_one_call_on_all),
        cmocka_unit_test(test_joined_ranks_count_as_zeros),
        cmocka_unit_test(test_ranks_of_a_host_sum_first),
        cmocka_unit_test(test_hosts_may_have_ranks_that_differ_or_object),
        cmocka_unit_test(test_hosts_may_have_joined_ranks),
        cmocka_unit_test(test_handles_and_leaving),
    };
    (void)setenv("TUTTI_SUM", "server", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
