/* SPDX-License-Identifier: Apache-2.0
 *
 * validate.h - simulated jobs beside what was measured or published of them.
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_SIMULATE_VALIDATE_H
#define TUTTI_CLI_SIMULATE_VALIDATE_H

#include <jansson.h>

#include "cli/simulate/scenario_file.h"

/* The figures of the job that the command's values describe, as --json has them; the caller
 * releases them. On failure `why` has the cause and the cure. */
typedef tt_status tt_validate_compute_fn(const void *values, tt_text *why, json_t **figures_out);

typedef struct tt_validate_config {
    const char *const *paths; /* files of rows, see validation_file.h */
    size_t path_count;        /* 0: bench/validation/ of the source tree */
    const tt_scenario_rules *rules;
    tt_validate_compute_fn *compute;
    const char *markdown; /* file of a document with all rows; NULL: none */
} tt_validate_config;

/* Prints each row with its error. The program's exit status: 1 where a row is outside its
 * tolerance or cannot be computed. */
int tt_validate(const tt_validate_config *config);

#endif
