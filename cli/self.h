/* SPDX-License-Identifier: Apache-2.0
 *
 * self.h - the path of this program.
 *
 * Layer:   cli.
 * Threads: any.
 */
#ifndef TUTTI_CLI_SELF_H
#define TUTTI_CLI_SELF_H

#include <stddef.h>

/* The path of this program: from /proc, else as it was executed. Call before any chdir.
 * Returns `path`; "" if it is unknown. */
const char *tt_self_path(char *path, size_t path_bytes);

#endif
