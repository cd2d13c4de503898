/* SPDX-License-Identifier: Apache-2.0
 *
 * data.h - text to train on: read, turned into tokens, drawn at random.
 *
 * Layer:   example; does not use Tutti.
 * Threads: a text does not change once encoded.
 * Memory:  gpt_text_fini frees what gpt_text_encode took; raw characters are the caller's.
 */
#ifndef GPT_DATA_H
#define GPT_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "random.h"

typedef struct gpt_text {
    uint8_t *tokens; /* places in `alphabet` */
    size_t count;
    char alphabet[128];
    size_t alphabet_count;
} gpt_text;

/* Read the files one after another, keeping printable ASCII and line ends, without indentation. The
 * caller frees. NULL after a message on stderr. */
char *gpt_text_read(char *const *paths, int path_count, size_t *count_out);

/* False when memory is short. */
bool gpt_text_encode(gpt_text *text, const char *characters, size_t count);
void gpt_text_fini(gpt_text *text);

/* `batch` random windows of `context` tokens; targets are the tokens one further on. The text
 * must be longer than `context`. */
typedef struct gpt_batch {
    uint8_t *tokens;
    uint8_t *targets;
    size_t batch;
    size_t context;
} gpt_batch;
void gpt_text_draw(const gpt_text *text, gpt_random *random, const gpt_batch *batch);

#endif
