/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_open.h - the outside engine of a context: loaded, started, given process sets, closed.
 *
 * Layer:   api, private.
 * Threads: as each function says; else one at a time.
 * Memory:  the context's.
 */
#ifndef TUTTI_API_ENGINE_OPEN_H
#define TUTTI_API_ENGINE_OPEN_H

#include "api/api_internal.h"

/* Load the plugin `name`; nothing is started. */
tt_status tt_engine_load(tutti_context *context, const tt_plugin_source *source, const char *name,
                         tt_text *why);
/* Start it. `rank` and `size` as far as they are known, else -1. */
tt_status tt_engine_open(tutti_context *context, int rank, int size, tt_text *why);
/* All ranks have met: sets of the world that the engine does not have from the beginning. */
tt_status tt_engine_begin(tutti_context *context, tt_text *why);
/* A process set exists from now on, or no more; with the baton. */
tutti_status tt_engine_set_create(tutti_context *context, uint32_t set, const int *ranks,
                                  int rank_count);
void tt_engine_set_remove(tutti_context *context, uint32_t set);
/* After the driver is gone; `is_broken`: peers are down, or ops are still under way. */
void tt_engine_close(tutti_context *context, bool is_broken);

#endif
