/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - find and load plugins (include/tutti/plugin.h) by name.
 *
 * Layer:   plugin; may include base/ only.
 * Threads: pure except for the dynamic linker, which locks itself.
 * Memory:  loaded plugins stay loaded; nothing else is kept.
 */
#ifndef TUTTI_PLUGIN_PLUGIN_H
#define TUTTI_PLUGIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/text.h"
#include "tutti/plugin.h"

enum { TT_PLUGIN_PATH_BYTES = 1024, TT_PLUGIN_NAME_BYTES = 64 };

typedef enum tt_plugin_part { TT_PLUGIN_ANY, TT_PLUGIN_ENGINE, TT_PLUGIN_TRANSPORT } tt_plugin_part;

/* Where variables come from; as tt_config_source. */
typedef struct tt_plugin_source {
    const char *(*lookup)(void *user, const char *name);
    void *user;
} tt_plugin_source;

/* The plugin `name`, which must have `part`. NULL: `why` names cause and cure. "mpi" stands for the
 * plugin of the MPI that this process uses or was started by. */
const tutti_plugin *tt_plugin_load(const tt_plugin_source *source, const char *name,
                                   tt_plugin_part part, tt_text *why);

/* Every plugin file that is found, once; `found` is NULL if loading failed, and `why` is the error.
 */
typedef void tt_plugin_visit(void *user, const char *path, const tutti_plugin *found,
                             const char *why);
void tt_plugin_each(const tt_plugin_source *source, tt_plugin_visit *visit, void *user);

/* Files that would not be loaded because others could have written them; loads nothing. */
void tt_plugin_passed_over(const tt_plugin_source *source, tt_plugin_visit *visit, void *user);

/* Is an MPI among the libraries of this process? */
bool tt_plugin_has_mpi(void);
/* The names that "mpi" stands for in this process, best first; ends in NULL. */
const char *const *tt_plugin_mpi_names(const tt_plugin_source *source);

/* Folder of the user's own plugins: where `tutti plugin build` writes. False: there is no home. */
bool tt_plugin_home(const tt_plugin_source *source, char path_out[TT_PLUGIN_PATH_BYTES]);

/* The `index`-th folder that is searched; false: there are no more. */
bool tt_plugin_folder(const tt_plugin_source *source, size_t index,
                      char path_out[TT_PLUGIN_PATH_BYTES]);

#endif
