/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_plot.c - two settled steps per panel: a row for computation and one for each wire in
 * use. Communication is coloured by first use, so that the order is visible: dark is needed first.
 * Neighbouring chunks of one transfer are one bar. */
#include "cli/schedule/schedule_plot.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "cli/buffer.h"

enum {
    STEP_FIRST = 6, /* steps that are shown; the period has settled by then */
    STEP_LAST = 7,
    WIDTH = 1200,
    LEFT = 110,
    RIGHT = 40,
    TOP = 34,
    ROW = 34,
    GAP = 6,
    PANEL_GAP = 46,
    TICKS_MAX = 12,
};

typedef struct frame_state {
    FILE *stream;
    double start_us; /* of the panel */
    double end_us;
    double us_a_pixel;
} frame_state;

void tt_plot_note(void *user, const tt_interval *span)
{
    tt_plot_panel *panel = user;
    if (span->step + 1 < STEP_FIRST || span->step > STEP_LAST) {
        return;
    }
    tt_interval *last = panel->span_count > 0 ? &panel->spans[panel->span_count - 1] : NULL;
    if (last != NULL && last->kind == span->kind && last->step == span->step &&
        last->transfer == span->transfer && span->start_us <= last->end_us + 1e-6) {
        last->end_us = span->end_us;
        return;
    }
    if (panel->span_count == panel->span_capacity) {
        const size_t capacity = panel->span_capacity == 0 ? 256 : 2 * panel->span_capacity;
        tt_interval *spans = tt_cli_allocate(capacity, sizeof(*spans));
        for (size_t i = 0; i < panel->span_count; i++) {
            spans[i] = panel->spans[i];
        }
        free(panel->spans);
        panel->spans = spans;
        panel->span_capacity = capacity;
    }
    panel->spans[panel->span_count++] = *span;
}

void tt_plot_fini(tt_plot_panel *panel)
{
    free(panel->spans);
    panel->spans = NULL;
    panel->span_count = 0;
}

/* Begin and end of the computation of the shown steps. */
static void panel_range(const tt_plot_panel *panel, double *start_us, double *end_us)
{
    *start_us = INFINITY;
    *end_us = 0;
    for (size_t i = 0; i < panel->span_count; i++) {
        const tt_interval *span = &panel->spans[i];
        if (span->kind <= TT_SPAN_BACKWARD && span->step >= STEP_FIRST) {
            *start_us = fmin(*start_us, span->start_us);
            *end_us = fmax(*end_us, span->end_us);
        }
    }
}

