/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_report.h - what `tutti simulate` prints of a job, as text, as a line of a table, as
 * JSON.
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_SIMULATE_SIMULATE_REPORT_H
#define TUTTI_CLI_SIMULATE_SIMULATE_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "sim/sim.h"

/* Where a point of a sweep differs from the others: "ranks 64". */
typedef struct tt_simulate_coordinate {
    const char *name;
    const char *value;
} tt_simulate_coordinate;

typedef struct tt_simulate_point {
    const tt_job *job;
    const tt_job_result *result;
    const char *workload; /* as the user named it */
    const tt_simulate_coordinate *coordinates;
    size_t coordinate_count;
} tt_simulate_point;

/* Paragraphs about one job. */
void tt_simulate_print(const tt_simulate_point *point);

void tt_simulate_print_header(const tt_simulate_point *point);
void tt_simulate_print_row(const tt_simulate_point *point);

/* Its figures, as --json has them; the caller releases them. NULL: out of memory. */
json_t *tt_simulate_figures(const tt_simulate_point *point);
/* One object, on one line. False if it could not be written. */
bool tt_simulate_write_json(const tt_simulate_point *point, FILE *stream);

#endif
