/* SPDX-License-Identifier: Apache-2.0
 *
 * order_text.c - the reader; one pass, a line at a time. */
#include "schedule/order_text.h"

#include <string.h>

#include "base/base.h"
#include "schedule/task.h"

enum {
    PRIORITY_DIGITS_MAX = 8,
};

static tt_status refuse(tt_text *why, uint64_t number, const char *text)
{
    tt_text_add(why, "line %llu: %s", (unsigned long long)number, text);
    return TT_ERR_BAD_CONFIG;
}

bool tt_order_name_is_writable(const char *name)
{
    const size_t bytes = strlen(name);
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f) {
            return false;
        }
    }
    return bytes > 0 && bytes <= TT_ORDER_NAME_BYTES_MAX;
}

/* Digits up to a tab; their number of bytes with the tab, 0 if this is not a priority. */
static size_t priority_read(const char *line, size_t bytes, uint32_t *priority_out)
{
    uint64_t priority = 0;
    size_t digits = 0;
    while (digits < bytes && line[digits] >= '0' && line[digits] <= '9') {
        priority = 10 * priority + (uint64_t)(line[digits] - '0');
        if (++digits > PRIORITY_DIGITS_MAX) {
            return 0;
        }
    }
    if (digits == 0 || digits == bytes || line[digits] != '\t' || priority > TT_TASK_PRIORITY_MAX) {
        return 0;
    }
    *priority_out = (uint32_t)priority;
    return digits + 1;
}

typedef struct reading_state {
    tt_order_line_fn *line;
    void *user;
    tt_text *why;
    uint64_t number;
} reading_state;

static tt_status line_read(const reading_state *reading, const char *line, size_t bytes)
{
    uint32_t priority;
    const size_t skipped = priority_read(line, bytes, &priority);
    if (skipped == 0) {
        return refuse(reading->why, reading->number,
                      "expected a priority of at most 16777215, a tab and a name");
    }
    char name[TT_ORDER_NAME_BYTES_MAX + 1];
    if (bytes - skipped > TT_ORDER_NAME_BYTES_MAX) {
        return refuse(reading->why, reading->number, "the name is longer than 255 bytes");
    }
    memcpy(name, line + skipped, bytes - skipped);
    name[bytes - skipped] = '\0';
    if (strlen(name) != bytes - skipped || !tt_order_name_is_writable(name)) {
        return refuse(reading->why, reading->number,
                      "the name is empty or has control characters in it");
    }
    return reading->line(reading->user, name, priority, reading->why);
}

tt_status tt_order_text_parse(const char *text, size_t text_bytes, tt_order_line_fn *line,
                              void *user, tt_text *why)
{
    reading_state reading = {.line = line, .user = user, .why = why};
    if (text_bytes > TT_ORDER_TEXT_BYTES_MAX) {
        return refuse(why, 0, "the text is longer than 16 MiB");
    }
    size_t start = 0;
    while (start < text_bytes) {
        const char *end = memchr(text + start, '\n', text_bytes - start);
        const size_t bytes = end != NULL ? (size_t)(end - (text + start)) : text_bytes - start;
        const char *words = text + start;
        reading.number++;
        if (reading.number == 1) {
            if (bytes != strlen(TT_ORDER_TITLE) || memcmp(words, TT_ORDER_TITLE, bytes) != 0) {
                return refuse(why, 1, "expected '" TT_ORDER_TITLE "'");
            }
        } else if (bytes > 0 && words[0] != '#') {
            TT_TRY(line_read(&reading, words, bytes));
        }
        start += bytes + 1;
    }
    return reading.number > 0 ? TT_OK : refuse(why, 1, "expected '" TT_ORDER_TITLE "'");
}
