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
/* Start it. `rank` and `size`: -1 where not known yet. */
tt_status tt_engine_open(tutti_context *context, int rank, int size, tt_text *why);
/* After rendezvous: create the engine's sets of the world that it does not have from the start. */
tt_status tt_engine_begin(tutti_context *context, tt_text *why);
/* A process set was created or removed; with the baton. */
tutti_status tt_engine_set_create(tutti_context *context, uint32_t set, const int *ranks,
                                  int rank_count);
void tt_engine_set_remove(tutti_context *context, uint32_t set);
/* After the driver is closed; `is_broken`: peers are down, or ops are still in flight. */
void tt_engine_close(tutti_context *context, bool is_broken);

#endif
