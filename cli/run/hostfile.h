/* SPDX-License-Identifier: Apache-2.0
 *
 * hostfile.h - which hosts a job runs on and how many ranks each takes.
 *
 * Two notations, one result: a list "node1:4,node2:4" and a file with one host a line ("node1",
 * "node1:4", "node1 slots=4 max_slots=8"; '#' starts a comment). A host named twice gets the sum of
 * its slots. max_slots is a bound, as in Open MPI: it cuts the default of a host without slots.
 *
 * Layer:   cli.
 * Threads: pure.
 * Memory:  the caller owns the table (tt_hosts_fini).
 */
#ifndef TUTTI_CLI_RUN_HOSTFILE_H
#define TUTTI_CLI_RUN_HOSTFILE_H

#include <stddef.h>

#include "base/status.h"

enum {
    TT_HOST_NAME_MAX = 255,
    TT_HOST_COUNT_MAX = 65536,
    TT_HOST_SLOTS_MAX = 4096,
};

typedef struct tt_host {
    char name[TT_HOST_NAME_MAX + 1];
    int slots;
} tt_host;

typedef struct tt_hosts {
    tt_host *items;
    size_t count;
    size_t capacity;
    int slots_default; /* for hosts without a number; 0 means 1 */
} tt_hosts;

void tt_hosts_fini(tt_hosts *hosts);

/* Both append. On TT_ERR_BAD_ARGUMENT `error` (error_bytes long) names the culprit; the file form
 * starts it with "name:line: ". */
tt_status tt_hosts_parse_list(tt_hosts *hosts, const char *list, char *error, size_t error_bytes);
tt_status tt_hosts_parse_file(tt_hosts *hosts, const char *file_name, const char *text, char *error,
                              size_t error_bytes);

/* One host; as an entry of a list. */
tt_status tt_hosts_add(tt_hosts *hosts, const char *name, int slots, char *error,
                       size_t error_bytes);

int tt_hosts_slots(const tt_hosts *hosts);

#endif
