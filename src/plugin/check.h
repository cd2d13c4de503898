/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h - is what a file exports a plugin that this Tutti can use?
 *
 * Layer:   plugin; may include base/ only.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_PLUGIN_CHECK_H
#define TUTTI_PLUGIN_CHECK_H

#include "plugin/plugin.h"

#define TT_PLUGIN_FILE_PREFIX "tutti-"
#define TT_PLUGIN_FILE_SUFFIX ".so"

/* Is `found`, of the file at `path`, complete, and has it `part`? False: `why` names the fault and
 * the cure. None of its functions is called. */
bool tt_plugin_check(const char *path, const tutti_plugin *found, tt_plugin_part part,
                     tt_text *why);

#endif
