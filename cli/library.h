/* SPDX-License-Identifier: Apache-2.0
 *
 * library.h - what the program knows about the library's TUTTI_* variables, in one place.
 *
 * Layer:   cli.
 * Threads: const.
 */
#ifndef TUTTI_CLI_LIBRARY_H
#define TUTTI_CLI_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tt_library_variable {
    const char *name;         /* "TUTTI_TRANSPORT" */
    const char *default_text; /* "" if it has none */
    const char *help;         /* one sentence */
    bool is_set_by_launcher;  /* users read it but do not set it */
} tt_library_variable;

/* Entry `index`, or NULL beyond the last. */
const tt_library_variable *tt_library_variable_at(size_t index);
const tt_library_variable *tt_library_variable_find(const char *name);

/* Name of the launcher family that the environment shows, or NULL; the library would choose it. */
const char *tt_library_launcher(void);

#endif
