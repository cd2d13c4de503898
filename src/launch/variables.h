/* SPDX-License-Identifier: Apache-2.0
 *
 * variables.h - the TUTTI_* variables that this folder and the secret's search read, for people:
 * the command line prints them, and misspelt ones are found by them.
 *
 * Layer:   launch.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_LAUNCH_VARIABLES_H
#define TUTTI_LAUNCH_VARIABLES_H

#include "base/config.h"

extern const tt_config_table tt_launch_launcher_variables; /* set by launchers, read by programs */
extern const tt_config_table tt_launch_user_variables;     /* set by users */

#endif
