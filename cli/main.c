/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the tutti program: find the subcommand, parse its options, run it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/nearest.h"
#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/environment.h"

enum { EXIT_USAGE = 2, WIDTH_DEFAULT = 80, WIDTH_MIN = 40, NAME_WIDTH = 12 };

/* Columns for help: COLUMNS, else the terminal's, else 80. */
static int help_width(void)
{
    struct winsize size;
    const char *given = tt_environment_get("COLUMNS");
    int width = given != NULL ? atoi(given) : 0;
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
        width = size.ws_col;
    }
    return width <= 0 ? WIDTH_DEFAULT : width < WIDTH_MIN ? WIDTH_MIN : width;
}

static void print_overview(FILE *stream)
{
    fputs("usage: tutti COMMAND [OPTION...] [ARGUMENT...]\n\ncommands:\n", stream);
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        if (!tt_commands[i]->is_internal) {
            fprintf(stream, "  %-*s", NAME_WIDTH, tt_commands[i]->name);
            tt_option_print_wrapped(tt_commands[i]->summary, 2 + NAME_WIDTH, 2 + NAME_WIDTH,
                                    help_width(), stream);
        }
    }
    fputs("\n'tutti COMMAND --help' explains each.\n", stream);
}

static int unknown_command(const char *name)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        if (!tt_commands[i]->is_internal) {
            tt_nearest_offer(&nearest, tt_commands[i]->name);
        }
    }
    if (nearest.best[0] != '\0') {
        fprintf(stderr, "tutti: unknown command '%s'; did you mean '%s'?\n", name, nearest.best);
    } else {
        fprintf(stderr, "tutti: unknown command '%s'; 'tutti --help' lists them\n", name);
    }
    return EXIT_USAGE;
}

static int run_command(const tt_command *command, int argc, char **argv)
{
    void *values = tt_cli_allocate(1, command->values_bytes + 1);
    tt_option_result result;
    int code = EXIT_USAGE;
    if (tt_option_parse(command, values, argc, argv, &result) != TT_OK) {
        fprintf(stderr, "tutti %s: %s\n", command->name, result.error);
    } else if (result.wants_help) {
        tt_option_print_help(command, help_width(), stdout);
        code = 0;
    } else {
        code = command->run(values, result.operand_count, argv);
    }
    tt_option_release(command, values);
    free(values);
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_overview(stdout);
        return 0;
    }
    const tt_command *command = tt_command_find(strcmp(name, "--version") == 0 ? "version" : name);
    if (command == NULL) {
        return unknown_command(name);
    }
    const int code = run_command(command, argc - 2, argv + 2);
    if (fflush(stdout) != 0) {
        return code != 0 ? code : 1;
    }
    return code;
}
