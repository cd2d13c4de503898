/* SPDX-License-Identifier: Apache-2.0
 *
 * command_info.c - `tutti info`: what the library finds on this machine, ready to paste into a
 * report. */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/library.h"
#include "cli/machine.h"
#include "tutti/tutti.h"

typedef struct info_values {
    bool is_json;
    bool has_engines;
    bool has_costs;
} info_values;

static const tt_option options[] = {
    {'\0', "json", TT_OPTION_FLAG, offsetof(info_values, is_json), NULL, "print one JSON object",
     NULL, NULL, NULL, 0, 0},
    {'\0', "engines", TT_OPTION_FLAG, offsetof(info_values, has_engines), NULL,
     "show engines and transports, also those of plugins, and which is used", NULL, NULL, NULL, 0,
     0},
    {'\0', "costs", TT_OPTION_FLAG, offsetof(info_values, has_costs), NULL,
     "print the table of costs that selects algorithms, in the format of TUTTI_COSTS=FILE", NULL,
     NULL, NULL, 0, 0},
};

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

/* Facts go to a JSON object, or to the screen without one: names in a column as wide as the longest
 * of them. */
static int name_width(void)
{
    tt_library_variable variable;
    size_t width = 0;
    for (size_t i = 0; tt_library_variable_at(i, &variable); i++) {
        const size_t length = strlen(variable.name);
        width = length > width ? length : width;
    }
    return (int)width + 1;
}

static void __attribute__((format(printf, 3, 4)))
put(json_t *object, const char *name, const char *format, ...)
{
    char value[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof(value), format, arguments);
    va_end(arguments);
    if (object == NULL) {
        printf("%-*s%s\n", name_width(), name, value);
        return;
    }
    json_t *list = json_object_get(object, name);
    if (list == NULL) {
        (void)json_object_set_new(object, name, json_string(value));
    } else if (json_is_array(list)) {
        (void)json_array_append_new(list, json_string(value));
    }
}

