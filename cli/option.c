/* SPDX-License-Identifier: Apache-2.0
 *
 * option.c - the parser over a command's option table.
 *
 * Spellings are tried in this order: long name, alias, single letter with its value attached.
 * Aliases carry their own dashes, so that Horovod's `-np 4` is not read as `-n p`. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/nearest.h"
#include "cli/allocate.h"
#include "cli/option.h"

typedef struct option_parser {
    const tt_command *command;
    void *values;
    int argc;
    char **argv;
    int next;
    tt_option_result *result;
} option_parser;

static tt_status __attribute__((format(printf, 2, 3)))
fail(option_parser *parser, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parser->result->error, sizeof(parser->result->error), format, arguments);
    va_end(arguments);
    return TT_ERR_BAD_ARGUMENT;
}

/* Whether `word` of `length` is one of the words of `list`; `*index_out` is its place. */
static bool word_find(const char *list, char separator, const char *word, int *index_out)
{
    const size_t length = strlen(word);
    int index = 0;
    while (list != NULL) {
        const char *end = strchr(list, separator);
        const size_t bytes = end != NULL ? (size_t)(end - list) : strlen(list);
        if (bytes == length && memcmp(list, word, length) == 0) {
            *index_out = index;
            return true;
        }
        list = end != NULL ? end + 1 : NULL;
        index++;
    }
    return false;
}

tt_status tt_option_parse_bytes(const char *text, uint64_t *bytes_out)
{
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9') {
        return TT_ERR_BAD_ARGUMENT;
    }
    const unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = 0;
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    end += shift != 0;
    if (shift != 0 && *end == 'i') {
        end++;
    }
    if (*end == 'B') {
        end++;
    }
    if (errno != 0 || *end != '\0' || number > (UINT64_MAX >> shift)) {
        return TT_ERR_BAD_ARGUMENT;
    }
    *bytes_out = (uint64_t)number << shift;
    return TT_OK;
}

static tt_status set_int(option_parser *parser, const tt_option *option, const char *text,
                         void *value)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        return fail(parser, "--%s: '%s' is not a whole number", option->name, text);
    }
    if ((option->min != 0 || option->max != 0) && (number < option->min || number > option->max)) {
        return fail(parser, "--%s: %lld is not between %lld and %lld", option->name, number,
                    (long long)option->min, (long long)option->max);
    }
    *(int64_t *)value = number;
    return TT_OK;
}

static tt_status set_seconds(option_parser *parser, const tt_option *option, const char *text,
                             void *value)
{
    char *end;
    const double number = strtod(text, &end);
    if (end == text || (*end != '\0' && strcmp(end, "s") != 0) || !isfinite(number) || number < 0) {
        return fail(parser, "--%s: '%s' is not a number of seconds", option->name, text);
    }
    *(double *)value = number;
    return TT_OK;
}

static tt_status set_rate(option_parser *parser, const tt_option *option, const char *text,
                          void *value)
{
    char *end;
    const double number = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(number) || number <= 0) {
        return fail(parser, "--%s: '%s' is not a number greater than 0", option->name, text);
    }
    *(double *)value = number;
    return TT_OK;
}

static tt_status list_append(option_parser *parser, const char *text, tt_option_list *list)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof(*items));
    if (items == NULL) {
        return fail(parser, "out of memory");
    }
    items[list->count] = text;
    list->items = items;
    list->count++;
    return TT_OK;
}

static tt_status set_value(option_parser *parser, const tt_option *option, const char *text)
{
    void *value = (char *)parser->values + option->offset;
    switch (option->kind) {
    case TT_OPTION_FLAG:
        *(bool *)value = true;
        return TT_OK;
    case TT_OPTION_INT:
    case TT_OPTION_MAYBE:
        return set_int(parser, option, text, value);
    case TT_OPTION_SECONDS:
        return set_seconds(parser, option, text, value);
    case TT_OPTION_RATE:
        return set_rate(parser, option, text, value);
    case TT_OPTION_BYTES:
        if (tt_option_parse_bytes(text, value) != TT_OK) {
            return fail(parser, "--%s: '%s' is not a size such as 4096, 64K or 1G", option->name,
                        text);
        }
        return TT_OK;
    case TT_OPTION_STRING:
        *(const char **)value = text;
        return TT_OK;
    case TT_OPTION_CHOICE:
        if (!word_find(option->choices, '|', text, value)) {
            return fail(parser, "--%s: '%s' is not one of %s", option->name, text, option->choices);
        }
        return TT_OK;
    case TT_OPTION_LIST:
        return list_append(parser, text, value);
    }
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status unknown_option(option_parser *parser, const char *word)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "--", word);
    for (size_t i = 0; i < parser->command->option_count; i++) {
        tt_nearest_offer(&nearest, parser->command->options[i].name);
    }
    tt_nearest_offer(&nearest, "help");
    if (nearest.best[0] != '\0') {
        return fail(parser, "unknown option '%s'; did you mean '%s'?", word, nearest.best);
    }
    return fail(parser, "unknown option '%s'; 'tutti %s --help' lists them", word,
                parser->command->name);
}

