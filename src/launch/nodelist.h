/* SPDX-License-Identifier: Apache-2.0
 *
 * nodelist.h - Slurm's shorthand for many hosts: "n[0-3,007],m5", and for counts: "2(x3),1".
 *
 * Layer:   launch.
 * Threads: pure.
 * Memory:  the caller owns every buffer; nothing is stored, so that the first host of
 *          "n[0-4000000000]" costs no memory.
 */
#ifndef TUTTI_LAUNCH_NODELIST_H
#define TUTTI_LAUNCH_NODELIST_H

#include <stddef.h>
#include <stdint.h>

#include "launch/rendezvous.h"

enum {
    TT_LAUNCH_NODELIST_HOSTS_MAX = 1 << 17, /* walked at most; a longer list is refused */
    TT_LAUNCH_NODELIST_BRACKETS_MAX = 8,    /* per name, as in rack[0-3]node[0-7] */
};

/* The host at `index` in the order Slurm counts nodes; the last bracket varies fastest.
 * TT_ERR_BAD_CONFIG with a reason for broken syntax or an index beyond the list. */
tt_status tt_launch_nodelist_host(const char *list, uint32_t index,
                                  char host_out[TT_LAUNCH_HOST_BYTES], tt_launch_why *why);

/* The number of hosts; TT_ERR_BAD_CONFIG above TT_LAUNCH_NODELIST_HOSTS_MAX. */
tt_status tt_launch_nodelist_count(const char *list, uint32_t *count_out, tt_launch_why *why);

/* Tasks on node `index` according to SLURM_STEP_TASKS_PER_NODE. */
tt_status tt_launch_tasks_on_node(const char *counts, uint32_t index, uint32_t *tasks_out,
                                  tt_launch_why *why);

#endif
