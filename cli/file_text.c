/* SPDX-License-Identifier: Apache-2.0
 *
 * file_text.c - see file_text.h. */
#include "cli/file_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *stream_read(FILE *stream, size_t bytes_max, size_t *bytes_out)
{
    size_t capacity = 1 << 16;
    size_t bytes = 0;
    char *text = malloc(capacity);
    while (text != NULL) {
        bytes += fread(text + bytes, 1, capacity - 1 - bytes, stream);
        if (bytes < capacity - 1) {
            break;
        }
        char *larger = capacity > bytes_max ? NULL : realloc(text, 2 * capacity);
        if (larger == NULL) {
            free(text);
            return NULL;
        }
        text = larger;
        capacity *= 2;
    }
    if (text != NULL) {
        text[bytes] = '\0';
        *bytes_out = bytes;
    }
    return text;
}

char *tt_file_read(const char *path, size_t bytes_max, size_t *bytes_out, tt_text *why)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        tt_text_add(why, "cannot open: %s", strerror(errno));
        return NULL;
    }
    char *text = stream_read(stream, bytes_max, bytes_out);
    if (text == NULL) {
        tt_text_add(why, "too large, or out of memory");
    } else if (ferror(stream)) {
        tt_text_add(why, "cannot read: %s", strerror(errno));
        free(text);
        text = NULL;
    }
    fclose(stream);
    return text;
}