/* The option spelled exactly `word`, dashes included. */
static const tt_option *find_spelling(const tt_command *command, const char *word)
{
    int unused;
    for (size_t i = 0; i < command->option_count; i++) {
        const tt_option *option = &command->options[i];
        const bool is_long = strncmp(word, "--", 2) == 0 && strcmp(word + 2, option->name) == 0;
        const bool is_letter = word[1] == option->letter && word[1] != '\0' && word[2] == '\0';
        if (is_long || is_letter || word_find(option->aliases, ' ', word, &unused)) {
            return option;
        }
    }
    return NULL;
}

static const tt_option *find_letter(const tt_command *command, char letter)
{
    for (size_t i = 0; i < command->option_count; i++) {
        if (command->options[i].letter == letter) {
            return &command->options[i];
        }
    }
    return NULL;
}

/* The value after `=`, attached to a letter, or in the next argument. */
static tt_status take_value(option_parser *parser, const tt_option *option, const char *attached)
{
    if (option->kind == TT_OPTION_FLAG) {
        return attached == NULL ? set_value(parser, option, NULL)
                                : fail(parser, "--%s takes no value", option->name);
    }
    if (option->kind == TT_OPTION_MAYBE) {
        return set_value(parser, option, attached != NULL ? attached : "1");
    }
    if (attached == NULL && parser->next == parser->argc) {
        return fail(parser, "--%s needs a value", option->name);
    }
    return set_value(parser, option, attached != NULL ? attached : parser->argv[parser->next++]);
}

static uint64_t *given_of(const tt_command *command, void *values)
{
    return (void *)((char *)values + command->given_offset);
}

static tt_status take_option(option_parser *parser, const tt_option *option, const char *attached)
{
    if (parser->command->given_offset > 0) {
        *given_of(parser->command, parser->values) |= UINT64_C(1)
                                                      << (option - parser->command->options);
    }
    return take_value(parser, option, attached);
}

static tt_status parse_option(option_parser *parser, char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        parser->result->wants_help = true;
        return TT_OK;
    }
    char spelling[64];
    const char *equals = strchr(word, '=');
    const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    snprintf(spelling, sizeof(spelling), "%.*s", (int)(length < 63 ? length : 63), word);
    const tt_option *option = find_spelling(parser->command, spelling);
    if (option != NULL) {
        return take_option(parser, option, equals != NULL ? equals + 1 : NULL);
    }
    option = word[1] != '-' ? find_letter(parser->command, word[1]) : NULL;
    if (option == NULL || option->kind == TT_OPTION_FLAG) {
        return unknown_option(parser, spelling);
    }
    return take_option(parser, option, word + 2);
}

static tt_status set_defaults(option_parser *parser)
{
    memset(parser->values, 0, parser->command->values_bytes);
    for (size_t i = 0; i < parser->command->option_count; i++) {
        const tt_option *option = &parser->command->options[i];
        if (option->default_text != NULL) {
            TT_TRY(set_value(parser, option, option->default_text));
        }
    }
    return TT_OK;
}

static void keep_operands(option_parser *parser)
{
    while (parser->next < parser->argc) {
        parser->argv[parser->result->operand_count++] = parser->argv[parser->next++];
    }
}

tt_status tt_option_parse(const tt_command *command, void *values, int argc, char **argv,
                          tt_option_result *result_out)
{
    memset(result_out, 0, sizeof(*result_out));
    TT_ASSERT(command->given_offset == 0 || command->option_count <= 64);
    option_parser parser = {command, values, argc, argv, 0, result_out};
    TT_TRY(set_defaults(&parser));
    while (parser.next < argc && !result_out->wants_help) {
        char *word = argv[parser.next++];
        if (strcmp(word, "--") == 0) {
            keep_operands(&parser);
        } else if (word[0] == '-' && word[1] != '\0') {
            TT_TRY(parse_option(&parser, word));
        } else {
            argv[result_out->operand_count++] = word;
            if (command->options_first) {
                keep_operands(&parser);
            }
        }
    }
    argv[result_out->operand_count] = NULL;
    if (result_out->operand_count > command->operand_max && !command->options_first &&
        !result_out->wants_help) {
        return fail(&parser, "unexpected argument '%.100s'; 'tutti %s --help' shows the usage",
                    argv[command->operand_max], command->name);
    }
    return TT_OK;
}

void tt_option_release(const tt_command *command, void *values)
{
    for (size_t i = 0; i < command->option_count; i++) {
        if (command->options[i].kind == TT_OPTION_LIST) {
            tt_option_list *list = (void *)((char *)values + command->options[i].offset);
            free(list->items);
            *list = (tt_option_list){NULL, 0};
        }
    }
}

