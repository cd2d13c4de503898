/* SPDX-License-Identifier: Apache-2.0
 *
 * store_rank_main.c - one process of a job with a store, for the tests of faults.
 *
 *     tutti-store_rank serve
 *     tutti-store_rank POLICY UPDATE ITERATIONS COUNT WORD...
 *
 * UPDATE add: values are counters, one byte per worker; every read is checked against the bound of
 * the policy. UPDATE sum: sums of floats, compared bit by bit with the order of workers. UPDATE
 * sgd:lr=1.0, with bulk: a worker in turn sets the rate of each iteration. Prints
 * "going" after three iterations, "done" at the end, or "failed STATUS TEXT". WORDs: `hold=N`:
 * after N iterations it waits for a line on standard input; `hold`: after "going". `leave=RANK:N`:
 * after N iterations this rank leaves the job with the store open, and the others check that its
 * pushes are in the values, no more and no less; `exit=RANK:N`: it exits without a goodbye. `late`:
 * before it opens the store, it prints "going" and waits for a line. `alone`: the end is not
 * checked together with the others, of which one may have died; sums go on after an iteration that
 * was lost with a server, which prints "lost ITERATION TEXT". `reshard=CLOCK:SERVERS`: then
 * counters move to these. `times`: prints "at NANOSECONDS" after each iteration. Exit codes: 0; 2
 * wrong usage; 3 no init; 4 wrong value; 7 a call failed.
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
    const char *policy;
    bool is_sum;
    uint32_t rank, workers, iterations;
    size_t count;
    void *pushed, *read;
    uint64_t clock, pushes, uncounted;
    uint64_t moved, moved_uncounted; /* of them: before the store moved last */
    char *const *words;
    bool is_alone, is_late, tells_times;
    uint64_t holds_after, passed;
    uint32_t leaver; /* UINT32_MAX: nobody leaves */
    uint64_t leaves_after;
    bool has_goodbye;
} job;

/* ---- the end of one rank, or a pause ---- */

static void read_words(job *own, char *const *words)
{
    own->words = words;
    own->holds_after = number_of(words, "hold", GOING);
    own->is_late = number_of(words, "late", 1) == 1;
    own->is_alone = number_of(words, "alone", 1) == 1;
    own->tells_times = number_of(words, "times", 1) == 1;
    for (; *words != NULL; words++) {
        const bool leaves = strncmp(*words, "leave=", 6) == 0;
        if (leaves || strncmp(*words, "exit=", 5) == 0) {
            char *end;
            own->leaver = (uint32_t)strtoul(strchr(*words, '=') + 1, &end, 10);
            own->leaves_after = strtoull(end + 1, NULL, 10);
            own->has_goodbye = leaves;
            own->is_alone = true;
        }
    }
}

/* After an iteration. */
static void pass(job *own, uint64_t iterations)
{
    if (own->tells_times) {
        say_time("at");
    }
    go_on(own->passed, iterations, own->holds_after);
    own->passed = iterations;
    if (own->rank == own->leaver && iterations >= own->leaves_after) {
        if (own->has_goodbye) {
            (void)tutti_shutdown(own->context);
        }
        say("left");
        exit(0);
    }
}

/* "reshard=CLOCK:SERVERS" of this clock. */
static void move(job *own)
{
    static const char key[] = "reshard=";
    for (char *const *word = own->words; *word != NULL; word++) {
        char *end;
        if (strncmp(*word, key, sizeof(key) - 1) == 0 &&
            strtoull(*word + sizeof(key) - 1, &end, 10) == own->clock) {
            must(own->context, tutti_store_reshard(own->store, atoi(end + 1)));
            own->moved = own->pushes;
            own->moved_uncounted = own->uncounted;
        }
    }
}

/* ---- counters ---- */

/* Iterations that a read at this clock must contain of everyone. */
static uint64_t needed_at(const job *own, uint64_t clock)
{
    if (strcmp(own->policy, "async") == 0 || strncmp(own->policy, "quorum", 6) == 0) {
        return 0;
    }
    const char *colon = strchr(own->policy, ':');
    const uint64_t stale = colon != NULL ? strtoull(colon + 1, NULL, 10) : 0;
    return clock > stale ? clock - stale : 0;
}

