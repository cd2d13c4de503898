/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_file.c - see scenario_file.h. Members become the words of a command line, and are parsed
 * as such, one option at a time, so that an error has a line. */
#include "cli/simulate/scenario_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/nearest.h"
#include "cli/allocate.h"
#include "cli/cluster/json_line.h"
#include "cli/file_text.h"

enum {
    SCENARIO_BYTES_MAX = 1 << 20,
    PATH_SHOWN = 200,
    WORD_SHOWN = 60,
    WORDS_MAX = 256,
    WORD_BYTES_MAX = 1 << 16,
};

typedef struct scenario_reader {
    const tt_scenario_rules *rules;
    const tt_scenario_text *source;
    tt_text *why;
    char *words[WORDS_MAX];
    size_t word_count;
    char word[WORD_BYTES_MAX]; /* that is made */
    size_t word_bytes;
    bool is_cut;
} scenario_reader;

/* ---- errors ---- */

void tt_scenario_place(const tt_scenario_text *source, const char *const *steps, size_t step_count,
                       tt_text *text)
{
    const char *all[2 * TT_SCENARIO_STEPS_MAX];
    size_t count = source->step_count;
    int line = 0;
    for (size_t i = 0; i < count; i++) {
        all[i] = source->steps[i];
    }
    for (size_t i = 0; i < step_count && i < TT_SCENARIO_STEPS_MAX; i++) {
        all[count++] = steps[i];
    }
    for (; count > 0 && line == 0; count--) {
        line = tt_json_path_line(source->text, source->bytes, all, count);
    }
    tt_text_add_words(text, source->path, PATH_SHOWN);
    tt_text_add(text, ":%d: ", line > 0 ? line : 1);
}

/* An error about a member, or about a member of it; both may be NULL. */
__attribute__((format(printf, 4, 5))) static tt_status
refuse(scenario_reader *reader, const char *outer, const char *inner, const char *format, ...)
{
    const char *const steps[] = {outer, inner};
    const size_t count = outer == NULL ? 0 : inner == NULL ? 1 : 2;
    va_list arguments;
    tt_scenario_place(reader->source, steps, count, reader->why);
    va_start(arguments, format);
    tt_text_add_list(reader->why, format, arguments);
    va_end(arguments);
    return TT_ERR_BAD_CONFIG;
}

static bool is_listed(const char *const *names, const char *name)
{
    for (; *names != NULL; names++) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
    }
    return false;
}

bool tt_scenario_can_vary(const tt_scenario_rules *rules, const tt_option *option)
{
    return option->kind != TT_OPTION_LIST && !is_listed(rules->refused, option->name);
}

static tt_status refuse_unknown(scenario_reader *reader, const char *name)
{
    const tt_command *command = reader->rules->command;
    tt_text shown = {.length = 0};
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    tt_nearest_offer(&nearest, "summary");
    for (size_t i = 0; i < command->option_count; i++) {
        if (!is_listed(reader->rules->refused, command->options[i].name)) {
            tt_nearest_offer(&nearest, command->options[i].name);
        }
    }
    tt_text_add_quoted(&shown, name, WORD_SHOWN);
    if (nearest.best[0] != '\0') {
        return refuse(reader, name, NULL, "unknown field %s; did you mean %s", shown.bytes,
                      nearest.best);
    }
    return refuse(reader, name, NULL,
                  "unknown field %s; fields are named as the options of 'tutti %s --help'",
                  shown.bytes, command->name);
}

/* ---- words ---- */

static void word_begin(scenario_reader *reader)
{
    reader->word_bytes = 0;
    reader->is_cut = false;
}

static void word_add(scenario_reader *reader, const char *text)
{
    const size_t bytes = strlen(text);
    if (bytes >= sizeof(reader->word) - reader->word_bytes) {
        reader->is_cut = true;
        return;
    }
    memcpy(reader->word + reader->word_bytes, text, bytes + 1);
    reader->word_bytes += bytes;
}

