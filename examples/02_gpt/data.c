/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - text to tokens. The alphabet is every character that occurs, in ASCII order, so equal
 * texts give equal tokens on every rank.
 */
#include "data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 16 << 20 };

static bool is_kept(int c)
{
    return c == '\n' || (c >= ' ' && c <= '~');
}

/* Append the file to `text`; returns the new length, or 0 after a message. */
static size_t file_append(const char *path, char *text, size_t used)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
        return 0;
    }
    int c;
    while (used < TEXT_BYTES_MAX && (c = getc(file)) != EOF) {
        const bool is_indent = c == ' ' && (used == 0 || strchr(" \n", text[used - 1]) != NULL);
        if (is_kept(c) && !is_indent) {
            text[used++] = (char)c;
        }
    }
    if (ferror(file) != 0) {
        fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
        used = 0;
    }
    fclose(file);
    return used;
}

char *gpt_text_read(char *const *paths, int path_count, size_t *count_out)
{
    char *text = malloc(TEXT_BYTES_MAX);
    if (text == NULL) {
        fprintf(stderr, "no memory for the text\n");
        return NULL;
    }
    size_t used = 0;
    for (int i = 0; i < path_count; i++) {
        used = file_append(paths[i], text, used);
        if (used == 0) {
            free(text);
            return NULL;
        }
    }
    *count_out = used;
    return text;
}

bool gpt_text_encode(gpt_text *text, const char *characters, size_t count)
{
    *text = (gpt_text){.count = count, .tokens = malloc(count)};
    if (text->tokens == NULL) {
        return false;
    }
    bool seen[128] = {false};
    for (size_t i = 0; i < count; i++) {
        seen[characters[i] & 127] = true;
    }
    uint8_t place[128] = {0};
    for (size_t c = 0; c < sizeof(seen); c++) {
        if (seen[c]) {
            place[c] = (uint8_t)text->alphabet_count;
            text->alphabet[text->alphabet_count++] = (char)c;
        }
    }
    for (size_t i = 0; i < count; i++) {
        text->tokens[i] = place[characters[i] & 127];
    }
    return true;
}

void gpt_text_fini(gpt_text *text)
{
    free(text->tokens);
    *text = (gpt_text){0};
}

void gpt_text_draw(const gpt_text *text, gpt_random *random, const gpt_batch *batch)
{
    for (size_t i = 0; i < batch->batch; i++) {
        const size_t start = gpt_random_next(random) % (text->count - batch->context);
        memcpy(batch->tokens + i * batch->context, text->tokens + start, batch->context);
        memcpy(batch->targets + i * batch->context, text->tokens + start + 1, batch->context);
    }
}
