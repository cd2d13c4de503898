/* SPDX-License-Identifier: Apache-2.0
 *
 * as_horovod.h - variables under which Python's `import horovod` finds Tutti.
 *
 * Layer:   cli.
 * Threads: one.
 * Memory:  the strings live in the tt_as_horovod until fini.
 */
#ifndef TUTTI_CLI_RUN_AS_HOROVOD_H
#define TUTTI_CLI_RUN_AS_HOROVOD_H

#include <stdbool.h>

#include "cli/option.h"

/* A rank with this variable also gets HOROVOD_RANK and Horovod's other variables. */
#define TT_AS_HOROVOD_MARK "TUTTI_AS_HOROVOD=1"

typedef struct tt_as_horovod {
    char *path;         /* "PYTHONPATH=..." */
    const char **items; /* the variables given, and ours */
} tt_as_horovod;

/* Add to `variables`; false: Tutti's Python modules are not beside this program. */
bool tt_as_horovod_find(tt_as_horovod *self, tt_option_list *variables);
void tt_as_horovod_fini(tt_as_horovod *self);

#endif
