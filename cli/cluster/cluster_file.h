/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_file.h - modelled clusters from files, and back.
 *
 * JSON: {"name": "mine", "summary": "...", "base": "ethernet-25g",
 *        "hosts": {"source": "measured", "count": 16},
 *        "network": {"source": "assumed", "latency_us": 9.5, "bandwidth_gbs": 2.8}}
 * Groups and members are the fields of sim/cluster.h. All are optional: what is not given is that
 * of "base", a known cluster, else the field's default. "source" is measured, published or assumed.
 *
 * Layer:   cli.
 * Threads: pure, but for the reading of files.
 * Memory:  none kept.
 */
#ifndef TUTTI_CLI_CLUSTER_CLUSTER_FILE_H
#define TUTTI_CLI_CLUSTER_CLUSTER_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/sim.h"

/* The bytes of a file, and its name for messages. */
typedef struct tt_cluster_text {
    const char *path;
    const char *text;
    size_t bytes;
} tt_cluster_text;

/* The cluster is checked. TT_ERR_BAD_CONFIG: `why` is "path:line: cause and cure". */
tt_status tt_cluster_read_json(const tt_cluster_text *source, tt_text *why,
                               tt_cluster *cluster_out);

/* Whether it names a file: it ends in .json or has a slash. All others are known clusters. */
bool tt_cluster_is_file(const char *name);

/* Such a file, or a known cluster. On failure `why` names it. */
tt_status tt_cluster_load(const char *name, tt_text *why, tt_cluster *cluster_out);

/* The name of a file without folders and ending, as far as it is one for a cluster; else unchanged.
 */
void tt_cluster_name_from_path(const char *path, tt_cluster *cluster);

/* As JSON that is read as the same cluster. False if it could not be written. */
bool tt_cluster_write_json(const tt_cluster *cluster, FILE *stream);

#endif
