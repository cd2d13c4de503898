/* SPDX-License-Identifier: Apache-2.0
 *
 * tf_config.h - TF_CONFIG, the JSON text in which TFJob and Ray give a process its task:
 *
 *     {"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["d:2222"]},
 *      "task": {"type": "worker", "index": 0}}
 *
 * Chiefs (or masters) are the first ranks, workers follow; parameter servers and evaluators are
 * not ranks. Only these parts of the JSON are read, the rest is skipped.
 *
 * Layer:   launch.
 * Threads: pure.
 * Memory:  plain values; nothing allocates.
 */
#ifndef TUTTI_LAUNCH_TF_CONFIG_H
#define TUTTI_LAUNCH_TF_CONFIG_H

#include <stdbool.h>

#include "launch/rendezvous.h"

enum { TT_LAUNCH_TF_PLACE_BYTES = TT_LAUNCH_HOST_BYTES + 8 };

typedef struct tt_launch_tf_config {
    bool is_rank; /* there is a cluster, and the task is a chief or worker of it */
    uint32_t rank;
    uint32_t size;
    char first[TT_LAUNCH_TF_PLACE_BYTES]; /* "host:port" of rank 0 */
} tt_launch_tf_config;

/* TT_ERR_BAD_CONFIG with a reason for broken JSON or a task index that is missing or not in its
 * list.
 * `*config_out` is set only on TT_OK. */
tt_status tt_launch_tf_config_parse(const char *text, tt_launch_tf_config *config_out,
                                    tt_launch_why *why);

#endif
