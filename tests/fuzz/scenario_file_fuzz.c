/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_file_fuzz.c - any bytes as the file of a scenario: an error is one line with a place,
 * and what is accepted is parsed to the same values again.
 *
 * The program's files are compiled in: fuzz targets link the library only.
 *
 * Labels: cli sim */
#include "base/assert.h"
#include "cli/buffer.c"
#include "cli/cluster/json_line.c"
#include "cli/file_text.c"
#include "cli/option.c"
#include "cli/simulate/scenario_file.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

/* An option of each kind. */
typedef struct fuzz_values {
    const char *graph;
    bool is_quick;
    int64_t ranks;
    int64_t maybe;
    uint64_t chunk;
    double rate;
    double seconds;
    int dtype;
    const char *json;
    tt_option_list sweeps;
    tt_option_list slow;
    uint64_t given;
} fuzz_values;

#define AT(member) offsetof(fuzz_values, member)

static const tt_option fuzz_options[] = {
    {'g', "graph", TT_OPTION_STRING, AT(graph), "G", "", NULL, NULL, NULL, 0, 0},
    {'\0', "cross", TT_OPTION_FLAG, AT(is_quick), NULL, "", NULL, NULL, NULL, 0, 0},
    {'n', "ranks", TT_OPTION_INT, AT(ranks), "N", "", "8", NULL, NULL, 1, 100},
    {'\0', "keep", TT_OPTION_MAYBE, AT(maybe), "N", "", NULL, NULL, NULL, 1, 100},
    {'c', "chunk", TT_OPTION_BYTES, AT(chunk), "B", "", "0", NULL, NULL, 0, 0},
    {'\0', "scale-time", TT_OPTION_RATE, AT(rate), "R", "", "1", NULL, NULL, 0, 0},
    {'\0', "wait", TT_OPTION_SECONDS, AT(seconds), "R", "", "1", NULL, NULL, 0, 0},
    {'\0', "dtype", TT_OPTION_CHOICE, AT(dtype), NULL, "", "f32", "f32|f16", NULL, 0, 0},
    {'\0', "json", TT_OPTION_STRING, AT(json), "F", "", NULL, NULL, NULL, 0, 0},
    {'\0', "sweep", TT_OPTION_LIST, AT(sweeps), "S", "", NULL, NULL, NULL, 0, 0},
    {'\0', "slow", TT_OPTION_LIST, AT(slow), "S", "", NULL, NULL, NULL, 0, 0},
};

static const tt_command fuzz_command = {.name = "simulate",
                                        .options = fuzz_options,
                                        .option_count = TT_ARRAY_COUNT(fuzz_options),
                                        .values_bytes = sizeof(fuzz_values),
                                        .given_offset = AT(given)};
static const char *const fuzz_files[] = {"graph", "cluster", NULL};
static const char *const fuzz_refused[] = {"json", NULL};
static const tt_scenario_rules fuzz_rules = {
    .command = &fuzz_command, .files = fuzz_files, .refused = fuzz_refused};

/* In range, and on one line. */
static void check_values(const fuzz_values *values)
{
    TT_ASSERT(values->ranks >= 1);
    TT_ASSERT(values->ranks <= 100);
    TT_ASSERT(values->rate > 0);
    TT_ASSERT(values->seconds >= 0);
    TT_ASSERT(values->json == NULL);
    TT_ASSERT(values->graph == NULL || is_one_line(values->graph));
    for (size_t i = 0; i < values->sweeps.count; i++) {
        TT_ASSERT(strchr(values->sweeps.items[i], '=') != NULL);
        TT_ASSERT(is_one_line(values->sweeps.items[i]));
    }
}

/* Command line over file: the same file over itself changes nothing. */
static void check_override(const fuzz_values *values)
{
    fuzz_values copy = {.graph = NULL};
    tt_option_override(&fuzz_command, &copy, values);
    TT_ASSERT(copy.given == values->given);
    TT_ASSERT(copy.sweeps.count == values->sweeps.count);
    TT_ASSERT(copy.graph == values->graph);
    tt_option_release(&fuzz_command, &copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes)
{
    const tt_scenario_text source = {
        .path = "folder/fuzz.json", .text = (const char *)data, .bytes = data_bytes};
    tt_text why = {.length = 0};
    tt_scenario scenario;
    json_error_t error;
    json_t *root = json_loadb(source.text, data_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return 0;
    }
    const tt_status status = tt_scenario_read(&fuzz_rules, &source, root, &why, &scenario);
    json_decref(root);
    if (status != TT_OK) {
        TT_ASSERT(strncmp(why.bytes, "folder/fuzz.json:", 17) == 0);
        TT_ASSERT(strchr(why.bytes, '\n') == NULL);
        return 0;
    }
    check_values(scenario.values);
    check_override(scenario.values);
    tt_scenario_fini(&scenario);
    return 0;
}
