/* SPDX-License-Identifier: Apache-2.0
 *
 * validation_file.c - see validation_file.h. */
#include "cli/simulate/validation_file.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/nearest.h"
#include "cli/allocate.h"
#include "cli/file_text.h"

enum { FILE_BYTES_MAX = 8 << 20, SHOWN_PATH = 200, SHOWN_WORD = 60, PLACE_BYTES = 24 };

static const char *const file_members[] = {"summary", "defaults", "median_percent", "rows", NULL};
static const char *const row_members[] = {"name",     "scenario", "against",    "figure",
                                          "expected", "at_least", "at_most",    "tolerance_percent",
                                          "kind",     "source",   "assumption", NULL};

typedef struct validation_reader {
    tt_validation *validation;
    tt_text *why;
    tt_scenario_text source; /* of the row that is read */
    char place[PLACE_BYTES];
} validation_reader;

/* ---- errors ---- */

/* About a member of the row or file; NULL: about itself. */
__attribute__((format(printf, 3, 4))) static tt_status
refuse_row(validation_reader *reader, const char *member, const char *format, ...)
{
    va_list arguments;
    tt_scenario_place(&reader->source, &member, member != NULL ? 1 : 0, reader->why);
    va_start(arguments, format);
    tt_text_add_list(reader->why, format, arguments);
    va_end(arguments);
    return TT_ERR_BAD_CONFIG;
}

static tt_status check_members(validation_reader *reader, const json_t *object,
                               const char *const *known)
{
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        tt_nearest nearest;
        tt_text shown = {.length = 0};
        bool is_known = false;
        tt_nearest_init(&nearest, "", name);
        for (size_t i = 0; known[i] != NULL; i++) {
            is_known = is_known || strcmp(known[i], name) == 0;
            tt_nearest_offer(&nearest, known[i]);
        }
        if (!is_known) {
            tt_text_add_quoted(&shown, name, SHOWN_WORD);
            return refuse_row(reader, name, "unknown field %s%s%s", shown.bytes,
                              nearest.best[0] != '\0' ? "; did you mean " : "; leave it out",
                              nearest.best);
        }
    }
    return TT_OK;
}

/* ---- members ---- */

static tt_status read_text(validation_reader *reader, const json_t *object, const char *name,
                           const char **text_out)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (text == NULL || text[0] == '\0' || strpbrk(text, "\r\n") != NULL) {
        return refuse_row(reader, name, "%s: give a text of one line", name);
    }
    *text_out = text;
    return TT_OK;
}

/* `*number_out` stays as it is if there is none. */
static tt_status read_number(validation_reader *reader, const json_t *object, const char *name,
                             double *number_out)
{
    const json_t *value = json_object_get(object, name);
    if (value != NULL && !json_is_number(value)) {
        return refuse_row(reader, name, "%s: give a number", name);
    }
    *number_out = value != NULL ? json_number_value(value) : *number_out;
    return TT_OK;
}

static tt_status read_tolerance(validation_reader *reader, const json_t *object,
                                tt_validation_row *row)
{
    const json_t *value = json_object_get(object, "tolerance_percent");
    const char *word = json_string_value(value);
    const double tolerance = json_number_value(value);
    if (word != NULL && strcmp(word, "shown") == 0) {
        row->tolerance_percent = INFINITY;
        return TT_OK;
    }
    if (!json_is_number(value) || tolerance < 0) {
        return refuse_row(reader, "tolerance_percent",
                          "tolerance_percent: give a number from 0, or \"shown\"");
    }
    row->tolerance_percent = tolerance;
    return TT_OK;
}

static tt_status read_kind(validation_reader *reader, const json_t *object, tt_validation_row *row)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    row->is_fitted = kind != NULL && strcmp(kind, "fitted") == 0;
    if (!row->is_fitted && (kind == NULL || strcmp(kind, "predicted") != 0)) {
        return refuse_row(reader, "kind", "kind: give \"fitted\" or \"predicted\"");
    }
    return TT_OK;
}

/* What it is compared with. */
static tt_status read_expectation(validation_reader *reader, const json_t *object,
                                  tt_validation_row *row)
{
    row->has_expected = json_object_get(object, "expected") != NULL;
    row->at_least = -INFINITY;
    row->at_most = INFINITY;
    TT_TRY(read_number(reader, object, "expected", &row->expected));
    TT_TRY(read_number(reader, object, "at_least", &row->at_least));
    TT_TRY(read_number(reader, object, "at_most", &row->at_most));
    const bool has_bound = isfinite(row->at_least) || isfinite(row->at_most);
    if (row->has_expected == has_bound) {
        return refuse_row(reader, NULL, "give expected, or at_least and at_most, and not both");
    }
    if (row->has_expected && !(fabs(row->expected) > 0)) {
        return refuse_row(reader, "expected", "expected: 0 has no error in percent; give at_most");
    }
    const char *word = json_string_value(json_object_get(object, "tolerance_percent"));
    if (has_bound && (word == NULL || strcmp(word, "shown") != 0)) {
        return TT_OK; /* of rows with a number */
    }
    return read_tolerance(reader, object, row);
}

/* ---- rows ---- */

/* Members of `above` over those of `below`, which may be NULL; kept by the validation. */
static json_t *make_over(validation_reader *reader, json_t *below, json_t *above)
{
    json_t *made = json_is_object(below) ? json_copy(below) : json_object();
    (void)json_object_update(made, above);
    (void)json_array_append_new(reader->validation->made, made);
    return made;
}

