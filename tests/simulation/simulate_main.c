/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_main.c - run many seeds of the simulated world.
 *
 *   tutti-simulate --seeds N [--first S]    seeds S .. S + N - 1
 *   tutti-simulate --seed S [--verbose]     one of them, told in full
 *   tutti-simulate --file F                 the seeds listed in F; those with an n are named
 *   tutti-simulate --named ...              seeds mean programs of named tensors
 *   tutti-simulate --kills                  small jobs, a kill at every event
 *   tutti-simulate --bug NAME ...           with a planted bug (tutti-simulate-planted only)
 *
 * Exit status 1 and one line per failing seed if anything is wrong.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/plant.h"
#include "simulation/run.h"

typedef struct arguments {
    uint64_t seed_count, first;
    uint32_t failures_max;
    const char *file;
    bool is_verbose, has_kills, is_named;
} arguments;

typedef struct totals {
    uint64_t runs, events, simulated_ns;
    uint32_t failures;
    uint32_t modes[TT_NEGOTIATE_ORIGINAL + 1]; /* runs of named tensors in each */
    uint32_t faults[FAULT_KIND_COUNT];         /* and runs with such a fault */
    uint32_t dropping, late, reordered;
} totals;

static uint64_t current_seed; /* for on_abort */
static bool is_named;         /* seeds mean programs of named tensors */

/* A failed assertion must say which seed it was. */
static void on_abort(int number)
{
    char text[64];
    (void)number;
    const int length = snprintf(text, sizeof(text), "seed %s%" PRIu64 " failed: aborted\n",
                                is_named ? "n" : "", current_seed);
    if (write(STDOUT_FILENO, text, (size_t)length) < 0) {
        _exit(3);
    }
}

static void add_result(totals *sum, const run_result *result, uint64_t seed, const char *extra)
{
    sum->runs++;
    sum->events += result->event_count;
    sum->simulated_ns += result->simulated_ns;
    if (!result->is_good) {
        sum->failures++;
        printf("seed %s%" PRIu64 "%s failed: %s (events %016" PRIx64 ")\n", is_named ? "n" : "",
               seed, extra, result->reason, result->hash);
        (void)fflush(stdout);
    }
}

static void add_named(totals *sum, const scenario *drawn)
{
    sum->modes[drawn->control.negotiate.mode]++;
    sum->dropping += drawn->sim.noise.drop > 0;
    sum->late += drawn->sim.noise.spike > 0;
    sum->reordered += drawn->sim.noise.reorder > 0;
    for (int kind = 0; kind < FAULT_KIND_COUNT; kind++) {
        sum->faults[kind] += scenario_has_fault(drawn, (fault_kind)kind);
    }
}

static void print_named(const totals *sum)
{
    printf(
        "named: auto %u, coordinator %u, bitvector %u, plan %u, original %u; with drops %u, delays "
        "%u, reordering %u, partitions %u, severed links %u, stops %u, kills %u\n",
        sum->modes[TT_NEGOTIATE_AUTO], sum->modes[TT_NEGOTIATE_COORDINATOR],
        sum->modes[TT_NEGOTIATE_BITVECTOR], sum->modes[TT_NEGOTIATE_PLAN],
        sum->modes[TT_NEGOTIATE_ORIGINAL], sum->dropping, sum->late, sum->reordered,
        sum->faults[FAULT_CUT], sum->faults[FAULT_SEVER], sum->faults[FAULT_STOP],
        sum->faults[FAULT_KILL]);
}

static void run_seed(uint64_t seed, bool is_verbose, totals *sum)
{
    static scenario drawn; /* large */
    current_seed = seed;
    if (is_named) {
        scenario_draw_named(&drawn, seed);
        add_named(sum, &drawn);
    } else {
        scenario_draw(&drawn, seed);
    }
    if (is_verbose) {
        scenario_describe(&drawn);
    }
    const run_options options = {.is_verbose = is_verbose};
    const run_result result = run_scenario(&drawn, &options);
    add_result(sum, &result, seed, "");
    if (seed % 64 == 0) { /* a seed is a recipe: the same events, the same results */
        const run_result again = run_scenario(&drawn, &(run_options){0});
        if (again.hash != result.hash || again.results_hash != result.results_hash) {
            sum->failures++;
            printf("seed %" PRIu64 " failed: two runs differ\n", seed);
        }
    }
}

