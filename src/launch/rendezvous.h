/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous.h - where the ranks of a job meet, and how users write it.
 *
 *     tcp://node7:29501        tcp://10.0.0.7:29501-29516      tcp://[fe80::1%eth0]:29501
 *     file:///shared/job-17    pmi:                            none
 *
 * A port range means: rank 0 listens on its first free port, the others try each in turn. The
 * handshake carries the job id, so that another program on one of the ports is recognised.
 *
 * Layer:   launch.
 * Threads: pure.
 * Memory:  plain values; nothing allocates.
 */
#ifndef TUTTI_LAUNCH_RENDEZVOUS_H
#define TUTTI_LAUNCH_RENDEZVOUS_H

#include <stddef.h>
#include <stdint.h>

#include "launch/reasons.h"

enum {
    TT_LAUNCH_HOST_BYTES = 256,  /* the longest DNS name and its terminator */
    TT_LAUNCH_PATH_BYTES = 1024, /* leaves room for a file name below PATH_MAX */
    TT_LAUNCH_PORT_MAX = 65535,
    TT_LAUNCH_RENDEZVOUS_TEXT_BYTES = TT_LAUNCH_PATH_BYTES + 32,
};

typedef enum tt_launch_rendezvous_kind {
    TT_LAUNCH_RENDEZVOUS_NONE, /* a job of one rank */
    TT_LAUNCH_RENDEZVOUS_TCP,
    TT_LAUNCH_RENDEZVOUS_FILE,
    TT_LAUNCH_RENDEZVOUS_PMI,
    TT_LAUNCH_RENDEZVOUS_ENGINE, /* an engine (MPI, PMIx) carries rank 0's address to the others */
} tt_launch_rendezvous_kind;

typedef struct tt_launch_rendezvous {
    tt_launch_rendezvous_kind kind;
    char host[TT_LAUNCH_HOST_BYTES]; /* TCP: name or literal, without brackets */
    uint16_t port_first;             /* TCP: never 0 */
    uint16_t port_count;             /* TCP: at least 1, port_first + port_count <= 65536 */
    char path[TT_LAUNCH_PATH_BYTES]; /* FILE: absolute */
} tt_launch_rendezvous;

/* A host as written in a URL or in MASTER_ADDR: IPv4, host name, IPv6 with or without brackets.
 * `host_out` has no brackets. */
tt_status tt_launch_host_parse(const char *text, size_t text_bytes,
                               char host_out[TT_LAUNCH_HOST_BYTES], tt_launch_why *why);

/* "29501" or "29501-29516"; first <= last, 1..65535. */
tt_status tt_launch_port_range_parse(const char *text, size_t text_bytes,
                                     tt_launch_rendezvous *range_out, tt_launch_why *why);

/* Any of the forms at the top of this file. `*rendezvous_out` is set only on TT_OK. */
tt_status tt_launch_rendezvous_parse(const char *text, tt_launch_rendezvous *rendezvous_out,
                                     tt_launch_why *why);

/* The form that parse accepts again. */
void tt_launch_rendezvous_format(const tt_launch_rendezvous *rendezvous,
                                 char text_out[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES]);

#endif
