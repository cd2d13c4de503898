/* SPDX-License-Identifier: Apache-2.0
 *
 * worlds_main.c - run many seeds of the simulated world.
 *
 *   tutti-worlds --seeds N [--first S]    seeds S .. S + N - 1
 *   tutti-worlds --seed S [--verbose]     one of them, with all events
 *   tutti-worlds --file F                 the seeds listed in F, one a line
 *   tutti-worlds --named ...              seeds mean programs of named tensors
 *   tutti-worlds --salt K ...             the same programs and faults, but the network's delays
 *                                           and the ranks' orders are drawn anew; 0: the seed's own
 *   tutti-worlds --salts N ...            seed S with salt S % N
 *   tutti-worlds --kills                  small jobs, a kill at every event
 *   tutti-worlds --bug NAME ...           with a planted bug (tutti-worlds-planted only)
 *   tutti-worlds --phantom ...            each seed once more with buffers that have no bytes: the
 *                                           same events
 *   tutti-worlds --hashes ...             a line per seed: hashes of its events and results, to
 *                                           compare two builds
 *
 * A seed is written as it is printed and kept: 5022, n5094 (named), n5094/1 (with salt 1). Exit
 * status 1 and one line per failing seed if anything is wrong.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/plant.h"
#include "simulation/run.h"

/* Inputs of a run. */
typedef struct recipe {
    uint64_t seed, salt;
    bool is_named; /* the seed means a program of named tensors */
} recipe;

typedef struct arguments {
    uint64_t seed_count, salts; /* salts 0: all have first's */
    recipe first;
    uint32_t failures_max;
    const char *file;
    bool is_verbose, has_kills, has_hashes, has_phantoms;
} arguments;

typedef struct totals {
    uint64_t runs, events, simulated_ns;
    uint32_t failures;
    uint32_t modes[TT_NEGOTIATE_ORIGINAL + 1]; /* runs of named tensors in each */
    uint32_t faults[FAULT_KIND_COUNT];         /* and runs with such a fault */
    uint32_t dropping, late, reordered;
    uint64_t changes; /* of settings, at the ends of steps */
    uint64_t untuned; /* programs whose bits were compared with those without */
    uint64_t phantom; /* programs whose events were compared with those of phantom buffers */
    uint64_t coded;   /* calls, compared with their oracle */
} totals;

enum { RECIPE_BYTES = 48 };

static recipe current; /* for on_abort */

static const char *recipe_text(const recipe *what, char text[RECIPE_BYTES])
{
    char salt[RECIPE_BYTES / 2] = "";
    if (what->salt > 0) {
        (void)snprintf(salt, sizeof(salt), "/%" PRIu64, what->salt);
    }
    (void)snprintf(text, RECIPE_BYTES, "%s%" PRIu64 "%s", what->is_named ? "n" : "", what->seed,
                   salt);
    return text;
}

/* False: there is no seed at the beginning of `text`. Text behind it is ignored. */
static bool recipe_read(const char *text, recipe *what)
{
    char *end;
    const bool is_named = text[0] == 'n';
    const char *first = text + (is_named ? 1 : 0);
    const uint64_t seed = strtoull(first, &end, 10);
    if (end == first) {
        return false;
    }
    what->seed = seed;
    what->is_named = is_named;
    what->salt = *end == '/' ? strtoull(end + 1, NULL, 10) : 0;
    return true;
}

/* A failed assertion must report its seed. */
static void on_abort(int number)
{
    char text[RECIPE_BYTES + 32], seed[RECIPE_BYTES];
    (void)number;
    const int length =
        snprintf(text, sizeof(text), "seed %s failed: aborted\n", recipe_text(&current, seed));
    if (write(STDOUT_FILENO, text, (size_t)length) < 0) {
        _exit(3);
    }
}

