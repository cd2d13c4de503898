/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_report.c - see fit_report.h. */
#include "cli/cluster/fit_report.h"

#include <inttypes.h>

enum { NAME_COLUMNS = 24, VALUE_COLUMNS = 10, LINE_COLUMNS = 42, LINE_BYTES = 96 };

static void number_print(const tt_fit *fit, const tt_fit_number *number, FILE *stream)
{
    tt_text value = {.length = 0};
    tt_cluster_field_print(&fit->cluster, number->field, &value);
    fprintf(stream, "  %-*s%-*s %s%s\n", NAME_COLUMNS, number->field->name, VALUE_COLUMNS,
            value.bytes, number->is_fitted ? "" : "not determined: ", number->how);
}

static void line_print(const tt_fit_line *line, FILE *stream)
{
    const tt_bench_row *row = line->first;
    char name[LINE_BYTES];
    (void)snprintf(name, sizeof(name), "%s of %s, %" PRIu32 " ranks, %" PRIu32 " host%s%s%s",
                   tt_bench_row_name(row), tt_dtype_name(row->dtype), row->ranks, row->hosts,
                   row->hosts == 1 ? "" : "s", row->is_staged ? ", private" : "",
                   row->is_in_place ? ", in place" : "");
    fprintf(stream, "  %-*s", LINE_COLUMNS, name);
    if (line->row_count == 0) {
        fprintf(stream, "%5zu  not modelled\n", line->skipped);
        return;
    }
    fprintf(stream, "%5zu  %6.1f %%  %+6.1f %% at %" PRIu64 " bytes: %.4g us, modelled %.4g",
            line->row_count, 100 * line->median, 100 * line->worst, line->worst_row->bytes,
            line->worst_row->time_us, line->worst_us);
    if (line->skipped > 0) {
        fprintf(stream, "; %zu rows are not modelled", line->skipped);
    }
    fputc('\n', stream);
}

void tt_fit_print(const tt_fit *fit, FILE *stream)
{
    fprintf(stream, "%-*s%-*s from\n", NAME_COLUMNS + 2, "number", VALUE_COLUMNS, "value");
    for (size_t i = 0; i < TT_FIT_NUMBERS; i++) {
        number_print(fit, &fit->numbers[i], stream);
    }
    fprintf(stream, "%-*s%5s  %8s  worst, modelled against measured\n", LINE_COLUMNS + 2, "line",
            "rows", "median");
    for (size_t i = 0; i < fit->line_count; i++) {
        line_print(&fit->lines[i], stream);
    }
    if (fit->lines_left > 0) {
        fprintf(stream, "  and %zu rows of other lines\n", fit->lines_left);
    }
}
