/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.h - heap for tensors inside a shared mapping.
 *
 * The mapping is large and sparse; pages exist only for allocated blocks. The lists of free and
 * used blocks lie in private memory of the owner, because peers can write to every shared byte.
 *
 * Layer:   transport; may include base/ only.
 * Threads: any thread may allocate, release and locate.
 * Memory:  block descriptions are malloc'ed at allocate and freed at release.
 */
#ifndef TUTTI_TRANSPORT_SHM_ARENA_H
#define TUTTI_TRANSPORT_SHM_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { TT_ARENA_WHY_BYTES = 160 };

typedef struct tt_arena tt_arena;

/* Memory that the heap manages: `bytes` at `memory`, which map `descriptor` from `file_offset` on.
 * All but the descriptor are multiples of 2 MiB. The descriptor is borrowed. */
typedef struct tt_arena_span {
    uint8_t *memory;
    uint64_t bytes;
    uint64_t file_offset;
    int descriptor;
} tt_arena_span;

/* The caller destroys it, which frees blocks still allocated. */
tt_status tt_arena_create(const tt_arena_span *span, tt_arena **arena_out);
void tt_arena_destroy(tt_arena *arena);

/* Zeroed, populated memory: touching it cannot fail later. 64-byte aligned; from 4 MiB on 2 MiB
 * aligned, in huge pages where the kernel gives them. On failure `why_out` (may be NULL) names
 * the exhausted resource. */
tt_status tt_arena_allocate(tt_arena *arena, size_t bytes, void **memory_out,
                            char why_out[TT_ARENA_WHY_BYTES]);
/* The same for long-lived memory: from 512 KiB on huge pages are requested explicitly, which takes
 * some ms and does not pay for memory that is soon released. */
tt_status tt_arena_allocate_lasting(tt_arena *arena, size_t bytes, void **memory_out,
                                    char why_out[TT_ARENA_WHY_BYTES]);

/* TT_ERR_BAD_ARGUMENT if `memory` is not an allocated block of this arena. */
tt_status tt_arena_release(tt_arena *arena, void *memory);

/* Offset of memory[0..bytes) from the arena's start; false if it does not lie in the arena. */
bool tt_arena_locate(const tt_arena *arena, const void *memory, size_t bytes, uint64_t *offset_out);

/* Bytes allocated now, rounding included. */
uint64_t tt_arena_bytes_used(tt_arena *arena);

#endif
