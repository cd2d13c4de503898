/* SPDX-License-Identifier: Apache-2.0
 *
 * picture.c - a few lines of SVG per element, and two scales.
 *
 * Upper panel: loss against steps, every step in pale, a running average in dark.
 * Lower panel: one step on every rank. The bar shows the work of the rank's thread; the thin lines
 * under it are the all-reduces, one line per segment, the segment that is ready first on top.
 */
#include "picture.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANKS_SHOWN_MAX = 8 };

static const double left = 84.0;
static const double right = 936.0;
static const double loss_top = 112.0;
static const double loss_bottom = 340.0;
static const double ranks_top = 448.0;
static const double bar_height = 20.0;
static const double line_height = 5.0;

static const char *const kind_colours[GPT_SPAN_KINDS] = {"#3b6ea8", "#5aa9a3", "#dcdcdc", "#6a9f4b",
                                                         "#e8833a"};
static const char *const kind_names[GPT_SPAN_KINDS] = {"forward", "backward", "waiting",
                                                       "optimizer", "all-reduce (one per layer)"};

/* Maps values [low, high] to pixels [from, to]. */
typedef struct scale {
    double low;
    double high;
    double from;
    double to;
} scale;

static double place(const scale *s, double value)
{
    return s->from + (s->to - s->from) * (value - s->low) / (s->high - s->low);
}

/* A round distance (1, 2 or 5 times a power of ten) that cuts `range` into at most `parts`. */
static double tick_step(double range, double parts)
{
    const double raw = range / parts;
    const double power = pow(10.0, floor(log10(raw)));
    const double digit = raw / power;
    return power * (digit <= 1.0 ? 1.0 : digit <= 2.0 ? 2.0 : digit <= 5.0 ? 5.0 : 10.0);
}

/* ---- elements ------------------------------------------------------------------------------ */

static void text_at(FILE *svg, double x, double y, const char *style, const char *text)
{
    fprintf(svg, "<text x='%.1f' y='%.1f' %s>", x, y, style);
    for (const char *c = text; *c != '\0'; c++) {
        switch (*c) {
        case '<':
            fputs("&lt;", svg);
            break;
        case '&':
            fputs("&amp;", svg);
            break;
        default:
            fputc(*c, svg);
        }
    }
    fputs("</text>\n", svg);
}

static void grid_line(FILE *svg, double x1, double y1, double x2, double y2)
{
    fprintf(svg, "<path class='grid' d='M%.1f %.1fL%.1f %.1f'/>\n", x1, y1, x2, y2);
}

/* Vertical grid lines with numbers below; the scale's values times `unit` are what is written. */
static void x_axis(FILE *svg, const scale *x, double top, double bottom, double unit)
{
    const double step = tick_step(x->high - x->low, 9.0);
    char number[32];
    for (double value = 0.0; value <= x->high + step * 1e-6; value += step) {
        grid_line(svg, place(x, value), top, place(x, value), bottom);
        snprintf(number, sizeof(number), "%g", value * unit);
        text_at(svg, place(x, value), bottom + 18.0, "class='tick' text-anchor='middle'", number);
    }
}

static void y_axis(FILE *svg, const scale *y)
{
    const double step = tick_step(y->high - y->low, 6.0);
    char number[32];
    for (double value = ceil(y->low / step) * step; value <= y->high; value += step) {
        grid_line(svg, left, place(y, value), right, place(y, value));
        snprintf(number, sizeof(number), "%.1f", value);
        text_at(svg, left - 8.0, place(y, value) + 4.0, "class='tick' text-anchor='end'", number);
    }
}

/* ---- the loss ------------------------------------------------------------------------------ */

/* `memory` 0 draws every value, nearer to 1 a slower running average; returns the last value. */
static double curve(FILE *svg, const gpt_picture *picture, const scale *x, const scale *y,
                    double memory)
{
    fprintf(svg, "<path class='%s' d='", memory > 0.0 ? "curve" : "pale");
    double value = picture->losses[0];
    for (size_t i = 0; i < picture->loss_count; i++) {
        value = memory * value + (1.0 - memory) * picture->losses[i];
        fprintf(svg, "%c%.1f %.2f", i == 0 ? 'M' : 'L', place(x, (double)(i + 1)), place(y, value));
    }
    fputs("'/>\n", svg);
    return value;
}

static void loss_panel(FILE *svg, const gpt_picture *picture)
{
    double low = INFINITY;
    double high = 0.0;
    for (size_t i = 0; i < picture->loss_count; i++) {
        low = fmin(low, picture->losses[i]);
        high = fmax(high, picture->losses[i]);
    }
    const scale x = {0.0, (double)picture->loss_count, left, right};
    const scale y = {floor(low * 2.0) / 2.0, ceil(high * 2.0 + 0.01) / 2.0, loss_bottom, loss_top};
    text_at(svg, left, loss_top - 16.0, "class='head'", "Loss (nats per character), all workers");
    x_axis(svg, &x, loss_top, loss_bottom, 1.0);
    y_axis(svg, &y);
    text_at(svg, right, loss_bottom + 36.0, "class='tick' text-anchor='end'", "steps");
    curve(svg, picture, &x, &y, 0.0);
    const double last = curve(svg, picture, &x, &y, 0.8);
    char number[32];
    snprintf(number, sizeof(number), "%.2f", last);
    fprintf(svg, "<circle cx='%.1f' cy='%.1f' r='4' fill='#1f3f66'/>\n", right, place(&y, last));
    text_at(svg, right - 4.0, place(&y, last) - 12.0, "class='head' text-anchor='end'", number);
}