static void check_counters(const job *own, uint64_t needed)
{
    const uint64_t counted = own->pushes - own->uncounted;
    const int64_t *values = own->read;
    for (size_t i = 0; i < own->count; i++) {
        for (uint32_t worker = 0; worker < own->workers; worker++) {
            const uint64_t seen = (uint64_t)values[i] >> (8 * worker) & 255;
            if (worker == own->rank && seen != counted) {
                wrong(own->rank, "own pushes read", seen, counted);
            }
            const bool leaves = worker == own->leaver;
            const uint64_t least =
                leaves ? (needed < own->leaves_after ? needed : own->leaves_after) : needed;
            const uint64_t most = leaves ? own->leaves_after : own->iterations;
            if (seen < least) {
                wrong(own->rank, "pushes read at least", seen, least);
            }
            if (seen > most) {
                wrong(own->rank, "pushes read at most", seen, most);
            }
        }
    }
}

static void start_and_wait(job *own)
{
    tutti_store_call push = TUTTI_STORE_CALL_INIT, clock = TUTTI_STORE_CALL_INIT;
    tutti_handle *handles[2];
    int is_counted = -1;
    push.name = "t";
    push.input = own->pushed;
    push.priority = 7;
    push.counted_out = &is_counted;
    clock.verb = TUTTI_STORE_CLOCK;
    clock.clock_out = &own->clock;
    must(own->context, tutti_store_start(own->store, &push, &handles[0]));
    must(own->context, tutti_store_start(own->store, &clock, &handles[1]));
    const tutti_status status = tutti_wait_all(handles, 2, -1.0);
    must(own->context, status);
    own->pushes++;
    own->uncounted += is_counted == 0 ? 1 : 0;
    tutti_handle_free(handles[0]);
    tutti_handle_free(handles[1]);
}

static void check_counts(const job *own)
{
    tutti_store_counts counts = TUTTI_STORE_COUNTS_INIT;
    const uint64_t pushes = own->pushes - own->moved;
    const uint64_t uncounted = own->uncounted - own->moved_uncounted;
    uint64_t applied = 0;
    must(own->context, tutti_store_count(own->store, &counts));
    for (size_t i = 0; i < sizeof(counts.staleness) / sizeof(counts.staleness[0]); i++) {
        applied += counts.staleness[i];
    }
    if (counts.pushes != pushes || counts.not_counted != uncounted ||
        counts.pushed_bytes != pushes * own->count * sizeof(int64_t)) {
        wrong(own->rank, "pushes counted", counts.pushes, pushes);
    }
    if (counts.clock != own->clock || counts.least > counts.clock + own->iterations) {
        wrong(own->rank, "clock counted", counts.clock, own->clock);
    }
    if (applied < pushes - uncounted) {
        wrong(own->rank, "staleness of pushes counted", applied, pushes - uncounted);
    }
}

/* All have ended: every push is there, of a quorum as many as it has workers in each iteration. */
static void check_last(const job *own)
{
    const bool is_quorum = strncmp(own->policy, "quorum:", 7) == 0;
    const uint64_t wanted = own->iterations * (is_quorum ? strtoull(own->policy + 7, NULL, 10) : 0);
    const int64_t *values = own->read;
    check_counters(own, is_quorum ? 0 : own->iterations);
    for (size_t i = 0; i < own->count && is_quorum; i++) {
        uint64_t total = 0;
        for (uint32_t worker = 0; worker < own->workers; worker++) {
            total += (uint64_t)values[i] >> (8 * worker) & 255;
        }
        if (total != wanted) {
            wrong(own->rank, "pushes of the quorum", total, wanted);
        }
    }
}

static void run_counters(job *own)
{
    int64_t *values = own->pushed;
    for (size_t i = 0; i < own->count; i++) {
        values[i] = 0;
    }
    must(own->context, tutti_store_add(own->store, "t", own->pushed, own->count, TUTTI_I64));
    for (size_t i = 0; i < own->count; i++) {
        values[i] = INT64_C(1) << (8 * own->rank);
    }
    while (own->clock < own->iterations) {
        must(own->context, tutti_store_pull(own->store, "t", own->read));
        /* alone: a worker that was killed has not made them all */
        check_counters(own,
                       own->is_alone && own->leaver == UINT32_MAX ? 0 : needed_at(own, own->clock));
        start_and_wait(own);
        pass(own, own->clock);
        move(own);
    }
    check_counts(own);
    if (!own->is_alone) {
        must(own->context, tutti_barrier(own->context));
        must(own->context, tutti_store_pull(own->store, "t", own->read));
        check_last(own);
    }
}

/* ---- sums ---- */

static float pushed_at(uint32_t worker, uint32_t iteration, size_t i)
{
    return (float)((worker + 1) * 1000 + iteration) / (float)(3 + (i + worker) % 17);
}

/* One iteration may be lost with a server, not two. */
static bool is_lost(job *own, tutti_status status, uint32_t iteration)
{
    const char *text = tutti_last_error(own->context);
    if (status != TUTTI_ERR_PEER_DOWN || own->uncounted > 0 || strstr(text, "part of") == NULL) {
        return false;
    }
    own->uncounted++;
    printf("lost %u %s\n", iteration, text);
    (void)fflush(stdout);
    return true;
}

