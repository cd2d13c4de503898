/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_file.h - the options of a run or a sweep in a file.
 *
 * JSON: {"summary": "...", "graph": "resnet50", "ranks": 64, "cluster": "mine.json",
 *        "sweep": {"network.bandwidth_gbs": [1, 10], "strategy": ["tutti", "ddp"]},
 *        "slow": {"3": 1.5}}
 * Members are the long names of the command's options, so that a new option is a new member.
 * Options that may be given several times are objects, each member of which is NAME=VALUE,VALUE.
 * Files are found from the folder of the scenario.
 *
 * Layer:   cli.
 * Threads: pure, but for the reading of files.
 * Memory:  tt_scenario_fini releases all.
 */
#ifndef TUTTI_CLI_SIMULATE_SCENARIO_FILE_H
#define TUTTI_CLI_SIMULATE_SCENARIO_FILE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"
#include "cli/option.h"

/* Of a command whose options are read; lists end in NULL. */
typedef struct tt_scenario_rules {
    const tt_command *command;  /* has given_offset */
    const char *const *files;   /* options that may name files, and what is swept of them */
    const char *const *refused; /* options that have no place in a scenario */
} tt_scenario_rules;

/* Whether a sweep can vary the option: a scenario may have it, and it has one value. */
bool tt_scenario_can_vary(const tt_scenario_rules *rules, const tt_option *option);

enum { TT_SCENARIO_STEPS_MAX = 4 };

/* The bytes of a file, and the object in it that is a scenario. */
typedef struct tt_scenario_text {
    const char *path;
    const char *text;
    size_t bytes;
    const char *steps[TT_SCENARIO_STEPS_MAX]; /* to the object (json_line.h) */
    size_t step_count;
} tt_scenario_text;

typedef struct tt_scenario {
    const tt_command *command;
    void *values; /* of the command; NULL: there is no scenario */
    char **words; /* to which they point */
    size_t word_count;
    char *path;
    char *text;
    size_t bytes;
} tt_scenario;

/* TT_ERR_BAD_CONFIG: `why` is "path:line: cause and cure". The result keeps no place in the text:
 * tt_scenario_where knows none. */
tt_status tt_scenario_read(const tt_scenario_rules *rules, const tt_scenario_text *source,
                           json_t *members, tt_text *why, tt_scenario *scenario_out);

tt_status tt_scenario_load(const tt_scenario_rules *rules, const char *path, tt_text *why,
                           tt_scenario *scenario_out);
void tt_scenario_fini(tt_scenario *scenario);

/* Append "path:line: " of a member; nothing if it is not in the file. */
void tt_scenario_where(const tt_scenario *scenario, const char *member, tt_text *text);

/* "path:line: ", of what `steps` behind those of the source lead to; NULL: of the object. */
void tt_scenario_place(const tt_scenario_text *source, const char *const *steps, size_t step_count,
                       tt_text *text);

#endif
