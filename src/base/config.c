/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/nearest.h"

enum {
    NAME_BYTES = TT_NEAREST_BYTES, /* of a full variable name; no setting has a longer one */
    QUOTE_BYTES_MAX = 80,          /* of a bad value in a message */
};

static const char prefix[] = "TUTTI_";

static const char *environment_lookup(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

const tt_config_source tt_config_environment = {.lookup = environment_lookup, .user = NULL};

static void full_name(const tt_config_entry *entry, char name[NAME_BYTES])
{
    const int length = snprintf(name, NAME_BYTES, "%s%s", prefix, entry->name);
    TT_ASSERT(length > 0);
    TT_ASSERT(length < NAME_BYTES);
}

static bool has_limits(const tt_config_entry *entry)
{
    return entry->minimum != 0 || entry->maximum != 0;
}

static void add_names(const tt_config_entry *entry, tt_text *text)
{
    for (size_t i = 0; entry->names[i] != NULL; i++) {
        tt_text_add(text, "%s%s", i == 0 ? "one of " : ", ", entry->names[i]);
    }
}

static void add_limits(const tt_config_entry *entry, const char *unit, tt_text *text)
{
    if (has_limits(entry)) {
        tt_text_add(text, "%s from %lld to %lld%s", unit[0] != '\0' ? "," : "",
                    (long long)entry->minimum, (long long)entry->maximum, unit);
    }
}

static void add_kind(const tt_config_entry *entry, tt_text *text)
{
    switch (entry->kind) {
    case TT_CONFIG_BOOL:
        tt_text_add(text, "1, 0, true, false, yes, no, on, off");
        return;
    case TT_CONFIG_INT:
    case TT_CONFIG_REAL:
        tt_text_add(text, entry->kind == TT_CONFIG_INT ? "a whole number" : "a number");
        add_limits(entry, "", text);
        return;
    case TT_CONFIG_BYTES:
        tt_text_add(text, "bytes such as 4096, 64K or 1MiB");
        add_limits(entry, " bytes", text);
        return;
    case TT_CONFIG_SECONDS:
        tt_text_add(text, "a time such as 1.5, 200ms, 50us or 2min");
        add_limits(entry, " ns", text);
        return;
    case TT_CONFIG_STRING:
        tt_text_add(text, "at most %d characters", TT_CONFIG_STRING_BYTES - 1);
        return;
    case TT_CONFIG_ENUM:
        add_names(entry, text);
        return;
    }
}

/* The text after "accepted: ". */
void tt_config_describe(const tt_config_entry *entry, tt_text *text)
{
    const bool has_words = entry->accepted != NULL || entry->list_accepted != NULL;
    if (entry->kind != TT_CONFIG_STRING || !has_words) {
        add_kind(entry, text);
        tt_text_add(text, "%s", has_words ? ", " : "");
    }
    tt_text_add(text, "%s", entry->accepted != NULL ? entry->accepted : "");
    if (entry->list_accepted != NULL) {
        entry->list_accepted(text);
    }
}

static bool in_limits_u64(const tt_config_entry *entry, uint64_t value)
{
    return !has_limits(entry) ||
           (value >= (uint64_t)entry->minimum && value <= (uint64_t)entry->maximum);
}

static bool set_int(const tt_config_entry *entry, const char *text, void *field)
{
    int64_t value;
    if (!tt_config_parse_int(text, &value) ||
        (has_limits(entry) && (value < entry->minimum || value > entry->maximum))) {
        return false;
    }
    memcpy(field, &value, sizeof(value));
    return true;
}

static bool set_real(const tt_config_entry *entry, const char *text, void *field)
{
    double value;
    if (!tt_config_parse_real(text, &value) ||
        (has_limits(entry) && (value < (double)entry->minimum || value > (double)entry->maximum))) {
        return false;
    }
    memcpy(field, &value, sizeof(value));
    return true;
}

static bool set_unsigned(const tt_config_entry *entry, const char *text, void *field)
{
    uint64_t value;
    const bool is_number = entry->kind == TT_CONFIG_BYTES ? tt_config_parse_bytes(text, &value)
                                                          : tt_config_parse_seconds(text, &value);
    if (!is_number || !in_limits_u64(entry, value)) {
        return false;
    }
    memcpy(field, &value, sizeof(value));
    return true;
}

static bool set_string(const char *text, void *field)
{
    const size_t length = strlen(text);
    if (length >= TT_CONFIG_STRING_BYTES) {
        return false;
    }
    memcpy(field, text, length + 1);
    return true;
}

static bool set_enum(const tt_config_entry *entry, const char *text, void *field)
{
    for (int i = 0; entry->names[i] != NULL; i++) {
        if (strcmp(entry->names[i], text) == 0) {
            memcpy(field, &i, sizeof(i));
            return true;
        }
    }
    return false;
}

static bool set_field(const tt_config_entry *entry, const char *text, void *field)
{
    switch (entry->kind) {
    case TT_CONFIG_BOOL:
        return tt_config_parse_bool(text, field);
    case TT_CONFIG_INT:
        return set_int(entry, text, field);
    case TT_CONFIG_REAL:
        return set_real(entry, text, field);
    case TT_CONFIG_BYTES:
    case TT_CONFIG_SECONDS:
        return set_unsigned(entry, text, field);
    case TT_CONFIG_STRING:
        return set_string(text, field);
    case TT_CONFIG_ENUM:
        return set_enum(entry, text, field);
    }
    return false;
}

tt_status tt_config_set(const tt_config_entry *entry, const char *value, void *target,
                        tt_text *error)
{
    const bool is_judged = entry->accepts != NULL && value[0] != '\0';
    if ((is_judged && !entry->accepts(value)) ||
        !set_field(entry, value, (char *)target + entry->offset)) {
        tt_config_describe(entry, error);
        return TT_ERR_BAD_CONFIG;
    }
    return TT_OK;
}

static const char *value_of(const tt_config_entry *entry, const tt_config_source *source)
{
    char name[NAME_BYTES];
    full_name(entry, name);
    const char *value = source->lookup(source->user, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Default, then value; false with a text in `error`. */
static bool load_entry(const tt_config_entry *entry, const tt_config_source *source, void *target,
                       tt_text *error)
{
    tt_text accepted = {0};
    TT_ASSERT(tt_config_set(entry, entry->fallback, target, &accepted) == TT_OK);
    const char *value = value_of(entry, source);
    if (value == NULL || tt_config_set(entry, value, target, &accepted) == TT_OK) {
        return true;
    }
    tt_text_clear(error);
    tt_text_add(error, "%s%s is ", prefix, entry->name);
    if (entry->is_secret) {
        tt_text_add(error, "wrong (its value is not shown)");
    } else {
        tt_text_add_quoted(error, value, QUOTE_BYTES_MAX);
    }
    tt_text_add(error, "; accepted: %s", accepted.bytes);
    return false;
}

tt_status tt_config_load(const tt_config_table *table, const tt_config_source *source, void *target,
                         tt_text *error)
{
    for (size_t i = 0; i < table->entry_count; i++) {
        if (!load_entry(&table->entries[i], source, target, error)) {
            return TT_ERR_BAD_CONFIG;
        }
    }
    return TT_OK;
}

size_t tt_config_find_bad(const tt_config_table *table, const tt_config_source *source,
                          void *target, tt_config_bad_fn *report, void *user)
{
    size_t bad_count = 0;
    for (size_t i = 0; i < table->entry_count; i++) {
        tt_text error = {0};
        if (!load_entry(&table->entries[i], source, target, &error)) {
            bad_count++;
            report(user, error.bytes);
        }
    }
    return bad_count;
}

/* Whether `name` is known; otherwise the nearest known one is left in `nearest`. */
static bool is_known(const tt_config_table *tables, size_t table_count, const char *name,
                     tt_nearest *nearest)
{
    tt_nearest_init(nearest, prefix, name);
    for (size_t t = 0; t < table_count; t++) {
        for (size_t i = 0; i < tables[t].entry_count; i++) {
            const char *known = tables[t].entries[i].name;
            if (strcmp(name + sizeof(prefix) - 1, known) == 0) {
                return true;
            }
            tt_nearest_offer(nearest, known);
        }
    }
    return false;
}

size_t tt_config_find_unknown(const tt_config_table *tables, size_t table_count,
                              char *const *environment, tt_config_unknown_fn *report, void *user)
{
    size_t unknown_count = 0;
    for (; *environment != NULL; environment++) {
        const char *variable = *environment;
        const size_t length = strcspn(variable, "=");
        if (strncmp(variable, prefix, sizeof(prefix) - 1) != 0 || length >= NAME_BYTES) {
            continue;
        }
        char name[NAME_BYTES] = {0};
        tt_nearest nearest;
        memcpy(name, variable, length);
        if (!is_known(tables, table_count, name, &nearest)) {
            unknown_count++;
            report(user, name, nearest.best[0] != '\0' ? nearest.best : NULL);
        }
    }
    return unknown_count;
}
