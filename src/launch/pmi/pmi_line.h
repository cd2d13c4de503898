/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi_line.h - one line of the PMI-1 wire: "cmd=get_result rc=0 msg=success value=abc\n".
 *
 * Layer:   launch.
 * Threads: pure.
 * Memory:  the caller owns every buffer; a decoded line points into the bytes it was made from.
 */
#ifndef TUTTI_LAUNCH_PMI_PMI_LINE_H
#define TUTTI_LAUNCH_PMI_PMI_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    TT_LAUNCH_PMI_LINE_BYTES = 4096, /* with the end of line; the largest servers use 1024 */
    TT_LAUNCH_PMI_FIELDS_MAX = 32,
};

typedef struct tt_launch_pmi_text {
    char bytes[TT_LAUNCH_PMI_LINE_BYTES];
    size_t count;
    bool is_good; /* false once something did not fit or was not allowed */
} tt_launch_pmi_text;

typedef struct tt_launch_pmi_field {
    const char *key;
    size_t key_bytes;
    const char *value;
    size_t value_bytes;
} tt_launch_pmi_field;

typedef struct tt_launch_pmi_line {
    tt_launch_pmi_field fields[TT_LAUNCH_PMI_FIELDS_MAX];
    size_t field_count;
} tt_launch_pmi_line;

/* Begin "cmd=<command>", add fields, end the line. Keys and values are printable ASCII without
 * blanks, keys without '='; anything else makes the text bad, which end reports. */
void tt_launch_pmi_text_start(tt_launch_pmi_text *text, const char *command);
void tt_launch_pmi_text_add(tt_launch_pmi_text *text, const char *key, const char *value);
bool tt_launch_pmi_text_end(tt_launch_pmi_text *text);

/* Decode line[0..line_bytes), without its end of line. A word without '=' continues the value
 * before it: servers put sentences into msg. TT_ERR_BAD_WIRE for any other malformed line. */
tt_status tt_launch_pmi_line_decode(const char *line, size_t line_bytes,
                                    tt_launch_pmi_line *line_out);

/* The first field of that name, or NULL. */
const tt_launch_pmi_field *tt_launch_pmi_line_find(const tt_launch_pmi_line *line, const char *key);

/* Is there a field `key` with exactly this value? */
bool tt_launch_pmi_line_has(const tt_launch_pmi_line *line, const char *key, const char *value);

#endif