static void check_sum(const job *own, uint32_t iteration)
{
    const float *read = own->read;
    for (size_t i = 0; i < own->count; i++) {
        float sum = 0.0f;
        for (uint32_t worker = 0; worker < own->workers; worker++) {
            if (worker != own->leaver || iteration < own->leaves_after) {
                sum = worker == 0 ? pushed_at(worker, iteration, i)
                                  : sum + pushed_at(worker, iteration, i);
            }
        }
        if (memcmp(&sum, &read[i], sizeof(sum)) != 0) {
            wrong(own->rank, "sum of element", i, iteration);
        }
    }
}

static void run_sums(job *own)
{
    float *pushed = own->pushed;
    must(own->context, tutti_store_add(own->store, "t", NULL, own->count, TUTTI_F32));
    for (uint32_t iteration = 0; iteration < own->iterations; iteration++) {
        for (size_t i = 0; i < own->count; i++) {
            pushed[i] = pushed_at(own->rank, iteration, i);
        }
        const tutti_status status = tutti_store_push_pull(own->store, "t", pushed, own->read);
        if (!own->is_alone || !is_lost(own, status, iteration)) {
            must(own->context, status);
            check_sum(own, iteration);
        }
        pass(own, iteration + 1);
    }
}

/* ---- rates ---- */

/* Gradients are 1, so that a step is the rate: 1, 1/2, 1/3, ... */
static void run_rates(job *own)
{
    float *pushed = own->pushed, *read = own->read, wanted = 0.0f;
    for (size_t i = 0; i < own->count; i++) {
        pushed[i] = 0.0f;
    }
    must(own->context, tutti_store_add(own->store, "t", pushed, own->count, TUTTI_F32));
    for (size_t i = 0; i < own->count; i++) {
        pushed[i] = 1.0f;
    }
    for (uint32_t iteration = 0; iteration < own->iterations; iteration++) {
        const float rate = 1.0f / (float)(iteration + 1);
        if (iteration % own->workers == own->rank) {
            must(own->context, tutti_store_set(own->store, "lr", (double)rate,
                                               iteration % 2 == 0 ? TUTTI_STORE_NOW : iteration));
        }
        must(own->context, tutti_store_push_pull(own->store, "t", pushed, read));
        wanted -= rate;
        for (size_t i = 0; i < own->count; i++) {
            if (memcmp(&wanted, &read[i], sizeof(wanted)) != 0) {
                wrong(own->rank, "value of element", i, iteration);
            }
        }
        must(own->context, tutti_store_clock(own->store, NULL));
    }
    if (tutti_store_set(own->store, "lr", 1.0, 0) != TUTTI_ERR_BAD_ARGUMENT ||
        strstr(tutti_last_error(own->context), "past clock 0") == NULL) {
        wrong(own->rank, "rates taken for a past clock", 1, 0);
    }
}

static int work(char **arguments)
{
    job own = {
        .policy = arguments[1], .is_sum = strcmp(arguments[2], "sum") == 0, .leaver = UINT32_MAX};
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    if (tutti_init(NULL, &own.context) != TUTTI_OK) {
        printf("init %s\n", tutti_last_error(NULL));
        return NO_INIT;
    }
    read_words(&own, arguments + 5);
    own.rank = (uint32_t)tutti_rank(own.context);
    own.workers = (uint32_t)tutti_size(own.context);
    own.iterations = (uint32_t)strtoul(arguments[3], NULL, 10);
    own.count = strtoull(arguments[4], NULL, 10);
    own.pushed = calloc(own.count + 1, sizeof(int64_t));
    own.read = calloc(own.count + 1, sizeof(int64_t));
    config.policy = own.policy;
    config.update = arguments[2];
    if (own.is_late) {
        say("going");
        hold();
    }
    must(own.context, tutti_store_open(own.context, &config, &own.store));
    if (own.is_sum) {
        run_sums(&own);
    } else if (strcmp(arguments[2], "sgd:lr=1.0") == 0) {
        run_rates(&own);
    } else {
        run_counters(&own);
    }
    must(own.context, tutti_store_close(own.store));
    (void)tutti_shutdown(own.context);
    free(own.pushed);
    free(own.read);
    say("done");
    return 0;
}

int main(int argument_count, char **arguments)
{
    if (argument_count == 2 && strcmp(arguments[1], "serve") == 0) {
        return tutti_server_run(NULL) == TUTTI_OK ? 0 : NO_INIT;
    }
    return argument_count >= 5 ? work(arguments) : USAGE;
}