/* ---- one step ------------------------------------------------------------------------------ */

static double rank_height(const gpt_picture *picture)
{
    return bar_height + 4.0 + line_height * (double)picture->segment_count + 14.0;
}

static void span_draw(FILE *svg, const gpt_picture *picture, const gpt_span *span, const scale *x,
                      double top)
{
    const double from = place(x, span->begin_s);
    const double width = fmax(place(x, span->end_s) - from, 0.8);
    const size_t line = picture->segment_count - 1 - span->segment;
    const int is_exchange = span->kind == GPT_EXCHANGE;
    const double y = is_exchange ? top + bar_height + 4.0 + line_height * (double)line : top;
    /* Every second layer a little lighter, to separate the layers of backward. */
    const double opacity = span->kind == GPT_BACKWARD && span->segment % 2 == 1 ? 0.75 : 1.0;
    fprintf(svg,
            "<rect x='%.2f' y='%.1f' width='%.2f' height='%.1f' fill='%s' opacity='%.2f'>"
            "<title>%s, %.2f ms</title></rect>\n",
            from, y, width, is_exchange ? line_height - 1.0 : bar_height, kind_colours[span->kind],
            opacity, kind_names[span->kind], 1e3 * (span->end_s - span->begin_s));
}

static void legend(FILE *svg, double y)
{
    double x = left;
    for (size_t kind = 0; kind < GPT_SPAN_KINDS; kind++) {
        fprintf(svg, "<rect x='%.1f' y='%.1f' width='12' height='12' fill='%s'/>\n", x, y - 10.0,
                kind_colours[kind]);
        text_at(svg, x + 18.0, y, "class='tick'", kind_names[kind]);
        x += 44.0 + 6.6 * (double)strlen(kind_names[kind]);
    }
}

static int ranks_shown(const gpt_picture *picture)
{
    return picture->rank_count < RANKS_SHOWN_MAX ? picture->rank_count : RANKS_SHOWN_MAX;
}

static double ranks_bottom(const gpt_picture *picture)
{
    return ranks_top + rank_height(picture) * ranks_shown(picture);
}

static void step_panel(FILE *svg, const gpt_picture *picture)
{
    double longest = 0.0;
    for (int rank = 0; rank < ranks_shown(picture); rank++) {
        const gpt_timeline *timeline = &picture->timelines[rank];
        for (size_t i = 0; i < timeline->span_count; i++) {
            longest = fmax(longest, timeline->spans[i].end_s);
        }
    }
    text_at(svg, left, ranks_top - 44.0, "class='head'", "One step in the middle of training");
    if (longest == 0.0) {
        text_at(svg, left, ranks_top, "class='tick'", "the run was too short to record a step");
        return;
    }
    legend(svg, ranks_top - 20.0);
    const scale x = {0.0, longest, left, right};
    const double bottom = ranks_bottom(picture);
    x_axis(svg, &x, ranks_top - 6.0, bottom, 1e3);
    text_at(svg, right, bottom + 36.0, "class='tick' text-anchor='end'", "milliseconds");
    for (int rank = 0; rank < ranks_shown(picture); rank++) {
        const double top = ranks_top + rank_height(picture) * rank;
        char name[32];
        snprintf(name, sizeof(name), "rank %d", rank);
        text_at(svg, left - 12.0, top + 15.0, "class='tick' text-anchor='end'", name);
        const gpt_timeline *timeline = &picture->timelines[rank];
        for (size_t i = 0; i < timeline->span_count; i++) {
            span_draw(svg, picture, &timeline->spans[i], &x, top);
        }
    }
}

/* ---- the file ------------------------------------------------------------------------------ */

static void document(FILE *svg, const gpt_picture *picture)
{
    const double height = ranks_bottom(picture) + 56.0;
    fprintf(svg,
            "<svg xmlns='http://www.w3.org/2000/svg' width='980' height='%.0f' "
            "viewBox='0 0 980 %.0f' font-family='Helvetica, Arial, sans-serif' fill='#222'>\n"
            "<style>.grid{stroke:#e6e6e6}.tick{font-size:12px;fill:#444}"
            ".head{font-size:14px;font-weight:bold}.title{font-size:20px;font-weight:bold}"
            ".pale{stroke:#b9cbe2;fill:none}"
            ".curve{stroke:#1f3f66;stroke-width:2.5;fill:none;stroke-linejoin:round}</style>\n"
            "<rect width='980' height='%.0f' fill='white'/>\n",
            height, height, height);
    text_at(svg, left, 38.0, "class='title'", picture->title);
    text_at(svg, left, 60.0, "class='tick'", picture->subtitle);
    if (picture->loss_count > 0) {
        loss_panel(svg, picture);
    }
    step_panel(svg, picture);
    fputs("</svg>\n", svg);
}

bool gpt_picture_write(const gpt_picture *picture, const char *path)
{
    FILE *svg = fopen(path, "w");
    if (svg == NULL) {
        fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    document(svg, picture);
    const bool written = ferror(svg) == 0;
    if (fclose(svg) != 0 || !written) {
        fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}
