/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.c - every subcommand, in the order help shows them. */
#include <string.h>

#include "cli/commands.h"

const tt_command *const tt_commands[] = {
    &tt_command_run,
    &tt_command_server,
    &tt_command_bench,
    &tt_command_schedule,
    &tt_command_simulate,
    &tt_command_cluster,
    &tt_command_codec,
    &tt_command_info,
    &tt_command_env,
    &tt_command_doctor,
    &tt_command_config,
    &tt_command_plugin,
    &tt_command_man,
    &tt_command_completion,
    &tt_command_version,
    &tt_command_supervise,
    NULL,
};

const tt_command *tt_command_find(const char *name)
{
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        if (strcmp(tt_commands[i]->name, name) == 0) {
            return tt_commands[i];
        }
    }
    return NULL;
}
