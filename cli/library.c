/* SPDX-License-Identifier: Apache-2.0
 *
 * library.c - the variables of the launcher contract and those tutti.h names. */
#include <stdio.h>
#include <string.h>

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
    {"TUTTI_TRANSPORT", "auto", "auto, shm or tcp", false},
    {"TUTTI_START_TIMEOUT", "60", "seconds to wait for all ranks to join", false},
    {"TUTTI_TIMEOUT", "0", "seconds until a call fails; 0 waits for ever", false},
};

const tt_library_variable *tt_library_variable_at(size_t index)
{
    return index < TT_ARRAY_COUNT(variables) ? &variables[index] : NULL;
}

const tt_library_variable *tt_library_variable_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(variables); i++) {
        if (strcmp(variables[i].name, name) == 0) {
            return &variables[i];
        }
    }
    return NULL;
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
