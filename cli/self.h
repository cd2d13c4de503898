/* SPDX-License-Identifier: Apache-2.0
 *
 * self.h - where this program lies.
 *
 * Layer:   cli.
 * Threads: any.
 */
#ifndef TUTTI_CLI_SELF_H
#define TUTTI_CLI_SELF_H

#include <stddef.h>

/* The path of this program: by /proc, or without it as it was executed. Call before any chdir.
 * Returns `path`; "" where nothing tells. */
const char *tt_self_path(char *path, size_t path_bytes);

#endif
