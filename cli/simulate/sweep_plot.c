/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_plot.c - see sweep_plot.h. Two panels beside each other, the names of lines to the right.
 */
#include "cli/simulate/sweep_plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/config.h"
#include "cli/allocate.h"
#include "cli/option.h"

enum {
    PANEL_WIDTH = 430,
    PANEL_HEIGHT = 320,
    LEFT = 70, /* of the first panel */
    TOP = 70,
    BETWEEN = 80,
    BELOW = 70,
    NAMES = 30, /* from the last panel to the names of lines */
    NAMES_WIDTH = 230,
    NAME_ROW = 20,
    LABEL_WIDTH = 9, /* of a letter of a label */
    TICKS_MAX = 6,
    INSET = 18,      /* of the first and the last number */
    WORD_INSET = 60, /* of the first and the last word */
    WORD_STEP = 9,   /* between lines that have the same word */
    SHOWN_BYTES = 60,
};

static const double logarithmic_from = 8; /* largest over smallest value */
static const double steep_from = 10;
static const double head_room = 1.08;

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#888888"};

/* Where values of the sweep are in the picture. */
typedef struct plot_panel {
    const tt_sweep_plot *plot;
    FILE *stream;
    int left;
    bool is_efficiency;
    double least, most; /* of the vertical axis; least 0: it is linear */
    double tick;
} plot_panel;

/* ---- the grid ---- */

static bool read_number(const char *text, double *number_out)
{
    uint64_t bytes = 0;
    if (tt_config_parse_real(text, number_out)) {
        return true;
    }
    const bool is_size = tt_option_parse_bytes(text, &bytes) == TT_OK;
    *number_out = (double)bytes;
    return is_size;
}

static bool has_numbers(const tt_sweep_axis *axis)
{
    double number;
    for (size_t i = 0; i < axis->value_count; i++) {
        if (!read_number(axis->values[i], &number)) {
            return false;
        }
    }
    return true;
}

/* axis_count: none has several values. */
static size_t horizontal_axis(const tt_sweep *sweep)
{
    size_t chosen = sweep->axis_count;
    for (size_t i = sweep->axis_count; i-- > 0;) {
        const bool is_first = chosen == sweep->axis_count || !has_numbers(&sweep->axes[chosen]) ||
                              has_numbers(&sweep->axes[i]);
        if (sweep->axes[i].value_count > 1 && is_first) {
            chosen = i;
        }
    }
    return chosen;
}

static const tt_sweep_axis *axis_of(const tt_sweep_plot *plot)
{
    return &plot->sweep->axes[plot->axis];
}

/* Points from one value of the horizontal axis to the next: the last axis varies fastest. */
static size_t stride_of(const tt_sweep_plot *plot)
{
    size_t stride = 1;
    for (size_t i = plot->axis + 1; i < plot->sweep->axis_count; i++) {
        stride *= plot->sweep->axes[i].value_count;
    }
    return stride;
}

static size_t line_count(const tt_sweep_plot *plot)
{
    return tt_sweep_point_count(plot->sweep) / axis_of(plot)->value_count;
}

/* The point of a line at a value of the horizontal axis. */
static size_t point_of(const tt_sweep_plot *plot, size_t line, size_t value)
{
    const size_t stride = stride_of(plot);
    return line / stride * stride * axis_of(plot)->value_count + value * stride + line % stride;
}

/* ---- scales ---- */

/* Where each value is, in [0, 1]. Words are in the order in which they were given; numbers that are
 * far apart on a logarithmic scale. */