static tt_status read_scenarios(validation_reader *reader, json_t *defaults, json_t *given,
                                tt_validation_row *row)
{
    json_t *merged = make_over(reader, defaults, given);
    json_t *scenario = json_object_get(given, "scenario");
    json_t *against = json_object_get(merged, "against");
    if (!json_is_object(json_object_get(merged, "scenario"))) {
        return refuse_row(reader, "scenario", "scenario: give options in braces");
    }
    if (against != NULL && !json_is_object(against)) {
        return refuse_row(reader, "against", "against: give options in braces");
    }
    row->scenario = make_over(reader, json_object_get(defaults, "scenario"), scenario);
    row->against = against != NULL ? make_over(reader, row->scenario, against) : NULL;
    TT_TRY(read_text(reader, merged, "name", &row->name));
    TT_TRY(read_text(reader, merged, "figure", &row->figure));
    TT_TRY(read_text(reader, merged, "source", &row->source));
    if (json_object_get(merged, "assumption") != NULL) {
        TT_TRY(read_text(reader, merged, "assumption", &row->assumption));
    }
    TT_TRY(read_kind(reader, merged, row));
    return read_expectation(reader, merged, row);
}

static tt_status read_row(validation_reader *reader, json_t *defaults, size_t index)
{
    tt_validation *validation = reader->validation;
    json_t *given = json_array_get(json_object_get(validation->root, "rows"), index);
    (void)snprintf(reader->place, sizeof(reader->place), "%zu", index);
    reader->source.steps[0] = "rows";
    reader->source.steps[1] = reader->place;
    reader->source.step_count = 2;
    if (!json_is_object(given)) {
        return refuse_row(reader, NULL, "not a row: give its fields in braces");
    }
    TT_TRY(check_members(reader, given, row_members));
    return read_scenarios(reader, defaults, given, &validation->rows[index]);
}

static tt_status read_file(validation_reader *reader)
{
    tt_validation *validation = reader->validation;
    json_t *defaults = json_object_get(validation->root, "defaults");
    const json_t *rows = json_object_get(validation->root, "rows");
    if (!json_is_object(validation->root)) {
        return refuse_row(reader, NULL,
                          "not a file of rows: give {\"summary\": ..., \"rows\": [...]}");
    }
    TT_TRY(check_members(reader, validation->root, file_members));
    TT_TRY(read_text(reader, validation->root, "summary", &validation->summary));
    TT_TRY(read_number(reader, validation->root, "median_percent", &validation->median_percent));
    if (!json_is_array(rows) || json_array_size(rows) == 0) {
        return refuse_row(reader, "rows", "rows: give at least one, in brackets");
    }
    if (defaults != NULL && !json_is_object(defaults)) {
        return refuse_row(reader, "defaults", "defaults: give fields of rows in braces");
    }
    reader->source.steps[0] = "defaults";
    reader->source.step_count = 1;
    TT_TRY(check_members(reader, defaults, row_members));
    validation->default_source = json_string_value(json_object_get(defaults, "source"));
    validation->default_assumption = json_string_value(json_object_get(defaults, "assumption"));
    validation->row_count = json_array_size(rows);
    validation->rows = tt_cli_allocate(validation->row_count, sizeof(*validation->rows));
    for (size_t i = 0; i < validation->row_count; i++) {
        TT_TRY(read_row(reader, defaults, i));
    }
    return TT_OK;
}

tt_status tt_validation_read(const char *path, const char *text, size_t bytes, tt_text *why,
                             tt_validation *validation_out)
{
    json_error_t error;
    tt_validation validation = {.bytes = bytes,
                                .root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error),
                                .made = json_array(),
                                .median_percent = INFINITY};
    validation_reader reader = {.validation = &validation,
                                .why = why,
                                .source = {.path = path, .text = text, .bytes = bytes}};
    tt_status status = TT_ERR_BAD_CONFIG;
    if (validation.root != NULL) {
        status = read_file(&reader);
    } else {
        tt_text_add_words(why, path, SHOWN_PATH);
        tt_text_add(why, ":%d: not JSON: ", error.line > 0 ? error.line : 1);
        tt_text_add_words(why, error.text, SHOWN_WORD);
    }
    if (status != TT_OK) {
        tt_validation_fini(&validation);
        return status;
    }
    validation.path = tt_cli_allocate(strlen(path) + 1, 1);
    validation.text = tt_cli_allocate(bytes + 1, 1);
    memcpy(validation.path, path, strlen(path));
    memcpy(validation.text, text, bytes);
    *validation_out = validation;
    return TT_OK;
}

tt_status tt_validation_load(const char *path, tt_text *why, tt_validation *validation_out)
{
    tt_text cause = {.length = 0};
    size_t bytes = 0;
    char *text = tt_file_read(path, FILE_BYTES_MAX, &bytes, &cause);
    if (text == NULL) {
        tt_text_add_words(why, path, SHOWN_PATH);
        tt_text_add(why, ": %s", cause.bytes);
        return TT_ERR_BAD_CONFIG;
    }
    const tt_status status = tt_validation_read(path, text, bytes, why, validation_out);
    free(text);
    return status;
}

void tt_validation_fini(tt_validation *validation)
{
    json_decref(validation->root);
    json_decref(validation->made);
    free(validation->rows);
    free(validation->path);
    free(validation->text);
    *validation = (tt_validation){.path = NULL};
}
