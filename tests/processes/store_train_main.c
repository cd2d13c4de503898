/* SPDX-License-Identifier: Apache-2.0
 *
 * store_train_main.c - one process that trains with a store, for the tests of codecs.
 *
 *     tutti-store_train serve
 *     tutti-store_train POLICY UPDATE CODEC ITERATIONS COUNT [hold=N]
 *
 * Worker p has the loss mean (w - t_p)^2 / 2, and targets t_p that differ. UPDATE sum: workers sum
 * gradients and step by themselves; else the store steps. Prints "loss L", the mean of all workers'
 * losses at the last weights, and "bits H", a hash of these. `hold=N`: after N iterations it waits
 * for a line on standard input. Exit codes: 0; 2 wrong usage; 3 no init; 7 a call failed.
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
    bool is_sum;
    uint32_t rank, workers;
    size_t count;
    uint64_t clock;
    float *weights, *gradient;
} job;

static float target_of(size_t i, uint32_t worker)
{
    const uint64_t mixed = (i * 2654435761U + worker * 97U) * UINT64_C(0x9e3779b97f4a7c15);
    return (float)(mixed >> 40) / (float)(1 << 24) * (float)(1 + i % 7) - 1.0f;
}

static void set_gradient(job *own)
{
    for (size_t i = 0; i < own->count; i++) {
        own->gradient[i] = own->weights[i] - target_of(i, own->rank);
    }
}

static void step_here(job *own)
{
    must(own->context, tutti_store_push_pull(own->store, "w", own->gradient, own->gradient));
    for (size_t i = 0; i < own->count; i++) {
        own->weights[i] -= 0.2f * own->gradient[i] / (float)own->workers;
    }
    must(own->context, tutti_store_clock(own->store, &own->clock));
}

static void step_there(job *own)
{
    tutti_store_call push = TUTTI_STORE_CALL_INIT, clock = TUTTI_STORE_CALL_INIT;
    tutti_handle *handles[2];
    push.name = "w";
    push.input = own->gradient;
    clock.verb = TUTTI_STORE_CLOCK;
    clock.clock_out = &own->clock;
    must(own->context, tutti_store_start(own->store, &push, &handles[0]));
    must(own->context, tutti_store_start(own->store, &clock, &handles[1]));
    must(own->context, tutti_wait_all(handles, 2, -1.0));
    tutti_handle_free(handles[0]);
    tutti_handle_free(handles[1]);
    must(own->context, tutti_store_pull(own->store, "w", own->weights));
}

static void report(const job *own)
{
    double loss = 0.0;
    uint64_t bits = 0;
    for (size_t i = 0; i < own->count; i++) {
        uint32_t word;
        memcpy(&word, &own->weights[i], sizeof(word));
        bits = (bits ^ word) * UINT64_C(0x100000001b3);
        for (uint32_t worker = 0; worker < own->workers; worker++) {
            const double error = (double)(own->weights[i] - target_of(i, worker));
            loss += error * error / 2.0 / (double)own->count / (double)own->workers;
        }
    }
    printf("loss %.9f\nbits %016" PRIx64 "\n", loss, bits);
    (void)fflush(stdout);
}

static int work(char **arguments)
{
    job own = {.is_sum = strcmp(arguments[2], "sum") == 0,
               .count = strtoull(arguments[5], NULL, 10)};
    const uint64_t iterations = strtoull(arguments[4], NULL, 10);
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    if (tutti_init(NULL, &own.context) != TUTTI_OK) {
        printf("init %s\n", tutti_last_error(NULL));
        return NO_INIT;
    }
    own.rank = (uint32_t)tutti_rank(own.context);
    own.workers = (uint32_t)tutti_size(own.context);
    own.weights = calloc(own.count + 1, sizeof(float));
    own.gradient = calloc(own.count + 1, sizeof(float));
    config.policy = arguments[1];
    config.update = arguments[2];
    config.codec = arguments[3];
    must(own.context, tutti_store_open(own.context, &config, &own.store));
    must(own.context, tutti_store_add(own.store, "w", own.weights, own.count, TUTTI_F32));
    while (own.clock < iterations) {
        const uint64_t before = own.clock;
        set_gradient(&own);
        if (own.is_sum) {
            step_here(&own);
        } else {
            step_there(&own);
        }
        go_on(before, own.clock, number_of(arguments + 6, "hold", GOING));
    }
    must(own.context, tutti_barrier(own.context));
    if (!own.is_sum) {
        must(own.context, tutti_store_pull(own.store, "w", own.weights));
    }
    report(&own);
    must(own.context, tutti_store_close(own.store));
    (void)tutti_shutdown(own.context);
    free(own.weights);
    free(own.gradient);
    return 0;
}

int main(int argument_count, char **arguments)
{
    if (argument_count == 2 && strcmp(arguments[1], "serve") == 0) {
        return tutti_server_run(NULL) == TUTTI_OK ? 0 : NO_INIT;
    }
    return argument_count >= 6 ? work(arguments) : USAGE;
}