static void place_values(tt_sweep_plot *plot)
{
    const tt_sweep_axis *axis = axis_of(plot);
    double least = INFINITY, most = -INFINITY;
    plot->has_numbers = has_numbers(axis);
    plot->places = tt_cli_allocate(axis->value_count, sizeof(double));
    for (size_t i = 0; i < axis->value_count; i++) {
        plot->places[i] = (double)i;
        (void)(plot->has_numbers && read_number(axis->values[i], &plot->places[i]));
        least = fmin(least, plot->places[i]);
        most = fmax(most, plot->places[i]);
    }
    const bool is_logarithmic = plot->has_numbers && least > 0 && most >= logarithmic_from * least;
    for (size_t i = 0; i < axis->value_count && most > least; i++) {
        plot->places[i] = is_logarithmic ? log(plot->places[i] / least) / log(most / least)
                                         : (plot->places[i] - least) / (most - least);
    }
}

/* Words have no distance: lines are beside each other there, and their points are not joined. */
static double x_of(const plot_panel *panel, size_t line, size_t value)
{
    const bool is_number = panel->plot->has_numbers;
    const double inset = is_number ? INSET : WORD_INSET;
    const double beside = (double)line - ((double)line_count(panel->plot) - 1) / 2;
    return panel->left + inset + (PANEL_WIDTH - 2 * inset) * panel->plot->places[value] +
           (is_number ? 0 : WORD_STEP * beside);
}

static double y_of(const plot_panel *panel, double height)
{
    const double share = panel->least > 0 ? log(fmax(height, panel->least) / panel->least) /
                                                log(panel->most / panel->least)
                                          : height / panel->most;
    return TOP + PANEL_HEIGHT * (1 - fmin(share, 1));
}

static double height_of(const plot_panel *panel, const tt_sweep_plot_value *value)
{
    return panel->is_efficiency ? value->efficiency : value->step_ms;
}

/* 1, 2 or 5 times a power of ten, so that there are at most TICKS_MAX. */
static double tick_of(double most)
{
    static const double steps[] = {1, 2, 5};
    double scale = pow(10, floor(log10(most / TICKS_MAX)));
    for (size_t i = 0;; i++) {
        if (most / (steps[i % 3] * scale) <= TICKS_MAX) {
            return steps[i % 3] * scale;
        }
        scale *= i % 3 == 2 ? 10 : 1;
    }
}

/* From 0 on; steps that are far apart on a logarithmic scale. */
static void scale_panel(plot_panel *panel)
{
    const tt_sweep_plot *plot = panel->plot;
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < tt_sweep_point_count(plot->sweep); i++) {
        const tt_sweep_plot_value *value = &plot->values[i];
        if (value->is_known) {
            const bool is_efficiency = panel->is_efficiency;
            least = fmin(least, is_efficiency ? value->efficiency : value->p5_ms);
            most =
                fmax(most, is_efficiency ? value->efficiency : fmax(value->step_ms, value->p95_ms));
        }
    }
    panel->most = most > 0 ? head_room * most : 1;
    panel->most = panel->is_efficiency ? fmax(panel->most, 1) : panel->most;
    panel->tick = panel->is_efficiency ? 0.2 : tick_of(panel->most);
    if (!panel->is_efficiency && least > 0 && most >= steep_from * least) {
        panel->least = least / head_room;
    }
}

/* ---- drawing ---- */

/* Words of a user, as text of XML. */
static void words_draw(FILE *stream, const char *words)
{
    tt_text shown = {.length = 0};
    tt_text_add_words(&shown, words, TT_TEXT_BYTES);
    for (const char *at = shown.bytes; *at != '\0'; at++) {
        switch (*at) {
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '&':
            fputs("&amp;", stream);
            break;
        default:
            fputc(*at, stream);
        }
    }
}

