/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/check.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static bool check_version(const char *path, const tutti_plugin *found, tt_text *why)
{
    if (found->abi != TUTTI_PLUGIN_ABI) {
        tt_text_add(why,
                    "%s has plugin version %u, but Tutti %d.%d needs version %d; rebuild it "
                    "(tutti plugin build)",
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
        tt_text_add(why, "%s declares the name '%.64s'; its file must be tutti-<name>.so", path,
                    found->name != NULL ? found->name : "");
        return false;
    }
    return true;
}

/* A function that a table must have. */
typedef struct member {
    const char *name;
    size_t offset;
} member;

typedef struct table {
    const char *what; /* for messages */
    const void *ops;
    size_t bytes_told, bytes; /* as the plugin declares; of this Tutti */
    uint32_t flags, flags_known;
} table;

#define ENGINE(name)                            \
    {                                           \
#name, offsetof(tutti_engine_ops, name) \
    }
#define TRANSPORT(name)                            \
    {                                              \
#name, offsetof(tutti_transport_ops, name) \
    }

static const member engine_members[] = {ENGINE(open),     ENGINE(close),  ENGINE(describe),
                                        ENGINE(supports), ENGINE(launch), ENGINE(test)};
static const member bootstrap_members[] = {ENGINE(world), ENGINE(broadcast)};
static const member transport_members[] = {
    TRANSPORT(open),    TRANSPORT(close),      TRANSPORT(describe), TRANSPORT(address),
    TRANSPORT(connect), TRANSPORT(disconnect), TRANSPORT(attach),   TRANSPORT(send),
    TRANSPORT(recall),  TRANSPORT(discard),    TRANSPORT(poll),     TRANSPORT(descriptor),
    TRANSPORT(arm),     TRANSPORT(is_idle),    TRANSPORT(state)};

/* Before its functions are read: the table may be too short for them. */
static bool check_table(const char *path, const table *given, tt_text *why)
{
    if (given->bytes_told < given->bytes) {
        tt_text_add(why, "%s: the table of %s has %zu bytes, this Tutti's has %zu; rebuild it",
                    path, given->what, given->bytes_told, given->bytes);
        return false;
    }
    if ((given->flags & ~given->flags_known) != 0) {
        tt_text_add(why, "%s: %s has flags %#x, unknown to this Tutti %d.%d; use a newer Tutti",
                    path, given->what, given->flags & ~given->flags_known, TUTTI_VERSION_MAJOR,
                    TUTTI_VERSION_MINOR);
        return false;
    }
    return true;
}

/* Names all missing functions. */
static bool check_members(const char *path, const table *given, const member *members,
                          size_t member_count, tt_text *why)
{
    bool is_whole = true;
    for (size_t i = 0; i < member_count; i++) {
        void (*function)(void);
        memcpy(&function, (const char *)given->ops + members[i].offset, sizeof(function));
        if (function == NULL) {
            if (is_whole) {
                tt_text_add(why, "%s: %s lacks required functions:", path, given->what);
            }
            tt_text_add(why, "%s %s", is_whole ? "" : ",", members[i].name);
            is_whole = false;
        }
    }
    return is_whole;
}

static bool check_engine(const char *path, const tutti_engine_ops *ops, tt_text *why)
{
    const table given = {.what = "the engine",
                         .ops = ops,
                         .bytes_told = ops->struct_bytes,
                         .bytes = sizeof(*ops),
                         .flags = ops->flags,
                         .flags_known = TUTTI_ENGINE_SAME_ORDER | TUTTI_ENGINE_BOOTSTRAPS};
    if (!check_table(path, &given, why)) {
        return false;
    }
    if (ops->thread_level < TUTTI_THREAD_SERIALIZED) { /* any waiting thread drives it */
        tt_text_add(why,
                    "%s: the engine needs one thread of its own (TUTTI_THREAD_PINNED, or no "
                    "thread_level at all), which this Tutti does not provide; declare "
                    "TUTTI_THREAD_SERIALIZED or more",
                    path);
        return false;
    }
    return check_members(path, &given, engine_members, TT_ARRAY_COUNT(engine_members), why) &&
           ((ops->flags & TUTTI_ENGINE_BOOTSTRAPS) == 0 ||
            check_members(path, &given, bootstrap_members, TT_ARRAY_COUNT(bootstrap_members), why));
}

static bool check_transport(const char *path, const tutti_transport_ops *ops, tt_text *why)
{
    const table given = {.what = "the transport",
                         .ops = ops,
                         .bytes_told = ops->struct_bytes,
                         .bytes = sizeof(*ops),
                         .flags = ops->flags,
                         .flags_known = TUTTI_TRANSPORT_POLLED | TUTTI_TRANSPORT_ORDERED};
    return check_table(path, &given, why) &&
           check_members(path, &given, transport_members, TT_ARRAY_COUNT(transport_members), why);
}

static bool check_part(const char *path, const tutti_plugin *found, tt_plugin_part part,
                       tt_text *why)
{
    const bool has_engine = found->engine != NULL;
    if (!has_engine && found->transport == NULL) {
        tt_text_add(why, "%s has neither an engine nor a transport", path);
        return false;
    }
    if ((part == TT_PLUGIN_ENGINE && !has_engine) ||
        (part == TT_PLUGIN_TRANSPORT && found->transport == NULL)) {
        tt_text_add(why, "%s has %s, not %s; use %s=%s", path,
                    has_engine ? "an engine" : "a transport",
                    has_engine ? "a transport" : "an engine",
                    has_engine ? "TUTTI_ENGINE" : "TUTTI_TRANSPORT", found->name);
        return false;
    }
    return true;
}

bool tt_plugin_check(const char *path, const tutti_plugin *found, tt_plugin_part part, tt_text *why)
{
    return check_version(path, found, why) && check_name(path, found, why) &&
           check_part(path, found, part, why) &&
           (found->engine == NULL || check_engine(path, found->engine, why)) &&
           (found->transport == NULL || check_transport(path, found->transport, why));
}
