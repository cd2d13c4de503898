/* SPDX-License-Identifier: Apache-2.0
 *
 * library.c - what the library reads from the environment. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/base.h"
#include "cli/environment.h"
#include "cli/library.h"
#include "launch/launch.h"
#include "plugin/plugin.h"
#include "transport/registry.h"

/* The tables, in the order in which they are shown. */
static const struct {
    const tt_config_table *table;
    bool is_set_by_launcher;
} tables[] = {
    {&tt_launch_launcher_variables, true},
    {&tt_launch_user_variables, false},
    {&tt_settings_table, false},
};

bool tt_library_variable_at(size_t index, tt_library_variable *variable_out)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(tables); i++) {
        const tt_config_table *table = tables[i].table;
        if (index < table->entry_count) {
            const tt_config_entry *entry = &table->entries[index];
            *variable_out =
                (tt_library_variable){.default_text = entry->fallback,
                                      .help = entry->help,
                                      .is_secret = entry->is_secret,
                                      .is_set_by_launcher = tables[i].is_set_by_launcher};
            tt_text accepted = {0};
            tt_config_describe(entry, &accepted);
            (void)snprintf(variable_out->name, sizeof(variable_out->name), "TUTTI_%s", entry->name);
            (void)snprintf(variable_out->accepted, sizeof(variable_out->accepted), "%s",
                           accepted.bytes);
            return true;
        }
        index -= table->entry_count;
    }
    return false;
}

void tt_library_find_unknown(tt_library_report *report, void *user)
{
    const tt_config_table all[] = {tt_launch_launcher_variables, tt_launch_user_variables,
                                   tt_settings_table};
    (void)tt_config_find_unknown(all, TT_ARRAY_COUNT(all), environ, report, user);
}

const char *tt_library_variable_show(const tt_library_variable *variable)
{
    const char *value = tt_environment_get(variable->name);
    return value != NULL && value[0] != '\0' && variable->is_secret ? "(hidden)" : value;
}

static const char *look_up(void *user, const char *name)
{
    (void)user;
    return tt_config_environment.lookup(tt_config_environment.user, name);
}

void tt_library_secret(char *text, size_t text_bytes)
{
    char described[TT_SECRET_TEXT_BYTES];
    const tt_secret_sources sources = {.lookup = look_up};
    tt_secret_describe(&sources, described);
    (void)snprintf(text, text_bytes, "%s", described);
}

/* Rank, size and role of this process, as the variables have them. */
static tt_status identify(tt_launch_identity *identity_out, tt_launch_servers *servers_out,
                          tt_launch_why *why)
{
    char command[512];
    const tt_launch_source source = tt_launch_source_process(command, sizeof(command));
    TT_TRY(tt_launch_identify(&source, identity_out, why));
    TT_TRY(tt_launch_servers_read(&source, identity_out, servers_out, why));
    return tt_launch_servers_check(servers_out, tt_launch_servers_is_server(servers_out), why);
}

void tt_library_place_find(tt_library_place *place_out)
{
    tt_launch_identity identity;
    tt_launch_servers servers;
    tt_launch_why why = {0};
    char description[TT_LAUNCH_DESCRIPTION_BYTES];
    *place_out = (tt_library_place){.is_launched = true};
    if (identify(&identity, &servers, &why) != TT_OK) {
        place_out->is_broken = true;
        snprintf(place_out->text, sizeof(place_out->text), "%s", why.text);
        return;
    }
    tt_launch_describe(&identity, description);
    place_out->is_launched = strcmp(identity.family, "none") != 0;
    snprintf(place_out->text, sizeof(place_out->text), "%s", description);
    snprintf(place_out->warning, sizeof(place_out->warning), "%s", identity.warning);
}

