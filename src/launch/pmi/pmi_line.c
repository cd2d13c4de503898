/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/pmi/pmi_line.h"

#include <string.h>

#include "base/assert.h"

static bool is_printable(const char *text, const char *forbidden)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~' || strchr(forbidden, *at) != NULL) {
            return false;
        }
    }
    return text[0] != '\0';
}

static void append(tt_launch_pmi_text *text, const char *bytes)
{
    const size_t count = strlen(bytes);
    /* One byte is reserved for the end of line. */
    if (count > sizeof(text->bytes) - 1 - text->count) {
        text->is_good = false;
        return;
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
}

void tt_launch_pmi_text_add(tt_launch_pmi_text *text, const char *key, const char *value)
{
    if (!is_printable(key, "=") || !is_printable(value, "")) {
        text->is_good = false;
        return;
    }
    if (text->count > 0) {
        append(text, " ");
    }
    append(text, key);
    append(text, "=");
    append(text, value);
}

void tt_launch_pmi_text_start(tt_launch_pmi_text *text, const char *command)
{
    text->count = 0;
    text->is_good = true;
    tt_launch_pmi_text_add(text, "cmd", command);
}

bool tt_launch_pmi_text_end(tt_launch_pmi_text *text)
{
    TT_ASSERT(text->count < sizeof(text->bytes));
    text->bytes[text->count++] = '\n';
    return text->is_good;
}

/* Take one word: a new field, or the rest of the last one's value. */
static tt_status take_word(tt_launch_pmi_line *line, const char *word, size_t word_bytes)
{
    const char *equals = memchr(word, '=', word_bytes);
    if (equals == NULL) {
        if (line->field_count == 0) {
            return TT_ERR_BAD_WIRE;
        }
        tt_launch_pmi_field *last = &line->fields[line->field_count - 1];
        last->value_bytes = (size_t)(word + word_bytes - last->value);
        return TT_OK;
    }
    if (equals == word || line->field_count == TT_LAUNCH_PMI_FIELDS_MAX) {
        return TT_ERR_BAD_WIRE;
    }
    line->fields[line->field_count++] = (tt_launch_pmi_field){
        .key = word,
        .key_bytes = (size_t)(equals - word),
        .value = equals + 1,
        .value_bytes = (size_t)(word + word_bytes - (equals + 1)),
    };
    return TT_OK;
}

tt_status tt_launch_pmi_line_decode(const char *line, size_t line_bytes,
                                    tt_launch_pmi_line *line_out)
{
    tt_launch_pmi_line decoded = {.field_count = 0};
    if (line_bytes >= TT_LAUNCH_PMI_LINE_BYTES) {
        return TT_ERR_BAD_WIRE;
    }
    for (size_t at = 0; at < line_bytes;) {
        size_t end = at;
        while (end < line_bytes && line[end] != ' ') {
            /* Bytes above ASCII are allowed, control characters are not. */
            if ((unsigned char)line[end] < ' ' || line[end] == 0x7f) {
                return TT_ERR_BAD_WIRE;
            }
            end++;
        }
        if (end > at) {
            TT_TRY(take_word(&decoded, line + at, end - at));
        }
        at = end + 1;
    }
    if (decoded.field_count == 0) {
        return TT_ERR_BAD_WIRE;
    }
    *line_out = decoded;
    return TT_OK;
}

const tt_launch_pmi_field *tt_launch_pmi_line_find(const tt_launch_pmi_line *line, const char *key)
{
    const size_t key_bytes = strlen(key);
    for (size_t i = 0; i < line->field_count; i++) {
        const tt_launch_pmi_field *field = &line->fields[i];
        if (field->key_bytes == key_bytes && memcmp(field->key, key, key_bytes) == 0) {
            return field;
        }
    }
    return NULL;
}

bool tt_launch_pmi_line_has(const tt_launch_pmi_line *line, const char *key, const char *value)
{
    const tt_launch_pmi_field *field = tt_launch_pmi_line_find(line, key);
    return field != NULL && field->value_bytes == strlen(value) &&
           memcmp(field->value, value, field->value_bytes) == 0;
}
