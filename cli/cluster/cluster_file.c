/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_file.c - see cluster_file.h. Nothing of a file is trusted: its length is bounded, names
 * are letters and digits, and every number goes through the table of fields. */
#include "cli/cluster/cluster_file.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/nearest.h"
#include "cli/cluster/json_line.h"
#include "cli/file_text.h"

enum {
    CLUSTER_BYTES_MAX = 1 << 20,
    PATH_SHOWN = 200, /* bytes in a message */
    WORD_SHOWN = 60,
    FIELD_BYTES_MAX = 128,
    DIGITS = 9, /* of a number in a file: sim/cluster.h */
};

static const double whole_max = 1e15; /* larger numbers are written with an exponent */

/* Members of the file besides the groups. */
static const char *const heads[] = {"name", "summary", "base"};

typedef struct cluster_reader {
    const tt_cluster_text *source;
    tt_text *why;
    tt_cluster *cluster;
} cluster_reader;

/* ---- errors ------------------------------------------------------------------------------------
 */

/* Where the member is, or its group, or the file begins. */
static tt_status refuse_at(cluster_reader *reader, const char *outer, const char *inner,
                           const tt_text *cause)
{
    const tt_cluster_text *source = reader->source;
    int line = outer != NULL ? tt_json_line(source->text, source->bytes, outer, inner) : 0;
    if (line == 0 && inner != NULL) {
        line = tt_json_line(source->text, source->bytes, outer, NULL);
    }
    tt_text_add_words(reader->why, source->path, PATH_SHOWN);
    tt_text_add(reader->why, ":%d: %s", line == 0 ? 1 : line, cause->bytes);
    return TT_ERR_BAD_CONFIG;
}

/* An error about the member `outer` of the file. */
__attribute__((format(printf, 3, 4))) static tt_status
refuse(cluster_reader *reader, const char *outer, const char *format, ...)
{
    tt_text cause = {.length = 0};
    va_list arguments;
    va_start(arguments, format);
    tt_text_add_list(&cause, format, arguments);
    va_end(arguments);
    return refuse_at(reader, outer, NULL, &cause);
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static int source_find(const char *name)
{
    for (int source = 1; source < TT_CLUSTER_SOURCES; source++) {
        if (strcmp(tt_cluster_source_name((tt_cluster_source)source), name) == 0) {
            return source;
        }
    }
    return TT_CLUSTER_UNSTATED;
}

static tt_status source_read(cluster_reader *reader, tt_cluster_group group, const json_t *value)
{
    tt_text cause = {.length = 0};
    const char *word = json_string_value(value);
    const int source = word != NULL ? source_find(word) : TT_CLUSTER_UNSTATED;
    if (source == TT_CLUSTER_UNSTATED) {
        tt_text_add(&cause,
                    "%s.source is not known: give \"measured\", \"published\" or "
                    "\"assumed\", or leave it out",
                    tt_cluster_group_name(group));
        return refuse_at(reader, tt_cluster_group_name(group), "source", &cause);
    }
    reader->cluster->sources[group] = source;
    return TT_OK;
}

static tt_status field_read(cluster_reader *reader, const tt_cluster_field *field,
                            const json_t *value)
{
    tt_text cause = {.length = 0};
    tt_status status = TT_ERR_BAD_CONFIG;
    const char *word = json_string_value(value);
    if (field->kind == TT_CLUSTER_WORD && word != NULL) {
        status = tt_cluster_field_parse(reader->cluster, field, word, &cause);
    } else if (field->kind != TT_CLUSTER_WORD && json_is_number(value)) {
        status = tt_cluster_field_set(reader->cluster, field, json_number_value(value), &cause);
    } else {
        tt_text_add(&cause, "%s is not a %s: give ", field->name,
                    field->kind == TT_CLUSTER_WORD ? "word" : "number");
        tt_cluster_field_describe(field, &cause);
    }
    return status == TT_OK ? TT_OK
                           : refuse_at(reader, tt_cluster_group_name(field->group),
                                       tt_cluster_field_member(field), &cause);
}

static tt_status member_read(cluster_reader *reader, tt_cluster_group group, const char *member,
                             const json_t *value)
{
    char name[FIELD_BYTES_MAX];
    tt_text cause = {.length = 0};
    if (strcmp(member, "source") == 0) {
        return source_read(reader, group, value);
    }
    (void)snprintf(name, sizeof(name), "%s.%s", tt_cluster_group_name(group), member);
    const tt_cluster_field *field = tt_cluster_field_find(name);
    if (field != NULL) {
        return field_read(reader, field, value);
    }
    tt_text_add(&cause, "unknown field ");
    tt_text_add_quoted(&cause, name, WORD_SHOWN);
    tt_text_add(&cause, "; ");
    tt_cluster_field_suggest(name, &cause);
    return refuse_at(reader, tt_cluster_group_name(group), member, &cause);
}

static tt_status group_read(cluster_reader *reader, tt_cluster_group group, json_t *members)
{
    const char *member;
    json_t *value;
    if (!json_is_object(members)) {
        return refuse(reader, tt_cluster_group_name(group),
                      "\"%s\" is not a group: give its fields in braces, {\"source\": ...}",
                      tt_cluster_group_name(group));
    }
    reader->cluster->sources[group] = TT_CLUSTER_UNSTATED;
    json_object_foreach(members, member, value)
    {
        TT_TRY(member_read(reader, group, member, value));
    }
    return TT_OK;
}

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.';
}

