/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - MemAvailable, and what the control group leaves of its limit. */
#include "base/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"

enum {
    PATH_BYTES = 1024,
    SHARERS = 64, /* processes that may take a piece each before one of them checks again */
};

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

/* Limit less usage of the group at `folder`; droppable file pages do not count. */
static uint64_t group_left(const char *folder, const char *limit_name, const char *usage_name)
{
    char path[PATH_BYTES + 32];
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

/* The least that the group at `folder` and those above it leave, up to the mount of `mount_length`
 * bytes. `folder` is truncated. In a container without a cgroup namespace the path is the host's,
 * of which only the mount itself exists: it is the container's group. */
static uint64_t groups_left(char *folder, size_t mount_length, bool is_unified)
{
    const char *limit_name = is_unified ? "memory.max" : "memory.limit_in_bytes";
    const char *usage_name = is_unified ? "memory.current" : "memory.usage_in_bytes";
    uint64_t left = UINT64_MAX;
    for (char *end = folder + strlen(folder); end != NULL; end = strrchr(folder, '/')) {
        *end = 0;
        if (strlen(folder) < mount_length) {
            break;
        }
        left = tt_min_u64(left, group_left(folder, limit_name, usage_name));
    }
    return left;
}

/* A line of /proc/self/cgroup: "4:memory:/path" (version 1) or "0::/path" (version 2). */
static uint64_t line_left(const char *root, char *line)
{
    char folder[PATH_BYTES];
    const char *path = strrchr(line, ':');
    const bool is_unified = strncmp(line, "0::", 3) == 0;
    line[strcspn(line, "\n")] = 0;
    if (path == NULL || (!is_unified && strstr(line, ":memory:") == NULL)) {
        return UINT64_MAX;
    }
    const int mount_length =
        snprintf(folder, sizeof(folder), "%s/sys/fs/cgroup%s", root, is_unified ? "" : "/memory");
    const size_t room = sizeof(folder) - (size_t)mount_length;
    const int length = snprintf(folder + mount_length, room, "%s", path + 1);
    return length < (int)room ? groups_left(folder, (size_t)mount_length, is_unified) : UINT64_MAX;
}

uint64_t tt_memory_available_below(const char *root)
{
    uint64_t kilobytes;
    uint64_t available = UINT64_MAX;
    char line[PATH_BYTES];
    TT_ASSERT(strlen(root) < PATH_BYTES / 2);
    (void)snprintf(line, sizeof(line), "%s/proc/meminfo", root);
    if (read_number(line, "MemAvailable:", &kilobytes)) {
        available = kilobytes * 1024;
    }
    (void)snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        available = tt_min_u64(available, line_left(root, line));
    }
    if (file != NULL) {
        fclose(file);
    }
    return available;
}

uint64_t tt_memory_available(void)
{
    return tt_memory_available_below("");
}

uint64_t tt_memory_next_piece(uint64_t bytes, uint64_t *available_out)
{
    const uint64_t available = tt_memory_available();
    const uint64_t room = available - tt_min_u64(available, TT_MEMORY_RESERVE_BYTES);
    const uint64_t share = room / SHARERS / TT_MEMORY_PIECE_BYTES * TT_MEMORY_PIECE_BYTES;
    *available_out = available;
    return bytes <= room ? tt_min_u64(bytes, tt_max_u64(share, TT_MEMORY_PIECE_BYTES)) : 0;
}
