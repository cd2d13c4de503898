/* SPDX-License-Identifier: Apache-2.0
 *
 * api.h - the settings of a context; what the command line tool may know of this layer.
 *
 * Layer:   api, the composition root: the only place that sees every layer.
 * Threads: pure.
 * Memory:  none.
 */
#ifndef TUTTI_API_API_H
#define TUTTI_API_API_H

#include <stdint.h>

#include "base/config.h"

typedef enum tt_transport_choice {
    TT_TRANSPORT_AUTO,
    TT_TRANSPORT_SHM,
    TT_TRANSPORT_TCP,
    TT_TRANSPORT_PLUGIN,
} tt_transport_choice;

/* Filled from TUTTI_* variables by the table below. */
typedef struct tt_settings {
    tt_config_string transport_name;
    int transport; /* tt_transport_choice, from the name */
    int integrity; /* index: crc, none, aead */
    int log_level;
    tt_config_string algorithm;
    tt_config_string engine;
    tt_config_string plugin_path;
    uint64_t segment_bytes;
    uint64_t eager_bytes;
    uint64_t ring_bytes;
    uint64_t arena_bytes;
    uint64_t timeout_ns;
    uint64_t stall_ns;
    uint64_t start_timeout_ns;
    uint64_t goodbye_ns;
    uint64_t keepalive_ns;
    bool spins;
    int64_t sockets;
    int64_t rails;
    int control; /* tt_negotiate_mode */
    int64_t cache_capacity;
    int64_t steps_to_plan;
    uint64_t cycle_ns;
    uint64_t stall_fail_ns;
    uint64_t fuse_bytes, bundle_bytes;
} tt_settings;

extern const tt_config_table tt_settings_table;

#endif