void tt_cluster_name_from_path(const char *path, tt_cluster *cluster)
{
    const char *slash = strrchr(path, '/');
    const char *at = slash != NULL ? slash + 1 : path;
    size_t bytes = 0;
    while (is_name_byte(at[bytes]) && strcmp(at + bytes, ".json") != 0 &&
           bytes < TT_CLUSTER_NAME_BYTES - 1) {
        cluster->name[bytes] = at[bytes];
        bytes++;
    }
    if (bytes > 0) {
        cluster->name[bytes] = '\0';
    }
}

static tt_status name_read(cluster_reader *reader, const json_t *value)
{
    const char *name = json_string_value(value);
    size_t bytes = 0;
    while (name != NULL && is_name_byte(name[bytes])) {
        bytes++;
    }
    if (name == NULL || bytes == 0 || name[bytes] != '\0' || bytes >= TT_CLUSTER_NAME_BYTES) {
        return refuse(reader, "name", "the name is not of 1 to %d letters, digits, '-', '_', '.'",
                      TT_CLUSTER_NAME_BYTES - 1);
    }
    memcpy(reader->cluster->name, name, bytes + 1);
    return TT_OK;
}

static tt_status summary_read(cluster_reader *reader, const json_t *value)
{
    const char *summary = json_string_value(value);
    size_t bytes = 0;
    while (summary != NULL && (unsigned char)summary[bytes] >= ' ' && summary[bytes] != 0x7f) {
        bytes++;
    }
    if (summary == NULL || summary[bytes] != '\0' || bytes >= TT_CLUSTER_SUMMARY_BYTES) {
        return refuse(reader, "summary", "the summary is not one line of up to %d bytes",
                      TT_CLUSTER_SUMMARY_BYTES - 1);
    }
    memcpy(reader->cluster->summary, summary, bytes + 1);
    return TT_OK;
}

/* Of presets, for errors. */
static void preset_suggest(const char *name, tt_text *why)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    for (size_t i = 0; tt_cluster_preset_at(i) != NULL; i++) {
        tt_nearest_offer(&nearest, tt_cluster_preset_at(i)->name);
    }
    if (nearest.best[0] != '\0') {
        tt_text_add(why, "; did you mean %s", nearest.best);
    } else {
        tt_text_add(why, "; 'tutti cluster --list' shows them");
    }
}

static tt_status base_read(cluster_reader *reader, const json_t *value)
{
    const char *name = json_string_value(value);
    const tt_cluster *base = name != NULL ? tt_cluster_preset_find(name) : NULL;
    tt_text cause = {.length = 0};
    if (base != NULL) {
        *reader->cluster = *base;
        return TT_OK;
    }
    tt_text_add(&cause, "the base is not a known cluster");
    preset_suggest(name != NULL ? name : "", &cause);
    return refuse_at(reader, "base", NULL, &cause);
}

static tt_status unknown_refuse(cluster_reader *reader, const char *name)
{
    tt_text cause = {.length = 0};
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    for (size_t i = 0; i < TT_ARRAY_COUNT(heads); i++) {
        tt_nearest_offer(&nearest, heads[i]);
    }
    for (int group = 0; group < TT_CLUSTER_GROUPS; group++) {
        tt_nearest_offer(&nearest, tt_cluster_group_name((tt_cluster_group)group));
    }
    tt_text_add(&cause, "unknown group ");
    tt_text_add_quoted(&cause, name, WORD_SHOWN);
    if (nearest.best[0] != '\0') {
        tt_text_add(&cause, "; did you mean %s", nearest.best);
    } else {
        tt_text_add(&cause, "; 'tutti cluster --fields' lists groups and fields");
    }
    return refuse_at(reader, name, NULL, &cause);
}

static int group_find(const char *name)
{
    for (int group = 0; group < TT_CLUSTER_GROUPS; group++) {
        if (strcmp(tt_cluster_group_name((tt_cluster_group)group), name) == 0) {
            return group;
        }
    }
    return -1;
}

static tt_status part_read(cluster_reader *reader, const char *name, json_t *value)
{
    const int group = group_find(name);
    if (group >= 0) {
        return group_read(reader, (tt_cluster_group)group, value);
    }
    if (strcmp(name, "name") == 0) {
        return name_read(reader, value);
    }
    if (strcmp(name, "summary") == 0) {
        return summary_read(reader, value);
    }
    return strcmp(name, "base") == 0 ? TT_OK : unknown_refuse(reader, name);
}

