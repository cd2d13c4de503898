/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/check.h"

#include <stdio.h>
#include <string.h>

static bool check_version(const char *path, const tutti_plugin *found, tt_text *why)
{
    if (found->abi != TUTTI_PLUGIN_ABI) {
        tt_text_add(why,
                    "%s is for plugin version %u, this is Tutti %d.%d with version %d; build it "
                    "anew (tutti plugin build)",
                    path, found->abi, TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_PLUGIN_ABI);
        return false;
    }
    return true;
}

static bool check_name(const char *path, const tutti_plugin *found, tt_text *why)
{
    const char *file = strrchr(path, '/');
    char expected[TT_PLUGIN_NAME_BYTES + sizeof(TT_PLUGIN_FILE_PREFIX TT_PLUGIN_FILE_SUFFIX)];
    (void)snprintf(expected, sizeof(expected), TT_PLUGIN_FILE_PREFIX "%.*s" TT_PLUGIN_FILE_SUFFIX,
                   TT_PLUGIN_NAME_BYTES, found->name != NULL ? found->name : "");
    if (found->struct_bytes < sizeof(*found) || strcmp(file + 1, expected) != 0) {
        tt_text_add(why, "%s calls itself '%.64s'; a plugin's file is tutti-<name>.so", path,
                    found->name != NULL ? found->name : "");
        return false;
    }
    return true;
}

static bool check_parts(const char *path, const tutti_plugin *found, tt_plugin_part part,
                        tt_text *why)
{
    const bool has_engine =
        found->engine != NULL && found->engine->struct_bytes >= sizeof(tutti_engine_ops);
    const bool has_transport =
        found->transport != NULL && found->transport->struct_bytes >= sizeof(tutti_transport_ops);
    if ((part == TT_PLUGIN_ENGINE && !has_engine) ||
        (part == TT_PLUGIN_TRANSPORT && !has_transport)) {
        tt_text_add(why, "%s brings %s, not %s; use %s=%s", path,
                    has_engine ? "an engine" : "a transport",
                    has_engine ? "a transport" : "an engine",
                    has_engine ? "TUTTI_ENGINE" : "TUTTI_TRANSPORT", found->name);
        return false;
    }
    return true;
}

/* Whoever waits drives an engine, so no thread is always the one. */
static bool check_engine(const char *path, const tutti_engine_ops *engine, tt_text *why)
{
    if (engine != NULL && engine->thread_level < TUTTI_THREAD_SERIALIZED) {
        tt_text_add(why,
                    "%s: its engine needs one thread of its own (TUTTI_THREAD_PINNED, or no "
                    "thread_level at all), which this Tutti does not give; it must declare "
                    "TUTTI_THREAD_SERIALIZED or more",
                    path);
        return false;
    }
    return true;
}

bool tt_plugin_check(const char *path, const tutti_plugin *found, tt_plugin_part part, tt_text *why)
{
    return check_version(path, found, why) && check_name(path, found, why) &&
           check_parts(path, found, part, why) && check_engine(path, found->engine, why);
}
