/* SPDX-License-Identifier: Apache-2.0
 *
 * validation_file.h - what is known of jobs, in files: rows of a scenario and a figure that was
 * measured or published.
 *
 * JSON: {"summary": "...", "median_percent": 5,
 *        "defaults": {"figure": "us.step", "kind": "predicted", "scenario": {"ranks": 4}},
 *        "rows": [{"name": "...", "scenario": {"graph": "vgg16"}, "expected": 1234.5,
 *                  "tolerance_percent": 10, "source": "..."}]}
 * A row is what "defaults" says unless it says otherwise; of scenarios this holds for each member.
 * "figure" is a figure of --json, its groups separated by dots. "against" are members of a second
 * scenario: then the ratio of the first one's figure to the second one's counts. A row has
 * "expected", or one of the bounds "at_least" and "at_most", or both.
 *
 * Layer:   cli.
 * Threads: pure, but for the reading of files.
 * Memory:  tt_validation_fini releases all.
 */
#ifndef TUTTI_CLI_SIMULATE_VALIDATION_FILE_H
#define TUTTI_CLI_SIMULATE_VALIDATION_FILE_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/simulate/scenario_file.h"

typedef struct tt_validation_row {
    const char *name, *figure, *source;
    const char *assumption; /* that the row needs; or NULL */
    json_t *scenario;
    json_t *against; /* NULL: there is no second scenario */
    bool has_expected;
    double expected, at_least, at_most; /* the bounds may be infinite */
    double tolerance_percent;           /* INFINITY: the row is only shown; 0 for bounds */
    bool is_fitted;                     /* to this row; else it is predicted */
} tt_validation_row;

typedef struct tt_validation {
    char *path, *text;
    size_t bytes;
    json_t *root;
    json_t *made; /* of rows and defaults */
    const char *summary;
    const char *default_source, *default_assumption; /* of rows without; or NULL */
    double median_percent; /* of the errors of all rows, at most; INFINITY: no limit */
    tt_validation_row *rows;
    size_t row_count;
} tt_validation;

/* TT_ERR_BAD_CONFIG: `why` is "path:line: cause and cure". `text` need not end in a zero. */
tt_status tt_validation_read(const char *path, const char *text, size_t bytes, tt_text *why,
                             tt_validation *validation_out);
tt_status tt_validation_load(const char *path, tt_text *why, tt_validation *validation_out);
void tt_validation_fini(tt_validation *validation);

#endif
