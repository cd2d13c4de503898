/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_plot.h - Gantt pictures of evaluated plans, as SVG.
 *
 * Layer:   cli.
 * Threads: one at a time.
 * Memory:  grows with the recorded spans; freed by tt_plot_fini.
 */
#ifndef TUTTI_CLI_SCHEDULE_SCHEDULE_PLOT_H
#define TUTTI_CLI_SCHEDULE_SCHEDULE_PLOT_H

#include <stdio.h>

#include "model/model.h"

/* One panel: a plan and the spans of its evaluation. */
typedef struct tt_plot_panel {
    char title[160];
    const tt_timetable *plan;
    tt_interval *spans;
    size_t span_count;
    size_t span_capacity;
} tt_plot_panel;

/* A tt_span_fn: record spans of the steps that are shown; `user` is a panel. */
void tt_plot_note(void *user, const tt_interval *span);
void tt_plot_fini(tt_plot_panel *panel);

/* All panels below each other, on one scale of time. False if it could not be written. */
bool tt_plot_write(FILE *stream, const tt_plot_panel *panels, size_t panel_count);

#endif
