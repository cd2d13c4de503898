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
    char name[48];            /* "TUTTI_TRANSPORT" */
    const char *default_text; /* "" if it has none */
    const char *help;         /* one sentence */
    bool is_set_by_launcher;  /* users read it but do not set it */
} tt_library_variable;

/* Entry `index`: first those of the launcher contract, then the settings of a context. False
 * beyond the last. */
bool tt_library_variable_at(size_t index, tt_library_variable *variable_out);
bool tt_library_variable_is_known(const char *name);

/* What the library would make of the environment. */
typedef struct tt_library_place {
    bool is_launched; /* some launcher gave this process a rank */
    bool is_broken;   /* the variables make no sense; `text` says why and how to cure it */
    char text[1024];
    char warning[1024]; /* "" if there is none */
} tt_library_place;

void tt_library_place_find(tt_library_place *place_out);

#endif
