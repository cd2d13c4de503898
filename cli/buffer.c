/* SPDX-License-Identifier: Apache-2.0
 *
 * buffer.c - bytes are moved to the front only when room is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cli/buffer.h"

enum { CAPACITY_MIN = 4096 };

static _Noreturn void out_of_memory(void)
{
    fputs("tutti: out of memory\n", stderr);
    exit(1);
}

void *tt_cli_allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);
    if (memory == NULL) {
        out_of_memory();
    }
    return memory;
}

void tt_buffer_fini(tt_buffer *buffer)
{
    free(buffer->memory);
    *buffer = (tt_buffer){0};
}

uint8_t *tt_buffer_reserve(tt_buffer *buffer, size_t bytes)
{
    const size_t held = tt_buffer_bytes(buffer);
    if (buffer->memory != NULL && buffer->start > 0 && buffer->capacity - buffer->end < bytes) {
        memmove(buffer->memory, buffer->memory + buffer->start, held);
        buffer->start = 0;
        buffer->end = held;
    }
    if (buffer->capacity - buffer->end < bytes) {
        size_t capacity = buffer->capacity > 0 ? buffer->capacity : CAPACITY_MIN;
        while (capacity - held < bytes) {
            capacity *= 2;
        }
        buffer->memory = realloc(buffer->memory, capacity);
        if (buffer->memory == NULL) {
            out_of_memory();
        }
        buffer->capacity = capacity;
    }
    return buffer->memory + buffer->end;
}

void tt_buffer_fill(tt_buffer *buffer, size_t bytes)
{
    TT_ASSERT(bytes <= buffer->capacity - buffer->end);
    buffer->end += bytes;
}

void tt_buffer_append(tt_buffer *buffer, const void *source, size_t bytes)
{
    if (bytes > 0) {
        memcpy(tt_buffer_reserve(buffer, bytes), source, bytes);
        tt_buffer_fill(buffer, bytes);
    }
}

void tt_buffer_take(tt_buffer *buffer, size_t bytes)
{
    TT_ASSERT(bytes <= tt_buffer_bytes(buffer));
    buffer->start += bytes;
    if (buffer->start == buffer->end) {
        buffer->start = 0;
        buffer->end = 0;
    }
}
