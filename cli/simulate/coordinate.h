/* SPDX-License-Identifier: Apache-2.0
 *
 * coordinate.h - options of a job by name, as a sweep varies them.
 *
 * Layer:   cli.
 * Threads: pure.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_SIMULATE_COORDINATE_H
#define TUTTI_CLI_SIMULATE_COORDINATE_H

#include "cli/simulate/scenario_file.h"
#include "cli/simulate/simulate_report.h"
#include "sim/sim.h"

/* TT_ERR_BAD_ARGUMENT and `why`, with the nearest name. */
tt_status tt_coordinate_strategy(const char *name, tt_text *why, const tt_strategy **strategy_out);

/* Set an option of the rules' command in its values; a text is borrowed. Options that a scenario
 * may not have, and those of several values, cannot be set. TT_ERR_BAD_ARGUMENT and `why`. */
tt_status tt_coordinate_set(const tt_scenario_rules *rules, void *values,
                            const tt_simulate_coordinate *coordinate, tt_text *why);

/* TT_ERR_BAD_ARGUMENT and `why`: the strategy has no use for a setting, and no figure shall be
 * mistaken for another one. */
tt_status tt_coordinate_check(const tt_job *job, tt_text *why);

#endif
