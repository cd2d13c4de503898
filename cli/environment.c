/* SPDX-License-Identifier: Apache-2.0
 *
 * environment.c - a small ordered map over "NAME=value" strings. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/buffer.h"
#include "cli/environment.h"

static char *duplicate(const char *text, size_t bytes)
{
    char *copy = tt_cli_allocate(bytes + 1, 1);
    memcpy(copy, text, bytes);
    return copy;
}

const char *tt_environment_get(const char *name)
{
    const size_t length = strlen(name);
    for (char **item = environ; *item != NULL; item++) {
        if (strncmp(*item, name, length) == 0 && (*item)[length] == '=') {
            return *item + length + 1;
        }
    }
    return NULL;
}

const char *tt_environment_at(size_t index)
{
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (i == index) {
            return environ[i];
        }
    }
    return NULL;
}

static void append(tt_environment *environment, char *item)
{
    if (environment->count + 1 >= environment->capacity) {
        const size_t capacity = environment->capacity > 0 ? 2 * environment->capacity : 64;
        char **items = tt_cli_allocate(capacity, sizeof(*items));
        if (environment->count > 0) {
            memcpy(items, environment->items, environment->count * sizeof(*items));
        }
        free(environment->items);
        environment->items = items;
        environment->capacity = capacity;
    }
    environment->items[environment->count++] = item;
    environment->items[environment->count] = NULL;
}

void tt_environment_init(tt_environment *environment)
{
    *environment = (tt_environment){0};
    for (char **item = environ; *item != NULL; item++) {
        append(environment, duplicate(*item, strlen(*item)));
    }
}

static void remove_name(tt_environment *environment, const char *name, size_t length)
{
    size_t kept = 0;
    for (size_t i = 0; i < environment->count; i++) {
        char *item = environment->items[i];
        if (strncmp(item, name, length) == 0 && item[length] == '=') {
            free(item);
        } else {
            environment->items[kept++] = item;
        }
    }
    environment->count = kept;
    if (environment->items != NULL) {
        environment->items[kept] = NULL;
    }
}

bool tt_environment_has(const tt_environment *environment, const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->items[i], name, length) == 0 &&
            environment->items[i][length] == '=') {
            return true;
        }
    }
    return false;
}

void tt_environment_put(tt_environment *environment, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (equals != NULL) {
        remove_name(environment, assignment, (size_t)(equals - assignment));
        append(environment, duplicate(assignment, strlen(assignment)));
    }
}

void tt_environment_set(tt_environment *environment, const char *name, const char *value)
{
    const size_t name_length = strlen(name);
    remove_name(environment, name, name_length);
    if (value != NULL) {
        const size_t value_length = strlen(value);
        char *item = tt_cli_allocate(name_length + value_length + 2, 1);
        memcpy(item, name, name_length);
        item[name_length] = '=';
        memcpy(item + name_length + 1, value, value_length);
        append(environment, item);
    }
}

char **tt_environment_adopt(tt_environment *environment)
{
    char **items = environment->items;
    *environment = (tt_environment){0};
    return items;
}

void tt_environment_free(char **items)
{
    for (char **item = items; item != NULL && *item != NULL; item++) {
        free(*item);
    }
    free(items);
}

void tt_environment_install(char **items)
{
    environ = items;
}
