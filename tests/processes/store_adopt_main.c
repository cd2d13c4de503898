/* SPDX-License-Identifier: Apache-2.0
 *
 * store_adopt_main.c - one process of a job whose servers are killed, for the tests of sums.
 *
 *     tutti-store_adopt serve
 *     tutti-store_adopt POLICY CODEC ITERATIONS COUNT
 *
 * Pushes and pulls a tensor in one, with the clock, update sum. Prints "going" after three
 * iterations; for each one that counted and succeeded "sum ITERATION HASH", a hash of the bits;
 * "lost ITERATION TEXT" if it failed with a server, after which it goes on; "late ITERATION" if it
 * did not count in a quorum; "done" at the end. Without a codec the bits must be those of the sum,
 * in the order of workers, over some of them; with int8 under bulk, near the sum over all.
 * Exit codes: as store_report.h.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processes/store_report.h"

typedef struct job {
    tutti_context *context;
    tutti_store *store;
    bool is_coded, is_bulk, is_int8;
    uint32_t rank, workers;
    size_t count;
    uint64_t clock;
    float *pushed, *read;
} job;

/* Up to 1 + 1/17. */
static float pushed_at(uint32_t worker, uint64_t iteration, size_t i)
{
    return (float)((worker + 1) * 1000 + iteration % 997) / (float)(4000 + 317 * (i % 17));
}

/* The sum of the workers in `set`. */
static float sum_at(const job *own, uint32_t set, uint64_t iteration, size_t i)
{
    float sum = 0.0f;
    bool is_first = true;
    for (uint32_t worker = 0; worker < own->workers; worker++) {
        if ((set >> worker & 1) != 0) {
            const float pushed = pushed_at(worker, iteration, i);
            sum = is_first ? pushed : sum + pushed;
            is_first = false;
        }
    }
    return sum;
}

static void check_near(const job *own, uint64_t iteration)
{
    const uint32_t everyone = (1U << own->workers) - 1;
    for (size_t i = 0; i < own->count; i++) {
        const float wanted = sum_at(own, everyone, iteration, i);
        if (!(fabsf(own->read[i] - wanted) < 0.2f)) {
            wrong(own->rank, "error of the sum of element", i, iteration);
        }
    }
}

/* All elements have the sum over one set of workers, of which this one is. */
static void check_bits(const job *own, uint64_t iteration)
{
    const uint32_t sets = 1U << own->workers;
    uint32_t set = own->is_bulk ? sets - 1 : 1;
    size_t i = 0;
    while (set < sets && i < own->count) {
        const float wanted = sum_at(own, set, iteration, i);
        const bool has = (set >> own->rank & 1) != 0 && memcmp(&wanted, &own->read[i], 4) == 0;
        set += has ? 0 : 1;
        i = has ? i + 1 : 0;
    }
    if (set == sets) {
        wrong(own->rank, "sum over no set of workers", iteration, own->clock);
    }
}

static void report_sum(const job *own, uint64_t iteration)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < own->count; i++) {
        uint32_t word;
        memcpy(&word, &own->read[i], sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
    }
    printf("sum %" PRIu64 " %016" PRIx64 "\n", iteration, hash);
    (void)fflush(stdout);
}

/* How the push of an iteration has ended. */
static void take_push(job *own, tutti_handle *push, uint64_t iteration, bool is_counted)
{
    const tutti_status status = tutti_wait(push, -1.0);
    const char *text = tutti_handle_error(push);
    if (status == TUTTI_ERR_PEER_DOWN && strstr(text, "part of") != NULL) {
        printf("lost %" PRIu64 " %s\n", iteration, text);
        (void)fflush(stdout);
    } else if (status != TUTTI_OK) {
        printf("failed %d %s\n", (int)status, text);
        (void)fflush(stdout);
        exit(FAILED);
    } else if (!is_counted) {
        printf("late %" PRIu64 "\n", iteration);
        (void)fflush(stdout);
    } else {
        if (!own->is_coded) {
            check_bits(own, iteration);
        } else if (own->is_bulk && own->is_int8) {
            check_near(own, iteration);
        }
        report_sum(own, iteration);
    }
    tutti_handle_free(push);
}

static void iterate(job *own)
{
    tutti_store_call call = TUTTI_STORE_CALL_INIT, end = TUTTI_STORE_CALL_INIT;
    tutti_handle *push, *clock;
    const uint64_t iteration = own->clock;
    int is_counted = -1;
    for (size_t i = 0; i < own->count; i++) {
        own->pushed[i] = pushed_at(own->rank, iteration, i);
    }
    call.verb = TUTTI_STORE_PUSH_PULL;
    call.name = "t";
    call.input = own->pushed;
    call.output = own->read;
    call.counted_out = &is_counted;
    end.verb = TUTTI_STORE_CLOCK;
    end.clock_out = &own->clock;
    must(own->context, tutti_store_start(own->store, &call, &push));
    must(own->context, tutti_store_start(own->store, &end, &clock));
    (void)tutti_wait(push, -1.0);
    must(own->context, tutti_wait(clock, -1.0));
    take_push(own, push, iteration, is_counted != 0);
    tutti_handle_free(clock);
}

static int work(char **arguments)
{
    job own = {.is_bulk = strcmp(arguments[1], "bulk") == 0,
               .is_coded = strcmp(arguments[2], "none") != 0,
               .is_int8 = strcmp(arguments[2], "int8") == 0,
               .count = strtoull(arguments[4], NULL, 10)};
    const uint64_t iterations = strtoull(arguments[3], NULL, 10);
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    if (tutti_init(NULL, &own.context) != TUTTI_OK) {
        printf("init %s\n", tutti_last_error(NULL));
        return NO_INIT;
    }
    own.rank = (uint32_t)tutti_rank(own.context);
    own.workers = (uint32_t)tutti_size(own.context);
    own.pushed = calloc(own.count + 1, sizeof(float));
    own.read = calloc(own.count + 1, sizeof(float));
    config.policy = arguments[1];
    config.update = "sum";
    config.codec = arguments[2];
    must(own.context, tutti_store_open(own.context, &config, &own.store));
    must(own.context, tutti_store_add(own.store, "t", NULL, own.count, TUTTI_F32));
    bool is_going = false;
    while (own.clock < iterations) {
        iterate(&own);
        if (!is_going && own.clock >= GOING) {
            is_going = true;
            say("going");
        }
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
    return argument_count == 5 ? work(arguments) : USAGE;
}
