/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - MemAvailable, and what the control group leaves of its limit. */
#include "base/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 512 };

/* The number behind `key` in a file of "key number" lines; "" as key: the file is the number. */
static bool read_number(const char *path, const char *key, uint64_t *number_out)
{
    FILE *file = fopen(path, "re");
    char line[256];
    unsigned long long number = 0;
    bool is_found = false;
    while (file != NULL && !is_found && fgets(line, sizeof(line), file) != NULL) {
        const size_t length = strlen(key);
        is_found = strncmp(line, key, length) == 0 && sscanf(line + length, "%llu", &number) == 1;
    }
    if (file != NULL) {
        fclose(file);
    }
    if (is_found) {
        *number_out = number;
    }
    return is_found;
}

/* Limit less usage of the group at `folder`; pages of files that can be dropped do not count. */
static uint64_t group_left(const char *folder, const char *limit_name, const char *usage_name)
{
    char path[PATH_BYTES + 64];
    uint64_t limit, usage, droppable = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, limit_name);
    if (!read_number(path, "", &limit)) { /* none, or "max" */
        return UINT64_MAX;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", folder, usage_name);
    if (!read_number(path, "", &usage)) {
        return UINT64_MAX;
    }
    (void)snprintf(path, sizeof(path), "%s/memory.stat", folder);
    (void)read_number(path, "inactive_file ", &droppable);
    usage -= usage > droppable ? droppable : usage;
    return limit > usage ? limit - usage : 0;
}

/* A line of /proc/self/cgroup: "4:memory:/path" (version 1) or "0::/path" (version 2). */
static uint64_t line_left(char *line)
{
    char folder[PATH_BYTES];
    char *path = strrchr(line, ':');
    line[strcspn(line, "\n")] = 0;
    if (path == NULL) {
        return UINT64_MAX;
    }
    path++;
    if (strncmp(line, "0::", 3) == 0) {
        (void)snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s", path);
        return group_left(folder, "memory.max", "memory.current");
    }
    if (strstr(line, ":memory:") != NULL) {
        (void)snprintf(folder, sizeof(folder), "/sys/fs/cgroup/memory%s", path);
        return group_left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes");
    }
    return UINT64_MAX;
}

uint64_t tt_memory_available(void)
{
    uint64_t kilobytes;
    uint64_t available = UINT64_MAX;
    if (read_number("/proc/meminfo", "MemAvailable:", &kilobytes)) {
        available = kilobytes * 1024;
    }
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_BYTES];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const uint64_t left = line_left(line);
        available = left < available ? left : available;
    }
    if (file != NULL) {
        fclose(file);
    }
    return available;
}