static void put_rendezvous(const tt_launch_identity *from, char *text, size_t bytes)
{
    const tt_launch_rendezvous *place = &from->rendezvous;
    switch (place->kind) {
    case TT_LAUNCH_RENDEZVOUS_TCP:
        snprintf(text, bytes, strchr(place->host, ':') != NULL ? "tcp://[%s]:%u" : "tcp://%s:%u",
                 place->host, place->port_first);
        break;
    case TT_LAUNCH_RENDEZVOUS_FILE:
        snprintf(text, bytes, "file://%s", place->path);
        break;
    default:
        snprintf(text, bytes, "%s", from->size > 1 ? "by the launcher" : "none");
        break;
    }
}

void tt_library_identity_find(tt_library_identity *identity_out)
{
    tt_launch_identity found;
    tt_launch_servers servers;
    tt_launch_why why = {0};
    *identity_out = (tt_library_identity){.family = "none", .evidence = "", .role = ""};
    if (identify(&found, &servers, &why) != TT_OK) {
        snprintf(identity_out->why, sizeof(identity_out->why), "%s", why.text);
        return;
    }
    identity_out->rank = (int)found.rank;
    identity_out->size = (int)found.size;
    identity_out->servers = (int)servers.count;
    if (servers.count > 0) {
        identity_out->role = tt_launch_servers_is_server(&servers) ? "server" : "worker";
    }
    identity_out->local_rank = found.local_rank;
    identity_out->local_size = found.local_size;
    identity_out->cross_rank = found.cross_rank;
    identity_out->cross_size = found.cross_size;
    identity_out->family = found.family;
    identity_out->evidence = found.evidence != NULL ? found.evidence : "";
    for (size_t i = 0; i < found.ignored_count && i < TT_ARRAY_COUNT(identity_out->ignored); i++) {
        identity_out->ignored[identity_out->ignored_count++] = found.ignored[i];
    }
    put_rendezvous(&found, identity_out->rendezvous, sizeof(identity_out->rendezvous));
    snprintf(identity_out->job_id, sizeof(identity_out->job_id), "%s", found.job_id);
    snprintf(identity_out->warning, sizeof(identity_out->warning), "%s", found.warning);
}

const char *tt_library_launcher_at(size_t index, const char **evidence_out)
{
    return tt_launch_family_at(index, evidence_out);
}

bool tt_library_node_at(const char *names, const char *counts, uint32_t index,
                        tt_library_node *node_out)
{
    char host[TT_LAUNCH_HOST_BYTES] = "";
    tt_launch_why why = {.text = ""};
    uint32_t count = 0, slots = 1;
    *node_out = (tt_library_node){.slots = 1};
    tt_status status = tt_launch_nodelist_count(names, &count, &why);
    if (status == TT_OK && index >= count) {
        return false;
    }
    if (status == TT_OK) {
        status = tt_launch_nodelist_host(names, index, host, &why);
    }
    if (status == TT_OK && counts != NULL) {
        status = tt_launch_tasks_on_node(counts, index, &slots, &why);
    }
    if (status != TT_OK || slots > INT_MAX) {
        (void)snprintf(node_out->why, sizeof(node_out->why), "%s", why.text);
        return false;
    }
    (void)snprintf(node_out->host, sizeof(node_out->host), "%.255s", host);
    node_out->slots = (int)slots;
    return true;
}

/* ---- plugins ---- */

static const tt_plugin_source plugin_source = {.lookup = look_up};

typedef struct plugin_search {
    tt_library_plugin_visit *visit;
    void *user;
} plugin_search;

static void plugin_found(void *user, const char *path, const tutti_plugin *found, const char *why)
{
    const plugin_search *search = user;
    tt_library_plugin plugin = {.name = "", .kind = "", .path = path, .summary = "", .why = why};
    if (found != NULL) {
        plugin.name = found->name;
        plugin.kind = found->engine != NULL ? "engine" : "transport";
        plugin.summary = found->summary;
        if (found->engine != NULL) {
            found->engine->describe(NULL, plugin.version);
        } else if (found->transport != NULL) {
            found->transport->describe(NULL, plugin.version);
        }
    }
    search->visit(search->user, &plugin);
}