static bool is_one_line(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool names_file(const char *text)
{
    const char *dot = strrchr(text, '.');
    return strchr(text, '/') != NULL ||
           (dot != NULL && (strcmp(dot, ".json") == 0 || strcmp(dot, ".tsv") == 0));
}

/* Files are found from the folder of the scenario. */
static void add_text(scenario_reader *reader, const char *option, const char *text)
{
    const char *path = reader->source->path;
    const char *slash = strrchr(path, '/');
    if (is_listed(reader->rules->files, option) && names_file(text) && text[0] != '/') {
        for (const char *at = path; slash != NULL && at <= slash; at++) {
            word_add(reader, (const char[]){*at, '\0'});
        }
    }
    word_add(reader, text);
}

/* False: it is no number, text or truth, or not on one line. */
static bool add_scalar(scenario_reader *reader, const char *option, const json_t *value)
{
    tt_text number = {.length = 0};
    if (json_is_string(value)) {
        add_text(reader, option, json_string_value(value));
        return is_one_line(json_string_value(value)) && json_string_length(value) > 0;
    }
    if (json_is_integer(value)) {
        tt_text_add(&number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        tt_text_add_real(&number, json_real_value(value));
    } else {
        return false;
    }
    word_add(reader, number.bytes);
    return true;
}

/* The word is parsed alone, so that the error is about it. */
static tt_status word_end(scenario_reader *reader, const char *outer, const char *inner)
{
    const tt_command *command = reader->rules->command;
    tt_option_result result;
    char *argv[] = {reader->word, NULL};
    if (reader->is_cut || reader->word_count == WORDS_MAX) {
        return refuse(reader, outer, inner, "%s is too long: leave out some of its values", outer);
    }
    void *values = tt_cli_allocate(1, command->values_bytes + 1);
    const tt_status status = tt_option_parse(command, values, 1, argv, &result);
    tt_option_release(command, values);
    free(values);
    if (status != TT_OK) {
        tt_text cause = {.length = 0};
        const bool has_dashes = strncmp(result.error, "--", 2) == 0;
        tt_text_add_words(&cause, result.error + (has_dashes ? 2 : 0), sizeof(result.error));
        return refuse(reader, outer, inner, "%s", cause.bytes);
    }
    reader->words[reader->word_count] = strdup(reader->word);
    if (reader->words[reader->word_count] == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    reader->word_count++;
    return TT_OK;
}

/* ---- members ---- */

static const char *wanted_of(const tt_option *option)
{
    switch (option->kind) {
    case TT_OPTION_FLAG:
        return "true or false";
    case TT_OPTION_INT:
    case TT_OPTION_MAYBE:
        return "a whole number";
    case TT_OPTION_BYTES:
        return "a number of bytes, or a text such as \"64K\"";
    case TT_OPTION_SECONDS:
    case TT_OPTION_RATE:
        return "a number";
    case TT_OPTION_LIST:
        return "an object, such as {\"NAME\": [1, 2]}";
    case TT_OPTION_STRING:
    case TT_OPTION_CHOICE:
        break;
    }
    return "a text of one line";
}

static bool is_fit(const tt_option *option, const json_t *value)
{
    switch (option->kind) {
    case TT_OPTION_FLAG:
        return json_is_boolean(value);
    case TT_OPTION_INT:
    case TT_OPTION_MAYBE:
        return json_is_integer(value);
    case TT_OPTION_BYTES:
        return json_is_integer(value) || json_is_string(value);
    case TT_OPTION_SECONDS:
    case TT_OPTION_RATE:
        return json_is_number(value);
    case TT_OPTION_LIST:
        return json_is_object(value);
    case TT_OPTION_STRING:
    case TT_OPTION_CHOICE:
        break;
    }
    return json_is_string(value);
}

/* "--sweep=ranks=8,64" of {"ranks": [8, 64]}. */
static tt_status read_item(scenario_reader *reader, const tt_option *option, const char *name,
                           const json_t *values)
{
    const size_t count = json_is_array(values) ? json_array_size(values) : 1;
    bool is_sound = count > 0 && is_one_line(name) && strpbrk(name, "=,") == NULL;
    word_begin(reader);
    word_add(reader, "--");
    word_add(reader, option->name);
    word_add(reader, "=");
    word_add(reader, name);
    word_add(reader, "=");
    for (size_t i = 0; i < count && is_sound; i++) {
        const json_t *value = json_is_array(values) ? json_array_get(values, i) : values;
        const char *text = json_string_value(value);
        word_add(reader, i > 0 ? "," : "");
        is_sound = add_scalar(reader, name, value) && (text == NULL || strchr(text, ',') == NULL);
    }
    if (!is_sound) {
        return refuse(reader, option->name, name,
                      "%s is no object of names and their values: give {\"NAME\": [1, 2]}, or "
                      "texts without commas",
                      option->name);
    }
    return word_end(reader, option->name, name);
}

static tt_status read_option(scenario_reader *reader, const tt_option *option, json_t *value)
{
    const char *name;
    json_t *item;
    if (!is_fit(option, value)) {
        return refuse(reader, option->name, NULL, "%s: give %s", option->name, wanted_of(option));
    }
    if (option->kind == TT_OPTION_LIST) {
        json_object_foreach(value, name, item)
        {
            TT_TRY(read_item(reader, option, name, item));
        }
        return TT_OK;
    }
    if (json_is_false(value)) {
        return TT_OK;
    }
    word_begin(reader);
    word_add(reader, "--");
    word_add(reader, option->name);
    if (option->kind != TT_OPTION_FLAG) {
        word_add(reader, "=");
        if (!add_scalar(reader, option->name, value)) {
            return refuse(reader, option->name, NULL, "%s: give %s", option->name,
                          wanted_of(option));
        }
    }
    return word_end(reader, option->name, NULL);
}

static tt_status read_member(scenario_reader *reader, const char *name, json_t *value)
{
    const tt_command *command = reader->rules->command;
    if (strcmp(name, "summary") == 0) {
        return json_is_string(value) ? TT_OK : refuse(reader, name, NULL, "summary: give a text");
    }
    for (size_t i = 0; i < command->option_count; i++) {
        if (strcmp(command->options[i].name, name) != 0) {
            continue;
        }
        if (is_listed(reader->rules->refused, name)) {
            return refuse(reader, name, NULL, "%s has no place in a scenario; give --%s", name,
                          name);
        }
        return read_option(reader, &command->options[i], value);
    }
    return refuse_unknown(reader, name);
}

/* ---- the whole ---- */

/* Their values, from the words that were read. */
static tt_status parse_words(scenario_reader *reader, tt_scenario *scenario_out)
{
    const tt_command *command = reader->rules->command;
    tt_option_result result;
    char *argv[WORDS_MAX + 1] = {NULL};
    tt_scenario scenario = {.command = command,
                            .values = tt_cli_allocate(1, command->values_bytes + 1),
                            .words = tt_cli_allocate(WORDS_MAX, sizeof(char *)),
                            .word_count = reader->word_count};
    memcpy(scenario.words, reader->words, reader->word_count * sizeof(char *));
    memcpy(argv, reader->words, reader->word_count * sizeof(char *));
    reader->word_count = 0;
    const tt_status status =
        tt_option_parse(command, scenario.values, (int)scenario.word_count, argv, &result);
    if (status != TT_OK) {
        tt_scenario_fini(&scenario);
        return refuse(reader, NULL, NULL, "%s", result.error);
    }
    *scenario_out = scenario;
    return TT_OK;
}

tt_status tt_scenario_read(const tt_scenario_rules *rules, const tt_scenario_text *source,
                           json_t *members, tt_text *why, tt_scenario *scenario_out)
{
    const char *name;
    json_t *value;
    tt_status status = TT_OK;
    scenario_reader *reader = tt_cli_allocate(1, sizeof(*reader));
    reader->rules = rules;
    reader->source = source;
    reader->why = why;
    if (!json_is_object(members)) {
        status = refuse(reader, NULL, NULL, "not a scenario: give options in braces");
    }
    json_object_foreach(members, name, value)
    {
        status = status == TT_OK ? read_member(reader, name, value) : status;
    }
    status = status == TT_OK ? parse_words(reader, scenario_out) : status;
    for (size_t i = 0; i < reader->word_count; i++) {
        free(reader->words[i]);
    }
    free(reader);
    return status;
}

tt_status tt_scenario_load(const tt_scenario_rules *rules, const char *path, tt_text *why,
                           tt_scenario *scenario_out)
{
    tt_text cause = {.length = 0};
    json_error_t error;
    tt_scenario_text source = {.path = path};
    tt_scenario scenario = {.values = NULL};
    char *text = tt_file_read(path, SCENARIO_BYTES_MAX, &source.bytes, &cause);
    if (text == NULL) {
        tt_text_add_words(why, path, PATH_SHOWN);
        tt_text_add(why, ": %s", cause.bytes);
        return TT_ERR_BAD_CONFIG;
    }
    source.text = text;
    json_t *root = json_loadb(text, source.bytes, JSON_REJECT_DUPLICATES, &error);
    tt_status status = TT_ERR_BAD_CONFIG;
    if (root == NULL) {
        tt_text_add_words(why, path, PATH_SHOWN);
        tt_text_add(why, ":%d: not JSON: ", error.line > 0 ? error.line : 1);
        tt_text_add_words(why, error.text, WORD_SHOWN);
    } else {
        status = tt_scenario_read(rules, &source, root, why, &scenario);
    }
    json_decref(root);
    if (status != TT_OK) {
        free(text);
        return status;
    }
    scenario.text = text;
    scenario.bytes = source.bytes;
    scenario.path = strdup(path);
    *scenario_out = scenario;
    return TT_OK;
}

void tt_scenario_fini(tt_scenario *scenario)
{
    if (scenario->values != NULL) {
        tt_option_release(scenario->command, scenario->values);
    }
    for (size_t i = 0; i < scenario->word_count; i++) {
        free(scenario->words[i]);
    }
    free(scenario->words);
    free(scenario->values);
    free(scenario->path);
    free(scenario->text);
    *scenario = (tt_scenario){.values = NULL};
}

void tt_scenario_where(const tt_scenario *scenario, const char *member, tt_text *text)
{
    const int line = scenario->text != NULL && member != NULL
                         ? tt_json_line(scenario->text, scenario->bytes, member, NULL)
                         : 0;
    if (line > 0) {
        tt_text_add_words(text, scenario->path, PATH_SHOWN);
        tt_text_add(text, ":%d: ", line);
    }
}
