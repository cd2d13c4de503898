/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h - how much memory this process may still touch.
 *
 * Layer:   base; reads /proc and the control group's files.
 * Threads: any.
 * Memory:  some KiB of stack.
 */
#ifndef TUTTI_BASE_MEMORY_H
#define TUTTI_BASE_MEMORY_H

#include <stdint.h>

enum {
    TT_MEMORY_RESERVE_BYTES = 16 * 1024 * 1024, /* for page tables and concurrent allocations */
    TT_MEMORY_PIECE_BYTES = 2 * 1024 * 1024,
};

/* Bytes left before the host or a control group (version 1 or 2; the process's own, or one above
 * it) is out of memory and the kernel kills. UINT64_MAX where unknown. An estimate: other processes
 * allocate too. */
uint64_t tt_memory_available(void);

/* The same where /proc and /sys lie below `root`; for tests. */
uint64_t tt_memory_available_below(const char *root);

/* How many of `bytes` may be touched before the next call: processes that reach the limit of one
 * group together must see each other's pages. A multiple of TT_MEMORY_PIECE_BYTES, or all. 0:
 * `bytes` do not fit in `available_out`. */
uint64_t tt_memory_next_piece(uint64_t bytes, uint64_t *available_out);

#endif
