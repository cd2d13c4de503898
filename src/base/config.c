/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

enum {
    NAME_BYTES = 64,      /* of a full variable name; longer ones in the environment are not ours */
    QUOTE_BYTES_MAX = 80, /* of a bad value in a message */
    TYPO_DISTANCE_MAX = 3,
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

/* The sentence after "accepted: ". */
static void add_accepted(const tt_config_entry *entry, tt_text *text)
{
    const long long minimum = entry->minimum;
    const long long maximum = entry->maximum;
    switch (entry->kind) {
    case TT_CONFIG_BOOL:
        tt_text_add(text, "1, 0, true, false, yes, no, on, off");
        return;
    case TT_CONFIG_INT:
    case TT_CONFIG_REAL:
        tt_text_add(text, entry->kind == TT_CONFIG_INT ? "a whole number" : "a number");
        if (has_limits(entry)) {
            tt_text_add(text, " from %lld to %lld", minimum, maximum);
        }
        return;
    case TT_CONFIG_BYTES:
        tt_text_add(text, "bytes such as 4096, 64K or 1MiB");
        if (has_limits(entry)) {
            tt_text_add(text, ", from %lld to %lld bytes", minimum, maximum);
        }
        return;
    case TT_CONFIG_SECONDS:
        tt_text_add(text, "a time such as 1.5, 200ms, 50us or 2min");
        if (has_limits(entry)) {
            tt_text_add(text, ", from %lld to %lld ns", minimum, maximum);
        }
        return;
    case TT_CONFIG_STRING:
        tt_text_add(text, "at most %d characters", TT_CONFIG_STRING_BYTES - 1);
        return;
    case TT_CONFIG_ENUM:
        add_names(entry, text);
        return;
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
    if (!set_field(entry, value, (char *)target + entry->offset)) {
        add_accepted(entry, error);
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

tt_status tt_config_load(const tt_config_table *table, const tt_config_source *source, void *target,
                         tt_text *error)
{
    for (size_t i = 0; i < table->entry_count; i++) {
        const tt_config_entry *entry = &table->entries[i];
        tt_text accepted = {0};
        TT_ASSERT(tt_config_set(entry, entry->fallback, target, &accepted) == TT_OK);
        const char *value = value_of(entry, source);
        if (value != NULL && tt_config_set(entry, value, target, &accepted) != TT_OK) {
            tt_text_clear(error);
            tt_text_add(error, "%s%s is ", prefix, entry->name);
            tt_text_add_quoted(error, value, QUOTE_BYTES_MAX);
            tt_text_add(error, "; accepted: %s", accepted.bytes);
            return TT_ERR_BAD_CONFIG;
        }
    }
    return TT_OK;
}

void tt_config_print(const tt_config_table *table, const tt_config_source *source, FILE *out)
{
    for (size_t i = 0; i < table->entry_count; i++) {
        const tt_config_entry *entry = &table->entries[i];
        const char *value = value_of(entry, source);
        tt_text accepted = {0};
        add_accepted(entry, &accepted);
        fprintf(out, "%s%s=%s%s%s", prefix, entry->name, value != NULL ? value : entry->fallback,
                entry->unit[0] != '\0' ? " " : "", entry->unit);
        if (value != NULL) {
            fprintf(out, "  (default %s)", entry->fallback);
        }
        fprintf(out, "\n    %s\n    accepted: %s\n", entry->help, accepted.bytes);
    }
}

/* Levenshtein's distance, one row at a time. Both are shorter than NAME_BYTES. */
static size_t edit_distance(const char *a, const char *b)
{
    const size_t b_length = strlen(b);
    TT_ASSERT(b_length < NAME_BYTES);
    size_t row[NAME_BYTES];
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_length; j++) {
            const size_t replaced = diagonal + (a[i] != b[j]);
            const size_t edited = tt_min_u64(row[j], row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = tt_min_u64(replaced, edited);
        }
    }
    return row[b_length];
}

/* Distance of `name` to the nearest known one, which is left in `nearest`. */
static size_t nearest_name(const tt_config_table *tables, size_t table_count, const char *name,
                           char nearest[NAME_BYTES])
{
    size_t best = SIZE_MAX;
    for (size_t t = 0; t < table_count; t++) {
        for (size_t i = 0; i < tables[t].entry_count; i++) {
            char known[NAME_BYTES];
            full_name(&tables[t].entries[i], known);
            const size_t distance = edit_distance(name, known);
            if (distance < best) {
                best = distance;
                memcpy(nearest, known, NAME_BYTES);
            }
        }
    }
    return best;
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
        char nearest[NAME_BYTES] = {0};
        memcpy(name, variable, length);
        const size_t distance = nearest_name(tables, table_count, name, nearest);
        if (distance > 0) {
            unknown_count++;
            report(user, name, distance <= TYPO_DISTANCE_MAX ? nearest : NULL);
        }
    }
    return unknown_count;
}
