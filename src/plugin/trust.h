/* SPDX-License-Identifier: Apache-2.0
 *
 * trust.h - may a plugin be loaded from a path, or could another user have put it there?
 *
 * Layer:   plugin; private to it.
 * Threads: pure except for the file system.
 * Memory:  caller's storage.
 */
#ifndef TUTTI_PLUGIN_TRUST_H
#define TUTTI_PLUGIN_TRUST_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/text.h"

/* Whose files may run in this process. */
typedef struct tt_plugin_owners {
    uid_t user;    /* this process's */
    uid_t system;  /* of the root folder: root, or what root looks like in a user namespace */
    uid_t library; /* of the file with this code: its owner can run any code here anyway */
} tt_plugin_owners;

/* `own_file`: the library, or a program linked with it; NULL: not known. */
tt_plugin_owners tt_plugin_owners_here(const char *own_file);

/* True: no user but root and `owners` can have written the file, or put another in its place;
 * `real_out` is then its path without symbolic links, to be opened instead of `path`. False: `why`
 * names the file or folder at fault and the cure. */
bool tt_plugin_is_trusted(const char *path, const tt_plugin_owners *owners, char real_out[PATH_MAX],
                          tt_text *why);

#endif
