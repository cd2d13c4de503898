/* SPDX-License-Identifier: Apache-2.0
 *
 * command_server.c - `tutti server`: this process is a server of its job. */
#include <stdio.h>

#include "cli/commands.h"
#include "tutti/store.h"

static int run(const void *values, int operand_count, char **operands)
{
    (void)values;
    (void)operand_count;
    (void)operands;
    if (tutti_server_run(NULL) != TUTTI_OK) {
        fprintf(stderr, "tutti server: %s\n", tutti_last_error(NULL));
        return 1;
    }
    return 0;
}

static const tt_command_note environment[] = {
    {"TUTTI_SERVERS", "How many of the job's processes, the last ones, are servers. The same on "
                      "all of them, workers included."},
    {"TUTTI_ROLE", "If set: server, or this process is refused."},
    {"TUTTI_LOG", "At info, the server logs when it is ready and when it ends."},
    {"TUTTI_*, variables of launchers", "As for workers: tutti-config(1), tutti-env(1)."},
    {NULL, NULL},
};

static const tt_command_note exit_status[] = {
    {"0", "The last worker has left or died."},
    {"1", "The server could not join; standard error names the cause."},
    {"2", "Wrong usage."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"TUTTI_SERVERS=2 mpirun -n 4 ./train : -n 2 tutti server",
     "Four workers and two servers under MPICH:"},
    {"tutti run -n 4 --servers 2 ./train", "The same job; tutti run starts the servers itself:"},
    {NULL, NULL},
};

const tt_command tt_command_server = {
    .name = "server",
    .summary = "Be a server of a job: one of its last processes, beside the workers.",
    .operands = "",
    .description =
        "Joins the job whose variables a launcher has set and serves until the last worker has "
        "left or died. TUTTI_SERVERS must be set, to the same number, on every process of the job. "
        "A server takes part in no collective: if it dies, the workers' collectives go on.",
    .environment = environment,
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
