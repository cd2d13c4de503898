/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_rank_main.c - one process of a job whose named all-reduces are summed by servers, for the
 * tests of faults.
 *
 *     tutti-sum_rank serve
 *     tutti-sum_rank STEPS [hold=N]
 *
 * A step sums tensors of several lengths in place, under names; each result is compared with what
 * all workers have given in this step. A sum that is lost with a server prints "lost STEP NAME
 * TEXT", and the next step goes on. Prints "going" after three steps, "done" at the end, (`hold=N`:
 * waits for a line on standard input after N) else "failed STATUS TEXT". Exit codes: 0; 2 wrong
 * usage; 3 no init; 4 wrong value; 7 a call failed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processes/store_report.h"

enum { TENSORS = 5, ELEMENTS_MAX = 300000, NAME_BYTES = 16 };

static const size_t counts[TENSORS] = {1, 700, 9000, 70000, ELEMENTS_MAX};

/* Of worker `rank`; sums of them are exact. */
static float value_of(int rank, int step, int tensor, size_t index)
{
    return (float)((size_t)(rank + 1) * 7 + (size_t)step * 3 + (size_t)tensor + index % 1000);
}

static void fill(float *values, int rank, int step, int tensor)
{
    for (size_t i = 0; i < counts[tensor]; i++) {
        values[i] = value_of(rank, step, tensor, i);
    }
}

static void check(const float *values, int size, int step, int tensor)
{
    for (size_t i = 0; i < counts[tensor]; i++) {
        float wanted = 0;
        for (int rank = 0; rank < size; rank++) {
            wanted += value_of(rank, step, tensor, i);
        }
        if (values[i] != wanted) {
            printf("step %d, t%d at %zu: %g, not %g\n", step, tensor, i, (double)values[i],
                   (double)wanted);
            (void)fflush(stdout);
            exit(WRONG_VALUE);
        }
    }
}

static void run_step(tutti_context *context, float *values[TENSORS], int step)
{
    tutti_handle *handles[TENSORS];
    for (int k = 0; k < TENSORS; k++) {
        char name[NAME_BYTES];
        const int tensor = (k * 2 + step + tutti_rank(context)) % TENSORS; /* in any order */
        tutti_call call = TUTTI_CALL_INIT;
        (void)snprintf(name, sizeof(name), "t%d", tensor);
        fill(values[tensor], tutti_rank(context), step, tensor);
        call.collective = TUTTI_ALLREDUCE;
        call.name = name;
        call.input = call.output = values[tensor];
        call.count = counts[tensor];
        call.dtype = TUTTI_F32;
        call.op = TUTTI_SUM;
        call.priority = -tensor;
        must(context, tutti_start(context, &call, &handles[tensor]));
    }
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        const tutti_status status = tutti_wait(handles[tensor], -1);
        const char *text = tutti_last_error(context);
        if (status == TUTTI_OK) {
            check(values[tensor], tutti_size(context), step, tensor);
        } else if (status == TUTTI_ERR_PEER_DOWN && strstr(text, "a part of a sum") != NULL) {
            printf("lost %d t%d %s\n", step, tensor, text);
            (void)fflush(stdout);
        } else {
            must(context, status);
        }
        tutti_handle_free(handles[tensor]);
    }
}

int main(int argc, char **argv)
{
    tutti_context *context;
    float *values[TENSORS];
    if (argc < 2) {
        (void)fprintf(stderr, "usage: tutti-sum_rank serve | STEPS [hold=N]\n");
        return USAGE;
    }
    if (strcmp(argv[1], "serve") == 0) {
        return tutti_server_run(NULL) == TUTTI_OK ? 0 : NO_INIT;
    }
    if (tutti_init(NULL, &context) != TUTTI_OK) {
        printf("failed %s\n", tutti_last_error(NULL));
        return NO_INIT;
    }
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        values[tensor] = malloc(counts[tensor] * sizeof(float));
    }
    const int steps = atoi(argv[1]);
    const uint64_t holds_after = number_of(argv + 2, "hold", GOING);
    for (int step = 0; step < steps; step++) {
        run_step(context, values, step);
        go_on((uint64_t)step, (uint64_t)step + 1, holds_after);
    }
    say("done");
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        free(values[tensor]);
    }
    return tutti_shutdown(context) == TUTTI_OK ? 0 : FAILED;
}
