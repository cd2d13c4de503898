/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

void tt_text_clear(tt_text *text)
{
    text->bytes[0] = '\0';
    text->length = 0;
}

void tt_text_add(tt_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tt_text_add_list(text, format, arguments);
    va_end(arguments);
}

void tt_text_add_list(tt_text *text, const char *format, va_list arguments)
{
    TT_ASSERT(text->length < TT_TEXT_BYTES);
    const size_t room = TT_TEXT_BYTES - text->length;
    const int wanted = vsnprintf(text->bytes + text->length, room, format, arguments);
    if (wanted < 0) { /* a bad multibyte string: the rest of the message is still useful */
        text->bytes[text->length] = '\0';
        return;
    }
    if ((size_t)wanted < room) {
        text->length += (size_t)wanted;
        return;
    }
    static const char cut[] = "...";
    text->length = TT_TEXT_BYTES - 1;
    memcpy(text->bytes + TT_TEXT_BYTES - sizeof(cut), cut, sizeof(cut));
}

void tt_text_add_real(tt_text *text, double value)
{
    char printed[32];
    int used = snprintf(printed, sizeof(printed), "%.9g", value);
    int digits = 0; /* before the point */
    TT_ASSERT(isfinite(value) && used > 0 && (size_t)used < sizeof(printed));
    while (strchr("-0123456789", printed[digits]) != NULL && printed[digits] != '\0') {
        digits++;
    }
    tt_text_add(text, "%.*s", digits, printed);
    if (printed[digits] != '\0' && printed[digits] != 'e') {
        tt_text_add(text, "."); /* the locale's point has any number of bytes */
        while (strchr("0123456789", printed[digits]) == NULL) {
            digits++;
        }
    }
    tt_text_add(text, "%s", printed + digits);
}

void tt_text_add_quoted(tt_text *text, const char *source, size_t bytes_max)
{
    tt_text_add(text, "\"");
    for (size_t i = 0; i < bytes_max && source[i] != '\0'; i++) {
        const unsigned char byte = (unsigned char)source[i];
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
            tt_text_add(text, "%c", byte);
        } else {
            tt_text_add(text, "\\x%02x", byte);
        }
    }
    tt_text_add(text, "\"");
}

/* Bytes of the UTF-8 character at `source`; 0 if it must not be shown: malformed, a control
 * character, a line separator or a change of direction. */
static size_t character_bytes(const unsigned char *source, size_t bytes_max)
{
    const size_t bytes = source[0] < 0xc2 ? 1 : source[0] < 0xe0 ? 2 : source[0] < 0xf0 ? 3 : 4;
    if (bytes == 1) {
        return source[0] >= ' ' && source[0] <= '~' ? 1 : 0;
    }
    uint32_t point = source[0] & (0xffu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++) {
        if (i >= bytes_max || (source[i] & 0xc0) != 0x80) {
            return 0;
        }
        point = point << 6 | (source[i] & 0x3fu);
    }
    const bool is_short = (bytes == 3 && point < 0x800) || (bytes == 4 && point < 0x10000);
    const bool is_none = point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff) || point < 0xa0;
    const bool is_layout = (point >= 0x200b && point <= 0x200f) ||
                           (point >= 0x2028 && point <= 0x202e) ||
                           (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
    return is_short || is_none || is_layout ? 0 : bytes;
}

void tt_text_add_words(tt_text *text, const char *source, size_t bytes_max)
{
    char plain[TT_TEXT_BYTES];
    size_t count = 0;
    while (count < bytes_max && count < TT_TEXT_BYTES - 1 && source[count] != '\0') {
        const size_t room = bytes_max - count < TT_TEXT_BYTES - 1 - count
                                ? bytes_max - count
                                : TT_TEXT_BYTES - 1 - count;
        const size_t bytes = character_bytes((const unsigned char *)source + count, room);
        if (bytes == 0) {
            plain[count++] = '?';
            continue;
        }
        memcpy(plain + count, source + count, bytes);
        count += bytes;
    }
    tt_text_add(text, "%.*s", (int)count, plain);
}

bool tt_text_take_word(const char **source_io, const char *stops, char *word, size_t room)
{
    const size_t length = strcspn(*source_io, stops);
    if (length >= room) {
        return false;
    }
    memcpy(word, *source_io, length);
    word[length] = '\0';
    *source_io += length;
    return true;
}
