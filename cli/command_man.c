/* SPDX-License-Identifier: Apache-2.0
 *
 * command_man.c - `tutti man`: manual pages in roff, from the same tables that parse. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/library.h"
#include "tutti/tutti.h"

/* Hyphens stay hyphens, backslashes stay themselves, and no line begins with a request. */
static void put_text(const char *text)
{
    bool is_line_start = true;
    for (; *text != '\0'; text++) {
        if (is_line_start && (*text == '.' || *text == '\'')) {
            fputs("\\&", stdout);
        }
        is_line_start = *text == '\n';
        if (*text == '\n') {
            fputs("\n.PP\n", stdout);
        } else if (*text == '-' || *text == '\\') {
            fputs(*text == '-' ? "\\-" : "\\e", stdout);
        } else {
            fputc(*text, stdout);
        }
    }
    fputc('\n', stdout);
}

static void put_heading(const char *page)
{
    printf(".TH %s 1 \"\" \"Tutti %s\" \"Tutti Manual\"\n", page, tutti_version());
}

static void put_option(const tt_option *option)
{
    char text[96];
    tt_option_format(option, text, sizeof(text));
    fputs(".TP\n.B ", stdout);
    put_text(text + strspn(text, " "));
    put_text(option->help);
    if (option->default_text != NULL) {
        fputs(".br\nDefault: ", stdout);
        put_text(option->default_text);
    }
    if (option->aliases != NULL) {
        fputs(".br\nAlso: ", stdout);
        put_text(option->aliases);
    }
}

static void put_notes(const tt_command_note *notes)
{
    for (; notes != NULL && notes->term != NULL; notes++) {
        fputs(".TP\n.B ", stdout);
        put_text(notes->term);
        put_text(notes->text);
    }
}

static const tt_command_note common_environment[] = {
    {"COLUMNS", "Width of --help; default: the terminal's, else 80."},
    {NULL, NULL},
};

static const tt_command_note common_exit_status[] = {
    {"0", "Success."},
    {"1", "Failure; standard error names the cause and the cure."},
    {"2", "Wrong usage: an unknown option, a bad value, a surplus argument."},
    {NULL, NULL},
};

/* Every TUTTI_* variable, from the tables that the library reads. */
static void put_variables(void)
{
    tt_library_variable variable;
    for (size_t i = 0; tt_library_variable_at(i, &variable); i++) {
        fputs(".TP\n.B ", stdout);
        put_text(variable.name);
        put_text(variable.help);
        if (variable.default_text[0] != '\0') {
            fputs(".br\nDefault: ", stdout);
            put_text(variable.default_text);
        }
    }
}

static void put_examples(const tt_command_note *notes)
{
    for (; notes != NULL && notes->term != NULL; notes++) {
        fputs(".PP\n", stdout);
        put_text(notes->text);
        fputs(".PP\n.RS 4\n.nf\n", stdout);
        put_text(notes->term);
        fputs(".fi\n.RE\n", stdout);
    }
}

static void put_command_page(const tt_command *command)
{
    char page[64];
    snprintf(page, sizeof(page), "tutti-%s", command->name);
    put_heading(page);
    printf(".SH NAME\ntutti\\-%s \\- ", command->name);
    put_text(command->summary);
    printf(".SH SYNOPSIS\n.B tutti %s\n", command->name);
    if (command->option_count > 0) {
        fputs("[\\fIOPTION\\fR...]\n", stdout);
    }
    put_text(command->operands);
    fputs(".SH DESCRIPTION\n", stdout);
    put_text(command->description);
    if (command->option_count > 0) {
        fputs(".SH OPTIONS\n", stdout);
    }
    for (size_t i = 0; i < command->option_count; i++) {
        put_option(&command->options[i]);
    }
    fputs(".SH ENVIRONMENT\n", stdout);
    put_notes(command->environment);
    if (command == &tt_command_config) {
        put_variables();
    }
    put_notes(common_environment);
    fputs(".SH EXIT STATUS\n", stdout);
    put_notes(command->exit_status != NULL ? command->exit_status : common_exit_status);
    fputs(".SH EXAMPLES\n", stdout);
    put_examples(command->examples);
    fputs(".SH SEE ALSO\n.BR tutti (1)", stdout);
    fputs(command == &tt_command_config ? "\n" : ",\n.BR tutti\\-config (1)\n", stdout);
}

static void put_program_page(void)
{
    put_heading("tutti");
    fputs(".SH NAME\ntutti \\- gradient communication for data\\-parallel training\n"
          ".SH SYNOPSIS\n.B tutti\n\\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n"
          ".SH COMMANDS\n",
          stdout);
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        if (!tt_commands[i]->is_internal) {
            printf(".TP\n.BR tutti\\-%s (1)\n", tt_commands[i]->name);
            put_text(tt_commands[i]->summary);
        }
    }
    fputs(".SH ENVIRONMENT\n", stdout);
    put_notes(
        (const tt_command_note[]){{"TUTTI_*", "Configuration of the library, which jobs inherit; "
                                              "tutti-config(1) explains each."},
                                  {NULL, NULL}});
    put_notes(common_environment);
    fputs(".SH EXIT STATUS\n", stdout);
    put_notes(common_exit_status);
    fputs(".PP\n", stdout);
    put_text("tutti run returns the code of the first rank that failed; see tutti-run(1).");
    fputs(".SH EXAMPLES\n", stdout);
    put_examples(tt_command_run.examples);
    fputs(".SH SEE ALSO\n", stdout);
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        if (!tt_commands[i]->is_internal) {
            printf("%s.BR tutti\\-%s (1)", i > 0 ? ",\n" : "", tt_commands[i]->name);
        }
    }
    fputc('\n', stdout);
}

static int run(const void *values, int operand_count, char **operands)
{
    (void)values;
    if (operand_count == 0) {
        put_program_page();
        return 0;
    }
    const tt_command *command = tt_command_find(operands[0]);
    if (command == NULL) {
        fprintf(stderr, "tutti man: no command '%s'; 'tutti --help' lists them\n", operands[0]);
        return 2;
    }
    put_command_page(command);
    return 0;
}

static const tt_command_note examples[] = {
    {"tutti man run | man -l -", "Read the page of tutti run:"},
    {NULL, NULL},
};

const tt_command tt_command_man = {
    .name = "man",
    .summary = "Print a manual page.",
    .operands = "[COMMAND]",
    .operand_max = 1,
    .description = "Prints the page in roff; read it with: tutti man run | man -l -",
    .examples = examples,
    .run = run,
};
