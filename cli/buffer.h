/* SPDX-License-Identifier: Apache-2.0
 *
 * buffer.h - a growing run of bytes, filled at its end and taken from its start.
 *
 * Layer:   cli.
 * Threads: one at a time.
 * Memory:  grows on demand; running out of memory ends the program with a message, since a
 *          launcher that cannot keep a line of output cannot do anything better.
 */
#ifndef TUTTI_CLI_BUFFER_H
#define TUTTI_CLI_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "cli/allocate.h"

typedef struct tt_buffer {
    uint8_t *memory;
    size_t start;
    size_t end;
    size_t capacity;
} tt_buffer;

void tt_buffer_fini(tt_buffer *buffer);
/* Room for `bytes` more; returns where they go. tt_buffer_fill then adds those written there. */
uint8_t *tt_buffer_reserve(tt_buffer *buffer, size_t bytes);
void tt_buffer_fill(tt_buffer *buffer, size_t bytes);
void tt_buffer_append(tt_buffer *buffer, const void *source, size_t bytes);
void tt_buffer_take(tt_buffer *buffer, size_t bytes);

static inline size_t tt_buffer_bytes(const tt_buffer *buffer)
{
    return buffer->end - buffer->start;
}

static inline uint8_t *tt_buffer_data(const tt_buffer *buffer)
{
    return buffer->memory + buffer->start;
}

#endif
