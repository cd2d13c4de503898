/* SPDX-License-Identifier: Apache-2.0
 *
 * worlds_store_main.c - run many seeds of workers, servers and a store; see store_run.h.
 *
 *   tutti-worlds_store [--sums | --keep] [--first S] [--seeds N] [--seed S] [--failures N]
 *                        [--verbose] [--bug NAME]
 *
 * Exit status 1 and one line per failing seed if anything is wrong. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/plant.h"
#include "store/store_run.h"

static uint64_t current; /* for on_abort */

/* A failed assertion must report its seed. */
static void on_abort(int number)
{
    char text[64];
    (void)number;
    const int length = snprintf(text, sizeof(text), "seed %" PRIu64 " failed: aborted\n", current);
    if (write(STDOUT_FILENO, text, (size_t)length) < 0) {
        _exit(3);
    }
}

typedef struct totals {
    uint64_t runs, events, reads, finished, lost;
    uint32_t failures;
} totals;

typedef store_result (*player)(const scene *drawn, bool is_verbose);

static void run_seed(totals *sum, uint64_t seed, player play, bool is_verbose)
{
    scene drawn;
    current = seed;
    scene_draw(&drawn, seed);
    if (is_verbose) {
        printf("%u workers, %u servers, policy %s, update %s, codec %s, habit %d, %u tensors, %u "
               "iterations, "
               "%u faults\n",
               drawn.workers, drawn.servers, drawn.policy_text, drawn.update_text,
               drawn.codec_text != NULL ? drawn.codec_text : "none", (int)drawn.habit,
               drawn.tensors, drawn.iterations, drawn.faults);
    }
    const store_result result = play(&drawn, is_verbose);
    sum->runs++;
    sum->events += result.events;
    sum->reads += result.reads;
    sum->finished += result.finished;
    sum->lost += result.lost;
    if (!result.is_good) {
        sum->failures++;
        printf("seed %" PRIu64 " failed: %s (events %016" PRIx64 ")\n", seed, result.reason,
               result.hash);
        (void)fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    uint64_t first = 0, count = 1000;
    uint32_t failures_max = 20;
    bool is_verbose = false;
    player play = store_run;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--verbose") == 0) {
            is_verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--sums") == 0 || strcmp(argv[i], "--keep") == 0) {
            play = argv[i][2] == 's' ? sum_run : keep_run;
            continue;
        }
        if (strcmp(argv[i], "--first") == 0) {
            first = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            count = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            first = strtoull(value, NULL, 10);
            count = 1;
        } else if (strcmp(argv[i], "--failures") == 0) {
            failures_max = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--bug") != 0 || !tt_plant_choose(value)) {
            (void)fprintf(stderr, "worlds_store: cannot take %s %s\n", argv[i], value);
            return 2;
        }
        i++;
    }
    (void)signal(SIGABRT, on_abort);
    totals sum = {.runs = 0};
    for (uint64_t i = 0; i < count && sum.failures < failures_max; i++) {
        run_seed(&sum, first + i, play, is_verbose);
    }
    printf("%" PRIu64 " seeds, %" PRIu64 " events, %" PRIu64 " values compared, %" PRIu64
           " workers at their end, %" PRIu64 " calls lost, %u failed\n",
           sum.runs, sum.events, sum.reads, sum.finished, sum.lost, sum.failures);
    return sum.failures > 0 ? 1 : 0;
}