static bool has_kind(const tt_plot_panel *panel, tt_span_kind kind)
{
    for (size_t i = 0; i < panel->span_count; i++) {
        if (panel->spans[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* Row of a kind below the panel's top; *count_out rows in all. */
static int row_of(const tt_plot_panel *panel, tt_span_kind kind, int *count_out)
{
    int row = 0;
    int found = 0;
    for (int i = TT_SPAN_PUSH; i < TT_SPAN_KINDS; i++) {
        if (has_kind(panel, (tt_span_kind)i)) {
            row++;
            found = i == (int)kind ? row : found;
        }
    }
    *count_out = row + 1;
    return found; /* 0: computation */
}

/* Where the transfer's first tensor comes in the forward pass, in [0, 1]. */
static double first_use_share(const tt_timetable *plan, uint32_t transfer)
{
    const double first_us = tt_policy_first_use_us(plan, &plan->transfers[transfer]);
    return plan->workload->forward_us > 0 ? first_us / plan->workload->forward_us : 0;
}

static void bar_write(const frame_state *frame, const tt_plot_panel *panel, const tt_interval *span,
                      int top)
{
    int row_count;
    const int row = row_of(panel, span->kind, &row_count);
    const double from_us = fmax(span->start_us, frame->start_us);
    const double to_us = fmin(span->end_us, frame->end_us);
    if (to_us <= from_us) {
        return;
    }
    const double x = LEFT + (from_us - frame->start_us) / frame->us_a_pixel;
    const double width = fmax((to_us - from_us) / frame->us_a_pixel, 0.4);
    fprintf(frame->stream, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" ", x,
            top + row * (ROW + GAP), width, ROW);
    if (span->kind == TT_SPAN_FORWARD) {
        fprintf(frame->stream, "fill=\"#4878a8\"/>\n");
    } else if (span->kind == TT_SPAN_BACKWARD) {
        fprintf(frame->stream, "fill=\"#d08840\"/>\n");
    } else {
        const double share = first_use_share(panel->plan, span->transfer);
        fprintf(frame->stream, "fill=\"hsl(%.0f,55%%,%.0f%%)\"/>\n", 280 - 160 * share,
                25 + 50 * share);
    }
}

static void label_write(const frame_state *frame, int y, const char *text)
{
    fprintf(frame->stream, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8,
            y + ROW / 2 + 5, text);
}

/* 1, 2 or 5 times a power of ten, so that at most TICKS_MAX of them fit. */
static double tick_us(double length_us)
{
    static const double steps[] = {1, 2, 5};
    double scale = pow(10, floor(log10(fmax(length_us, 1e-6) / TICKS_MAX)));
    for (int i = 0;; i++) {
        const double tick = steps[i % 3] * scale;
        if (length_us / tick <= TICKS_MAX) {
            return tick;
        }
        scale *= i % 3 == 2 ? 10 : 1;
    }
}

static void axis_write(const frame_state *frame, int y)
{
    const double length_us = (WIDTH - LEFT - RIGHT) * frame->us_a_pixel;
    const double step_us = tick_us(length_us);
    for (double at_us = 0; at_us <= length_us; at_us += step_us) {
        const double x = LEFT + at_us / frame->us_a_pixel;
        fprintf(frame->stream,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#888\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g ms</text>\n",
                x, y, x, y + 5, x, y + 18, at_us / 1000);
    }
}

static int panel_write(const frame_state *frame, const tt_plot_panel *panel, int top)
{
    static const char *const names[] = {"", "", "push", "pull", "all-reduce"};
    int row_count;
    fprintf(frame->stream,
            "<text x=\"%d\" y=\"%d\" font-size=\"15\" font-weight=\"bold\">%s</text>\n", LEFT,
            top + 16, panel->title);
    const int rows_top = top + TOP - 8;
    label_write(frame, rows_top, "compute");
    (void)row_of(panel, TT_SPAN_PUSH, &row_count);
    for (int i = TT_SPAN_PUSH; i < TT_SPAN_KINDS; i++) {
        const int row = row_of(panel, (tt_span_kind)i, &row_count);
        if (row > 0) {
            label_write(frame, rows_top + row * (ROW + GAP), names[i]);
        }
    }
    for (size_t i = 0; i < panel->span_count; i++) {
        bar_write(frame, panel, &panel->spans[i], rows_top);
    }
    const int bottom = rows_top + row_count * (ROW + GAP);
    axis_write(frame, bottom);
    return bottom + PANEL_GAP;
}

bool tt_plot_write(FILE *stream, const tt_plot_panel *panels, size_t panel_count)
{
    double longest_us = 0;
    int height = 40;
    for (size_t i = 0; i < panel_count; i++) {
        double start_us;
        double end_us;
        int row_count;
        panel_range(&panels[i], &start_us, &end_us);
        (void)row_of(&panels[i], TT_SPAN_PUSH, &row_count);
        longest_us = fmax(longest_us, end_us - start_us);
        height += TOP + row_count * (ROW + GAP) + PANEL_GAP;
    }
    fprintf(
        stream,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n<g shape-rendering=\"crispEdges\">\n",
        WIDTH, height, WIDTH, height);
    int top = 10;
    for (size_t i = 0; i < panel_count; i++) {
        frame_state frame = {.stream = stream};
        panel_range(&panels[i], &frame.start_us, &frame.end_us);
        frame.us_a_pixel = fmax(longest_us, 1e-9) / (WIDTH - LEFT - RIGHT);
        top = panel_write(&frame, &panels[i], top);
    }
    fprintf(stream,
            "<text x=\"%d\" y=\"%d\" fill=\"#4878a8\">forward</text>"
            "<text x=\"%d\" y=\"%d\" fill=\"#d08840\">backward</text>"
            "<text x=\"%d\" y=\"%d\">communication: violet is used first, green last in forward; "
            "two settled steps</text>\n</g>\n</svg>\n",
            LEFT, top + 4, LEFT + 60, top + 4, LEFT + 140, top + 4);
    return !ferror(stream);
}
