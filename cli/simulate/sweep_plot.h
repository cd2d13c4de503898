/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_plot.h - a picture of a sweep (SVG): how long a step takes, and how efficient it is, over
 * one axis of the grid; a line for each point of the other axes.
 *
 * The horizontal axis is the first one whose values are numbers, else the first with several
 * values. The picture is written again and again while points are computed, so that an interrupted
 * sweep leaves one.
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  tt_sweep_plot_fini releases all.
 */
#ifndef TUTTI_CLI_SIMULATE_SWEEP_PLOT_H
#define TUTTI_CLI_SIMULATE_SWEEP_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/simulate/sweep.h"

enum { TT_SWEEP_PLOT_LINES_MAX = 16 };

typedef struct tt_sweep_plot_value {
    bool is_known;
    double step_ms, p5_ms, p95_ms, efficiency;
} tt_sweep_plot_value;

typedef struct tt_sweep_plot {
    const tt_sweep *sweep; /* borrowed */
    const char *path;      /* likewise */
    tt_text title;
    size_t axis;      /* the horizontal one */
    bool has_numbers; /* for values */
    double *places;   /* of its values, in [0, 1] */
    tt_sweep_plot_value *values;
    size_t known_count, written_count;
} tt_sweep_plot;

/* TT_ERR_BAD_ARGUMENT and `why`: there is no axis, or there are too many lines. All zeros and
 * failed ones can be given to fini. */
tt_status tt_sweep_plot_init(tt_sweep_plot *plot, const tt_sweep *sweep, const char *path,
                             tt_text *why);
/* Makes a title of what is the same at all points. */
typedef struct tt_sweep_plot_job {
    const char *graph, *cluster, *strategy;
    int64_t rank_count;
} tt_sweep_plot_job;

void tt_sweep_plot_describe(tt_sweep_plot *plot, const tt_sweep_plot_job *job);

/* The index-th point; writes the picture if a twentieth of its points is new. False, with errno: it
 * could not be written. */
bool tt_sweep_plot_add(tt_sweep_plot *plot, size_t index, const tt_sweep_plot_value *value);
/* Writes what is not written yet. */
bool tt_sweep_plot_finish(tt_sweep_plot *plot);
void tt_sweep_plot_fini(tt_sweep_plot *plot);

/* The picture of the points so far. */
void tt_sweep_plot_draw(const tt_sweep_plot *plot, FILE *stream);

#endif
