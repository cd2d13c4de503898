/* SPDX-License-Identifier: Apache-2.0
 *
 * library.c - what the library reads from the environment. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/base.h"
#include "join/join.h"
#include "library.h"

/* The tables, in the order in which they are shown. */
static const struct {
    const tt_config_table *table;
    bool is_set_by_launcher;
} tables[] = {
    {&tt_join_launcher_variables, true},
    {&tt_join_user_variables, false},
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
                                      .is_set_by_launcher = tables[i].is_set_by_launcher};
            (void)snprintf(variable_out->name, sizeof(variable_out->name), "TUTTI_%s", entry->name);
            return true;
        }
        index -= table->entry_count;
    }
    return false;
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