void tt_library_plugins(tt_library_plugin_visit *visit, void *user)
{
    plugin_search search = {.visit = visit, .user = user};
    tt_plugin_each(&plugin_source, plugin_found, &search);
}

void tt_library_plugins_passed_over(tt_library_plugin_visit *visit, void *user)
{
    plugin_search search = {.visit = visit, .user = user};
    tt_plugin_passed_over(&plugin_source, plugin_found, &search);
}

const char *tt_library_mpi(void)
{
    return tt_plugin_mpi_names(&plugin_source)[0];
}

const char *tt_library_plugin_choose(const char *name, bool is_engine, char *why, size_t why_bytes)
{
    tt_text text = {0};
    const tutti_plugin *found = tt_plugin_load(
        &plugin_source, name, is_engine ? TT_PLUGIN_ENGINE : TT_PLUGIN_TRANSPORT, &text);
    (void)snprintf(why, why_bytes, "%s", found == NULL ? text.bytes : "");
    return found != NULL ? found->name : NULL;
}

bool tt_library_plugin_home(char *path, size_t path_bytes)
{
    char found[TT_PLUGIN_PATH_BYTES];
    const bool is_there = tt_plugin_home(&plugin_source, found);
    (void)snprintf(path, path_bytes, "%s", is_there ? found : "");
    return is_there;
}

/* ---- what tutti_init would refuse ---- */

static bool is_own_transport(const char *name)
{
    return strcmp(name, "auto") == 0 || strcmp(name, "shm") == 0 || strcmp(name, "tcp") == 0;
}

/* Errors of several values together, or of files and plugins that values name. */
static bool check_whole(const tt_settings *settings, tt_text *why)
{
    tt_text inner = {0};
    const char *transport = tt_settings_transport_name(settings, why);
    if (transport == NULL || tt_settings_check(settings, why) != TT_OK ||
        tt_costs_check(settings->costs, why) != TT_OK ||
        (settings->order[0] != '\0' && tt_name_order_check(settings->order, why) != TT_OK) ||
        tt_rules_check(settings, why) != TT_OK) {
        return false;
    }
    if (!is_own_transport(transport) &&
        tt_plugin_load(&plugin_source, transport, TT_PLUGIN_TRANSPORT, &inner) == NULL) {
        tt_text_add(why, "TUTTI_TRANSPORT=%s: not auto, shm or tcp, and %s", transport,
                    inner.bytes);
        return false;
    }
    if (settings->engine[0] != '\0' &&
        tt_plugin_load(&plugin_source, settings->engine, TT_PLUGIN_ENGINE, &inner) == NULL) {
        tt_text_add(why, "TUTTI_ENGINE=%s: %s", settings->engine, inner.bytes);
        return false;
    }
    return true;
}

size_t tt_library_find_bad(void (*report)(void *user, const char *sentence), void *user)
{
    tt_settings settings;
    tt_config_string text;
    tt_text why = {0};
    const size_t user_count =
        tt_config_find_bad(&tt_launch_user_variables, &tt_config_environment, text, report, user);
    const size_t count = user_count + tt_config_find_bad(&tt_settings_table, &tt_config_environment,
                                                         &settings, report, user);
    if (count == user_count && !check_whole(&settings, &why)) {
        report(user, why.bytes);
        return count + 1;
    }
    return count;
}

void tt_library_costs(void (*print)(void *user, const char *line), void *user)
{
    tt_costs_print(print, user);
}

tt_library_model tt_library_predict(tutti_context *context, tutti_collective collective,
                                    uint64_t bytes)
{
    const tt_model model = tt_context_model(context, (int)collective, bytes);
    return (tt_library_model){.algorithm = model.algorithm, .time_s = model.time_s};
}
