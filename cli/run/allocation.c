/* SPDX-License-Identifier: Apache-2.0
 *
 * allocation.c - one reader per batch system; the first whose variable is set is used. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/library.h"
#include "cli/run/allocation.h"

typedef struct reading {
    const tt_allocation_source *source;
    tt_hosts *hosts;
    char *error;
    size_t error_bytes;
} reading;

static const char *get(const reading *read, const char *name)
{
    const char *value = read->source->lookup(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static tt_status add(reading *read, const char *variable, const char *host, int slots)
{
    char reason[200];
    const int wanted = read->hosts->slots_default;
    if (tt_hosts_add(read->hosts, host, wanted > 0 ? wanted : slots, reason, sizeof(reason)) ==
        TT_OK) {
        return TT_OK;
    }
    snprintf(read->error, read->error_bytes, "%s: %s", variable, reason);
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status read_slurm(reading *read, const char *nodes)
{
    const char *slots_name = "SLURM_TASKS_PER_NODE";
    const char *counts = get(read, slots_name);
    if (counts == NULL) {
        slots_name = "SLURM_JOB_CPUS_PER_NODE";
        counts = get(read, slots_name);
    }
    const char *tasks = get(read, "SLURM_STEP_NUM_TASKS");
    if (tasks != NULL && strcmp(tasks, "1") != 0) {
        return TT_OK;
    }
    tt_library_node node;
    for (uint32_t i = 0; tt_library_node_at(nodes, counts, i, &node); i++) {
        TT_TRY(add(read, "SLURM_JOB_NODELIST", node.host, node.slots));
    }
    if (node.why[0] != '\0') {
        snprintf(read->error, read->error_bytes, "SLURM_JOB_NODELIST and %s: %s", slots_name,
                 node.why);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status read_pbs(reading *read, const char *path)
{
    tt_hosts listed = {0};
    char *text = read->source->read(path);
    if (text == NULL) {
        snprintf(read->error, read->error_bytes, "PBS_NODEFILE=%.200s cannot be read", path);
        return TT_ERR_BAD_ARGUMENT;
    }
    tt_status status =
        tt_hosts_parse_file(&listed, "PBS_NODEFILE", text, read->error, read->error_bytes);
    free(text);
    for (size_t i = 0; status == TT_OK && i < listed.count; i++) {
        status = add(read, "PBS_NODEFILE", listed.items[i].name, listed.items[i].slots);
    }
    tt_hosts_fini(&listed);
    return status;
}

static tt_status read_lsf(reading *read, const char *pairs)
{
    while (pairs[strspn(pairs, " ")] != '\0') {
        char host[TT_HOST_NAME_MAX + 1];
        int slots, used = 0;
        if (sscanf(pairs, " %255s %d%n", host, &slots, &used) != 2) {
            snprintf(read->error, read->error_bytes,
                     "LSB_MCPU_HOSTS is not a list of names and slots at '%.60s'", pairs);
            return TT_ERR_BAD_ARGUMENT;
        }
        TT_TRY(add(read, "LSB_MCPU_HOSTS", host, slots));
        pairs += used;
    }
    return TT_OK;
}

static const struct {
    const char *system, *variable, *job;
    tt_status (*read)(reading *read, const char *value);
} systems[] = {
    {"Slurm", "SLURM_JOB_NODELIST", "SLURM_JOB_ID", read_slurm},
    {"PBS", "PBS_NODEFILE", "PBS_JOBID", read_pbs},
    {"LSF", "LSB_MCPU_HOSTS", "LSB_JOBID", read_lsf},
};

tt_status tt_allocation_find(const tt_allocation_source *source, tt_hosts *hosts,
                             tt_allocation *found_out, char *error, size_t error_bytes)
{
    reading read = {source, hosts, error, error_bytes};
    *found_out = (tt_allocation){NULL, ""};
    for (size_t i = 0; i < TT_ARRAY_COUNT(systems); i++) {
        const char *value = get(&read, systems[i].variable);
        if (value == NULL) {
            continue;
        }
        TT_TRY(systems[i].read(&read, value));
        if (hosts->count > 0) {
            const char *job = get(&read, systems[i].job);
            *found_out = (tt_allocation){systems[i].system, job != NULL ? job : ""};
        }
        return TT_OK;
    }
    return TT_OK;
}

void tt_allocation_widen(tt_hosts *hosts, int rank_count)
{
    const int host_count = (int)hosts->count;
    const int share = (rank_count + host_count - 1) / host_count;
    for (int i = 0; i < host_count && tt_hosts_slots(hosts) < rank_count; i++) {
        hosts->items[i].slots = hosts->items[i].slots > share ? hosts->items[i].slots : share;
    }
}
