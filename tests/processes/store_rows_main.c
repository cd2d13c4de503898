/* SPDX-License-Identifier: Apache-2.0
 *
 * store_rows_main.c - one process of a job with a table, of which workers push and pull rows.
 *
 *     tutti-store_rows serve
 *     tutti-store_rows count POLICY ITERATIONS ROWS LENGTH [hold=N]
 *     tutti-store_rows sum ITERATIONS ROWS LENGTH [hold=N]
 *     tutti-store_rows keep FILE ROWS LENGTH
 *     tutti-store_rows refuse
 *
 * count: update add; a row counts the pushes of the workers that choose it, one byte per worker,
 * and every read is checked against the bound of the policy. sum: bulk sums of rows that change,
 * compared bit by bit; an iteration may be lost with a server, which prints "lost". keep: adam;
 * a run that is saved, loaded and resharded has the bits of one that pushes whole tables. refuse:
 * texts of what cannot be done. `hold=N`: after N iterations it waits for a line on standard input.
 * Prints "going" after three iterations, "done" at the end, or
 * "failed STATUS TEXT". Exit codes: 0; 2 wrong usage; 3 no init; 4 wrong value; 7 a call failed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processes/store_report.h"

typedef struct job {
    tutti_context *context;
    tutti_store *store;
    uint32_t rank, workers;
    uint64_t rows, length, holds_after;
    uint64_t *chosen; /* [rows] */
    uint64_t *values; /* [rows][length], of any type */
} job;

static void open_store(job *own, const char *policy, const char *update, tutti_store **store_out)
{
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    config.policy = policy;
    config.update = update;
    must(own->context, tutti_store_open(own->context, &config, store_out));
}

/* One row of `every`, from a place that `what` moves; returns how many. */
static size_t choose(const job *own, uint64_t what, uint64_t every)
{
    size_t count = 0;
    for (uint64_t row = 0; row < own->rows; row++) {
        if ((row * 7 + what) % every == 0) {
            own->chosen[count++] = row;
        }
    }
    return count;
}

/* ---- counters ---- */

static bool pushes_row(uint32_t worker, uint64_t row)
{
    return (row + worker) % 3 == 0;
}

static uint64_t needed_at(const char *policy, uint64_t clock)
{
    const char *colon = strchr(policy, ':');
    const uint64_t stale = colon != NULL ? strtoull(colon + 1, NULL, 10) : 0;
    if (strcmp(policy, "async") == 0 || strncmp(policy, "quorum", 6) == 0) {
        return 0;
    }
    return clock > stale ? clock - stale : 0;
}

static void check_row(const job *own, uint64_t row, const int64_t *values, uint64_t counted,
                      uint64_t needed)
{
    for (uint64_t i = 0; i < own->length; i++) {
        for (uint32_t worker = 0; worker < own->workers; worker++) {
            const uint64_t seen = (uint64_t)values[i] >> (8 * worker) & 255;
            if (!pushes_row(worker, row) && seen != 0) {
                wrong(own->rank, "pushes to a row that was not chosen", seen, 0);
            }
            if (pushes_row(worker, row) && worker == own->rank && seen != counted) {
                wrong(own->rank, "own pushes read", seen, counted);
            }
            if (pushes_row(worker, row) && seen < needed) {
                wrong(own->rank, "pushes read at least", seen, needed);
            }
        }
    }
}

