/* SPDX-License-Identifier: Apache-2.0
 *
 * store_keep_main.c - one process that trains with a store, saves and loads it, and moves it.
 *
 *     tutti-store_keep serve
 *     tutti-store_keep POLICY UPDATE ITERATIONS COUNT WORD...
 *
 * WORDs: save=CLOCK:FILE, load=FILE before the first iteration, reshard=CLOCK:SERVERS,
 * rate=CLOCK:LR from that clock on (set at clock 0), survive=FILE: iterations have no end until a
 * server dies; then FILE is loaded, and ITERATIONS are made; busy=FILE: save with a call in flight;
 * hold=N: after N iterations it waits for a line on standard input. Prints "going" after three
 * iterations, "saved", "loaded C" and, at the end, "bits H", a hash of the values. Exit codes: 0; 2
 * wrong usage; 3 no init; 7 a call failed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processes/store_report.h"

enum { TENSORS = 3 };

typedef struct job {
    tutti_context *context;
    tutti_store *store;
    uint32_t rank;
    uint64_t clock, iterations;
    size_t counts[TENSORS];
    float *values[TENSORS], *gradients[TENSORS];
    const char *survive; /* a file, until a server has died */
} job;

static const char *const names[TENSORS] = {"w", "a", "empty"};

static void say_number(const char *text, uint64_t number)
{
    printf("%s %" PRIu64 "\n", text, number);
    (void)fflush(stdout);
}

static float gradient_of(const job *own, size_t tensor, size_t i)
{
    const uint64_t mixed = (i * 2654435761U + own->rank * 97U + tensor) * UINT64_C(0x9e3779b97f4a7);
    return own->values[tensor][i] - (float)(mixed >> 40 & 0xffff) / 65536.0f;
}

/* One iteration, or the first failure in it. */
static tutti_status iterate(job *own)
{
    tutti_handle *handles[TENSORS + 1];
    tutti_store_call clock = TUTTI_STORE_CALL_INIT;
    for (size_t k = 0; k < TENSORS; k++) {
        const tutti_status status = tutti_store_pull(own->store, names[k], own->values[k]);
        if (status != TUTTI_OK) {
            return status;
        }
        for (size_t i = 0; i < own->counts[k]; i++) {
            own->gradients[k][i] = gradient_of(own, k, i);
        }
    }
    for (size_t k = 0; k < TENSORS; k++) {
        tutti_store_call push = TUTTI_STORE_CALL_INIT;
        push.name = names[k];
        push.input = own->gradients[k];
        must(own->context, tutti_store_start(own->store, &push, &handles[k]));
    }
    clock.verb = TUTTI_STORE_CLOCK;
    clock.clock_out = &own->clock;
    must(own->context, tutti_store_start(own->store, &clock, &handles[TENSORS]));
    tutti_status status = TUTTI_OK;
    for (size_t k = 0; k <= TENSORS; k++) {
        const tutti_status one = tutti_wait(handles[k], -1.0);
        status = status != TUTTI_OK ? status : one;
        tutti_handle_free(handles[k]);
    }
    return status;
}

static void load(job *own, const char *path)
{
    tutti_store_counts counts = TUTTI_STORE_COUNTS_INIT;
    must(own->context, tutti_store_load(own->store, path));
    must(own->context, tutti_store_count(own->store, &counts));
    own->clock = counts.clock;
    say_number("loaded", counts.clock);
}

/* A word "KEY=CLOCK:REST" of this clock: its REST; else NULL. */
static const char *due(const job *own, const char *word, const char *key)
{
    char *end;
    if (strncmp(word, key, strlen(key)) != 0) {
        return NULL;
    }
    const uint64_t clock = strtoull(word + strlen(key), &end, 10);
    return clock == own->clock ? end + 1 : NULL;
}