static void text_draw(FILE *stream, double x, double y, const char *attributes, const char *words)
{
    fprintf(stream, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    words_draw(stream, words);
    fputs("</text>\n", stream);
}

static void line_draw(FILE *stream, const double ends[4], const char *attributes)
{
    fprintf(stream, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", ends[0],
            ends[1], ends[2], ends[3], attributes);
}

/* Of a line of the grid: its colour, then dashes. */
static void stroke_draw(FILE *stream, size_t line)
{
    fprintf(stream, "stroke=\"%s\"", colours[line % TT_ARRAY_COUNT(colours)]);
    fputs(line >= TT_ARRAY_COUNT(colours) ? " stroke-dasharray=\"6 4\"" : "", stream);
}

static void tick_draw(const plot_panel *panel, double height)
{
    const double y = y_of(panel, height), right = panel->left + PANEL_WIDTH;
    char label[32];
    (void)snprintf(label, sizeof(label), "%.6g", height);
    line_draw(panel->stream, (double[]){panel->left, y, right, y}, "stroke=\"#ddd\"");
    text_draw(panel->stream, panel->left - 8, y + 4, " text-anchor=\"end\"", label);
}

static void vertical_axis_draw(const plot_panel *panel)
{
    static const double steps[] = {1, 2, 5};
    const double bottom = TOP + PANEL_HEIGHT, right = panel->left + PANEL_WIDTH;
    if (panel->least > 0) {
        double scale = pow(10, floor(log10(panel->least)));
        for (size_t i = 0; steps[i % 3] * scale <= panel->most; i++) {
            if (steps[i % 3] * scale >= panel->least) {
                tick_draw(panel, steps[i % 3] * scale);
            }
            scale *= i % 3 == 2 ? 10 : 1;
        }
    } else {
        for (int i = 0; i * panel->tick <= panel->most * (1 + 1e-9); i++) {
            tick_draw(panel, i * panel->tick);
        }
    }
    line_draw(panel->stream, (double[]){panel->left, bottom, right, bottom}, "stroke=\"#444\"");
}

static void horizontal_axis_draw(const plot_panel *panel)
{
    const tt_sweep_axis *axis = axis_of(panel->plot);
    double free_from = -INFINITY; /* labels that would touch are left out */
    for (size_t i = 0; i < axis->value_count; i++) {
        const double middle = ((double)line_count(panel->plot) - 1) / 2;
        const double x = x_of(panel, 0, i) + (panel->plot->has_numbers ? 0 : WORD_STEP * middle);
        const double half = LABEL_WIDTH * fmin((double)strlen(axis->values[i]), SHOWN_BYTES) / 2;
        line_draw(panel->stream, (double[]){x, TOP + PANEL_HEIGHT, x, TOP + PANEL_HEIGHT + 5},
                  "stroke=\"#444\"");
        if (x - half >= free_from) {
            text_draw(panel->stream, x, TOP + PANEL_HEIGHT + 20, " text-anchor=\"middle\"",
                      axis->values[i]);
            free_from = x + half;
        }
    }
    text_draw(panel->stream, panel->left + PANEL_WIDTH / 2.0, TOP + PANEL_HEIGHT + 44,
              " text-anchor=\"middle\"", axis->name);
}

/* From p5 to p95, where that can be seen. */
static void spread_draw(const plot_panel *panel, size_t line, size_t at)
{
    const tt_sweep_plot_value *value = &panel->plot->values[point_of(panel->plot, line, at)];
    const double x = x_of(panel, line, at);
    const double low = y_of(panel, value->p5_ms), high = y_of(panel, value->p95_ms);
    if (panel->is_efficiency || low - high < 2) {
        return;
    }
    fprintf(panel->stream, "<path d=\"M%.1f %.1fH%.1fM%.1f %.1fV%.1fM%.1f %.1fH%.1f\" ", x - 4, low,
            x + 4, x, low, high, x - 4, high, x + 4);
    fprintf(panel->stream, "fill=\"none\" stroke=\"%s\" stroke-opacity=\"0.6\"/>\n",
            colours[line % TT_ARRAY_COUNT(colours)]);
}

static void curve_draw(const plot_panel *panel, size_t line)
{
    const tt_sweep_plot *plot = panel->plot;
    bool has_begun = false;
    fputs("<path d=\"", panel->stream);
    for (size_t i = 0; i < axis_of(plot)->value_count; i++) {
        const tt_sweep_plot_value *value = &plot->values[point_of(plot, line, i)];
        if (value->is_known) {
            fprintf(panel->stream, "%s%.1f %.1f", has_begun ? "L" : "M", x_of(panel, line, i),
                    y_of(panel, height_of(panel, value)));
            has_begun = true;
        }
    }
    fputs("\" fill=\"none\" stroke-width=\"2\" ", panel->stream);
    stroke_draw(panel->stream, line);
    fputs("/>\n", panel->stream);
}

static void points_draw(const plot_panel *panel, size_t line)
{
    const tt_sweep_plot *plot = panel->plot;
    for (size_t i = 0; i < axis_of(plot)->value_count; i++) {
        const tt_sweep_plot_value *value = &plot->values[point_of(plot, line, i)];
        if (value->is_known) {
            spread_draw(panel, line, i);
            fprintf(panel->stream, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
                    x_of(panel, line, i), y_of(panel, height_of(panel, value)),
                    colours[line % TT_ARRAY_COUNT(colours)]);
        }
    }
}

static void panel_draw(const tt_sweep_plot *plot, bool is_efficiency, FILE *stream)
{
    plot_panel panel = {.plot = plot,
                        .stream = stream,
                        .left = is_efficiency ? LEFT + PANEL_WIDTH + BETWEEN : LEFT,
                        .is_efficiency = is_efficiency};
    scale_panel(&panel);
    text_draw(stream, panel.left, TOP - 14, " font-weight=\"bold\"",
              is_efficiency ? "efficiency" : "step (ms, with p5 and p95 over steps)");
    vertical_axis_draw(&panel);
    horizontal_axis_draw(&panel);
    for (size_t line = 0; line < line_count(plot); line++) {
        if (plot->has_numbers) {
            curve_draw(&panel, line);
        }
        points_draw(&panel, line);
    }
}

/* The values of the other axes. */
static void line_name(const tt_sweep_plot *plot, size_t line, tt_text *name)
{
    const size_t point = point_of(plot, line, 0);
    for (size_t i = 0; i < plot->sweep->axis_count; i++) {
        const tt_sweep_axis *axis = &plot->sweep->axes[i];
        double number;
        if (i != plot->axis && axis->value_count > 1) {
            const char *value = tt_sweep_value(plot->sweep, point, i);
            tt_text_add(name, "%s", name->length > 0 ? ", " : "");
            if (read_number(value, &number)) {
                tt_text_add_words(name, axis->name, SHOWN_BYTES);
                tt_text_add(name, " ");
            }
            tt_text_add_words(name, value, SHOWN_BYTES);
        }
    }
}

static void names_draw(const tt_sweep_plot *plot, FILE *stream)
{
    const double left = LEFT + 2 * PANEL_WIDTH + BETWEEN + NAMES;
    for (size_t line = 0; line < line_count(plot); line++) {
        const double y = TOP + 8 + NAME_ROW * (double)line;
        tt_text name = {.length = 0};
        line_name(plot, line, &name);
        if (name.length > 0) {
            fprintf(stream, "<path d=\"M%.1f %.1fH%.1f\" stroke-width=\"2\" ", left, y, left + 24);
            stroke_draw(stream, line);
            fputs("/>\n", stream);
            text_draw(stream, left + 32, y + 4, "", name.bytes);
        }
    }
}

void tt_sweep_plot_draw(const tt_sweep_plot *plot, FILE *stream)
{
    const int width =
        LEFT + 2 * PANEL_WIDTH + BETWEEN + NAMES + (line_count(plot) > 1 ? NAMES_WIDTH : 0);
    const int height = TOP + PANEL_HEIGHT + BELOW;
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n"
            "<g font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">\n",
            width, height, width, height, width, height);
    text_draw(stream, LEFT, 28, " font-size=\"16\"", plot->title.bytes);
    panel_draw(plot, false, stream);
    panel_draw(plot, true, stream);
    names_draw(plot, stream);
    fputs("</g>\n</svg>\n", stream);
}