static void run_kills_of(const scenario *small, totals *sum)
{
    const run_result whole = run_scenario(small, &(run_options){0});
    add_result(sum, &whole, 0, " (no kill)");
    for (uint64_t event = 1; event <= whole.event_count; event++) {
        for (uint32_t rank = 0; rank < small->size; rank++) {
            const run_options options = {.kill_at_event = event, .kill_rank = rank};
            char extra[64];
            (void)snprintf(extra, sizeof(extra), " (kill of %u at event %" PRIu64 ")", rank, event);
            const run_result result = run_scenario(small, &options);
            add_result(sum, &result, 0, extra);
        }
    }
}

static void run_kills(totals *sum)
{
    static scenario drawn;
    scenario_small(&drawn);
    run_kills_of(&drawn, sum);
    for (int mode = TT_NEGOTIATE_COORDINATOR; mode <= TT_NEGOTIATE_ORIGINAL; mode++) {
        scenario_small_named(&drawn, (tt_negotiate_mode)mode);
        run_kills_of(&drawn, sum);
    }
}

static int run_file(const char *path, totals *sum)
{
    FILE *file = fopen(path, "r");
    char line[256];
    if (file == NULL) {
        perror(path);
        return 2;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        char *end;
        is_named = line[0] == 'n';
        const char *first = line + (is_named ? 1 : 0);
        const uint64_t seed = strtoull(first, &end, 10);
        if (end != first) {
            run_seed(seed, false, sum);
        }
    }
    (void)fclose(file);
    is_named = false;
    return 0;
}

static bool parse(int argc, char **argv, arguments *parsed)
{
    for (int i = 1; i < argc; i++) {
        const bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--seeds") == 0 && has_value) {
            parsed->seed_count = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--first") == 0 && has_value) {
            parsed->first = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
            parsed->first = strtoull(argv[++i], NULL, 10);
            parsed->seed_count = 1;
        } else if (strcmp(argv[i], "--failures") == 0 && has_value) {
            parsed->failures_max = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--file") == 0 && has_value) {
            parsed->file = argv[++i];
        } else if (strcmp(argv[i], "--bug") == 0 && has_value) {
            if (!tt_plant_choose(argv[++i])) {
                (void)fprintf(stderr, "no planted bug is called '%s' here\n", argv[i]);
                return false;
            }
        } else if (strcmp(argv[i], "--verbose") == 0) {
            parsed->is_verbose = true;
        } else if (strcmp(argv[i], "--named") == 0) {
            parsed->is_named = true;
        } else if (strcmp(argv[i], "--kills") == 0) {
            parsed->has_kills = true;
        } else {
            return false;
        }
    }
    return parsed->seed_count > 0 || parsed->has_kills || parsed->file != NULL;
}

int main(int argc, char **argv)
{
    arguments parsed = {.failures_max = 20};
    totals sum = {0};
    if (!parse(argc, argv, &parsed)) {
        (void)fprintf(stderr,
                      "usage: tutti-simulate --seeds N [--first S] | --seed S [--verbose] | "
                      "--file F | --kills  [--named] [--failures MAX] [--bug NAME]\n");
        return 2;
    }
    (void)signal(SIGABRT, on_abort);
    if (parsed.file != NULL && run_file(parsed.file, &sum) != 0) {
        return 2;
    }
    if (parsed.has_kills) {
        run_kills(&sum);
    }
    is_named = parsed.is_named;
    for (uint64_t i = 0; i < parsed.seed_count && sum.failures < parsed.failures_max; i++) {
        run_seed(parsed.first + i, parsed.is_verbose, &sum);
    }
    printf("%" PRIu64 " runs, %" PRIu64 " events, %.1f simulated seconds, %u failures\n", sum.runs,
           sum.events, (double)sum.simulated_ns / 1e9, sum.failures);
    if (parsed.is_named) {
        print_named(&sum);
    }
    return sum.failures > 0 ? 1 : 0;
}
