/* SPDX-License-Identifier: Apache-2.0
 *
 * command_config.c - `tutti config`: every TUTTI_* variable, its value here, and its meaning. */
#include <stdio.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/library.h"

typedef struct config_values {
    bool has_changed_only;
    bool has_launcher;
} config_values;

static const tt_option options[] = {
    {'\0', "set", TT_OPTION_FLAG, offsetof(config_values, has_changed_only), NULL,
     "show only variables that are set", NULL, NULL, NULL, 0, 0},
    {'a', "all", TT_OPTION_FLAG, offsetof(config_values, has_launcher), NULL,
     "also show variables that launchers set", NULL, NULL, NULL, 0, 0},
};

static void complain(void *user, const char *sentence)
{
    (void)user;
    fprintf(stderr, "tutti config: %s\n", sentence);
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    const config_values *values = raw_values;
    (void)operand_count;
    (void)operands;
    char secret[512];
    tt_library_variable variable;
    tt_library_secret(secret, sizeof(secret));
    printf("# the secret of a job started here: %s\n", secret);
    for (size_t i = 0; tt_library_variable_at(i, &variable); i++) {
        const char *value = tt_library_variable_show(&variable);
        const bool is_shown = (value != NULL || !values->has_changed_only) &&
                              (!variable.is_set_by_launcher || values->has_launcher);
        if (is_shown) {
            printf("# %s%s\n# accepted: %s\n%s=%s\n", variable.help, value == NULL ? "" : " (set)",
                   variable.accepted, variable.name, value != NULL ? value : variable.default_text);
        }
    }
    (void)fflush(stdout);
    return tt_library_find_bad(complain, NULL) == 0 ? 0 : 1;
}

static const tt_command_note exit_status[] = {
    {"0", "Every value is accepted."},
    {"1", "tutti_init would refuse one; standard error names it."},
    {"2", "Wrong usage."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti config", "Every variable, its meaning and its accepted values:"},
    {"tutti config --set", "Only variables that are set:"},
    {NULL, NULL},
};

const tt_command tt_command_config = {
    .name = "config",
    .summary = "List the configuration: every TUTTI_* variable, its value and meaning.",
    .operands = "",
    .description = "The library reads its configuration from variables that begin with TUTTI_. "
                   "Each is shown with its meaning, its accepted values, and its value here or "
                   "its default. A value that tutti_init would refuse is reported.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(config_values),
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