/* ---- life cycle ---- */

tt_status tt_sweep_plot_init(tt_sweep_plot *plot, const tt_sweep *sweep, const char *path,
                             tt_text *why)
{
    *plot = (tt_sweep_plot){.sweep = sweep, .path = path, .axis = horizontal_axis(sweep)};
    if (plot->axis == sweep->axis_count) {
        tt_text_add(why, "a picture shows a sweep; give --sweep with several values");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (line_count(plot) > TT_SWEEP_PLOT_LINES_MAX) {
        tt_text_add(why, "%zu lines over %s; give fewer values of the other axes: at most %d lines",
                    line_count(plot), axis_of(plot)->name, TT_SWEEP_PLOT_LINES_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    place_values(plot);
    plot->values = tt_cli_allocate(tt_sweep_point_count(sweep), sizeof(*plot->values));
    return TT_OK;
}

static bool is_swept(const tt_sweep *sweep, const char *name)
{
    for (size_t i = 0; i < sweep->axis_count; i++) {
        if (strcmp(sweep->axes[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

void tt_sweep_plot_describe(tt_sweep_plot *plot, const tt_sweep_plot_job *job)
{
    tt_text *title = &plot->title;
    tt_text_add_words(title, is_swept(plot->sweep, "graph") ? "networks" : job->graph, SHOWN_BYTES);
    if (!is_swept(plot->sweep, "cluster") && !is_swept(plot->sweep, "mbit")) {
        tt_text_add(title, ", ");
        tt_text_add_words(title, job->cluster, SHOWN_BYTES);
    }
    if (!is_swept(plot->sweep, "ranks")) {
        tt_text_add(title, ", %" PRId64 " rank%s", job->rank_count,
                    job->rank_count == 1 ? "" : "s");
    }
    if (!is_swept(plot->sweep, "strategy")) {
        tt_text_add(title, ", strategy ");
        tt_text_add_words(title, job->strategy, SHOWN_BYTES);
    }
}

static bool write_to(const tt_sweep_plot *plot, const char *path)
{
    FILE *stream = fopen(path, "we");
    bool is_written = stream != NULL;
    if (is_written) {
        tt_sweep_plot_draw(plot, stream);
        is_written = !ferror(stream);
        is_written = fclose(stream) == 0 && is_written;
    }
    return is_written;
}

/* The old picture stays until the new one is complete. What is no plain file is not replaced. */
static bool write_file(tt_sweep_plot *plot)
{
    static const char ending[] = ".part";
    const size_t bytes = strlen(plot->path);
    struct stat found;
    plot->written_count = plot->known_count;
    if (stat(plot->path, &found) == 0 && !S_ISREG(found.st_mode)) {
        return write_to(plot, plot->path);
    }
    char *part = tt_cli_allocate(bytes + sizeof(ending), 1);
    memcpy(part, plot->path, bytes);
    memcpy(part + bytes, ending, sizeof(ending));
    const bool is_written = write_to(plot, part) && rename(part, plot->path) == 0;
    free(part);
    return is_written;
}

bool tt_sweep_plot_add(tt_sweep_plot *plot, size_t index, const tt_sweep_plot_value *value)
{
    TT_ASSERT(index < tt_sweep_point_count(plot->sweep));
    plot->values[index] = *value;
    plot->values[index].is_known = true;
    plot->known_count++;
    return plot->known_count - plot->written_count <= plot->known_count / 20 || write_file(plot);
}

bool tt_sweep_plot_finish(tt_sweep_plot *plot)
{
    return plot->written_count == plot->known_count || write_file(plot);
}

void tt_sweep_plot_fini(tt_sweep_plot *plot)
{
    free(plot->places);
    free(plot->values);
    *plot = (tt_sweep_plot){.sweep = NULL};
}
