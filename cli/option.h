/* SPDX-License-Identifier: Apache-2.0
 *
 * option.h - one table per subcommand; parsing, help, man pages and completion all come from it.
 *
 * Layer:   cli.
 * Threads: pure; errors are returned as text in the parse result.
 * Memory:  parsed strings point into argv; only lists are allocated, freed by tt_option_release.
 */
#ifndef TUTTI_CLI_OPTION_H
#define TUTTI_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef enum tt_option_kind {
    TT_OPTION_FLAG,    /* bool */
    TT_OPTION_INT,     /* int64_t, within [min, max] unless both are 0 */
    TT_OPTION_MAYBE,   /* the same; the value, after '=' only, may be left out: then it is 1 */
    TT_OPTION_BYTES,   /* uint64_t; suffixes K, M, G are powers of 1024 */
    TT_OPTION_SECONDS, /* double, not negative */
    TT_OPTION_RATE,    /* double, greater than 0 */
    TT_OPTION_STRING,  /* const char * */
    TT_OPTION_CHOICE,  /* int: place in `choices` */
    TT_OPTION_LIST,    /* tt_option_list; the option may be given several times */
} tt_option_kind;

typedef struct tt_option_list {
    const char **items;
    size_t count;
} tt_option_list;

typedef struct tt_option {
    char letter;      /* '\0': no short form */
    const char *name; /* long form without its dashes */
    tt_option_kind kind;
    size_t offset;          /* of the value in the command's struct of values */
    const char *value_name; /* for help; NULL for flags and choices */
    const char *help;
    const char *default_text; /* parsed like an argument; NULL: zero */
    const char *choices;      /* "core|none"; TT_OPTION_CHOICE only */
    const char *aliases;      /* other spellings with their dashes: "-np --num-proc" */
    int64_t min;
    int64_t max;
} tt_option;

/* A term and what it means, for the manual page. Lists end in {NULL, NULL}. */
typedef struct tt_command_note {
    const char *term;
    const char *text;
} tt_command_note;

typedef struct tt_command {
    const char *name;
    const char *summary;                /* one line */
    const char *operands;               /* as in usage: "PROGRAM [ARGUMENT...]"; "" for none */
    int operand_max;                    /* more are refused, unless `options_first` */
    const char *description;            /* paragraphs for the man page */
    const tt_command_note *environment; /* variables it reads, or NULL */
    const tt_command_note *exit_status; /* NULL: 0, 1 and 2 as everywhere */
    const tt_command_note *examples;    /* command lines */
    const tt_option *options;
    size_t option_count;
    size_t values_bytes;
    size_t given_offset; /* of a uint64_t in the values, with bit i where options[i] was given;
                          * 0: not kept */
    bool options_first;  /* words after the first operand are not parsed */
    bool is_internal;    /* not listed */
    /* Exit status of the program. `operands` has `operand_count` entries, then NULL. */
    int (*run)(const void *values, int operand_count, char **operands);
} tt_command;

typedef struct tt_option_result {
    int operand_count; /* operands are moved to the front of argv */
    bool wants_help;
    char error[256];
} tt_option_result;

/* Set defaults, then parse argv[0..argc) (without program and subcommand name).
 * TT_ERR_BAD_ARGUMENT: result_out->error has the cause and the cure. Release in both cases. */
tt_status tt_option_parse(const tt_command *command, void *values, int argc, char **argv,
                          tt_option_result *result_out);
void tt_option_release(const tt_command *command, void *values);

/* Of a command with given_offset. */
bool tt_option_is_given(const tt_command *command, const void *values, const char *name);

/* Replace values by those that were given in others of the same command, which has given_offset. */
void tt_option_override(const tt_command *command, void *values, const void *given_values);

/* `--name` or `-l`, with the name of its value, as help and man pages show it. */
void tt_option_format(const tt_option *option, char *text, size_t text_bytes);

/* One size with optional suffix. */
tt_status tt_option_parse_bytes(const char *text, uint64_t *bytes_out);

/* Lines are broken between words to fit `width` columns. */
void tt_option_print_help(const tt_command *command, int width, FILE *stream);

/* Words of `text` from column `at` on, each line that follows indented by `indent`; ends in a
 * newline. */
void tt_option_print_wrapped(const char *text, int at, int indent, int width, FILE *stream);

#endif
