/* SPDX-License-Identifier: Apache-2.0
 *
 * variables.h - the TUTTI_* variables that launch/, mesh/ and the search for the secret read. The
 * command line prints them; misspelt variables are found by comparison with them.
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
