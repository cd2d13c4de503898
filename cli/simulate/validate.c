/* SPDX-License-Identifier: Apache-2.0
 *
 * validate.c - see validate.h. Rows are computed one after the other; a file's median and worst
 * error are those of the rows that have a tolerance. */
#include "cli/simulate/validate.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/nearest.h"
#include "cli/allocate.h"
#include "cli/simulate/validation_file.h"

enum { NAME_WIDTH = 46, PAGE_WIDTH = 118, SHOWN_BYTES = 60, PLACE_BYTES = 24 };

/* A row that was computed. */
typedef struct row_outcome {
    double computed;
    double error_percent; /* of the expected value; 0 where there are bounds alone */
    bool is_within;       /* the tolerance, or the bounds, even if they are only shown */
} row_outcome;

typedef struct validate_state {
    const tt_validate_config *config;
    const tt_validation *validation;
    FILE *markdown;
    tt_text why;
    size_t row_count, outside_count;
} validate_state;

static int complain(const char *why)
{
    fprintf(stderr, "tutti simulate: %s\n", why);
    return 1;
}

/* ---- figures ---- */

/* All numbers of the groups, by their paths. */
static void offer_figures(tt_nearest *nearest, const json_t *figures, const char *before)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)figures, name, value)
    {
        const bool is_group = json_is_object(value);
        char path[TT_NEAREST_BYTES];
        if (snprintf(path, sizeof(path), "%s%s%s", before, name, is_group ? "." : "") >=
            (int)sizeof(path)) {
            continue;
        }
        if (is_group) {
            offer_figures(nearest, value, path);
        } else if (json_is_number(value)) {
            tt_nearest_offer(nearest, path);
        }
    }
}

/* The number at "us.step". */
static tt_status find_figure(const json_t *figures, const char *figure, tt_text *why,
                             double *value_out)
{
    const json_t *at = figures;
    const char *rest = figure;
    char name[TT_NEAREST_BYTES];
    while (rest[0] != '\0' && tt_text_take_word(&rest, ".", name, sizeof(name))) {
        at = json_object_get(at, name);
        rest += rest[0] == '.';
    }
    at = rest[0] == '\0' ? at : NULL;
    if (!json_is_number(at)) {
        tt_nearest nearest;
        tt_nearest_init(&nearest, "", figure);
        offer_figures(&nearest, figures, "");
        tt_text_add(why, "unknown figure ");
        tt_text_add_quoted(why, figure, SHOWN_BYTES);
        tt_text_add(why, "%s%s",
                    nearest.best[0] != '\0' ? "; did you mean " : "; give one of --json",
                    nearest.best);
        return TT_ERR_BAD_CONFIG;
    }
    *value_out = json_number_value(at);
    return TT_OK;
}

/* ---- rows ---- */

/* Errors of the scenario's text have a place; all others get that of the row. */
static tt_status compute_scenario(validate_state *own, size_t index, const char *member,
                                  json_t *members, double *value_out)
{
    const tt_validation *validation = own->validation;
    char place[PLACE_BYTES];
    (void)snprintf(place, sizeof(place), "%zu", index);
    const tt_scenario_text source = {.path = validation->path,
                                     .text = validation->text,
                                     .bytes = validation->bytes,
                                     .steps = {"rows", place, member},
                                     .step_count = 3};
    tt_text cause = {.length = 0};
    tt_scenario scenario;
    json_t *figures = NULL;
    TT_TRY(tt_scenario_read(own->config->rules, &source, members, &own->why, &scenario));
    tt_status status = own->config->compute(scenario.values, &cause, &figures);
    tt_scenario_fini(&scenario);
    if (status == TT_OK) {
        status = find_figure(figures, validation->rows[index].figure, &cause, value_out);
        json_decref(figures);
    }
    if (status != TT_OK) {
        tt_scenario_place(&source, NULL, 0, &own->why);
        tt_text_add_words(&own->why, cause.bytes, TT_TEXT_BYTES);
    }
    return status;
}

static tt_status compute_row(validate_state *own, size_t index, row_outcome *outcome_out)
{
    const tt_validation_row *row = &own->validation->rows[index];
    row_outcome outcome = {.error_percent = 0};
    TT_TRY(compute_scenario(own, index, "scenario", row->scenario, &outcome.computed));
    if (row->against != NULL) {
        double base = 0;
        TT_TRY(compute_scenario(own, index, "against", row->against, &base));
        outcome.computed = fabs(base) > 0 ? outcome.computed / base : INFINITY;
    }
    if (row->has_expected) {
        outcome.error_percent = 100 * (outcome.computed / row->expected - 1);
        outcome.is_within = fabs(outcome.error_percent) <= row->tolerance_percent;
    } else {
        outcome.is_within = outcome.computed >= row->at_least && outcome.computed <= row->at_most;
    }
    *outcome_out = outcome;
    return TT_OK;
}

/* ---- text ---- */

static void add_number(tt_text *text, double number)
{
    tt_text_add(text, fabs(number) >= 1000 ? "%.0f" : "%.4g", number);
}