static void put_interface(void *user, const char *text)
{
    put(user, "interface", "%s", text);
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

static void put_machine(json_t *object, const tt_machine *machine)
{
    put(object, "host", "%s", machine->host);
    put(object, "kernel", "%s", machine->kernel);
    put(object, "processor", "%s", machine->processor);
    put(object, "instructions", "%s", machine->features);
    put(object, "cores", "%d (%d allowed)", machine->core_count, machine->allowed_core_count);
    if (machine->node_count > 0) {
        put(object, "memory nodes", "%d, %d of them near the allowed cores; a rank's arena is %s",
            machine->node_count, machine->own_node_count,
            machine->node_count > 1 ? "on the node of the thread that calls tutti_alloc"
                                    : "on the only one");
    }
    if (machine->huge_pages[0] != '\0') {
        const bool is_given =
            strcmp(machine->huge_pages, "never") != 0 && strcmp(machine->huge_pages, "deny") != 0;
        put(object, "huge pages", "%s for shared memory; %s", machine->huge_pages,
            is_given ? "arena blocks use them"
                     : "arena blocks of 512 KiB and more request them one by one (Linux 6.1)");
    }
    put(object, "memory", "%.1f GiB (%.1f GiB available)", gib(machine->memory_bytes),
        gib(machine->memory_free_bytes));
    put(object, "/dev/shm", "%.1f GiB (%.1f GiB free)", gib(machine->shm_bytes),
        gib(machine->shm_free_bytes));
    put(object, "open files", "%" PRIu64 " (may be raised to %" PRIu64 ")", machine->file_limit,
        machine->file_limit_max);
    if (machine->lock_limit_bytes == UINT64_MAX) {
        put(object, "locked memory", "unlimited");
    } else {
        put(object, "locked memory", "%" PRIu64 " KiB", machine->lock_limit_bytes >> 10);
    }
    put(object, "memfd", "%s", machine->has_memfd ? "yes" : "no");
    put(object, "pidfd", "%s", machine->has_pidfd ? "yes" : "no");
}

static void put_configuration(json_t *object)
{
    char secret[512];
    tt_library_variable variable;
    tt_library_secret(secret, sizeof(secret));
    put(object, "secret", "%s", secret);
    for (size_t i = 0; tt_library_variable_at(i, &variable); i++) {
        const char *value = tt_library_variable_show(&variable);
        if (value != NULL) {
            put(object, variable.name, "%s", value);
        } else if (!variable.is_set_by_launcher) {
            put(object, variable.name, "%s%s", variable.default_text,
                variable.default_text[0] != '\0' ? " (default)" : "(not set)");
        }
    }
}

static void put_plugin(void *user, const tt_library_plugin *found)
{
    if (found->name[0] == '\0') {
        put(user, "cannot be used", "%s: %s", found->path, found->why);
    } else {
        put(user, found->name, "%s: %s; %s; %s", found->kind, found->summary, found->version,
            found->path);
    }
}

/* Why this MPI was chosen and not another. */
static const char *mpi_reason(void)
{
    if (tt_environment_get("OMPI_COMM_WORLD_SIZE") != NULL) {
        return "TUTTI_ENGINE=mpi, and Open MPI's mpirun started this process";
    }
    if (tt_environment_get("PMI_RANK") != NULL || tt_environment_get("PMI_FD") != NULL) {
        return "TUTTI_ENGINE=mpi, and a PMI launcher, such as MPICH's, started this process";
    }
    return "TUTTI_ENGINE=mpi; mpirun decides, without it the first one installed";
}

static void put_engine(json_t *object, const char *name)
{
    char why[512];
    if (name == NULL || name[0] == '\0') {
        put(object, "engine", "none: TUTTI_ENGINE is not set, Tutti's own algorithms run");
        return;
    }
    const char *found = tt_library_plugin_choose(name, true, why, sizeof(why));
    if (found == NULL) {
        put(object, "engine", "none, a job would be refused: TUTTI_ENGINE=%s: %s", name, why);
    } else if (strcmp(name, "mpi") == 0) {
        put(object, "engine", "%s: %s", found, mpi_reason());
    } else {
        put(object, "engine", "%s: TUTTI_ENGINE=%s", found, name);
    }
}

static void put_transport(json_t *object, const char *name)
{
    char why[512];
    if (name == NULL || name[0] == '\0' || strcmp(name, "auto") == 0) {
        put(object, "transport", "auto: shm on a host, else tcp");
        return;
    }
    const bool is_own = strcmp(name, "shm") == 0 || strcmp(name, "tcp") == 0;
    const char *found = is_own ? name : tt_library_plugin_choose(name, false, why, sizeof(why));
    if (found == NULL) {
        put(object, "transport", "none, a job would be refused: TUTTI_TRANSPORT=%s: %s", name, why);
    } else {
        put(object, "transport", "%s: TUTTI_TRANSPORT=%s", found, name);
    }
}

/* Engines and transports that are installed, and those that a job started here would use. */
static void put_engines(json_t *object)
{
    put(object, "built in", "transports shm and tcp, with Tutti's own algorithms");
    tt_library_plugins(put_plugin, object);
    put_engine(object, tt_environment_get("TUTTI_ENGINE"));
    put_transport(object, tt_environment_get("TUTTI_TRANSPORT"));
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    const info_values *values = raw_values;
    tt_library_place place;
    tt_machine machine;
    (void)operand_count;
    (void)operands;
    if (values->has_costs) {
        tt_library_costs(print_line, NULL);
        return 0;
    }
    json_t *object = values->is_json ? json_object() : NULL;
    if (object != NULL) {
        (void)json_object_set_new(object, "interface", json_array());
    }
    put(object, "tutti", "%s", tutti_version());
    if (values->has_engines) {
        put_engines(object);
    } else {
        tt_machine_read(&machine);
        put_machine(object, &machine);
        tt_machine_interfaces(put_interface, object);
        tt_library_place_find(&place);
        put(object, "launcher", "%s", place.text);
        put_configuration(object);
    }
    if (object != NULL) {
        (void)json_dumpf(object, stdout, JSON_INDENT(2));
        fputc('\n', stdout);
        json_decref(object);
    }
    return 0;
}

static const tt_command_note environment[] = {
    {"TUTTI_*", "Shown; of the secret only its source and a fingerprint."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti info", "For a bug report:"},
    {"tutti info --engines", "Plugins that were found, and which would be used:"},
    {"tutti info --costs > costs", "The table of costs, for TUTTI_COSTS=costs:"},
    {NULL, NULL},
};

const tt_command tt_command_info = {
    .name = "info",
    .summary = "Show the machine, the library and its configuration.",
    .operands = "",
    .description = "Prints what a bug report should contain. The output contains no secrets.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(info_values),
    .environment = environment,
    .examples = examples,
    .run = run,
};
