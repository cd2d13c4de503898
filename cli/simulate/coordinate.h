/* SPDX-License-Identifier: Apache-2.0
 *
 * coordinate.h - settings of a job by name, as a sweep varies them.
 *
 * Layer:   cli.
 * Threads: pure, but for the reading of a cluster's file.
 * Memory:  none kept; a job borrows the name of an algorithm.
 */
#ifndef TUTTI_CLI_SIMULATE_COORDINATE_H
#define TUTTI_CLI_SIMULATE_COORDINATE_H

#include "sim/sim.h"

/* TT_ERR_BAD_ARGUMENT and `why`, with the nearest name. */
tt_status tt_coordinate_strategy(const char *name, tt_text *why, const tt_strategy **strategy_out);

/* Of the job, or a field of its cluster. TT_ERR_BAD_ARGUMENT and `why`. */
tt_status tt_coordinate_set(tt_job *job, tt_cluster *cluster, const char *name, const char *value,
                            tt_text *why);

/* TT_ERR_BAD_ARGUMENT and `why`: the strategy has no use for a setting, and no figure shall be
 * mistaken for another one. */
tt_status tt_coordinate_check(const tt_job *job, tt_text *why);

#endif
