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

/* Bytes left before the host or the control group (version 1 or 2) is out of memory: what the
 * kernel would kill for. UINT64_MAX where nothing is known. A guess: others allocate too. */
uint64_t tt_memory_available(void);

#endif