static void describe_expected(const tt_validation_row *row, tt_text *text)
{
    if (row->has_expected) {
        add_number(text, row->expected);
        return;
    }
    const bool is_range = isfinite(row->at_least) && isfinite(row->at_most);
    if (!is_range) {
        tt_text_add(text, isfinite(row->at_least) ? "at least " : "at most ");
    }
    add_number(text, isfinite(row->at_least) ? row->at_least : row->at_most);
    if (is_range) {
        tt_text_add(text, " to ");
        add_number(text, row->at_most);
    }
}

static void describe_error(const tt_validation_row *row, const row_outcome *outcome, tt_text *text)
{
    if (row->has_expected) {
        tt_text_add(text, "%+.1f %%", round(10 * outcome->error_percent) / 10 + 0.0);
    }
}

static bool is_shown(const tt_validation_row *row)
{
    return !isfinite(row->tolerance_percent);
}

static void describe_tolerance(const tt_validation_row *row, const row_outcome *outcome,
                               tt_text *text)
{
    if (is_shown(row)) {
        tt_text_add(text, outcome->is_within ? "shown" : "shown: not");
    } else if (row->has_expected) {
        tt_text_add(text, "%.3g %%", row->tolerance_percent);
    }
}

static void print_row(const tt_validation_row *row, const row_outcome *outcome)
{
    tt_text expected = {.length = 0}, error = {.length = 0}, tolerance = {.length = 0};
    tt_text computed = {.length = 0};
    describe_expected(row, &expected);
    describe_error(row, outcome, &error);
    describe_tolerance(row, outcome, &tolerance);
    add_number(&computed, outcome->computed);
    printf("%-*s %16s %12s %10s %10s  %s%s\n", NAME_WIDTH, row->name, expected.bytes,
           computed.bytes, error.bytes, tolerance.bytes, row->is_fitted ? "fitted" : "predicted",
           outcome->is_within || is_shown(row) ? "" : " OUTSIDE");
    (void)fflush(stdout);
}

/* Bars would end a cell. */
static void cell_write(FILE *stream, const char *text)
{
    fputs(" ", stream);
    for (; *text != '\0'; text++) {
        fputs(*text == '|' ? "\\" : "", stream);
        fputc(*text, stream);
    }
    fputs(" |", stream);
}

/* What holds for most rows stands above them. */
static bool is_same(const char *text, const char *other)
{
    return other != NULL && strcmp(text, other) == 0;
}

static void row_write(const validate_state *own, const tt_validation_row *row,
                      const row_outcome *outcome)
{
    const tt_validation *validation = own->validation;
    FILE *stream = own->markdown;
    tt_text expected = {.length = 0}, error = {.length = 0}, tolerance = {.length = 0};
    tt_text computed = {.length = 0}, source = {.length = 0};
    describe_expected(row, &expected);
    describe_error(row, outcome, &error);
    describe_tolerance(row, outcome, &tolerance);
    add_number(&computed, outcome->computed);
    if (!is_same(row->source, validation->default_source)) {
        tt_text_add_words(&source, row->source, TT_TEXT_BYTES);
    }
    if (row->assumption != NULL && !is_same(row->assumption, validation->default_assumption)) {
        tt_text_add(&source, "%sassumed: ", source.length > 0 ? "; " : "");
        tt_text_add_words(&source, row->assumption, TT_TEXT_BYTES);
    }
    fputs("|", stream);
    cell_write(stream, row->name);
    cell_write(stream, row->figure);
    cell_write(stream, expected.bytes);
    cell_write(stream, computed.bytes);
    cell_write(stream, error.bytes);
    cell_write(stream, tolerance.bytes);
    cell_write(stream, row->is_fitted ? "fitted" : "predicted");
    cell_write(stream, source.bytes);
    fputc('\n', stream);
}

/* ---- files ---- */

/* By its error. */
static bool is_judged(const tt_validation_row *row)
{
    return row->has_expected && !is_shown(row);
}

static int compare_magnitudes(const void *a, const void *b)
{
    const double first = fabs(*(const double *)a), second = fabs(*(const double *)b);
    return (first > second) - (first < second);
}

