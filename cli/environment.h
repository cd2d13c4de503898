/* SPDX-License-Identifier: Apache-2.0
 *
 * environment.h - the only place of the program that reads or replaces the environment.
 *
 * Layer:   cli.
 * Threads: one at a time.
 * Memory:  a tt_environment copies what it holds.
 */
#ifndef TUTTI_CLI_ENVIRONMENT_H
#define TUTTI_CLI_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tt_environment {
    char **items; /* "NAME=value"; NULL after the last */
    size_t count;
    size_t capacity;
} tt_environment;

/* Value of `name` in this process, or NULL. */
const char *tt_environment_get(const char *name);
/* "NAME=value" number `index` of this process, or NULL beyond the last. */
const char *tt_environment_at(size_t index);

/* A copy of this process's environment. */
void tt_environment_init(tt_environment *environment);
bool tt_environment_has(const tt_environment *environment, const char *name);
/* `value` NULL removes. */
void tt_environment_set(tt_environment *environment, const char *name, const char *value);
/* "NAME=value"; anything without '=' is ignored. */
void tt_environment_put(tt_environment *environment, const char *assignment);
/* Take the array out; free it with tt_environment_free. */
char **tt_environment_adopt(tt_environment *environment);
void tt_environment_free(char **items);
/* Make `items` this process's environment; for a child that is about to exec. */
void tt_environment_install(char **items);

#endif
