/* SPDX-License-Identifier: Apache-2.0
 *
 * command_version.c - `tutti version`. */
#include <stdio.h>

#include "cli/commands.h"
#include "tutti/tutti.h"

static int run(const void *values, int operand_count, char **operands)
{
    (void)values;
    (void)operand_count;
    (void)operands;
    printf("tutti %s\n", tutti_version());
    return 0;
}

static const tt_command_note examples[] = {
    {"ssh node2 tutti version", "Is the same version on another host?"},
    {NULL, NULL},
};

const tt_command tt_command_version = {
    .name = "version",
    .summary = "Print the version of the library.",
    .operands = "",
    .description = "Prints the version of the library this program runs with.",
    .examples = examples,
    .run = run,
};