/* A push of the worker's rows and the clock, started together; 1 if it counts. */
static uint64_t push_and_clock(job *own, uint64_t *clock_out)
{
    tutti_store_call push = TUTTI_STORE_CALL_INIT, clock = TUTTI_STORE_CALL_INIT;
    tutti_handle *handles[2];
    int is_counted = -1;
    size_t count = 0;
    for (uint64_t row = 0; row < own->rows; row++) {
        if (pushes_row(own->rank, row)) {
            own->chosen[count++] = row;
        }
    }
    for (uint64_t i = 0; i < count * own->length; i++) {
        own->values[i] = UINT64_C(1) << (8 * own->rank);
    }
    push.name = "t";
    push.input = own->values;
    push.rows = own->chosen;
    push.row_count = count;
    push.counted_out = &is_counted;
    clock.verb = TUTTI_STORE_CLOCK;
    clock.rows = own->chosen; /* of no use to it */
    clock.clock_out = clock_out;
    must(own->context, tutti_store_start(own->store, &push, &handles[0]));
    must(own->context, tutti_store_start(own->store, &clock, &handles[1]));
    must(own->context, tutti_wait_all(handles, 2, -1.0));
    tutti_handle_free(handles[0]);
    tutti_handle_free(handles[1]);
    return is_counted != 0 ? 1 : 0;
}

static void run_counters(job *own, const char *policy, uint64_t iterations)
{
    uint64_t clock = 0, counted = 0, pulled = 0;
    open_store(own, policy, "add", &own->store);
    must(own->context,
         tutti_store_add_table(own->store, "t", own->values, own->rows, own->length, TUTTI_I64));
    for (uint64_t round = 0; clock < iterations; round++) {
        const size_t count = choose(own, round + own->rank, 1 + round % 5);
        must(own->context, tutti_store_pull_rows(own->store, "t", own->chosen, count, own->values));
        pulled += count;
        for (size_t i = 0; i < count; i++) {
            check_row(own, own->chosen[i], (const int64_t *)own->values + i * own->length, counted,
                      needed_at(policy, clock));
        }
        const uint64_t before = clock;
        counted += push_and_clock(own, &clock);
        go_on(before, clock, own->holds_after);
    }
    must(own->context, tutti_barrier(own->context));
    must(own->context, tutti_store_pull(own->store, "t", own->values));
    for (uint64_t row = 0; row < own->rows; row++) {
        check_row(own, row, (const int64_t *)own->values + row * own->length, counted,
                  needed_at(policy, iterations) > 0 ? iterations : 0);
    }
    tutti_store_counts counts = TUTTI_STORE_COUNTS_INIT;
    must(own->context, tutti_store_count(own->store, &counts));
    if (counts.pulled_bytes != (pulled + own->rows) * own->length * sizeof(int64_t)) {
        wrong(own->rank, "bytes pulled", counts.pulled_bytes, pulled);
    }
}

/* ---- sums ---- */

static uint64_t every_of(uint32_t worker, uint64_t iteration)
{
    return 1 + (worker + iteration) % 4;
}

static float pushed_at(uint32_t worker, uint64_t iteration, uint64_t row)
{
    const bool is_chosen = (row * 7 + worker) % every_of(worker, iteration) == 0;
    return is_chosen ? (float)((worker + 1) * 1000 + iteration) / (float)(3 + row % 17) : 0.0f;
}

static void check_sum(const job *own, uint64_t iteration, const float *read, size_t count)
{
    for (size_t i = 0; i < count * own->length; i++) {
        const uint64_t row = own->chosen[i / own->length];
        float sum = pushed_at(0, iteration, row);
        for (uint32_t worker = 1; worker < own->workers; worker++) {
            sum += pushed_at(worker, iteration, row);
        }
        if (memcmp(&sum, &read[i], sizeof(sum)) != 0) {
            wrong(own->rank, "sum of a row", row, iteration);
        }
    }
}

