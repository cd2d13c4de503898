/* SPDX-License-Identifier: Apache-2.0
 *
 * allocation.h - the nodes that a batch system gave to the job this program runs in.
 *
 * Slurm    SLURM_JOB_NODELIST with SLURM_TASKS_PER_NODE, else SLURM_JOB_CPUS_PER_NODE
 * PBS      PBS_NODEFILE, a line for each slot
 * LSF      LSB_MCPU_HOSTS, names and slots in turn
 *
 * Inside a step of several tasks (srun -n 4 tutti run ...) there is no allocation to use: every
 * task would start a job over all nodes.
 *
 * Layer:   cli.
 * Threads: pure but for the two callbacks.
 * Memory:  the caller owns everything.
 */
#ifndef TUTTI_CLI_RUN_ALLOCATION_H
#define TUTTI_CLI_RUN_ALLOCATION_H

#include "cli/run/hostfile.h"

/* Source of variables and files: the process, or a test. */
typedef struct tt_allocation_source {
    const char *(*lookup)(const char *name); /* NULL when not set */
    char *(*read)(const char *path);         /* NULL with a message; the caller frees */
} tt_allocation_source;

typedef struct tt_allocation {
    const char *system; /* "Slurm", "PBS", "LSF"; NULL: no allocation */
    const char *job;    /* its number, or "" */
} tt_allocation;

/* Append the nodes to `hosts`, each with its slots or, if it has any, `hosts->slots_default`.
 * TT_OK also without an allocation. TT_ERR_BAD_ARGUMENT: `error` names the culprit. */
tt_status tt_allocation_find(const tt_allocation_source *source, tt_hosts *hosts,
                             tt_allocation *found_out, char *error, size_t error_bytes);

/* For more ranks than slots: raise the slots of the nodes, evenly, until the ranks fit. */
void tt_allocation_widen(tt_hosts *hosts, int rank_count);

#endif
