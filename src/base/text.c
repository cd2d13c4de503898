/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

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
    if (wanted < 0) { /* a bad multibyte string: the rest of the message is still worth having */
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

void tt_text_add_words(tt_text *text, const char *source, size_t bytes_max)
{
    char plain[TT_TEXT_BYTES];
    size_t count = 0;
    for (; count < bytes_max && count < TT_TEXT_BYTES - 1 && source[count] != '\0'; count++) {
        const char letter = source[count];
        plain[count] = letter >= ' ' && letter <= '~' ? letter : '?';
    }
    tt_text_add(text, "%.*s", (int)count, plain);
}
