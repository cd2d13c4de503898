/* SPDX-License-Identifier: Apache-2.0
 *
 * servers.h - which processes of a job are servers: TUTTI_SERVERS and TUTTI_ROLE.
 *
 * Of the processes that the launcher numbers, the last TUTTI_SERVERS are servers and the others
 * workers. TUTTI_ROLE decides nothing: a launcher that starts both kinds sets it, and it is
 * compared with the number.
 *
 * Layer:   launch.
 * Threads: pure over the lookup.
 * Memory:  plain values.
 */
#ifndef TUTTI_LAUNCH_SERVERS_H
#define TUTTI_LAUNCH_SERVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/family.h"

typedef enum tt_launch_claim {
    TT_LAUNCH_CLAIM_NONE, /* TUTTI_ROLE is not set */
    TT_LAUNCH_CLAIM_WORKER,
    TT_LAUNCH_CLAIM_SERVER,
} tt_launch_claim;

typedef struct tt_launch_servers {
    uint32_t rank, size; /* of all processes */
    uint32_t count;      /* TUTTI_SERVERS */
    tt_launch_claim claim;
} tt_launch_servers;

/* "worker" or "server". */
bool tt_launch_claim_parse(const char *text, tt_launch_claim *claim_out);

/* TT_ERR_BAD_CONFIG: a value is not a number, or no role. */
tt_status tt_launch_servers_read(const tt_launch_source *source, const tt_launch_identity *identity,
                                 tt_launch_servers *servers_out, tt_launch_why *why);

/* By its number; meaningful once the check below has passed. */
bool tt_launch_servers_is_server(const tt_launch_servers *servers);

/* May this process join as what it is about to be (`serves`: a server)? TT_ERR_BAD_CONFIG: there
 * would be no worker, or number, TUTTI_ROLE and `serves` contradict each other. */
tt_status tt_launch_servers_check(const tt_launch_servers *servers, bool serves,
                                  tt_launch_why *why);

#endif
