/* SPDX-License-Identifier: Apache-2.0
 *
 * api.h - the settings of a context; the part of this layer that the command line tool may use.
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

typedef enum tt_control_transport {
    TT_CONTROL_TRANSPORT_AUTO,
    TT_CONTROL_TRANSPORT_MPI,
} tt_control_transport;

/* As TUTTI_INTEGRITY names them. */
typedef enum tt_integrity {
    TT_INTEGRITY_CRC,
    TT_INTEGRITY_NONE,
    TT_INTEGRITY_AEAD,
} tt_integrity;

typedef enum tt_schedule_mode {
    TT_SCHEDULE_AUTO,     /* by priority, where the measured steps leave something to gain */
    TT_SCHEDULE_OFF,      /* the plain path: in the order of calls */
    TT_SCHEDULE_FIFO,     /* the same under credit */
    TT_SCHEDULE_PRIORITY, /* always */
} tt_schedule_mode;

/* Filled from TUTTI_* variables by the table below. */
typedef struct tt_settings {
    tt_config_string transport_name;
    int control_transport; /* tt_control_transport */
    int transport;         /* tt_transport_choice, from the name */
    int integrity;         /* tt_integrity */
    int log_level;
    tt_config_string algorithm;
    tt_config_string engine;
    tt_config_string plugin_path;
    tt_config_string costs; /* auto, none, or a file */
    uint64_t segment_bytes;
    uint64_t backlog_bytes;
    uint64_t eager_bytes;
    uint64_t ring_bytes;
    uint64_t arena_bytes;
    uint64_t timeout_ns;
    uint64_t stall_ns;
    uint64_t start_timeout_ns;
    uint64_t goodbye_ns;
    uint64_t keepalive_ns;
    bool spins;
    tt_config_string threads; /* auto, or a number */
    int64_t sockets;
    tt_config_string congestion; /* empty: the system's */
    tt_config_string rails;      /* likewise */
    int control;                 /* tt_negotiate_mode */
    int64_t cache_capacity;
    int64_t steps_to_plan;
    uint64_t cycle_ns;
    uint64_t stall_fail_ns;
    uint64_t fuse_bytes, bundle_bytes, late_ns;
    tt_config_string groups; /* auto, or a number */
    int schedule;            /* tt_schedule_mode */
    uint64_t credit_bytes, chunk_bytes;
    tt_config_string order; /* a file of `tutti schedule -o`; empty: learnt, or the caller's */
    bool tunes;
    tt_config_string profile; /* where the tuner's samples are kept; empty: nowhere */
    tt_config_string rules;   /* a file of codec/rule_text.h; empty: no rules */
    tt_config_string codec;   /* of gradients that meet no rule; empty: none */
    uint64_t codec_min_bytes; /* tensors up to this size get no codec */
    int sum;                  /* tt_rule_sum: of named all-reduces that meet no rule */
} tt_settings;

extern const tt_config_table tt_settings_table;

/* Everything that tutti_init reads into `settings`: values, and values derived from others.
 * TT_ERR_BAD_CONFIG: `why` names the culprit and the accepted values. */
tt_status tt_settings_load(const tt_config_source *source, tt_settings *settings, tt_text *why);
/* The part of tt_settings_load that checks settings against each other. */
tt_status tt_settings_check(const tt_settings *settings, tt_text *why);
/* Name of the transport: a plugin's, or one of our own. NULL: settings contradict each other; `why`
 * has the text. */
const char *tt_settings_transport_name(const tt_settings *settings, tt_text *why);
/* Check the files that TUTTI_COSTS, TUTTI_ORDER and TUTTI_RULES may name, as rank 0 reads them. */
tt_status tt_costs_check(const char *wanted, tt_text *why);
tt_status tt_name_order_check(const char *path, tt_text *why);
tt_status tt_rules_check(const tt_settings *settings, tt_text *why);

struct tutti_context;

/* The algorithm that a call on the world would run, and its time by the table of costs; 0: the
 * table has no line for it. `bytes`: of the vector, or of one rank's part. */
typedef struct tt_model {
    const char *algorithm;
    double time_s;
} tt_model;
tt_model tt_context_model(struct tutti_context *context, int collective, uint64_t bytes);

/* The table of costs that rank 0 would read in a job of this process: its file, then its text or
 * the error in it. `print` receives one line at a time, without newline. */
void tt_costs_print(void (*print)(void *user, const char *line), void *user);

#endif
