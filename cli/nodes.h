/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.h - how many NUMA nodes a machine has, and how many of them are near some cores.
 *
 * Layer: cli.
 * Threads: any.
 * Memory: none is kept. */
#ifndef TUTTI_CLI_NODES_H
#define TUTTI_CLI_NODES_H

#include <sched.h>
#include <stdbool.h>

typedef struct tt_nodes {
    int count;     /* 0: unknown */
    int own_count; /* of those, near one of the cores */
} tt_nodes;

/* `folder`: TT_NODES_FOLDER, or one that looks like it. */
#define TT_NODES_FOLDER "/sys/devices/system/node"
tt_nodes tt_nodes_read(const char *folder, const cpu_set_t *cores);

/* Is one of the cores in a list like "0-3,8,10-11"? Stops at the first malformed item. */
bool tt_nodes_list_meets(const char *list, const cpu_set_t *cores);

#endif
