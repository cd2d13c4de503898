/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.h - the points of a grid: "ranks=8,64,512", "network.bandwidth_gbs=1,10".
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  a sweep has copies of its texts; tt_sweep_fini releases them.
 */
#ifndef TUTTI_CLI_SIMULATE_SWEEP_H
#define TUTTI_CLI_SIMULATE_SWEEP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

enum { TT_SWEEP_AXES_MAX = 4, TT_SWEEP_VALUES_MAX = 1000, TT_SWEEP_POINTS_MAX = 10000 };

typedef struct tt_sweep_axis {
    char *name;
    char **values;
    size_t value_count;
} tt_sweep_axis;

typedef struct tt_sweep {
    tt_sweep_axis axes[TT_SWEEP_AXES_MAX];
    size_t axis_count;
} tt_sweep;

/* Append an axis. TT_ERR_BAD_ARGUMENT and `why`: culprit, cause, cure. */
tt_status tt_sweep_add(tt_sweep *sweep, const char *text, tt_text *why);
void tt_sweep_fini(tt_sweep *sweep);

/* 1 without axes. */
size_t tt_sweep_point_count(const tt_sweep *sweep);
/* Of the index-th point; the last axis varies fastest. */
const char *tt_sweep_value(const tt_sweep *sweep, size_t point, size_t axis);

#endif