/* One iteration may be lost with a server, not two. */
static void run_sums(job *own, uint64_t iterations)
{
    float *values = (float *)own->values;
    bool has_lost = false;
    open_store(own, "bulk", "sum", &own->store);
    must(own->context,
         tutti_store_add_table(own->store, "t", NULL, own->rows, own->length, TUTTI_F32));
    for (uint64_t iteration = 0; iteration < iterations; iteration++) {
        tutti_store_call call = TUTTI_STORE_CALL_INIT;
        tutti_handle *handle;
        const size_t count = choose(own, own->rank, every_of(own->rank, iteration));
        for (size_t i = 0; i < count * own->length; i++) {
            values[i] = pushed_at(own->rank, iteration, own->chosen[i / own->length]);
        }
        call.verb = TUTTI_STORE_PUSH_PULL;
        call.name = "t";
        call.input = call.output = values;
        call.rows = own->chosen;
        call.row_count = count;
        must(own->context, tutti_store_start(own->store, &call, &handle));
        const tutti_status status = tutti_wait(handle, -1.0);
        if (status == TUTTI_ERR_PEER_DOWN && !has_lost &&
            strstr(tutti_last_error(own->context), "part of") != NULL) {
            has_lost = true;
            printf("lost %" PRIu64 "\n", iteration);
        } else {
            must(own->context, status);
            check_sum(own, iteration, values, count);
        }
        tutti_handle_free(handle);
        go_on(iteration, iteration + 1, own->holds_after);
    }
}

/* ---- kept tables ---- */

/* An iteration of the table that is kept, and of its twin that is pushed whole. */
static void train(job *own, tutti_store *twin, uint64_t iteration)
{
    float *values = (float *)own->values;
    const size_t count = choose(own, iteration + own->rank, 3);
    for (size_t i = 0; i < count * own->length; i++) {
        values[i] = (float)(1 + iteration + own->rank) / (float)(1 + i % 11);
    }
    must(own->context, tutti_store_push_rows(own->store, "t", own->chosen, count, values));
    must(own->context, tutti_store_clock(own->store, NULL));
    float *whole = calloc(own->rows * own->length + 1, sizeof(float));
    for (size_t i = 0; i < count; i++) {
        memcpy(whole + own->chosen[i] * own->length, values + i * own->length,
               own->length * sizeof(float));
    }
    must(own->context, tutti_store_push(twin, "t", whole));
    must(own->context, tutti_store_clock(twin, NULL));
    free(whole);
}

static void compare(const job *own, tutti_store *twin)
{
    const size_t bytes = own->rows * own->length * sizeof(float);
    float *other = malloc(bytes + 1);
    must(own->context, tutti_store_pull(own->store, "t", own->values));
    must(own->context, tutti_store_pull(twin, "t", other));
    if (memcmp(own->values, other, bytes) != 0) {
        wrong(own->rank, "bits of the table", 1, 0);
    }
    free(other);
}

static void run_kept(job *own, const char *path)
{
    tutti_store *twin, *plain;
    open_store(own, "bulk", "adam:lr=0.125", &own->store);
    open_store(own, "bulk", "adam:lr=0.125", &twin);
    must(own->context,
         tutti_store_add_table(own->store, "t", own->values, own->rows, own->length, TUTTI_F32));
    must(own->context, tutti_store_add(twin, "t", own->values, own->rows * own->length, TUTTI_F32));
    for (uint64_t i = 0; i < 9; i++) {
        train(own, twin, i);
        if (i == 2) {
            must(own->context, tutti_store_save(own->store, path));
        } else if (i == 3 || i == 7) {
            must(own->context, tutti_store_reshard(own->store, i == 3 ? 1 : 9));
        } else if (i == 4) {
            must(own->context, tutti_store_save(own->store, path));
            must(own->context, tutti_store_load(own->store, path));
        }
    }
    compare(own, twin);
    open_store(own, "bulk", "adam", &plain);
    must(own->context,
         tutti_store_add(plain, "t", own->values, own->rows * own->length, TUTTI_F32));
    const tutti_status status = tutti_store_load(plain, path);
    if (status != TUTTI_ERR_MISMATCH ||
        strstr(tutti_last_error(own->context), "add it as in the file") == NULL) {
        wrong(own->rank, "load of a table as a tensor", (uint64_t)status, 0);
    }
    must(own->context, tutti_store_close(plain));
    must(own->context, tutti_store_close(twin));
}

/* ---- refusals ---- */