static tt_status cluster_build(cluster_reader *reader, json_t *root)
{
    const char *name;
    json_t *value;
    tt_text cause = {.length = 0};
    if (!json_is_object(root)) {
        return refuse(reader, NULL, "not a cluster: give groups of fields in braces");
    }
    if (json_object_get(root, "base") != NULL) {
        TT_TRY(base_read(reader, json_object_get(root, "base")));
    }
    tt_cluster_name_from_path(reader->source->path, reader->cluster);
    json_object_foreach(root, name, value)
    {
        TT_TRY(part_read(reader, name, value));
    }
    const tt_cluster_field *fault = tt_cluster_fault(reader->cluster, &cause);
    return fault == NULL ? TT_OK
                         : refuse_at(reader, tt_cluster_group_name(fault->group),
                                     tt_cluster_field_member(fault), &cause);
}

tt_status tt_cluster_read_json(const tt_cluster_text *source, tt_text *why, tt_cluster *cluster_out)
{
    tt_cluster cluster;
    cluster_reader reader = {.source = source, .why = why, .cluster = &cluster};
    json_error_t error;
    json_t *root = json_loadb(source->text, source->bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        tt_text_add_words(why, source->path, PATH_SHOWN);
        tt_text_add(why, ":%d: not JSON: ", error.line > 0 ? error.line : 1);
        tt_text_add_words(why, error.text, WORD_SHOWN);
        return TT_ERR_BAD_CONFIG;
    }
    tt_cluster_init(&cluster);
    const tt_status status = cluster_build(&reader, root);
    json_decref(root);
    if (status == TT_OK) {
        *cluster_out = cluster;
    }
    return status;
}

bool tt_cluster_is_file(const char *name)
{
    static const char ending[] = ".json";
    const size_t bytes = strlen(name);
    return strchr(name, '/') != NULL ||
           (bytes >= sizeof(ending) && strcmp(name + bytes - (sizeof(ending) - 1), ending) == 0);
}

tt_status tt_cluster_load(const char *name, tt_text *why, tt_cluster *cluster_out)
{
    if (!tt_cluster_is_file(name)) {
        const tt_cluster *preset = tt_cluster_preset_find(name);
        if (preset != NULL) {
            *cluster_out = *preset;
            return TT_OK;
        }
        tt_text_add_words(why, name, WORD_SHOWN);
        tt_text_add(why, ": neither a .json file nor a known cluster");
        preset_suggest(name, why);
        return TT_ERR_BAD_CONFIG;
    }
    tt_text cause = {.length = 0};
    tt_cluster_text source = {.path = name};
    char *text = tt_file_read(name, CLUSTER_BYTES_MAX, &source.bytes, &cause);
    if (text == NULL) {
        tt_text_add_words(why, name, PATH_SHOWN);
        tt_text_add(why, ": %s", cause.bytes);
        return TT_ERR_BAD_CONFIG;
    }
    source.text = text;
    const tt_status status = tt_cluster_read_json(&source, why, cluster_out);
    free(text);
    return status;
}

/* ---- writing -----------------------------------------------------------------------------------
 */

static json_t *value_json(const tt_cluster *cluster, const tt_cluster_field *field)
{
    const double value = tt_cluster_field_get(cluster, field);
    if (field->kind == TT_CLUSTER_WORD) {
        return json_string(field->words[(int)value]);
    }
    return value == floor(value) && value < whole_max ? json_integer((json_int_t)value)
                                                      : json_real(value);
}

static json_t *group_json(const tt_cluster *cluster, tt_cluster_group group)
{
    json_t *members = json_object();
    const int source = cluster->sources[group];
    const tt_cluster_field *field;
    if (source != TT_CLUSTER_UNSTATED) {
        (void)json_object_set_new(members, "source",
                                  json_string(tt_cluster_source_name((tt_cluster_source)source)));
    }
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        if (field->group == group) {
            (void)json_object_set_new(members, tt_cluster_field_member(field),
                                      value_json(cluster, field));
        }
    }
    return members;
}

bool tt_cluster_write_json(const tt_cluster *cluster, FILE *stream)
{
    json_t *root = json_pack("{s:s, s:s}", "name", cluster->name, "summary", cluster->summary);
    for (int group = 0; group < TT_CLUSTER_GROUPS; group++) {
        (void)json_object_set_new(root, tt_cluster_group_name((tt_cluster_group)group),
                                  group_json(cluster, (tt_cluster_group)group));
    }
    const size_t form = JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(DIGITS);
    const bool is_written = root != NULL && json_object_size(root) == 2 + TT_CLUSTER_GROUPS &&
                            json_dumpf(root, stream, form) == 0 && fputc('\n', stream) != EOF;
    json_decref(root);
    return is_written;
}
