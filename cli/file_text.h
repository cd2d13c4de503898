/* SPDX-License-Identifier: Apache-2.0
 *
 * file_text.h - the bytes of a file that a user names.
 *
 * Layer:   cli.
 * Threads: one at a time per file.
 * Memory:  the caller frees what it gets.
 */
#ifndef TUTTI_CLI_FILE_TEXT_H
#define TUTTI_CLI_FILE_TEXT_H

#include <stddef.h>

#include "base/text.h"

/* All of a file, ended by a zero; NULL with the cause in `why`. */
char *tt_file_read(const char *path, size_t bytes_max, size_t *bytes_out, tt_text *why);

#endif
