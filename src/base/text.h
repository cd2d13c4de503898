/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - a line of text of bounded length, for error messages.
 *
 * Layer:   base.
 * Threads: one thread at a time per text.
 * Memory:  none taken; a text lives where its owner puts it.
 */
#ifndef TUTTI_BASE_TEXT_H
#define TUTTI_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    TT_TEXT_BYTES = 512, /* the terminating zero included */
};

/* All zeros is the empty text. bytes[length] is always 0. */
typedef struct tt_text {
    char bytes[TT_TEXT_BYTES];
    size_t length;
} tt_text;

void tt_text_clear(tt_text *text);

/* Append as printf would. A text that does not fit is cut and ends in "...". */
__attribute__((format(printf, 2, 3))) void tt_text_add(tt_text *text, const char *format, ...);
__attribute__((format(printf, 2, 0))) void tt_text_add_list(tt_text *text, const char *format,
                                                            va_list arguments);

/* Append a finite number with nine digits, which tell any two floats apart. In every locale it has
 * the form that tt_config_parse_real reads. */
void tt_text_add_real(tt_text *text, double value);

/* Append untrusted bytes (a peer's, a user's), at most `bytes_max` of them: bytes that are not
 * printable ASCII become \xNN, so that a log line stays one line. */
void tt_text_add_quoted(tt_text *text, const char *source, size_t bytes_max);
/* The same for texts that this library or a program wrote, on this rank or on another: no quotation
 * marks, UTF-8 is kept, and characters that are not printable become '?'. */
void tt_text_add_words(tt_text *text, const char *source, size_t bytes_max);

/* Copy what comes before one of `stops`, or the end, to `word`, which has room for `room` bytes
 * with its zero, and move `*source_io` behind it. False, and nothing is done: it is too long. */
bool tt_text_take_word(const char **source_io, const char *stops, char *word, size_t room);

#endif
