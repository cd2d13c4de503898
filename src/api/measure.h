/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.h - the table of costs of a context: read, measured, agreed on, saved.
 *
 * Layer:   api, private.
 * Threads: one at a time, while a context is made.
 * Memory:  as each function says.
 */
#ifndef TUTTI_API_MEASURE_H
#define TUTTI_API_MEASURE_H

#include "api/api_internal.h"

/* costs_file.c */
/* TT_ERR_SYSTEM: cannot be read; TT_ERR_BAD_CONFIG: `why` names the line. */
tt_status tt_costs_file_read(const char *path, tt_costs *costs_out, tt_text *why);
/* False: there is no cache folder. */
bool tt_costs_cache_path(const tt_config_source *source, const tt_settings *settings,
                         char path_out[TT_COSTS_PATH_BYTES]);
bool tt_costs_cache_is_writable(const char *path);
/* Lines that the file has by now stay, unless `costs` has a newer one. */
tt_status tt_costs_cache_save(const char *path, const tt_costs *costs);

/* measure.c */
/* Rank 0's message about costs; the caller frees it. Empty on other ranks. */
tt_status tt_costs_note(tutti_context *context, const tt_config_source *source, char **note_out,
                        tt_text *why);
/* Has any host more workers than cores that they may run on? All ranks compute the same answer.
 */
bool tt_costs_is_crowded(const tt_mesh *mesh);
/* Install the table of the note that all ranks received. */
tt_status tt_costs_take(tutti_context *context, const tt_mesh *mesh, tt_text *why);
/* Measure, if the note requests it; every rank calls it as its first collective. */
tutti_status tt_costs_measure(tutti_context *context);

#endif
