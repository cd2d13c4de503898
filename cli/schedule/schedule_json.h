/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_json.h - a policy's plan and the step under it, as a line of JSON.
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_SCHEDULE_SCHEDULE_JSON_H
#define TUTTI_CLI_SCHEDULE_SCHEDULE_JSON_H

#include <stdbool.h>
#include <stdio.h>

#include "model/model.h"

typedef struct tt_schedule_row {
    const char *graph; /* as the user named it */
    const tt_policy *policy;
    const tt_wire *wire;
    const tt_timetable *plan;
    const tt_evaluation *evaluation;
} tt_schedule_row;

/* False if it could not be written. */
bool tt_schedule_write_json(const tt_schedule_row *row, FILE *stream);

#endif