bool tt_option_is_given(const tt_command *command, const void *values, const char *name)
{
    uint64_t given;
    memcpy(&given, (const char *)values + command->given_offset, sizeof(given));
    for (size_t i = 0; i < command->option_count; i++) {
        if (strcmp(command->options[i].name, name) == 0) {
            return (given >> i & 1) != 0;
        }
    }
    return false;
}

static void override_list(tt_option_list *list, const tt_option_list *given)
{
    tt_option_list copy = {tt_cli_allocate(given->count, sizeof(*copy.items)), given->count};
    memcpy(copy.items, given->items, given->count * sizeof(*copy.items));
    free(list->items);
    *list = copy;
}

void tt_option_override(const tt_command *command, void *values, const void *given_values)
{
    static const size_t bytes[] = {
        [TT_OPTION_FLAG] = sizeof(bool),      [TT_OPTION_INT] = sizeof(int64_t),
        [TT_OPTION_MAYBE] = sizeof(int64_t),  [TT_OPTION_BYTES] = sizeof(uint64_t),
        [TT_OPTION_SECONDS] = sizeof(double), [TT_OPTION_RATE] = sizeof(double),
        [TT_OPTION_STRING] = sizeof(char *),  [TT_OPTION_CHOICE] = sizeof(int)};
    uint64_t given;
    memcpy(&given, (const char *)given_values + command->given_offset, sizeof(given));
    for (size_t i = 0; i < command->option_count; i++) {
        const tt_option *option = &command->options[i];
        void *value = (char *)values + option->offset;
        const void *other = (const char *)given_values + option->offset;
        if ((given >> i & 1) == 0) {
            continue;
        }
        if (option->kind == TT_OPTION_LIST) {
            override_list(value, other);
        } else {
            memcpy(value, other, bytes[option->kind]);
        }
    }
    *given_of(command, values) |= given;
}

void tt_option_format(const tt_option *option, char *text, size_t text_bytes)
{
    char letter[5] = "    ";
    if (option->letter != '\0') {
        snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    }
    const char *value = option->kind == TT_OPTION_CHOICE ? option->choices : option->value_name;
    if (option->kind == TT_OPTION_MAYBE) {
        snprintf(text, text_bytes, "%s--%s[=%s]", letter, option->name, value);
        return;
    }
    snprintf(text, text_bytes, "%s--%s%s%s", letter, option->name, value != NULL ? " " : "",
             value != NULL ? value : "");
}

void tt_option_print_wrapped(const char *text, int at, int indent, int width, FILE *stream)
{
    bool is_line_start = true;
    while (text[0] != '\0') {
        const int length = (int)strcspn(text, " \n");
        if (!is_line_start && at + 1 + length > width) {
            fprintf(stream, "\n%*s", indent, "");
            at = indent;
            is_line_start = true;
        }
        fprintf(stream, "%s%.*s", is_line_start ? "" : " ", length, text);
        at += length + !is_line_start;
        is_line_start = false;
        text += length;
        if (text[0] == '\n') {
            fprintf(stream, "\n%*s", indent, "");
            at = indent;
            is_line_start = true;
        }
        text += text[0] != '\0';
    }
    fputc('\n', stream);
}

static void print_option(const tt_option *option, int width, FILE *stream)
{
    enum { NAME_COLUMN = 2, HELP_COLUMN = 34, TEXT_BYTES = 512 };
    char name[96];
    char text[TEXT_BYTES];
    tt_option_format(option, name, sizeof(name));
    snprintf(text, sizeof(text), "%s%s%s%s%s%s", option->help,
             option->default_text != NULL ? " (default " : "",
             option->default_text != NULL ? option->default_text : "",
             option->default_text != NULL ? ")" : "", option->aliases != NULL ? "; also " : "",
             option->aliases != NULL ? option->aliases : "");
    const int indent = width >= 2 * HELP_COLUMN ? HELP_COLUMN : 8; /* narrow: help below its name */
    fprintf(stream, "%*s%s", NAME_COLUMN, "", name);
    const int used = NAME_COLUMN + (int)strlen(name);
    if (used < indent) {
        fprintf(stream, "%*s", indent - used, "");
    } else {
        fprintf(stream, "\n%*s", indent, "");
    }
    tt_option_print_wrapped(text, indent, indent, width, stream);
}

void tt_option_print_help(const tt_command *command, int width, FILE *stream)
{
    fprintf(stream, "usage: tutti %s%s%s%s\n\n", command->name,
            command->option_count > 0 ? " [OPTION...]" : "",
            command->operands[0] != '\0' ? " " : "", command->operands);
    tt_option_print_wrapped(command->summary, 0, 0, width, stream);
    if (command->option_count > 0) {
        fprintf(stream, "\noptions:\n");
    }
    for (size_t i = 0; i < command->option_count; i++) {
        print_option(&command->options[i], width, stream);
    }
    fprintf(stream, "\n'tutti man %s | man -l -' shows the manual page.\n", command->name);
}
