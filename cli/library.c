/* SPDX-License-Identifier: Apache-2.0
 *
 * library.c - what the library reads from the environment. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/base.h"
#include "join/join.h"
#include "library.h"

static const tt_library_variable variables[] = {
    {"TUTTI_RANK", "", "this process's number in the job", true},
    {"TUTTI_SIZE", "", "number of ranks", true},
    {"TUTTI_LOCAL_RANK", "", "this process's number on its host", true},
    {"TUTTI_LOCAL_SIZE", "", "number of ranks on this host", true},
    {"TUTTI_CROSS_RANK", "", "number of this host in the job", true},
    {"TUTTI_CROSS_SIZE", "", "number of hosts", true},
    {"TUTTI_JOB_ID", "", "name of the job, random for each run", true},
    {"TUTTI_RENDEZVOUS", "", "where rank 0 receives the others: tcp://host:port or file:///path",
     true},
    {"TUTTI_LISTEN_FD", "", "descriptor on which rank 0 already listens", true},
    {"TUTTI_SECRET_FD", "", "descriptor from which the job's 32-byte secret is read", true},
    {"TUTTI_SECRET_FILE", "", "file with the job's secret; must be private to its owner", false},
    {"TUTTI_SECRET", "", "the secret as 64 hex digits; others can read it, so avoid it", false},
    {"TUTTI_LAUNCHER", "", "launcher family to believe where several left variables", false},
    {"TUTTI_INTERFACE", "", "network interfaces: prefixes, ^ to exclude, = for exact names", false},
    {"TUTTI_PORT_RANGE", "", "ports to listen on: first-last", false},
    {"TUTTI_HOSTID", "", "identity of this host; ranks with the same one share memory", false},
    {"TUTTI_INCARNATION", "0", "restart count of the job", false},
};

bool tt_library_variable_at(size_t index, tt_library_variable *variable_out)
{
    if (index < TT_ARRAY_COUNT(variables)) {
        *variable_out = variables[index];
        return true;
    }
    index -= TT_ARRAY_COUNT(variables);
    if (index >= tt_settings_table.entry_count) {
        return false;
    }
    const tt_config_entry *entry = &tt_settings_table.entries[index];
    *variable_out = (tt_library_variable){.default_text = entry->fallback, .help = entry->help};
    (void)snprintf(variable_out->name, sizeof(variable_out->name), "TUTTI_%s", entry->name);
    return true;
}

bool tt_library_variable_is_known(const char *name)
{
    tt_library_variable variable;
    for (size_t i = 0; tt_library_variable_at(i, &variable); i++) {
        if (strcmp(variable.name, name) == 0) {
            return true;
        }
    }
    return false;
}

void tt_library_place_find(tt_library_place *place_out)
{
    char command[512];
    tt_join_identity identity;
    tt_join_why why = {0};
    char description[TT_JOIN_DESCRIPTION_BYTES];
    const tt_join_source source = tt_join_source_process(command, sizeof(command));
    *place_out = (tt_library_place){.is_launched = true};
    if (tt_join_identify(&source, &identity, &why) != TT_OK) {
        place_out->is_broken = true;
        snprintf(place_out->text, sizeof(place_out->text), "%s", why.text);
        return;
    }
    tt_join_describe(&identity, description);
    place_out->is_launched = strcmp(identity.family, "none") != 0;
    snprintf(place_out->text, sizeof(place_out->text), "%s", description);
    snprintf(place_out->warning, sizeof(place_out->warning), "%s", identity.warning);
}
