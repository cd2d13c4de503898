/* SPDX-License-Identifier: Apache-2.0
 *
 * allocate.h - memory for commands, which cannot go on without it.
 *
 * Layer:   cli.
 * Threads: any.
 * Memory:  the caller frees; running out of it ends the program with a message.
 */
#ifndef TUTTI_CLI_ALLOCATE_H
#define TUTTI_CLI_ALLOCATE_H

#include <stddef.h>

/* calloc that never returns NULL. In buffer.c. */
void *tt_cli_allocate(size_t count, size_t bytes);

#endif