static void act(job *own, char **words)
{
    for (; *words != NULL; words++) {
        const char *path = due(own, *words, "save="), *servers = due(own, *words, "reshard=");
        const char *rate = own->clock == 0 && strncmp(*words, "rate=", 5) == 0 ? *words + 5 : NULL;
        if (path != NULL) {
            must(own->context, tutti_store_save(own->store, path));
            say_number("saved", own->clock);
        }
        if (servers != NULL) {
            must(own->context, tutti_store_reshard(own->store, atoi(servers)));
            say_number("moved", own->clock);
        }
        if (rate != NULL && own->rank == 0) {
            must(own->context,
                 tutti_store_set(own->store, "lr", strtod(strchr(rate, ':') + 1, NULL),
                                 strtoull(rate, NULL, 10)));
        }
        if (own->clock == 0 && strncmp(*words, "busy=", 5) == 0) {
            tutti_handle *handle;
            tutti_store_call push = TUTTI_STORE_CALL_INIT;
            push.name = names[0];
            push.input = own->gradients[0];
            if (own->rank == 1) {
                must(own->context, tutti_store_start(own->store, &push, &handle));
            }
            must(own->context, tutti_store_save(own->store, *words + 5));
        }
    }
}

static void train(job *own, char **words)
{
    act(own, words);
    while (own->clock < own->iterations || own->survive != NULL) {
        const uint64_t before = own->clock;
        const tutti_status status = iterate(own);
        if (status == TUTTI_ERR_PEER_DOWN && own->survive != NULL) {
            load(own, own->survive);
            own->survive = NULL;
        } else {
            must(own->context, status);
            act(own, words);
            go_on(before, own->clock, number_of(words, "hold", GOING));
        }
    }
}

static void report(job *own)
{
    uint64_t bits = 0;
    must(own->context, tutti_barrier(own->context));
    for (size_t k = 0; k < TENSORS; k++) {
        must(own->context, tutti_store_pull(own->store, names[k], own->values[k]));
        for (size_t i = 0; i < own->counts[k]; i++) {
            uint32_t word;
            memcpy(&word, &own->values[k][i], sizeof(word));
            bits = (bits ^ word) * UINT64_C(0x100000001b3);
        }
    }
    printf("bits %016" PRIx64 "\n", bits);
    (void)fflush(stdout);
}

static int work(char **arguments)
{
    job own = {.iterations = strtoull(arguments[3], NULL, 10)};
    char **words = arguments + 5;
    tutti_store_config config = TUTTI_STORE_CONFIG_INIT;
    const char *from = NULL;
    own.counts[0] = strtoull(arguments[4], NULL, 10);
    own.counts[1] = 7;
    if (tutti_init(NULL, &own.context) != TUTTI_OK) {
        printf("init %s\n", tutti_last_error(NULL));
        return NO_INIT;
    }
    own.rank = (uint32_t)tutti_rank(own.context);
    config.policy = arguments[1];
    config.update = arguments[2];
    must(own.context, tutti_store_open(own.context, &config, &own.store));
    for (char **word = words; *word != NULL; word++) {
        from = strncmp(*word, "load=", 5) == 0 ? *word + 5 : from;
        own.survive = strncmp(*word, "survive=", 8) == 0 ? *word + 8 : own.survive;
    }
    for (size_t k = 0; k < TENSORS; k++) {
        own.values[k] = calloc(own.counts[k] + 1, sizeof(float));
        own.gradients[k] = calloc(own.counts[k] + 1, sizeof(float));
        if (from == NULL || k == 0) { /* the others come with the file */
            must(own.context,
                 tutti_store_add(own.store, names[k], own.values[k], own.counts[k], TUTTI_F32));
        }
    }
    if (from != NULL) {
        load(&own, from);
    }
    train(&own, words);
    report(&own);
    must(own.context, tutti_store_close(own.store));
    (void)tutti_shutdown(own.context);
    for (size_t k = 0; k < TENSORS; k++) {
        free(own.values[k]);
        free(own.gradients[k]);
    }
    return 0;
}

int main(int argument_count, char **arguments)
{
    if (argument_count == 2 && strcmp(arguments[1], "serve") == 0) {
        return tutti_server_run(NULL) == TUTTI_OK ? 0 : NO_INIT;
    }
    return argument_count >= 5 ? work(arguments) : USAGE;
}
