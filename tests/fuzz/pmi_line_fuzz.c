/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a PMI line: fields lie inside it, and a line written anew from plain fields is read
 * back as the same fields.
 *
 * Labels: launch */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "launch/pmi/pmi_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

static bool copy_text(char *target, size_t target_bytes, const char *source, size_t source_bytes)
{
    if (source_bytes >= target_bytes) {
        return false;
    }
    memcpy(target, source, source_bytes);
    target[source_bytes] = '\0';
    return true;
}

/* Write the fields after the first, which becomes the command. */
static bool write_again(const tt_launch_pmi_line *line, tt_launch_pmi_text *text)
{
    char key[TT_LAUNCH_PMI_LINE_BYTES];
    char value[TT_LAUNCH_PMI_LINE_BYTES];
    const tt_launch_pmi_field *first = &line->fields[0];
    TT_ASSERT(copy_text(value, sizeof(value), first->value, first->value_bytes));
    tt_launch_pmi_text_start(text, value);
    for (size_t i = 1; i < line->field_count; i++) {
        const tt_launch_pmi_field *field = &line->fields[i];
        TT_ASSERT(copy_text(key, sizeof(key), field->key, field->key_bytes));
        TT_ASSERT(copy_text(value, sizeof(value), field->value, field->value_bytes));
        tt_launch_pmi_text_add(text, key, value);
    }
    return tt_launch_pmi_text_end(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    const char *line_bytes = (const char *)bytes;
    tt_launch_pmi_line line;
    tt_launch_pmi_line again;
    tt_launch_pmi_text text;
    if (tt_launch_pmi_line_decode(line_bytes, byte_count, &line) != TT_OK) {
        return 0;
    }
    TT_ASSERT(line.field_count >= 1);
    TT_ASSERT(line.field_count <= TT_LAUNCH_PMI_FIELDS_MAX);
    for (size_t i = 0; i < line.field_count; i++) {
        const tt_launch_pmi_field *field = &line.fields[i];
        TT_ASSERT(field->key >= line_bytes);
        TT_ASSERT(field->key_bytes > 0);
        TT_ASSERT(field->key + field->key_bytes < field->value);
        TT_ASSERT(field->value + field->value_bytes <= line_bytes + byte_count);
    }
    if (!write_again(&line, &text)) {
        return 0; /* empty values or blanks in messages, which we never write */
    }
    TT_ASSERT(tt_launch_pmi_line_decode(text.bytes, text.count - 1, &again) == TT_OK);
    TT_ASSERT(again.field_count == line.field_count);
    for (size_t i = 1; i < line.field_count; i++) {
        TT_ASSERT(again.fields[i].value_bytes == line.fields[i].value_bytes);
        TT_ASSERT(memcmp(again.fields[i].value, line.fields[i].value, line.fields[i].value_bytes) ==
                  0);
    }
    return 0;
}
