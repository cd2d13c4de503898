/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c - the kernel has a folder for each NUMA node, with a list of its cores. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/nodes.h"

bool tt_nodes_list_meets(const char *list, const cpu_set_t *cores)
{
    while (isdigit((unsigned char)*list)) {
        char *end;
        const unsigned long first = strtoul(list, &end, 10);
        const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        for (unsigned long core = first; core <= last && core < CPU_SETSIZE; core++) {
            if (CPU_ISSET(core, cores)) {
                return true;
            }
        }
        list = *end == ',' ? end + 1 : end;
    }
    return false;
}

static bool is_near(const char *folder, const char *node, const cpu_set_t *cores)
{
    char path[512];
    char list[8192] = "";
    (void)snprintf(path, sizeof(path), "%s/%s/cpulist", folder, node);
    FILE *file = fopen(path, "re");
    const bool is_read = file != NULL && fgets(list, sizeof(list), file) != NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_read && tt_nodes_list_meets(list, cores);
}

tt_nodes tt_nodes_read(const char *folder, const cpu_set_t *cores)
{
    tt_nodes nodes = {0, 0};
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (strncmp(entry->d_name, "node", 4) == 0 && isdigit((unsigned char)entry->d_name[4])) {
            nodes.count++;
            nodes.own_count += is_near(folder, entry->d_name, cores);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return nodes;
}
