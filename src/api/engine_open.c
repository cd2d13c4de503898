/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_open.c - the outside engine of a context: load, start, end. */
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "api/engine_open.h"
#include "base/base.h"

static void engine_log(void *user, int level, const char *text)
{
    const tutti_context *context = user;
    tt_log_write(&context->log, level, "%s", text);
}

tt_status tt_engine_load(tutti_context *context, const tt_plugin_source *source, const char *name,
                         tt_text *why)
{
    tt_text inner = {0};
    context->engine_plugin = tt_plugin_load(source, name, TT_PLUGIN_ENGINE, &inner);
    if (context->engine_plugin == NULL) {
        tt_text_add(why, "engine %.64s: %s", name, inner.bytes);
        return TT_ERR_BAD_CONFIG;
    }
    return TT_OK;
}

tt_status tt_engine_open(tutti_context *context, int rank, int size, tt_text *why)
{
    const tutti_engine_ops *ops = context->engine_plugin->engine;
    const tutti_plugin_host host = {.struct_bytes = sizeof(host),
                                    .rank = rank,
                                    .size = size,
                                    .user = context,
                                    .log = engine_log};
    char inner[TUTTI_PLUGIN_WHY_BYTES] = "";
    const int status = ops->open(&host, &context->engine, inner);
    if (status != TUTTI_OK) {
        context->engine = NULL;
        tt_text_add(why, "engine %s: %s", context->engine_plugin->name,
                    inner[0] != 0 ? inner : tt_status_text((tt_status)status));
        return (tt_status)status;
    }
    ops->describe(context->engine, context->engine_text);
    tt_log_write(&context->log, TT_LOG_INFO, "engine %s: %s", context->engine_plugin->name,
                 context->engine_text);
    return TT_OK;
}

tutti_status tt_engine_set_create(tutti_context *context, uint32_t set, const int *ranks,
                                  int rank_count)
{
    if (!context->engine_launches || context->engine_plugin->engine->set_create == NULL) {
        return TUTTI_OK;
    }
    const tutti_engine_ops *ops = context->engine_plugin->engine;
    int status = TUTTI_OK;
    if (set != TUTTI_WORLD) {
        status = ops->set_create(context->engine, set, ranks, rank_count);
    }
    if (status == TUTTI_OK) {
        status = ops->set_create(context->engine, set | TUTTI_ENGINE_SET_NAMED, ranks, rank_count);
    }
    return (tutti_status)status;
}

tt_status tt_engine_begin(tutti_context *context, tt_text *why)
{
    if (!context->engine_launches) {
        return TT_OK;
    }
    int *ranks = calloc((size_t)context->size, sizeof(*ranks));
    if (ranks == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (int i = 0; i < context->size; i++) {
        ranks[i] = i;
    }
    const tutti_status status = tt_engine_set_create(context, TUTTI_WORLD, ranks, context->size);
    free(ranks);
    if (status != TUTTI_OK) {
        tt_text_add(why, "engine %s: cannot create the process set of named calls",
                    context->engine_plugin->name);
    }
    return (tt_status)status;
}

void tt_engine_set_remove(tutti_context *context, uint32_t set)
{
    if (context->engine_launches && context->engine_plugin->engine->set_remove != NULL) {
        context->engine_plugin->engine->set_remove(context->engine, set);
        context->engine_plugin->engine->set_remove(context->engine, set | TUTTI_ENGINE_SET_NAMED);
    }
}

void tt_engine_close(tutti_context *context, bool is_broken)
{
    if (context->engine == NULL) {
        return;
    }
    if (is_broken && context->engine_plugin->engine->abort != NULL) {
        context->engine_plugin->engine->abort(context->engine);
    }
    context->engine_plugin->engine->close(context->engine);
    context->engine = NULL;
}
