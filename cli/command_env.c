/* SPDX-License-Identifier: Apache-2.0
 *
 * command_env.c - `tutti env`: the rank of this process, and the launcher whose variables give it.
 */
#include <jansson.h>
#include <stdio.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/library.h"

typedef struct env_values {
    bool is_json;
    bool has_list;
} env_values;

static const tt_option options[] = {
    {'\0', "json", TT_OPTION_FLAG, offsetof(env_values, is_json), NULL, "print one JSON object",
     NULL, NULL, NULL, 0, 0},
    {'\0', "list", TT_OPTION_FLAG, offsetof(env_values, has_list), NULL,
     "list the known launchers, in order of precedence", NULL, NULL, NULL, 0, 0},
};

static void put_number(json_t *object, const char *name, int value)
{
    if (object != NULL) {
        (void)json_object_set_new(object, name, value >= 0 ? json_integer(value) : json_null());
    } else if (value >= 0) {
        printf("%-14s%d\n", name, value);
    }
}

static void put_text(json_t *object, const char *name, const char *value)
{
    if (object != NULL) {
        (void)json_object_set_new(object, name,
                                  value[0] != '\0' ? json_string(value) : json_null());
    } else if (value[0] != '\0') {
        printf("%-14s%s\n", name, value);
    }
}

static void put_ignored(json_t *object, const tt_library_identity *identity)
{
    json_t *list = object != NULL ? json_array() : NULL;
    for (size_t i = 0; i < identity->ignored_count; i++) {
        if (list != NULL) {
            (void)json_array_append_new(list, json_string(identity->ignored[i]));
        } else {
            printf("%-14s%s\n", "ignored", identity->ignored[i]);
        }
    }
    if (list != NULL) {
        (void)json_object_set_new(object, "ignored", list);
    }
}

static void put_all(json_t *object, const tt_library_identity *identity)
{
    put_text(object, "error", identity->why);
    if (identity->why[0] == '\0') {
        put_text(object, "launcher", identity->family);
        put_text(object, "evidence", identity->evidence);
        put_number(object, "rank", identity->rank);
        put_number(object, "size", identity->size);
        if (identity->servers > 0) {
            put_number(object, "servers", identity->servers);
            put_text(object, "role", identity->role);
        }
        put_number(object, "local_rank", identity->local_rank);
        put_number(object, "local_size", identity->local_size);
        put_number(object, "cross_rank", identity->cross_rank);
        put_number(object, "cross_size", identity->cross_size);
        put_text(object, "rendezvous", identity->rendezvous);
        put_text(object, "job", identity->job_id);
        put_ignored(object, identity);
    }
    put_text(object, "warning", identity->warning);
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    const env_values *values = raw_values;
    (void)operand_count;
    (void)operands;
    const char *name, *evidence;
    for (size_t i = 0; values->has_list && (name = tt_library_launcher_at(i, &evidence)) != NULL;
         i++) {
        printf("%-14s%s\n", name, evidence);
    }
    if (values->has_list) {
        return 0;
    }
    tt_library_identity identity;
    tt_library_identity_find(&identity);
    json_t *object = values->is_json ? json_object() : NULL;
    put_all(object, &identity);
    if (object != NULL) {
        (void)json_dumpf(object, stdout, JSON_INDENT(2));
        fputc('\n', stdout);
        json_decref(object);
    }
    return identity.why[0] == '\0' ? 0 : 1;
}

static const tt_command_note environment[] = {
    {"TUTTI_LAUNCHER", "Forces one launcher."},
    {"variables of launchers", "tutti env --list names them."},
    {NULL, NULL},
};

static const tt_command_note exit_status[] = {
    {"0", "The variables are valid."},
    {"1", "They are not; standard output names the cause."},
    {"2", "Wrong usage."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"srun -n 2 tutti env", "Ranks as Slurm assigns them:"},
    {"tutti env --json", "The same as JSON:"},
    {NULL, NULL},
};

const tt_command tt_command_env = {
    .name = "env",
    .summary = "Show the rank of this process, and the launcher that assigned it.",
    .operands = "",
    .description = "Reads the variables that a job started here would read. TUTTI_LAUNCHER=NAME "
                   "forces one launcher. Exits with 1 if they are invalid.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(env_values),
    .environment = environment,
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
