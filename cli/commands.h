/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.h - the one list of subcommands.
 *
 * Layer:   cli.
 * Threads: const.
 */
#ifndef TUTTI_CLI_COMMANDS_H
#define TUTTI_CLI_COMMANDS_H

#include "cli/option.h"

extern const tt_command tt_command_bench;
extern const tt_command tt_command_cluster;
extern const tt_command tt_command_simulate;
extern const tt_command tt_command_codec;
extern const tt_command tt_command_completion;
extern const tt_command tt_command_config;
extern const tt_command tt_command_doctor;
extern const tt_command tt_command_env;
extern const tt_command tt_command_info;
extern const tt_command tt_command_man;
extern const tt_command tt_command_plugin;
extern const tt_command tt_command_run;
extern const tt_command tt_command_schedule;
extern const tt_command tt_command_server;
extern const tt_command tt_command_supervise;
extern const tt_command tt_command_version;

/* NULL after the last. */
extern const tt_command *const tt_commands[];

const tt_command *tt_command_find(const char *name);

#endif