static void expect(const job *own, tutti_status status, const char *words)
{
    if (status != TUTTI_ERR_BAD_ARGUMENT || strstr(tutti_last_error(own->context), words) == NULL) {
        printf("status %d, %s; not %s\n", (int)status, tutti_last_error(own->context), words);
        (void)fflush(stdout);
        exit(WRONG_VALUE);
    }
}

static void run_refused(job *own)
{
    static const uint64_t beyond[] = {1, 5}, twice[] = {2, 2};
    static const float first[10];
    float values[4];
    tutti_handle *handle;
    tutti_store_call call = TUTTI_STORE_CALL_INIT;
    open_store(own, "quorum:1", "add", &own->store);
    must(own->context, tutti_store_add_table(own->store, "t", first, 5, 2, TUTTI_F32));
    must(own->context, tutti_store_add(own->store, "p", first, 5, TUTTI_F32));
    expect(own, tutti_store_pull_rows(own->store, "t", beyond, 2, values), "beyond its 5 rows");
    expect(own, tutti_store_pull_rows(own->store, "t", twice, 2, values), "each row once");
    expect(own, tutti_store_pull_rows(own->store, "t", NULL, 2, values), "rows is NULL");
    expect(own, tutti_store_pull_rows(own->store, "p", beyond, 1, values), "is no table");
    expect(own, tutti_store_push_rows(own->store, "t", beyond, 1, values), "tutti_store_start");
    expect(own, tutti_store_add_table(own->store, "u", first, 5, 0, TUTTI_F32), "of 0 elements");
    expect(own, tutti_store_add_table(own->store, "u", first, SIZE_MAX, 2, TUTTI_F32), "5 rows of");
    call.name = "t";
    call.row_count = 2;
    expect(own, tutti_store_start(own->store, &call, &handle), "rows is NULL and row_count 2");
}

/* Words follow after so many arguments. */
static int work(int argument_count, char **arguments)
{
    const char *verb = arguments[1];
    job own = {.rows = 5,
               .length = 2,
               .holds_after = number_of(arguments + argument_count, "hold", GOING)};
    if (tutti_init(NULL, &own.context) != TUTTI_OK) {
        printf("init %s\n", tutti_last_error(NULL));
        return NO_INIT;
    }
    own.rank = (uint32_t)tutti_rank(own.context);
    own.workers = (uint32_t)tutti_size(own.context);
    if (argument_count >= 5) {
        own.rows = strtoull(arguments[argument_count - 2], NULL, 10);
        own.length = strtoull(arguments[argument_count - 1], NULL, 10);
    }
    own.chosen = calloc(own.rows + 1, sizeof(*own.chosen));
    own.values = calloc(own.rows * own.length + 1, sizeof(*own.values));
    if (strcmp(verb, "count") == 0) {
        run_counters(&own, arguments[2], strtoull(arguments[3], NULL, 10));
    } else if (strcmp(verb, "sum") == 0) {
        run_sums(&own, strtoull(arguments[2], NULL, 10));
    } else if (strcmp(verb, "keep") == 0) {
        run_kept(&own, arguments[2]);
    } else {
        run_refused(&own);
    }
    must(own.context, tutti_store_close(own.store));
    (void)tutti_shutdown(own.context);
    free(own.chosen);
    free(own.values);
    say("done");
    return 0;
}

int main(int argument_count, char **arguments)
{
    static const struct {
        const char *verb;
        int argument_count;
    } verbs[] = {{"count", 6}, {"sum", 5}, {"keep", 5}, {"refuse", 2}};
    if (argument_count < 2) {
        return USAGE;
    }
    if (strcmp(arguments[1], "serve") == 0) {
        return tutti_server_run(NULL) == TUTTI_OK ? 0 : NO_INIT;
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
        if (argument_count >= verbs[i].argument_count && strcmp(arguments[1], verbs[i].verb) == 0) {
            return work(verbs[i].argument_count, arguments);
        }
    }
    return USAGE;
}
