/* SPDX-License-Identifier: Apache-2.0
 *
 * command_completion.c - `tutti completion`: scripts for shells, from the same tables that parse.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/commands.h"

typedef struct shell {
    const char *name;
    void (*print)(void);
} shell;

static bool wants_file(const tt_option *option)
{
    return option->value_name != NULL &&
           (strcmp(option->value_name, "FILE") == 0 || strcmp(option->value_name, "PATH") == 0 ||
            strcmp(option->value_name, "FOLDER") == 0);
}

static void put_replaced(const char *text, char from, const char *to)
{
    for (; *text != '\0'; text++) {
        if (*text == from) {
            fputs(to, stdout);
        } else {
            fputc(*text, stdout);
        }
    }
}

static void put_command_names(void)
{
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        if (!tt_commands[i]->is_internal) {
            printf("%s ", tt_commands[i]->name);
        }
    }
}

static void put_bash_command(const tt_command *command)
{
    printf("    %s)\n        case $before in\n", command->name);
    for (size_t i = 0; i < command->option_count; i++) {
        const tt_option *option = &command->options[i];
        if (option->kind == TT_OPTION_CHOICE) {
            printf("        --%s) COMPREPLY=($(compgen -W '", option->name);
            put_replaced(option->choices, '|', " ");
            fputs("' -- \"$word\")); return ;;\n", stdout);
        } else if (wants_file(option)) {
            printf("        --%s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n",
                   option->name);
        }
    }
    fputs("        esac\n        options='--help", stdout);
    for (size_t i = 0; i < command->option_count; i++) {
        printf(" --%s", command->options[i].name);
    }
    fputs("'\n        ;;\n", stdout);
}

static void print_bash(void)
{
    fputs("_tutti() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '",
          stdout);
    put_command_names();
    fputs("' -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", stdout);
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        if (!tt_commands[i]->is_internal) {
            put_bash_command(tt_commands[i]);
        }
    }
    fputs("    esac\n"
          "    case $word in\n"
          "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
          "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
          "    esac\n}\ncomplete -F _tutti tutti\n",
          stdout);
}

static void put_zsh_option(const tt_option *option)
{
    printf("            '--%s[", option->name);
    for (const char *text = option->help; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else if (strchr("[]:", *text) != NULL) {
            printf("\\%c", *text);
        } else {
            fputc(*text, stdout);
        }
    }
    fputc(']', stdout);
    if (option->kind == TT_OPTION_CHOICE) {
        printf(":%s:(", option->name);
        put_replaced(option->choices, '|', " ");
        fputc(')', stdout);
    } else if (option->kind != TT_OPTION_FLAG && option->kind != TT_OPTION_MAYBE) {
        printf(":%s:%s", option->name, wants_file(option) ? "_files" : " ");
    }
    fputs("' \\\n", stdout);
}

static void print_zsh(void)
{
    fputs("#compdef tutti\n_tutti() {\n    if (( CURRENT == 2 )); then\n        compadd ", stdout);
    put_command_names();
    fputs("\n        return\n    fi\n    case $words[2] in\n", stdout);
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        const tt_command *command = tt_commands[i];
        if (command->is_internal) {
            continue;
        }
        printf("    %s)\n        shift words; (( CURRENT-- ))\n        _arguments \\\n",
               command->name);
        for (size_t j = 0; j < command->option_count; j++) {
            put_zsh_option(&command->options[j]);
        }
        fputs("            '--help[explain the options]' \\\n            '*::argument:_normal'\n"
              "        ;;\n",
              stdout);
    }
    fputs("    esac\n}\ncompdef _tutti tutti\n", stdout);
}

static void put_fish_option(const tt_command *command, const tt_option *option)
{
    printf("complete -c tutti -n '__fish_seen_subcommand_from %s' -l %s", command->name,
           option->name);
    if (option->letter != '\0') {
        printf(" -s %c", option->letter);
    }
    if (option->kind == TT_OPTION_CHOICE) {
        fputs(" -x -a '", stdout);
        put_replaced(option->choices, '|', " ");
        fputc('\'', stdout);
    } else if (option->kind != TT_OPTION_FLAG && option->kind != TT_OPTION_MAYBE) {
        fputs(wants_file(option) ? " -r" : " -x", stdout);
    }
    fputs(" -d '", stdout);
    put_replaced(option->help, '\'', "\\'");
    fputs("'\n", stdout);
}

static void print_fish(void)
{
    for (size_t i = 0; tt_commands[i] != NULL; i++) {
        const tt_command *command = tt_commands[i];
        if (command->is_internal) {
            continue;
        }
        printf("complete -c tutti -f -n __fish_use_subcommand -a %s -d '", command->name);
        put_replaced(command->summary, '\'', "\\'");
        fputs("'\n", stdout);
        for (size_t j = 0; j < command->option_count; j++) {
            put_fish_option(command, &command->options[j]);
        }
    }
}

static int run(const void *values, int operand_count, char **operands)
{
    (void)values;
    static const shell shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; operand_count == 1 && i < TT_ARRAY_COUNT(shells); i++) {
        if (strcmp(shells[i].name, operands[0]) == 0) {
            shells[i].print();
            return 0;
        }
    }
    fputs("tutti completion: name one shell: bash, zsh or fish\n", stderr);
    return 2;
}

static const tt_command_note examples[] = {
    {"source <(tutti completion bash)", "In bash, for this shell:"},
    {"tutti completion zsh > ~/.zfunc/_tutti", "In zsh, in a folder of fpath:"},
    {"tutti completion fish | source", "In fish:"},
    {NULL, NULL},
};

const tt_command tt_command_completion = {
    .name = "completion",
    .summary = "Print a completion script for a shell.",
    .operands = "bash|zsh|fish",
    .operand_max = 1,
    .description = "For bash: source <(tutti completion bash)",
    .examples = examples,
    .run = run,
};