static void add_result(totals *sum, const run_result *result, const recipe *what, const char *extra)
{
    char seed[RECIPE_BYTES];
    sum->runs++;
    sum->events += result->event_count;
    sum->simulated_ns += result->simulated_ns;
    sum->changes += result->change_count;
    sum->coded += result->coded_count;
    if (!result->is_good) {
        sum->failures++;
        printf("seed %s%s failed: %s (events %016" PRIx64 ")\n", recipe_text(what, seed), extra,
               result->reason, result->hash);
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
    if (sum->changes > 0) {
        printf("steps: settings changed %" PRIu64 " times; %" PRIu64 " programs have the same bits "
               "without\n",
               sum->changes, sum->untuned);
    }
}

/* Checks that the bits are the same without learning and tuning. */
static void run_untuned(const recipe *what, scenario *drawn, const run_result *tuned, totals *sum)
{
    drawn->steps.learns = drawn->steps.tunes = false;
    sum->untuned++;
    const run_result plain = run_scenario(drawn, &(run_options){.salt = what->salt});
    if (!plain.is_good || plain.bits_hash != tuned->bits_hash) {
        char seed[RECIPE_BYTES];
        sum->failures++;
        printf("seed %s failed: other bits without tuning\n", recipe_text(what, seed));
    }
}

static void print_hashes(const recipe *what, const run_result *result)
{
    char seed[RECIPE_BYTES];
    printf("%s events %016" PRIx64 " %" PRIu64 " results %016" PRIx64 "\n", recipe_text(what, seed),
           result->hash, result->event_count, result->results_hash);
}

/* Residuals of phantom values stay zeros, and may be dropped where others may not. */
static bool keeps_values(const scenario *drawn)
{
    bool keeps = false;
    for (uint32_t i = 0; i < drawn->call_count; i++) {
        keeps = keeps || scenario_keeps_state(&drawn->calls[i]);
    }
    return keeps;
}

/* Which allocation fails on purpose is counted over other allocations. */
static void run_phantom(const recipe *what, const scenario *drawn, bool is_verbose,
                        const run_result *real, totals *sum)
{
    if (drawn->starve_after > 0 || drawn->sim.fail_at > 0 || keeps_values(drawn)) {
        return;
    }
    sum->phantom++;
    const run_result phantom = run_scenario(
        drawn, &(run_options){.salt = what->salt, .has_phantoms = true, .is_verbose = is_verbose});
    if (!phantom.is_good || phantom.hash != real->hash ||
        phantom.event_count != real->event_count) {
        char seed[RECIPE_BYTES];
        sum->failures++;
        printf("seed %s failed: other events with phantom buffers: %s\n", recipe_text(what, seed),
               phantom.reason);
    }
}

static void run_seed(const recipe *what, const arguments *parsed, totals *sum)
{
    static scenario drawn; /* large */
    const bool is_verbose = parsed->is_verbose;
    current = *what;
    if (what->is_named) {
        scenario_draw_named(&drawn, what->seed);
        add_named(sum, &drawn);
    } else {
        scenario_draw(&drawn, what->seed);
    }
    if (is_verbose) {
        scenario_describe(&drawn);
    }
    const run_options options = {.is_verbose = is_verbose, .salt = what->salt};
    const run_result result = run_scenario(&drawn, &options);
    add_result(sum, &result, what, "");
    if (parsed->has_hashes) {
        print_hashes(what, &result);
    }
    if (parsed->has_phantoms && result.is_good) {
        run_phantom(what, &drawn, is_verbose, &result, sum);
    }
    if (what->seed % 64 == 0) { /* a seed is a recipe: the same events, the same results */
        const run_result again = run_scenario(&drawn, &(run_options){.salt = what->salt});
        if (again.hash != result.hash || again.results_hash != result.results_hash) {
            char seed[RECIPE_BYTES];
            sum->failures++;
            printf("seed %s failed: two runs differ\n", recipe_text(what, seed));
        }
    }
    if (result.is_good && result.change_count > 0 && scenario_is_steady(&drawn)) {
        run_untuned(what, &drawn, &result, sum);
    }
}

static void run_kills_of(const scenario *small, uint64_t salt, totals *sum)
{
    const recipe what = {.salt = salt};
    const run_result whole = run_scenario(small, &(run_options){.salt = salt});
    add_result(sum, &whole, &what, " (no kill)");
    for (uint64_t event = 1; event <= whole.event_count; event++) {
        for (uint32_t rank = 0; rank < small->size; rank++) {
            const run_options options = {.kill_at_event = event, .kill_rank = rank, .salt = salt};
            char extra[64];
            (void)snprintf(extra, sizeof(extra), " (kill of %u at event %" PRIu64 ")", rank, event);
            const run_result result = run_scenario(small, &options);
            add_result(sum, &result, &what, extra);
        }
    }
}

static void run_kills(uint64_t salt, totals *sum)
{
    static scenario drawn;
    scenario_small(&drawn);
    run_kills_of(&drawn, salt, sum);
    for (int mode = TT_NEGOTIATE_COORDINATOR; mode <= TT_NEGOTIATE_ORIGINAL; mode++) {
        scenario_small_named(&drawn, (tt_negotiate_mode)mode);
        run_kills_of(&drawn, salt, sum);
    }
}

static int run_file(const arguments *parsed, totals *sum)
{
    FILE *file = fopen(parsed->file, "r");
    char line[256];
    if (file == NULL) {
        perror(parsed->file);
        return 2;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        recipe what;
        if (recipe_read(line, &what)) {
            run_seed(&what, parsed, sum);
        }
    }
    (void)fclose(file);
    return 0;
}

static bool parse(int argc, char **argv, arguments *parsed)
{
    for (int i = 1; i < argc; i++) {
        const bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--seeds") == 0 && has_value) {
            parsed->seed_count = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--first") == 0 && has_value) {
            parsed->first.seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
            const recipe before = parsed->first; /* options may come in any order */
            if (!recipe_read(argv[++i], &parsed->first)) {
                return false;
            }
            parsed->first.is_named = parsed->first.is_named || before.is_named;
            parsed->first.salt = parsed->first.salt > 0 ? parsed->first.salt : before.salt;
            parsed->seed_count = 1;
        } else if (strcmp(argv[i], "--salt") == 0 && has_value) {
            parsed->first.salt = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--salts") == 0 && has_value) {
            parsed->salts = strtoull(argv[++i], NULL, 10);
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
            parsed->first.is_named = true;
        } else if (strcmp(argv[i], "--phantom") == 0) {
            parsed->has_phantoms = true;
        } else if (strcmp(argv[i], "--hashes") == 0) {
            parsed->has_hashes = true;
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
                      "usage: tutti-worlds --seeds N [--first S] | --seed [n]S[/K] [--verbose] | "
                      "--file F | --kills  [--named] [--salt K | --salts N] [--failures MAX] "
                      "[--bug NAME]\n");
        return 2;
    }
    (void)signal(SIGABRT, on_abort);
    if (parsed.file != NULL && run_file(&parsed, &sum) != 0) {
        return 2;
    }
    if (parsed.has_kills) {
        run_kills(parsed.first.salt, &sum);
    }
    for (uint64_t i = 0; i < parsed.seed_count && sum.failures < parsed.failures_max; i++) {
        recipe what = parsed.first;
        what.seed += i;
        what.salt = parsed.salts > 0 ? what.seed % parsed.salts : what.salt;
        run_seed(&what, &parsed, &sum);
    }
    printf("%" PRIu64 " runs, %" PRIu64 " events, %.1f simulated seconds, %u failures\n", sum.runs,
           sum.events, (double)sum.simulated_ns / 1e9, sum.failures);
    if (sum.phantom > 0) {
        printf("phantom: %" PRIu64 " programs have the same events without bytes\n", sum.phantom);
    }
    if (sum.coded > 0) {
        printf("coded: %" PRIu64 " sums and their residuals as expected\n", sum.coded);
    }
    if (parsed.first.is_named) {
        print_named(&sum);
    }
    return sum.failures > 0 ? 1 : 0;
}
