/* SPDX-License-Identifier: Apache-2.0
 *
 * samples.c - see samples.h. */
#include "samples.h"

#include <stdlib.h>
#include <string.h>

#include "graph_file.h"

enum {
    SAMPLES_BYTES_MAX = 1 << 20,
};

tt_status tt_samples_fit(const char *path, tt_text *why, tt_linear *line_out)
{
    tt_linear_sample samples[TT_LINEAR_SAMPLES_MAX];
    size_t count = 0;
    size_t bytes;
    char *text = tt_file_read(path, SAMPLES_BYTES_MAX, &bytes, why);
    if (text == NULL) {
        return TT_ERR_BAD_ARGUMENT;
    }
    char *next = text;
    tt_status status = TT_OK;
    for (;;) {
        next += strspn(next, " \t\r\n");
        if (*next == '\0') {
            break;
        }
        if (*next == '#') {
            next += strcspn(next, "\n");
            continue;
        }
        char *middle;
        char *end;
        const double size = strtod(next, &middle);
        const double time_us = strtod(middle, &end);
        if (middle == next || end == middle || count == TT_LINEAR_SAMPLES_MAX) {
            status = TT_ERR_BAD_ARGUMENT;
            break;
        }
        samples[count++] = (tt_linear_sample){.bytes = size, .time_us = time_us};
        next = end;
    }
    free(text);
    if (status != TT_OK || tt_linear_fit(samples, count, line_out) != TT_OK) {
        tt_text_add(why, "expected 2 to %d pairs of bytes and microseconds, of at least two sizes",
                    TT_LINEAR_SAMPLES_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}