/* The line below a file's rows. */
static void describe_file(validate_state *own, const row_outcome *outcomes, tt_text *text)
{
    const tt_validation *validation = own->validation;
    double *errors = tt_cli_allocate(validation->row_count + 1, sizeof(*errors));
    size_t count = 0, worst = 0;
    for (size_t i = 0; i < validation->row_count; i++) {
        if (is_judged(&validation->rows[i])) {
            worst =
                count == 0 || fabs(outcomes[i].error_percent) > fabs(outcomes[worst].error_percent)
                    ? i
                    : worst;
            errors[count++] = outcomes[i].error_percent;
        }
    }
    tt_text_add(text, "%zu row%s", validation->row_count, validation->row_count == 1 ? "" : "s");
    if (count > 0) {
        qsort(errors, count, sizeof(*errors), compare_magnitudes);
        const double median = (fabs(errors[(count - 1) / 2]) + fabs(errors[count / 2])) / 2;
        tt_text_add(text, "; median error %.1f %%", median);
        if (isfinite(validation->median_percent)) {
            const bool is_within = median <= validation->median_percent;
            tt_text_add(text, " (at most %.3g %%%s)", validation->median_percent,
                        is_within ? "" : ": OUTSIDE");
            own->outside_count += is_within ? 0 : 1;
        }
        tt_text_add(text, ", worst %+.1f %% (", outcomes[worst].error_percent);
        tt_text_add_words(text, validation->rows[worst].name, SHOWN_BYTES);
        tt_text_add(text, ")");
    }
    free(errors);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void paragraph_write(FILE *stream, const char *what, const char *text)
{
    tt_text paragraph = {.length = 0};
    if (text != NULL) {
        tt_text_add(&paragraph, "%s: ", what);
        tt_text_add_words(&paragraph, text, TT_TEXT_BYTES);
        tt_text_add(&paragraph, ".");
        fputc('\n', stream);
        tt_option_print_wrapped(paragraph.bytes, 0, 0, PAGE_WIDTH, stream);
    }
}

static void head_write(const tt_validation *validation, FILE *stream)
{
    fprintf(stream, "\n## %s\n\n", base_name(validation->path));
    tt_option_print_wrapped(validation->summary, 0, 0, PAGE_WIDTH, stream);
    paragraph_write(stream, "Source", validation->default_source);
    paragraph_write(stream, "Assumed", validation->default_assumption);
    fprintf(stream, "\n| row | figure | expected | computed | error | within | kind | source |\n"
                    "|---|---|---|---|---|---|---|---|\n");
}

static tt_status validate_file(validate_state *own)
{
    const tt_validation *validation = own->validation;
    row_outcome *outcomes = tt_cli_allocate(validation->row_count, sizeof(*outcomes));
    tt_text end = {.length = 0};
    tt_status status = TT_OK;
    printf("%s: %s\n%-*s %16s %12s %10s %10s\n", base_name(validation->path), validation->summary,
           NAME_WIDTH, "", "expected", "computed", "error", "within");
    if (own->markdown != NULL) {
        head_write(validation, own->markdown);
    }
    for (size_t i = 0; i < validation->row_count && status == TT_OK; i++) {
        const tt_validation_row *row = &validation->rows[i];
        status = compute_row(own, i, &outcomes[i]);
        if (status == TT_OK) {
            print_row(row, &outcomes[i]);
            own->outside_count += outcomes[i].is_within || is_shown(row) ? 0 : 1;
        }
        if (status == TT_OK && own->markdown != NULL) {
            row_write(own, row, &outcomes[i]);
        }
    }
    if (status == TT_OK) {
        describe_file(own, outcomes, &end);
        printf("%s\n\n", end.bytes);
        own->row_count += validation->row_count;
    }
    if (status == TT_OK && own->markdown != NULL) {
        fprintf(own->markdown, "\n%s.\n", end.bytes);
    }
    free(outcomes);
    return status;
}

static tt_status validate_path(validate_state *own, const char *path)
{
    tt_validation validation;
    TT_TRY(tt_validation_load(path, &own->why, &validation));
    own->validation = &validation;
    const tt_status status = validate_file(own);
    own->validation = NULL;
    tt_validation_fini(&validation);
    return status;
}

static int validate_paths(validate_state *own, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (validate_path(own, paths[i]) != TT_OK) {
            return complain(own->why.bytes);
        }
    }
    printf("%zu rows, %zu outside\n", own->row_count, own->outside_count);
    return own->outside_count > 0 ? 1 : 0;
}

/* Files that are not named are those of the source tree. */
static int validate_all(validate_state *own)
{
    const tt_validate_config *config = own->config;
    glob_t found = {.gl_pathc = 0};
    if (config->path_count > 0) {
        return validate_paths(own, config->paths, config->path_count);
    }
    if (glob("bench/validation/*.json", 0, NULL, &found) != 0) {
        return complain("there is no bench/validation/*.json here; give files of rows, or go to "
                        "the source tree");
    }
    const int code = validate_paths(own, (const char *const *)found.gl_pathv, found.gl_pathc);
    globfree(&found);
    return code;
}

int tt_validate(const tt_validate_config *config)
{
    static const char head[] =
        "# Validation\n\n"
        "Simulated jobs beside what was measured or published of them. `tutti simulate --validate "
        "--markdown FILE` writes\nthis page from `bench/validation/*.json`, where each row has its "
        "scenario. *Fitted* rows gave the model numbers,\n*predicted* ones did not. *Within* is "
        "the largest error that the test of these rows accepts.\n";
    validate_state own = {.config = config};
    if (config->markdown != NULL) {
        own.markdown = fopen(config->markdown, "we");
        if (own.markdown == NULL) {
            tt_text_add_words(&own.why, config->markdown, SHOWN_BYTES);
            tt_text_add(&own.why, ": %s", strerror(errno));
            return complain(own.why.bytes);
        }
        fputs(head, own.markdown);
    }
    int code = validate_all(&own);
    if (own.markdown != NULL && fclose(own.markdown) != 0) {
        code = complain("the document cannot be written");
    }
    return code;
}
